package assertions

// State: the errors that a process met. With on_error: exit an error may end it, and then one must have come to it from
// outside: without one it ended by a fault of its own. Whether the process could handle an error cannot be seen, so
// each that it may not have handled yet counts:
//
//	a fault      in force in its life, or shortly before
//	the group    a rebalance, a session that ended, a coordinator that is not found. Heartbeats, commits and the client
//	             itself may fail then, and not all of these answers are recorded
//	Kafka        an error as an answer to a write, a commit or a transaction, or no answer
//	a call       that failed, or that takes long: until the record has come to its end, and a commit was accepted
//	             then. In a transaction, what a slow call has led to shows only at its end
//	a record     that it can't read, or perhaps can't
//
// A process that never came up may have met anything, unless several before it ended so, too, and one whose calls are
// not seen.

import (
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// ownErrors are those that a process met.
type ownErrors struct {
	// met: one that is taken to last. calls holds the records with calls that may have failed.
	met   bool
	calls map[int32]failing
}

// failing is a call that counts as an error from a time on. over: its record has come to its end.
type failing struct {
	from time.Duration
	over bool
}

// meets notes the errors that an event shows.
func (w *state) meets(l *life, e *history.Event) {
	if !w.contract.ExitsOnError {
		return
	}
	switch e.Kind {
	case history.KindAttemptStart:
		l.errors.call(e.Record, e.Time+longCall)
	case history.KindAttemptEnd:
		if a := w.attempt; a == nil || !w.ends(a) {
			l.errors.call(e.Record, e.Time)
		} else {
			l.errors.end(e.Record, e.Time)
		}
	case history.KindCallEnd:
		l.errors.met = l.errors.met || e.Outcome != history.OutcomeSuccess
	case history.KindProduceResponse, history.KindCommitResponse, history.KindTxnEndResponse, history.KindShareAckResponse:
		l.errors.answer(e)
	case history.KindRevoked, history.KindMembership:
		l.errors.met = l.errors.met || e.Text != "" && e.Text != "leave"
	}
}

// call notes a call that counts as an error from a time on.
func (s *ownErrors) call(number int32, from time.Duration) {
	if one, known := s.calls[number]; known {
		from = min(from, one.from)
	}
	if s.calls == nil {
		s.calls = map[int32]failing{}
	}
	s.calls[number] = failing{from: from}
}

// end notes that a record came to its end. Its failed calls, if any, may still have consequences.
func (s *ownErrors) end(number int32, at time.Duration) {
	switch one, known := s.calls[number]; {
	case known && one.from > at:
		delete(s.calls, number)
	case known:
		one.over = true
		s.calls[number] = one
	}
}

// answer notes the answer of a broker: an error, or that all went well.
func (s *ownErrors) answer(e *history.Event) {
	switch {
	case e.Code != 0 || e.Flags.Has(history.Withheld):
		s.met = true
	case e.Kind == history.KindProduceResponse:
		s.end(e.Record, e.Time)
	default:
		for number, one := range s.calls {
			if one.over {
				delete(s.calls, number)
			}
		}
	}
}

// metError reports whether the process had met an error that may have ended it.
func (w *state) metError(l *life) bool {
	if l.errors.met || !l.up && l.vain < startsInVain || w.contract.WireOnly || w.exempt > 0 || w.header.Refusable ||
		w.faulted(anyFault, l.began-afterFault, l.exited) {
		return true
	}
	for _, one := range l.errors.calls {
		if one.from <= l.exited {
			return true
		}
	}
	return false
}
