package run

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

const (
	// drainPoll is the interval between queries of the committed offsets.
	drainPoll = 100 * time.Millisecond
	// quietMargin is added to the longest promised wait. A subject that did nothing at all for longer has nothing left
	// to do. It exceeds the judges' quietMargin (assertions/tolerances.go), so that they can judge the record that was
	// attempted last, too.
	quietMargin = 3 * time.Second
	// drainCap ends a drain in which something still moves. The run then says that it could not tell.
	drainCap = 15 * time.Minute
	// storeDrain is the time that a dead-letter store may take to come to rest.
	storeDrain = time.Minute
	// lackingLeast bounds lackingAfter from below: a contract may promise no wait, and clients wait up to a minute for a
	// topic, and try again.
	lackingLeast = 15 * time.Second
	// adminLimit bounds one query to the brokers.
	adminLimit = 5 * time.Second
)

// drain waits until the subject is done: every input and retry partition is committed to its end, and no failed
// record still waits for its next attempt or its dead letter, and until each process that left its group has come back
// or stayed away for so long that it will not. It continues while something moves. It ends when the
// subject has stood still for longer than its contract and the observed session timeouts explain; the checkers then
// name what is unfinished.
func (r *run) drain(ctx context.Context) error {
	poll := time.NewTicker(drainPoll)
	defer poll.Stop()
	defer r.activity.Store(nil)
	began, given, watch := r.clock.Now(), r.allow(), newQuiet(r.clock)
	for {
		committed, sure, asking := r.committedToEnd(ctx) // brokers that do not answer now may answer next time
		now := r.live.figures()
		still, limit := watch.still(r.live, now), r.standstill(now, given)
		r.showStill(still, limit)
		mayReturn := r.mayReturn(began)
		if committed && (sure && now.retrying == 0 && r.stubs.inFlight() == 0 || still > r.quietAfter()) && !mayReturn {
			return nil
		}
		if r.deserted() || r.options.Discovery.lookingOn() && r.ended() {
			return nil
		}
		if still > limit && !mayReturn || r.clock.Now()-began > drainCap {
			if asking != nil && ctx.Err() == nil {
				return environment("asking the brokers how far the subject is", asking)
			}
			r.options.Log.Warn().Int64("lag", now.lag).Int64("retrying", now.retrying).Str("still", units.Text(still)).
				Msg("the drain ended before the subject had finished")
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// mayReturn reports whether a process that left its group may still come back, in a drain that began then.
func (r *run) mayReturn(began time.Duration) bool {
	at, out := r.live.partitions.leftAt()
	return out && r.clock.Now()-max(at, began) <= r.explained()
}

// showStill shows for how long nothing has moved, of the time after which the drain ends; until then the figures say
// more.
func (r *run) showStill(still, limit time.Duration) {
	r.activity.Store(nil)
	if still >= noticeable {
		r.activity.Store(&activity{"waiting for the consumer: nothing has moved", r.clock.Now() - still, limit})
	}
}

// standstill returns how long nothing may move before the drain ends.
func (r *run) standstill(now figures, given *allowance) time.Duration {
	if r.lacksTopics(now) {
		return r.lackingAfter()
	}
	return r.patience() + given.back() + given.startup(r.clock.Now())
}

// lackingAfter returns how long a subject that lacks a topic must stand still.
func (r *run) lackingAfter() time.Duration { return max(r.quietAfter(), lackingLeast) }

// lacksTopics reports whether records that failed may wait for a topic that does not exist. If the subject then stands
// still, the run can tell no more.
func (r *run) lacksTopics(now figures) bool {
	return now.retrying > 0 && now.DeadLetters == 0 && len(r.tap.Missing()) > 0
}

// patience returns how long nothing may move before the subject counts as standing still. It is explained, or half
// of that after a load that could not keep its schedule: the machine may then be the reason why a subject is behind,
// and the subject must not count as stalled.
func (r *run) patience() time.Duration {
	patience := r.explained()
	if r.live.offSchedule() {
		r.offSchedule.Do(func() {
			r.options.Log.Warn().Msg("the workload fell behind its schedule, so the run may be inconclusive: lower the rate, " +
				"or give it more of the machine")
		})
		return patience / 2
	}
	return patience
}

// explained returns how long nothing may move according to the contract and the longest session timeout that a
// member asked for.
func (r *run) explained() time.Duration {
	return r.header.Expect.Patience + time.Duration(r.live.session.Load())
}

// inGroup returns how long an instance may wait in its group for partitions: until the session of a departed member
// has ended and the others have finished their current work. It is 0 if no member has joined a group.
func (r *run) inGroup() time.Duration {
	if r.live.session.Load() == 0 {
		return 0
	}
	return r.explained()
}

// allowance is the time that the machine took from the subject, and that its processes took to start. The first is
// given back up to the same amount again: otherwise a busy machine would leave open whether the subject was at fault.
// The second is given back for one process that gets ready, up to the time in which it must: a process that ends and is
// started again, as its contract says, stands still until then. One that was ready and ends again without having moved
// anything gets no more: the next one will meet the same record.
type allowance struct {
	live   *live
	limit  time.Duration
	before map[int16]time.Duration

	ready   time.Duration
	started []startup
	longest time.Duration
}

func (r *run) allow() *allowance {
	given := &allowance{live: r.live, limit: r.header.Expect.Patience, before: r.live.stalled(),
		started: r.live.processes.startups(r.clock.Now())}
	for instance := range given.started {
		given.ready = max(given.ready, r.subject.ReadyLimit(instance))
	}
	return given
}

// startup returns the longest time since then that an instance took to have a process that is ready.
func (a *allowance) startup(now time.Duration) time.Duration {
	for instance, one := range a.live.processes.startups(now) {
		if one.after == a.started[instance].after { // it had begun by then
			one.took -= a.started[instance].took
		}
		a.longest = max(a.longest, one.took)
	}
	return min(a.longest, a.ready)
}

// back returns the time since then during which the harness could not run, plus that of the instance that was
// affected most, up to the limit.
func (a *allowance) back() time.Duration {
	most, now := time.Duration(0), a.live.stalled()
	for instance, lasted := range now {
		if instance != history.None {
			most = max(most, lasted-a.before[instance])
		}
	}
	return min(now[history.None]-a.before[history.None]+most, a.limit)
}

// quietAfter returns how long a subject that has committed everything may be idle while a failed record is neither
// finished nor dead-lettered.
func (r *run) quietAfter() time.Duration { return r.longestWait + quietMargin }

// quiet measures for how long nothing has moved.
type quiet struct {
	clock history.Clock
	last  [2]int64
	since time.Duration
}

func newQuiet(clock history.Clock) *quiet { return &quiet{clock: clock, since: clock.Now()} }

// still returns for how long nothing has moved. A promised attempt counts as movement until it is answered. Attempts
// beyond the promised ones never count, nor do the dead letters of their records.
func (q *quiet) still(l *live, figures figures) time.Duration {
	now := [2]int64{l.moved.Load(), figures.lag}
	if now != q.last || l.underWay.Load() > 0 {
		q.last, q.since = now, q.clock.Now()
	}
	return q.clock.Now() - q.since
}

// committedToEnd asks the brokers directly whether the group has committed every partition of the input and retry
// topics to its end, or, if it commits nothing to Kafka, has finished each record. sure is false if a retry topic has
// records and the group has no offset there: the records may not have been reached yet, or another group may read that
// topic.
func (r *run) committedToEnd(ctx context.Context) (committed, sure bool, err error) {
	if r.header.Contract().OffsetsOutside {
		return r.live.lag() == 0, true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, adminLimit)
	defer cancel()
	offsets, err := r.progress(ctx)
	if err != nil {
		return false, false, err
	}
	sure = true
	for index, topic := range r.header.Topics {
		if topic.Role != history.RoleInput && topic.Role != history.RoleRetry && topic.Role != history.RoleNode {
			continue
		}
		// Query the ends after the offsets, so that a copy written meanwhile counts as open.
		ends, err := r.admin.ListEndOffsets(ctx, topic.Name)
		if err != nil {
			return false, false, fmt.Errorf("listing the end offsets of %s: %w", topic.Name, err)
		}
		r.live.discountMarkers(int16(index), ends[topic.Name], offsets[topic.Name])
		switch open, begun := left(ends[topic.Name], offsets[topic.Name]); {
		case open && (begun || topic.Role != history.RoleRetry):
			return false, false, nil
		case open:
			sure = false
		}
	}
	return true, sure, nil
}

// left reports whether a topic has records that the group has not committed, and whether the group has committed any
// offset of the topic.
func left(ends map[int32]kadm.ListedOffset, committed map[int32]kadm.OffsetResponse) (open, begun bool) {
	for partition, end := range ends {
		at, known := committed[partition]
		known = known && at.Err == nil && at.At >= 0
		begun = begun || known
		open = open || end.Err != nil || end.Offset > 0 && (!known || at.At < end.Offset)
	}
	return open, begun
}
