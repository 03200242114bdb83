package assertions

// The history of one node of a graph, in the form of an ordinary consumer's. Its records are the copies of documents in
// its input topic. A write that made a copy, whether by the workload, a preceding node or the replay tool, takes the
// role of the workload's send.

import (
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

// nodeHistory is a Source: the part of a graph's history that concerns one node.
type nodeHistory struct {
	view
	walk *graphWalk
	node int
}

// Header returns the header of a run with this node alone: topics that do not belong to the node have no role.
func (n nodeHistory) Header() history.Header {
	h, node := n.Source.Header(), n.walk.header.Consumers[n.node]
	h.Topics = slices.Clone(h.Topics)
	for i := range h.Topics {
		switch int16(i) {
		case node.Input:
			h.Topics[i].Role = history.RoleInput
		case node.DLQ, node.Quarantine:
			h.Topics[i].Role = history.RoleDLQ
		default:
			h.Topics[i].Role = ""
		}
	}
	h.Consumers, h.Records = []history.Consumer{node}, len(n.walk.copies[n.node])
	h.Graph, h.Replay = nil, false
	if n.node > 0 { // a later node's load is the output of the nodes before it, and thresholds apply to the whole run
		h.Expect.MinLoad, h.Expect.MaxSlip, h.Expect.Thresholds, h.Expect.DuplicateShare = 0, 0, nil, -1
	}
	return h
}

// Each implements history.Source.
func (n nodeHistory) Each(fn func(*history.Event) error) error {
	t := nodeTeller{nodeHistory: n, fn: fn, attempts: map[int64]copyRef{}, counts: map[int32]int32{},
		sent: map[int32]bool{}}
	return n.Source.Each(t.take)
}

// nodeTeller converts the events that concern the node.
type nodeTeller struct {
	nodeHistory
	fn       func(*history.Event) error
	attempts map[int64]copyRef
	counts   map[int32]int32 // attempts of a copy so far
	sent     map[int32]bool
}

func (t *nodeTeller) take(e *history.Event) error {
	told := *e
	switch e.Kind {
	case history.KindSend, history.KindAcked:
		if t.node == 0 {
			return t.fn(&told) // documents have the numbers of the entry's first copies
		}
		return nil
	case history.KindReplaySelected:
		return nil
	case history.KindAttemptStart, history.KindAttemptEnd:
		return t.attempt(&told)
	case history.KindProduceRequest, history.KindProduceResponse:
		return t.write(&told)
	case history.KindAuditRecord:
		return t.audit(&told)
	case history.KindPhase, history.KindFaultStart, history.KindFaultEffect, history.KindFaultEnd:
		return t.fn(&told)
	}
	at := &t.walk.header.Consumers[t.node]
	switch {
	case e.Topic >= 0 && e.Topic != at.Input && e.Topic != at.DLQ && e.Topic != at.Quarantine:
		return nil
	case e.Instance >= 0 && t.walk.header.ConsumerOf(e.Instance) != t.node:
		return nil
	}
	return t.fn(&told)
}

func (t *nodeTeller) attempt(e *history.Event) error {
	if t.walk.header.ConsumerOf(e.Instance) != t.node {
		return nil
	}
	if e.Record < 0 {
		return t.fn(e)
	}
	ref, known := t.attempts[e.Op]
	if e.Kind == history.KindAttemptStart {
		if ref, known = t.walk.copyAt(t.node, e.Record, place{e.Topic, e.Partition, e.Offset}); known {
			t.attempts[e.Op] = ref
			t.counts[ref.number]++
		}
	} else {
		delete(t.attempts, e.Op)
	}
	if !known {
		return nil // it concerns a copy that neither an answer nor an audit shows
	}
	e.Record, e.N = ref.number, t.counts[ref.number]
	return t.fn(e)
}

// write passes on dead letters unchanged, under the copies for which they were written, and a write that made a copy as
// its send and its acknowledgement. Writes to other nodes are left out of this node's history.
func (t *nodeTeller) write(e *history.Event) error {
	key, at := writeKey{e.Op, e.Record}, &t.walk.header.Consumers[t.node]
	if e.Topic == at.Input {
		ref, makes := t.walk.byWrite[key]
		if !makes || ref.node != t.node {
			return nil
		}
		return t.send(e, ref)
	}
	if (e.Topic != at.DLQ && e.Topic != at.Quarantine) || t.walk.header.ConsumerOf(e.Instance) != t.node {
		return nil
	}
	ref, known := t.walk.byLetter[key]
	if !known || ref.node != t.node {
		return nil
	}
	e.Record = ref.number
	return t.fn(e)
}

// send converts the write that made a copy to its send and, if a broker acknowledged it, to its acknowledgement. It
// emits the acknowledgement at once, because the node may have the copy long before the writer receives the answer, and
// disruptions of the node in that time affect the copy.
func (t *nodeTeller) send(e *history.Event, ref copyRef) error {
	if e.Kind != history.KindProduceRequest || t.sent[ref.number] {
		return nil
	}
	t.sent[ref.number] = true
	one := &t.walk.copies[t.node][ref.number]
	original := &t.walk.documents[one.document]
	send := history.New(history.KindSend, e.Time)
	send.Record, send.Topic, send.Partition, send.Aux, send.N, send.Flags = ref.number, e.Topic, one.partition,
		int64(e.Time), original.N, original.Flags
	send.KeyHash, send.ValueHash, send.HeadersHash, send.HeaderCount = e.KeyHash, e.ValueHash, original.HeadersHash,
		original.HeaderCount
	if one.keyless {
		send.N = history.None
	}
	if err := t.fn(&send); err != nil || !one.stored {
		return err
	}
	ack := history.New(history.KindAcked, e.Time)
	ack.Record, ack.Topic, ack.Partition, ack.Offset = ref.number, one.topic, one.partition, one.offset
	return t.fn(&ack)
}

// audit converts the findings in the node's own topics. A dead letter belongs to the copy that it names, if that is a
// copy of this document, otherwise to the copy for which it was written, as far as an answer reported that.
func (t *nodeTeller) audit(e *history.Event) error {
	at, here := &t.walk.header.Consumers[t.node], place{e.Topic, e.Partition, e.Offset}
	switch e.Topic {
	case at.Input:
		if ref, known := t.walk.at[here]; known && e.Record >= 0 {
			e.Record = ref.number
			return t.fn(e)
		}
	case at.DLQ, at.Quarantine:
		if e.Record < 0 {
			return t.fn(e)
		}
		claim := e.Stated()
		claimed := place{claim.Topic, claim.Partition, claim.Offset}
		ref, known := t.walk.at[claimed]
		if !known || ref.node != t.node || t.walk.copies[t.node][ref.number].document != e.Record {
			ref, known = t.walk.letters[here]
		}
		if list := t.walk.of[t.node][e.Record]; (!known || ref.node != t.node) && len(list) > 0 {
			ref = copyRef{t.node, list[len(list)-1]}
		} else if !known || ref.node != t.node {
			return nil // of a document that never reached this node: graph-conservation reports it
		}
		e.Record = ref.number
		return t.fn(e)
	}
	return nil
}
