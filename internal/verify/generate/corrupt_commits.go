package generate

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// brief is shorter than the distance between any two events of a generated history that differ in time.
const brief = time.Microsecond

func commitCorruptions() []Corruption {
	dlq := func(anomaly string) Promise { return Promise{"commit-after-dlq", anomaly} }
	outcome := func(anomaly string) Promise { return Promise{"commit-after-outcome", anomaly} }
	return []Corruption{
		{Name: "the dead letter's acknowledgement comes after the commit", Promise: dlq("commit-before-dlq"), apply: lateAck},
		{Name: "the dead letter's acknowledgement never comes", Promise: dlq("commit-without-dlq"), apply: noAck},
		{Name: "the dead letter is refused", Promise: dlq("commit-without-dlq"), apply: refusedAck},
		{Name: "a commit covers a record before its last attempt", Promise: outcome("commit-past-unfinished"),
			apply: earlyCommit},
		{Name: "another instance commits the partition", Promise: outcome("commit-wrong-partition"), apply: strangeCommit},
		{Name: "a commit lies beyond the end of the log", Promise: outcome("commit-past-end"), apply: farCommit},
		{Name: "a commit goes back", Promise: outcome("commit-regressed"), apply: backwards},
	}
}

// deadLettered reports whether the record has one dead letter and nothing after it has to wait for that.
func (v *view) deadLettered(f *facts) bool {
	return v.quiet(f) && len(f.letters) == 1 && len(f.copies) == 0 && v.alone(f) && len(f.attempts) > 0 && !v.mayEnd(f) &&
		!v.left(f)
}

// mayEnd reports whether an attempt may have ended the record, although it was dead-lettered.
func (v *view) mayEnd(f *facts) bool {
	c := v.Header.Contract()
	return c.LogicalEither && slices.ContainsFunc(f.attempts, func(one pair) bool {
		return one.answer != none && v.Events[one.answer].Outcome == history.OutcomeLogical
	})
}

func lateAck(v *view) (int32, bool) {
	// In an outage, the commit would break two promises: it also passes a record while no dead letter can be written.
	f := v.chosen(func(f *facts) bool { return v.deadLettered(f) && !v.outage(f) })
	commit, found := v.covering(f)
	if !found || v.time(commit.ask)-v.time(f.letters[0].ask) > 500*ms {
		return none, false
	}
	v.Events[f.letters[0].answer].Time = v.time(commit.ask) + brief
	return about(f)
}

func noAck(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool { return v.deadLettered(f) && f.letters[0].answer != none && !v.outage(f) })
	if f != nil {
		v.remove(f.letters[0].answer)
	}
	return about(f)
}

func refusedAck(v *view) (int32, bool) {
	f := v.chosen(func(f *facts) bool { return v.deadLettered(f) && !v.outage(f) })
	if f != nil {
		// The produce is refused, but the record is in the topic all the same; otherwise it would also be lost.
		e := &v.Events[f.letters[0].answer]
		e.Code, e.Offset = 19, none
	}
	return about(f)
}

// outage reports whether no dead letter would be acknowledged, without this acknowledgement, for long enough to make an
// outage, or whether the commit may fall into an outage of other dead letters.
func (v *view) outage(f *facts) bool {
	from, at, to := v.time(f.letters[0].ask), v.time(f.letters[0].answer), time.Duration(-1)
	for _, other := range v.records {
		for _, one := range other.letters {
			if other == f {
				continue
			}
			if one.answer == none || v.Events[one.answer].Code != 0 ||
				v.Events[one.answer].Flags&(history.Withheld|history.Forged) != 0 {
				return true
			}
			if answered := v.time(one.answer); answered > at && (to < 0 || answered < to) {
				to = answered
			}
		}
	}
	return to < 0 || to-from > 100*ms
}

// commitPast adds a commit past the record at that time, by the process whose commit passes it.
func (v *view) commitPast(f *facts, at time.Duration) (int32, bool) {
	commit, _ := v.covering(f)
	v.commitAt(commit.ask, v.Events[commit.ask].Instance, v.offset(f)+1, at)
	return about(f)
}

