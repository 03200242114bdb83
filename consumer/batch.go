package consumer

// This file works batch by batch, as share groups and transactions require: it polls records, brings every one of
// them to a final state, settles the results with the broker, and only then polls the next batch.

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// pollWait is the maximum duration of one poll. Health's view of the assignment is renewed after each poll.
const pollWait = 250 * time.Millisecond

// healthEvery is the interval at which Health is renewed while a batch is processed.
const healthEvery = 100 * time.Millisecond

// ending is the final state of a record within a batch.
type ending uint8

const (
	// finished: the record was processed, or failed logically.
	finished ending = iota
	// deadLettered: the record failed permanently and its dead letter has been handed over, or dead-lettering is off.
	deadLettered
	// released: the record is not finished, and its next owner starts it again.
	released
)

// batch brings polled records to a final state with the loop's means. Its goroutine owns all state. Nothing is
// assigned, drained or committed here.
type batch struct {
	*loop
	// open are the records without a final state.
	open map[*task]struct{}
	// halting: no more work is started in this batch. stopAt is the time at which the consumer was asked to stop.
	halting bool
	stopAt  time.Time
	// ended is called once for each record with its final state.
	ended func(*task, ending)
	// park receives each task whose dead letter is encoded. By default the dead letter is published at once, and the
	// record has ended when the broker acknowledges it.
	park func(*task)
	// recall, if set, reports whether a polled record needs no attempts.
	recall func(*kgo.Record) bool
}

func newBatch(c *Consumer, ended func(*task, ending)) *batch {
	b := &batch{loop: newLoop(c), open: map[*task]struct{}{}, ended: ended}
	b.park = b.publish
	return b
}

// size returns the maximum number of records in a batch.
func (b *batch) size() int { return min(maxPoll, b.config.Settings.MaxInFlight) }

// poll waits briefly for records.
func (b *batch) poll(ctx context.Context) kgo.Fetches {
	waiting, cancel := context.WithTimeout(ctx, pollWait)
	defer cancel()
	return b.client.PollRecords(waiting, b.size())
}

// renew starts a batch. It discards the trouble of the last batch together with its partitions.
func (b *batch) renew(assigned map[TopicPartition]struct{}) {
	b.partitions = make(map[TopicPartition]*partition, len(assigned))
	for at := range assigned {
		b.enter(at)
	}
	b.report()
}

func (b *batch) enter(at TopicPartition) *partition {
	home := b.partitions[at]
	if home == nil {
		home = &partition{at: at, tracker: b.parts.NewTracker(), committed: -1, fetched: -1}
		b.partitions[at] = home
	}
	return home
}

// take accepts polled records.
func (b *batch) take(fetches kgo.Fetches) {
	b.warn(fetches)
	fetches.EachRecord(func(record *kgo.Record) {
		if b.recall != nil && b.recall(record) {
			return
		}
		home := b.enter(TopicPartition{record.Topic, record.Partition})
		t := &task{record: record, home: home, slot: home.tracker.Add(record.Offset, record.LeaderEpoch),
			origin: originOf(record), place: -1}
		if b.config.Settings.Retry == RetryRedelivery {
			t.attempts = int(record.DeliveryCount()) - 1 // the attempt of this delivery completes the count
		}
		home.active++
		b.inFlight++
		b.open[t] = struct{}{}
		lane, ordered := b.parts.Lane(record)
		b.schedule.add(t, lane, ordered)
	})
}

// run brings every accepted record to a final state. When stop is closed (the consumer is to stop) or taken is closed
// (the records now belong to another member), no more work is started. Records in backoff or not yet started are
// released at once. Attempts and publications in progress may run until the limit.
func (b *batch) run(stop, taken <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	health := time.NewTicker(healthEvery)
	defer health.Stop()
	b.halting = false
	var limit <-chan time.Time
	for len(b.open) > 0 {
		select { // before any attempt starts
		case <-stop:
			stop, limit = nil, time.After(b.grace(workShare))
			b.stopping, b.stopAt = true, time.Now()
			b.halt()
			continue
		case <-taken:
			taken, limit = nil, time.After(revokeLimit)
			b.halt()
			continue
		default:
		}
		if !b.halting {
			b.dispatch()
		}
		b.arm(timer)
		select {
		case <-b.outcomes.wake:
		case <-timer.C:
		case <-health.C:
			b.report()
		case <-limit:
			b.abandon()
		case <-stop:
		case <-taken:
		}
		b.settle()
		b.expire(time.Now())
	}
}

