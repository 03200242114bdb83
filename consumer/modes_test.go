package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/units"
)

// mode is a combination of group membership and retry settings.
type mode struct {
	name string
	set  func(*Settings)
}

func modes() []mode {
	return []mode{
		{"classic", func(*Settings) {}},
		{"range", func(s *Settings) { s.Assignor = AssignorRange }},
		{"consumer", func(s *Settings) { s.GroupProtocol = ProtocolConsumer }},
		{"static", func(s *Settings) { s.StaticMembership = true }},
		{"static consumer", func(s *Settings) { s.StaticMembership, s.GroupProtocol = true, ProtocolConsumer }},
		{"metadata", func(s *Settings) { s.OffsetMetadata, s.Ordering = true, OrderingNone }},
		{"metadata consumer", func(s *Settings) { s.OffsetMetadata, s.GroupProtocol = true, ProtocolConsumer }},
		{"topics", func(s *Settings) { s.Retry = RetryTopics }},
		{"topics range metadata", func(s *Settings) {
			s.Retry, s.Assignor, s.OffsetMetadata = RetryTopics, AssignorRange, true
		}},
		{"topics consumer", func(s *Settings) { s.Retry, s.GroupProtocol = RetryTopics, ProtocolConsumer }},
		{"transactions", func(s *Settings) { s.Transactions = true }},
		{"transactions range", func(s *Settings) { s.Transactions, s.Assignor = true, AssignorRange }},
		{"transactions consumer", func(s *Settings) { s.Transactions, s.GroupProtocol = true, ProtocolConsumer }},
		{"transactions static", func(s *Settings) {
			s.Transactions, s.StaticMembership, s.Ordering = true, true, OrderingPartition
		}},
	}
}

// memberSession is longer than other work on the machine delays heartbeats. Nothing here waits for its end.
const memberSession = 10 * time.Second

// newGroupBench returns a bench with retry topics whose members of the consumer protocol send heartbeats often.
func newGroupBench(t *testing.T, partitions int32) *bench {
	return newBenchWith(t, partitions, append([]string{inputTopic, dlqTopic}, RetryTopicNames(inputTopic, 3)...),
		kfake.BrokerConfigs(map[string]string{
			"group.consumer.heartbeat.interval.ms": "50",
			"group.consumer.session.timeout.ms":    fmt.Sprint(memberSession.Milliseconds()),
		}))
}

// TestEveryModeFinishesEveryRecord runs one instance, and three of which one is stopped in the middle. Each record
// ends as its class requires, dead letters name their own position, and everything is committed.
func TestEveryModeFinishesEveryRecord(t *testing.T) {
	for _, mode := range modes() {
		for _, instances := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d", mode.name, instances), func(t *testing.T) {
				t.Parallel()
				tryMode(t, mode, instances)
			})
		}
	}
}

