package assertions

// State: rewinds of a process in a partition that it has. When a commit failed, or the process does not know whether it
// succeeded, or a transaction was aborted, the process may resume from its last commit. The rewind shows when the
// process fetches offsets again that it was handed before. Then all the records that it held are delivered once more,
// and counts that it keeps in memory may restart or continue. Each failure justifies one rewind: a process that rewinds
// without a reason continues its counts. One that halts at a record that it can't read may rewind as often as it meets
// the record, and one that keeps its offsets outside Kafka at any time: whether it could store one is not seen.

import "math"

// rewinds is the rewind state of a partition's present holder, since it has the partition.
type rewinds struct {
	// reached is the last offset that it was handed, position the last one since it rewound, from the offset from which
	// it rewound. They are none if it was not handed any offset, or did not rewind.
	reached, position, from int64
	// lost is none unless something failed since the last rewind. Then everything below it is excused already.
	lost int64
}

func noRewinds() rewinds { return rewinds{reached: none, position: none, from: none, lost: none} }

// excusesAll is the offset of a failure that excuses everything its process holds.
const excusesAll = math.MaxInt64

// hand notes the offsets handed to the holder.
func (p *partition) hand(by holder, to int64) {
	if p.has && p.held == by {
		p.reached, p.position = max(p.reached, to), max(p.position, to)
	}
}

// lose notes a failure that makes the holder lose its place, and excuses everything below the offset.
func (p *partition) lose(by holder, offset int64) {
	if p.has && p.held == by {
		p.lost = max(p.lost, offset)
	}
}

// loseHeld notes that the process loses its place in all partitions that it has, and excuses it.
func (w *state) loseHeld(by holder) {
	for topic := range w.parts {
		for i := range w.parts[topic] {
			w.parts[topic][i].lose(by, excusesAll)
		}
	}
}

// goBack notes that the process is handed records again, if something justifies that. It may be handed the rest of them
// only after another failure. That is part of the same rewind, and the second failure still justifies one more.
func (w *state) goBack(p *partition, by holder, to int64) {
	if !p.has || p.held != by || to > p.position {
		return
	}
	p.position = to - 1
	p.rewound++
	from := max(p.lost, to)
	for _, c := range w.commits {
		if c.partition == p && c.by == by && c.epoch == p.epoch && !c.spent {
			c.spent = true // the process may no longer wait for its answer
			p.lost = max(p.lost, c.offset)
			from = to // without an answer, nothing below its offset is excused so far
		}
	}
	if p.lost == none { // nothing else explains it
		w.giveUp(by)
		from = max(p.lost, to)
	}
	if p.lost == none && !w.met(by) {
		if !w.contract.OffsetsOutside {
			return
		}
		w.wentBack = true
	}
	if p.lost == excusesAll {
		w.excuseBegun(p, to)
	}
	w.excuseHanded(p, from)
	p.delivery++
	p.from, p.lost = p.reached, none
}

// excuseHanded justifies another delivery of the records handed to the holder from the offset on.
func (w *state) excuseHanded(p *partition, from int64) {
	known := p.log.first >= 0 && p.log.first <= from && p.reached <= p.log.last
	for offset := from; known && offset <= p.reached; offset++ {
		known = p.log.at(offset) != none
	}
	if from <= p.reached && !known {
		w.disturb(p) // the records at some of the offsets are not known yet
		return
	}
	for offset := from; offset <= p.reached; offset++ {
		r := w.records.at(int(p.log.at(offset)))
		r.excuses = bump(r.excuses)
	}
}

// excuseBegun justifies another delivery of the records from the offset on that the holder began after the failure that
// excused everything that it had begun: it loses its place only when it has heard of that failure.
func (w *state) excuseBegun(p *partition, from int64) {
	for offset := max(from, p.log.first, 0); offset <= min(p.reached, p.log.last); offset++ {
		number := p.log.at(offset)
		if number == none {
			w.disturb(p) // it is not known which record this is
			return
		}
		if r := w.records.at(int(number)); r.has(markSeen) && r.disturbedFrom.until(w.disturbed(p)) == 0 {
			r.excuses = bump(r.excuses)
		}
	}
}

// wentBackFrom reports whether the holder held the place when it rewound.
func (p *partition) wentBackFrom(at place) bool {
	return at.topic == p.topic && at.partition == p.number() && at.offset >= 0 && at.offset <= p.from
}
