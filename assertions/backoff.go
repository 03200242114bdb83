package assertions

// backoff: the gap between an attempt's end and the next one's start keeps the contract: at least B(k), and at most
// B(k) plus jitter plus a scheduling allowance.
//
// Early. The downstream stub stamps an attempt's end before it writes the answer, and a start after it has read the
// request, so a measured gap is never shorter than the subject's wait, and noise does not excuse an early gap. There
// are three special cases. First, an attempt that got no answer (timeout, reset, client gone) ended for the subject at
// some time between its start and its end. There the gap is measured from its start. Second, an attempt that did not
// reach the stub makes the true k larger, and B(k) with it, so a gap that is too early for the smaller k is too early
// in any case. Third, if the link to the stub is down, or the harness stalled, the subject may have given up on an
// attempt before the stub read it. Then nothing is concluded.
//
// A disruption excuses no early gap. It causes several deliveries or copies of a record, whose attempts are independent
// of each other. With retry topics, an attempt is compared with its own copy (backoff_copies.go). Without them, a gap
// lies within one delivery to one process.
//
// Late gaps are excused by any delay outside the subject: a fault, a stop, a stall that is long enough, or a partition
// that the instance had to give up, for which many clients pause. If noise hides more gaps than could be judged, the
// invariant is inconclusive. Gaps that a fault or a change of the assignment interrupted do not count as noise, because
// the run is meant to contain them.
//
// If the contract leaves open which gaps are late, one gap may be late by one second, the length of a client's own
// pauses (garbage collection, compilation, a fetch that is under way). Such pauses affect single gaps, so they do not
// move the median: if half of the gaps are longer than promised by half of the wait, the wait itself is longer. Gaps in
// which the record was fetched again are left out of this rule, because a fetch takes time of its own.

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

func backoffInvariant() Invariant {
	return Invariant{
		Name:    "backoff",
		Promise: "The wait between two attempts is as long as promised.",
		Rule: "The gap from the end of attempt k to the start of attempt k+1 is at least B(k) = min(cap, " +
			"initial·multiplier^(k−1)), less the precision of timers (11 ms, or half of a shorter wait), and at " +
			"most B(k) + jitter + late. A process that does one thing at a time is late only by the time in which it was " +
			"not busy with other records, a thread of several only by that in which it was not busy with its other " +
			"partitions, a copy in a retry topic only by the time after the copies before it, and after what a process " +
			"that does one thing at a time had in hand, and a copy at the end of the input never. After a 429 the gap is " +
			"at least its Retry-After. Where late is a default, half of the gaps may exceed the wait by half at most. " +
			"With retry topics the gap is that of the copy whose coordinates the attempt names, otherwise of the copy " +
			"that is due first of those that its process was handed. A copy that was written again may stand for several " +
			"failures; then the shortest of their waits applies.",
		Evidence: "the stamps of the downstream stub, which never make a gap shorter; stalls, faults and partitions " +
			"that the instance had to give up meanwhile excuse a late attempt, never an early one",
		Cause: "Seconds and milliseconds are mixed up. The wait is measured from the attempt's start. The exponent " +
			"is reset with each delivery. The cap is applied to the wrong term. One delayed record holds up the records " +
			"behind it. After a connection that broke, an HTTP client such as Java's HttpURLConnection repeats the call by " +
			"itself: the promise is then attempts: {calls: 2}.",
		Contract: "backoff: {initial: 100ms, multiplier: 2, cap: 2s}, with your waits",
		Scenario: "records that fail and are tried again (transient-downstream)",
		Anomalies: []AnomalyNote{
			{"backoff-early", "the next attempt came sooner than promised", []string{
				"initial is 100ms",
				"1.000 s  attempt 1 is answered transient",
				"1.030 s  attempt 2 starts",
			}},
			{"backoff-late", "the next attempt came later than promised, and nothing excuses it", []string{
				"initial is 100ms, late 50ms",
				"1.000 s  attempt 1 is answered transient",
				"1.400 s  attempt 2 starts; no fault, stall or rebalance lies between",
			}},
			{"backoff-not-growing", "later waits are as short as the first", []string{
				"initial is 100ms, multiplier 2",
				"1.000 s  attempt 1 is answered transient",
				"1.105 s  attempt 2 is answered transient",
				"1.210 s  attempt 3 starts",
			}},
			{"cap-exceeded", "the wait grew beyond its cap", []string{
				"initial is 100ms, multiplier 2, cap 300ms",
				"1.300 s  attempt 3 is answered transient",
				"1.705 s  attempt 4 starts, 405ms later",
			}},
			{"no-jitter", "the waits are all alike although jitter is promised", []string{
				"initial is 100ms, jitter 50ms",
				"        ... of 240 gaps, half are 100.1ms to 100.9ms long",
			}},
		},
		of: "gaps",
		needs: []precondition{seesAttempts("attempts"), {
			func(w *state) bool { return w.contract.Backoff.Initial > 0 }, Unpromised, "the contract promises no waits",
		}},
		check: newBackoff,
		observes: []history.Kind{history.KindFetched, history.KindAttemptStart, history.KindAttemptEnd,
			history.KindCallEnd, history.KindProduceRequest, history.KindProduceResponse},
	}
}

