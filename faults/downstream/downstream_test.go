package downstream

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// stub is a downstream stub that keeps the changes made by a fault.
type stub struct {
	rules []func(record, attempt int32) (history.Outcome, time.Duration)
	slow  time.Duration
	text  string
	seen  func()
	ended int
}

func (o *stub) end() { o.ended++ }

func (o *stub) Answer(rule func(record, attempt int32) (history.Outcome, time.Duration)) func() {
	o.rules = append(o.rules, rule)
	return o.end
}

func (o *stub) Slow(by time.Duration, seen func()) func() {
	o.slow, o.seen = by, seen
	return o.end
}

var errText = errors.New("no such text")

func (o *stub) ErrorText(kind string, seen func()) (func(), error) {
	if kind == "rude" {
		return nil, errText
	}
	o.text, o.seen = kind, seen
	return o.end, nil
}

type events []history.Event

func (e *events) Record(event history.Event) { *e = append(*e, event) }

// inject starts the fault and returns the changed stub, the reported effects, and the function that lifts the fault.
func inject(t *testing.T, spec Downstream) (*stub, *events, func()) {
	t.Helper()
	o, sink := &stub{}, &events{}
	planned := faults.Planned{Index: 3, Seed: 7, Fault: &spec}
	heal, err := NewInjector(o).Inject(t.Context(), faults.NewActive(planned, sink, history.NewClock()))
	if err != nil {
		t.Fatal(err)
	}
	return o, sink, func() {
		if err := heal(t.Context()); err != nil || o.ended != 1 {
			t.Errorf("healed with %v, ended %d changes", err, o.ended)
		}
	}
}

func (e *events) expect(t *testing.T, want map[string]int) {
	t.Helper()
	got := map[string]int{}
	for _, event := range *e {
		if event.Kind != history.KindFaultEffect || event.Op != 3 || event.Instance != history.None || event.N <= 0 {
			t.Errorf("the effect is %+v", event)
		}
		got[event.Text] += int(event.N)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("reported %v, want %v", got, want)
	}
}

func TestWhatFaultsDoAndReport(t *testing.T) {
	outcomes := func(o *stub) (got []string) {
		for record := range int32(3) {
			outcome, wait := o.rules[0](record, 1)
			got = append(got, fmt.Sprint(outcome, " ", wait))
		}
		return got
	}
	seen := func(what string) func(*stub) []string {
		return func(o *stub) []string {
			o.seen()
			o.seen()
			return []string{fmt.Sprintf(what, o.slow, o.text)}
		}
	}
	for name, test := range map[string]struct {
		spec    Downstream
		make    func(*stub) []string
		want    string
		effects map[string]int
	}{
		"outage": {Downstream{Outage: true}, outcomes, "[transient 0s transient 0s transient 0s]",
			map[string]int{"attempts answered 503": 3}},
		"hang": {Downstream{Hang: true}, outcomes, "[timeout 0s timeout 0s timeout 0s]",
			map[string]int{"attempts left unanswered": 3}},
		"rate limit": {
			Downstream{RateLimit: &RateLimit{Rate: 0.001, RetryAfter: units.Duration(3 * time.Second)}}, outcomes,
			"[ 0s rate-limited 3s rate-limited 3s]", map[string]int{"attempts answered 429": 2},
		},
		"rate limit, default wait": {
			Downstream{RateLimit: &RateLimit{Rate: 0.001}}, outcomes,
			"[ 0s rate-limited 1s rate-limited 1s]", map[string]int{"attempts answered 429": 2},
		},
		"errors": {
			Downstream{Errors: &Errors{Permanent: 1}}, outcomes,
			"[permanent 0s permanent 0s permanent 0s]", map[string]int{"attempts answered 400": 3},
		},
		"slow": {Downstream{Slow: units.Duration(time.Second)}, seen("%v%s"), "[1s]",
			map[string]int{"answers delayed": 2}},
		"text": {Downstream{ErrorText: "long"}, seen("%v %s"), "[0s long]", map[string]int{"error texts changed": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			o, sink, heal := inject(t, test.spec)
			if got := fmt.Sprint(test.make(o)); got != test.want {
				t.Errorf("attempts are answered %s, want %s", got, test.want)
			}
			heal()
			sink.expect(t, test.effects)
		})
		t.Run(name+" without attempts", func(t *testing.T) {
			_, sink, heal := inject(t, test.spec)
			heal()
			if len(*sink) != 0 {
				t.Errorf("reported %+v", *sink)
			}
		})
	}
}

// A fault whose rule left every attempt to the plan had no effect.
func TestNothingAnsweredNothingReported(t *testing.T) {
	o, sink, heal := inject(t, Downstream{RateLimit: &RateLimit{Rate: 1000}})
	if outcome, _ := o.rules[0](0, 1); outcome != history.OutcomeNone {
		t.Errorf("an attempt below the rate is answered %v", outcome)
	}
	heal()
	if len(*sink) != 0 {
		t.Errorf("reported %+v", *sink)
	}
}

