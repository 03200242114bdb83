package generate

// This file damages what happens at the last node of a graph, where nothing could excuse it.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// GraphCorruptions lists the corruptions that apply to histories of graphs.
func GraphCorruptions() []Corruption {
	conserved := func(anomaly string) Promise { return Promise{"graph-conservation", anomaly} }
	return []Corruption{
		{
			Name: "a document is committed and not passed on", Promise: conserved("lost-in-graph"), apply: notPassedOn,
			Also:  []Promise{conserved("commit-before-forward")},
			About: "what is never acknowledged is not before the commit",
		},
		{Name: "a document is committed before its write out of the graph is acknowledged",
			Promise: conserved("commit-before-forward"), apply: passedOnLate},
		{Name: "a document is passed on twice", Promise: conserved("forwarded-twice"), apply: passedOnTwice},
		{Name: "a document is passed on while its module is still at it", Promise: conserved("forwarded-unprocessed"),
			apply: passedOnUnprocessed},
		{
			Name: "a document is passed on and dead-lettered", Promise: conserved("dual-exit"), apply: passedOnAndDead,
			Also:  []Promise{{LastNode + "/classification", "dual-terminal"}},
			About: "what was passed on has succeeded",
		},
		{Name: "a document is quarantined that was never replayed", Promise: conserved("quarantined-early"),
			apply: sentences(false)},
		{Name: "a document is dead-lettered that was replayed too often", Promise: conserved("quarantine-missed"),
			apply: sentences(true)},
		{Name: "a selected dead letter of a graph is not put back", Promise: conserved("replay-missing"), apply: notPutBack},
	}
}

// exit is a produce by an instance of the last node.
type exit struct {
	pair
	record int32
	// copy is the position of the document that it was written for.
	copy   spot
	offset int64
}

func (v *view) lastNode() *history.Consumer {
	nodes := v.Header.Consumers
	return &nodes[len(nodes)-1]
}

// exitsTo lists the produces of the last node into a topic. They prove something only in an undisturbed run.
func (v *view) exitsTo(topic int16) []exit {
	var all []exit
	node := v.Header.Consumers
	for i := range v.Events {
		e := &v.Events[i]
		if !v.Calm || e.Kind != history.KindProduceRequest || e.Topic != topic ||
			v.Header.ConsumerOf(e.Instance) != len(node)-1 {
			continue
		}
		one := exit{pair: pair{i, v.answerTo(i, history.KindProduceResponse)}, record: e.Record, offset: history.None}
		for k := range i {
			if a := &v.Events[k]; a.Kind == history.KindAttemptStart && a.Record == e.Record && a.Instance == e.Instance {
				one.copy, one.offset = spot{a.Topic, a.Partition}, a.Offset
			}
		}
		if one.answer != none && one.offset >= 0 {
			all = append(all, one)
		}
	}
	return all
}

func (v *view) answerTo(ask int, kind history.Kind) int {
	return slices.IndexFunc(v.Events, func(e history.Event) bool { return e.Kind == kind && e.Op == v.Events[ask].Op })
}

// anyExit draws one of the produces for which the condition holds.
func (v *view) anyExit(topic int16, holds func(*exit) bool) *exit {
	all := slices.DeleteFunc(v.exitsTo(topic), func(one exit) bool { return !holds(&one) })
	if len(all) == 0 {
		return nil
	}
	return &all[v.Intn(len(all))]
}

// audited lists the places at which the last audit found the record of a produce.
func (v *view) audited(one pair) []int {
	answer := &v.Events[one.answer]
	var found []int
	for i := range v.Events {
		if e := &v.Events[i]; e.Kind == history.KindAuditRecord && e.Topic == answer.Topic &&
			e.Partition == answer.Partition && e.Offset == answer.Offset {
			found = append(found, i)
		}
	}
	return found
}

func anyOfThem(*exit) bool { return true }

func notPassedOn(v *view) (int32, bool) {
	one := v.anyExit(v.Header.Graph.Sink, anyOfThem)
	if one == nil {
		return none, false
	}
	v.remove(append(v.audited(one.pair), one.ask, one.answer)...)
	return one.record, true
}

// passedOnLate moves the acknowledgement to just after the first commit that covers the document.
func passedOnLate(v *view) (int32, bool) {
	one := v.anyExit(v.Header.Graph.Sink, anyOfThem)
	if one == nil {
		return none, false
	}
	for i := one.answer; i < len(v.Events); i++ {
		e := &v.Events[i]
		if e.Kind == history.KindCommitRequest && e.Topic == one.copy.topic &&
			e.Partition == one.copy.partition && e.Offset > one.offset {
			v.Events[one.answer].Time = e.Time + brief
			return one.record, true
		}
	}
	return none, false
}

