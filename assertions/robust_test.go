package assertions

// Properties of judging any history, plausible or not: it ends, does not panic, is deterministic, and never passes a
// run without evidence.

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/history"
)

// anyEvent draws an arbitrary event, with small numbers, so that events refer to each other, and with extreme values.
func anyEvent(t *rapid.T) history.Event {
	number := rapid.OneOf(rapid.Int64Range(-2, 6),
		rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, 1 << 40, -1 << 40}))
	n := func(what string) int64 { return number.Draw(t, what) }
	e := history.New(history.Kind(rapid.IntRange(0, 40).Draw(t, "kind")),
		time.Duration(rapid.Int64Range(0, 40).Draw(t, "time"))*10*ms)
	e.Outcome = history.Outcome(rapid.IntRange(0, 10).Draw(t, "outcome"))
	e.Flags = history.Flags(rapid.IntRange(0, 1<<9-1).Draw(t, "flags"))
	e.Instance, e.Run, e.Topic = int16(n("instance")), uint16(n("run")), int16(n("topic"))
	e.Partition, e.Record, e.N, e.Offset = int32(n("partition")), int32(n("record")), int32(n("n")), n("offset")
	e.Code, e.Op, e.Aux = int16(n("code")), n("op"), n("aux")
	e.KeyHash, e.ValueHash, e.HeaderCount = uint64(n("key")), uint64(n("value")), int32(n("headers"))
	e.Claim = &history.Claim{Topic: int16(n("claim")), Offset: n("claimed")}
	e.Text = rapid.SampledFrom([]string{
		"", "STOP", "CONT", "TERM", "drain", "replay", "seal", "audit", "steady", "\x00\xff",
	}).Draw(t, "text")
	return e
}

func TestAnythingCanBeJudged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBuilder()
		b.fault("network", "downstream", "x")
		b.fault("kafka", "dlq", "Produce")
		b.h.Replay = rapid.Bool().Draw(t, "replay")
		b.h.Contract().Retry = rapid.SampledFrom([]history.Retry{history.RetryInPlace, history.RetryTopics}).Draw(t, "retry")
		b.h.Contract().Counter = rapid.SampledFrom([]history.Counter{history.CounterMemory, history.CounterHeader,
			history.CounterDelivery, ""}).Draw(t, "counter")
		b.h.Contract().Envelope = rapid.SampledFrom([]string{"plain", "", "other"}).Draw(t, "envelope")
		b.h.Contract().GroupType = rapid.SampledFrom([]history.GroupType{"", history.GroupShare}).Draw(t, "group type")
		b.h.Contract().WireOnly = rapid.Bool().Draw(t, "wire only")
		b.h.Contract().AutoCommit = rapid.Bool().Draw(t, "auto commit")
		b.h.Records = rapid.IntRange(0, 6).Draw(t, "records")
		b.events = rapid.SliceOfN(rapid.Custom(anyEvent), 0, 80).Draw(t, "events")
		v, _, err := Judge(b.source())
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := Judge(b.source())
		if err != nil {
			t.Fatal(err)
		}
		if one, two := asJSON(t, v), asJSON(t, again); !bytes.Equal(one, two) {
			t.Fatalf("judged twice, and not the same:\n%s\n%s", one, two)
		}
		for _, r := range v.Invariants {
			if r.Status == Pass && r.Judged <= 0 || r.Status == "" || (r.Status == Fail) != (len(r.Anomalies) > 0) {
				t.Fatalf("%s with %d judged and %d anomalies: %s", r.Name, r.Judged, len(r.Anomalies), r.Status)
			}
		}
	})
}

