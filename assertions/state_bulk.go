package assertions

// State: calls for several records, which are transactions of the downstream stub. A call that is accepted answers for
// each of its records. One that is refused does not say because of which of them, so its answer says nothing about
// any: none comes to its end by it, and the next attempt begins a new series, because the process may count this one or
// not. Without a dead-letter topic the process may give all of them up. A call for a single record is an attempt like
// any other.

import "github.com/dlqbench/dlqbench/history"

// isCall reports whether it is a call of the downstream.
func (t *transaction) isCall() bool { return t != nil && t.producer >= history.FirstBatch }

// isForSeveral reports whether it is a call for several records. Those without an id count.
func (t *transaction) isForSeveral() bool { return t.isCall() && (len(t.tried) > 1 || t.unnamed) }

// keep keeps the end of an attempt in a call until the call ends, and reports whether it does.
func (t *transaction) keep(a *attempt) bool {
	if !t.isCall() {
		return false
	}
	if _, open := t.tried[a.number]; !open {
		return false
	}
	t.ends = append(t.ends, *a)
	return true
}

// concludeCall notes which obligations the answers of a call end, those that its client got.
func (w *state) concludeCall(t *transaction) {
	for i := range t.ends {
		if a := &t.ends[i]; a.gone && t.isForSeveral() {
			w.leaveOpen(t, a.number)
		} else {
			w.concludeAlone(w.record(a.number), a)
		}
	}
}

// refuseCall takes back what a call did that was refused.
func (w *state) refuseCall(t *transaction) {
	for number, one := range t.tried {
		if r := w.record(number); one.life == r.lives {
			r.flags &^= markJoined
			r.successes -= min(one.successes, r.successes)
		}
		if t.isForSeveral() {
			w.leaveOpen(t, number)
		}
	}
	if !t.isForSeveral() {
		w.concludeCall(t)
	}
}

// leaveOpen makes the record's attempt in the call say nothing about it.
func (w *state) leaveOpen(t *transaction, number int32) {
	r, one := w.record(number), t.tried[number]
	if one.life != r.lives {
		return
	}
	if w.givesUp() && r.lastEnd.At() >= one.began {
		w.finished(r, r.lastEnd.At())
	}
	if r.inSeries > 1 {
		r.traits |= traitRenewed
	}
	switch {
	case one.began == r.lastStart.At():
		r.flags &^= markEnded | markGone
		r.outcome, r.inSeries = history.OutcomeNone, 0
	case r.held == t.by:
		r.inSeries = min(r.inSeries, 1) // another attempt has begun
	}
}
