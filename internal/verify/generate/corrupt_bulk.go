package generate

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// BulkCorruptions lists the corruptions of a history of a consumer whose calls are for several records.
func BulkCorruptions() []Corruption {
	lost, passed := Promise{"no-loss", "lost"}, Promise{"commit-after-outcome", "commit-past-unfinished"}
	const why = "the commit that loses a record covers one that is not finished"
	return append([]Corruption{
		{Name: "a call is refused, and one of its records is committed", Promise: lost, Also: []Promise{passed},
			About: why, apply: committedRefused},
		{Name: "the failure of an item is ignored", Promise: lost, Also: []Promise{passed}, About: why,
			apply: ignoredItem},
		{Name: "in place of the item that failed, another one is dead-lettered", Promise: lost, Also: []Promise{passed},
			About: why + ", and the other one had succeeded", apply: wrongItem},
		{Name: "an item that succeeded is in the next call again", Promise: Promise{"duplicates", "duplicate"},
			apply: wholeCallAgain},
		{Name: "a record is committed during its call", Promise: passed, apply: committedDuringCall},
		{Name: "one attempt more than the contract allows, after a call for several records",
			Promise: Promise{"bounded-retries", "over-retried"}, apply: overRetriedAlone},
		{Name: "an attempt after a permanent failure, after a call for several records",
			Promise: Promise{"classification", "permanent-retried"}, apply: rejectedAlone},
	}, Corruptions()...)
}

// callFacts are a call for several records: the starts of its attempts, and the request for its end.
type callFacts struct {
	starts []int
	end    int
}

// callOf returns the call that the start of an attempt is in, nil if it is in none.
func (v *view) callOf(start int) *callFacts {
	of := v.Events[start].ProducerID
	if !v.Events[start].InBatch() {
		return nil
	}
	one := &callFacts{}
	for i := range v.Events {
		switch e := &v.Events[i]; {
		case e.ProducerID != of:
		case e.Kind == history.KindAttemptStart:
			one.starts = append(one.starts, i)
		case e.Kind == history.KindTxnEndRequest && i > start:
			one.end = i
			return one
		case e.Kind == history.KindTxnEndRequest:
			one.starts = nil
		}
	}
	return nil
}

// isOpen reports whether the attempt says nothing about its record, because a call for several records was refused, or
// because its client got no answer.
func (v *view) isOpen(attempt pair) bool {
	call := v.callOf(attempt.ask)
	if call == nil || len(call.starts) < 2 {
		return false
	}
	return v.Events[call.end].N != 1 || attempt.answer == none || v.Events[attempt.answer].Flags.Has(history.ClientGone)
}

// unheard reports whether the attempt was in a call whose answer says nothing about its record, or reached nobody.
func (v *view) unheard(attempt pair) bool {
	return v.isOpen(attempt) || v.Events[attempt.ask].InBatch() && v.Events[attempt.answer].Flags.Has(history.ClientGone)
}

// opened reports whether one of the record's attempts says nothing about it.
func (v *view) opened(f *facts) bool { return slices.ContainsFunc(f.attempts, v.isOpen) }

// sinceOpen returns the record's attempts since the last one that says nothing about it.
func (v *view) sinceOpen(f *facts) []pair {
	from := 0
	for i, one := range f.attempts {
		if v.isOpen(one) {
			from = i + 1
		}
	}
	return f.attempts[from:]
}

// mostInRow is the largest number of the record's attempts up to one that says nothing about it.
func (v *view) mostInRow(f *facts) (most int) {
	row := 0
	for _, one := range f.attempts {
		row++
		most = max(most, row)
		if v.isOpen(one) {
			row = 0
		}
	}
	return most
}

// freeCall returns an id that no call has.
func (v *view) freeCall() int64 {
	free := int64(history.FirstBatch)
	for i := range v.Events {
		free = max(free, v.Events[i].ProducerID+1)
	}
	return free
}

