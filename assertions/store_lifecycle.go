package assertions

// store-lifecycle: entries of the dead-letter store go only through the states of "Dead Letter Queue Lifecycle" (and
// the management schema), and one worker at a time works on an entry. Entries are marked resolved only after they
// succeeded, are attempted as often and at the times promised, and are kept for as long as promised.
//
// Three clocks are involved, and each rule says which it uses. Two changes, or a change and the time that the entry
// itself names, are compared by the database's clock alone: neither the watcher's delay nor a worker's own clock
// matters. Attempts are compared with each other by the downstream stub's stamps, which err towards the service. A
// change is compared with a stamp of the run only through the clock's blur, in the service's favour. Lateness is judged
// only where a worker could have been in time: it was alive and idle for longer than it may wait, without a stall and
// without a fault on its connections. Earliness is never excused, except within the resolution of the clocks.

import (
	"fmt"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

func storeLifecycleInvariant() Invariant {
	return Invariant{
		Name: "store-lifecycle",
		Promise: "An entry of the dead-letter store follows the documented lifecycle: one entry per dead letter, one " +
			"worker at a time, resolved only after a success.",
		Rule: "The states are those of \"Dead Letter Queue Lifecycle\" and of the management schema, whatever the " +
			"table calls them. A lock is passed on only when it is released or its lease has ended; a dead worker's " +
			"lock is recovered within the lease, two polls and the allowance. An entry is taken when it is due and " +
			"tried as often as promised; lateness is judged only if a worker was alive and idle long enough. Offsets of " +
			"the dead-letter topic are committed only after the row exists. Entries are kept as long as the retention " +
			"says, and pending ones until they are resolved.",
		Evidence: "the changes of the table, reported by its triggers or by polling, with the database's own times; " +
			"the attempts and republishes of the workers; the routers' commits; signals and ends of their processes; " +
			"and an audit of the table",
		Cause: "A worker reads and then writes instead of using compare-and-set. Nothing checks for leases that have " +
			"ended. The status is set before the answer is known. A retry is counted only when it succeeds. Retention " +
			"uses the wrong column.",
		Anomalies: storeLifecycleAnomalies(),
		of:        "changes of entries",
		needs: []precondition{{
			func(w *state) bool { return w.header.Store != nil }, Inapplicable, "the run has no dead-letter store",
		}},
		check: func(r *report) checker {
			return &storeLifecycle{report: r, s: r.w.store, contract: r.w.header.Store}
		},
	}
}

func storeLifecycleAnomalies() []AnomalyNote {
	return []AnomalyNote{
		{"illegal-transition", "a change of state that neither document allows, or an unknown status", []string{
			"4.000 s  entry 7 goes from resolved to processing",
		}},
		{"double-lock", "two workers held the entry at once", []string{
			"4.000 s  entry 7 goes from pending to processing, locked by worker-1 for 2s",
			"4.300 s  entry 7 goes from processing to processing, locked by worker-2",
		}},
		{"orphaned-lock", "a dead worker's lock was not recovered", []string{
			"4.000 s  entry 7 goes to processing, locked by worker-1 for 2s",
			"4.500 s  worker-1 gets KILL",
			"        ... entry 7 is processing until the end",
		}},
		{"resolved-without-success", "the entry was resolved before anything had succeeded", []string{
			"4.000 s  entry 7 is tried, and answered transient",
			"4.010 s  entry 7 goes from processing to resolved",
		}},
		{"over-retried-in-store", "the entry was tried, or sent back to be tried, more often than promised", []string{
			"3 DLQ retries are promised",
			"4.000 s  entry 7 is tried for the fourth time",
		}},
		{"retry-early", "the entry was taken or tried before it was due, or outside off-peak hours", []string{
			"4.000 s  entry 7 is pending, due 2s later",
			"4.500 s  entry 7 goes from pending to processing",
		}},
		{"retry-while-unhealthy", "an entry with conditional retries was tried although the health probe reported a " +
			"problem, or was not asked", []string{
			"4.000 s  the health probe is answered: the error rate is too high",
			"4.100 s  entry 7, whose retries are conditional, is tried",
		}},
		{"retry-late", "the entry was due and left lying while a worker was idle", []string{
			"4.000 s  entry 7 is due; worker-1 has nothing to do",
			"19.000 s  entry 7 is still pending",
		}},
		{"committed-before-stored", "the router committed an offset before the row existed", []string{
			"4.000 s  the router commits the dead-letter topic up to offset 9",
			"4.050 s  the entry of offset 8 is made",
		}},
		{"lost-in-store", "a dead letter never reached the store", []string{
			"4.000 s  the dead letter of record 3 is accepted at offset 8",
			"9.000 s  the audit finds no entry of it",
		}},
		{"doubled-in-store", "two entries have the same source position", []string{
			"4.000 s  entry 7 of input-0 offset 31 is made",
			"4.200 s  entry 9 of input-0 offset 31 is made",
		}},
		{"retention-early", "the entry was removed or archived before its time, or before its final state", []string{
			"resolved entries are kept for 1h",
			"4.000 s  entry 7 goes to resolved",
			"9.000 s  entry 7 is removed",
		}},
		{"retention-late", "the entry was kept longer than the retention says", []string{
			"resolved entries are kept for 2s",
			"4.000 s  entry 7 goes to resolved",
			"19.000 s  the audit finds entry 7",
		}},
	}
}

type storeLifecycle struct {
	*report
	s        *storeState
	contract *history.StoreContract
	entries  []*storeEntry
	// held holds the times in which each worker had an entry locked; computed on demand.
	held map[int16][]span
}

func (c *storeLifecycle) finish() Result {
	c.entries = c.s.list()
	for _, entry := range c.entries {
		c.judgeEntry(entry)
	}
	c.judgeSources()
	c.judgeRouters()
	c.judgeArrival()
	switch {
	case c.s.begun == never:
		return c.done(Inconclusive, "nobody watched the store")
	case !c.s.audited:
		return c.done(Inconclusive, "the store was not read to its end when the run was over")
	}
	return c.judgedOrNot(Inconclusive, "no entry came into the store")
}

// of returns a sighting of an entry, with the trace of its record.
func (c *storeLifecycle) of(entry *storeEntry, to time.Duration, say func() string, marks ...moment) sighting {
	one := c.w.about(entry.record, 0, to, say, marks...)
	if entry.record < 0 && entry.letter.offset >= 0 {
		one.topic, one.partition, one.offset = entry.letter.topic, entry.letter.partition, entry.letter.offset
	}
	return one
}

func changeMark(one *storeChange) moment { return moment{history.KindStoreChange, one.seen} }

// judgeEntry judges all changes of an entry.
func (c *storeLifecycle) judgeEntry(entry *storeEntry) {
	state := history.StoreAbsent
	var before *storeChange
	for i := range entry.changes {
		one := &entry.changes[i]
		c.result.Judged++
		if c.missedSome(before, one, state) {
			c.remark("what happened in between was not seen")
		} else {
			c.judgeStep(entry, before, one)
			c.judgeLock(entry, before, one)
		}
		c.judgeResolution(entry, one)
		c.judgeRetention(entry, before, one)
		switch {
		case one.polled:
			c.remark("locks, and when exactly: polling does not see them, triggers would")
		case before != nil:
			c.judgeDue(entry, before, one)
		}
		before, state = one, one.To
	}
	c.judgeCount(entry)
	c.judgeWaits(entry)
	c.judgeHolds(entry)
	c.judgeOverlap(entry)
	c.judgeEnd(entry, before)
}

// missedSome reports whether the change does not begin where the last one ended, or the observation was interrupted
// between the two.
func (c *storeLifecycle) missedSome(before, one *storeChange, state history.StoreState) bool {
	if one.From != state {
		return true
	}
	if before == nil || !one.polled {
		return false
	}
	for _, gap := range c.s.lost {
		if gap.from <= one.seen && gap.to >= before.seen {
			return true
		}
	}
	return false
}

// steps returns the legal changes of state. Those by hand are reserved for people: "Human Review" of the lifecycle
// document, "Dead Letter Queue Management" of the schema.
func steps(from history.StoreState) (automatic, byHand []history.StoreState) {
	const (
		absent, pending, processing        = history.StoreAbsent, history.StorePending, history.StoreProcessing
		resolved, failed, manual, archived = history.StoreResolved, history.StoreFailed, history.StoreManual,
			history.StoreArchived
	)
	type states = []history.StoreState
	switch from {
	case absent:
		return states{pending}, states{failed} // restored from an archive
	case pending:
		return states{processing, pending}, states{archived, resolved, absent}
	case processing:
		// Processing again: the lease is renewed, or a worker found it expired and took the lock over in one step (see
		// judgeLock).
		return states{resolved, pending, failed, manual, processing}, nil
	case manual:
		return nil, states{processing, archived, resolved, manual, absent}
	case failed:
		return states{archived}, states{processing, resolved, failed, absent, pending}
	}
	return states{absent}, nil // resolved, archived
}

// mayBecome reports whether one step leads from one state to the other.
func (c *storeLifecycle) mayBecome(from, to history.StoreState, hand bool) bool {
	automatic, byHand := steps(from)
	if slices.Contains(automatic, to) {
		return true
	}
	if !hand && !c.contract.ByHand {
		return false
	}
	return slices.Contains(byHand, to)
}

// pathLeads reports whether a sequence of steps leads from one state to the other. Polling may miss intermediate
// states.
func (c *storeLifecycle) pathLeads(from, to history.StoreState, hand bool) bool {
	reached := map[history.StoreState]bool{from: true}
	for open := []history.StoreState{from}; len(open) > 0; {
		at := open[0]
		open = open[1:]
		automatic, byHand := steps(at)
		for _, next := range append(append([]history.StoreState{}, automatic...), byHand...) {
			if !c.mayBecome(at, next, hand) {
				continue
			}
			if next == to {
				return true
			}
			if !reached[next] && next != history.StoreAbsent { // removed entries do not return
				reached[next] = true
				open = append(open, next)
			}
		}
	}
	return false
}

func (c *storeLifecycle) judgeStep(entry *storeEntry, before, one *storeChange) {
	if one.To == history.StoreUnknown {
		c.saw("illegal-transition", c.of(entry, one.seen, func() string {
			return fmt.Sprintf("entry %d got the status %q, which the contract does not know", entry.number, one.Word)
		}, changeMark(one)))
		return
	}
	if one.From == history.StoreUnknown {
		c.remark("from an unknown status")
		return
	}
	legal := c.mayBecome(one.From, one.To, one.Hand)
	if one.polled {
		legal = one.From == one.To || c.pathLeads(one.From, one.To, one.Hand)
	}
	if one.From == history.StorePending && one.To == history.StoreAbsent && !legal {
		return // removed: judged by the retention rule
	}
	if legal || one.To == history.StoreAbsent {
		return
	}
	marks := []moment{changeMark(one)}
	if before != nil {
		marks = append(marks, changeMark(before))
	}
	c.saw("illegal-transition", c.of(entry, one.seen, func() string {
		return fmt.Sprintf("entry %d went from %s to %s, and the state machine has no such step", entry.number, one.From,
			one.To)
	}, marks...))
}

// judgeLock reports a lock that passed to another worker before it was released or its lease expired. The database
// alone decides this, by its own clock, so other clocks and the watcher's delays do not matter.
func (c *storeLifecycle) judgeLock(entry *storeEntry, before, one *storeChange) {
	if before == nil || one.polled || before.To != history.StoreProcessing ||
		one.To != history.StoreProcessing || before.By == "" || one.By == before.By {
		return
	}
	if before.Lease != history.None && one.made != never && one.made+clockGrain >= before.Lease {
		return
	}
	if before.Lease == history.None && c.contract.Lease > 0 {
		c.remark("the table does not say until when the lock holds")
		return
	}
	c.saw("double-lock", c.of(entry, one.seen, func() string {
		if before.Lease == history.None {
			return fmt.Sprintf("%s locked entry %d while %s had it locked", one.By, entry.number, before.By)
		}
		return fmt.Sprintf("%s locked entry %d while %s had it locked for another %s", one.By, entry.number, before.By,
			units.Text(before.Lease-one.made))
	}, changeMark(before), changeMark(one)))
}

// judgeOverlap reports two workers that attempt an entry at the same time while the first one's lock still holds. A
// worker that was killed in an attempt, or whose lock had expired, explains an overlap.
func (c *storeLifecycle) judgeOverlap(entry *storeEntry) {
	if entry.record < 0 || c.several(entry.record) {
		return
	}
	attempts := c.s.attempts[entry.record]
	for i := range attempts {
		for k := range attempts {
			first, second := &attempts[i], &attempts[k]
			if first.by.instance == second.by.instance || second.from <= first.from || second.from >= first.to {
				continue
			}
			lease, held := c.leaseAt(entry, first, second.from)
			if !held || second.from+c.s.blur >= lease || c.gone(first, second.from) {
				continue
			}
			c.saw("double-lock", c.of(entry, second.from, func() string {
				return fmt.Sprintf("%s tried entry %d while %s was trying it and had it locked for another %s",
					serviceName(second.by.instance), entry.number, serviceName(first.by.instance), units.Text(lease-second.from))
			}, moment{history.KindAttemptStart, first.from}, moment{history.KindAttemptStart, second.from}))
			return
		}
	}
}

// gone reports whether the process that made the attempt had ended by then, or the client had hung up.
func (c *storeLifecycle) gone(one *storeAttempt, by time.Duration) bool {
	process := c.s.process(one.by.instance)
	_, died := process.diedBetween(one.from, by)
	return died || one.gone
}

// leaseAt returns until when the worker that makes the attempt has the entry locked, as far as the table had shown it
// by the time. A worker unlocks an entry only once it knows the attempt's outcome, so an unlock during the attempt came
// from another process. Whether that process was allowed to unlock depends on the lease in force, which is returned.
func (c *storeLifecycle) leaseAt(entry *storeEntry, attempt *storeAttempt,
	until time.Duration) (lease time.Duration, held bool) {
	worker := attempt.by.instance
	for i := range entry.changes {
		one := &entry.changes[i]
		if one.made == never || one.made-c.s.blur > until {
			continue
		}
		switch {
		case one.To == history.StoreProcessing && one.by == worker && one.Lease != history.None:
			lease, held = one.Lease, true
		case held && one.made-c.s.blur > attempt.from && one.made+c.s.blur < attempt.to:
			return lease, true
		default:
			held = false
		}
	}
	return lease, held
}

// several reports whether the record has more than one entry, so that an attempt cannot be attributed to one of them.
func (c *storeLifecycle) several(record int32) bool {
	count := 0
	for _, entry := range c.entries {
		if entry.record == record {
			count++
		}
	}
	return count > 1
}

func serviceName(instance int16) string {
	kind, number := history.StoreProcess(instance)
	return fmt.Sprintf("%s %d", kind, number)
}

// judgeResolution reports an entry that was marked resolved before it succeeded. The success is stamped before the
// worker can read of it, and the change is made after that. So a success with a stamp later than the latest time of the
// change came too late for it.
func (c *storeLifecycle) judgeResolution(entry *storeEntry, one *storeChange) {
	byWorker := one.To == history.StoreResolved && (one.From == history.StoreProcessing || one.polled)
	if !byWorker || one.Hand {
		return
	}
	if entry.record < 0 {
		c.remark("resolved, and the payload has no id of this run")
		return
	}
	if c.contract.ByHand && one.polled {
		c.remark("resolved, perhaps by hand")
		return
	}
	if c.contract.Workers == 0 {
		c.judgeOwnResolution(entry, one)
		return
	}
	succeeded, seen := c.successBefore(entry, c.s.madeBefore(one))
	if succeeded || !seen {
		return
	}
	c.saw("resolved-without-success", c.of(entry, one.seen, func() string {
		if c.contract.Success == history.SuccessPublished {
			return fmt.Sprintf("entry %d was resolved, and no republish of its record had been acknowledged by then",
				entry.number)
		}
		return fmt.Sprintf("entry %d was resolved, and no attempt on its behalf had succeeded by then", entry.number)
	}, changeMark(one)))
}

// successBefore reports whether the record of the entry had succeeded by the time; seen is false where a success could
// not have been observed.
func (c *storeLifecycle) successBefore(entry *storeEntry, by time.Duration) (succeeded, seen bool) {
	if c.contract.Success == history.SuccessPublished {
		for _, one := range c.s.republished[entry.record] {
			if one.stored && one.known && one.answered <= by {
				return true, true
			}
		}
		// The replay tool replayed it, on the store's behalf.
		for i := range c.w.replays {
			if one := &c.w.replays[i]; one.number == entry.record && !one.byStore && one.at <= by && !one.refused {
				return true, true
			}
		}
		return false, c.contract.Workers > 0
	}
	for _, one := range c.s.attempts[entry.record] {
		if one.outcome == history.OutcomeSuccess && one.to <= by {
			return true, true
		}
	}
	return false, c.contract.Workers > 0
}

// judgeCount reports entries that workers attempted more often than promised. An attempt that was cut off (the lock was
// recovered without counting one) may be repeated.
func (c *storeLifecycle) judgeCount(entry *storeEntry) {
	limit := int32(c.contract.MaxRetries)
	if limit <= 0 {
		return
	}
	cut := int32(0)
	for i := range entry.changes {
		one := &entry.changes[i]
		again := one.To == history.StorePending || one.To == history.StoreProcessing
		if one.From == history.StoreProcessing && again && (i == 0 || one.retries <= entry.changes[i-1].retries) {
			cut++
		}
		back := one.From == history.StoreProcessing && one.To == history.StorePending && one.retries >= limit
		if one.retries > limit && (i == 0 || entry.changes[i-1].retries <= limit) && !c.contract.ByHand || back {
			c.saw("over-retried-in-store", c.of(entry, one.seen, func() string {
				return fmt.Sprintf("entry %d went back to %s after %d DLQ retries; %d are allowed", entry.number, one.To,
					one.retries, limit)
			}, changeMark(one)))
			return
		}
	}
	if entry.record < 0 || c.several(entry.record) || c.contract.ByHand {
		return
	}
	if made := int32(len(c.s.attempts[entry.record])); made > limit+cut {
		last := c.s.attempts[entry.record][made-1]
		c.saw("over-retried-in-store", c.of(entry, last.from, func() string {
			return fmt.Sprintf("workers tried entry %d %d times; %d are allowed, and %d were cut off", entry.number, made,
				limit, cut)
		}, moment{history.KindAttemptStart, last.from}))
	}
}

// judgeOwnResolution judges resolutions in the subject's own store. Its retries and their times are unknown, but an
// entry whose record never succeeded in the whole run did not succeed before it was marked resolved.
func (c *storeLifecycle) judgeOwnResolution(entry *storeEntry, one *storeChange) {
	r := c.w.record(entry.record)
	if r == nil || c.w.contract.WireOnly || r.lives > 0 || !c.w.sealed {
		c.remark("resolved, and its attempts are not seen")
		return
	}
	if _, healed := c.s.healed[entry.record]; healed || r.successes > 0 || r.has(markTombstone) || r.has(markGarbage) {
		return
	}
	c.saw("resolved-without-success", c.of(entry, one.seen, func() string {
		return fmt.Sprintf("entry %d was resolved, and no attempt of its record ever succeeded", entry.number)
	}, changeMark(one)))
}
