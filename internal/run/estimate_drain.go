package run

// The estimate of the drain's duration. It plays the plan as the contract says that the subject retries. Where a
// record that waits for its next attempt blocks others, the waits add up, and a load of seconds drains for minutes.

import (
	"fmt"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/internal/units"
)

// laneOf names the scope within which records are processed one at a time: a key, a partition or an instance. It is
// "" if no record waits for another.
type laneOf string

const (
	laneNone      laneOf = ""
	laneKey       laneOf = "key"
	lanePartition laneOf = "partition"
	laneInstance  laneOf = "instance"
)

// lanesOf returns three scopes: the one that the promised order alone requires, the one that most subjects with
// these promises have, and that of the slowest subjects. A subject without retry topics that promises neither an
// order nor isolation may work on one record at a time or on all at once. Most have a loop for each partition, or
// one for all.
func lanesOf(contract *history.Contract) (least, usual, most laneOf) {
	promised := map[history.Ordering]laneOf{
		history.OrderingKey: laneKey, history.OrderingPartition: lanePartition,
	}[contract.Ordering]
	switch {
	case contract.Retry == history.RetryTopics || contract.GroupType == history.GroupShare:
		return laneNone, laneNone, laneNone // copies and released records wait beside the others
	case contract.Isolation > 0:
		return promised, promised, promised
	case promised == laneNone:
		return laneNone, lanePartition, laneInstance
	}
	return promised, promised, laneInstance
}

// drainPart estimates the time from the end of the load until the last record is done, from the waits alone, since
// the duration of an attempt is not known. A drain ends after drainCap, whatever is left.
func drainPart(planned *plan.Plan, contract *history.Contract, instances int) EstimatedPart {
	least, usual, most := lanesOf(contract)
	played := playedLoad{plan: planned, contract: contract, instances: max(instances, 1)}
	certain := played
	certain.certain = true
	part := EstimatedPart{
		Name: "drain", Least: min(certain.drain(least), drainCap),
		Usual: min(played.drain(usual)+drainPoll, drainCap),
		Why:   "the waits of the last record that fails",
	}
	slowest := max(played.drain(most), seriesOf(*contract))
	part.Most = min(slowest, drainCap) + contract.Patience(planned.Failures(contract))
	if usual != laneNone {
		part.Why = fmt.Sprintf("retries in place, one record of each %s at a time", usual)
	}
	if most != usual {
		part.Why += fmt.Sprintf(" (at most: of each %s)", most)
	}
	if slowest > drainCap {
		part.Why += fmt.Sprintf("; a drain ends after %s, and by these waits it may need %s", units.Text(drainCap),
			units.Text(slowest))
	}
	part.Why += fmt.Sprintf("; longer while something moves, until nothing has for %s and the session timeout",
		contract.Patience(planned.Failures(contract)))
	return part
}

// playedLoad is a load as a subject with the contract processes it.
type playedLoad struct {
	plan      *plan.Plan
	contract  *history.Contract
	instances int
	// certain limits the estimate to what is promised and planned: no jitter, no fault, and no retry if the contract
	// does not promise a number of attempts.
	certain bool
}

// drain returns how long after the end of the load the last record is done.
func (p *playedLoad) drain(by laneOf) time.Duration {
	free, last := map[int32]time.Duration{}, time.Duration(0)
	for i := range p.plan.Due() {
		record := &p.plan.Records[i]
		lane, begins := p.lane(record, by), record.At
		if lane != history.None {
			begins = max(begins, free[lane])
		}
		free[lane] = p.done(record, begins)
		last = max(last, free[lane])
	}
	return max(0, last-p.plan.WarmUp-p.plan.Steady)
}

// lane returns the number of the record's lane, None if it waits for no other record.
func (p *playedLoad) lane(record *plan.Record, by laneOf) int32 {
	switch by {
	case laneKey:
		return record.Key
	case lanePartition:
		return record.Partition
	case laneInstance:
		return record.Partition % int32(p.instances)
	}
	return history.None
}

// done returns the time at which a record is done whose first attempt is made at the given time. If the contract
// promises no number of attempts, those of a record that never succeeds are unknown, and only the first counts.
func (p *playedLoad) done(record *plan.Record, at time.Duration) time.Duration {
	const mostCounted = 64
	for k := 1; k < mostCounted && k != p.contract.MaxAttempts; k++ {
		outcome, lasting := p.outcome(record, k, at)
		if !slices.Contains(p.contract.Retryable, outcome) || (lasting || p.certain) && p.contract.MaxAttempts == 0 {
			return at
		}
		wait := p.contract.Backoff.Wait(k)
		if !p.certain {
			wait += p.contract.Backoff.Jitter
		}
		if outcome == history.OutcomeRateLimited && !p.contract.IgnoresRetryAfter {
			wait = max(wait, p.plan.RetryAfter)
		}
		at += min(wait, time.Hour)
	}
	return at
}

// outcome returns the outcome of the k-th attempt of a record, and whether all later attempts have the same outcome.
func (p *playedLoad) outcome(record *plan.Record, k int, at time.Duration) (outcome history.Outcome, lasting bool) {
	switch {
	case !p.certain && p.isDown(at):
		return history.OutcomeTransient, false
	case record.Outcome == history.OutcomeExhausted:
		return history.OutcomeTransient, true
	case record.Outcome == history.OutcomePermanent || record.Outcome == history.OutcomeLogical:
		return record.Outcome, true
	case k <= int(record.Failures):
		return record.Outcome, false
	}
	return history.OutcomeSuccess, false
}

// isDown reports whether a fault makes every attempt at that time fail, if its window begins as early as possible.
func (p *playedLoad) isDown(at time.Duration) bool {
	for i := range p.plan.Faults {
		f := &p.plan.Faults[i]
		if from := p.plan.WarmUp + f.At; f.Fault.Traits().FailsAttempts && at >= from && at < from+f.For {
			return true
		}
	}
	return false
}
