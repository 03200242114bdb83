package assertions

// store-lifecycle, part two: the times of attempts, of the recovery of a dead worker's lock, and of retention.

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

// judgeDue checks that an entry is taken no earlier than it is due, by the database's clock, and soon after that if a
// worker was idle.
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

// judgeTaken checks the time at which an entry was taken, or the end of the run if it was not taken.
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

// judgeWaits checks two strategies: for the immediate one, the waits from one attempt's end to the next one's start at
// the downstream stub; for the scheduled one, that attempts are made at off-peak hours. The worker counts its wait from
// the answer, or later.
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

// underway returns the change by which the worker locked the entry before the attempt. It is unknown, nil, if the
// worker had already released the entry and the clocks cannot show which lock the attempt belongs to.
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
			taken = one // a renewal of its lease does not count
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
		if r := c.w.record(entry.record); r != nil && c.w.letterAsked(r) >= 0 {
			from, mark = c.w.letterAsked(r), moment{history.KindProduceRequest, c.w.letterAsked(r)}
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

// counted reports whether the attempt failed and the table counts it as DLQ retry number retries.
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

// judgeHour checks that an attempt is made at one of the hours, by the scaled calendar, which agrees with the clock at
// midnight UTC. A worker that took the entry in such an hour may attempt it shortly after the hour's end. A worker that
// took it and attempted it outside these hours did not check the hour.
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

// judgeProbed checks the conditional strategy: after it has locked an entry and before it attempts it, the worker asks
// the health probe, and the last answer says that all conditions are met. The answer is stamped before it is written
// and the attempt after it was read, so an answer that came first has the earlier stamp.
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

// judgeHolds checks that the lock of a worker that died is recovered. The worker's last renewal came before it died, so
// its lease expired one lease later at the latest. From then on, a living worker has the time that it may wait.
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

// watchedFrom reports whether the table was observed throughout.
func (c *storeLifecycle) watchedFrom(from, to time.Duration) bool {
	return !slices.ContainsFunc(c.s.lost, func(gap span) bool { return gap.from <= to && gap.to >= from })
}

// couldHave reports whether a process of the kind (a worker, or the keeper, which applies the retention) was alive,
// idle, not stalled and not cut off for at least need without interruption.
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
			// A process needs time to start.
			if quiet(slices.Clone(busy), max(from, alive.from+startUp), min(to, alive.to), need) {
				return true
			}
		}
	}
	return false
}

// disturbances returns the times in which faults disturbed a worker's connections, or stalls the machine.
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
	// Many small stalls are as bad as a large one: the database's processes are not measured, and stall when the
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

// holding returns the times in which a worker had an entry locked and was therefore busy. A worker whose lease expired
// continues with the entry until it notices. It has noticed when it takes another entry.
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

// hold is a lock that was lost, with the time of the loss.
type hold struct {
	by   int16
	from time.Duration
}

// judgeRetention checks that a removed or archived entry had been kept for its retention period.
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

// preceding returns when the change before the given one was made, by the database's clock, or the given one's own time
// if there is none. A table dates an event by the beginning of the statement, or of the transaction, while a trigger
// dates a change when it reaches it: on a busy machine, or behind a lock, a tenth of a second later. The exact delay
// cannot be observed from outside, but the statement began after the change that it found.
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

// keeps returns how long an entry in the state is kept; ends is false if it is kept until it is resolved.
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

// judgeEnd judges the pending step of an entry at the end of the run: to be taken, or to be removed.
func (c *storeLifecycle) judgeEnd(entry *storeEntry, last *storeChange) {
	if last == nil || !c.s.audited || c.s.auditedAt == never || last.polled {
		return
	}
	_, ended := c.w.phase(history.PhaseDrain)
	if last.To == history.StorePending && last.Strategy != conditional {
		if from, to := c.w.phase(history.PhaseReplay); from != never {
			ended = to
		}
		c.judgeTaken(entry, last, min(ended, c.s.auditedAt), changeMark(last))
	}
	c.judgeOverstay(entry, last, ended)
}

// judgeOverstay reports an entry that was kept until the time although its retention had ended and the keeper could
// have removed it long before.
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
