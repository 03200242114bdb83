package generate

import (
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

// Twice makes a correct history in which the workload produces some records twice, right after one another. The
// consumer processes both copies, or recognises the second one. Its sink may recognise it too.
func Twice(c Choices) *History {
	s := &simulation{Choices: c, h: &History{}, logs: map[spot]*topicLog{}, twice: true, recognises: chance(c, 2)}
	s.calm = !chance(c, 2)
	s.h.Header = s.drawHeader()
	s.h.Header.Replay = false
	h := s.run()
	promised := history.Effects{Once: chance(c, 2), Atomic: chance(c, 2)}
	promised.PerCopy = !promised.Once && h.Header.Records%2 == 1 // not drawn, for the same reason as below
	h.addEffects(promised, succeeds)
	return h
}

// produceTwice has the workload of some histories of another kind produce records twice, where no replay follows. This
// is not drawn, so that the seeds that disagreed once still give the same histories.
func (s *simulation) produceTwice() {
	s.twice = !s.h.Header.Replay && s.h.Header.Records%3 == 1
}

// TwiceCorruptions lists the corruptions of a history in which some records are produced twice.
func TwiceCorruptions() []Corruption {
	again := Promise{"dlq-once", "dlq-duplicate"}
	return append([]Corruption{
		{Name: "the sink has the effect of each copy of a record", Promise: Promise{"effects", "effect-doubled"},
			apply: effectOfEachCopy},
		{Name: "of a record that is produced twice, a third dead letter is found", Promise: again, apply: thirdDeadLetter},
		{Name: "both dead letters of a record are of the same copy", Promise: again, apply: sameCopy},
		{Name: "the audit does not find the second copy of a record", Promise: Promise{"no-loss", "dropped-by-ack"},
			apply: droppedCopy},
		{Name: "no copy of a record is attempted, and both are committed", Promise: Promise{"no-loss", "lost"},
			Also:  []Promise{{"commit-after-outcome", "commit-past-unfinished"}},
			About: "the commit that loses a record covers one that is not finished", apply: neitherCopy},
	}, append(EffectsCorruptions(), deadLetterCorruptions()...)...)
}

// effectOfEachCopy gives the sink two effects of a record, where the contract promises one.
func effectOfEachCopy(v *view) (int32, bool) {
	if !v.Header.Contract().Effects.Once {
		return none, false
	}
	f := v.chosenTwice(func(f *facts) bool { return v.effectOf(f) >= 0 })
	if f != nil {
		v.Events[v.effectOf(f)].N = 2
	}
	return about(f)
}

// bothDeadLettered reports whether each copy of the record has a dead letter that names its offset, and no disturbance
// justifies another.
func (v *view) bothDeadLettered(f *facts) bool {
	return tellsAll(v) && v.inPlace() && v.quiet(f) && len(f.asDeadLetter) == 2 && len(f.letters) == 2 &&
		len(f.again) == 1
}

func thirdDeadLetter(v *view) (int32, bool) {
	f := v.chosenTwice(v.bothDeadLettered)
	if f == nil {
		return none, false
	}
	e := v.Events[f.asDeadLetter[0]]
	e.Offset += 1000
	v.Events = append(v.Events, e)
	return about(f)
}

func sameCopy(v *view) (int32, bool) {
	f := v.chosenTwice(v.bothDeadLettered)
	if f != nil {
		claimOf(&v.Events[f.asDeadLetter[0]]).Offset = v.Events[f.asDeadLetter[1]].Claim.Offset
	}
	return about(f)
}

func droppedCopy(v *view) (int32, bool) {
	audited := func(f *facts) int {
		return slices.IndexFunc(v.Events, func(e history.Event) bool {
			return e.Kind == history.KindAuditRecord && e.Record == f.number && e.Topic == v.home(f).topic &&
				e.Offset == v.Events[f.again[0]].Offset
		})
	}
	f := v.chosenTwice(func(f *facts) bool { return f.acked != none && len(f.again) == 1 && audited(f) >= 0 })
	if f != nil {
		v.remove(audited(f))
	}
	return about(f)
}

// neitherCopy removes the attempts of both copies of a record, which no dead letter ended either.
func neitherCopy(v *view) (int32, bool) {
	f := v.chosenTwice(func(f *facts) bool {
		_, found := v.covering(f)
		return found && v.quiet(f) && len(f.letters)+len(f.copies) == 0 && len(f.attempts) > 0 && v.effectOf(f) < 0 &&
			len(f.again) == 1 && v.exitsOnlyAtTheEnd() && v.alone(f)
	})
	if f == nil {
		return none, false
	}
	var gone []int
	for _, one := range f.attempts {
		gone = append(gone, one.ask, one.answer)
	}
	v.remove(gone...)
	return about(f)
}
