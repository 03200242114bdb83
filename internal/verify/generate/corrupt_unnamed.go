package generate

import (
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

// UnnamedCorruptions lists the corruptions of records that the downstream stub cannot identify.
func UnnamedCorruptions() []Corruption {
	lost := Promise{"no-loss", "lost"}
	passed := Promise{"commit-after-outcome", "commit-past-unfinished"}
	return []Corruption{
		{
			Name: "a record without an id is never attempted, and committed", Promise: lost, apply: forgottenUnnamed,
			Also: []Promise{passed}, About: "the commit that loses a record covers one that is not finished",
		},
		{Name: "a commit covers a record without an id before its first attempt", Promise: passed, apply: hastyCommit},
	}
}

// unnamed returns the events of the attempts at the record's position in which the downstream stub found no id.
func (v *view) unnamed(f *facts) []int {
	return v.unnamedAt(deadLetterAt{v.home(f), v.offset(f)})
}

func (v *view) unnamedAt(at deadLetterAt) (all []int) {
	for i := range v.Events {
		e := &v.Events[i]
		if e.Record == none && (e.Kind == history.KindAttemptStart || e.Kind == history.KindAttemptEnd) &&
			(spot{e.Topic, e.Partition}) == at.spot && e.Offset == at.offset {
			all = append(all, i)
		}
	}
	return all
}

// triedUnnamed returns a record that was finished before it was committed only by attempts at its position.
func (v *view) triedUnnamed() (f *facts, attempts []int) {
	f = v.chosen(func(f *facts) bool {
		_, found := v.covering(f)
		return found && v.quiet(f) && len(f.letters)+len(f.copies) == 0 && len(v.unnamed(f)) > 0 &&
			v.exitsOnlyAtTheEnd() && !v.claimed(f)
	})
	if f != nil {
		attempts = v.unnamed(f)
	}
	return f, attempts
}

// claimed reports whether a dead letter names the record's position as its source.
func (v *view) claimed(f *facts) bool {
	return slices.ContainsFunc(v.Events, func(e history.Event) bool {
		return e.Claim != nil && e.Claim.Offset == v.offset(f) && v.home(f) == spot{e.Claim.Topic, e.Claim.Partition}
	})
}

func forgottenUnnamed(v *view) (int32, bool) {
	f, attempts := v.triedUnnamed()
	v.remove(attempts...)
	return about(f)
}

func hastyCommit(v *view) (int32, bool) {
	f, attempts := v.triedUnnamed()
	if f == nil {
		return none, false
	}
	at := v.time(slices.Min(attempts)) - brief
	if at <= v.time(f.fetched) || at <= v.time(f.acked) || !v.front(f, at) {
		return none, false
	}
	return v.commitPast(f, at)
}
