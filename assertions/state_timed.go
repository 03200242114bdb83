package assertions

// State: what commits that follow time (commits: auto) pass although it has not come to its end. That a process was cut
// short while it may still have worked on a record explains that it was lost to them, and the ledger counts it as
// forfeited. If it had been attempted, and dropped long before, it is lost. One that was never attempted may have
// waited for its turn: any disruption leaves the run open.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// cut is when the work of a process on a partition was cut short: a signal, its end, or the loss of the partition.
type cut struct {
	by holder
	at time.Duration
}

// cutShort notes that the work of the partition's holder on it was cut short.
func (w *state) cutShort(p *partition, at time.Duration) {
	if w.contract.AutoCommit {
		p.cuts = append(p.cuts, cut{p.held, at})
	}
}

// cutHeld notes that for what the process of an event has.
func (w *state) cutHeld(e *history.Event) {
	for topic := range w.parts {
		for i := range w.parts[topic] {
			if p := &w.parts[topic][i]; p.epoch > 0 && p.held == (holder{e.Instance, e.Run}) {
				w.cutShort(p, e.Time)
			}
		}
	}
}

// forfeited reports whether the contract explains that the record never came to its end: commits follow time, and since
// its delivery there was a disruption, perhaps after the commit that covers it. If the record was attempted, the
// disruption must have come before it had rested. A refused dead letter does not count, as the process still has the
// record, and the stop at the end of the run does not if nothing was awaited then.
func (w *state) forfeited(number int32, r *record) bool {
	if !w.contract.AutoCommit || !r.has(markSeen) {
		return false
	}
	home := w.home(number, r)
	if home == nil || !w.rested(number, w.drainedAt()) {
		return r.disturbedFrom.until(w.disturbed(home)) > 0 || r.attempts > 0 && w.stoppedIn(home, number, r)
	}
	if r.attempts > 0 && w.seenUntil(number, r, w.restsAt(number, r)) {
		return w.anyCut(home, number, r)
	}
	return r.disturbedFrom.until(home.untilStop) > 0
}

// seenUntil reports whether no attempt at the record can have been missed between its last one and the time.
func (w *state) seenUntil(number int32, r *record, by time.Duration) bool {
	_, hidden := w.answersHidden(number, r.held.instance, r.lastStart.At(), by)
	return !hidden
}

// anyCut reports whether a cut came while its process was to attempt the record again.
func (w *state) anyCut(home *partition, number int32, r *record) bool {
	at := w.position(number, r)
	return slices.ContainsFunc(home.cuts, func(one cut) bool { return w.interrupted(home, at.offset, number, one) })
}

// stoppedIn reports whether its process was cut short, such as by the stop at the end of the run, while it was to
// attempt the record again.
func (w *state) stoppedIn(home *partition, number int32, r *record) bool {
	return home != nil && !w.standsStill() && w.anyCut(home, number, r)
}

// rested reports whether by the time nothing had happened to the record for longer than any promised wait. One that was
// never attempted may have waited for its turn, until the subject stood still.
func (w *state) rested(number int32, by time.Duration) bool {
	r := w.record(number)
	if r.lastStart.At() < 0 {
		return by >= w.drainedAt() && w.standsStill()
	}
	return by > w.restsAt(number, r)
}

// restsAt is when nothing will have happened to a record that was attempted for longer than any promised wait.
func (w *state) restsAt(number int32, r *record) time.Duration {
	longest := max(w.contract.LongestWait(int(r.attempts)), w.told[number])
	return max(r.lastStart.At(), r.lastEnd.At(), w.letterAsked(r)) + longest + quietMargin
}

// eachForfeited calls fn with each record that a commit passed by time, and that was not finished because the work of
// its process was cut short.
func (w *state) eachForfeited(fn func(number int32)) {
	for number := int32(0); w.contract.AutoCommit && int(number) < w.records.count; number++ {
		r := w.record(number)
		at := w.position(number, r)
		p := w.partition(at.topic, at.partition)
		if r.has(markSent) && at.offset >= 0 && p != nil && p.committedAt(at.offset) &&
			w.unfinished(number, r, at, w.foundOf.of(number)) && w.forfeited(number, r) &&
			w.unknowable(number, r, r.attempts, endless) == "" && !w.perhapsOver(number, r, endless) &&
			slices.ContainsFunc(p.cuts, func(one cut) bool { return w.interrupted(p, at.offset, number, one) }) {
			fn(number)
		}
	}
}

// interrupted reports whether the cut came while the process may have had work to do on the record at the offset, which
// it was handed before: it was the last to attempt it and that had not rested since; or the record was not attempted
// since it was handed over, and the process had not gone on to what lies behind it long before.
func (w *state) interrupted(p *partition, offset int64, number int32, by cut) bool {
	hands := p.hands[by.by]
	handed, known := hands.first(offset)
	if known && handed > by.at {
		return false
	}
	if r := w.record(number); r.attempts > 0 && (!known || handed <= r.lastStart.At()) {
		return r.held == by.by && !w.rested(number, by.at)
	}
	if !known || by.at >= w.drainedAt() && w.standsStill() {
		return false
	}
	for offset++; offset <= min(p.log.last, hands.until(by.at)); offset++ {
		next := p.log.at(offset)
		if next != none && w.record(next).held == by.by && w.rested(next, by.at) {
			return false
		}
	}
	return true
}
