package assertions

// isolation: while a record backs off, the records that need not wait for it proceed at the stated share of their
// fault-free pace.
//
// The checker examines one backoff of one record at a time: from the end of a failed attempt to the start of the next
// by the same process. If other records waited all through its middle half and none of them was started in it, the
// backoff held them up. If one was started, it did not:
//
//	attempt fails                                          next attempt
//	     ├──────────┼───────── middle half ─────────┼──────────┤
//	  ▲ a record is there          no record is started           ▲ it is started: held up
//
// The outer quarters are left out because the observers' stamps race with the process there. An attempt that was
// begun when the record failed reaches the downstream stub a little later, and after the backoff the stub may read
// waiting records before the next attempt. A backoff in which no record was started and none waited proves nothing.
//
// Only first attempts count as other records, and only of records that the contract's ordering allows to proceed. A
// record waits from when a fetch handed it to its process and its predecessor in the order was finished, whichever came
// last. Records that a process has not fetched are left out, because it may have other reasons to fetch slowly (a
// partition that it had paused is in the next fetch, not in the one that is under way). Clients fetch ahead, so a
// process that sleeps through a backoff holds other records. Two questions are asked of each backoff: did it hold up
// everything in the process (a poll loop that sleeps), and everything else of its own partition (a thread for each
// partition that sleeps)?
//
// The fault-free pace is measured in the same run. The measured time is the time that records wait for their first
// attempt, with none started meanwhile, while no record of their process (or of their partition, for that question)
// backs off, no fault is active and no assignment changes. The pace is the share of this time in waits of less than
// half of the first backoff: a middle half placed anywhere in that time would find a record started at least that
// often. A consumer that is slow by itself (it fetches twice a second, it works in batches, its downstream takes long)
// is equally slow in that time. So the share of backoffs that let other records proceed must be at least the promised
// share of the pace. A backoff is counted once, however many records wait, so a long wait does not count more for
// overlapping many.
//
// These backoffs are not judged: backoffs during a fault or soon after it; around a change of the process's assignment;
// and with all workers of the process busy for most of the middle half (as far as the number of workers is known). Two
// further reasons apply only where a backoff seems to have held something up: a stall that may explain it, and an
// attempt of the same process (or partition) under way for most of the middle half, because the others may have waited
// for the downstream. A process that sleeps through a backoff has no attempt under way.
//
// An anomaly needs enough backoffs and enough fault-free time. A pass does not need the fault-free share, because no
// pace exceeds 1.

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

func isolationInvariant() Invariant {
	return Invariant{
		Name:    "isolation",
		Promise: "A record in backoff does not hold up records that need not wait for it.",
		Rule: "Consider the backoffs during which another record was ready for its first attempt. The share of them " +
			"in whose middle half such a record started must be at least the promised share of the fault-free pace. The " +
			"fault-free pace is measured while nothing of the instance is in backoff and no fault is in force: it is " +
			"the share of all waiting time that lies in waits shorter than half of the first backoff. Both the whole " +
			"instance and the record's own partition are judged. Records may wait for the order that the contract " +
			"promises.",
		Evidence: "the attempts at the downstream stub; at least 16 backoffs with other records waiting and 16 " +
			"records in fault-free time of the same run, none of them during a fault, a rebalance, a stall, while all " +
			"workers were busy, or while another attempt was under way",
		Cause: "The handler sleeps through the backoff in the poll loop, or in the only thread of its partition. The " +
			"consumer seeks back to a failed record and fetches it before anything else. The thread that processes new " +
			"records also consumes the retry topic and waits for its delay.",
		Contract: "isolation: 50%, with your share",
		Scenario: "records that back off while others wait (hot-key)",
		Anomalies: []AnomalyNote{
			{"head-of-line-blocked", "a backoff held up records that need not have waited for it", []string{
				"isolation is 50%",
				"1.000 s  attempt 1 of record 7, key A, is answered transient",
				"1.010 s  instance 0 fetches record 8, key B",
				"1.100 s  attempt 2 of record 7 starts, and no other was started in between",
				"1.110 s  attempt 1 of record 8 starts",
				"the same in 58 of 60 backoffs, although without backoffs 98% of the waiting time lies in waits shorter than " +
					"50ms",
			}},
		},
		of: "backoffs",
		needs: []precondition{seesAttempts("attempts"), {
			func(w *state) bool { return w.contract.Isolation > 0 }, Unpromised,
			"the contract does not promise that records keep their pace while others back off",
		}},
		check: newIsolation,
		observes: []history.Kind{history.KindFetched, history.KindAttemptStart, history.KindAttemptEnd,
			history.KindCallEnd, history.KindAssigned, history.KindRevoked, history.KindFaultStart, history.KindFaultEnd},
	}
}

