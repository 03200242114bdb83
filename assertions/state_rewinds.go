package assertions

// State: a process that goes back in a partition that it has. A commit that failed, or of whose success the process
// doesn't know, and a transaction that was aborted, lose it the place that it had reached: it may begin again at its
// last commit. That it does so shows when it fetches again what it was handed before. Then all that it had in hand is
// delivered once more, and counts that it keeps in memory may begin anew, or go on. Each failure justifies that once:
// whoever goes back for no reason goes on counting.

import "math"

// rewinds is what concerns going back in a partition; its holder's, since it has the partition.
type rewinds struct {
	// reached is the last offset that it was handed, position the last one since it went back; from how far it has gone
	// back. They are none if it was not.
	reached, position, from int64
	// lost is none unless something failed since it last went back: then what lies below it is excused already.
	lost int64
}

func noRewinds() rewinds { return rewinds{reached: none, position: none, from: none, lost: none} }

// excusesAll is the offset of a failure that excuses all that its process has in hand.
const excusesAll = math.MaxInt64

// hand notes what the holder is handed.
func (p *partition) hand(by holder, to int64) {
	if p.has && p.held == by {
		p.reached, p.position = max(p.reached, to), max(p.position, to)
	}
}

// lose notes that something failed which makes the holder lose its place, and excuses all below the offset.
func (p *partition) lose(by holder, offset int64) {
	if p.has && p.held == by {
		p.lost = max(p.lost, offset)
	}
}

// loseHeld notes that the process loses its place in all that it has, which is excused.
func (w *state) loseHeld(by holder) {
	for topic := range w.parts {
		for i := range w.parts[topic] {
			w.parts[topic][i].lose(by, excusesAll)
		}
	}
}

// goBack notes that the process is handed again what it has had, if something justifies that. It may be handed the rest
// of it only after something else has failed: that is no further return, which is still to come.
func (w *state) goBack(p *partition, by holder, to int64) {
	if !p.has || p.held != by || to > p.position {
		return
	}
	p.position = to - 1
	for _, c := range w.commits {
		if c.partition == p && c.by == by && c.epoch == p.epoch && !c.spent {
			c.spent = true // the process may have given up on its answer
			p.lost = max(p.lost, c.offset)
		}
	}
	if p.lost == none {
		return
	}
	w.excuseHanded(p, max(p.lost, to))
	p.delivery++
	p.from, p.lost = p.reached, none
}

// excuseHanded justifies another delivery of what the holder was handed from the offset on.
func (w *state) excuseHanded(p *partition, from int64) {
	known := p.log.first >= 0 && p.log.first <= from && p.reached <= p.log.last
	for offset := from; known && offset <= p.reached; offset++ {
		known = p.log.at(offset) != none
	}
	if from <= p.reached && !known {
		w.disturb(p) // of some it is not known yet which records they are
		return
	}
	for offset := from; offset <= p.reached; offset++ {
		r := w.records.at(int(p.log.at(offset)))
		r.excuses = bump(r.excuses)
	}
}

// wentBackFrom reports whether the holder had the place in hand when it went back.
func (p *partition) wentBackFrom(at place) bool {
	return at.topic == p.topic && at.partition == p.number() && at.offset >= 0 && at.offset <= p.from
}
