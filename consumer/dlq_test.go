package consumer

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/internal/units"
)

// alwaysDown fails every record at offset 5 of its partition.
func alwaysDown(_ context.Context, record *kgo.Record) error {
	if record.Offset == 5 {
		return errors.New("down")
	}
	return nil
}

func TestNothingIsCommittedPastARefusedDeadLetter(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	b.produce(0, 20, 20)
	fault := b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: dlqTopic, Err: kerr.NotEnoughReplicas,
		Count: -1})
	settings := testSettings()
	settings.MaxRetryBackoffMS = 40
	run := b.start(b.config(settings, alwaysDown), DefaultParts(settings))

	b.eventually("commits are halted", func() bool { return run.Health().Halted() })
	b.eventually("the finished prefix is committed", func() bool { return b.committed(0) == 5 })
	refusedThen := fault.Hits()
	b.eventually("the publication is tried again and again", func() bool { return fault.Hits() > refusedThen+5 })
	if at := b.committed(0); at != 5 {
		t.Errorf("committed %d while the record at 5 is neither processed nor dead-lettered", at)
	}
	trouble := run.Health().Trouble[0]
	if trouble.Offset != 5 || trouble.Letters != 1 || trouble.Tries < settings.MaxRetries ||
		!strings.Contains(trouble.Reason, "NOT_ENOUGH_REPLICAS") {
		t.Errorf("health says %+v", trouble)
	}
	if log := b.log.String(); !strings.Contains(log, `"level":"error","state":"refused"`) ||
		!strings.Contains(log,
			`"level":"error","state":"halted","to":"orders.dlq","topic":"orders","partition":0,"offset":5`) {
		t.Error("the halt is not in the log")
	}

	fault.Remove()
	b.eventually("everything is committed", func() bool { return b.committed(0) == 20 })
	if letters := b.letters(); len(letters) != 1 {
		t.Errorf("%d dead letters, want 1", len(letters))
	}
	b.eventually("the trouble is over", func() bool { return len(run.Health().Trouble) == 0 })
	if !strings.Contains(b.log.String(), `"state":"recovered"`) {
		t.Error("the recovery is not in the log")
	}
}

func TestAnUnansweredDeadLetterIsWrittenOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	b.produce(0, 20, 20)
	// The broker writes the record and then answers that too few replicas may have it.
	fault := b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: dlqTopic,
		Err: kerr.NotEnoughReplicasAfterAppend, Count: 4})
	settings := testSettings()
	b.start(b.config(settings, alwaysDown), DefaultParts(settings))
	b.eventually("everything is committed", func() bool { return b.committed(0) == 20 })
	if fault.Hits() != 4 {
		t.Fatalf("the fault hit %d times, want 4", fault.Hits())
	}
	if letters := b.letters(); len(letters) != 1 {
		t.Errorf("%d dead letters, want 1", len(letters))
	}
}

func TestADeadLetterWhoseConnectionBreaksIsWrittenOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	b.produce(0, 20, 20)
	var cut atomic.Int32
	b.onRequest(kmsg.Produce, func(kmsg.Request) error {
		if cut.Add(1) <= 4 {
			return errors.New("cut")
		}
		return nil
	})
	settings := testSettings()
	b.start(b.config(settings, alwaysDown), DefaultParts(settings))
	b.eventually("everything is committed", func() bool { return b.committed(0) == 20 })
	if letters := b.letters(); len(letters) != 1 || cut.Load() < 5 {
		t.Errorf("%d dead letters after %d requests, want 1 after 5 or more", len(letters), cut.Load())
	}
}

// onRequest calls look on every request of the kind. An error from look closes the connection.
func (b *bench) onRequest(key kmsg.Key, look func(kmsg.Request) error) {
	b.cluster.ControlKey(int16(key), func(request kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		if err := look(request); err != nil {
			return nil, err, true
		}
		return nil, nil, false
	})
}

