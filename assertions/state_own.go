package assertions

// State: records in the subject's own dead-letter store, and the attempts that its workers may have made.

import "github.com/dlqbench/dlqbench/history"

// ownStore reports whether the run uses the subject's own store, whose workers are unknown.
func (w *state) ownStore() bool { return w.header.Store != nil && w.header.Store.Workers == 0 }

// onStoresBehalf takes an attempt that may have been made by the workers of the subject's own store, and reports
// whether it did. The workers call the downstream from the same process as the subject, so their attempts cannot
// be told from the consumer's:
//
//	the consumer fails with a record ─ asks for its dead letter ─▶ the router takes it ─▶ a worker tries it, as often and
//	    as soon as the store's rules say
//
// From the request on, an attempt may therefore be a worker's, whether or not an answer to the request was seen.
// Without a dead-letter topic, this holds from the outcome with which the consumer gave the record up. Such
// attempts are not held against the consumer's promises, and nothing is concluded from further attempts of such a
// record. If one of them succeeded, the store may mark its entry resolved.
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

// left reports whether the record may have reached the subject's own store by now.
func (w *state) left(r *record) bool {
	givenUp := !w.contract.HasDLQ() && w.firstTerminal(r) >= 0 && r.successes == 0
	return givenUp || w.letterAsked(r) >= 0
}