const (
	// jitterBins is the number of bins for the promised jitter.
	jitterBins = 64
)

type backoff struct {
	*report
	b       history.Backoff
	gaps    []gap // suspicious gaps
	early1  int64 // number of first gaps that were too early
	spread  [8 * jitterBins]int64
	spreads int64
	step    [65]waits
	lengths [65]lengths
	copies  *chains
	// calls is the time that a record spent in calls of other downstreams since its latest attempt.
	calls map[int32]time.Duration
	// usual counts the gaps of each number that show the usual length of the wait; refetched is when a partition was
	// last fetched again from an earlier offset.
	usual     [65]int64
	fetched   map[place]int64
	refetched map[place]time.Duration
	busy      busy
	// others is how long the process was busy with other records before the current attempt, and beside what it did in
	// other partitions, if it has several threads.
	others time.Duration
	beside *beside
}

// lengths counts the gaps of one number, and those that are too long and too short.
type lengths struct {
	all         int64
	long, short deviating
}

// deviating counts gaps that are not as long as promised.
type deviating struct {
	count int64
	// apart is the number of those that do not overlap, the last of which ended at until.
	apart int64
	until time.Duration
}

func (d *deviating) note(g *gap) {
	d.count++
	if g.ended >= d.until {
		d.apart, d.until = d.apart+1, g.start
	}
}

// waits are the bounds of the k-th gap.
type waits struct{ least, uncapped time.Duration }

// gap is a gap that is shorter or longer than promised, unless something excuses it.
type gap struct {
	number     int32
	instance   int16
	k          uint16
	early      bool
	unanswered bool
	// disturbed: a disruption of the record may explain why it is late. apart: it cannot be judged early either, unless
	// the record was not disrupted. usual: it shows the usual length of waits, and is only longer than they should be.
	disturbed, apart, usual bool
	length                  time.Duration
	least, most             time.Duration
	others                  time.Duration // spent on other records, which may have made it longer
	beside                  *beside
	from, ended             time.Duration
	// doubted is since when an attempt that did not reach the downstream stub could explain it.
	doubted      time.Duration
	start, since time.Duration
	// excuse is the cause of the delay of a gap that is too long, or "".
	excuse string
}

func newBackoff(r *report) checker {
	c := &backoff{
		report: r, b: r.w.contract.Backoff, fetched: map[place]int64{}, refetched: map[place]time.Duration{}, busy: newBusy(),
		calls: map[int32]time.Duration{},
	}
	free := c.b
	free.Cap = 0
	for k := range c.step {
		c.step[k] = waits{c.b.Wait(k), free.Wait(k)}
	}
	return c
}

func (c *backoff) length(k uint16) *lengths { return &c.lengths[min(int(k), len(c.lengths)-1)] }

