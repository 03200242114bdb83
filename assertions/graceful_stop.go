package assertions

// graceful-stop: an instance that is told to stop with TERM ends within its grace period, and leaves the records that
// it still had to retry to its successor. It neither commits past them nor dead-letters them early.
//
// stop-timeout. The signal is noted before it is sent, the end when the whole process group is gone. The harness kills
// processes that outlast their grace, so a late end shows in two ways:
//
//	TERM ──────── grace ────────▶ exit          it ended by itself, too late: by more than the exit's observation is
//	                                            late, and by more than was stalled
//	TERM ──────── grace ────────▶ KILL, exit    it was there when its grace was over; how much longer it needed is not
//	                                            known, so stalls excuse it as soon as they are more than a stop must keep
//	                                            in reserve, and leave open whether it would have ended
//
// A process that was frozen by STOP in between is not held responsible, and neither is one that something else killed
// before its grace was over. Faults are no excuse: a grace period is promised for exactly such cases as a stop while
// the dead-letter topic is silent.
//
// lost and premature-dead-letter are the anomalies of no-loss and classification, if the stopping process caused them
// after its TERM, for records whose latest failure was retryable and that had attempts left. A record that a commit
// passed before the TERM is not attributed to the stop.

import (
	"fmt"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

func gracefulStopInvariant() Invariant {
	return Invariant{
		Name: "graceful-stop",
		Promise: "An instance that is told to stop ends within its grace period and leaves unfinished records to " +
			"others.",
		Rule: "An instance ends within its grace period after TERM. After TERM it neither commits past a record that " +
			"it still had to retry nor dead-letters one that had attempts left.",
		Evidence: "signals and exits of the processes; attempts, dead-letter writes and commits after the signal; " +
			"stalls and STOP signals excuse a late end, faults do not. A stop that ended by KILL while the machine stood " +
			"still leaves it open",
		Cause: "The shutdown hook flushes everything in memory, as commits or as dead letters. Shutdown waits for a " +
			"retry timer, or for a producer without a timeout. The thread that sleeps through a backoff is never " +
			"interrupted.",
		Scenario: "an instance that gets TERM (consumer-rolling-restart)",
		Anomalies: []AnomalyNote{
			{"stop-timeout", "an instance was still running when its grace period was over", []string{
				"the grace is 5s",
				"4.000 s  instance 0 gets TERM",
				"9.000 s  instance 0 is still there, and gets KILL",
			}},
			{"lost", "a stopping instance committed past a record that it still had to retry, and no instance finished " +
				"it", []string{
				"4.000 s  attempt 1 of record 12 is answered transient",
				"4.050 s  instance 0 gets TERM",
				"4.060 s  instance 0 commits past record 12, and ends",
				"        ... nobody ever tries record 12 again",
			}},
			{"premature-dead-letter", "a stopping instance dead-lettered a record that had attempts left", []string{
				"attempts.max is 3, the grace is 5s",
				"4.000 s  attempt 1 of record 12 is answered transient",
				"4.050 s  instance 0 gets TERM",
				"4.060 s  instance 0 writes record 12 to the dead-letter topic",
			}},
		},
		of:    "stops",
		needs: []precondition{seesEnds()},
		check: func(r *report) checker { return &gracefulStop{report: r} },
		observes: []history.Kind{history.KindInstanceSignal, history.KindInstanceExited, history.KindProduceRequest,
			history.KindShareAckRequest},
	}
}

type gracefulStop struct {
	*report
	stops []stop
	early []suspect
	// killed counts the stops that ended by KILL when their grace was over, of which a stall may be the cause.
	killed int64
}

// stop is the stop of one process.
type stop struct {
	by                    holder
	asked, killed, exited time.Duration
	// noted is the time of the event that reports the end, which may be later than the end.
	noted time.Duration
}

func (c *gracefulStop) observe(e *history.Event) {
	switch e.Kind {
	case history.KindInstanceSignal:
		c.signal(e)
	case history.KindInstanceExited:
		if s := c.stopOf(holder{e.Instance, e.Run}); s != nil && s.exited == never {
			s.exited, s.noted = e.Time-time.Duration(e.Aux), e.Time
		}
	case history.KindProduceRequest, history.KindShareAckRequest:
		for _, one := range c.w.lettersAsked(e) {
			c.judgeLetter(&one)
		}
	}
}

func (c *gracefulStop) signal(e *history.Event) {
	s := c.stopOf(holder{e.Instance, e.Run})
	switch e.Text {
	case "TERM", "SIGTERM", "INT", "SIGINT":
		if s == nil && e.Instance >= 0 {
			c.stops = append(c.stops, stop{by: holder{e.Instance, e.Run}, asked: e.Time, killed: never, exited: never})
		}
	case "KILL", "SIGKILL":
		if s != nil && s.killed == never && s.exited == never {
			s.killed = e.Time
		}
	}
}

// stopOf returns the stop of the process, or nil if it was not told to stop. Lookups are mostly for the latest stops.
func (c *gracefulStop) stopOf(by holder) *stop {
	for i := len(c.stops) - 1; i >= 0; i-- {
		if c.stops[i].by == by {
			return &c.stops[i]
		}
	}
	return nil
}

// judgeLetter notes a record with attempts left that a stopping process dead-letters.
func (c *gracefulStop) judgeLetter(one *write) {
	r, s, limit := c.w.record(one.record), c.stopOf(one.by), c.w.contract.LeastAttempts()
	b := &one.before
	if s == nil || r.exempt() || r.several() || limit == 0 || int(one.attempts) >= limit ||
		c.w.enough(one) || c.w.perhapsUnread(one.at) || !b.any || !b.ended || c.w.classes[b.outcome] != classRetryable {
		return
	}
	// The write is the state's buffer, which the next write reuses. The values needed at the end are copied.
	attempts, asked, at, instance := one.attempts, s.asked, one.at, one.by.instance
	c.early = append(c.early, suspect{
		anomaly: "premature-dead-letter", number: one.record, instance: instance, from: r.born.At(), to: at, unseen: true,
		answered: b.start, told: b.end, marks: []moment{{history.KindInstanceSignal, asked}, one.mark()},
		say: func() string {
			return fmt.Sprintf("dead-lettered%s, %s after instance %d was told to stop", c.w.outOf(attempts),
				units.Text(at-asked), instance)
		},
	})
}

func (c *gracefulStop) finish() Result {
	for i := range c.stops {
		c.judgeStop(&c.stops[i])
	}
	c.accuse(c.early)
	c.judgeLosses()
	if len(c.stops) == 0 {
		return c.w.unjudged(c.report, "no instance was told to stop")
	}
	if c.killed > 0 { // it may as well have waited for ever, so this run does not show that it stops
		return c.done(Inconclusive, fmt.Sprintf("%s of %d ended by KILL only, while the machine stood still",
			units.Plural(c.killed, "stop", "stops"), len(c.stops)))
	}
	if c.result.Judged == 0 {
		return c.w.unjudged(c.report, "none of the stops could be judged, as something was in the way")
	}
	return c.done(Pass, "")
}

// judgeStop judges the duration of one stop.
func (c *gracefulStop) judgeStop(s *stop) {
	grace := c.w.contract.StopGrace
	if s.killed != never && s.exited != never && s.exited <= s.killed {
		s.killed = never // it had ended, and its end had not been reported yet
	}
	ran := s.exited
	if s.killed != never {
		ran = s.killed
	}
	if ran == never {
		c.skip("end not seen")
		return
	}
	over := ran - s.asked - grace
	stalled, frozen := c.w.stalls.kept(s.by.instance, s.asked, ran)
	switch {
	case grace <= 0:
		c.result.Judged++ // no time is promised, but the treatment of its records is judged
	case frozen:
		c.skip("stopped by a signal")
	case s.killed != never && over < 0:
		c.skip("killed before its grace was over")
	case s.killed != never && stalled > over+max(grace/reserveShare, reserveLeast):
		c.skip(stallExcuse)
		c.killed++
	case s.killed == never && over > exitPrecision && stalled >= over-exitPrecision:
		c.skip(stallExcuse)
	default:
		c.result.Judged++
		if s.killed != never || over > exitPrecision {
			c.sawLate(s, ran-s.asked)
		}
	}
}

// kept returns how long the instance was kept from running, and whether it was stopped by a signal. Stalls of the
// harness, which shares the machine, count only as far as they exceed the usual noise.
func (s *spans) kept(instance int16, from, to time.Duration) (total time.Duration, stopped bool) {
	for i := range s.list {
		one := &s.list[i]
		if one.from > to || one.to < from {
			continue
		}
		if one.instance == instance || one.instance == none && one.lasted >= harnessNoise {
			total += one.lasted
			stopped = stopped || one.stopped
		}
	}
	return total, stopped
}

func (c *gracefulStop) sawLate(s *stop, ran time.Duration) {
	end := moment{history.KindInstanceExited, s.noted}
	if s.killed != never {
		end = moment{history.KindInstanceSignal, s.killed}
	}
	by, killed := s.by, s.killed != never
	c.saw("stop-timeout", sighting{
		record: none, topic: none, partition: none, offset: none, from: s.asked, to: max(s.noted, s.killed),
		marks: []moment{{history.KindInstanceSignal, s.asked}, end},
		say: func() string {
			if killed {
				return fmt.Sprintf("instance %d had not ended %s after TERM, and was killed; its grace is %s", by.instance,
					units.Text(ran), units.Text(c.w.contract.StopGrace))
			}
			return fmt.Sprintf("instance %d ended %s after TERM; its grace is %s", by.instance, units.Text(ran),
				units.Text(c.w.contract.StopGrace))
		},
	})
}

// judgeLosses looks for records that a stopping process dropped, among those that a commit passed before they were
// finished.
func (c *gracefulStop) judgeLosses() {
	if len(c.stops) == 0 || len(c.w.passes) == 0 {
		return
	}
	for i := range c.w.passes {
		one := &c.w.passes[i]
		s := c.stopOf(one.by)
		if s == nil || !one.accepted || one.at < s.asked || one.state != nil {
			continue
		}
		number, r := one.number, c.w.record(one.number)
		if r == nil || !c.dropped(number, r, one, c.w.foundOf.of(number)) {
			continue
		}
		if c.w.contract.AutoCommit {
			c.remark("commits follow time, by contract")
			continue
		}
		if why := c.w.unknowable(number, r, r.attempts, endless); why != "" {
			c.remark(why)
			continue
		}
		asked, at := s.asked, one.at
		c.saw("lost", c.w.about(number, 0, endless, func() string {
			return fmt.Sprintf(
				"it was still to be retried when %s by instance %d, %s after that was told to stop; nobody finished it",
				c.w.deed(one), s.by.instance, units.Text(at-asked))
		}, moment{history.KindInstanceSignal, asked}, moment{history.KindCommitRequest, at}))
	}
}

// dropped reports whether the record was waiting for a retry by the process that passed it, and can no longer be
// finished.
func (c *gracefulStop) dropped(number int32, r *record, one *pass, letters []*letter) bool {
	limit := c.w.contract.MaxAttempts
	waiting := r.held == one.by && r.has(markEnded) && c.w.classes[r.outcome] == classRetryable &&
		(limit == 0 || int(r.inSeries) < limit)
	at := c.w.position(number, r)
	p := c.w.partition(at.topic, at.partition)
	if !waiting || c.w.letterAsked(r) >= 0 || p == nil || !p.audited || !p.committedAt(at.offset) ||
		!c.w.unfinished(number, r, at, letters) {
		return false
	}
	return c.w.standsStill() || c.w.allExited(p.auditedAt)
}

// unjudged is the result of a checker that had nothing to judge. The run may pass without it, unless its scenario
// requires this invariant.
func (w *state) unjudged(r *report, why string) Result {
	if slices.Contains(w.header.Expect.Invariants, r.result.Name) {
		return r.done(Inconclusive, why)
	}
	return r.done(NotApplicable, why)
}
