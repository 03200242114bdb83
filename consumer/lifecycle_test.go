package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/units"
)

// A stop sends no more requests to brokers once the group is left: they may answer slowly, and little of the grace is
// left.
func TestStopDoesNotWaitForFetchSessions(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2)
	var closing atomic.Int32
	b.cluster.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		if fetch := request.(*kmsg.FetchRequest); fetch.SessionEpoch < 0 && fetch.SessionID > 0 {
			closing.Add(1)
		}
		return nil, nil, false
	})
	started := b.start(b.config(testSettings(), func(context.Context, *kgo.Record) error {
		return nil
	}), DefaultParts(testSettings()))
	for partition := range int32(2) {
		b.produce(partition, 20, 5)
		b.eventually("everything is committed", func() bool { return b.committed(partition) == 20 })
	}
	must.Do(t, started.stop())
	if n := closing.Load(); n != 0 {
		t.Errorf("%d fetch sessions were ended in order while the consumer stopped", n)
	}
}

func TestRebalancesLoseNothingAndCommitsNeverGoBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, 4)
	const perPartition = 1500
	accepted := &acceptedCommits{T: t, highest: map[TopicPartition]int64{}}
	var succeeded, seen calls
	handler := func(_ context.Context, record *kgo.Record) error {
		time.Sleep(time.Millisecond)
		if n := seen.add(record); record.Offset%5 == 0 && n < 3 {
			return errors.New("not yet")
		}
		succeeded.add(record)
		return nil
	}
	settings := testSettings()
	parts := DefaultParts(settings)
	parts.Committer = accepted
	first := b.start(b.config(settings, handler), parts)
	b.eventually("the first has everything", func() bool { return len(first.Health().Assigned) == 4 })
	for partition := range int32(4) {
		b.produce(partition, perPartition, 100)
	}
	second := b.start(b.config(settings, handler), parts)
	b.eventually("the second has its share", func() bool {
		return len(second.Health().Assigned) == 2 && len(first.Health().Assigned) == 2
	})
	must.Do(t, first.stop())
	b.eventually("the second has everything", func() bool { return len(second.Health().Assigned) == 4 })
	third := b.start(b.config(settings, handler), parts)
	b.eventually("the third has its share", func() bool { return len(third.Health().Assigned) == 2 })
	for partition := range int32(4) {
		b.eventually("everything is committed", func() bool { return b.committed(partition) == perPartition })
		for offset := range int64(perPartition) {
			if succeeded.of(string(valueOf(partition, offset))) == 0 {
				t.Errorf("%d:%d is committed and was never processed", partition, offset)
			}
		}
	}
	if letters := b.letters(); len(letters) != 0 {
		t.Errorf("%d dead letters of records that all succeed at the third attempt", len(letters))
	}
	t.Logf("%d successes of %d records", succeeded.total(), 4*perPartition)
}

// acceptedCommits checks that accepted commits never go back and are never repeated, whichever consumer made them:
// the next owner of a partition starts after the last commit of the previous one.
type acceptedCommits struct {
	*testing.T
	mu      sync.Mutex
	highest map[TopicPartition]int64
}

func (c *acceptedCommits) Commit(ctx context.Context, client *kgo.Client,
	marks map[TopicPartition]Mark) map[TopicPartition]error {
	failed := GroupCommitter{}.Commit(ctx, client, marks)
	c.mu.Lock()
	defer c.mu.Unlock()
	for partition, at := range marks {
		if failed[partition] != nil {
			continue
		}
		if before, found := c.highest[partition]; found && at.Offset <= before {
			c.Errorf("%v: committed %d after %d was accepted", partition, at.Offset, before)
		}
		c.highest[partition] = max(c.highest[partition], at.Offset)
	}
	return failed
}

func TestStopLeavesWhatIsInBackoffToTheNext(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	b.produce(0, 50, 50)
	settings := testSettings()
	settings.RetryBackoffMS, settings.MaxRetryBackoffMS = 60_000, 60_000
	settings.StopGrace = units.Duration(time.Hour) // the stop must not run into it
	var seen calls
	failing := func(_ context.Context, record *kgo.Record) error {
		seen.add(record)
		if record.Offset >= 20 && record.Offset%2 == 0 {
			return errors.New("down")
		}
		return nil
	}
	run := b.start(b.config(settings, failing), DefaultParts(settings))
	b.eventually("all were tried", func() bool { return seen.total() == 50 })
	must.Do(t, run.stop())
	if at := b.committed(0); at != 20 {
		t.Errorf("committed %d, want 20: what is in backoff is not finished", at)
	}
	if letters := b.letters(); len(letters) != 0 {
		t.Errorf("%d dead letters of records that were tried once", len(letters))
	}
	if info := b.cluster.GroupInfo(groupID); info != nil && len(info.Members) != 0 {
		t.Errorf("the group still has %d members after the stop", len(info.Members))
	}

	var again calls
	b.start(b.config(settings, func(_ context.Context, record *kgo.Record) error {
		again.add(record)
		return nil
	}), DefaultParts(settings))
	b.eventually("everything is committed", func() bool { return b.committed(0) == 50 })
	if again.total() != 30 {
		t.Errorf("the next consumer processed %d records, want the 30 from the commit on", again.total())
	}
}

