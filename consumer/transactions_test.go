package consumer

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
	"github.com/dlqbench/dlqbench/internal/units"
)

func transactionSettings() Settings {
	settings := testSettings()
	settings.Transactions = true
	return settings
}

// transactional returns the configuration of an instance with transactions.
func (b *bench) transactional(settings Settings, handler Handler) Config {
	config := b.config(settings, handler)
	config.InstanceID = groupID + "-0"
	return config
}

// parkerFunc implements Parker by a function.
type parkerFunc func(ctx context.Context, publisher Publisher, letter *kgo.Record, done func(error))

func (p parkerFunc) Park(ctx context.Context, publisher Publisher, letter *kgo.Record, done func(error)) {
	p(ctx, publisher, letter, done)
}

// everyTenth fails each tenth record permanently and counts attempts.
func everyTenth(seen *calls) Handler {
	return func(_ context.Context, record *kgo.Record) error {
		if seen.add(record); record.Offset%10 == 5 {
			return errors.New("down")
		}
		return nil
	}
}

// expectExactlyOnce checks that each record had a permitted number of attempts, that each dead letter exists exactly
// once, and that everything is committed.
func (b *bench) expectExactlyOnce(seen *calls, records int64) {
	b.Helper()
	b.eventually("everything is committed", func() bool { return b.committed(0) == records })
	dead := map[string]int{}
	for _, letter := range b.letters() {
		dead[string(letter.Value)]++
	}
	for offset := range records {
		value, attempts, letters := string(valueOf(0, offset)), 1, 0
		if offset%10 == 5 {
			attempts, letters = 3, 1
		}
		if dead[value] != letters || seen.of(value) != attempts {
			b.Errorf("%s: %d attempts and %d dead letters, want %d and %d", value, seen.of(value), dead[value], attempts,
				letters)
		}
	}
}

func TestARefusedDeadLetterAbortsTheTransactionAndNotTheWork(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	b.produce(0, 40, 40)
	var refuse atomic.Bool
	refuse.Store(true)
	refused := 0
	fault := b.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: dlqTopic, Err: kerr.NotEnoughReplicas, Count: -1,
		// some dead letters of a transaction are written
		When: func(kmsg.Request) bool { refused++; return refuse.Load() && refused%2 == 0 },
	})
	settings := transactionSettings()
	settings.MaxRetryBackoffMS = 40
	var seen calls
	parts := DefaultParts(settings)
	// One request per dead letter, one after another.
	parts.Parker = parkerFunc(func(ctx context.Context, publisher Publisher, letter *kgo.Record, done func(error)) {
		answered := make(chan error)
		AckedParker{}.Park(ctx, publisher, letter, func(err error) { answered <- err })
		done(<-answered)
	})
	run := b.start(b.transactional(settings, everyTenth(&seen)), parts)
	b.eventually("the trouble is serious", func() bool { return run.Health().Halted() })
	refusedThen := fault.Hits()
	b.eventually("the publication is tried again and again", func() bool { return fault.Hits() > refusedThen+10 })
	if at := b.committed(0); at > 0 {
		t.Errorf("%d is committed while dead letters are refused", at)
	}
	if trouble := run.Health().Trouble[0]; trouble.To != dlqTopic || trouble.Offset%10 != 5 ||
		!strings.Contains(trouble.Reason, "NOT_ENOUGH_REPLICAS") {
		t.Errorf("health says %+v", trouble)
	}
	refuse.Store(false)
	b.expectExactlyOnce(&seen, 40)
	if all := b.read(kgo.ReadUncommitted()); len(all) <= 4 {
		t.Errorf("%d dead letters were written in all: none was aborted, and nothing is shown", len(all))
	}
	b.eventually("the trouble is over", func() bool {
		return len(run.Health().Trouble) == 0 && run.Health().Assigned != nil
	})
}

// TestOutcomesOutliveATransaction: a transaction whose offsets are rejected is aborted. Its records are polled again
// but not processed again.
func TestOutcomesOutliveATransaction(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	b.produce(0, 40, 40)
	fault := b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.UnknownMemberID, Count: 2})
	settings := transactionSettings()
	var seen calls
	b.start(b.transactional(settings, everyTenth(&seen)), DefaultParts(settings))
	b.expectExactlyOnce(&seen, 40)
	if fault.Hits() != 2 {
		t.Errorf("%d commits were refused, want 2", fault.Hits())
	}
}