func tryMode(t *testing.T, mode mode, instances int) {
	const partitions, perPartition = 3, 60
	b := newGroupBench(t, partitions)
	settings := testSettings()
	mode.set(&settings)
	var succeeded, seen calls
	handler := func(_ context.Context, record *kgo.Record) error {
		n := seen.add(record)
		switch strings.TrimPrefix(string(record.Key), "k") {
		case "1":
			if n < 3 {
				return errors.New("not yet")
			}
		case "2":
			return errors.New("down")
		}
		succeeded.add(record)
		return nil
	}
	var runs []started
	for i := range instances {
		config := b.config(settings, handler)
		config.InstanceID, config.SessionTimeout = fmt.Sprint("i", i), memberSession
		runs = append(runs, b.start(config, DefaultParts(settings)))
	}
	for partition := range int32(partitions) {
		b.produce(partition, perPartition/2, 3)
	}
	b.eventually("the first have begun", func() bool { return seen.total() > 20 })
	if instances > 1 {
		must.Do(t, runs[0].stop())
	}
	if instances > 1 && settings.StaticMembership { // the group keeps its partitions for it
		config := b.config(settings, handler)
		config.InstanceID, config.SessionTimeout = "i0", memberSession
		b.start(config, DefaultParts(settings))
	}
	for partition := range int32(partitions) {
		b.produce(partition, perPartition/2, 3)
	}
	b.eventually("everything is finished", func() bool { return b.lag() == 0 })
	letters := b.letters()
	dead := map[string]int{}
	for _, letter := range letters {
		failure, missing := deadletter.Plain{}.Open(letter)
		dead[fmt.Sprintf("%d:%d", failure.Partition, failure.Offset%(perPartition/2))]++
		if len(missing) > 0 || failure.Topic != inputTopic || failure.Attempts != 3 ||
			failure.Offset%(perPartition/2)%3 != 2 || len(letter.Headers) != 7 {
			t.Errorf("a dead letter says %+v, missing %v, headers %v", failure, missing, letter.Headers)
		}
	}
	for partition := range int32(partitions) {
		for i := range int64(perPartition / 2) { // each value is in two records
			value := string(valueOf(partition, i))
			if want := 2 * min(1, int(i%3/2)); dead[value] < want || want == 0 && dead[value] > 0 {
				t.Errorf("%s: %d dead letters, want %d", value, dead[value], want)
			}
			if i%3 != 2 && succeeded.of(value) < 2 {
				t.Errorf("%s: %d successes of two records", value, succeeded.of(value))
			}
		}
	}
	// An instance that loses its partitions and gets them again may write dead letters again that no commit covered.
	// With transactions it never does.
	undisturbed := instances == 1 && strings.Count(b.log.String(), `"change":"assigned"`) == 1
	if (undisturbed || settings.Transactions) && len(letters) != 2*partitions*perPartition/2/3 {
		t.Errorf("%d dead letters", len(letters))
	}
}

// lag returns the number of uncommitted records in the input and the retry topics. Partitions without records have
// nothing to commit.
func (b *bench) lag() int64 {
	b.Helper()
	// Read the commits first: a record committed by then has its retry copy before the end offsets are read. In the
	// opposite order, a copy could be written and its source committed between the two reads, and everything would
	// look finished.
	offsets, err := b.admin.FetchOffsets(b.Context(), groupID)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		b.Fatal(err)
	}
	ends, err := b.admin.ListEndOffsets(b.Context(), append([]string{inputTopic}, RetryTopicNames(inputTopic, 3)...)...)
	if err != nil {
		b.Fatal(err)
	}
	var lag int64
	ends.Each(func(end kadm.ListedOffset) {
		at, _ := offsets.Lookup(end.Topic, end.Partition)
		lag += end.Offset - max(at.At, 0)
	})
	return lag
}

// TestRetryCopiesWaitForTheirOwnTime: a record that is due late delays neither the next copy of its retry topic nor
// the records behind it, and no copy is processed before it is due.
func TestRetryCopiesWaitForTheirOwnTime(t *testing.T) {
	t.Parallel()
	b := newGroupBench(t, 1)
	b.produce(0, 20, 1)
	settings := testSettings()
	settings.Retry, settings.RetryBackoffMS, settings.MaxRetryBackoffMS = RetryTopics, 100, 100
	var seen calls
	var mu sync.Mutex
	failed, waits := map[string]time.Time{}, []time.Duration{}
	parts := DefaultParts(settings)
	parts.Policy = patient{parts.Policy}
	run := b.start(b.config(settings, func(_ context.Context, record *kgo.Record) error {
		mu.Lock()
		defer mu.Unlock()
		value := string(record.Value)
		if seen.add(record) == 1 {
			failed[value] = time.Now()
			return errors.New("down")
		}
		waits = append(waits, time.Since(failed[value]))
		if record.Topic != inputTopic+".retry-1" || len(record.Headers) != 1 {
			t.Errorf("%s was tried again from %s with the headers %v", value, record.Topic, record.Headers)
		}
		return nil
	}), parts)
	b.eventually("all but the one that waits for an hour were tried again", func() bool { return seen.total() == 39 })
	b.eventually("the input is committed", func() bool { return b.committed(0) == 20 })
	b.eventually("the copy waits", func() bool {
		health := run.Health()
		return health.Waiting == 1 && health.Assigned != nil
	})
	if err := run.stop(); err != nil {
		t.Error(err)
	}
	for _, wait := range waits {
		if wait < 100*time.Millisecond {
			t.Errorf("a copy was tried again after %s", wait)
		}
	}
	if at, _ := must.Get(b.admin.FetchOffsets(b.Context(), groupID))(b).Lookup(inputTopic+".retry-1", 0); at.At != 3 {
		t.Errorf("the retry topic is committed up to %d, want 3: the copy there is not finished", at.At)
	}
}