const (
	// heldLimit is the largest number of backoffs kept that held something up.
	heldLimit = 1 << 16
	// queueLimit is the largest number of undecided backoffs of a lane.
	queueLimit = 256
)

// The questions asked of a backoff.
const (
	ofProcess = iota
	ofPartition
	questions
)

type isolation struct {
	*report
	share     float64
	prompt    time.Duration // a start within this time counts as immediate
	ordered   history.Ordering
	processes []*running
	parts     [][]lane
	flowing   [questions]int64
	held      []holdUp
	free      [questions]pace
	// fetches holds the latest fetches of each partition, by topic and partition.
	fetches [][]fetches
	// working holds the times with attempts of a partition under way, by topic and partition. Those of a process are in
	// its running.
	working [][]workTime
	faults  int
	calm    time.Duration // since when no fault has an after-effect
}

// pace is the rate at which records come up for their first attempt in fault-free time.
type pace struct {
	count int64
	// waiting is the time with at least one record waiting and none started, slow the part of it in waits that were not
	// short
	waiting, slow time.Duration
}

func (p pace) share() float64 { return 1 - float64(p.slow)/float64(max(p.waiting, 1)) }

// running is the current activity of a process.
type running struct {
	lane
	run       uint16
	now, most int // attempts under way, and their maximum
	// busy is a ring of the latest intervals in which the maximum was under way; stretches counts them.
	busy      [8]stretch
	stretches int
	changed   []time.Duration
	working   workTime
}

// lane is the scope of a question about a backoff: everything in a process, or in a partition.
type lane struct {
	epoch    uint32
	began    bool
	last     time.Duration // the latest first attempt, never before the first
	silences [8]silence    // a ring of the latest silences
	count    int           // how many silences there were
	open     int           // its records that failed and are not attempted again yet
	calm     time.Duration // when the lane last had such a record
	by       *running      // the process that has the records
	queue    []wait
}

// silence is an interval without a first attempt.
type silence struct {
	from, to time.Duration
	since    time.Duration // since when the record that ended it had waited; endless if unknown
}

// wait is a backoff that is not decided yet.
type wait struct {
	number   int32
	instance int16
	from, to time.Duration
	room     bool // not all workers of the process were busy
}

// stretch is a time interval.
type stretch struct{ from, to time.Duration }

// fetches are the latest fetches of one process from a partition, by offset and therefore by time. A rewind restarts
// them.
type fetches struct {
	by   holder
	list []fetched
	// found is the position of the one that was asked for last.
	found int
}

// fetched is one fetch: the range of offsets handed over, and the time.
type fetched struct {
	first, last int64
	at          time.Duration
}

// fetchesLimit is the largest number of fetches kept of a partition.
const fetchesLimit = 4096

func (f *fetches) add(by holder, one fetched) {
	n := len(f.list)
	switch {
	case one.last < one.first:
		return // of a damaged history; the list stays in order
	case by != f.by || n > 0 && one.first <= f.list[n-1].last:
		f.by, f.list = by, f.list[:0]
	case n == fetchesLimit:
		f.list = f.list[:copy(f.list, f.list[n/2:])]
	}
	f.list = append(f.list, one)
}

// handed returns when the offset was handed to the process; false if that is unknown or no longer known.
func (f *fetches) handed(by holder, offset int64) (time.Duration, bool) {
	i := f.found // mostly it is the same, because records are begun in the order of their offsets
	if i >= len(f.list) || f.list[i].last < offset || i > 0 && f.list[i-1].last >= offset {
		i, _ = slices.BinarySearchFunc(f.list, offset, func(one fetched, offset int64) int {
			return cmp.Compare(one.last, offset)
		})
		f.found = i
	}
	if by != f.by || i == len(f.list) || f.list[i].first > offset {
		return 0, false
	}
	return f.list[i].at, true
}