// fence opens another producer with the instance's transactional id.
func (b *bench) fence() {
	request := kmsg.NewPtrInitProducerIDRequest()
	id := groupID + "-0"
	request.TransactionalID, request.TransactionTimeoutMillis = &id, 10_000
	if response, err := request.RequestWith(context.Background(), b.client); err != nil || response.ErrorCode != 0 {
		b.Errorf("fencing: %v, code %d", err, response.ErrorCode)
	}
}

// outlastTransaction waits until the coordinator has ended the instance's transaction by itself.
func (b *bench) outlastTransaction() {
	const id = groupID + "-0"
	wait.Until(b, "the coordinator aborts the transaction", func() bool {
		described, err := b.admin.DescribeTransactions(context.Background(), id)
		return err == nil && described[id].Err == nil && described[id].State != "Ongoing"
	})
}

func TestAFencedProducerIsReplaced(t *testing.T) {
	for name, stand := range map[string]func(*bench){
		"by another producer": (*bench).fence,
		// Equivalent to a suspended process: the broker aborts the transaction when its timeout expires.
		"by the coordinator": (*bench).outlastTransaction,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 1)
			b.produce(0, 40, 40)
			settings := transactionSettings()
			settings.TransactionTimeout = units.Duration(500 * time.Millisecond)
			parts := DefaultParts(settings)
			letters := 0
			// In the middle of the first transaction, after its first dead letter.
			parts.Parker = parkerFunc(func(ctx context.Context, publisher Publisher, letter *kgo.Record, done func(error)) {
				if letters++; letters != 1 {
					AckedParker{}.Park(ctx, publisher, letter, done)
					return
				}
				answered := make(chan error)
				AckedParker{}.Park(ctx, publisher, letter, func(err error) { answered <- err })
				err := <-answered
				stand(b)
				done(err)
			})
			var seen calls
			b.start(b.transactional(settings, everyTenth(&seen)), parts)
			b.eventually("everything is committed", func() bool { return b.committed(0) == 40 })
			if written, all := b.letters(), b.read(kgo.ReadUncommitted()); len(written) != 4 || len(all) < 5 {
				t.Errorf("%d dead letters count and %d were written, want 4 and some more", len(written), len(all))
			}
			if log := b.log.String(); !strings.Contains(log, "INVALID_PRODUCER_EPOCH") &&
				!strings.Contains(log, "PRODUCER_FENCED") {
				t.Error("the producer was not fenced, and nothing is shown")
			}
		})
	}
}

// TestAStopCommitsWholeTransactionsOnly: an attempt that runs at the stop ends in time or not. The batch is then
// committed completely with its dead letter, or not at all.
func TestAStopCommitsWholeTransactionsOnly(t *testing.T) {
	for name, c := range map[string]struct {
		finishes  bool
		committed int64
		letters   int
	}{"all is done": {true, 20, 2}, "one is not done": {false, 0, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 1)
			b.produce(0, 20, 20)
			settings := transactionSettings()
			settings.MaxRetries, settings.StopGrace = 1, units.Duration(2*time.Second)
			settings.AttemptTimeout = units.Duration(10 * time.Second)
			var seen calls
			gate := make(chan struct{})
			handler := func(ctx context.Context, record *kgo.Record) error {
				if seen.add(record); record.Offset != 13 {
					return everyTenth(&calls{})(ctx, record)
				}
				if c.finishes {
					<-gate
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			}
			run := b.start(b.transactional(settings, handler), DefaultParts(settings))
			b.eventually("all are under way", func() bool { return seen.total() == 20 })
			b.eventually("only one is left", func() bool { return run.Health().InFlight == 1 })
			stopped := make(chan error)
			go func() { stopped <- run.stop() }()
			close(gate)
			if err := <-stopped; err != nil {
				t.Fatal(err)
			}
			if at, letters := max(b.committed(0), 0), b.letters(); at != c.committed || len(letters) != c.letters {
				t.Errorf("committed %d with %d dead letters, want %d with %d", at, len(letters), c.committed, c.letters)
			}
			var again calls
			b.start(b.transactional(settings, everyTenth(&again)), DefaultParts(settings))
			b.eventually("everything is committed", func() bool { return b.committed(0) == 20 })
			if letters := b.letters(); int64(again.total()) != 20-c.committed || len(letters) != 2 {
				t.Errorf("the next consumer processed %d records, want %d; there are %d dead letters, want 2", again.total(),
					20-c.committed, len(letters))
			}
		})
	}
}

