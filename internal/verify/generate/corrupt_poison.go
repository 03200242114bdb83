package generate

import (
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

// HaltingCorruptions lists the corruptions of a consumer that halts at records that it can't read.
func HaltingCorruptions() []Corruption {
	passed := Promise{"commit-after-outcome", "commit-past-unfinished"}
	return append(commitCorruptions(), Corruption{
		Name: "the record at which the consumer halts is committed", Promise: passed, apply: goesPast,
		Also: []Promise{{"no-loss", "lost"}}, About: "nothing processes the record any more",
	})
}

// leaves reports whether the consumer halts, and leaves records of the partition from the offset on.
func (v *view) leaves(at spot, offset int64) bool {
	end := v.offsets(at)
	return v.Header.Contract().Poison == history.PoisonHalt && (end == nil || end.Offset > offset)
}

// left reports whether the consumer halts, and has not committed the record.
func (v *view) left(f *facts) bool {
	_, found := v.covering(f)
	return v.Header.Contract().Poison == history.PoisonHalt && !found
}

// goesPast commits the first record at which the consumer halts, when everything before it is finished.
func goesPast(v *view) (int32, bool) {
	at := v.phase(history.PhaseDrain) + brief
	f := v.chosen(func(f *facts) bool {
		if !v.quiet(f) || !v.Header.Contract().Halts(v.Events[f.send].Flags) || v.Header.Replay || len(v.exited) > 0 {
			return false
		}
		return !slices.ContainsFunc(v.records, func(other *facts) bool {
			if other == f || other.send == none || v.Events[other.send].Partition != v.Events[f.send].Partition {
				return false
			}
			if other.acked == none {
				return true
			}
			end, ended := v.ended(other)
			return v.offset(other) < v.offset(f) && (!ended || end >= at)
		})
	})
	if f == nil {
		return none, false
	}
	v.offsets(v.home(f)).Aux = v.offset(f) + 1
	ask, holder := history.New(history.KindCommitRequest, at), v.Events[f.fetched]
	ask.Op, ask.Instance, ask.Run, ask.N = v.freshOp(), holder.Instance, holder.Run, 1
	ask.Topic, ask.Partition, ask.Offset = holder.Topic, holder.Partition, v.offset(f)+1
	answer := ask
	answer.Kind, answer.Time = history.KindCommitResponse, at+1
	v.add(ask, answer)
	return about(f)
}