// workTime holds the times with at least one attempt under way that took shortSilence or longer, as disjoint intervals
// in order.
type workTime []stretch

// add adds an attempt; attempts arrive in the order of their ends.
func (w *workTime) add(from, to time.Duration) {
	if to-from < shortSilence {
		return
	}
	list := *w
	for len(list) > 0 && list[len(list)-1].to >= from {
		from = min(from, list[len(list)-1].from)
		list = list[:len(list)-1]
	}
	*w = append(list, stretch{from, to})
}

// within returns how much of the interval between from and to it covers.
func (w workTime) within(from, to time.Duration) (total time.Duration) {
	first, _ := slices.BinarySearchFunc(w, from, func(s stretch, at time.Duration) int { return cmp.Compare(s.to, at) })
	for _, s := range w[first:] {
		if s.from >= to {
			break
		}
		total += min(s.to, to) - max(s.from, from)
	}
	return total
}

// holdUp is a backoff that held other records up, unless something excuses it.
type holdUp struct {
	wait
	question int
	// topic and partition are those of the record itself.
	topic     int16
	partition int32
	since     time.Duration // since when the other record had waited
	until     time.Duration // when it was started
}

func newIsolation(r *report) checker {
	w := r.w
	c := &isolation{report: r, share: w.contract.Isolation, ordered: w.contract.Ordering, calm: never}
	c.prompt = max(w.contract.Backoff.Wait(1), shortestBackoff) / 2
	for topic := range w.parts {
		var parts []lane
		if w.role(int16(topic)) == history.RoleInput {
			parts = make([]lane, len(w.parts[topic]))
		}
		c.parts = append(c.parts, parts)
		c.working = append(c.working, make([]workTime, len(parts)))
		c.fetches = append(c.fetches, make([]fetches, len(parts)))
	}
	return c
}

func (c *isolation) observe(e *history.Event) {
	switch e.Kind {
	case history.KindAttemptStart:
		if c.w.attempt != nil {
			c.start(c.w.attempt)
		}
	case history.KindAttemptEnd:
		if c.w.attempt != nil {
			c.end(c.w.attempt)
		}
	case history.KindCallEnd:
		if p := c.process(holder{e.Instance, e.Run}); p != nil && c.w.call != nil {
			c.work(e.Record, p, c.w.call.from, c.w.call.to)
		}
	case history.KindFetched:
		if e.Topic >= 0 && int(e.Topic) < len(c.fetches) && e.Partition >= 0 && int(e.Partition) < len(c.fetches[e.Topic]) {
			c.fetches[e.Topic][e.Partition].add(holder{e.Instance, e.Run}, fetched{e.Offset, e.Aux, e.Time})
		}
	case history.KindAssigned, history.KindRevoked:
		if p := c.process(holder{e.Instance, e.Run}); p != nil {
			p.change(e.Time)
		}
	case history.KindFaultStart:
		c.faults++
	case history.KindFaultEnd:
		c.faults = max(c.faults-1, 0)
		c.calm = e.Time + faultGrace
	}
}

// process returns the activity of a process, or nil if another process has replaced it.
func (c *isolation) process(by holder) *running {
	if by.instance < 0 {
		return nil
	}
	for int(by.instance) >= len(c.processes) {
		c.processes = append(c.processes, nil)
	}
	p := c.processes[by.instance]
	if p != nil && p.run > by.run {
		return nil
	}
	if p == nil || p.run < by.run {
		fresh := &running{lane: newLane(0), run: by.run}
		if p != nil {
			fresh.changed, fresh.working = p.changed, p.working
		}
		c.processes[by.instance] = fresh
		return fresh
	}
	return p
}

// change notes that a process gained or lost an assignment. The changes of one rebalance count as one.
func (p *running) change(at time.Duration) {
	if n := len(p.changed); n > 0 && at-p.changed[n-1] < settled/4 {
		return
	}
	p.changed = append(p.changed, at)
}

