package assertions

// halt-on-dlq-failure: while no dead letter can be written, no commit passes the first undeliverable record, and the failure shows.
//
// A window begins with the first dead-letter write that fails after the last that succeeded, and ends with the next that succeeds; no
// subject could have got a dead letter out in it. The contract does not say how often a write is tried before the failure is surfaced, so
// silence is held against a subject only when error answers have come for longer than three seconds and than twice all the waits of a
// whole series, and never in a window in which the brokers were merely silent for less than thirty seconds: a client's own delivery
// timeout is longer than that, and until then the subject knows of nothing.
//
// A failure shows in a line of the log that reports an error, in an end with one, or in the health that the contract names. A log in which
// no line states a level may report anything: then nothing is held against the subject, and the invariant is inconclusive.

import (
	"fmt"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const (
	surfaceAtLeast = 3 * time.Second
	surfaceSilent  = 30 * time.Second
	// surfaceGrace is how much later than the window the failure may show.
	surfaceGrace = 2 * time.Second
	// windowAtLeast is the shortest window that is kept: single failures among successes are no outage.
	windowAtLeast = 200 * time.Millisecond
)

type halt struct {
	*report
	windows []outage
	planned []outage // windows of planned outages
	now     outage
	open    bool
	pending map[int64]time.Duration // dead-letter writes without an answer, by operation
	failed  int64
	// waited counts the dead letters that were outstanding during a planned outage and acknowledged after it.
	waited int64
	// leaky are the planned outages in which a dead letter got through all the same.
	leaky map[int]bool
	// untold counts the windows in which the subject may have reported the failure in a log that can't be read.
	untold int
}

// outage is a stretch in which every dead-letter write failed.
type outage struct {
	from, to time.Duration
	// answered is the first error answer, refused the last one, never if there was none.
	answered time.Duration
	refused  time.Duration
	// records are those whose dead letters failed; owed is until when one of them had not come to its end.
	records []int32
	owed    time.Duration
	writes  int64
}

func newHalt(w *world) checker {
	const name, of = "halt-on-dlq-failure", "failed and outstanding dead letters"
	switch {
	case w.contract.ExitsExhausted && !w.contract.HasDLQ() && !w.contract.WireOnly:
		return &exits{report: newReport(w, name, "exhausted series")}
	case !w.contract.HasDLQ():
		return unpromised{notApplicable(name, of, "the contract has no dead-letter topic")}
	case w.contract.AutoCommit:
		return unpromised{notApplicable(name, of, "the contract says that commits follow time, not outcomes")}
	}
	return &halt{report: newReport(w, name, of), pending: map[int64]time.Duration{}, leaky: map[int]bool{}}
}

func (c *halt) observe(e *history.Event) {
	one := c.w.write
	if one == nil || !one.letter {
		return
	}
	if e.Kind == history.KindProduceRequest {
		c.pending[one.op] = one.at
		return
	}
	delete(c.pending, one.op)
	if one.passed {
		c.close(e.Time)
		c.got(e.Time, c.w.record(one.record))
		return
	}
	c.fail(one.record, one.at, e.Time, !one.silent)
}

// got notes a dead letter that got through. With its link down a subject may not even be able to ask for a write, so that none is seen to
// fail: then the outage itself is the window.
func (c *halt) got(at time.Duration, r *record) {
	waited := false
	for i := range c.w.faults {
		f := &c.w.faults[i]
		if !f.injected || !stopsDeadLetters(&f.planned) {
			continue
		}
		if !f.healed && at > f.from+windowAtLeast {
			c.leaky[i] = true
		}
		waited = waited || r.lastEnd >= 0 && (!f.healed || r.lastEnd <= f.to)
	}
	if waited {
		c.waited++
	}
}

// fail extends the window by a failed write, or begins one. A write that was asked for before the last success may fail after it; the
// window then begins with its failure.
func (c *halt) fail(number int32, asked, at time.Duration, answered bool) {
	c.failed++
	if !c.open {
		c.now, c.open = outage{from: at, to: at, answered: never, refused: never}, true
		if n := len(c.windows); n == 0 || c.windows[n-1].to < asked {
			c.now.from = asked
		}
	}
	c.now.writes++
	c.now.to = max(c.now.to, at)
	c.now.records = append(c.now.records, number)
	if answered && c.now.answered == never {
		c.now.answered = at
	}
	if answered {
		c.now.refused = at
	}
}

func (c *halt) close(at time.Duration) {
	if !c.open {
		return
	}
	c.open = false
	c.now.to, c.now.owed = at, 0
	for _, number := range c.now.records {
		until := at
		if r := c.w.record(number); r != nil && r.lastTerminal.at() >= c.now.from {
			until = min(at, r.lastTerminal.at())
		}
		c.now.owed = max(c.now.owed, until)
	}
	c.now.records = nil
	if c.now.to-c.now.from >= windowAtLeast {
		c.windows = append(c.windows, c.now)
	}
}

func (c *halt) finish() Result {
	c.failed += int64(len(c.pending))
	c.close(c.now.to)
	for i := range c.w.faults {
		f := &c.w.faults[i]
		if f.injected && len(f.effects) > 0 && !c.leaky[i] && stopsDeadLetters(&f.planned) && f.to-f.from >= 2*windowAtLeast {
			c.planned = append(c.planned, outage{from: f.from + windowAtLeast, to: f.to, answered: never})
		}
	}
	c.result.Judged = c.failed + c.waited
	for i := range c.w.passes {
		c.judgePass(&c.w.passes[i])
	}
	for i := range c.windows {
		c.judgeSurface(&c.windows[i])
	}
	if c.result.Judged == 0 && c.plannedOutage() {
		return c.done(Inconclusive, "the plan breaks dead-letter writes, but no dead letter was due meanwhile")
	}
	if c.untold > 0 {
		return c.done(Inconclusive, "dead letters were refused for long, and whether the subject reported it can't be told: no line of its log states "+
			"a level in a form that dlqbench knows. Write levels in one of the forms that docs/subjects.md lists, or name the URL of its health (contract.health)")
	}
	return c.judgedOrNot(NotApplicable, "no dead-letter write failed, and nothing of the plan should have made one fail")
}

// judgePass: within a window, a commit passed a record of which only the dead letter was outstanding.
func (c *halt) judgePass(p *pass) {
	r := c.w.stateOf(p)
	if !p.accepted || r.letterAsked < 0 || r.lastStart > p.at || r.letterAcked.at() >= 0 && r.letterAcked.at() <= p.at {
		return
	}
	for _, window := range slices.Concat(c.windows, c.planned) {
		if p.at < window.from || p.at > window.to {
			continue
		}
		c.saw("commit-advanced-while-dlq-down", c.w.about(p.number, 0, max(p.at, window.to), func() string {
			return fmt.Sprintf("%s although the dead letter of offset %d could not be written, %s into an outage of %s",
				p.deed(), p.place.offset, near(p.at-window.from), near(window.to-window.from))
		}, moment{history.KindProduceRequest, r.letterAsked}, moment{history.KindCommitRequest, p.at}))
		return
	}
}

// patience is how long error answers must have come before silence about them counts.
func (c *halt) patience() time.Duration {
	total := time.Duration(0)
	b := &c.w.contract.Backoff
	for k := 1; k < min(max(c.w.contract.MaxAttempts, 3), 64) && total < time.Hour; k++ {
		total += b.Wait(k) + b.Jitter + b.Late
	}
	return max(surfaceAtLeast, 2*total)
}

func (c *halt) judgeSurface(window *outage) {
	known, needed := window.refused-window.answered, c.patience()
	if window.answered == never || known < needed {
		// After a last refusal a client may look for a leader for as long as it takes: from then on there is silence, while something is owed.
		known, needed = window.owed-window.from, surfaceSilent
	}
	if known < needed {
		c.remark("outage too short to tell whether it was surfaced")
		return
	}
	if c.w.surface.told(window.from, window.to+surfaceGrace) {
		return
	}
	if c.w.surface.unreadable(window.from, window.to+surfaceGrace) {
		c.skip("the log states no level in a known form: an error in it can't be told")
		c.untold++
		return
	}
	c.saw("failure-not-surfaced", sighting{
		record: none, topic: none, partition: none, offset: none, from: window.from, to: window.to,
		say: func() string {
			return fmt.Sprintf("%d dead-letter writes failed for %s and no instance logged an error or ended with one", window.writes,
				near(window.to-window.from))
		},
	})
}

// plannedOutage reports whether the plan aims at the dead letters: then a run in which none was due proves nothing about them. Of a broker or
// a link that happens to carry them, too, that can't be said.
func (c *halt) plannedOutage() bool {
	for i := range c.w.faults {
		planned := &c.w.faults[i].planned
		if planned.MayMiss && len(c.w.faults[i].effects) == 0 {
			continue // nothing hangs on it
		}
		if stopsDeadLetters(planned) && (planned.Kind == "kafka" || planned.Target == "dlq" || slices.Contains(c.w.header.Expect.Invariants, c.result.Name)) {
			return true
		}
	}
	return false
}