// separate gives the call that the start of an attempt is in an id of its own, so that the attempt can be moved.
func (v *view) separate(start int) {
	call := v.callOf(start)
	if call == nil {
		return
	}
	ops := map[int64]bool{v.Events[call.end].Op: true}
	for _, i := range call.starts {
		ops[v.Events[i].Op] = true
	}
	free := v.freeCall()
	for i := range v.Events {
		if e := &v.Events[i]; e.InBatch() && ops[e.Op] {
			e.ProducerID = free
		}
	}
}

// addAlone adds an attempt. If it is a copy of one in a call, it is alone in a call of its own.
func (v *view) addAlone(start, end history.Event) {
	if !start.InBatch() {
		v.add(start, end)
		return
	}
	free := v.freeCall()
	start.ProducerID, end.ProducerID = free, free
	ask := history.New(history.KindTxnEndRequest, end.Time+1)
	ask.Instance, ask.Run, ask.Op, ask.ProducerID, ask.ProducerEpoch, ask.N = start.Instance, start.Run, start.Op+1, free,
		0, 0
	if end.Outcome == history.OutcomeSuccess {
		ask.N = 1
	}
	answer := ask
	answer.Kind, answer.Time = history.KindTxnEndResponse, end.Time+2
	v.add(start, end, ask, answer)
}

// finishedByCalls reports whether attempts, and nothing else, finished the record, and it was committed then.
func (v *view) finishedByCalls(f *facts) bool {
	_, found := v.covering(f)
	return found && v.undisturbed(f) && len(f.attempts) > 0 && len(f.letters)+len(f.copies) == 0 && v.alone(f) &&
		v.exitsOnlyAtTheEnd() && v.Header.Contract().HasDLQ()
}

func eventsOf(attempts []pair) (all []int) {
	for _, one := range attempts {
		all = append(all, one.ask, one.answer)
	}
	return all
}

func committedRefused(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool {
		return v.finishedByCalls(f) && v.opened(f) && len(v.sinceOpen(f)) > 0
	})
	if f != nil {
		v.remove(eventsOf(v.sinceOpen(f))...)
	}
	return about(f)
}

// failedItem reports whether the attempt failed in a call for several records that was accepted.
func (v *view) failedItem(one pair) bool {
	call := v.callOf(one.ask)
	if call == nil || len(call.starts) < 2 || v.isOpen(one) {
		return false
	}
	outcome := v.outcome(one)
	return retryable(outcome) || outcome == history.OutcomePermanent
}

func ignoredItem(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool {
		return v.finishedByCalls(f) && !v.opened(f) && len(f.attempts) > 1 && v.failedItem(f.attempts[0])
	})
	if f != nil {
		v.remove(eventsOf(f.attempts[1:])...)
	}
	return about(f)
}

// beside returns another record in the call of the attempt that succeeded there, and was not tried before or since.
func (v *view) beside(f *facts, one pair) *facts {
	call := v.callOf(one.ask)
	for _, i := range call.starts {
		g := v.of(v.Events[i].Record)
		if g == nil || g == f || g.twice || !v.tried(g) || len(g.attempts) != 1 || !v.alone(g) ||
			v.outcome(g.attempts[0]) != history.OutcomeSuccess || v.Events[g.send].Flags != 0 {
			continue
		}
		if _, found := v.covering(g); found {
			return g
		}
	}
	return nil
}

func wrongItem(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool {
		if !v.deadLettered(f) || len(f.asDeadLetter) != 1 || len(f.attempts) != 1 || !v.failedItem(f.attempts[0]) ||
			v.outcome(f.attempts[0]) != history.OutcomePermanent || !v.exitsOnlyAtTheEnd() {
			return false
		}
		g := v.beside(f, f.attempts[0])
		_, found := v.covering(f)
		return found && g != nil && v.home(g) == v.home(f)
	})
	if f == nil {
		return none, false
	}
	g := v.beside(f, f.attempts[0])
	for _, i := range []int{f.letters[0].ask, f.letters[0].answer, f.asDeadLetter[0]} {
		e, sent := &v.Events[i], &v.Events[g.send]
		e.Record, e.KeyHash, e.ValueHash = g.number, sent.KeyHash, sent.ValueHash
		if e.Claim != nil {
			more := e.Claim.Beside()
			more.Quotes = nil
			claim := claimOf(e)
			if claim.More = more.Encode(); claim.Offset >= 0 {
				claim.Offset = v.offset(g)
			}
		}
	}
	v.also = append(v.also, Finding{Promise{"classification", "dual-terminal"}, g.number})
	return about(f)
}