func (c *backoff) waits(k uint16) waits { return c.step[min(int(k), len(c.step)-1)] }

func (c *backoff) observe(e *history.Event) {
	switch {
	case e.Kind == history.KindFetched:
		c.noteFetch(e)
		return
	case e.Kind == history.KindProduceResponse && c.w.record(e.Record) != nil:
		c.busy.written(holder{e.Instance, e.Run}, e.Record, c.lane(e.Record), e.Time)
	case c.w.call != nil:
		c.noteCall(e)
		return
	}
	var copied *promise
	waited := false
	if c.w.hops {
		if c.copies == nil {
			c.copies = &chains{w: c.w, least: c.least, byName: map[int32]*chain{}}
		}
		c.copies.observe(e)
		if a := c.w.attempt; a != nil && e.Kind == history.KindAttemptStart {
			copied, waited = c.copies.attempt(a, e)
		}
	}
	a := c.w.attempt
	if a == nil {
		if e.Kind == history.KindAttemptStart && e.Record == none {
			c.busy.unreadable(holder{e.Instance, e.Run})
		}
		return
	}
	if e.Kind == history.KindAttemptStart || e.Kind == history.KindAttemptEnd {
		c.noteBusy(a, e)
	}
	if e.Kind != history.KindAttemptStart {
		return
	}
	r := c.w.record(a.number)
	if disturbed := c.w.disruptions(a.number, r) > 0; copied != nil && (waited || disturbed) {
		g := c.measureCopy(a, copied, r)
		if disturbed || g.tooShort() {
			c.result.Judged++
			c.sort(&g, r)
			return
		}
	}
	c.observeGap(a, r)
}

// observeGap judges an attempt by the previous one, which is of the same copy if the record was not disrupted.
func (c *backoff) observeGap(a *attempt, r *record) {
	b := &a.before
	if a.fresh || a.stray || !b.any || c.w.classes[b.outcome] != classRetryable || !b.ended {
		// While the previous attempt is still open at the downstream stub, its end is unknown, and so is whether it is
		// retryable.
		return
	}
	disturbed := !c.w.memory && c.w.disruptions(a.number, r) > 0
	switch {
	case r.has(markMixed):
		c.skip(handedAgain)
		return
	case r.several(), disturbed && c.w.hops:
		c.skip("several copies")
		return
	case disturbed && (b.by != a.by || b.delivery != r.delivery || a.early):
		c.skip("another delivery")
		return
	}
	g := c.measure(a, b, r)
	g.disturbed, g.apart = disturbed, c.w.hops
	c.result.Judged++
	c.sort(&g, r)
}

// noteCall notes the time of a call of another downstream: for its own record, if that waits for its next attempt, or
// for the others of the process.
func (c *backoff) noteCall(e *history.Event) {
	took := c.w.call.to - c.w.call.from
	switch r := c.w.record(e.Record); {
	case r.has(markEnded) && c.w.classes[r.outcome] == classRetryable:
		c.calls[e.Record] += took
	case !c.w.hops:
		c.busy.called(holder{e.Instance, e.Run}, c.lane(e.Record), took)
	}
}

// lane is the partition of the record and its assignment.
func (c *backoff) lane(number int32) assignment {
	return assignment{c.w.lies(number, c.w.record(number)), c.w.epochOf(number)}
}

