package consumer

// This file implements transactions: the dead letters of a batch and its offsets are written in one transaction
// (exactly-once dead-lettering). A reader of committed data sees a dead letter if and only if its record is
// committed. So a dead letter is neither lost nor duplicated.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// holdLimit is the maximum time that a rebalance waits for the commit of the current batch. After that the batch
	// is given up. The sum of holdLimit, revokeLimit and the abort is less than rebalanceTimeout.
	holdLimit = 4 * time.Second
	// endPatience is the time after which a waiting rebalance is let in although a transaction is still ending: the
	// transaction may in turn wait for the rebalance.
	endPatience = time.Second
	// endLimit is the maximum time to end a transaction: an abort waits for unacknowledged writes. After that the
	// client is given up.
	endLimit = 10 * time.Second
)

// transactor works batch by batch, each batch in one transaction. There is no transaction during the attempts: the
// dead letters are kept, and written when the whole batch is done. So a transaction is as short as possible, however
// long the retries take.
type transactor struct {
	*batch
	session *kgo.GroupTransactSession
	// over are the completed tasks of the batch, letters those of them with a dead letter, in the order of writing.
	over, letters []*task
	// complete: no record of the batch was released.
	complete bool
	// fails counts consecutive transactions that were not committed.
	fails int

	mu sync.Mutex
	// owned are the assigned partitions.
	owned map[TopicPartition]struct{}
	// known are the results of records in transactions that were not committed, as long as their partitions stay
	// here. The records are polled again but must not be processed again, because that would exceed the promised
	// attempts.
	known map[recordAt]*task
	// taken is closed when a partition is taken away: the session then commits nothing until the next batch. idle is
	// closed while no attempts are made.
	taken, idle chan struct{}
	isTaken     bool
}

// recordAt is the position of a record.
type recordAt struct {
	TopicPartition
	offset int64
}

func placeOf(record *kgo.Record) recordAt {
	return recordAt{TopicPartition{record.Topic, record.Partition}, record.Offset}
}

