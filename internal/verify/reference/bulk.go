package reference

// This file implements "calls for several records". A call is a transaction of the downstream stub. "All records of the
// call get one answer", and where it was refused, "whatever the subject does then is right". Where the stub answers by
// item, the call is committed, and each attempt has an answer of its own.

import (
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

// call is one call for several records: its attempts, and how it ended.
type call struct {
	attempts []*history.Event
	end      *history.Event
	// told is the answer to the end, or nil.
	told *history.Event
}

// callsOf returns the calls of the history. Each begins with the first attempt after the end of the one before it with
// the same number.
func callsOf(events []history.Event) (all []*call) {
	under := map[int64]*call{}
	for i := range events {
		e := &events[i]
		switch {
		case !e.InBatch():
		case e.Kind == history.KindAttemptStart:
			if under[e.ProducerID] == nil {
				under[e.ProducerID] = &call{}
				all = append(all, under[e.ProducerID])
			}
			under[e.ProducerID].attempts = append(under[e.ProducerID].attempts, e)
		case e.Kind == history.KindTxnEndRequest && under[e.ProducerID] != nil:
			one := under[e.ProducerID]
			one.end = e
			if at := slices.IndexFunc(events, func(a history.Event) bool {
				return a.Kind == history.KindTxnEndResponse && a.Op == e.Op
			}); at >= 0 {
				one.told = &events[at]
			}
			delete(under, e.ProducerID)
		}
	}
	return all
}

// several reports whether it is a call for more than one record. Those without an id count.
func (c *call) several() bool {
	return slices.ContainsFunc(c.attempts, func(e *history.Event) bool {
		return e.Record < 0 || e.Record != c.attempts[0].Record
	})
}

// inCall adds to the attempt what its call says about it, and reports whether that is certain.
func (j *judge) inCall(one *tried, ask *history.Event) bool {
	if !ask.InBatch() {
		return true
	}
	at := slices.IndexFunc(j.calls, func(c *call) bool { return slices.Contains(c.attempts, ask) })
	if at < 0 || j.calls[at].end == nil || j.calls[at].told == nil {
		return false
	}
	of := j.calls[at]
	if one.end < 0 || one.end > of.end.Time {
		return false
	}
	one.open = of.several() && (of.end.N != 1 || one.gone)
	if of.end.N == 1 {
		one.end = of.told.Time // it takes effect then
	}
	return of.end.N == 1 || of.several() || one.outcome != history.OutcomeSuccess
}