func TestNothingIsCommittedPastARefusedRetryCopy(t *testing.T) {
	t.Parallel()
	b := newGroupBench(t, 1)
	b.produce(0, 20, 20)
	fault := b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: inputTopic + ".retry-1",
		Err: kerr.NotEnoughReplicas, Count: -1})
	settings := testSettings()
	settings.Retry = RetryTopics
	run := b.start(b.config(settings, func(_ context.Context, record *kgo.Record) error {
		if string(record.Value) == "0:5" {
			return errors.New("down")
		}
		return nil
	}), DefaultParts(settings))
	b.eventually("commits are halted", func() bool { return run.Health().Halted() })
	b.eventually("the finished prefix is committed", func() bool { return b.committed(0) == 5 })
	if trouble := run.Health().Trouble[0]; trouble.To != inputTopic+".retry-1" || trouble.Offset != 5 {
		t.Errorf("health says %+v", trouble)
	}
	fault.Remove()
	b.eventually("everything is finished", func() bool { return b.lag() == 0 })
	if letters := b.letters(); len(letters) != 1 {
		t.Errorf("%d dead letters, want 1", len(letters))
	}
}

// TestMetadataSparesTheNextOwnerWhatIsDone: one instance finishes all but every tenth record and stops. The next one
// processes only those.
func TestMetadataSparesTheNextOwnerWhatIsDone(t *testing.T) {
	for _, protocol := range []string{ProtocolClassic, ProtocolConsumer} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			b := newGroupBench(t, 1)
			b.produce(0, 100, 100)
			settings := testSettings()
			settings.OffsetMetadata, settings.GroupProtocol, settings.RetryBackoffMS, settings.MaxRetryBackoffMS = true,
				protocol, 60_000, 60_000
			var seen calls
			failing := func(_ context.Context, record *kgo.Record) error {
				seen.add(record)
				if record.Offset%10 == 0 {
					return errors.New("down")
				}
				return nil
			}
			metadata := func() string {
				at, _ := must.Get(b.admin.FetchOffsets(b.Context(), groupID))(b).Lookup(inputTopic, 0)
				return fmt.Sprint(at.At, " ", at.Metadata)
			}
			want := "0 1-9,11-19,21-29,31-39,41-49,51-59,61-69,71-79,81-89,91-99"
			first := b.start(b.config(settings, failing), DefaultParts(settings))
			b.eventually("all were tried", func() bool { return seen.total() == 100 })
			b.eventually("what is finished is in the metadata, though the offset stays", func() bool {
				return metadata() == want
			})
			must.Do(t, first.stop())
			// The next owner processes one record at a time, so that it commits before it has reached the rest. That
			// commit must keep the restored ranges.
			settings.MaxInFlight = 1
			release := make(chan struct{})
			var again calls
			b.start(b.config(settings, func(ctx context.Context, record *kgo.Record) error {
				if again.add(record); record.Offset == 20 {
					select {
					case <-release:
					case <-ctx.Done():
					}
				}
				return nil
			}), DefaultParts(settings))
			b.eventually("the second owner has come to 20 and committed", func() bool {
				return metadata() == "20 1-9,11-19,21-29,31-39,41-49,51-59,61-69,71-79"
			})
			close(release)
			b.eventually("everything is committed", func() bool { return b.committed(0) == 100 })
			if again.total() != 10 {
				t.Errorf("the next owner processed %d records (%v), want the 10 that were not finished", again.total(), again.order)
			}
		})
	}
}

