package naive

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const (
	isolates = "isolation"
	// shortest is the shortest backoff that is looked at, together within what time records start that were let go
	// together, settled how long after a change of its assignment a process is left alone, and enough how many of each
	// it takes to blame someone.
	shortest = 40 * time.Millisecond
	together = 5 * time.Millisecond
	settled  = time.Second
	enough   = 16
	// underWay is from when on an attempt may be what others wait for.
	underWay = 10 * time.Millisecond
)

// try is one attempt, as isolation sees it.
type try struct {
	record     *trace
	nth        int // of its record, from 0
	start, end time.Duration
	outcome    history.Outcome
	instance   int16
	since      time.Duration // of a first attempt: since when the record waited in the hands of its process
	backsOff   bool          // it failed and is to be tried again
	next       time.Duration // when that was
}

// isolation: "while some records fail and back off, the others keep a stated share of the fault-free rate". Asked of
// each backoff: was one of those that waited all through its middle half started in it?
func (j *judge) isolation() {
	c := j.header.Contract()
	if c.Isolation <= 0 || c.MaxAttempts == 0 || !c.HasDLQ() || c.Ordering != history.OrderingNone ||
		c.Retry != history.RetryInPlace ||
		len(j.header.Faults) > 0 || j.header.Replay || j.frozen() {
		return
	}
	tries, plain := j.tries()
	if !plain || !j.fetchedInOrder() {
		return
	}
	for number := range int32(j.header.Records) {
		j.decide(OfRecord(isolates, number))
	}
	for _, ofPartition := range []bool{false, true} {
		if held, over := j.heldUp(tries, ofPartition); over {
			for _, a := range held {
				j.saw(isolates, "head-of-line-blocked", a.record.record)
			}
			return
		}
	}
}

// fetchedInOrder: nothing was handed out twice, nor out of order.
func (j *judge) fetchedInOrder() bool {
	for i := range j.events {
		e := &j.events[i]
		if e.Kind == history.KindFetched && slices.ContainsFunc(j.events[:i], func(o history.Event) bool {
			return o.Kind == history.KindFetched && o.Topic == e.Topic && o.Partition == e.Partition && o.Aux >= e.Offset
		}) {
			return false
		}
	}
	return true
}

// tries lists the attempts in the order in which they began; plain is false where what happened is not clear.
func (j *judge) tries() (all []*try, plain bool) {
	for number := range int32(j.header.Records) {
		s := j.trace(number)
		if s == nil || s.astray > 0 {
			return nil, false
		}
		for i := range s.attempts {
			a := &s.attempts[i]
			if a.end < 0 || i > 0 && s.attempts[i-1].end > a.start {
				return nil, false
			}
			one := &try{record: s, nth: i, start: a.start, end: a.end, outcome: a.outcome}
			if i+1 < len(s.attempts) {
				one.next = s.attempts[i+1].start
			}
			one.backsOff = j.retryable(a.outcome) && i+1 < j.header.Contract().MaxAttempts
			if one.backsOff != (one.next > 0) || len(s.letters) > 0 && s.letters[0].ask.Time < a.start {
				return nil, false // not as often as promised: whether it still backs off is not clear
			}
			all = append(all, one)
		}
	}
	for _, a := range all {
		if j.hands(a); a.since == forever {
			return nil, false
		}
	}
	slices.SortStableFunc(all, func(a, b *try) int { return int(a.start - b.start) })
	return all, true
}

// hands notes who made the attempt and since when its record had been in its hands.
func (j *judge) hands(a *try) {
	a.since = forever
	for i := range j.events {
		e := &j.events[i]
		switch {
		case e.Kind == history.KindAttemptStart && e.Record == a.record.number && e.Time == a.start:
			a.instance = e.Instance
		case e.Kind == history.KindFetched && e.Topic == a.record.topic && e.Partition == a.record.partition &&
			e.Time <= a.start:
			if e.Offset <= a.record.offset && e.Aux >= a.record.offset {
				a.since = max(e.Time, a.record.send.Time)
			}
		}
	}
}