// halt releases the records in backoff and the records that were not started.
func (b *batch) halt() {
	b.halting = true
	var backoff []*task
	for _, home := range b.partitions {
		backoff = append(backoff, b.schedule.inPhase(home, waiting)...)
		b.schedule.forget(home)
	}
	for _, t := range backoff {
		b.giveBack(t)
	}
	for t := range b.open {
		if t.phase == queued || t.phase == refused {
			b.leave(t)
		}
	}
}

// giveBack applies the part's decision for a stop to a task that would be retried. Otherwise, and by default, the
// task is left to its next owner.
func (b *batch) giveBack(t *task) {
	action := Retry
	if b.stopping {
		action = b.parts.AtStop(t.record)
	}
	switch action {
	case Finish:
		b.conclude(t, finished)
	case DeadLetter:
		b.deadLetter(t, errStopped)
	case Retry:
		b.leave(t)
	}
}

var errLastDelivery = errors.New(
	"the consumer stopped before the record was processed, and the broker would not deliver it again")

// leave releases a record. A share group's record at the broker's delivery limit would be lost by a release, so it is
// dead-lettered.
func (b *batch) leave(t *task) {
	switch {
	case t.record.DeliveryCount() < deliveryLimit:
		b.conclude(t, released)
	case t.letter != nil:
		b.publish(t)
	default:
		b.deadLetter(t, errLastDelivery)
	}
}

// abandon releases everything. The results of attempts and publications in progress are ignored.
func (b *batch) abandon() {
	for t := range b.open {
		b.conclude(t, released)
	}
}

// conclude records the final state of a record. The next record in its lane becomes ready.
func (b *batch) conclude(t *task, how ending) {
	delete(b.open, t)
	b.ended(t, how)
	b.finish(t)
}

// settle processes the reports of workers and the Parker. It includes reports on abandoned records, because their
// workers are free again.
func (b *batch) settle() {
	for _, result := range b.outcomes.take() {
		t := result.task
		t.home.busy--
		if t.phase != publishing {
			b.busy--
		}
		if _, open := b.open[t]; !open {
			continue
		}
		if t.phase == publishing {
			b.onPublished(t, result.err)
		} else {
			b.onAttempt(t, result)
		}
	}
}

func (b *batch) onAttempt(t *task, result outcome) {
	decision := b.parts.Policy.Decide(t.record, t.attempts, result.err)
	switch decision.Action {
	case Finish:
		b.note(t, result.err)
		b.conclude(t, finished)
	case DeadLetter:
		b.deadLetter(t, result.err)
	case Retry:
		switch {
		case b.config.Settings.Retry == RetryRedelivery:
			b.conclude(t, released)
		case b.halting:
			b.giveBack(t)
		default:
			b.schedule.later(t, waiting, result.at.Add(decision.Wait))
		}
	}
}

func (b *batch) deadLetter(t *task, cause error) {
	if !b.config.Settings.WritesDLQ() {
		b.discard(t, cause)
		b.conclude(t, deadLettered)
		return
	}
	b.seal(t, cause)
	b.park(t)
}

func (b *batch) onPublished(t *task, err error) {
	b.schedule.cancel(t)
	if err == nil {
		b.calm(t)
		b.conclude(t, deadLettered)
		return
	}
	t.tries++
	b.complain(t, err.Error())
	if b.halting {
		b.conclude(t, released)
		return
	}
	b.schedule.later(t, refused, time.Now().Add(b.parts.Policy.Republish(t.tries)))
}

// until returns a context that ends when the given share of the stop grace is over. While the consumer has not been
// asked to stop, the context ends after the duration otherwise.
func (b *batch) until(share float64, otherwise time.Duration) (context.Context, context.CancelFunc) {
	if b.stopAt.IsZero() {
		return context.WithTimeout(context.Background(), otherwise)
	}
	return context.WithDeadline(context.Background(), b.stopAt.Add(b.grace(share)))
}

// depart ends attempts and publications in progress, leaves the group, and waits for the workers.
func (b *batch) depart() error {
	b.end()
	close(b.tasks)
	b.Consumer.leave(b.loop)
	return b.awaitWorkers()
}