// moved reports whether the process's assignment changed in the interval.
func (p *running) moved(from, to time.Duration) bool {
	i, exactly := slices.BinarySearch(p.changed, from)
	return exactly || i < len(p.changed) && p.changed[i] <= to
}

func newLane(epoch uint32) lane { return lane{epoch: epoch, began: true, last: never, calm: never} }

// part returns the lane of the partition to which the record was written. It restarts with each assignment, and is nil
// if no process has the partition.
func (c *isolation) part(r *record) (*lane, *partition) {
	p := c.w.partition(r.topic, r.partition)
	if p == nil || int(r.partition) >= len(c.parts[r.topic]) {
		return nil, nil
	}
	l := &c.parts[r.topic][r.partition]
	if !l.began || l.epoch != p.epoch {
		if l.by != nil {
			l.by.open -= l.open
		}
		*l = newLane(p.epoch)
	}
	return l, p
}

func (c *isolation) start(a *attempt) {
	p, r := c.process(a.by), c.w.record(a.number)
	if p == nil {
		return
	}
	l, part := c.part(r)
	if l != nil {
		c.close(a, l)
	}
	if l != nil && !a.stray && !a.early {
		switch {
		case !a.before.any && a.life == 0:
			c.first(a, r, p, l, part)
		case a.before.any && a.before.by == a.by && a.before.delivery == r.delivery:
			c.again(a, p, l)
		}
	}
	p.now++
	if p.now > p.most {
		p.most, p.stretches = p.now, 0
	}
	if p.now == p.most {
		p.fill(a.start)
	}
}

// fill notes that all workers are busy from now on. Short breaks between two attempts of one worker do not count.
func (p *running) fill(at time.Duration) {
	if p.stretches > 0 {
		latest := &p.busy[(p.stretches-1)%len(p.busy)]
		if at-latest.to <= burst {
			latest.to = endless
			return
		}
		if latest.to-latest.from < burst {
			p.stretches-- // too short to delay anything
		}
	}
	p.busy[p.stretches%len(p.busy)] = stretch{at, endless}
	p.stretches++
}

// room reports whether workers were idle for at least half of the interval, as far as the kept intervals show.
func (p *running) room(from, to time.Duration) bool {
	var busy time.Duration
	kept := min(p.stretches, len(p.busy))
	for i := 1; i <= kept; i++ {
		s := &p.busy[(p.stretches-i)%len(p.busy)]
		busy += max(min(s.to, to)-max(s.from, from), 0)
		if s.from <= from {
			return busy <= (to-from)/2
		}
	}
	return kept < len(p.busy) && busy <= (to-from)/2
}

func (c *isolation) end(a *attempt) {
	p := c.process(a.by)
	if p == nil {
		return
	}
	if p.now == p.most && p.stretches > 0 {
		p.busy[(p.stretches-1)%len(p.busy)].to = a.end
	}
	p.now = max(p.now-1, 0)
	c.work(a.number, p, a.start, a.end)
	limit := c.w.contract.MaxAttempts
	if c.w.classes[a.outcome] != classRetryable || limit > 0 && int(a.k) >= limit {
		return
	}
	r := c.w.record(a.number)
	l, _ := c.part(r)
	if l == nil || r.lastStart.At() != a.start || a.life != r.lives {
		return // it was already attempted again
	}
	if l.by != nil && l.by != p {
		l.by.open -= l.open
		l.open = 0
	}
	l.by = p
	l.open++
	p.open++
}

// work notes the duration of an attempt.
func (c *isolation) work(number int32, p *running, from, to time.Duration) {
	p.working.add(from, to)
	if r := c.w.record(number); r.topic >= 0 && int(r.topic) < len(c.working) &&
		int(r.partition) < len(c.working[r.topic]) {
		c.working[r.topic][r.partition].add(from, to)
	}
}

// close notes that a failed record is attempted again. If a record never is, its process does not count as free of
// backoffs until it loses the partition. That reduces the evidence.
func (c *isolation) close(a *attempt, l *lane) {
	b := &a.before
	if !b.any || !b.ended || a.fresh || c.w.classes[b.outcome] != classRetryable || l.by == nil || l.open == 0 {
		return
	}
	l.open--
	l.by.open--
	l.calm, l.by.calm = a.start, a.start
}