// A damaged history fetched up to 2⁴⁰ and committed all of it. The judge must not examine each of these offsets.
func TestACommitOfTooMuchIsJudgedInTime(t *testing.T) {
	b := newBuilder()
	b.h.Contract().OffsetMetadata = history.MetadataRanges
	b.begin().send(0).success(0)
	far := b.of(history.KindFetched)
	far.Topic, far.Partition, far.Offset, far.Aux = input, 1, 0, 1<<40
	b.put(far)
	b.commit(1)
	for _, named := range []string{"", "4-4294967295"} {
		asked := b.askCommit(1, 3)
		if named == "" {
			asked = b.askCommit(1, 1<<40)
		}
		b.events[len(b.events)-1].Text = named
		b.answerCommit(asked, 0, 0)
	}
	done := make(chan error, 1)
	go func() { _, _, err := Judge(b.drain().done()); done <- err }()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it is still at it after a minute; 2⁴⁰ looks take an hour, and those that are needed none")
	}
}

type fataler interface{ Fatal(...any) }

func asJSON(t fataler, v *Verdict) []byte {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// FuzzJudge mixes plausible histories with damage: events omitted, repeated, moved.
func FuzzJudge(f *testing.F) {
	f.Add([]byte{1, 2, 3})
	f.Add([]byte{200, 7, 9, 200, 4, 4, 4})
	f.Fuzz(func(t *testing.T, edits []byte) {
		b := newBuilder()
		b.begin().send(0).send(1).success(0).fails(1, 3).letter(1).commit(2).drain()
		b.done()
		for i, edit := range edits {
			if len(b.events) == 0 {
				break
			}
			at := (int(edit)*31 + i) % len(b.events)
			switch edit % 4 {
			case 0:
				b.events = slices.Delete(b.events, at, at+1)
			case 1:
				b.events = append(b.events, b.events[at])
			case 2:
				b.events[at].Time += time.Duration(edit) * ms
			case 3:
				b.events[at].Kind = history.Kind(edit % 28)
			}
		}
		if _, _, err := Judge(b.source()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestCorrectConsumersAreJudgedAlikeEachTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source := simulate(t, rapid.SampledFrom([]string{"", "commit-past", "twice", "hasty"}).Draw(t, "bug")).done()
		var seen []byte
		for range 3 {
			v, _, err := Judge(source)
			if err != nil {
				t.Fatal(err)
			}
			data := asJSON(t, v)
			if seen != nil && !bytes.Equal(seen, data) {
				t.Fatal("judged twice, and not the same")
			}
			seen = data
		}
	})
}

// TestNoJitter checks that two hundred waits without the promised jitter are reported, and waits with it, or with
// additional noise, are not.
func TestNoJitter(t *testing.T) {
	for _, one := range []struct {
		name  string
		gaps  int
		extra func(i int) time.Duration
		named bool
	}{
		{"none at all", 250, func(int) time.Duration { return 0 }, true},
		{"none, and a little noise", 250, func(i int) time.Duration {
			return time.Duration(i%4) * 500 * time.Microsecond
		}, true},
		{"none, but few gaps", 150, func(int) time.Duration { return 0 }, false},
		{"as promised", 250, func(i int) time.Duration { return time.Duration(i*7%20) * ms }, false},
		{"up to half of what is promised", 250, func(i int) time.Duration { return time.Duration(i*7%10) * ms }, false},
		{"as promised and noise", 250, func(i int) time.Duration {
			return time.Duration(i*7%20)*ms + time.Duration(i%9)*ms
		}, false},
	} {
		t.Run(one.name, func(t *testing.T) {
			b := newBuilder()
			b.h.Records = 400
			b.begin()
			for i := range one.gaps {
				n := int32(i)
				b.sendTo(n, 0, n).attempt(n, history.OutcomeTransient).wait(99*ms + one.extra(i)).success(n)
			}
			v := judged(t, b.commitAll().drain().done())
			want := []string{}
			if one.named {
				want = append(want, "no-jitter")
			}
			if got := named(v); !slices.Equal(got, want) {
				t.Errorf("anomalies %v, want %v", got, want)
			}
		})
	}
}

// broken is a source that ends with an error.
type broken struct {
	history.Source
	after int
}

var errBroken = errors.New("a segment can't be read")

func (s broken) Each(fn func(*history.Event) error) error {
	left := s.after
	err := s.Source.Each(func(e *history.Event) error {
		if left--; left < 0 {
			return errBroken
		}
		return fn(e)
	})
	return err
}
