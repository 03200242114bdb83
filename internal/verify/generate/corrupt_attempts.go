package generate

import (
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

func attemptCorruptions() []Corruption {
	bounded := func(anomaly string) Promise { return Promise{"bounded-retries", anomaly} }
	class := func(anomaly string) Promise { return Promise{"classification", anomaly} }
	return []Corruption{
		{Name: "one attempt more than the contract allows", Promise: bounded("over-retried"), apply: overRetried},
		{Name: "more than twice the attempts that the contract allows", Promise: bounded("endless-redelivery"),
			apply: endless},
		{Name: "one attempt less than the contract promises", Promise: bounded("under-retried"), apply: underRetried},
		{
			Name: "the first retryable failure is taken for the last", Promise: class("premature-dead-letter"), apply: premature,
			Also:  []Promise{{"bounded-retries", "under-retried"}},
			About: "a record that is given up after its first failure is given up after too few",
		},
		{Name: "a dead letter without an attempt", Promise: class("premature-dead-letter"), apply: unattempted},
		{Name: "an attempt after a permanent failure", Promise: class("permanent-retried"),
			apply: afterOutcome(history.OutcomePermanent)},
		{Name: "an attempt after a logical failure", Promise: class("permanent-retried"),
			apply: afterOutcome(history.OutcomeLogical)},
		{Name: "a logical failure is dead-lettered", Promise: class("logical-dead-lettered"),
			apply: deadLetterAfter(history.OutcomeLogical)},
		{Name: "a success is dead-lettered", Promise: class("dual-terminal"), apply: deadLetterAfter(history.OutcomeSuccess)},
		{Name: "a record succeeds twice", Promise: Promise{"duplicates", "duplicate"}, apply: twice},
		{Name: "a record is attempted before the one before it is finished", Promise: Promise{"ordering", "reordered"},
			apply: reorder},
	}
}

func (v *view) outcome(one pair) history.Outcome { return v.Events[one.answer].Outcome }

// inPlace reports whether the contract retries a failed record in place.
func (v *view) inPlace() bool { return v.Header.Contract().Retry == history.RetryInPlace }

// barred reports whether a client may deny writes by itself, as a dead letter was refused for good. Attempts at others
// may then begin again.
func (v *view) barred() bool {
	return slices.ContainsFunc(v.Events, func(e history.Event) bool {
		return e.Kind == history.KindProduceResponse && e.Code == refusedForGood
	})
}

// overRetried lowers the contract's attempt limit by one, if exactly one record needs all attempts.
func overRetried(v *view) (int32, bool) {
	limit := v.Header.Contract().MaxAttempts - 1
	f := v.lone(func(f *facts) bool { return len(f.attempts) > limit })
	if limit < 1 || f == nil || !v.quiet(f) || !v.inPlace() || len(f.attempts) > 2*limit || v.barred() {
		return none, false
	}
	v.Header.Contract().MaxAttempts = limit
	return about(f)
}

func endless(v *view) (int32, bool) {
	f := v.lone(func(f *facts) bool { return len(f.attempts) > 1 })
	if f == nil || !v.quiet(f) || !v.inPlace() || len(f.attempts) < 3 {
		return none, false
	}
	if v.Header.Contract().Calls > 1 && !v.certain(f) {
		return none, false // some of the attempts may be repeats of a call
	}
	v.Header.Contract().MaxAttempts = (len(f.attempts) - 1) / 2
	return about(f)
}

// givenUp reports whether a dead letter of the record was requested after a retryable failure, even if the record was
// redelivered later.
func (v *view) givenUp(f *facts) bool {
	return slices.ContainsFunc(f.letters, func(letter pair) bool {
		before := none
		for _, one := range f.attempts {
			if one.answer != none && v.time(one.answer) <= v.time(letter.ask) {
				before = one.answer
			}
		}
		return before != none && retryable(v.Events[before].Outcome)
	})
}

func retryable(outcome history.Outcome) bool {
	switch outcome {
	case history.OutcomeTransient, history.OutcomeRateLimited, history.OutcomeTimeout, history.OutcomeReset:
		return true
	}
	return false
}

// raise raises the contract's attempt limit by one, if exactly one record was given up after all attempts.
func raise(v *view, enough func(limit int) bool) (int32, bool) {
	limit := v.Header.Contract().MaxAttempts
	f := v.lone(v.givenUp)
	if f == nil || !v.quiet(f) || !v.inPlace() || v.Header.Replay || !enough(limit) || len(f.attempts) != limit {
		return none, false
	}
	v.Header.Contract().MaxAttempts++
	return about(f)
}

func underRetried(v *view) (int32, bool) { return raise(v, func(limit int) bool { return limit > 1 }) }

func premature(v *view) (int32, bool) { return raise(v, func(limit int) bool { return limit == 1 }) }

func unattempted(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool { return v.deadLettered(f) && len(f.asDeadLetter) == 1 && v.inPlace() })
	if f == nil {
		return none, false
	}
	claimOf(&v.Events[f.asDeadLetter[0]]).Attempts = 0
	v.remove(f.attemptEvents()...)
	return about(f)
}

