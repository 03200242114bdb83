package assertions

// State: where a subject has stopped that halts at records it can't read (poison: halt). The contract leaves open how
// it stops, and each of these is right:
//
//	it pauses the partition               the others go on
//	its loop fails at the record again    nothing else of the process goes on, either
//	its thread or client ends             its process lives on without a group, or joins it again
//	its process ends                      a supervisor starts it again, and it meets the record again
//
// So there are three bounds of what it owes. A partition halts at its first unreadable record that a process was
// handed: what lies behind it is held, and not lost. A process that has met such a record need not go on with its other
// partitions. Once such a process has ended by itself, or one of its clients has left the group or was made anew
// (Kafka Streams replaces a thread without leaving), nothing more is owed at all, because its partitions go to the
// other processes, which stop in the same way, before or after anything else. What is held must
// not be committed. Nothing ends the unreadable record itself, a dead letter neither (see done).

import (
	"math"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// halting is what is known about unreadable records of a partition, under a contract by which the subject halts at
// them.
type halting struct {
	// unreadable is the first offset known to hold one, or none. unplaced is the number of those that were sent to the
	// partition and whose offsets are not known.
	unreadable int64
	unplaced   int
	// stopped: when the drain ended it was held by a process that had met one in another partition.
	stopped bool
}

// halts reports whether the contract says that the subject halts at records that it can't read.
func (w *state) halts() bool { return w.contract.Poison == history.PoisonHalt }

// sendUnreadable notes that an unreadable record was sent to the partition.
func (w *state) sendUnreadable(r *record) {
	if p := w.partition(r.topic, r.partition); p != nil && w.contract.Halts(r.kind()) {
		p.unplaced++
	}
}

// placeUnreadable notes where the workload wrote an unreadable record.
func (w *state) placeUnreadable(p *partition, at place, r *record) {
	if !w.contract.Halts(r.kind()) || at != r.original() {
		return
	}
	p.unplaced--
	if p.unreadable == none || at.offset < p.unreadable {
		p.unreadable = at.offset
	}
}

// haltsAt returns the offset at which the subject halts in the partition: that of the first unreadable record, if a
// process was handed it. Otherwise it is the largest offset.
func (w *state) haltsAt(p *partition) int64 {
	if p.unreadable == none || p.unreadable > p.fetched {
		return math.MaxInt64
	}
	return p.unreadable
}

// met reports whether the process was handed an unreadable record at which it halts, as far as the offsets of such
// records are known. Where one is not known yet, it counts as handed.
func (w *state) met(by holder) bool { return w.metOutside(by, nil) }

// metOutside reports that of the partitions other than one.
func (w *state) metOutside(by holder, but *partition) bool {
	if !w.halts() {
		return false
	}
	for topic := range w.parts {
		for i := range w.parts[topic] {
			p := &w.parts[topic][i]
			to, known := p.known[by]
			if known && to != none && p != but && (p.unplaced > 0 || p.unreadable != none && p.unreadable <= to) {
				return true
			}
		}
	}
	return false
}

// breakOff notes that a process or one of its clients ended by itself, which may be because of an unreadable record.
func (w *state) breakOff(by holder, at time.Duration) {
	if w.brokenOff == never && w.met(by) {
		w.brokenOff = at
	}
}

// stopPartitions notes what had disturbed the partitions when the drain ended, and which of them were held by processes
// that had met an unreadable record in another one.
func (w *state) stopPartitions() {
	for topic := range w.parts {
		for i := range w.parts[topic] {
			p := &w.parts[topic][i]
			p.untilStop = w.disturbed(p)
			p.stopped = p.epoch > 0 && w.metOutside(p.held, p)
		}
	}
}

// held reports whether the subject need not go on to the offset, because it has halted.
func (w *state) held(p *partition, offset int64) bool {
	return p.stopped || w.brokenOff != never || offset >= w.haltsAt(p)
}

// eachHeld calls fn with each record that is left uncommitted because the subject has halted.
func (w *state) eachHeld(fn func(number int32)) {
	for number := int32(0); w.halts() && int(number) < w.records.count; number++ {
		r := w.record(number)
		at := w.position(number, r)
		if p := w.partition(at.topic, at.partition); r.has(markSent) && at.offset >= 0 && p != nil &&
			!p.committedAt(at.offset) && w.held(p, at.offset) {
			fn(number)
		}
	}
}

// heldBack is the reason why a record that is held proves nothing.
const heldBack = "the subject halted at a record that it can't read, as its contract says"