// runTransactions consumes until ctx ends. It replaces a client whose producer was fenced, or that does not know the
// result of its transaction.
func (c *Consumer) runTransactions(ctx context.Context) error {
	x := &transactor{}
	x.batch = newBatch(c, x.onEnded)
	x.park, x.recall = x.collect, x.remembered
	defer func() { x.disconnect() }()
	if err := x.connect(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		err := x.turn(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		c.config.Logger.Warn().Err(err).Str("transactional_id", c.config.InstanceID).
			Msg("the transaction failed for good; the client is replaced, and what was not committed comes again")
		c.leave(x.loop)
		if err := x.connect(); err != nil {
			return err
		}
		x.rest(ctx)
	}
	return x.depart()
}

// connect opens a client. It uses the transactional id of its predecessor and thereby fences it.
func (x *transactor) connect() error {
	x.mu.Lock()
	x.owned, x.known = map[TopicPartition]struct{}{}, map[recordAt]*task{}
	x.taken, x.idle, x.isTaken = make(chan struct{}), make(chan struct{}), false
	close(x.idle)
	x.mu.Unlock()
	x.disconnect()
	x.connected, x.disconnect = context.WithCancel(context.Background())
	session, err := kgo.NewGroupTransactSession(slices.Concat(x.connection(), x.membership(), production(x.config),
		[]kgo.Opt{
			kgo.ConsumeTopics(x.config.Topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.TransactionalID(x.config.InstanceID), kgo.TransactionTimeout(x.config.Settings.TransactionTimeout.D()),
			kgo.OnPartitionsAssigned(x.onAssigned), kgo.OnPartitionsRevoked(x.onTaken), kgo.OnPartitionsLost(x.onTaken),
			kgo.OnPartitionsCallbackBlocked(onBlocked),
		}, x.config.Options)...)
	if err != nil {
		return fmt.Errorf("opening the Kafka client for %s: %w", x.config.Topic, err)
	}
	x.session, x.client = session, session.Client()
	return nil
}

// rest waits before the next try. The wait grows with consecutive failures.
func (x *transactor) rest(ctx context.Context) {
	x.fails++
	select {
	case <-ctx.Done():
	case <-time.After(reconnectBackoff(x.fails)):
	}
}

func (x *transactor) onAssigned(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for topic, ids := range partitions {
		for _, id := range ids {
			x.owned[TopicPartition{topic, id}] = struct{}{}
		}
	}
}

// onBlocked lets in a rebalance that has waited long enough for the current batch.
func onBlocked(_ context.Context, client *kgo.Client) {
	time.AfterFunc(holdLimit, client.AllowRebalance)
}

// onTaken gives up the current batch and waits until no attempts are running. The partitions belong to this member
// until it returns.
func (x *transactor) onTaken(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	if len(partitions) == 0 {
		return
	}
	x.mu.Lock()
	for topic, ids := range partitions {
		for _, id := range ids {
			x.forget(TopicPartition{topic, id})
		}
	}
	if !x.isTaken {
		x.isTaken = true
		close(x.taken)
	}
	idle := x.idle
	x.mu.Unlock()
	<-idle // run's limit bounds the wait
}

// forget removes the known results of a partition; mu is held.
func (x *transactor) forget(at TopicPartition) {
	delete(x.owned, at)
	for record := range x.known {
		if record.TopicPartition == at {
			delete(x.known, record)
		}
	}
}

// turn processes one batch. An error means that the client cannot continue.
func (x *transactor) turn(ctx context.Context) error {
	defer x.client.AllowRebalance()
	fetches := x.poll(ctx) // rebalances wait from here on
	x.mu.Lock()
	x.renew(x.owned)
	taken, idle := x.taken, make(chan struct{})
	x.idle = idle
	x.mu.Unlock()
	x.over, x.letters, x.complete = nil, nil, true
	x.take(fetches)
	x.run(ctx.Done(), taken)
	close(idle)
	if fetches.NumRecords() == 0 {
		return nil
	}
	written := false
	if x.complete {
		var err error
		if written, err = x.write(ctx, taken); err != nil {
			return err
		}
	}
	return x.commitBatch(ctx, written)
}

// remembered accepts a record whose result is known.
func (x *transactor) remembered(record *kgo.Record) bool {
	x.mu.Lock()
	t := x.known[placeOf(record)]
	x.mu.Unlock()
	if t == nil {
		return false
	}
	t.home = x.enter(t.home.at)
	x.over = append(x.over, t)
	if t.letter != nil {
		x.letters = append(x.letters, t)
	}
	return true
}

// collect keeps a dead letter until the batch is done.
func (x *transactor) collect(t *task) {
	x.letters = append(x.letters, t)
	x.conclude(t, deadLettered)
}

func (x *transactor) onEnded(t *task, how ending) {
	if how == released {
		x.complete = false
		return
	}
	x.over = append(x.over, t)
}

// write writes the dead letters in a transaction. If any was rejected, it writes all of them in a new transaction,
// without a maximum number of tries. It reports whether they are written. They are not if the batch was taken away or
// the time for a stop is over. The transaction is then aborted.
func (x *transactor) write(ctx context.Context, taken <-chan struct{}) (bool, error) {
	x.inFlight = len(x.letters)
	defer func() { x.inFlight = 0 }()
	for tries := 1; ; tries++ {
		if err := x.session.Begin(); err != nil {
			return false, fmt.Errorf("beginning a transaction: %w", err)
		}
		err := x.publishAll(ctx, taken)
		if err == nil {
			for _, t := range x.letters {
				x.calm(t)
			}
			return true, nil
		}
		if err := x.abort(ctx); err != nil {
			return false, err
		}
		if errors.Is(err, errInterrupted) {
			return false, nil
		}
		select {
		case <-time.After(x.parts.Policy.Republish(tries)):
		case <-taken:
			return false, nil
		case <-ctx.Done():
			return false, nil
		}
	}
}

var errInterrupted = errors.New("the batch is given up")

// publishAll passes the dead letters to the Parker and waits for all of its answers. At a stop it waits as long as
// attempts may take. It needs no other limit: if the coordinator aborts a transaction that takes too long, the
// remaining writes are rejected.
func (x *transactor) publishAll(ctx context.Context, taken <-chan struct{}) (refusal error) {
	type answer struct {
		task *task
		err  error
	}
	answers, pending := make(chan answer, len(x.letters)), make(map[*task]struct{}, len(x.letters))
	for _, t := range x.letters {
		pending[t] = struct{}{}
		x.parts.Parker.Park(x.life, x.client, t.letter, func(err error) { answers <- answer{t, err} })
	}
	late, stop, grace := time.After(patience), ctx.Done(), (<-chan time.Time)(nil)
	for len(pending) > 0 {
		select {
		case got := <-answers:
			delete(pending, got.task)
			if got.err != nil {
				got.task.tries++
				x.complain(got.task, got.err.Error())
				refusal = got.err
			}
		case <-late:
			for t := range pending {
				x.complain(t, "the write is not acknowledged after "+patience.String())
			}
			late = time.After(patience)
		case <-stop:
			x.noteStop(ctx)
			stop, grace = nil, time.After(time.Until(x.stopAt.Add(x.grace(workShare))))
		case <-grace:
			return errInterrupted
		case <-taken:
			return errInterrupted
		}
	}
	return refusal
}

// noteStop records the time at which the consumer was asked to stop.
func (x *transactor) noteStop(ctx context.Context) {
	if ctx.Err() != nil && x.stopAt.IsZero() {
		x.stopping, x.stopAt = true, time.Now()
	}
}

// abort aborts the transaction but keeps the batch. It bypasses the session, which would start to poll again.
func (x *transactor) abort(ctx context.Context) error {
	x.noteStop(ctx)
	aborting, cancel := x.until(commitShare, endLimit)
	defer cancel()
	if err := x.client.AbortBufferedRecords(aborting); err != nil {
		return fmt.Errorf("waiting for unanswered dead letters before an abort: %w", err)
	}
	if err := x.client.EndTransaction(aborting, kgo.TryAbort); err != nil {
		return fmt.Errorf("aborting a transaction: %w", err)
	}
	return nil
}

// commitBatch ends the batch. Its offsets are committed together with the written dead letters, or it will be polled
// again.
func (x *transactor) commitBatch(ctx context.Context, written bool) error {
	x.noteStop(ctx)
	x.mu.Lock()
	if x.isTaken { // a partition taken from now on also affects the next batch
		x.taken, x.isTaken = make(chan struct{}), false
	}
	x.mu.Unlock()
	// The session first requires a heartbeat. A member that is to give up partitions (or has lost them) sends none
	// before the rebalance is let in: always in the consumer protocol, and after a loss in the classic one.
	if x.config.Settings.GroupProtocol == ProtocolConsumer {
		x.client.AllowRebalance()
	}
	defer time.AfterFunc(endPatience, x.client.AllowRebalance).Stop()
	ending, cancel := x.until(commitShare, endLimit)
	defer cancel()
	committed, err := x.session.End(ending, kgo.TransactionEndTry(written))
	x.remember(committed)
	switch {
	case err != nil:
		return fmt.Errorf("ending a transaction: %w", err)
	case committed:
		x.fails = 0
	case written:
		x.config.Logger.Info().Str("transactional_id", x.config.InstanceID).Msg(
			"a transaction was aborted; its records come again")
		x.client.AllowRebalance()
		x.rest(ctx)
	}
	return nil
}

// remember keeps the results of the batch's records if the batch was not committed.
func (x *transactor) remember(committed bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, t := range x.over {
		at := placeOf(t.record)
		if _, owned := x.owned[at.TopicPartition]; owned && !committed {
			x.known[at] = t
		} else {
			delete(x.known, at)
		}
	}
}