func TestAStaticMemberComesBackToItsPartitions(t *testing.T) {
	t.Parallel()
	b := newGroupBench(t, 2)
	var leaves atomic.Int32
	b.onRequest(kmsg.LeaveGroup, func(kmsg.Request) error { leaves.Add(1); return nil })
	settings := testSettings()
	settings.StaticMembership = true
	handler := func(context.Context, *kgo.Record) error { return nil }
	start := func(id string) started {
		config := b.config(settings, handler)
		config.InstanceID, config.SessionTimeout = id, memberSession
		return b.start(config, DefaultParts(settings))
	}
	first, second := start("a"), start("b")
	b.eventually("each has one", func() bool {
		return len(first.Health().Assigned) == 1 && len(second.Health().Assigned) == 1
	})
	had := first.Health().Assigned
	must.Do(t, first.stop())
	back := start("a")
	b.eventually("it has its partition", func() bool { return slices.Equal(back.Health().Assigned, had) })
	if len(second.Health().Assigned) != 1 || leaves.Load() != 0 {
		t.Errorf("the other one has %v; %d members said goodbye", second.Health().Assigned, leaves.Load())
	}
}

func TestSettingsThatMakeNoSense(t *testing.T) {
	for want, set := range map[string]func(*Config){
		"retry is":          func(c *Config) { c.Settings.Retry = "later" },
		"group_protocol is": func(c *Config) { c.Settings.GroupProtocol = "shared" },
		"assignor is":       func(c *Config) { c.Settings.Assignor = "sticky" },
		"assignor range goes with": func(c *Config) {
			c.Settings.Assignor, c.Settings.GroupProtocol = AssignorRange, ProtocolConsumer
		},
		"static membership needs":    func(c *Config) { c.Settings.StaticMembership = true },
		"1 retry topics are given":   func(c *Config) { c.Settings.Retry, c.RetryTopics = RetryTopics, []string{"one"} },
		"max_retries is 0: it count": func(c *Config) { c.Settings.MaxRetries, c.Settings.Retry = 0, RetryTopics },
		"share needs ordering none":  func(c *Config) { c.Settings.GroupProtocol = ProtocolShare },
		"redelivery goes with":       func(c *Config) { c.Settings.Retry = RetryRedelivery },
		"it is 5 at most": func(c *Config) {
			c.Settings.GroupProtocol, c.Settings.Ordering, c.Settings.Retry, c.Settings.MaxRetries = ProtocolShare, OrderingNone,
				RetryRedelivery, 6
		},
		"redelivery, not with topics": func(c *Config) {
			c.Settings.GroupProtocol, c.Settings.Retry = ProtocolShare, RetryTopics
		},
		"in a share group nothing is assig": func(c *Config) {
			c.Settings.GroupProtocol, c.Settings.Assignor = ProtocolShare, AssignorRange
		},
		"it has no static members": func(c *Config) {
			c.Settings.GroupProtocol, c.Settings.StaticMembership = ProtocolShare, true
		},
		"there are no offsets to commit": func(c *Config) {
			c.Settings.GroupProtocol, c.Settings.OffsetMetadata = ProtocolShare, true
		},
		"acknowledgements can't be part": func(c *Config) {
			c.Settings.GroupProtocol, c.Settings.Transactions = ProtocolShare, true
		},
		"dlq_written_by is":                 func(c *Config) { c.Settings.DLQWrittenBy = "nobody" },
		"written_by broker goes with group": func(c *Config) { c.Settings.DLQWrittenBy = WrittenByBroker },
		"written_by broker goes with dlq_en": func(c *Config) {
			c.Settings.DLQWrittenBy, c.Settings.DLQEnabled = WrittenByBroker, false
		},
		"written_by broker goes with envelo": func(c *Config) { c.Settings.DLQWrittenBy = WrittenByBroker },
		"transactions need an instance id":   func(c *Config) { c.Settings.Transactions = true },
		"transactions go with retry in-plac": func(c *Config) {
			c.Settings.Transactions, c.Settings.Retry = true, RetryTopics
		},
		"offset_metadata doesn't go with tr": func(c *Config) {
			c.Settings.Transactions, c.Settings.OffsetMetadata = true, true
		},
		"transaction_timeout is 20m0s": func(c *Config) {
			c.Settings.Transactions, c.Settings.TransactionTimeout = true, units.Duration(20*time.Minute)
		},
	} {
		config := Config{Bootstrap: []string{"x"}, Topic: "t", DLQTopic: "d", Group: "g", Settings: DefaultSettings(),
			Handler: func(context.Context, *kgo.Record) error { return nil }}
		set(&config)
		if _, err := New(config, DefaultParts(config.Settings)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

func TestMetadataIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Int64Range(0, 1<<40).Draw(t, "base")
		var ranges []Range
		last := base - 1
		for range rapid.IntRange(0, 1500).Draw(t, "ranges") {
			first := last + rapid.Int64Range(1, 40).Draw(t, "gap")
			last = first + rapid.Int64Range(0, 5).Draw(t, "length")
			ranges = append(ranges, Range{first, last})
			last++
		}
		text := encodeRanges(base, ranges)
		back := decodeRanges(base, text)
		if len(text) > maxMetadata || !slices.Equal(back, ranges[:len(back)]) ||
			len(text) < maxMetadata-24 && len(back) < len(ranges) {
			t.Fatalf("%d of %d ranges came back from %d bytes", len(back), len(ranges), len(text))
		}
	})
	if got := encodeRanges(10, []Range{{11, 13}, {17, 17}}); got != "1-3,7" {
		t.Errorf("have %q", got)
	}
	for _, text := range []string{"", "test-1234-member", "3-1", "5,4", "1,1", "-1", "1-", "99999999999999999999", "1;2"} {
		if got := decodeRanges(10, text); got != nil {
			t.Errorf("%q reads as %v", text, got)
		}
	}
}