func TestWrongSpecsAreRefused(t *testing.T) {
	for _, wrong := range []struct {
		says string
		spec *Downstream
	}{
		{"of another kind", nil},
		{"this fault does nothing", &Downstream{}},
		{"exclude each other", &Downstream{Outage: true, Hang: true}},
		{errText.Error(), &Downstream{ErrorText: "rude"}},
	} {
		o := &stub{}
		active := faults.NewActive(faults.Planned{Fault: wrong.spec}, &events{}, history.NewClock())
		_, err := NewInjector(o).Inject(t.Context(), active)
		if err == nil || !strings.Contains(err.Error(), wrong.says) || len(o.rules) > 0 {
			t.Errorf("got %v, want an error that says %q", err, wrong.says)
		}
	}
}

// In any period, the number of passed calls is at most the rate times the period plus the size of the bucket, and a
// caller that stays below the rate always passes.
func TestBucketKeepsTheRate(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rate := rapid.Float64Range(0.1, 5000).Draw(r, "rate")
		gaps := rapid.SliceOfN(rapid.Float64Range(0, 3), 1, 200).Draw(r, "gaps, in shares of the rate's")
		b, now, start := newBucket(rate), time.Unix(1000, 0), time.Unix(1000, 0)
		passed := 0
		for _, gap := range gaps {
			now = now.Add(time.Duration(gap / rate * float64(time.Second)))
			took := b.take(now)
			if took {
				passed++
			}
			if !took && gap > 1.001 {
				r.Fatalf("refused %.2f gaps after the last", gap)
			}
			if most := max(1, rate/10) + now.Sub(start).Seconds()*rate; float64(passed) > most+1e-6 {
				r.Fatalf("%d passed, %.3f at most", passed, most)
			}
		}
	})
}

// All instances share the bucket, and it fills with time.
func TestRateLimitOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, sink, heal := inject(t, Downstream{RateLimit: &RateLimit{Rate: 20}})
		passed := 0
		for range 1000 { // 100 per second for 10 s
			if outcome, _ := o.rules[0](0, 1); outcome == history.OutcomeNone {
				passed++
			}
			time.Sleep(10 * time.Millisecond)
		}
		if passed < 198 || passed > 202 {
			t.Errorf("%d passed in 10 s at 20/s", passed)
		}
		heal()
		sink.expect(t, map[string]int{"attempts answered 429": 1000 - passed})
	})
}

func TestErrorsAreDrawnFromSeedRecordAndAttempt(t *testing.T) {
	spec := Errors{Transient: 0.2, Permanent: 0.1, Logical: 0.05, Timeout: 0.1, Reset: 0.15}
	draw := func(seed uint64) (all []history.Outcome) {
		rule := mixed(spec, seed)
		for record := range int32(5000) {
			for attempt := range int32(4) {
				outcome, _ := rule(record, attempt+1)
				all = append(all, outcome)
			}
		}
		return all
	}
	first := draw(1)
	counts := map[history.Outcome]int{}
	for _, outcome := range first {
		counts[outcome]++
	}
	for outcome, share := range map[history.Outcome]units.Percent{
		history.OutcomeTransient: spec.Transient, history.OutcomePermanent: spec.Permanent,
		history.OutcomeLogical: spec.Logical,
		history.OutcomeTimeout: spec.Timeout, history.OutcomeReset: spec.Reset, history.OutcomeNone: 0.4,
	} {
		if got := float64(counts[outcome]) / float64(len(first)); math.Abs(got-share.Share()) > 0.02 {
			t.Errorf("%.3f of the attempts are answered %q, want %s", got, outcome, share)
		}
	}
	if !slices.Equal(first, draw(1)) {
		t.Error("the same seed gives other errors")
	}
	if slices.Equal(first, draw(2)) {
		t.Error("another seed gives the same errors")
	}
	same := 0
	for i := 0; i < len(first); i += 4 {
		if first[i] == first[i+1] && first[i] == first[i+2] && first[i] == first[i+3] {
			same++
		}
	}
	if same > len(first)/4/10 { // 0.4⁴, and a little more by chance
		t.Errorf("%d of %d records have the same answer to all attempts", same, len(first)/4)
	}
}

func TestSharesThatFillTheWholeAreAccepted(t *testing.T) {
	rule := mixed(Errors{Transient: 0.1, Permanent: 0.2, Logical: 0.3, Timeout: 0.15, Reset: 0.25}, 1)
	for record := range int32(1000) {
		if outcome, _ := rule(record, 1); outcome == history.OutcomeNone {
			t.Fatalf("record %d is answered as planned", record)
		}
	}
}