// wholeCallAgain adds an item that succeeded to the call in which another one of the same call is tried again.
func wholeCallAgain(v *view) (int32, bool) {
	next := map[*facts]pair{}
	f := v.chosen(func(f *facts) bool {
		if !v.tried(f) || v.Events[f.send].Flags != 0 {
			return false
		}
		last := f.attempts[len(f.attempts)-1]
		if v.outcome(last) != history.OutcomeSuccess || v.isOpen(last) || v.callOf(last.ask) == nil {
			return false
		}
		for _, i := range v.callOf(last.ask).starts {
			if again, found := v.repeatOf(v.of(v.Events[i].Record), i); found {
				next[f] = again
				return true
			}
		}
		return false
	})
	if f == nil {
		return none, false
	}
	start, end := v.Events[next[f].ask], v.Events[next[f].answer]
	start.Record, end.Record, end.Outcome = f.number, f.number, history.OutcomeSuccess
	start.Op = v.freshOp()
	end.Op = start.Op
	v.add(start, end)
	return about(f)
}

// repeatOf returns the attempt of the same process at the record after the one that begins there, if it is in a call
// that was accepted, and whose client got the answer.
func (v *view) repeatOf(f *facts, start int) (next pair, found bool) {
	if f == nil {
		return next, false
	}
	at := slices.IndexFunc(f.attempts, func(one pair) bool { return one.ask == start })
	if at < 0 || at+1 >= len(f.attempts) || v.outcome(f.attempts[at]) == history.OutcomeSuccess {
		return next, false
	}
	next = f.attempts[at+1]
	call, one, two := v.callOf(next.ask), &v.Events[start], &v.Events[next.ask]
	return next, one.Instance == two.Instance && one.Run == two.Run && call != nil && v.Events[call.end].N == 1 &&
		next.answer != none && !v.Events[next.answer].Flags.Has(history.ClientGone)
}

func committedDuringCall(v *view) (int32, bool) {
	during := func(f *facts) time.Duration { return v.time(f.attempts[len(f.attempts)-1].answer) - brief }
	f := v.chosen(func(f *facts) bool {
		if !v.finishedByCalls(f) || v.isOpen(f.attempts[len(f.attempts)-1]) {
			return false
		}
		at := during(f)
		return at > v.time(f.fetched) && at > v.time(f.acked) && at > v.time(f.attempts[len(f.attempts)-1].ask) &&
			v.front(f, at)
	})
	if f == nil {
		return none, false
	}
	return v.commitPast(f, during(f))
}

// overRetriedAlone lowers the contract's attempt limit by one, if exactly one record needs all attempts, before or
// after a call that says nothing about it.
func overRetriedAlone(v *view) (int32, bool) {
	limit := v.Header.Contract().MaxAttempts - 1
	f := v.lone(func(f *facts) bool { return v.mostInRow(f) > limit })
	if limit < 1 || f == nil || !v.undisturbed(f) || !v.opened(f) || v.mostInRow(f) > 2*limit {
		return none, false
	}
	v.Header.Contract().MaxAttempts = limit
	return about(f)
}

// lettersRefused reports whether a dead letter was not acknowledged. The client may then have failed others by itself.
func (v *view) lettersRefused() bool {
	return slices.ContainsFunc(v.records, func(f *facts) bool {
		return slices.ContainsFunc(f.letters, func(one pair) bool {
			return one.answer == none || !plain(&v.Events[one.answer])
		})
	})
}

func rejectedAlone(v *view) (int32, bool) {
	if v.lettersRefused() {
		return none, false
	}
	f := v.chosen(func(f *facts) bool {
		return v.undisturbed(f) && len(f.letters)+len(f.copies) == 0 && v.opened(f) && len(v.sinceOpen(f)) > 1
	})
	if f != nil {
		v.answerWith(v.sinceOpen(f)[0], history.OutcomePermanent)
	}
	return about(f)
}