// commitAt makes a commit that is accepted without any error.
func (v *view) commitAt(like int, by int16, offset int64, at time.Duration) {
	ask := v.again(like, at)
	ask.Kind, ask.Op, ask.Code, ask.Flags, ask.Offset = history.KindCommitRequest, v.freshOp(), 0, 0, offset
	if by != ask.Instance {
		ask.Instance = by
		ask.Run = 0
		for i := range v.Events {
			if e := &v.Events[i]; e.Kind == history.KindInstanceStarting && e.Instance == by && e.Time <= at {
				ask.Run = e.Run
			}
		}
	}
	answer := ask
	answer.Kind, answer.Time = history.KindCommitResponse, at+1
	v.add(ask, answer)
}

// front reports whether everything before the record in its partition is finished by the given time and no later commit
// is behind it.
func (v *view) front(f *facts, by time.Duration) bool {
	if v.Header.Topics[v.home(f).topic].Retries {
		return false // it may have copies of records, too
	}
	for _, one := range v.commits[v.home(f)] {
		if v.time(one.ask) >= by && v.Events[one.ask].Offset <= v.offset(f) {
			return false
		}
	}
	for _, other := range v.records {
		if other == f || other.send == none || v.Events[other.send].Partition != v.Events[f.send].Partition {
			continue
		}
		if other.acked == none {
			return false
		}
		end, ended := v.ended(other)
		if v.Events[other.send].Flags != 0 || v.offset(other) < v.offset(f) && (!ended || end >= by) {
			return false
		}
	}
	return true
}

func earlyCommit(v *view) (int32, bool) {
	holds := func(f *facts) bool {
		if !v.quiet(f) || len(f.attempts) == 0 || len(f.letters)+len(f.copies) > 0 {
			return false
		}
		at := v.time(f.attempts[len(f.attempts)-1].ask) - brief
		_, found := v.covering(f)
		return found && at > v.time(f.fetched) && at > v.time(f.acked) && v.front(f, at)
	}
	f := v.chosen(holds)
	if f == nil {
		return none, false
	}
	return v.commitPast(f, v.time(f.attempts[len(f.attempts)-1].ask)-brief)
}

// settled returns a partition of the input with its last commit, accepted, and reports whether there is one that a
// single instance owned throughout.
func (v *view) settled() (at spot, last pair, found bool) {
	first := int32(v.Intn(partitions))
	for n := range int32(partitions) {
		at = spot{inputTopic, (first + n) % partitions}
		commits := v.commits[at]
		if v.changes[at] != 1 || v.refused[at] > 0 || len(commits) == 0 || v.trouble || v.Header.Replay {
			continue
		}
		last = commits[len(commits)-1]
		if e := &v.Events[last.ask]; e.Offset > 0 && !v.exited[e.Instance] && !v.leaves(at, e.Offset) {
			return at, last, true
		}
	}
	return at, last, false
}

func strangeCommit(v *view) (int32, bool) {
	at, last, found := v.settled()
	if !found || v.Header.Instances < 2 {
		return none, false
	}
	owner := v.Events[last.ask].Instance
	stranger := (owner + 1) % int16(v.Header.Instances)
	has := false
	for i := range v.Events {
		if e := &v.Events[i]; e.Kind == history.KindAssigned && e.Instance == stranger {
			has = has || spot{e.Topic, e.Partition} != at
		}
	}
	if !has || v.exited[stranger] {
		return none, false
	}
	v.commitAt(last.ask, stranger, v.Events[last.ask].Offset, v.phase(history.PhaseAudit)-brief)
	return none, true
}

func farCommit(v *view) (int32, bool) {
	at, last, found := v.settled()
	if !found || v.offsets(at) == nil {
		return none, false
	}
	v.commitAt(last.ask, v.Events[last.ask].Instance, v.offsets(at).Offset+int64(1+v.Intn(5)),
		v.phase(history.PhaseAudit)-brief)
	return none, true
}

func backwards(v *view) (int32, bool) {
	_, last, found := v.settled()
	if !found {
		return none, false
	}
	offset, by, at := v.Events[last.ask].Offset, v.Events[last.ask].Instance, v.phase(history.PhaseAudit)-brief
	v.commitAt(last.ask, by, offset-1, at-brief)
	v.commitAt(last.ask, by, offset, at)
	return none, true
}