func TestAtStopDecides(t *testing.T) {
	t.Parallel()
	for name, want := range map[Action]struct {
		committed int64
		letters   int
	}{Retry: {0, 0}, Finish: {10, 0}, DeadLetter: {10, 10}} {
		b := newBench(t, 1)
		b.produce(0, 10, 10)
		settings := testSettings()
		settings.RetryBackoffMS, settings.MaxRetryBackoffMS = 60_000, 60_000
		var seen calls
		parts := DefaultParts(settings)
		parts.AtStop = func(*kgo.Record) Action { return name }
		run := b.start(b.config(settings, func(_ context.Context, record *kgo.Record) error {
			seen.add(record)
			return errors.New("down")
		}), parts)
		b.eventually("all are in backoff", func() bool { return seen.total() == 10 && run.Health().Waiting == 10 })
		must.Do(t, run.stop())
		if at, letters := max(0, b.committed(0)), len(b.letters()); at != want.committed || letters != want.letters {
			t.Errorf("%d: committed %d with %d dead letters, want %+v", name, at, letters, want)
		}
	}
}

func TestAtRevokeDecides(t *testing.T) {
	t.Parallel()
	for action, want := range map[Action]struct {
		committed      int64
		again, letters int
	}{Retry: {0, 10, 0}, Finish: {10, 0, 0}, DeadLetter: {10, 0, 10}} {
		b := newBench(t, 2)
		b.produce(0, 10, 10)
		b.produce(1, 10, 10)
		settings := testSettings()
		settings.RetryBackoffMS, settings.MaxRetryBackoffMS = 60_000, 60_000
		parts := DefaultParts(settings)
		parts.AtRevoke = func(*kgo.Record) Action { return action }
		fails := func(seen *calls) Handler {
			return func(_ context.Context, record *kgo.Record) error { seen.add(record); return errors.New("down") }
		}
		var before, after calls
		first := b.start(b.config(settings, fails(&before)), parts)
		b.eventually("all are in backoff", func() bool { return before.total() == 20 && first.Health().Waiting == 20 })
		second := b.start(b.config(settings, fails(&after)), parts)
		b.eventually("a partition has moved", func() bool { return len(second.Health().Assigned) == 1 })
		b.eventually("what was left is tried again", func() bool { return after.total() == want.again })
		moved := second.Health().Assigned[0].Partition
		if at, letters := max(0, b.committed(moved)), len(b.letters()); at != want.committed || letters != want.letters {
			t.Errorf("%d: committed %d with %d dead letters, want %+v", action, at, letters, want)
		}
		must.Do(t, errors.Join(first.stop(), second.stop()))
	}
}

func TestStopAwaitsRunningAttempts(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	b.produce(0, 1, 1)
	entered, release := make(chan struct{}), make(chan struct{})
	settings := testSettings()
	var interrupted atomic.Bool
	run := b.start(b.config(settings, func(ctx context.Context, _ *kgo.Record) error {
		close(entered)
		<-release
		interrupted.Store(ctx.Err() != nil)
		return nil
	}), DefaultParts(settings))
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- run.stop() }()
	b.eventually("the stop has begun", func() bool { return len(run.Health().Assigned) == 1 })
	select {
	case err := <-stopped:
		t.Fatalf("the consumer stopped (%v) while an attempt was running", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if at := b.committed(0); at != 1 || interrupted.Load() {
		t.Errorf("committed %d, want 1; attempt interrupted: %v", at, interrupted.Load())
	}
}

func TestAHandlerThatOutlivesTheStopIsAnError(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	b.produce(0, 1, 1)
	entered, release := make(chan struct{}), make(chan struct{})
	settings := testSettings()
	settings.StopGrace = units.Duration(400 * time.Millisecond)
	consumer := must.Get(New(b.config(settings, func(context.Context, *kgo.Record) error {
		close(entered)
		<-release
		return nil
	}), DefaultParts(settings)))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(ctx) }()
	<-entered
	cancel()
	if err := <-ended; !errors.Is(err, errGrace) {
		t.Errorf("got %v, want %v", err, errGrace)
	}
	close(release)
	if at := b.committed(0); at > 0 {
		t.Errorf("committed %d although the record is not finished", at)
	}
}

func TestMembershipLostLosesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2)
	b.produce(0, 200, 20)
	b.produce(1, 200, 20)
	var succeeded calls
	handler := func(_ context.Context, record *kgo.Record) error {
		time.Sleep(time.Millisecond)
		succeeded.add(record)
		return nil
	}
	settings := testSettings()
	settings.Ordering = OrderingPartition
	fault := b.cluster.Fault(
		kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: groupID, Topic: inputTopic, Err: kerr.UnknownMemberID,
			Count: 2},
		kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: groupID, Topic: inputTopic, Err: kerr.RebalanceInProgress,
			Count: 2},
		kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: groupID, Topic: inputTopic, Err: kerr.IllegalGeneration,
			Count: 1},
		kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Group: groupID, TopLevel: true, Err: kerr.IllegalGeneration, Count: 1},
	)
	b.start(b.config(settings, handler), DefaultParts(settings))
	for partition := range int32(2) {
		b.eventually("everything is committed", func() bool { return b.committed(partition) == 200 })
		for offset := range int64(200) {
			if succeeded.of(string(valueOf(partition, offset))) == 0 {
				t.Errorf("%d:%d is committed and was never processed", partition, offset)
			}
		}
	}
	if fault.Hits() < 5 {
		t.Errorf("only %d faults took effect", fault.Hits())
	}
	if !strings.Contains(b.log.String(), "committing failed") {
		t.Error("the failed commits are not in the log")
	}
}

func TestRecordsInFlightAreBoundedAndHeartbeatsGoOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2)
	b.produce(0, 100, 100)
	b.produce(1, 100, 100)
	settings := testSettings()
	settings.MaxInFlight = 8
	settings.AttemptTimeout = units.Duration(time.Minute)
	release := make(chan struct{})
	var inside, most, started atomic.Int64
	handler := func(context.Context, *kgo.Record) error {
		started.Add(1)
		now := inside.Add(1)
		for seen := most.Load(); now > seen; seen = most.Load() {
			if most.CompareAndSwap(seen, now) {
				break
			}
		}
		<-release
		inside.Add(-1)
		return nil
	}
	config := b.config(settings, handler)
	config.SessionTimeout = 1500 * time.Millisecond
	run := b.start(config, DefaultParts(settings))
	b.eventually("the bound is reached", func() bool { return started.Load() == 8 })
	beats := b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Observe: true, Count: -1})
	b.eventually("heartbeats go on for longer than the session", func() bool { return beats.Hits() >= 4 })
	if health := run.Health(); started.Load() != 8 || health.InFlight != 8 || len(health.Assigned) != 2 {
		t.Errorf("%d attempts while none has ended; health %+v", started.Load(), health)
	}
	close(release)
	for partition := range int32(2) {
		b.eventually("everything is committed", func() bool { return b.committed(partition) == 100 })
	}
	if most.Load() != 8 {
		t.Errorf("%d attempts at a time, want 8", most.Load())
	}
}

func TestAPausedPartitionThatComesBackGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2)
	settings := testSettings()
	settings.MaxInFlight, settings.Ordering = 20, OrderingPartition
	var blocked atomic.Bool
	blocked.Store(true)
	handler := func(context.Context, *kgo.Record) error {
		if blocked.Load() {
			return errors.New("down")
		}
		return nil
	}
	// Endless retries keep both partitions full, so both are paused.
	parts := func() Parts {
		p := DefaultParts(settings)
		p.Policy = Bounded{MaxAttempts: 1 << 30, Backoff: Backoff{Initial: 20 * time.Millisecond, Cap: 20 * time.Millisecond},
			Random: Uniform}
		return p
	}
	b.produce(0, 100, 10)
	b.produce(1, 100, 10)
	first := b.start(b.config(settings, handler), parts())
	b.eventually("both partitions are full", func() bool { return first.Health().InFlight >= 20 })
	second := b.start(b.config(settings, handler), parts())
	b.eventually("one partition has moved", func() bool {
		return len(first.Health().Assigned) == 1 && len(second.Health().Assigned) == 1
	})
	must.Do(t, second.stop())
	b.eventually("it has come back", func() bool { return len(first.Health().Assigned) == 2 })
	blocked.Store(false)
	for partition := range int32(2) {
		b.eventually(fmt.Sprintf("partition %d is finished", partition), func() bool { return b.committed(partition) == 100 })
	}
}