func TestNoCommitPrecedesADeadLettersAcknowledgement(t *testing.T) {
	t.Parallel()
	if early, commits := commitsBeforeAcks(t, AckedParker{}); early != 0 || commits == 0 {
		t.Errorf("%d of %d commits covered a record whose dead letter was not acknowledged", early, commits)
	}
	// The measurement must be able to detect early commits.
	if early, commits := commitsBeforeAcks(t, hastyParker{}); early == 0 {
		t.Errorf("a parker that doesn't wait went unnoticed in %d commits", commits)
	}
}

// commitsBeforeAcks consumes 300 records, every tenth of which is dead-lettered, on a DLQ that rejects writes at
// first. It counts the commits that reached the broker before the acknowledgement of a dead letter that they cover
// had reached the consumer.
func commitsBeforeAcks(t *testing.T, parker Parker) (early, commits int) {
	b := newBench(t, 1)
	b.produce(0, 300, 50)
	b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: dlqTopic, Err: kerr.NotEnoughReplicas, Count: 25})
	var mu sync.Mutex
	acked := map[int64]bool{}
	b.onRequest(kmsg.OffsetCommit, func(request kmsg.Request) error {
		commit, _ := request.(*kmsg.OffsetCommitRequest)
		mu.Lock()
		defer mu.Unlock()
		commits++
		for offset := int64(9); offset < commit.Topics[0].Partitions[0].Offset; offset += 10 {
			if !acked[offset] {
				early++
				break
			}
		}
		return nil
	})
	settings := testSettings()
	settings.CommitInterval, settings.RetryBackoffMS = units.Duration(time.Millisecond), 5
	parts := DefaultParts(settings)
	parts.Parker = watchedParker{parker, func(letter *kgo.Record) {
		failure, _ := deadletter.Plain{}.Open(letter)
		mu.Lock()
		defer mu.Unlock()
		acked[failure.Offset] = true
	}}
	run := b.start(b.config(settings, func(_ context.Context, record *kgo.Record) error {
		if record.Offset%10 == 9 {
			return &Error{Class: Permanent, Err: errors.New("broken")}
		}
		return nil
	}), parts)
	b.eventually("everything is committed", func() bool { return b.committed(0) == 300 })
	if err := run.stop(); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	return early, commits
}

// watchedParker reports each acknowledged dead letter before the consumer learns of it.
type watchedParker struct {
	Parker
	acked func(*kgo.Record)
}

func (p watchedParker) Park(ctx context.Context, publisher Publisher, letter *kgo.Record, done func(error)) {
	p.Parker.Park(ctx, watchedPublisher{publisher, p.acked}, letter, done)
}

type watchedPublisher struct {
	Publisher
	acked func(*kgo.Record)
}

func (p watchedPublisher) TryProduce(ctx context.Context, record *kgo.Record, promise func(*kgo.Record, error)) {
	p.Publisher.TryProduce(ctx, record, func(produced *kgo.Record, err error) {
		if err == nil {
			p.acked(produced)
		}
		promise(produced, err)
	})
}

// hastyParker does not wait for the acknowledgement.
type hastyParker struct{}

func (hastyParker) Park(ctx context.Context, publisher Publisher, letter *kgo.Record, done func(error)) {
	done(nil)
	AckedParker{}.Park(ctx, publisher, letter, func(error) {})
}

func TestASilentDLQIsReportedAndTheLetterWrittenOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	b.produce(0, 20, 20)
	var swallowed atomic.Bool
	b.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		swallowed.Store(true)
		return nil, nil, true // never answered; the next request is
	})
	settings := testSettings()
	run := b.start(b.config(settings, alwaysDown), DefaultParts(settings))
	b.eventually("the silence is reported", func() bool { return len(run.Health().Trouble) == 1 })
	if trouble := run.Health().Trouble[0]; !swallowed.Load() || trouble.Offset != 5 || trouble.Tries != 0 ||
		!strings.Contains(trouble.Reason, "not acknowledged") {
		t.Errorf("health says %+v", trouble)
	}
	if at := b.committed(0); at != 5 {
		t.Errorf("committed %d while the dead letter of 5 is unanswered", at)
	}
	b.eventually("everything is committed", func() bool { return b.committed(0) == 20 })
	if letters := b.letters(); len(letters) != 1 {
		t.Errorf("%d dead letters, want 1", len(letters))
	}
}
