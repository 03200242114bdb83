package run

import (
	"sync/atomic"

	"github.com/dlqbench/dlqbench/history"
)

// What is kept of a record for the live view.
const (
	recordRetrying  uint32 = 1 << iota // it failed, and is neither finished nor dead-lettered yet
	recordSucceeded                    // at least once
	recordRepeated                     // it succeeded again
)

const (
	bitsPerRecord  = 4
	recordsPerWord = 32 / bitsPerRecord
)

// recordStates keeps a few bits for each record, half a byte, so that the path of the events takes no lock. What
// belongs to no record of the run shares one place. In a graph each node has records of its own.
type recordStates struct {
	header  *history.Header
	records int
	words   []uint32
	// retrying is how many have recordRetrying.
	retrying atomic.Int64
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

// known reports whether the event is about a record of the run, as the entry of a graph has it.
func (r *recordStates) known(event *history.Event) bool {
	return event.Record >= 0 && int(event.Record) < r.records && r.node(event.Instance) == 0
}

// node is the index of the node that the instance belongs to, 0 where the subject is no graph.
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

// succeed notes a success: whether it is the record's first, and whether it is its second.
func (r *recordStates) succeed(event *history.Event) (first, second bool) {
	if event.Record < 0 {
		return false, false
	}
	if r.set(event, recordSucceeded) {
		return true, false
	}
	return false, r.set(event, recordRepeated)
}

// fail notes that the record waits for its next attempt, or for its dead letter.
func (r *recordStates) fail(event *history.Event) {
	if r.set(event, recordRetrying) {
		r.retrying.Add(1)
	}
}

// settle notes that the record does not wait any more.
func (r *recordStates) settle(event *history.Event) {
	word, shift := r.place(event)
	// Most records never fail: a look is cheaper than a change.
	if atomic.LoadUint32(&r.words[word])&(recordRetrying<<shift) == 0 {
		return
	}
	if atomic.AndUint32(&r.words[word], ^(recordRetrying<<shift))&(recordRetrying<<shift) != 0 {
		r.retrying.Add(-1)
	}
}
