package run

import (
	"sync/atomic"

	"github.com/dlqbench/dlqbench/history"
)

// The state of a record that the live view keeps.
const (
	recordRetrying  uint32 = 1 << iota // it failed, and is neither finished nor dead-lettered yet
	recordSucceeded                    // at least once
	recordRepeated                     // it succeeded again
	recordEnded                        // finished or dead-lettered at its last place; noted where no commit shows it
	recordSkipped                      // not processed, by contract (history.Contract.Skips)
	recordEndless                      // its attempts do not count as movement (history.Contract.Endless)
)

const (
	bitsPerRecord  = 8
	recordsPerWord = 32 / bitsPerRecord
)

// recordStates keeps a few bits for each record, so that events take no lock. Events that belong to no record of the
// run share one place. In a graph each node has its own records.
type recordStates struct {
	header  *history.Header
	records int
	words   []uint32
	// retrying is the number of records with recordRetrying. open, where no commit shows it, is the number of places of
	// records in the input that have not come to their ends.
	retrying, open atomic.Int64
}

func newRecordStates(header *history.Header) *recordStates {
	nodes := 1
	if header.Graph != nil {
		nodes = len(header.Consumers)
	}
	places := nodes*header.Records + 1
	return &recordStates{header: header, records: header.Records,
		words: make([]uint32, (places+recordsPerWord-1)/recordsPerWord)}
}

// known reports whether the event concerns a record of the run; in a graph, at its entry.
func (r *recordStates) known(event *history.Event) bool {
	return event.Record >= 0 && int(event.Record) < r.records && r.node(event.Instance) == 0
}

// node returns the index of the node that the instance belongs to, 0 if the subject is not a graph.
func (r *recordStates) node(instance int16) int {
	if r.header.Graph == nil {
		return 0
	}
	return max(r.header.ConsumerOf(instance), 0)
}

func (r *recordStates) place(event *history.Event) (word, shift int) {
	place := r.node(event.Instance)*r.records + int(event.Record)
	if event.Record < 0 || int(event.Record) >= r.records {
		place = len(r.words)*recordsPerWord - 1
	}
	return place / recordsPerWord, place % recordsPerWord * bitsPerRecord
}

// set sets a bit of the event's record and reports whether it was not set before.
func (r *recordStates) set(event *history.Event, bit uint32) bool {
	word, shift := r.place(event)
	return atomic.OrUint32(&r.words[word], bit<<shift)&(bit<<shift) == 0
}

// clear clears a bit of the event's record and reports whether it was set before.
func (r *recordStates) clear(event *history.Event, bit uint32) bool {
	if !r.has(event, bit) {
		return false // as for most records; a read is cheaper than a write
	}
	word, shift := r.place(event)
	return atomic.AndUint32(&r.words[word], ^(bit<<shift))&(bit<<shift) != 0
}

// has reports whether a bit of the event's record is set.
func (r *recordStates) has(event *history.Event, bit uint32) bool {
	word, shift := r.place(event)
	return atomic.LoadUint32(&r.words[word])&(bit<<shift) != 0
}

// succeed notes a success and reports whether it is the record's first, and whether it is its second.
func (r *recordStates) succeed(event *history.Event) (first, second bool) {
	if event.Record < 0 {
		return false, false
	}
	if r.set(event, recordSucceeded) {
		return true, false
	}
	return false, r.set(event, recordRepeated)
}

// fail notes that the record waits for its next attempt or for its dead letter.
func (r *recordStates) fail(event *history.Event) {
	if r.set(event, recordRetrying) {
		r.retrying.Add(1)
	}
}

// sent notes a record that is sent. One that the subject skips is at its end.
func (r *recordStates) sent(event *history.Event) {
	if r.header.Contract().Skips(event.Flags) {
		r.set(event, recordSkipped|recordEnded)
	}
}

// placed notes a place of the record in the input.
func (r *recordStates) placed(event *history.Event) {
	if r.header.Contract().OffsetsOutside && !r.has(event, recordSkipped) {
		r.clear(event, recordEnded)
		r.open.Add(1)
	}
}

// settle notes that the record does not wait any more.
func (r *recordStates) settle(event *history.Event) {
	if r.header.Contract().OffsetsOutside && r.set(event, recordEnded) {
		r.open.Add(-1)
	}
	if r.clear(event, recordRetrying) {
		r.retrying.Add(-1)
	}
}
