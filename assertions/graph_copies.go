package assertions

// The copies of documents in the input topics of a graph's nodes. Each write to an input topic, by the workload, by a
// preceding node or by the replay tool, makes a copy. A copy is to the node that reads it what a record is to an
// ordinary consumer: it is fetched, attempted and committed by itself. So a node's history is expressed in copies. The
// copy of an attempt is certain, because an attempt names topic, partition and offset.

import (
	"cmp"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// copyRef identifies a copy: the node whose input holds it, and its number there.
type copyRef struct {
	node   int
	number int32
}

// docCopy is a copy of a document. It has no offset if the workload's write was not acknowledged and no audit found it.
type docCopy struct {
	document int32
	place
	sent time.Duration
	// keyless: it lies after copies that were sent later, so the times imply no order.
	keyless bool
	// stored: a broker acknowledged it. (For the workload's copies, the Acked event says so.)
	stored bool
	// reprocessed is the number of replays of the document before the copy was made, none if unknown.
	reprocessed int
	passage
}

// writeID identifies a write by its producer's numbers: the repeat of an idempotent producer has the same one.
type writeID struct {
	document, partition, sequence int32
	topic, epoch                  int16
	producer                      int64
}

// graphIndex is the result of the first walk through a graph's history: the documents and all their copies.
type graphIndex struct {
	header *history.Header
	// documents holds their Send events.
	documents []history.Event
	copies    [][]docCopy
	at        map[place]copyRef
	// byWrite maps writes to the copies that they made.
	byWrite map[writeKey]copyRef
	// offsets holds the offsets of the copies in each partition, ascending.
	offsets map[placeOf][]int64
	// of holds the copies of a document at each node.
	of []map[int32][]int32
	// letterAt holds the places of dead letters, by the request for each, and claims the source position that each
	// states for its document.
	letterAt map[writeKey]place
	claims   map[place]place

	entry map[int32]place // the places of the workload's acknowledged documents
	found map[place]*foundCopy
	asked map[writeKey]*history.Event
	same  map[writeID]place
	tries map[writeID][]writeKey      // the requests for a write that have no answer so far
	lost  map[writeKey]*history.Event // unanswered writes without a place so far
}

// foundCopy is a copy as the walk finds it.
type foundCopy struct {
	document int32
	sent     time.Duration
	writes   []writeKey
	stored   bool
}

func newGraphIndex(header *history.Header) *graphIndex {
	x := &graphIndex{
		header: header, documents: make([]history.Event, header.Records),
		copies: make([][]docCopy, len(header.Consumers)),
		at:     map[place]copyRef{}, byWrite: map[writeKey]copyRef{}, entry: map[int32]place{}, found: map[place]*foundCopy{},
		asked: map[writeKey]*history.Event{}, same: map[writeID]place{}, tries: map[writeID][]writeKey{},
		lost:    map[writeKey]*history.Event{},
		offsets: map[placeOf][]int64{}, letterAt: map[writeKey]place{}, claims: map[place]place{},
	}
	for range header.Consumers {
		x.of = append(x.of, map[int32][]int32{})
	}
	return x
}

func (x *graphIndex) take(e *history.Event) error {
	if e.Record < 0 || int(e.Record) >= len(x.documents) {
		return nil
	}
	at := place{e.Topic, e.Partition, e.Offset}
	key := writeKey{e.Op, e.Record}
	reader := x.header.ReaderOf(e.Topic)
	switch e.Kind {
	case history.KindSend:
		x.documents[e.Record] = *e
	case history.KindAcked:
		if e.Code == 0 && reader == 0 {
			x.entry[e.Record] = at
		}
	case history.KindProduceRequest:
		if reader >= 0 {
			asked := *e
			x.asked[key], x.lost[key] = &asked, &asked
			if id, numbered := idOf(e); numbered {
				x.tries[id] = append(x.tries[id], key)
			}
		}
	case history.KindProduceResponse:
		if asked := x.asked[key]; asked != nil && e.Code == 0 && !e.Flags.Has(history.Forged) {
			x.stored(key, asked, at)
		} else if reader < 0 && e.Code == 0 && e.Offset >= 0 && !e.Flags.Has(history.Forged) {
			x.letterAt[key] = at
		}
	case history.KindAuditRecord:
		if reader >= 0 {
			x.audited(e.Record, at)
		} else if e.Claim != nil {
			x.claims[at] = place{e.Claim.Topic, e.Claim.Partition, e.Claim.Offset}
		}
	}
	return nil
}

// idOf returns the write that the event requests, and whether its producer numbers its writes.
func idOf(e *history.Event) (id writeID, numbered bool) {
	return writeID{e.Record, e.Partition, e.Sequence, e.Topic, e.ProducerEpoch, e.ProducerID},
		e.ProducerID >= 0 && e.Sequence >= 0
}

// stored notes the place of a write. A repeat of it may be answered without an offset, and the first request may have
// no answer at all.
func (x *graphIndex) stored(key writeKey, asked *history.Event, at place) {
	id, numbered := idOf(asked)
	if known, repeat := x.same[id]; repeat && numbered {
		at = known
	}
	if at.offset < 0 || x.header.ReaderOf(at.topic) < 0 {
		return
	}
	if numbered {
		x.same[id] = at
	}
	x.add(at, asked.Record, asked.Time, key)
	x.found[at].stored = true
	for _, earlier := range x.tries[id] {
		if one := x.lost[earlier]; one != nil && earlier != key {
			x.add(at, one.Record, one.Time, earlier)
		}
	}
	delete(x.tries, id)
}

func (x *graphIndex) add(at place, document int32, sent time.Duration, key writeKey) {
	one := x.found[at]
	if one == nil {
		one = &foundCopy{document: document, sent: sent}
		x.found[at] = one
	}
	one.sent = min(one.sent, sent)
	one.writes = append(one.writes, key)
	delete(x.lost, key)
}

// audited notes a copy that an audit found. A copy that no answer reported was made by an unanswered write.
func (x *graphIndex) audited(document int32, at place) {
	entry, acked := x.entry[document]
	if x.found[at] != nil || acked && entry == at {
		return
	}
	if !acked && x.header.Consumers[0].Input == at.topic {
		x.entry[document] = at
		return
	}
	sent := x.documents[document].Time
	var writes []writeKey
	for key, asked := range x.lost {
		if asked.Record == document && asked.Topic == at.topic {
			writes = append(writes, key)
		}
	}
	slices.SortFunc(writes, func(a, b writeKey) int { return cmp.Compare(x.lost[a].Time, x.lost[b].Time) })
	if len(writes) > 0 {
		sent = x.lost[writes[0]].Time
	}
	x.found[at] = &foundCopy{document: document, sent: sent, writes: writes[:min(len(writes), 1)]}
	for _, key := range x.found[at].writes {
		delete(x.lost, key)
	}
}

// finish numbers the copies of each node in the order in which they were sent. The workload's copies come first and
// have their documents' numbers.
func (x *graphIndex) finish() {
	for number := range x.documents {
		at, known := x.entry[int32(number)]
		if !known {
			at = place{x.header.Consumers[0].Input, x.documents[number].Partition, none}
		}
		x.put(0, docCopy{document: int32(number), place: at, sent: x.documents[number].Time})
	}
	places := make([]place, 0, len(x.found))
	for at := range x.found {
		places = append(places, at)
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(x.found[a].sent, x.found[b].sent), cmp.Compare(a.partition, b.partition),
			cmp.Compare(a.offset, b.offset))
	})
	for _, at := range places {
		one := x.found[at]
		ref := x.put(x.header.ReaderOf(at.topic), docCopy{document: one.document, place: at, sent: one.sent,
			stored: one.stored, reprocessed: none})
		for _, key := range one.writes {
			x.byWrite[key] = ref
		}
	}
	for node := range x.copies {
		x.distrust(node)
	}
	for _, offsets := range x.offsets {
		slices.Sort(offsets)
	}
	x.entry, x.found, x.asked, x.same, x.tries, x.lost = nil, nil, nil, nil, nil, nil
}

