package harness

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/dlqbench/dlqbench/history"
)

const (
	// drainPoll is how often the committed offsets are asked for.
	drainPoll = 100 * time.Millisecond
	// quietMargin is added to the longest promised wait: a subject that did nothing at all for longer has nothing left to do.
	quietMargin = time.Second
	// adminLimit bounds one question to the brokers.
	adminLimit = 5 * time.Second
)

// drain waits until the subject is done: every input and retry partition is committed to its end, and no record that failed is still waiting for
// its next attempt or its dead letter. It gives up after the scenario's limit: what is unfinished then is for the checkers to name.
func (r *run) drain(ctx context.Context) error {
	given := r.allow(r.drainLimit())
	limit := time.NewTimer(given.limit)
	defer limit.Stop()
	poll := time.NewTicker(drainPoll)
	defer poll.Stop()
	watch := newQuiet(r.clock, r.quietAfter())
	for {
		committed, sure, asking := r.committedToEnd(ctx) // brokers that don't answer now may do so the next time
		now := r.live.figures()
		still := watch.still(now, r.oracles.inFlight())
		if committed && (sure && now.retrying == 0 && r.oracles.inFlight() == 0 || still) {
			return nil
		}
		select {
		case <-poll.C:
		case <-limit.C:
			if more := given.more(); more > 0 {
				limit.Reset(more)
				continue
			}
			if asking != nil && ctx.Err() == nil {
				return environment("asking the brokers how far the subject is", asking)
			}
			r.options.Log.Warn().Int64("lag", now.lag).Int64("retrying", now.retrying).
				Msg("the drain reached its limit before the subject had finished")
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// drainLimit is the scenario's, but half of it after a load that could not keep its schedule: a subject that is behind then may have the
// machine to thank for it, and must not count as stalled when its time is over.
func (r *run) drainLimit() time.Duration {
	limit := r.scenario.Expect.Drain.D()
	if r.live.offSchedule() {
		r.options.Log.Warn().Msg("the workload could not keep its schedule, so the run can't be conclusive: lower the rate, or give it more of the machine")
		return limit / 2
	}
	return limit
}

// allowance is the time that the subject has for what is left. What the machine takes of it is given back, up to as much again: else a busy one would
// leave open whether the subject was at fault.
type allowance struct {
	live               *live
	limit, compensated time.Duration
	before             map[int16]time.Duration
}

func (r *run) allow(limit time.Duration) *allowance {
	return &allowance{live: r.live, limit: limit, before: r.live.stalled()}
}

// more returns by how much longer the subject may take when its time is over, 0 if it had all.
func (a *allowance) more() time.Duration {
	lost := min(a.lost(), a.limit)
	more := lost - a.compensated
	if more < drainPoll {
		return 0
	}
	a.compensated = lost
	return more
}

// lost is for how long the harness could not run since, and the instance that was worst off.
func (a *allowance) lost() time.Duration {
	most, now := time.Duration(0), a.live.stalled()
	for instance, lasted := range now {
		if instance != history.None {
			most = max(most, lasted-a.before[instance])
		}
	}
	return now[history.None] - a.before[history.None] + most
}

// quietAfter is how long a subject with anything left to do may be still.
func (r *run) quietAfter() time.Duration {
	longest := time.Duration(0)
	for _, contract := range r.contracts() {
		backoff := contract.Backoff
		longest = max(longest, backoff.Wait(max(contract.MaxAttempts, 1))+backoff.Jitter+backoff.Late)
	}
	return longest + r.plan.RetryAfter + quietMargin
}

// quiet notices when nothing has happened for a while.
type quiet struct {
	clock history.Clock
	after time.Duration
	last  [3]int64
	since time.Duration
}

func newQuiet(clock history.Clock, after time.Duration) *quiet {
	return &quiet{clock: clock, after: after, since: clock.Now()}
}

func (q *quiet) still(figures figures, inFlight int64) bool {
	now := [3]int64{figures.Processed, figures.DeadLetters, figures.Attempts}
	if now != q.last || inFlight > 0 {
		q.last, q.since = now, q.clock.Now()
	}
	return q.clock.Now()-q.since > q.after
}

// committedToEnd asks the brokers, directly, whether the group has committed every partition of the input and of the retry topics to its end. It is
// not sure where a retry topic has records and no offset of the group at all: perhaps they were not reached yet, perhaps another group
// reads that topic.
func (r *run) committedToEnd(ctx context.Context) (committed, sure bool, err error) {
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
		// Asked after the offsets, so that a copy that was written meanwhile counts as open.
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

// left tells whether a topic has records that the group has not committed, and whether it has committed any offset of it.
func left(ends map[int32]kadm.ListedOffset, committed map[int32]kadm.OffsetResponse) (open, begun bool) {
	for partition, end := range ends {
		at, known := committed[partition]
		known = known && at.Err == nil && at.At >= 0
		begun = begun || known
		open = open || end.Err != nil || end.Offset > 0 && (!known || at.At < end.Offset)
	}
	return open, begun
}