// first handles the first attempt of a record.
func (c *isolation) first(a *attempt, r *record, p *running, l *lane, part *partition) {
	since := c.waiting(r, part, a.by)
	for question, one := range [questions]*lane{&p.lane, l} {
		c.sample(question, p, one, since, a.start)
		if one.closed(a.start) {
			c.decide(question, one)
		}
		one.first(a.start, since)
	}
}

// sample counts the part of the wait before a first attempt in which nothing delayed it.
func (c *isolation) sample(question int, p *running, l *lane, since, at time.Duration) {
	if c.faults > 0 || l.last == never || l.open > 0 {
		return
	}
	from := max(l.last, since, l.calm, c.calm)
	if from >= at || p.moved(from-settled, at) {
		return
	}
	pace := &c.free[question]
	pace.count++
	pace.waiting += at - from
	if at-from >= c.prompt {
		pace.slow += at - from
	}
}

// waiting returns since when the process has held the record for its first attempt, with no predecessor pending in its
// order; endless if that is unknown.
func (c *isolation) waiting(r *record, part *partition, by holder) time.Duration {
	handed, known := c.fetches[r.topic][r.partition].handed(by, r.offset.at())
	if !known || r.born.At() < 0 {
		return endless
	}
	since := max(r.born.At(), part.since, handed)
	before := c.w.record(r.prev)
	if before == nil || c.ordered == history.OrderingNone {
		return since
	}
	if before.has(markRefused) || before.exempt() || c.w.firstTerminal(before) < 0 || before.lives > 0 {
		return endless
	}
	return max(since, c.w.firstTerminal(before))
}

// again handles the end of a backoff.
func (c *isolation) again(a *attempt, p *running, l *lane) {
	b := &a.before
	if !b.ended || c.w.classes[b.outcome] != classRetryable || a.start-b.end < shortestBackoff || c.w.met(a.by) ||
		c.faults > 0 || b.end <= c.calm || p.moved(b.end-settled, a.start) {
		return
	}
	one := wait{number: a.number, instance: a.by.instance, from: b.end, to: a.start}
	quarter := (one.to - one.from) / 4
	one.room = p.room(one.from+quarter, one.to-quarter)
	p.ask(one)
	if c.ordered != history.OrderingPartition {
		l.ask(one)
	}
}

func (l *lane) ask(one wait) {
	if len(l.queue) < queueLimit {
		l.queue = append(l.queue, one)
	}
}

// first notes a first attempt, and the silence before it.
func (l *lane) first(at, since time.Duration) {
	latest := &l.silences[(l.count+len(l.silences)-1)%len(l.silences)]
	switch {
	case at-l.last >= shortSilence:
		l.silences[l.count%len(l.silences)] = silence{l.last, at, since}
		l.count++
	case l.count > 0 && at <= latest.to+burst:
		latest.since = min(latest.since, since)
	}
	l.last = at
}

// closed reports whether all records released by the end of the latest silence have been started by then.
func (l *lane) closed(now time.Duration) bool {
	if len(l.queue) == 0 {
		return false
	}
	return l.count == 0 || now > l.silences[(l.count+len(l.silences)-1)%len(l.silences)].to+burst
}

// decide determines for the backoffs whose middle half lies before the latest first attempt whether they held anything
// up.
func (c *isolation) decide(question int, l *lane) {
	open := l.queue[:0]
	for _, one := range l.queue {
		quarter := (one.to - one.from) / 4
		from, to := one.from+quarter, one.to-quarter
		if to > l.last {
			open = append(open, one)
			continue
		}
		silent, known := l.silent(from, to)
		switch {
		case !known:
		case silent == nil:
			c.flowing[question]++
		case silent.since <= from && one.room && len(c.held) < heldLimit:
			h := holdUp{wait: one, question: question, since: silent.since, until: silent.to}
			if r := c.w.record(one.number); r != nil {
				h.topic, h.partition = r.topic, r.partition
			}
			c.held = append(c.held, h)
		}
	}
	l.queue = open
}