// written adds a produce like an existing one to a topic, and its audit record.
func (v *view) written(like *exit, topic int16, claim *history.Claim) {
	ask, answer, op := v.Events[like.ask], v.Events[like.answer], v.freshOp()
	ask.Op, ask.Topic, ask.Sequence = op, topic, ask.Sequence+1000
	answer.Op, answer.Topic, answer.Sequence, answer.Offset = op, topic, ask.Sequence, 1000
	found := v.again(v.audited(like.pair)[0], v.auditOf(topic))
	found.Topic, found.Offset, found.Claim = topic, answer.Offset, claim
	if claim != nil {
		found.Flags, found.HeaderCount, found.HeaderBytes = history.FailureHeaders, envelopeHeaders, envelopeBytes
	}
	v.add(ask, answer, found)
}

// auditOf is the time at which the last audit of a topic ended.
func (v *view) auditOf(topic int16) (at time.Duration) {
	for i := range v.Events {
		if e := &v.Events[i]; e.Kind == history.KindAuditStart && e.Topic == topic {
			at = e.Time + brief
		}
	}
	return at
}

func passedOnTwice(v *view) (int32, bool) {
	one := v.anyExit(v.Header.Graph.Sink, anyOfThem)
	if one == nil {
		return none, false
	}
	v.written(one, v.Header.Graph.Sink, nil)
	return one.record, true
}

// calls lists the attempts on the copy that the produce was for.
func (v *view) calls(one *exit) []pair {
	var all []pair
	for i := range v.Events {
		e := &v.Events[i]
		if e.Kind == history.KindAttemptStart && e.Record == one.record && e.Topic == one.copy.topic &&
			e.Partition == one.copy.partition && e.Offset == one.offset {
			all = append(all, pair{i, v.answerTo(i, history.KindAttemptEnd)})
		}
	}
	return all
}

func passedOnUnprocessed(v *view) (int32, bool) {
	one := v.anyExit(v.Header.Graph.Sink, func(one *exit) bool {
		return len(v.calls(one)) == 1 && len(v.of(one.record).selected) == 0
	})
	if one == nil {
		return none, false
	}
	began := v.time(v.calls(one)[0].ask)
	v.Events[one.ask].Time, v.Events[one.answer].Time = began+brief, began+brief
	return one.record, true
}

func passedOnAndDead(v *view) (int32, bool) {
	one := v.anyExit(v.Header.Graph.Sink, func(one *exit) bool {
		calls := v.calls(one)
		return v.Events[calls[len(calls)-1].answer].Outcome == history.OutcomeSuccess
	})
	if one == nil || v.Header.Replay {
		return none, false
	}
	v.written(one, v.lastNode().DLQ, &history.Claim{
		Topic: one.copy.topic, Partition: one.copy.partition, Offset: one.offset,
		Attempts: int32(len(v.calls(one))),
	})
	return one.record, true
}

// sentences moves a dead letter into the quarantine, or out of it.
func sentences(out bool) func(*view) (int32, bool) {
	return func(v *view) (int32, bool) {
		from, to := v.lastNode().DLQ, v.lastNode().Quarantine
		if out {
			from, to = to, from
		}
		one := v.anyExit(from, func(one *exit) bool { return out || len(v.of(one.record).selected) == 0 })
		if one == nil {
			return none, false
		}
		answer := v.Events[one.answer]
		found := v.audited(one.pair)
		moved := &v.Events[found[len(found)-1]]
		moved.Topic, moved.Offset, moved.Time = to, 1000, v.auditOf(to)
		for i := range v.Events {
			if e := &v.Events[i]; e.Op == answer.Op &&
				(e.Kind == history.KindProduceRequest || e.Kind == history.KindProduceResponse) {
				e.Topic = to
				if e.Kind == history.KindProduceResponse {
					e.Offset = 1000
				}
			}
		}
		v.remove(found[:len(found)-1]...)
		return one.record, true
	}
}

// notPutBack removes a replay to the last node, and everything that followed from it.
func notPutBack(v *view) (int32, bool) {
	node := v.lastNode()
	f := v.chosen(func(f *facts) bool {
		if !v.Calm || len(f.selected) == 0 || len(f.replays) != len(f.selected) {
			return false
		}
		last := &v.Events[f.selected[len(f.selected)-1]]
		return last.Topic == node.DLQ
	})
	if f == nil {
		return none, false
	}
	written := f.replays[len(f.replays)-1]
	since := v.time(written.ask)
	gone := v.audited(written)
	for i := range v.Events {
		e := &v.Events[i]
		if e.Record != f.number || e.Time < since {
			continue
		}
		switch e.Kind {
		case history.KindAttemptStart, history.KindAttemptEnd, history.KindProduceRequest:
			gone = append(gone, i)
		case history.KindProduceResponse:
			gone = append(gone, i)
			gone = append(gone, v.audited(pair{none, i})...)
		}
	}
	v.remove(gone...)
	return f.number, true
}