// beside: it belongs to what is asked about: the process of the other, or the partition of its record.
func (a *try) beside(other *try, ofPartition bool) bool {
	if ofPartition {
		return a.record.partition == other.record.partition && a.record.topic == other.record.topic
	}
	return a.instance == other.instance
}

// heldUp returns the backoffs that held others up, and whether they are more than is promised.
func (j *judge) heldUp(tries []*try, ofPartition bool) (held []*try, over bool) {
	flowing := 0
	for _, a := range tries {
		if !a.backsOff || a.next-a.end < shortest || j.reassigned(a.instance, a.end-settled, a.next) {
			continue
		}
		switch j.middle(tries, a, ofPartition) {
		case started:
			flowing++
		case waited:
			if !j.reassigned(a.instance, a.end-settled, a.next+settled) && !occupied(tries, a, ofPartition) {
				held = append(held, a)
			}
		}
	}
	n := flowing + len(held)
	if n > 0 {
		j.judged(isolates)
	}
	count, free := j.freeShare(tries, ofPartition)
	went := float64(flowing) / float64(max(n, 1))
	promised := j.header.Contract().Isolation
	return held, n >= enough && count >= enough && free >= 0.5 && went < promised*free
}

// What became of those that could have been started in the middle half of a backoff.
const (
	nothing = iota
	started
	waited
)

// middle: one was started in it; or none was, and the next that was had waited all through it; or nobody waited.
func (j *judge) middle(tries []*try, a *try, ofPartition bool) int {
	quarter := (a.next - a.end) / 4
	from, to := a.end+quarter, a.next-quarter
	next := time.Duration(-1)
	for _, one := range tries {
		if one.nth > 0 || !one.beside(a, ofPartition) {
			continue
		}
		if one.start >= to && (next < 0 || one.start < next) {
			next = one.start
		}
	}
	if next < 0 {
		return nothing
	}
	longest := forever
	for _, one := range tries {
		if one.nth > 0 || !one.beside(a, ofPartition) {
			continue
		}
		if one.start > from && one.start < to {
			return started
		}
		if one.start >= next && one.start <= next+together {
			longest = min(longest, one.since)
		}
	}
	if longest <= from {
		return waited
	}
	return nothing
}

// occupied: for most of the middle half an attempt was under way that others may have waited for.
func occupied(tries []*try, a *try, ofPartition bool) bool {
	quarter := (a.next - a.end) / 4
	from, to := a.end+quarter, a.next-quarter
	busy := time.Duration(0)
	for at := from; at < to; at += time.Millisecond {
		if slices.ContainsFunc(tries, func(one *try) bool {
			return one.beside(a, ofPartition) && one.end-one.start >= underWay && one.start <= at && one.end > at
		}) {
			busy += time.Millisecond
		}
	}
	return busy > quarter
}

// reassigned: the process was given or lost something in the stretch.
func (j *judge) reassigned(instance int16, from, to time.Duration) bool {
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		return (e.Kind == history.KindAssigned || e.Kind == history.KindRevoked) && e.Instance == instance &&
			e.Time >= from && e.Time <= to
	})
}

// freeShare: "of the time that records wait for their first attempt, with none started meanwhile, while nothing of
// their process (or of their partition) backs off", the share that lies in waits of less than half of the first
// backoff, and how many waits there were.
func (j *judge) freeShare(tries []*try, ofPartition bool) (count int, share float64) {
	prompt := max(j.header.Contract().Backoff.Wait(1), shortest) / 2
	waiting, slow := time.Duration(0), time.Duration(0)
	for i, a := range tries {
		if a.nth > 0 {
			continue
		}
		from, before, open := a.since, false, false
		for k, one := range tries {
			if !one.beside(a, ofPartition) {
				continue
			}
			if one.nth == 0 && k < i {
				before = true
				from = max(from, one.start)
			}
			if one.backsOff && one.next <= a.start {
				from = max(from, one.next)
			}
			open = open || one.backsOff && one.end <= a.start && one.next > a.start
		}
		if !before || open || from >= a.start || j.reassigned(a.instance, from-settled, a.start) {
			continue
		}
		count++
		waiting += a.start - from
		if a.start-from >= prompt {
			slow += a.start - from
		}
	}
	return count, 1 - float64(slow)/float64(max(waiting, 1))
}