// answerWith changes the answer to an attempt.
func (v *view) answerWith(one pair, outcome history.Outcome) {
	e := &v.Events[one.answer]
	e.Outcome, e.Flags, e.Aux, e.Code = outcome, 0, 0, 400
	if call := v.callOf(one.ask); call != nil && len(call.starts) == 1 {
		v.Events[call.end].N = 0
		if outcome == history.OutcomeSuccess {
			v.Events[call.end].N = 1
		}
	}
}

// afterOutcome changes the answer to the first of several attempts.
func afterOutcome(outcome history.Outcome) func(*view) (int32, bool) {
	return func(v *view) (int32, bool) {
		if v.lettersRefused() {
			return none, false // the client may have failed the record's dead letter by itself
		}
		f := v.chosen(func(f *facts) bool { return v.tried(f) && len(f.attempts) > 1 && v.inPlace() })
		if f != nil {
			v.answerWith(f.attempts[0], outcome)
		}
		return about(f)
	}
}

// deadLetterAfter changes the answer to the only attempt before a dead letter.
func deadLetterAfter(outcome history.Outcome) func(*view) (int32, bool) {
	return func(v *view) (int32, bool) {
		f := v.chosen(func(f *facts) bool { return v.deadLettered(f) && len(f.attempts) == 1 && v.inPlace() })
		if f == nil || outcome == history.OutcomeLogical && !v.Header.Contract().LogicalNeverDeadLetters() {
			return none, false
		}
		v.answerWith(f.attempts[0], outcome)
		for _, i := range f.asDeadLetter {
			more := v.Events[i].Claim.Beside()
			more.Quotes = nil // the reason quoted the previous answer
			claimOf(&v.Events[i]).More = more.Encode()
		}
		return about(f)
	}
}

func twice(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool {
		return v.tried(f) && v.outcome(f.attempts[len(f.attempts)-1]) == history.OutcomeSuccess && v.inPlace()
	})
	if f == nil {
		return none, false
	}
	last := f.attempts[len(f.attempts)-1]
	start, end := v.again(last.ask, v.time(last.answer)+brief), v.again(last.answer, v.time(last.answer)+2*brief)
	start.Op = v.freshOp()
	end.Op = start.Op
	start.N++
	end.N++
	v.addAlone(start, end)
	return about(f)
}

// reorder makes a record's first attempt begin just before the previous record's attempt ends.
func reorder(v *view) (int32, bool) {
	ordering := v.Header.Contract().Ordering
	if ordering == history.OrderingNone || !v.inPlace() {
		return none, false
	}
	before := map[*facts]*facts{}
	f := v.chosen(func(f *facts) bool {
		b := v.predecessor(f)
		if b == nil || !v.quiet(f) || !v.quiet(b) || len(f.attempts) == 0 || len(b.attempts) == 0 {
			return false
		}
		end, ended := v.ended(b)
		first := b.attempts[0]
		if !ended || end-brief <= v.time(f.fetched) || end-brief <= v.time(f.acked) || end-brief <= v.time(first.ask) {
			return false
		}
		before[f] = b
		return end <= v.time(f.attempts[0].ask)
	})
	if f == nil {
		return none, false
	}
	end, _ := v.ended(before[f])
	v.separate(f.attempts[0].ask)
	v.Events[f.attempts[0].ask].Time = end - brief
	return about(f)
}

// predecessor is the previous record in the promised order.
func (v *view) predecessor(f *facts) *facts {
	mine := &v.Events[f.send]
	for n := f.number - 1; n >= 0; n-- {
		other := v.records[n]
		if other.send == none {
			continue
		}
		e := &v.Events[other.send]
		if e.Topic != mine.Topic || e.Partition != mine.Partition {
			continue
		}
		if v.Header.Contract().Ordering == history.OrderingPartition || e.N == mine.N && mine.N >= 0 {
			if e.Flags.Has(history.Tombstone) {
				return nil
			}
			return other
		}
	}
	return nil
}
