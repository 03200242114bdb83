package consumer

// Transactions: the dead letters of a batch and its offsets are written in one transaction (exactly-once
// dead-lettering). Who reads committed data only sees a dead letter if and only if its record is committed: it is
// neither lost nor there twice.

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
	// holdLimit is how long a rebalance waits for the batch that is worked on to be committed; then the batch is given
	// up. Together with revokeLimit and the abort it is less than rebalanceTimeout.
	holdLimit = 4 * time.Second
	// endPatience is how long the end of a transaction may take before a rebalance that waits for it is let in: it may
	// wait for the rebalance in turn.
	endPatience = time.Second
	// endLimit bounds the end of a transaction: an abort waits for unanswered writes. Then the client is given up.
	endLimit = 10 * time.Second
)

// transactor works batch by batch, each in one transaction. While the attempts are made nothing of it exists: the dead
// letters are kept, and written when all of the batch is done. So a transaction is as short as can be, however long the
// retries take.
type transactor struct {
	*batch
	session *kgo.GroupTransactSession
	// over are the tasks of the batch that are done, letters those of them that leave a dead letter, in the order in
	// which they are written.
	over, letters []*task
	// complete: no record of the batch was released.
	complete bool
	// fails counts transactions that were not committed, one after another.
	fails int

	mu sync.Mutex
	// owned are the partitions that are assigned.
	owned map[TopicPartition]struct{}
	// known is what came of the records of transactions that were not committed, for as long as their partitions stay
	// here. They are polled again, but need not be processed again: attempts would exceed what was promised.
	known map[recordAt]*task
	// taken is closed when a partition is taken away: the session then commits nothing until the next batch. idle is
	// closed while no attempts are made.
	taken, idle chan struct{}
	isTaken     bool
}

// recordAt is a record's place.
type recordAt struct {
	TopicPartition
	offset int64
}

func placeOf(record *kgo.Record) recordAt {
	return recordAt{TopicPartition{record.Topic, record.Partition}, record.Offset}
}

// runTransactions consumes until ctx ends. A client whose producer was fenced off, or that does not know what became of
// its transaction, is replaced.
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

// connect opens a client. It has the transactional id of its predecessor, which is fenced off by that.
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

// rest waits before another try; longer each time in a row.
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

// onBlocked lets a rebalance in that has waited long enough for the batch that is worked on.
func onBlocked(_ context.Context, client *kgo.Client) {
	time.AfterFunc(holdLimit, client.AllowRebalance)
}

// onTaken has the batch that is worked on given up, and waits until no attempts are made any more: for as long the
// partitions are still this member's.
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
	<-idle // run's limit bounds it
}

// forget drops what is known of a partition; mu is held.
func (x *transactor) forget(at TopicPartition) {
	delete(x.owned, at)
	for record := range x.known {
		if record.TopicPartition == at {
			delete(x.known, record)
		}
	}
}

// turn works on one batch. Its error says that the client can't go on.
func (x *transactor) turn(ctx context.Context) error {
	defer x.client.AllowRebalance()
	fetches := x.poll(ctx) // from here on rebalances wait
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

// remembered takes over a record whose outcome is known.
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

// write writes the dead letters in a transaction, and all of them in another one when any was refused, for as long as
// it takes. It reports whether they are written; they are not when the batch was taken away or there is no more time at
// a stop. The transaction is then aborted.
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

// publishAll hands the letters to the Parker and waits for all of its answers, at a stop for as long as attempts may
// take. It has no other limit: when the coordinator aborts a transaction that takes too long, that is an answer to what
// is not written yet.
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

// noteStop notes when the consumer was asked to stop.
func (x *transactor) noteStop(ctx context.Context) {
	if ctx.Err() != nil && x.stopAt.IsZero() {
		x.stopping, x.stopAt = true, time.Now()
	}
}

// abort aborts the transaction, not the batch: the session is not asked, since it would begin to poll anew.
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

// commitBatch ends the batch: its offsets are committed together with the letters that are written, or it will be
// polled again.
func (x *transactor) commitBatch(ctx context.Context, written bool) error {
	x.noteStop(ctx)
	x.mu.Lock()
	if x.isTaken { // what is taken from now on concerns the next batch as well
		x.taken, x.isTaken = make(chan struct{}), false
	}
	x.mu.Unlock()
	// The session asks for a heartbeat first. Who is to give up partitions (or has lost them) makes none before the
	// rebalance is let in: in the consumer protocol in any case, in the classic one after a loss.
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

// remember keeps what came of the batch's records if it was not committed.
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