// noteBusy notes the activity of an attempt's process, and the time the attempt had to wait for other records.
func (c *backoff) noteBusy(a *attempt, e *history.Event) {
	r, lane, between := c.w.record(a.number), c.lane(a.number), time.Duration(0)
	if e.Kind == history.KindAttemptStart {
		between = c.busy.between(a.by, c.w.position(a.number, r), a.start)
	} else {
		c.busy.ended[a.by] = a.end
	}
	copied, limit := c.w.role(lane.topic) == history.RoleRetry, c.w.contract.MaxAttempts
	answered := !a.gone && a.outcome != history.OutcomeTimeout && a.outcome != history.OutcomeReset
	c.others, c.beside = 0, nil
	defer func() {
		c.others += c.calls[a.number]
		delete(c.calls, a.number)
	}()
	switch b := &a.before; {
	case copied && e.Kind == history.KindAttemptStart && b.ended:
		due := b.end + c.waits(a.k-1).least
		c.others = max(c.busy.copied(a.by, lane.topic, due, a.start), c.busy.solo(a.by).since(due))
	case copied && e.Kind == history.KindAttemptEnd:
		c.busy.copyEnded(a.by, lane.topic, a.end)
		c.busy.tried[theirs{a.by, a.number}] = lane.topic
	case c.w.hops:
	case e.Kind == history.KindAttemptStart:
		c.others, c.beside = c.busy.start(a, lane, between)
	case c.w.classes[a.outcome] == classRetryable && (limit == 0 || int(a.k) < limit):
		least := c.waits(a.k).least
		c.busy.end(a, lane, pause{least, least + c.b.Jitter + c.b.Late}, false, answered && r.attempts == r.inSeries)
	default:
		c.busy.end(a, lane, pause{}, true, answered)
	}
	switch {
	case !c.w.hops:
	case e.Kind == history.KindAttemptStart:
		c.busy.solo(a.by).start(a.start, between)
	default:
		c.busy.solo(a.by).end(a)
	}
}

// noteFetch notes what is fetched, and when a partition is fetched again from an earlier offset.
func (c *backoff) noteFetch(e *history.Event) {
	c.busy.fetched(e)
	if c.b.Usual <= 0 {
		return
	}
	at := place{e.Topic, e.Partition, none}
	if last, known := c.fetched[at]; known && e.Offset <= last {
		c.refetched[at] = e.Time
	}
	c.fetched[at] = max(c.fetched[at], e.Aux)
}

// least is the promised wait after the k-th attempt with this outcome.
func (c *backoff) least(k uint16, outcome history.Outcome, told time.Duration) time.Duration {
	least := c.waits(k).least
	if outcome == history.OutcomeRateLimited && !c.w.contract.IgnoresRetryAfter {
		least = max(least, told)
	}
	return least
}

// measureCopy returns the gap before an attempt of a copy and the least wait promised for it. There is no upper bound
// for a disrupted record. For other records the previous attempt gives it.
func (c *backoff) measureCopy(a *attempt, of *promise, r *record) gap {
	return gap{
		number: a.number, instance: a.by.instance, k: of.k, length: a.start - of.end,
		least: of.least, most: endless,
		from: of.start, ended: of.end, start: a.start, since: r.born.At(), doubted: r.born.At(), unanswered: of.unanswered,
	}
}

// shortest is the least time that the subject may have waited.
func (g *gap) shortest() time.Duration {
	if g.unanswered {
		return g.start - g.from
	}
	return g.length
}

func (g *gap) tooShort() bool { return g.shortest() < shortened(g.least) }

// measure returns the gap before the attempt and the bounds promised for it.
func (c *backoff) measure(a *attempt, b *former, r *record) gap {
	k := a.k - 1
	least := c.waits(k).least
	most := least
	if b.outcome == history.OutcomeRateLimited && b.told > 0 {
		// The attempt must not start before the Retry-After time. Whether the subject waits for one, the other or both
		// is not promised.
		most = least + b.told
		least = c.least(k, b.outcome, b.told)
	}
	g := gap{
		number: a.number, instance: a.by.instance, k: k, length: a.start - b.end, least: least,
		most: most + c.b.Jitter + c.b.Late + c.others, others: c.others, beside: c.beside, from: b.start, ended: b.end,
		start: a.start, since: r.born.At(), doubted: b.start,
	}
	g.unanswered = b.gone || b.outcome == history.OutcomeTimeout || b.outcome == history.OutcomeReset
	return g
}

