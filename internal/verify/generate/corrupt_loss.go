package generate

import (
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

func lossCorruptions() []Corruption {
	loss := func(anomaly string) Promise { return Promise{"no-loss", anomaly} }
	return []Corruption{
		{
			Name: "a record is never attempted, and committed", Promise: loss("lost"), apply: forgotten,
			Also:  []Promise{{"commit-after-outcome", "commit-past-unfinished"}},
			About: "the commit that loses a record covers one that is not finished",
		},
		{
			Name: "a record is never attempted, nor committed", Promise: loss("stalled"), apply: stuck,
			Also:  []Promise{{"liveness", "stalled"}},
			About: "what keeps a record uncommitted keeps its partition behind",
		},
		{Name: "the audit does not find an acknowledged record", Promise: loss("dropped-by-ack"), apply: dropped},
		{Name: "the audit does not find an acknowledged dead letter", Promise: loss("dropped-by-ack"),
			apply: droppedDeadLetter},
	}
}

// GivenUpCorruptions lists those of a history without a dead-letter topic in which records are given up that are to be
// tried until they succeed. They apply to few histories, and are in no other list.
func GivenUpCorruptions() []Corruption {
	lost, passed := Promise{"no-loss", "lost"}, Promise{"commit-after-outcome", "commit-past-unfinished"}
	under := Promise{"bounded-retries", "under-retried"}
	const why = "the commit that loses a record covers one that is not finished"
	return []Corruption{
		{Name: "records are given up after a call for several", Promise: lost, Also: []Promise{passed}, About: why,
			apply: func(v *view) (int32, bool) { return v.givenUpEarly(v.isOpen, lost, passed) }},
		{Name: "records are given up", Promise: lost, Also: []Promise{passed, under},
			About: why + ", and had too few attempts",
			apply: func(v *view) (int32, bool) {
				return v.givenUpEarly(func(last pair) bool { return !v.isOpen(last) }, lost, passed, under)
			}},
	}
}

// givenUpEarly makes the contract promise that records are tried until they succeed, if some were given up, all of them
// after a last attempt that holds, and certainly. Each breaks the promises.
func (v *view) givenUpEarly(holds func(last pair) bool, breaks ...Promise) (int32, bool) {
	c := v.Header.Contract()
	var all []*facts
	for _, f := range v.records {
		if f.twice || slices.ContainsFunc(f.attempts, func(one pair) bool { return v.isOpen(one) && !v.failed(one) }) {
			return none, false // another copy, or another call, may have been its end
		}
		if f.send == none || len(f.attempts) == 0 {
			continue
		}
		last := f.attempts[len(f.attempts)-1]
		unheard := last.answer == none || v.Events[last.answer].Flags.Has(history.ClientGone)
		if !unheard && !v.failed(last) {
			continue
		}
		_, found := v.covering(f)
		if unheard || !found || !holds(last) || !v.undisturbed(f) || !v.alone(f) || v.Events[f.send].Flags != 0 {
			return none, false
		}
		all = append(all, f)
	}
	if len(all) == 0 || c.HasDLQ() || !v.Calm || !v.exitsOnlyAtTheEnd() {
		return none, false
	}
	c.MaxAttempts, c.Unlimited = 0, true
	for _, f := range all[1:] {
		for _, promise := range breaks {
			v.also = append(v.also, Finding{promise, f.number})
		}
	}
	return about(all[0])
}

// tried reports whether attempts, and nothing else, finished the record.
func (v *view) tried(f *facts) bool {
	return v.quiet(f) && len(f.attempts) > 0 && len(f.letters)+len(f.copies) == 0
}

func (f *facts) attemptEvents() []int {
	var all []int
	for _, one := range f.attempts {
		all = append(all, one.ask)
		if one.answer != none {
			all = append(all, one.answer)
		}
	}
	return all
}

func forgotten(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool {
		_, found := v.covering(f)
		return v.tried(f) && v.alone(f) && found && v.exitsOnlyAtTheEnd()
	})
	if f != nil {
		v.remove(f.attemptEvents()...)
	}
	return about(f)
}

// exitsOnlyAtTheEnd reports whether processes end only at the end of the run, so that no process is left that could
// finish a record.
func (v *view) exitsOnlyAtTheEnd() bool { return len(v.exited) == 0 || !v.trouble }

func stuck(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool {
		if !v.tried(f) || !v.alone(f) || v.Header.Replay {
			return false
		}
		end := v.offsets(v.home(f))
		return end != nil && end.Offset == v.offset(f)+1
	})
	if f == nil {
		return none, false
	}
	at := v.home(f)
	gone := f.attemptEvents()
	committed := int64(none)
	for _, one := range v.commits[at] {
		if offset := v.Events[one.ask].Offset; offset <= v.offset(f) {
			committed = max(committed, offset)
			continue
		}
		gone = append(gone, one.ask)
		if one.answer != none {
			gone = append(gone, one.answer)
		}
	}
	if v.endedByCommit(at, committed, v.offset(f)) {
		return none, false
	}
	v.offsets(at).Aux = committed
	v.remove(gone...)
	return about(f)
}

// endedByCommit reports whether only a commit shows that a record between the two offsets is finished.
func (v *view) endedByCommit(at spot, from, to int64) bool {
	return slices.ContainsFunc(v.records, func(f *facts) bool {
		return f.acked != none && v.home(f) == at && v.offset(f) >= from && v.offset(f) < to &&
			(v.Events[f.send].Flags != 0 || !v.wellElsewhere(f))
	})
}

func dropped(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool { return f.acked != none && len(f.inTopic) == 1 && len(f.replays) == 0 })
	if f != nil {
		v.remove(f.inTopic...)
	}
	return about(f)
}

func droppedDeadLetter(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool {
		acked := false
		for _, one := range f.letters {
			acked = acked || one.answer != none && plain(&v.Events[one.answer])
		}
		return acked && !v.aborted && len(f.asDeadLetter) == 1 && len(f.selected) == 0 && !v.Header.Replay &&
			v.role(v.Events[f.asDeadLetter[0]].Topic) == history.RoleDLQ
	})
	if f != nil {
		v.remove(f.asDeadLetter...)
	}
	return about(f)
}
