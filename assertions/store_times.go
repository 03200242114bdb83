package assertions

// store-lifecycle, part two: when entries are tried, for how long a dead worker's lock may stay, how long entries are
// kept.

import (
	"fmt"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

const (
	immediateRetry = "immediate_retry"
	scheduledRetry = "scheduled_retry"
	conditional    = "conditional_retry"
)

// judgeDue: an entry is taken when it is due and not before, by the database's clock; and once it is due, soon, if a
// worker had nothing else to do.
func (c *storeLifecycle) judgeDue(entry *storeEntry, before, one *storeChange) {
	if one.From != history.StorePending || one.To != history.StoreProcessing ||
		before.Next == history.None || one.made == never {
		return
	}
	byHand := one.Hand || c.contract.ByHand && !history.OfStore(one.by)
	if one.made+clockGrain < before.Next && !byHand {
		c.saw("retry-early", c.of(entry, one.seen, func() string {
			return fmt.Sprintf("entry %d was taken %s before it was due", entry.number, units.Text(before.Next-one.made))
		}, changeMark(before), changeMark(one)))
		return
	}
	c.judgeTaken(entry, before, one.made, changeMark(one))
}

// judgeTaken: it was taken, or not even by the end, at the time.
func (c *storeLifecycle) judgeTaken(entry *storeEntry, due *storeChange, at time.Duration, mark moment) {
	if c.contract.Poll <= 0 || c.contract.Workers == 0 || due.Next == history.None {
		return
	}
	patience := 2*c.contract.Poll + c.contract.Late
	from := max(due.Next, due.madeOr(due.seen)) + c.s.blur
	if at-from <= patience {
		return
	}
	if !c.couldHave("worker", from, at, patience) {
		c.remark("late, and no worker was alive and idle for long enough")
		return
	}
	c.saw("retry-late", c.of(entry, max(mark.at, at), func() string {
		return fmt.Sprintf("entry %d was due for %s, and a worker had nothing to do for longer than it may wait (%s)",
			entry.number, units.Text(at-from), units.Text(patience))
	}, changeMark(due), mark))
}

func (c *storeChange) madeOr(other time.Duration) time.Duration {
	if c.made == never {
		return other
	}
	return c.made
}

// judgeWaits: the waits of the immediate strategy, from one attempt's end to the next one's start as the oracle saw
// them, and of the scheduled one, that attempts are made at off-peak hours. The worker counts its wait from the answer,
// or later.
func (c *storeLifecycle) judgeWaits(entry *storeEntry) {
	if entry.record < 0 || c.several(entry.record) || c.contract.ByHand {
		return
	}
	attempts := c.s.attempts[entry.record]
	for i := range attempts {
		one := &attempts[i]
		taken := c.underway(entry, one)
		switch {
		case taken == nil:
		case taken.Strategy == scheduledRetry:
			c.judgeHour(entry, taken, one)
		case taken.Strategy == conditional && c.contract.Probed:
			c.judgeProbed(entry, taken, one)
		case taken.Strategy == immediateRetry && len(c.contract.Waits) > 0:
			c.judgeWait(entry, attempts, i, taken.retries)
		}
	}
}

// underway returns the change by which the worker locked the entry that it then tried. It is not known, nil, where the
// worker had given it up already and the clocks can't tell which lock the attempt is of.
func (c *storeLifecycle) underway(entry *storeEntry, attempt *storeAttempt) *storeChange {
	var taken *storeChange
	for i := range entry.changes {
		one := &entry.changes[i]
		if one.made == never || one.made-c.s.blur > attempt.from {
			break
		}
		switch {
		case one.To != history.StoreProcessing && one.made <= attempt.from:
			taken = nil
		case one.To == history.StoreProcessing && one.by == attempt.by.instance &&
			(taken == nil || one.From != history.StoreProcessing):
			taken = one // and not when it only renews its lease
		}
	}
	return taken
}

func (c *storeLifecycle) judgeWait(entry *storeEntry, attempts []storeAttempt, i int, retries int32) {
	from, mark := never, moment{}
	switch {
	case i > 0 && retries > 0 && c.counted(entry, &attempts[i-1], retries):
		from, mark = attempts[i-1].to, moment{history.KindAttemptEnd, attempts[i-1].to}
	case i == 0 && retries == 0:
		if r := c.w.record(entry.record); r != nil && r.letterAsked >= 0 {
			from, mark = r.letterAsked, moment{history.KindProduceRequest, r.letterAsked}
		}
	}
	if from == never {
		return
	}
	wait := c.contract.Waits[min(int(retries), len(c.contract.Waits)-1)]
	if got := attempts[i].from - from; got+clockGrain < wait {
		c.saw("retry-early", c.of(entry, attempts[i].from, func() string {
			return fmt.Sprintf("DLQ retry %d of entry %d began after %s, and its strategy promises a wait of %s", retries+1,
				entry.number, units.Text(got), units.Text(wait))
		}, mark, moment{history.KindAttemptStart, attempts[i].from}))
	}
}

// counted: the attempt failed, and the table counts it as DLQ retry number retries.
func (c *storeLifecycle) counted(entry *storeEntry, attempt *storeAttempt, retries int32) bool {
	if attempt.to == endless {
		return false
	}
	for i := range entry.changes {
		one := &entry.changes[i]
		if one.retries == retries && one.From == history.StoreProcessing && one.made != never {
			return one.made+c.s.blur >= attempt.to
		}
	}
	return false
}

// judgeHour: by the scaled calendar, which agrees with the clock at midnight UTC, an attempt is made at one of the
// hours. A worker that took the entry in such an hour may come to it a little after its end; one that took it at
// another time, and tried it at another time, did not look.
func (c *storeLifecycle) judgeHour(entry *storeEntry, taken *storeChange, attempt *storeAttempt) {
	off := c.contract.OffPeak
	if off == nil {
		return
	}
	zone, err := time.LoadLocation(off.Zone)
	if err != nil {
		c.remark("the time zone is not known here")
		return
	}
	within := func(at time.Duration) bool {
		for _, about := range []time.Duration{at - c.s.blur - clockGrain, at, at + c.s.blur + clockGrain} {
			if slices.Contains(off.Hours, off.Calendar(about).In(zone).Hour()) {
				return true
			}
		}
		return false
	}
	if within(taken.made) || within(attempt.from) {
		return
	}
	c.saw("retry-early", c.of(entry, attempt.from, func() string {
		return fmt.Sprintf("entry %d, whose retries are scheduled for off-peak hours (%v), was taken at %s and tried at %s",
			entry.number, off.Hours,
			off.Calendar(taken.made).In(zone).Format("15:04"), off.Calendar(attempt.from).In(zone).Format("15:04"))
	}, changeMark(taken), moment{history.KindAttemptStart, attempt.from}))
}

// judgeProbed: before an entry is tried by the conditional strategy its worker asks the health probe, once it has
// locked it, and what it was told last is that all is well. The answer is stamped before it is written, the attempt
// after it was read: what was told first has the earlier stamp.
func (c *storeLifecycle) judgeProbed(entry *storeEntry, taken *storeChange, attempt *storeAttempt) {
	var last *probeAnswer
	for i := range c.s.probes[attempt.by.instance] {
		if one := &c.s.probes[attempt.by.instance][i]; one.at <= attempt.from && one.at >= taken.made-c.s.blur {
			last = one
		}
	}
	if last != nil && last.unmet == "" {
		return
	}
	c.saw("retry-while-unhealthy", c.of(entry, attempt.from, func() string {
		if last == nil {
			return fmt.Sprintf(
				"%s tried entry %d, whose retries are conditional, and had not asked the health probe since it locked it",
				serviceName(attempt.by.instance), entry.number)
		}
		return fmt.Sprintf("%s tried entry %d, whose retries are conditional, %s after the health probe had told it: %s",
			serviceName(attempt.by.instance), entry.number, units.Text(attempt.from-last.at), last.unmet)
	}, changeMark(taken), moment{history.KindAttemptStart, attempt.from}))
}

// judgeHolds: the lock of a worker that died is recovered. Whatever the worker renewed, it did before it died, so that
// its lease was over one lease after that at the latest; from then on a living worker has so long as it may wait.
func (c *storeLifecycle) judgeHolds(entry *storeEntry) {
	if c.contract.Lease <= 0 {
		return
	}
	for i := range entry.changes {
		one := &entry.changes[i]
		if one.To != history.StoreProcessing || !history.OfStore(one.by) {
			continue
		}
		recovered, mark := c.s.until, changeMark(one)
		if i+1 < len(entry.changes) {
			recovered, mark = entry.changes[i+1].madeOr(entry.changes[i+1].seen), changeMark(&entry.changes[i+1])
		}
		died, dead := c.s.process(one.by).diedBetween(one.madeOr(one.seen), recovered)
		if !dead {
			continue
		}
		free := died + c.contract.Lease + c.s.blur
		patience := 2*c.contract.Poll + c.contract.Late
		if recovered-free <= patience || !c.watchedFrom(free, recovered) {
			continue
		}
		if !c.couldHave("worker", free, recovered, patience) {
			c.remark("a dead worker's lock, and no worker was alive and idle for long enough")
			continue
		}
		c.saw("orphaned-lock", c.of(entry, recovered, func() string {
			return fmt.Sprintf("%s died with entry %d locked; its lease was over, and nobody recovered it for %s", one.By,
				entry.number, units.Text(recovered-free))
		}, changeMark(one), mark))
	}
}

// watchedFrom reports whether the table was seen all the time.
func (c *storeLifecycle) watchedFrom(from, to time.Duration) bool {
	return !slices.ContainsFunc(c.s.lost, func(gap span) bool { return gap.from <= to && gap.to >= from })
}

// couldHave reports whether some worker (or keeper, who applies the retention) was, for so long without a break, alive,
// idle, not standing still and not cut off.
func (c *storeLifecycle) couldHave(who string, from, to, need time.Duration) bool {
	disturbed := c.disturbances()
	for instance, process := range c.s.processes {
		if kind, _ := history.StoreProcess(instance); kind != who {
			continue
		}
		busy := append(slices.Clone(disturbed), process.still...)
		if process.stopped != never {
			busy = append(busy, span{from: process.stopped, to: endless})
		}
		busy = append(busy, c.holding(instance)...)
		for _, alive := range process.alive {
			// A process needs a while to come up.
			if quiet(slices.Clone(busy), max(from, alive.from+startUp), min(to, alive.to), need) {
				return true
			}
		}
	}
	return false
}

// disturbances are the times in which a worker's connections, or the machine, were not in order.
func (c *storeLifecycle) disturbances() []span {
	var all []span
	for i := range c.w.faults {
		f := &c.w.faults[i]
		if !f.injected || f.planned.Kind == "subject" || f.planned.Kind == "downstream" ||
			f.planned.Kind == "store" && f.planned.Target != "database" {
			continue
		}
		to := endless
		if f.healed {
			to = f.to + max(faultGrace, c.contract.Recovery)
		}
		all = append(all, span{from: f.from, to: to})
	}
	// Many small stalls are as bad as a large one: the database's processes are not measured, and stand still as the
	// harness does.
	for _, one := range c.w.stalls.list {
		if one.instance == none {
			all = append(all, one)
		}
	}
	for _, entry := range c.entries {
		for i := range entry.changes {
			if one := &entry.changes[i]; one.made != never && one.seen-one.made > slowTable {
				all = append(all, span{from: one.made, to: one.seen})
			}
		}
	}
	return append(all, c.s.lost...)
}

// holding are the times in which a worker had an entry locked: then it is busy. One that lost its lock because its
// lease was over goes on with the entry until it notices; that it has is seen when it takes another.
func (c *storeLifecycle) holding(worker int16) []span {
	if c.held != nil {
		return c.held[worker]
	}
	c.held = map[int16][]span{}
	taken := map[int16][]time.Duration{}
	var lost []hold
	for _, entry := range c.entries {
		for i := range entry.changes {
			one := &entry.changes[i]
			if one.To != history.StoreProcessing {
				continue
			}
			from, to := one.madeOr(one.seen)-c.s.blur, endless
			taken[one.by] = append(taken[one.by], from)
			if i+1 < len(entry.changes) {
				next := &entry.changes[i+1]
				to = next.madeOr(next.seen) + c.s.blur
				if next.retries <= one.retries && (next.To == history.StorePending || next.To == history.StoreProcessing) {
					lost = append(lost, hold{one.by, to})
				}
			}
			c.held[one.by] = append(c.held[one.by], span{from: from, to: to})
		}
	}
	for _, one := range lost {
		until := endless
		for _, at := range taken[one.by] {
			if at > one.from && at < until {
				until = at
			}
		}
		c.held[one.by] = append(c.held[one.by], span{from: one.from, to: until})
	}
	return c.held[worker]
}

// hold is a lock that was lost, and when.
type hold struct {
	by   int16
	from time.Duration
}

// judgeRetention: what is removed or put away had been kept for as long as it must be.
func (c *storeLifecycle) judgeRetention(entry *storeEntry, before, one *storeChange) {
	leaves := one.To == history.StoreAbsent || one.From == history.StoreFailed && one.To == history.StoreArchived
	if !leaves || before == nil || one.Hand || one.From != before.To {
		return
	}
	keep, ends := c.keeps(one.From)
	switch {
	case c.contract.ByHand && !ends:
		return // a purge
	case !ends:
		c.saw("retention-early", c.of(entry, one.seen, func() string {
			return fmt.Sprintf("entry %d was removed while it was %s, which is kept until it is resolved", entry.number,
				one.From)
		}, changeMark(before), changeMark(one)))
		return
	case c.contract.Retention == nil && c.contract.Workers > 0 && !c.contract.ByHand:
		c.saw("retention-early", c.of(entry, one.seen, func() string {
			return fmt.Sprintf("entry %d was %s when it was taken away, and nothing in this run takes entries away",
				entry.number, one.From)
		}, changeMark(before), changeMark(one)))
		return
	case keep <= 0 || before.made == never || one.made == never:
		return
	}
	c.judgeOverstay(entry, before, one.made, changeMark(one))
	if kept := one.made - before.made; kept+clockGrain < keep && one.made-entry.preceding(before)+clockGrain < keep {
		c.saw("retention-early", c.of(entry, one.seen, func() string {
			return fmt.Sprintf("entry %d was %s for %s when it was taken away; it must be kept for %s", entry.number, one.From,
				units.Text(kept), units.Text(keep))
		}, changeMark(before), changeMark(one)))
	}
}

// preceding is when the change before the given one was made, by the database's clock; the given one's own time where
// there is none. A table dates what happens by the beginning of the statement, or of the transaction, while a trigger
// dates a change when it comes to it: on a machine that is busy, or behind a lock, a tenth of a second later. How much
// later nobody sees from outside, but the statement began after the change that it found.
func (e *storeEntry) preceding(change *storeChange) time.Duration {
	at := change.made
	for i := range e.changes {
		if &e.changes[i] == change {
			break
		}
		if made := e.changes[i].made; made != never {
			at = min(made, change.made)
		}
	}
	return at
}

// keeps returns how long an entry in the state is kept; ends is false for one that is kept until it is resolved.
func (c *storeLifecycle) keeps(state history.StoreState) (keep time.Duration, ends bool) {
	var retention history.Retention
	if c.contract.Retention != nil {
		retention = *c.contract.Retention
	}
	switch state {
	case history.StoreResolved:
		return retention.Resolved, true
	case history.StoreFailed:
		return retention.Failed, true
	case history.StoreArchived:
		return retention.Archived, true
	}
	return 0, false
}

// judgeEnd: what the entry waits for when the run is over: to be taken, or to be taken away.
func (c *storeLifecycle) judgeEnd(entry *storeEntry, last *storeChange) {
	if last == nil || !c.s.audited || c.s.auditedAt == never || last.polled {
		return
	}
	drained, ended := c.w.phase(history.PhaseDrain)
	if drained == never || ended == never {
		return
	}
	if last.To == history.StorePending && last.Strategy != conditional {
		if from, to := c.w.phase(history.PhaseReplay); from != never {
			ended = to
		}
		c.judgeTaken(entry, last, min(ended, c.s.auditedAt), changeMark(last))
	}
	c.judgeOverstay(entry, last, ended)
}

// judgeOverstay: an entry that came to its end is not kept until the time, if the keeper could have taken it away long
// before.
func (c *storeLifecycle) judgeOverstay(entry *storeEntry, last *storeChange, until time.Duration, marks ...moment) {
	keep, ends := c.keeps(last.To)
	if c.contract.Retention == nil || !ends || keep <= 0 || last.made == never {
		return
	}
	due := last.made + keep
	patience := 2*c.contract.Retention.Sweep + c.contract.Late
	if until-due <= patience || !c.couldHave("keeper", due, until, patience) {
		return
	}
	at := c.s.until
	if len(marks) > 0 {
		at = marks[0].at
	}
	c.saw("retention-late", c.of(entry, at, func() string {
		return fmt.Sprintf("entry %d was %s for %s, and may be kept for %s", entry.number, last.To,
			units.Text(until-last.made), units.Text(keep))
	}, append(marks, changeMark(last))...))
}
