package assertions

import (
	"slices"
	"sort"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// handouts are the fetches of a process from a partition that reached beyond all before them, in order.
type handouts struct {
	list []handout
	// forgotten is the highest offset whose fetch is no longer kept, or none.
	forgotten int64
}

// handout is a fetch: its last offset, and when it was passed on.
type handout struct {
	last int64
	at   time.Duration
}

// handoutsLimit is the largest number of fetches kept of a process and a partition.
const handoutsLimit = 1024

func (p *partition) handsOf(by holder) *handouts {
	h := p.hands[by]
	if h == nil {
		if p.hands == nil {
			p.hands = map[holder]*handouts{}
		}
		h = &handouts{forgotten: none}
		p.hands[by] = h
	}
	return h
}

func (h *handouts) add(last int64, at time.Duration) {
	n := len(h.list)
	if n > 0 && last <= h.list[n-1].last {
		return
	}
	if n == handoutsLimit {
		h.forgotten = h.list[n/2-1].last
		h.list = slices.Delete(h.list, 0, n/2)
	}
	h.list = append(h.list, handout{last, at})
}

// first returns when the process can have had the offset first, or false if that is not known.
func (h *handouts) first(offset int64) (at time.Duration, known bool) {
	if h == nil || offset <= h.forgotten {
		return 0, false
	}
	i := sort.Search(len(h.list), func(i int) bool { return h.list[i].last >= offset })
	if i == len(h.list) {
		return 0, false
	}
	return h.list[i].at, true
}

// until returns the highest offset that the process was handed by the time, as far as that is known.
func (h *handouts) until(at time.Duration) int64 {
	i := sort.Search(len(h.list), func(i int) bool { return h.list[i].at > at })
	if i == 0 {
		return h.forgotten
	}
	return h.list[i-1].last
}

// heldBefore reports whether the process that has the partition may have been handed the record before it lost the
// partition and got it back: an attempt may then belong to that delivery.
func (w *state) heldBefore(p *partition, number int32, r *record) bool {
	if p == nil || !p.regained {
		return false
	}
	at := w.position(number, r)
	handed, known := p.hands[p.held].first(at.offset)
	return !known || handed < p.since || at.topic != p.topic || at.partition != p.number()
}

// triesAlone reports whether the process that requests the dead letter must have made all attempts by itself that the
// contract promises, and in this life of the record.
func (w *state) triesAlone(one *write) bool { return w.ownAlone(w.record(one.record)) }

// ownAlone reports whether only the attempts of one process count for the record: it counts them in memory, no copy
// carries a count, and a call of another downstream can't end the record.
func (w *state) ownAlone(r *record) bool {
	return w.memory && !w.hops && !w.share && r.lives == 0 && !r.several() && len(w.header.Downstreams) == 0
}

// triedSince returns the time before which no attempt can have counted for the dead letter: when the process that
// requests it was handed the record first, or its turn came after the record before it, whichever was later. It is when
// the record was sent, if neither is known, or if other attempts than those of the process may count.
func (w *state) triedSince(one *write) time.Duration {
	r := w.record(one.record)
	since := r.born.At()
	if r.offset.at() == none || !w.triesAlone(one) || one.attempts > 0 && !one.whole {
		return since
	}
	if p := w.partition(r.topic, r.partition); p != nil {
		if at, known := p.hands[one.by].first(r.offset.at()); known {
			since = max(since, at)
		}
	}
	return max(since, w.turn(r))
}

// turn returns when the record before this one was finished first, where the contract promises that the first attempt
// comes after that; never if it is not known. Attempts and dead letters in transactions need not wait for one another.
func (w *state) turn(r *record) time.Duration {
	ordered := w.contract.Ordering == history.OrderingKey || w.contract.Ordering == history.OrderingPartition
	number := w.predecessor(r)
	b := w.record(number)
	if b == nil || !ordered || w.contract.OrderOfAttempts || len(w.txns) > 0 || !sameLog(b, r) ||
		w.unknowable(number, b, b.attempts, endless) != "" {
		return never
	}
	return w.firstTerminal(b)
}