// silent returns the silence that covers the interval, or nil if there was none; known is false if it may have been
// dropped.
func (l *lane) silent(from, to time.Duration) (covers *silence, known bool) {
	kept := min(l.count, len(l.silences))
	for i := 1; i <= kept; i++ {
		s := &l.silences[(l.count-i)%len(l.silences)]
		if s.from <= from && s.to >= to {
			return s, true
		}
		if s.to < to {
			return nil, true // earlier silences end even earlier
		}
	}
	return nil, kept < len(l.silences)
}

func (c *isolation) finish() Result {
	c.decideRest()
	var held [questions][]*holdUp
	for i := range c.held {
		h := &c.held[i]
		if why := c.excuse(h); why != "" {
			c.skip(why)
			continue
		}
		held[h.question] = append(held[h.question], h)
	}
	unsure := ""
	for question := range questions {
		n := c.flowing[question] + int64(len(held[question]))
		c.result.Judged = max(c.result.Judged, n)
		went, free := float64(c.flowing[question])/float64(max(n, 1)), c.free[question]
		switch {
		case n == 0 || went >= c.share:
		case n < isolationLeast || free.count < isolationLeast:
			unsure = fmt.Sprintf(
				"too few to compare: %d backoffs with others waiting, %d records in fault-free time; it takes %d of each",
				n, free.count, isolationLeast)
		case free.share() < promptLeast:
			unsure = fmt.Sprintf("records wait as long without any backoff: only %.0f%% of that waiting is over within %s",
				100*free.share(), units.Text(c.prompt))
		case went < c.share*free.share():
			c.sawHeldUp(held[question], n, free)
			return c.done(Pass, "")
		}
	}
	switch {
	case unsure != "":
		return c.w.unjudged(c.report, unsure)
	case c.result.Judged == 0:
		return c.w.unjudged(c.report, "no record backed off while others were waiting and nothing was in the way")
	}
	return c.done(Pass, "")
}

// decideRest decides the backoffs left open by the last first attempts.
func (c *isolation) decideRest() {
	for _, p := range c.processes {
		if p != nil {
			c.decide(ofProcess, &p.lane)
		}
	}
	for topic := range c.parts {
		for i := range c.parts[topic] {
			c.decide(ofPartition, &c.parts[topic][i])
		}
	}
}

// excuse returns another reason why records may have waited, or "" if none is known. Stalls, rebalances and faults are
// noted after they began, so it is called at the end.
func (c *isolation) excuse(h *holdUp) string {
	if c.w.faulted(anyFault, h.from, h.to) {
		return "fault"
	}
	if c.processes[h.instance].moved(h.from-settled, h.to+settled) {
		return "rebalance"
	}
	if stalled, frozen := c.w.stalls.stalled(h.instance, h.from, h.until); frozen || stalled >= (h.to-h.from)/4 {
		return stallExcuse
	}
	if quarter := (h.to - h.from) / 4; c.workedIn(h, h.from+quarter, h.to-quarter) > quarter {
		return "an attempt was under way"
	}
	return ""
}

// workedIn returns how long an attempt was under way, between from and to, in the lane that the backoff seems to have
// held up.
func (c *isolation) workedIn(h *holdUp, from, to time.Duration) time.Duration {
	if h.question == ofPartition {
		return c.working[h.topic][h.partition].within(from, to)
	}
	return c.processes[h.instance].working.within(from, to)
}

func (c *isolation) sawHeldUp(held []*holdUp, n int64, free pace) {
	for _, h := range held {
		c.saw("head-of-line-blocked", c.w.about(h.number, 0, h.until, func() string {
			what := "instance"
			if h.question == ofPartition {
				what = "partition"
			}
			return fmt.Sprintf("while it backed off for %s no other record of its %s was started, though one had waited for "+
				"%s; so in %d of %d backoffs, where otherwise %.0f%% of the waiting is over within %s", units.Text(h.to-h.from),
				what, units.Text(h.until-h.since), len(held), n, 100*free.share(), units.Text(c.prompt))
		}, moment{history.KindAttemptEnd, h.from}, moment{history.KindAttemptStart, h.to}))
	}
}