// sort classifies a gap as promised, too early, or too late.
func (c *backoff) sort(g *gap, r *record) {
	switch {
	case g.tooShort():
		g.early, g.length = true, g.shortest()
		c.length(g.k).all++
		c.length(g.k).short.note(g)
		if g.k == 1 {
			c.early1++
		}
		c.gaps = append(c.gaps, *g)
	case g.length > g.most:
		switch at := c.w.lies(g.number, r); {
		case g.disturbed:
			c.skip("disrupted")
			return
		case c.w.queues(at.topic):
			c.skip("its copy waits behind other records in the input")
			return
		}
		c.length(g.k).all++
		// If the process had the partition before, it may have kept its count. Then the promise is for a larger k.
		if c.w.memory && (c.w.seldom(r).hops == 0 && r.attempts > r.inSeries || r.inRun > r.inSeries) {
			c.skip("count may have been carried over")
			return
		}
		c.gaps = append(c.gaps, *g)
	case !g.disturbed:
		c.length(g.k).all++
		if g.unanswered || g.least != g.most-c.b.Jitter-c.b.Late-g.others {
			return
		}
		c.noteSpread(g.length - g.least)
		c.noteUsual(g, r)
	}
}

// noteUsual counts a gap among those that show the usual length of the wait.
func (c *backoff) noteUsual(g *gap, r *record) {
	if c.b.Usual <= 0 || c.w.queues(r.topic) || c.refetched[place{r.topic, r.partition, none}] >= g.ended ||
		c.w.memory && r.attempts > r.inSeries {
		return
	}
	at := min(int(g.k), len(c.usual)-1)
	c.usual[at]++
	if c.unusual(g) {
		g.usual = true
		c.gaps = append(c.gaps, *g)
	}
}

// unusual reports whether a gap is longer than half of them may be.
func (c *backoff) unusual(g *gap) bool {
	return g.length-g.others > g.least+c.b.Jitter+max(c.b.Usual, g.least/usualShare)
}

// noteSpread counts how far a gap exceeds its least wait. Gaps beyond eight times the jitter are counted in the last
// bin.
func (c *backoff) noteSpread(above time.Duration) {
	if c.b.Jitter < jitterLeast {
		return
	}
	bin := int(float64(max(above, 0)) / float64(c.b.Jitter) * jitterBins)
	c.spread[min(max(bin, 0), len(c.spread)-1)]++
	c.spreads++
}

func (c *backoff) finish() Result {
	c.allowThreads()
	heldUp := c.heldUp()
	for i := range c.gaps {
		if !c.gaps[i].usual {
			c.judge(&c.gaps[i], heldUp)
		}
	}
	c.judgeUsual()
	c.judgeJitter()
	if c.result.Judged > 0 && c.result.NotJudged[stallExcuse] > c.result.Judged {
		return c.done(Inconclusive, "most gaps could not be judged, as the machine stood still in them")
	}
	if c.result.Judged == 0 && c.contractAlone() {
		c.result.Unjudged = Unpromised
		return c.done(NotApplicable, "the contract allows one attempt, so there are no gaps")
	}
	if c.result.Judged == 0 && !c.w.planned(history.OutcomeExhausted, history.OutcomeTransient, history.OutcomeRateLimited,
		history.OutcomeTimeout, history.OutcomeReset) {
		return c.done(NotApplicable, "nothing in the plan fails in a way that is retried")
	}
	if c.result.Judged == 0 && c.w.batches {
		c.result.Unjudged = Unexercised
		return c.done(NotApplicable, "only calls or transactions for several records were repeated, which do not say "+
			"whose failure a wait is about")
	}
	return c.judgedOrNot(Inconclusive, "no record was attempted twice")
}

func (c *backoff) contractAlone() bool { return c.w.contract.MaxAttempts == 1 }