func TestWithoutADLQFailuresAreLoggedAndFinished(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	b.produce(0, 10, 10)
	settings := testSettings()
	settings.DLQEnabled = false
	b.start(b.config(settings, alwaysDown), DefaultParts(settings))
	b.eventually("everything is committed", func() bool { return b.committed(0) == 10 })
	if len(b.letters()) != 0 || !strings.Contains(b.log.String(), `"offset":5,"attempts":3`) {
		t.Error("the failure is dead-lettered, or not in the log")
	}
}

func TestAPanicIsAPermanentFailureOfItsRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	b.produce(0, 10, 10)
	settings := testSettings()
	var seen calls
	b.start(b.config(settings, func(_ context.Context, record *kgo.Record) error {
		if seen.add(record); record.Offset == 3 {
			panic("poison")
		}
		return nil
	}), DefaultParts(settings))
	b.eventually("everything is committed", func() bool { return b.committed(0) == 10 })
	if letters := b.letters(); len(letters) != 1 || seen.total() != 10 {
		t.Errorf("%d dead letters after %d attempts, want 1 after 10", len(letters), seen.total())
	}
}

func TestTombstonesAndNullKeysAreProcessedAndDeadLetteredAsTheyAre(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	must.Do(t, b.client.ProduceSync(t.Context(), &kgo.Record{Topic: inputTopic, Key: []byte("k")},
		&kgo.Record{Topic: inputTopic, Value: []byte{}}).FirstErr())
	settings := testSettings()
	b.start(b.config(settings, func(context.Context, *kgo.Record) error {
		return &Error{Class: Permanent, Err: errors.New("broken")}
	}), DefaultParts(settings))
	b.eventually("everything is committed", func() bool { return b.committed(0) == 2 })
	letters := b.letters()
	if len(letters) != 2 {
		t.Fatalf("%d dead letters, want 2", len(letters))
	}
	if letters[0].Key == nil {
		letters[0], letters[1] = letters[1], letters[0] // the order of these two is undefined
	}
	if letters[0].Value != nil || string(letters[0].Key) != "k" || letters[1].Key != nil || letters[1].Value == nil {
		t.Errorf("null and empty were mixed up: %q=%v, %v=%q", letters[0].Key, letters[0].Value, letters[1].Key,
			letters[1].Value)
	}
}

// TestNothingIsBegunWhileStopping has three attempts running at the stop. One fails retryably and one permanently
// with a DLQ that rejects writes, while the third continues for many times their backoff.
func TestNothingIsBegunWhileStopping(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	b.produce(0, 4, 4)
	settings := testSettings()
	settings.RetryBackoffMS, settings.MaxRetryBackoffMS, settings.RetryJitterMS = 1, 1, 0
	b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: dlqTopic, Err: kerr.NotEnoughReplicas, Count: -1})
	var entered sync.WaitGroup
	entered.Add(4)
	failNow, endNow := make(chan struct{}), make(chan struct{})
	var seen calls
	var publications atomic.Int32
	parts := DefaultParts(settings)
	parts.Parker = countedParker{&publications}
	// A fourth record is in backoff from the start, so that AtStop shows when the stop begins.
	var stopping atomic.Bool
	parts.AtStop = func(*kgo.Record) Action { stopping.Store(true); return Retry }
	parts.Policy = patient{parts.Policy}
	run := b.start(b.config(settings, func(_ context.Context, record *kgo.Record) error {
		if seen.add(record); seen.of(string(record.Value)) > 1 {
			return nil
		}
		entered.Done()
		switch record.Offset {
		case 0:
			<-endNow
			return nil
		case 1:
			<-failNow
			return errors.New("down")
		case 3:
			return errors.New("down")
		}
		<-failNow
		return &Error{Class: Permanent, Err: errors.New("broken")}
	}), parts)
	entered.Wait()
	b.eventually("the fourth is in backoff", func() bool { return run.Health().Waiting == 1 })
	stopped := make(chan error, 1)
	go func() { stopped <- run.stop() }()
	b.eventually("the stop has begun", stopping.Load)
	close(failNow)
	b.eventually("the publication was tried", func() bool { return publications.Load() == 1 })
	time.Sleep(4 * minRepublish) // long enough for an unwanted attempt to start
	close(endNow)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if seen.total() != 4 || publications.Load() != 1 {
		t.Errorf("%d attempts and %d publications, want the 4 begun before the stop, and 1", seen.total(),
			publications.Load())
	}
	if at := b.committed(0); at != 1 {
		t.Errorf("committed %d, want 1", at)
	}
}