func TestCopiesOpenAsTheyWereSealed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		record := &kgo.Record{Topic: "t", Key: []byte("k"), Value: []byte("v")}
		for range rapid.IntRange(0, 8).Draw(t, "headers") {
			name := rapid.SampledFrom([]string{"trace", HeaderRetryAttempts, HeaderRetryDue, HeaderRetryEpoch}).Draw(t, "name")
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: name, Value: []byte("7")})
		}
		own := slices.Clone(record.Headers)
		origin := Origin{TopicPartition{rapid.String().Draw(t, "topic"), rapid.Int32().Draw(t, "partition")},
			rapid.Int64().Draw(t, "offset"), rapid.Int32().Draw(t, "epoch"), rapid.IntRange(0, 9).Draw(t, "attempts")}
		due := time.Unix(0, rapid.Int64Range(0, 1<<60).Draw(t, "due"))
		sealed := HeaderCopier{}.Seal(record, origin, due)
		var back Origin
		read := HeaderCopier{}.Open(sealed, &back)
		if back != origin || read.Before(due) || read.Sub(due) >= time.Millisecond ||
			fmt.Sprint(sealed.Headers) != fmt.Sprint(own) || fmt.Sprint(record.Headers) != fmt.Sprint(own) {
			t.Fatalf("sealed %+v due %v, opened %+v due %v with %v", origin, due, back, read, sealed.Headers)
		}
	})
	foreign := &kgo.Record{Topic: "t", Offset: 3,
		Headers: []kgo.RecordHeader{{Key: HeaderRetryAttempts, Value: []byte("2")}}}
	origin := originOf(foreign)
	if due := (HeaderCopier{}).Open(foreign, &origin); !due.IsZero() || origin != originOf(foreign) ||
		len(foreign.Headers) != 1 {
		t.Errorf("a record that is no copy was taken for one: %+v, due %v", origin, due)
	}
}