// heldUp determines the causes of the gaps that are too long, and returns the longest delay that stalls of the machine
// added. It returns 0 unless stalls explain more of these gaps than are left unexplained. Short waits for a processor
// add up along the way of a request, and not all are noticed: if the machine delayed most of the gaps that are too
// long, it may have delayed the others as well, as long as they are no longer than those. It delays all waits alike,
// so it does not excuse the waits of one number if those of another are on time (c.own).
func (c *backoff) heldUp() (most time.Duration) {
	stalls, others := 0, 0
	for i := range c.gaps {
		g := &c.gaps[i]
		if g.early || g.usual {
			continue
		}
		c.length(g.k).long.note(g)
		if g.excuse = c.excuse(g, g.most); g.excuse == stallExcuse {
			stalls, most = stalls+1, max(most, g.length-g.most)
		} else {
			others++
		}
	}
	if stalls <= others {
		return 0
	}
	return most
}

// own reports whether most of the k-th gaps deviate in this way, at several times, while most gaps of another number do
// not. The machine does not make such a difference.
func (c *backoff) own(k uint16, deviate func(*lengths) *deviating) bool {
	of := c.length(k)
	if d := deviate(of); of.all < usualGaps || d.count*2 <= of.all || d.apart < apartGaps {
		return false
	}
	return slices.ContainsFunc(c.lengths[:], func(of lengths) bool {
		return of.all >= usualGaps && deviate(&of).count*2 < of.all
	})
}

func tooLong(of *lengths) *deviating { return &of.long }

func tooShort(of *lengths) *deviating { return &of.short }

func (c *backoff) judge(g *gap, heldUp time.Duration) {
	var name string
	var why string
	if g.early {
		name, why = c.nameEarly(g)
	} else if name, why = c.nameLate(g); why == "" && g.length-g.most <= heldUp && !c.own(g.k, tooLong) {
		why = stallExcuse
	}
	if why != "" {
		c.result.Judged--
		c.skip(why)
		return
	}
	if c.w.hops && (!g.early || g.apart) && c.w.everDisrupted(g.number) {
		c.result.Judged--
		c.skip("several copies") // known only from the end of the history
		return
	}
	c.saw(name, c.w.about(g.number, 0, g.start, func() string {
		if g.most == endless {
			return fmt.Sprintf("a copy was tried %s after the failure that it was written for; promised are %s at least",
				units.Text(g.length), units.Text(g.least))
		}
		told := fmt.Sprintf("gap %d was %s; promised are %s to %s", g.k, units.Text(g.length), units.Text(g.least),
			units.Text(g.most))
		if g.early && g.unanswered && c.w.repeats == nil && !c.w.hops {
			told += "; clients may repeat a call that got no answer by themselves (attempts: {calls: 2})"
		}
		return told
	}, moment{history.KindAttemptEnd, g.ended}, moment{history.KindAttemptStart, g.start}).by(g.beyond()))
}

// beyond is by how much the gap is shorter or longer than promised.
func (g *gap) beyond() time.Duration {
	if g.early {
		return g.least - g.length
	}
	return g.length - g.most
}

// nameEarly names the anomaly of an early gap. If the first gap is kept, and later gaps are as short as the first may
// be, the wait does not grow.
func (c *backoff) nameEarly(g *gap) (name, why string) {
	if c.w.callsHidden(g.instance, g.doubted, g.start) {
		return "", "fault on the link to the downstream"
	}
	if why, hides := c.w.mayHideRepeats(g.number, g.instance, g.since, g.start); hides {
		return "", why
	}
	if c.w.hops { // which failure a copy was written for is not certain
		if why, failed := c.w.calls.failedFor(g.number, g.instance, g.since, g.start); failed {
			return "", why
		}
	}
	if c.w.repeats != nil && g.length >= shortened(c.waits(1).least) {
		return "", unclearRepeat // it may be another gap than the k-th
	}
	stalled, _ := c.w.stalls.stalled(none, g.from-catchUp, g.ended)
	if g.length+catchUpShare*stalled >= shortened(g.least) && !c.own(g.k, tooShort) {
		return "", stallExcuse
	}
	first := c.waits(1).least
	if g.k >= 2 && c.early1 == 0 && c.waits(g.k).least > first && g.length >= shortened(first) &&
		g.length <= first+c.b.Jitter+c.b.Late {
		return "backoff-not-growing", ""
	}
	return "backoff-early", ""
}

