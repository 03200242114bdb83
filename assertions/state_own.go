package assertions

// State: who tries again what is in a dead-letter store of the subject's own.

import "github.com/dlqbench/dlqbench/history"

// ownStore reports whether the run has a store of the subject's own, of whose workers nothing is known.
func (w *state) ownStore() bool { return w.header.Store != nil && w.header.Store.Workers == 0 }

// onStoresBehalf takes an attempt that may have been made by the workers of the subject's own store, and reports
// whether it did. They call the downstream from wherever the subject does, so that nothing tells their attempts from
// the consumer's:
//
//	the consumer fails with a record ─ asks for its dead letter ─▶ the router takes it ─▶ a worker tries it, as often and
//	    as soon as the store's rules say
//
// From the request on an attempt may therefore be a worker's, whether or not an answer to the request was seen; without
// a dead-letter topic, from the outcome on with which the consumer gave the record up. Such attempts are held against
// no promise of the consumer's, and nothing is concluded any more from the attempts of such a record. That one of them
// succeeded is what the store may call its entry resolved for.
func (w *state) onStoresBehalf(e *history.Event) bool {
	s := w.store
	switch e.Kind {
	case history.KindAttemptStart:
		r := w.record(e.Record)
		if r == nil || e.Instance < 0 || !w.ownStore() || !w.left(r) {
			return false
		}
		r.flags |= markLeft
		s.tries[e.Op] = struct{}{}
		return true
	case history.KindAttemptEnd:
		if _, known := s.tries[e.Op]; !known {
			return false
		}
		delete(s.tries, e.Op)
		if e.Outcome == history.OutcomeSuccess {
			s.healed[e.Record] = struct{}{}
		}
		return true
	}
	return false
}

// left reports whether the record may be in the subject's own store by now.
func (w *state) left(r *record) bool {
	givenUp := !w.contract.HasDLQ() && r.firstTerminal >= 0 && r.successes == 0
	return givenUp || r.letterAsked >= 0
}
