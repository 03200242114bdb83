package assertions

// State: calls that a client repeats by itself within an attempt (Contract.Calls).
//
//	attempt 1: call, 503, 10 ms, call, 503 ─▶ backoff.initial or longer ─▶ attempt 2: call …
//
// A subject waits at least backoff.initial before its next attempt, so a call that comes sooner after a failure is the
// client's. One that comes later is taken for an attempt, and may be a repeat that the machine delayed: attempts are
// counted too high, never too low. After a call without an answer, it is not known when the client began to wait, so
// what follows is either. A client that repeats a call after a 429 waits for as long as its Retry-After says, unless
// the contract says that the subject does not.

import (
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// repeats holds the attempts of records whose client repeats calls by itself, nil if none does.
type repeats struct {
	most    int
	current map[int32]repeatedAttempt
	// series is the number of calls in the present series of a record.
	series map[int32]int
}

// repeatedAttempt is the latest attempt of a record, with the number of its calls, and when the last of them began.
type repeatedAttempt struct {
	attempt
	calls  int
	called time.Duration
}

// unclearRepeat is the reason that answersHidden gives for a call that may be an attempt of its own.
const unclearRepeat = "calls that may be attempts, or repeats by the client"

// repeatsCall takes a call that the client repeats by itself, and reports whether it is one. The attempt continues, and
// no attempt begins.
func (w *state) repeatsCall(e *history.Event, r *record, by holder) bool {
	if w.repeats == nil {
		return false
	}
	last, known := w.repeats.current[e.Record]
	if !known || last.by != by || last.life != r.lives || last.start != r.lastStart.At() ||
		r.has(markOver|markUnsettled) ||
		w.letterAsked(r) >= last.start {
		return false
	}
	answered := r.has(markEnded) && !r.has(markGone) && r.outcome != history.OutcomeTimeout &&
		r.outcome != history.OutcomeReset
	if !answered {
		from := max(r.lastStart.At()+1, r.lastEnd.At())
		w.calls.failed = append(w.calls.failed, callElsewhere{why: unclearRepeat, number: e.Record, instance: by.instance,
			from: from, to: e.Time - 1})
		w.calls.longest = max(w.calls.longest, e.Time-from)
		return false
	}
	waited := e.Time - r.lastEnd.At()
	if w.classes[r.outcome] != classRetryable || last.calls >= w.repeats.most ||
		waited >= shortened(w.contract.Backoff.Initial) {
		return false
	}
	told := w.told[e.Record]
	if r.outcome == history.OutcomeRateLimited && !w.contract.IgnoresRetryAfter && waited < shortened(told) {
		return false // it is too early, whoever makes it
	}
	last.calls, last.op, last.called = last.calls+1, e.Op, e.Time
	w.repeats.current[e.Record] = last
	w.repeats.series[e.Record]++
	w.open[e.Op] = last.attempt
	r.flags &^= markEnded | markGone
	return true
}

// beginRepeats notes an attempt, whose client may repeat its call.
func (w *state) beginRepeats(a *attempt) {
	if w.repeats == nil {
		return
	}
	w.repeats.current[a.number] = repeatedAttempt{*a, 1, a.start}
	if a.fresh {
		w.repeats.series[a.number] = 0
	}
	w.repeats.series[a.number]++
}

// lastCalled returns when the last call of the record's latest attempt began.
func (w *state) lastCalled(number int32, r *record) time.Duration {
	if w.repeats == nil {
		return r.lastStart.At()
	}
	return max(r.lastStart.At(), w.repeats.current[number].called)
}

// withinCalls reports whether this number of attempts can account for the calls in the record's present series.
func (w *state) withinCalls(number int32, attempts int) bool {
	return w.repeats != nil && w.repeats.series[number] <= attempts*w.repeats.most
}

func newRepeats(c *history.Contract) *repeats {
	if c.Calls < 2 {
		return nil
	}
	return &repeats{most: c.Calls, current: map[int32]repeatedAttempt{}, series: map[int32]int{}}
}

// mayHideRepeats reports whether calls between from and to may have been taken for attempts, or the other way round, or
// the process may have begun to count again, after a call for several records of which no answer came.
func (w *state) mayHideRepeats(number int32, instance int16, from, to time.Duration) (why string, hides bool) {
	if w.repeats == nil && !w.bulk {
		return "", false
	}
	return w.answersHidden(number, instance, from, to)
}
