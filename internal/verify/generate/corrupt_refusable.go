package generate

import "github.com/dlqbench/dlqbench/history"

// RefusableCorruptions lists the corruptions of records that the consumer may process or refuse.
func RefusableCorruptions() []Corruption {
	lost := Promise{"no-loss", "lost"}
	passed := Promise{"commit-after-outcome", "commit-past-unfinished"}
	const why = "the commit that loses a record covers one that is not finished"
	own := []Corruption{
		{Name: "a record is neither processed nor refused", Promise: lost, Also: []Promise{passed}, About: why,
			apply: neither},
		{Name: "a record that is refused is not dead-lettered", Promise: lost, Also: []Promise{passed}, About: why,
			apply: refusedSilently},
		{Name: "a record is attempted, and then refused", Promise: Promise{"classification", "premature-dead-letter"},
			Also:  []Promise{{"bounded-retries", "under-retried"}},
			About: "a record that is given up after its first failure is given up after too few", apply: refusedLate},
		{Name: "a record that is refused succeeds, too", Promise: Promise{"classification", "dual-terminal"},
			apply: refusedAndProcessed},
	}
	return append(append(own, commitCorruptions()...), deadLetterCorruptions()...)
}

// refusable reports whether the consumer might have processed or refused the record, and did one of both undisturbed.
func (v *view) refusable(f *facts) bool {
	return v.quiet(f) && v.Events[f.send].Flags.Has(history.Refusable)
}

// neither removes the attempts of a record that was processed.
func neither(v *view) (int32, bool) {
	poison := v.Header.Contract().Poison
	if poison == history.PoisonSkip || poison == history.PoisonHalt {
		return none, false
	}
	f := v.chosen(func(f *facts) bool {
		_, found := v.covering(f)
		return found && v.refusable(f) && v.tried(f) && v.alone(f) && v.exitsOnlyAtTheEnd() && v.Header.Contract().HasDLQ()
	})
	if f != nil {
		v.remove(f.attemptEvents()...)
	}
	return about(f)
}

// refusedRecord returns a record that was refused, with one dead letter, and committed.
func (v *view) refusedRecord() *facts {
	return v.chosen(func(f *facts) bool {
		_, found := v.covering(f)
		return found && v.refusable(f) && len(f.attempts) == 0 && len(f.letters) == 1 && len(f.asDeadLetter) == 1 &&
			len(f.copies) == 0 && v.inPlace() && v.exitsOnlyAtTheEnd()
	})
}

// refusedSilently removes the dead letter of a record that was refused.
func refusedSilently(v *view) (int32, bool) {
	f := v.refusedRecord()
	if f != nil {
		v.remove(f.asDeadLetter[0], f.letters[0].ask, f.letters[0].answer)
	}
	return about(f)
}

func refusedLate(v *view) (int32, bool) {
	if v.Header.Contract().MaxAttempts < 2 {
		return none, false
	}
	return v.attemptRefused(history.OutcomeTransient)
}

func refusedAndProcessed(v *view) (int32, bool) { return v.attemptRefused(history.OutcomeSuccess) }

// attemptRefused inserts an attempt of a record that was refused, just before its dead letter is requested.
func (v *view) attemptRefused(outcome history.Outcome) (int32, bool) {
	f := v.refusedRecord()
	if f == nil || !v.alone(f) || v.predecessor(f) != nil {
		return none, false
	}
	letter := &v.Events[f.letters[0].ask]
	if letter.Time-2*brief <= v.time(f.fetched) || letter.Time-2*brief <= v.time(f.acked) {
		return none, false
	}
	start := history.New(history.KindAttemptStart, letter.Time-2*brief)
	start.Instance, start.Run, start.Op, start.Record, start.N = letter.Instance, letter.Run, v.freshOp(), f.number, 1
	at := v.home(f)
	start.Topic, start.Partition, start.Offset = at.topic, at.partition, v.offset(f)
	end := start
	end.Kind, end.Time, end.Outcome, end.Code = history.KindAttemptEnd, start.Time+brief/2, outcome, 200
	if claim := claimOf(&v.Events[f.asDeadLetter[0]]); claim.Attempts >= 0 {
		claim.Attempts = 1
	}
	v.add(start, end)
	return about(f)
}