// patient makes the record at offset 3 wait for ever.
type patient struct{ Policy }

func (p patient) Decide(record *kgo.Record, attempts int, err error) Decision {
	decision := p.Policy.Decide(record, attempts, err)
	if record.Offset == 3 {
		decision.Wait = time.Hour
	}
	return decision
}

// countedParker counts publications.
type countedParker struct{ count *atomic.Int32 }

func (p countedParker) Park(ctx context.Context, publisher Publisher, letter *kgo.Record, done func(error)) {
	p.count.Add(1)
	AckedParker{}.Park(ctx, publisher, letter, done)
}

// TestALostPartitionIsForgotten inspects the loop itself: nothing of a lost partition is left, and the results of
// workers change nothing, not even for the same partition when it is assigned again.
func TestALostPartitionIsForgotten(t *testing.T) {
	t.Parallel()
	settings := testSettings()
	l := newLoop(&Consumer{config: Config{Topic: inputTopic, Settings: settings, Logger: zerolog.Nop()},
		parts: DefaultParts(settings)})
	change := func(what change) {
		l.rebalance(rebalance{what, []TopicPartition{{inputTopic, 0}}, make(chan struct{})})
	}
	change(assigned)
	records := make([]*kgo.Record, 5)
	for i := range records {
		records[i] = &kgo.Record{Topic: inputTopic, Offset: int64(i), Key: []byte("k")}
	}
	fetched := kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: inputTopic,
		Partitions: []kgo.FetchPartition{{Records: records}}}}}}
	l.accept(fetched)
	out := l.schedule.next()
	out.home.busy++
	l.busy++
	out.attempts, out.phase = 1, running
	change(lost)
	if len(l.partitions) != 0 || l.inFlight != 0 || l.schedule.next() != nil || len(l.schedule.lines) != 0 {
		t.Errorf("left: %d partitions, %d in flight, %d lines", len(l.partitions), l.inFlight, len(l.schedule.lines))
	}
	l.accept(fetched)
	if l.inFlight != 0 {
		t.Error("records of a partition that is not owned were taken over")
	}
	change(assigned)
	l.outcomes.put(outcome{task: out, at: time.Now()})
	l.settle()
	if prefix := l.partitions[TopicPartition{inputTopic, 0}].tracker.Prefix(0); prefix.OK ||
		l.inFlight != 0 || l.busy != 0 {
		t.Errorf("an attempt of the earlier assignment finished something (prefix %+v); %d in flight, %d busy", prefix,
			l.inFlight, l.busy)
	}
}

// Brokers that do not acknowledge dead letters may not answer heartbeats either. A member that loses the partition
// before its patience with the dead letter is over must still report it, because no other member knows of it.
func TestAnUnansweredLetterOfALostPartitionIsReported(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]change{"lost": lost, "revoked": revoked} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings, parts := testSettings(), DefaultParts(testSettings())
			var told []Trouble
			parts.Surface = func(_ zerolog.Logger, trouble Trouble) { told = append(told, trouble) }
			parts.Parker = silentParker{}
			l := newLoop(&Consumer{config: Config{Topic: inputTopic, DLQTopic: dlqTopic, Settings: settings,
				Logger: zerolog.Nop()}, parts: parts})
			at := TopicPartition{inputTopic, 0}
			l.rebalance(rebalance{assigned, []TopicPartition{at}, make(chan struct{})})
			letter := &kgo.Record{Topic: dlqTopic}
			task := &task{record: &kgo.Record{Topic: inputTopic, Offset: 7}, home: l.partitions[at], letter: letter, place: -1}
			began := time.Now()
			l.publish(task)
			l.rebalance(rebalance{change, []TopicPartition{at}, make(chan struct{})})
			l.expire(began.Add(patience - 1))
			if len(told) > 0 {
				t.Errorf("reported too early: %+v", told)
			}
			l.expire(time.Now().Add(patience))
			if len(told) != 1 || told[0].Offset != 7 || told[0].Letters != 1 ||
				!strings.Contains(told[0].Reason, "not acknowledged") {
				t.Errorf("reported: %+v", told)
			}
		})
	}
}

// silentParker never gets an answer.
type silentParker struct{}

func (silentParker) Park(context.Context, Publisher, *kgo.Record, func(error)) {}