// TestEmptyBatchesBeginNoTransaction also checks that a batch without dead letters is still one transaction.
func TestEmptyBatchesBeginNoTransaction(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	var ends, fetches atomic.Int32
	b.onRequest(kmsg.EndTxn, func(kmsg.Request) error { ends.Add(1); return nil })
	b.onRequest(kmsg.Fetch, func(kmsg.Request) error { fetches.Add(1); return nil })
	settings := transactionSettings()
	var seen calls
	run := b.start(b.transactional(settings, everyTenth(&seen)), DefaultParts(settings))
	b.eventually("it has its partition", func() bool { return len(run.Health().Assigned) == 1 })
	b.eventually("several polls have found nothing", func() bool { return fetches.Load() > 4 })
	if ends.Load() != 0 {
		t.Errorf("%d transactions were ended before there was a record", ends.Load())
	}
	b.produce(0, 3, 3)
	b.eventually("everything is committed", func() bool { return b.committed(0) == 3 })
	must.Do(t, run.stop())
	if n := ends.Load(); n < 1 || n > 3 {
		t.Errorf("%d transactions for 3 records", n)
	}
}

// TestARebalanceWaitsForTheBatch: a second instance joins while a record is in backoff. The batch is committed first,
// so none of it is processed twice.
func TestARebalanceWaitsForTheBatch(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2)
	b.produce(0, 40, 40)
	settings := transactionSettings()
	settings.RetryBackoffMS, settings.MaxRetryBackoffMS = 700, 700
	var seen calls
	first := b.transactional(settings, everyTenth(&seen))
	b.start(first, DefaultParts(settings))
	b.eventually("the first attempts are made", func() bool { return seen.total() == 40 })
	second := first
	second.InstanceID = groupID + "-1"
	run := b.start(second, DefaultParts(settings))
	b.expectExactlyOnce(&seen, 40)
	b.eventually("the second has its share", func() bool { return len(run.Health().Assigned) == 1 })
	if b.committed(0) != 40 {
		t.Error("the commit went back")
	}
}

// TestALongBatchGivesWay: a rebalance does not wait longer than the group would. The batch is given up, and nothing
// is lost.
func TestALongBatchGivesWay(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2)
	b.produce(0, 40, 40)
	settings := transactionSettings()
	settings.RetryBackoffMS, settings.MaxRetryBackoffMS = 60_000, 60_000
	var seen calls
	first := b.transactional(settings, func(_ context.Context, record *kgo.Record) error {
		if n := seen.add(record); record.Offset == 5 && n == 1 {
			return errors.New("down")
		}
		return nil
	})
	b.start(first, DefaultParts(settings))
	b.eventually("the first attempts are made", func() bool { return seen.total() == 40 })
	second := first
	second.InstanceID = groupID + "-1"
	run := b.start(second, DefaultParts(settings))
	b.eventually("the second has its share", func() bool { return len(run.Health().Assigned) == 1 })
	b.eventually("everything is committed", func() bool { return b.committed(0) == 40 })
}

// TestAMemberThatStopsWhileItJoins: a rebalance waits for the first instance's batch. The second instance, which
// waits for the rebalance, is stopped meanwhile and must not be assigned anything any more.
func TestAMemberThatStopsWhileItJoins(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2)
	b.produce(0, 20, 20)
	settings := transactionSettings()
	settings.RetryBackoffMS, settings.MaxRetryBackoffMS, settings.Assignor = 600, 600, AssignorRange
	var seen calls
	first := b.transactional(settings, everyTenth(&seen))
	first.SessionTimeout = time.Minute // longer than any wait of this test
	b.start(first, DefaultParts(settings))
	b.eventually("the first attempts are made", func() bool { return seen.total() == 20 })
	second := first
	second.InstanceID = groupID + "-1"
	run := b.start(second, DefaultParts(settings))
	b.eventually("the second is about to join", func() bool { return len(b.cluster.GroupInfo(groupID).Members) == 2 })
	must.Do(t, run.stop())
	if seen.total() == 24 {
		t.Error("the batch was done before the second had stopped: nothing is shown")
	}
	b.produce(1, 20, 20)
	b.eventually("everything is committed", func() bool { return b.committed(0) == 20 && b.committed(1) == 20 })
}
