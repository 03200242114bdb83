package consumer

// Working batch by batch, as share groups and transactions ask for: records are polled, every one of them is brought to
// its end, what became of them is settled with the broker, and only then the next ones are polled.

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// pollWait bounds one poll: what Health says of the assignment is renewed after each.
const pollWait = 250 * time.Millisecond

// healthEvery is the time between two renewals of Health while a batch is worked on.
const healthEvery = 100 * time.Millisecond

// ending is what became of a record of a batch.
type ending uint8

const (
	// finished: it was processed, or failed logically.
	finished ending = iota
	// deadLettered: it failed for good and its dead letter is out of the batch's hands; or dead-lettering is off.
	deadLettered
	// released: it is not finished, and whoever is handed it next begins anew.
	released
)

// batch brings polled records to their ends with the loop's means. Its goroutine owns all state; nothing is assigned,
// drained or committed here.
type batch struct {
	*loop
	// open are the records that have not ended.
	open map[*task]struct{}
	// halting: nothing new is begun in this batch. stopAt is when the consumer was asked to stop.
	halting bool
	stopAt  time.Time
	// ended is told of each record, once, what became of it.
	ended func(*task, ending)
	// park is handed each task whose dead letter is sealed; by default it is published at once, and the record has
	// ended when that is acknowledged.
	park func(*task)
	// recall, where it is set, says of a polled record that it needs no attempts.
	recall func(*kgo.Record) bool
}

func newBatch(c *Consumer, ended func(*task, ending)) *batch {
	b := &batch{loop: newLoop(c), open: map[*task]struct{}{}, ended: ended}
	b.park = b.publish
	return b
}

// size is how many records a batch has at most.
func (b *batch) size() int { return min(maxPoll, b.config.Settings.MaxInFlight) }

// poll waits a moment for records.
func (b *batch) poll(ctx context.Context) kgo.Fetches {
	waiting, cancel := context.WithTimeout(ctx, pollWait)
	defer cancel()
	return b.client.PollRecords(waiting, b.size())
}

// renew begins a batch: the trouble of the last one is forgotten with its partitions.
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

// take takes polled records over.
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
			t.attempts = int(record.DeliveryCount()) - 1 // this delivery's attempt makes it the count
		}
		home.active++
		b.inFlight++
		b.open[t] = struct{}{}
		lane, ordered := b.parts.Lane(record)
		b.schedule.add(t, lane, ordered)
	})
}

// run brings every record that was taken to its end. When stop is closed (the consumer is to end) or taken is (the
// records are somebody else's by now), nothing new is begun: what is in backoff or was not begun is released at once,
// attempts and publications under way have until the limit.
func (b *batch) run(stop, taken <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	health := time.NewTicker(healthEvery)
	defer health.Stop()
	b.halting = false
	var limit <-chan time.Time
	for len(b.open) > 0 {
		select { // before anything is begun
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

// halt releases what is in backoff and what was not begun.
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

// giveBack does with a task that would be tried again what the part says at a stop; otherwise, and by default, it is
// left to whoever gets it next.
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

// leave releases a record. A share group's record that was delivered as often as the broker allows would be gone by
// that: it is dead-lettered.
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

// abandon releases everything; what comes of the attempts and publications under way counts for nobody.
func (b *batch) abandon() {
	for t := range b.open {
		b.conclude(t, released)
	}
}

// conclude notes what became of a record; the one behind it in its lane becomes ready.
func (b *batch) conclude(t *task, how ending) {
	delete(b.open, t)
	b.ended(t, how)
	b.finish(t)
}

// settle takes up what workers and the Parker have reported, also of records that were abandoned: their workers are
// free again.
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

// until returns a context that ends when so much of the stop grace is over, or so long from now while nobody has asked
// the consumer to stop.
func (b *batch) until(share float64, otherwise time.Duration) (context.Context, context.CancelFunc) {
	if b.stopAt.IsZero() {
		return context.WithTimeout(context.Background(), otherwise)
	}
	return context.WithDeadline(context.Background(), b.stopAt.Add(b.grace(share)))
}

// depart ends attempts and publications that still run, leaves the group, and waits for the workers.
func (b *batch) depart() error {
	b.end()
	close(b.tasks)
	b.Consumer.leave(b.loop)
	return b.awaitWorkers()
}
