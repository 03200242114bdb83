package assertions

// State: calls for several records, which are transactions of the downstream stub. A call that is accepted answers for
// each of its records. One that is refused does not say because of which of them, so its answer says nothing about
// any: none comes to its end by it, and the next attempt begins a new series, because the process may count this one or
// not. Without a dead-letter topic the process may give all of them up, if the answer is final or those were all the
// attempts that it promises. A call for a single record is an attempt like any other.

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
		a := &t.ends[i]
		if r := w.record(a.number); a.gone && (t.isForSeveral() || r.several()) {
			w.leaveOpen(t, a.number)
		} else {
			w.concludeAlone(r, a)
			w.noteAnswered(t, a.number)
		}
	}
	for number, one := range t.tried {
		if t.isCall() && one.successes > 0 {
			w.noteAnswered(t, number)
		}
	}
}

// noteAnswered notes that the call says something about the record, unless another attempt has begun.
func (w *state) noteAnswered(t *transaction, number int32) {
	if r := w.record(number); t.tried[number].began == r.lastStart.At() {
		r.traits |= traitAnswered
	}
}

// refuseCall takes back what a call did that was refused.
func (w *state) refuseCall(t *transaction) {
	for number, one := range t.tried {
		if r := w.record(number); one.life == r.lives {
			r.flags &^= markJoined
			r.successes -= min(one.successes, r.successes)
		}
	}
	if !t.isForSeveral() {
		w.concludeCall(t)
	}
	for number := range t.tried {
		// A call for copies of one record has one id. The answer is about that record, but not about one of them.
		if t.isForSeveral() || w.record(number).several() {
			w.leaveOpen(t, number)
		}
	}
}

// mayGiveUp reports whether the answer to a call for several records may be the last of the record's attempts.
func (w *state) mayGiveUp(r *record, a *attempt) bool {
	final := !a.gone && w.classes[a.outcome] != classRetryable
	return w.givesUp() && (final || int(r.attempts) >= w.contract.LeastAttempts())
}

// leaveOpen makes the record's attempt in the call say nothing about it.
func (w *state) leaveOpen(t *transaction, number int32) {
	r, one := w.record(number), t.tried[number]
	if one.life != r.lives {
		return
	}
	r.traits |= traitInCall
	for i := range t.ends {
		if a := &t.ends[i]; a.number == number && w.mayGiveUp(r, a) {
			w.finished(r, a.end)
		}
	}
	switch {
	case one.began == r.lastStart.At():
		r.flags &^= markEnded | markGone
		r.outcome, r.inSeries = history.OutcomeNone, 0
	case r.held == t.by:
		r.inSeries = min(r.inSeries, 1) // another attempt has begun
	}
}