func (c *backoff) nameLate(g *gap) (name, why string) {
	if g.excuse != "" {
		return "", g.excuse
	}
	if free := c.waits(g.k).uncapped; c.b.Cap > 0 && free > c.b.Cap && g.length >= shortened(free) {
		return "cap-exceeded", ""
	}
	return "backoff-late", ""
}

// excuse names the cause of the delay of a gap that is too long, or returns "".
func (c *backoff) excuse(g *gap, most time.Duration) string {
	stalled, stopped := c.w.stalls.stalled(g.instance, g.ended, g.start)
	if c.w.stalls.starved(g.instance, g.ended, g.start) {
		stalled *= catchUpShare // working off the backlog of a stall takes time as well
	}
	switch {
	case c.w.faulted(anyFault, g.ended, g.start):
		return "fault"
	case stopped || stalled >= g.length-most:
		return stallExcuse
	case c.w.handingOver(g.instance, g.ended, g.start):
		return "rebalance"
	case c.w.callsHidden(g.instance, g.since, g.start):
		return "fault on the link to the downstream"
	case c.w.crowded(g.instance):
		return crowdedExcuse
	}
	why, _ := c.w.calls.failedFor(g.number, g.instance, g.since, g.start)
	return why
}

// judgeUsual reports waits that are usually too long: more than half of the gaps of a number are longer than promised,
// by more than half of the wait.
func (c *backoff) judgeUsual() {
	var long [len(c.usual)][]time.Duration
	for i := range c.gaps {
		g := &c.gaps[i]
		if !g.usual {
			continue
		}
		if !c.unusual(g) {
			continue
		}
		at := min(int(g.k), len(c.usual)-1)
		if c.excuse(g, g.least+c.b.Jitter+max(c.b.Usual, g.least/usualShare)+g.others) != "" {
			c.usual[at]--
			continue
		}
		long[at] = append(long[at], g.length)
	}
	for k := range long {
		if all := c.usual[k]; all >= usualGaps && int64(len(long[k]))*2 > all {
			shortest := slices.Min(long[k])
			c.saw("backoff-late", sighting{record: none, topic: none, partition: none, offset: none, to: endless,
				say: func() string {
					return fmt.Sprintf(
						"of %d gaps %d, %d were %s or longer; promised are %s to %s, and half of them may be longer by %s at most",
						all, k, len(long[k]), units.Text(shortest), units.Text(c.waits(uint16(k)).least),
						units.Text(c.waits(uint16(k)).least+c.b.Jitter), units.Text(max(c.b.Usual, c.waits(uint16(k)).least/usualShare)))
				}})
		}
	}
}

// judgeJitter reports missing jitter. Adding noise to a uniform jitter J cannot make it narrower: its density is at
// most 1/J, so half of the gaps need a range of at least J/2, whatever is added. If half of them lie within J/8, there
// is no jitter. Noise can hide missing jitter, but never simulate it.
func (c *backoff) judgeJitter() {
	if c.spreads < jitterGaps {
		return
	}
	lower, upper := c.quantile(0.25), c.quantile(0.75)
	if upper-lower+1 > jitterBins/8 || upper == len(c.spread)-1 {
		return
	}
	c.saw("no-jitter", sighting{record: none, topic: none, partition: none, offset: none, to: endless, say: func() string {
		width := time.Duration(upper-lower+1) * c.b.Jitter / jitterBins
		return fmt.Sprintf("half of %d gaps lie within %s of each other; the promised jitter is up to %s", c.spreads,
			units.Text(width), units.Text(c.b.Jitter))
	}})
}

// quantile returns the bin that holds the q-quantile.
func (c *backoff) quantile(q float64) int {
	rank, bin := int64(math.Ceil(q*float64(c.spreads))), 0
	for ; rank > c.spread[bin]; bin++ {
		rank -= c.spread[bin]
	}
	return bin
}