func (x *graphIndex) put(node int, one docCopy) copyRef {
	one.passage = newPassage()
	number := int32(len(x.copies[node]))
	x.copies[node] = append(x.copies[node], one)
	x.of[node][one.document] = append(x.of[node][one.document], number)
	ref := copyRef{node, number}
	if one.offset >= 0 {
		x.at[one.place] = ref
		p := placeOf{one.topic, one.partition}
		x.offsets[p] = append(x.offsets[p], one.offset)
	}
	return ref
}

// distrust finds the copies that lie in a partition after copies that were sent later: their write took long and was
// overtaken. No order was promised between the two.
func (x *graphIndex) distrust(node int) {
	list := x.copies[node]
	order := make([]int, 0, len(list))
	for i := range list {
		if list[i].offset >= 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(list[a].partition, list[b].partition), cmp.Compare(list[a].offset, list[b].offset))
	})
	latest, partition := never, int32(none)
	for _, i := range order {
		if list[i].partition != partition {
			latest, partition = never, list[i].partition
		}
		list[i].keyless = latest != never && list[i].sent < latest
		latest = max(latest, list[i].sent)
	}
}

// copyAt returns the copy at the place or, if the place is unknown, the latest copy of the document at the node.
func (x *graphIndex) copyAt(node int, document int32, at place) (copyRef, bool) {
	if ref, known := x.at[at]; known && ref.node == node && x.copies[node][ref.number].document == document {
		return ref, true
	}
	if list := x.of[node][document]; at.offset < 0 && len(list) > 0 {
		return copyRef{node, list[len(list)-1]}, true
	}
	return copyRef{}, false
}
