package assertions

// backoff: the gap between an attempt's end and the next one's start is what the contract promises: not less than B(k), not more than
// B(k) plus jitter plus what is allowed for scheduling.
//
// Early. The oracle stamps an attempt's end before it writes the answer, and a start after it has read the request, so a measured gap is
// never shorter than the subject's wait; early needs no excuse. Three things have to be kept apart, though. An attempt that got no
// answer (timeout, reset, client gone) ended for the subject at some time between its start and its end: there the gap is taken from its
// start. An attempt that missed the oracle makes the true k larger, and B(k) with it, so what is too early for the smaller k is too early. But
// where the link to the oracle is broken, or the harness stood still, the subject may have given up on an attempt before the oracle even
// read it: then nothing is concluded.
//
// Late is excused by whatever was in the way: a fault, a stop, a stall that is long enough, a partition that the instance had to give
// up, for which many clients stand still. If noise hides more gaps than could be judged,
// the invariant is inconclusive; gaps that a fault or a change of the assignment broke up are what the run was about.

import (
	"fmt"
	"math"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const (
	// earlySlack is for clocks and timers that count in milliseconds.
	earlySlack = 2 * time.Millisecond
	// jitterGaps is how many gaps it takes to say that there is no jitter, jitterLeast the smallest promise that can be told from none.
	jitterGaps  = 200
	jitterLeast = 5 * time.Millisecond
	// jitterBins divides the promised jitter.
	jitterBins = 64
)

type backoff struct {
	*report
	b       history.Backoff
	gaps    []gap // suspicious ones
	early1  int64 // how many first gaps were too early
	spread  [8 * jitterBins]int64
	spreads int64
	step    [65]waits
}

// waits are the bounds for the k-th gap.
type waits struct{ least, uncapped time.Duration }

// gap is one that is shorter or longer than promised, unless something excuses it.
type gap struct {
	number       int32
	instance     int16
	k            uint16
	early        bool
	unanswered   bool
	length       time.Duration
	least, most  time.Duration
	from, ended  time.Duration
	start, since time.Duration
}

func newBackoff(w *world) checker {
	const name, of = "backoff", "gaps"
	switch {
	case w.contract.WireOnly:
		return unpromised{unseen(name, of, "the subject does not call the oracle, so its attempts are not seen")}
	case w.contract.Backoff.Initial <= 0:
		return unpromised{notApplicable(name, of, "the contract promises no waits")}
	}
	c := &backoff{report: newReport(w, name, of), b: w.contract.Backoff}
	free := c.b
	free.Cap = 0
	for k := range c.step {
		c.step[k] = waits{c.b.Wait(k), free.Wait(k)}
	}
	return c
}

func (c *backoff) waits(k uint16) waits { return c.step[min(int(k), len(c.step)-1)] }

func (c *backoff) observe(*history.Event) {
	a := c.w.attempt
	if a == nil || a.fresh || a.stray || !a.before.any {
		return
	}
	b := &a.before
	r := c.w.record(a.number)
	if c.w.classes[b.outcome] != classRetryable || !b.ended {
		// While the one before is still open at the oracle, its end is not known, and whether it is retryable neither.
		return
	}
	if r.has(markMixed) {
		c.skip("just after a rebalance")
		return
	}
	if r.several() {
		c.skip("several copies")
		return
	}
	if !c.w.memory && c.w.disruptions(a.number, r) > 0 {
		c.skip("disrupted")
		return
	}
	g := c.measure(a, b, r)
	c.result.Judged++
	c.sort(&g, r)
}

// measure returns the gap before the attempt and what was promised for it.
func (c *backoff) measure(a *attempt, b *former, r *record) gap {
	k := a.k - 1
	least := c.waits(k).least
	most := least
	if b.outcome == history.OutcomeRateLimited && b.told > 0 {
		// Not before it was told to; but whether it waits for the one, the other or both is not promised.
		most = least + b.told
		least = max(least, b.told)
	}
	g := gap{
		number: a.number, instance: a.by.instance, k: k, length: a.start - b.end, least: least, most: most + c.b.Jitter + c.b.Late,
		from: b.start, ended: b.end, start: a.start, since: r.born,
	}
	g.unanswered = b.gone || b.outcome == history.OutcomeTimeout || b.outcome == history.OutcomeReset
	return g
}

// sort puts a gap with those that are as promised, too early, or too late.
func (c *backoff) sort(g *gap, r *record) {
	shortest := g.length
	if g.unanswered {
		shortest = g.start - g.from
	}
	switch {
	case shortest < g.least-earlySlack:
		g.early, g.length = true, shortest
		if g.k == 1 {
			c.early1++
		}
		c.gaps = append(c.gaps, *g)
	case g.length > g.most:
		// Where the process had the partition before, it may have brought its count along: then the promise is for a larger k.
		if c.w.memory && r.hops == 0 && r.attempts > r.inSeries {
			c.skip("count may have been carried over")
			return
		}
		c.gaps = append(c.gaps, *g)
	case !g.unanswered && g.least == g.most-c.b.Jitter-c.b.Late:
		c.noteSpread(g.length - g.least)
	}
}

// noteSpread counts how far above its least a gap was. What lies beyond eight times the jitter is counted there.
func (c *backoff) noteSpread(above time.Duration) {
	if c.b.Jitter < jitterLeast {
		return
	}
	bin := int(float64(max(above, 0)) / float64(c.b.Jitter) * jitterBins)
	c.spread[min(max(bin, 0), len(c.spread)-1)]++
	c.spreads++
}

func (c *backoff) finish() Result {
	for i := range c.gaps {
		c.judge(&c.gaps[i])
	}
	c.judgeJitter()
	if c.result.Judged > 0 && c.result.NotJudged["stall"] > c.result.Judged {
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
	return c.judgedOrNot(Inconclusive, "no record was attempted twice")
}

func (c *backoff) contractAlone() bool { return c.w.contract.MaxAttempts == 1 }

func (c *backoff) judge(g *gap) {
	var name string
	var why string
	if g.early {
		name, why = c.nameEarly(g)
	} else {
		name, why = c.nameLate(g)
	}
	if why != "" {
		c.result.Judged--
		c.skip(why)
		return
	}
	if c.w.hops && c.w.everDisrupted(g.number) {
		c.result.Judged--
		c.skip("disrupted") // by what only the end of the history told of
		return
	}
	c.saw(name, c.w.about(g.number, 0, g.start, func() string {
		return fmt.Sprintf("gap %d was %s; promised are %s to %s", g.k, near(g.length), near(g.least), near(g.most))
	}, moment{history.KindAttemptEnd, g.ended}, moment{history.KindAttemptStart, g.start}))
}

// nameEarly: later gaps as short as the first one is allowed to be, while the first is kept, are a wait that does not grow.
func (c *backoff) nameEarly(g *gap) (name, why string) {
	if c.w.faulted(onDownstreamLink, g.from, g.start) {
		return "", "fault on the link to the oracle"
	}
	if c.w.stalls.stoodStill(g.instance, g.from-faultGrace, g.start) {
		return "", "stall"
	}
	first := c.waits(1).least
	if g.k >= 2 && c.early1 == 0 && c.waits(g.k).least > first && g.length >= first-earlySlack && g.length <= first+c.b.Jitter+c.b.Late {
		return "backoff-not-growing", ""
	}
	return "backoff-early", ""
}

func (c *backoff) nameLate(g *gap) (name, why string) {
	stalled, stopped := c.w.stalls.stalled(g.instance, g.ended, g.start)
	switch {
	case c.w.faulted(anyFault, g.ended, g.start):
		return "", "fault"
	case stopped || stalled >= g.length-g.most:
		return "", "stall"
	case c.w.handingOver(g.instance, g.ended, g.start):
		return "", "rebalance"
	case c.w.faulted(onDownstreamLink, g.since, g.start):
		return "", "fault on the link to the oracle"
	}
	if free := c.waits(g.k).uncapped; c.b.Cap > 0 && free > c.b.Cap && g.length >= free-earlySlack {
		return "cap-exceeded", ""
	}
	return "backoff-late", ""
}

// judgeJitter. Adding noise to a uniform jitter J can't make it narrower: its density is at most 1/J, so half of the gaps need a range
// of at least J/2, whatever is added. Half of them within J/8 is no jitter; noise can hide that, but never fake it.
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
		return fmt.Sprintf("half of %d gaps lie within %s of each other; the promised jitter is up to %s", c.spreads, near(width), c.b.Jitter)
	}})
}

// quantile returns the bin that holds the q-quantile.
func (c *backoff) quantile(q float64) int {
	rank := int64(math.Ceil(q * float64(c.spreads)))
	for bin, count := range c.spread {
		if rank -= count; rank <= 0 {
			return bin
		}
	}
	return len(c.spread) - 1
}