const (
	// jitterGaps is how many waits it takes to say that they are not jittered.
	jitterGaps = 200
	jitterRoom = 32
)

// jitter: "promised jitter, none seen: statistical, needs ≥ 200 gaps": half of the waits lie within an eighth of what
// is promised.
func (j *judge) jitter(records map[int32]*record) {
	b := j.header.Contract().Backoff
	if b.Initial <= 0 || b.Jitter < 5*time.Millisecond {
		return
	}
	var above []time.Duration
	for number := range int32(j.header.Records) {
		r := records[number]
		if r == nil {
			if j.count(history.KindAttemptStart, number) > 1 {
				return
			}
			continue
		}
		for i, k := range j.series(r) {
			if k == 1 || !j.retryable(r.attempts[i-1].outcome) {
				continue
			}
			switch r.attempts[i-1].outcome {
			case history.OutcomeTimeout, history.OutcomeReset, history.OutcomeRateLimited:
				return
			}
			g := gapBefore(j.header.Contract(), &r.attempts[i], &r.attempts[i-1], k-1)
			if g.shortest >= g.least-precision && g.longest <= g.most {
				above = append(above, max(g.longest-g.least, 0))
			}
		}
	}
	run := OfPartition("backoff", history.None, history.None)
	slices.Sort(above)
	width := time.Duration(0)
	if n := len(above); n > 3 {
		width = above[3*n/4] - above[n/4]
	}
	switch {
	case len(above) >= jitterGaps && width > b.Jitter/8-b.Jitter/jitterRoom && width < b.Jitter/8+b.Jitter/jitterRoom:
		return // too near to call
	case len(above) >= jitterGaps && width < b.Jitter/8:
		j.opinion.Found[Finding{run, "no-jitter"}] = true
	}
	j.decide(run)
	j.judged("backoff")
}

// usual: where Late is a default, more than half of the waits after the k-th attempt are longer than promised, by more
// than half of the wait and by more than what is usual anyway. Only where nothing can have been in the way of any.
func (j *judge) usual(records map[int32]*record) {
	b := j.header.Contract().Backoff
	if b.Initial <= 0 || b.Usual <= 0 {
		return
	}
	run := OfPartition("backoff", history.None, history.None)
	if !j.opinion.Decided[run] {
		j.opinion.Open[Finding{run, "no-jitter"}] = true
		j.decide(run)
	}
	all, long := map[int]int{}, map[int]int{}
	for number := range int32(j.header.Records) {
		r := records[number]
		if r == nil && j.count(history.KindAttemptStart, number) > 1 || r != nil && (j.fetchedAgain(r) || j.changedHands()) {
			j.opinion.Open[Finding{run, "backoff-late"}] = true
			return
		}
		if r == nil {
			continue
		}
		for i, k := range j.series(r) {
			if k == 1 || i >= k || r.attempts[i-1].outcome != history.OutcomeTransient ||
				!j.retryable(history.OutcomeTransient) {
				continue
			}
			g := gapBefore(j.header.Contract(), &r.attempts[i], &r.attempts[i-1], k-1)
			if g.shortest < g.least-precision || g.longest > g.most {
				continue
			}
			all[k]++
			if g.longest > g.least+b.Jitter+max(b.Usual, g.least/2) {
				long[k]++
			}
		}
	}
	for k := range all {
		if all[k] >= usualGaps && long[k]*2 > all[k] {
			j.opinion.Found[Finding{run, "backoff-late"}] = true
		}
	}
}

const usualGaps = 20

// fetchedAgain: the record's partition was fetched from further back than it had been.
func (j *judge) fetchedAgain(r *record) bool {
	last := int64(-1)
	for i := range j.events {
		if e := &j.events[i]; e.Kind == history.KindFetched && e.Topic == r.topic && e.Partition == r.partition {
			if e.Offset <= last {
				return true
			}
			last = max(last, e.Aux)
		}
	}
	return false
}

// changedHands: a partition was taken from somebody.
func (j *judge) changedHands() bool {
	return slices.ContainsFunc(j.events, func(e history.Event) bool { return e.Kind == history.KindRevoked })
}
