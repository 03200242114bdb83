package assertions

// halt-on-dlq-failure: while no dead letter can be written, no commit passes the first undeliverable record, and the
// failure shows.
//
// A window begins with the first dead-letter write that fails after the last one that succeeded, and ends with the next
// one that succeeds. No dead letter could be written within it. Silence about the failure is held against a subject
// from the time by which its client must have reported the failure:
//
//	answer                                     client                     silence counts after
//	final (TOPIC_AUTHORIZATION_FAILED)         fails the write at once    3 s, or twice all the waits of a series
//	may pass (NOT_ENOUGH_REPLICAS), or none    retries by itself          the contract's dlq.surfaced_within, or 5 min
//
// Five minutes are librdkafka's message.timeout.ms, the longest default delivery timeout of the clients (Java: 2 min).
// Both times are measured per process, from its first failed write in the window to the last sign that it still
// retries. So neither a process that has ended nor one that was stopped has to report the failure.
//
// A failure shows in a log line that reports an error, in an exit with an error, or in the health that the contract
// names. In a log without levels, any line may be a report, and so in a log that is not seen. In that case nothing is
// held against the subject, and the invariant is inconclusive.
//
// The contract also says how a process reacts to a refusal. stopped-trying is a process that promised to keep retrying
// and does nothing. did-not-crash is a process that promised to end with an error, and runs on or ends without one. A
// process that promised to stay and ends has crashed (stays-up). See state_refused.go.

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

func haltInvariant() Invariant {
	return Invariant{
		Name: "halt-on-dlq-failure",
		Promise: "While dead letters cannot be written, commits stop at the first affected record, and the consumer " +
			"reports the failure.",
		Rule: "While every dead-letter write fails, no accepted commit passes a record whose dead letter is " +
			"outstanding. The failure counts as reported when an error is logged (or a warning that names the error of " +
			"the write, or the dead-letter topic), when a process ends with an error code, or when the health URL of " +
			"the contract turns bad. After an error that is final (TOPIC_AUTHORIZATION_FAILED), a report is due after " +
			"three seconds and twice the waits of a whole series. An error that may pass (NOT_ENOUGH_REPLICAS), or no " +
			"answer at all, is retried by clients themselves, so a report is due within the contract's " +
			"dlq.surfaced_within, or within five minutes, librdkafka's message.timeout.ms. If no line of the log states " +
			"a level, or the log is not seen, reports cannot be recognised and the invariant is inconclusive. A " +
			"subject without dead letters that promises to end (on_exhausted: exit) ends with an error after the last " +
			"attempt of a series. " +
			"on_failure says what a process does after a refusal. retry: it keeps trying; a process that makes neither " +
			"an attempt nor a write for 30 s plus its longest promised wait has stopped trying. crash: it ends with a " +
			"code above 0 within that time plus its stop grace, after an error that no client retries by itself " +
			"(MESSAGE_TOO_LARGE, TOPIC_AUTHORIZATION_FAILED, INVALID_RECORD and similar). halt: it commits nothing past " +
			"the record and reports it. A process that promised halt or retry and ends has crashed (stays-up).",
		Evidence: "the answers to dead-letter writes, attempts, commits, log lines, exit codes, and health",
		Cause: "The error of the write is logged and then treated as success. The recoverer's exception is swallowed " +
			"so that the partition can go on. A client retries for ever and reports nothing.",
		Contract: "dlq: {enabled: true}, and commits: after-outcome; add surfaced_within: 10s if you can promise it",
		Scenario: "dead-letter writes that fail (dlq-publish-failure)",
		Anomalies: []AnomalyNote{
			{"commit-advanced-while-dlq-down", "a commit passed an undeliverable record during the outage", []string{
				"4.000 s  the dead letter of record 9 is refused (NOT_ENOUGH_REPLICAS)",
				"4.100 s  instance 0 commits up to offset 10",
				"9.000 s  dead letters can be written again",
			}},
			{"failure-not-surfaced", "dead letters failed for a long time and nothing reported it; or a process that " +
				"promised to end went on, or ended with code 0", []string{
				"4.000 s  the dead letter of record 9 is refused (TOPIC_AUTHORIZATION_FAILED), and again every second",
				"9.000 s  dead letters can be written again; until then no line of the log reports an error, and no process " +
					"ended",
			}},
			{"stopped-trying", "a process that promised to keep trying after a refusal (on_failure: retry) did nothing " +
				"any more", []string{
				"on_failure is retry",
				"4.000 s  the dead letter of record 9 is refused (NOT_ENOUGH_REPLICAS)",
				"        ... no attempt and no write of instance 0, which has the partition",
				"36.000 s  instance 0 writes it again",
			}},
			{"did-not-crash", "a process that promised to end after a refusal (on_failure: crash) kept running, or " +
				"ended with code 0", []string{
				"on_failure is crash",
				"4.000 s  the dead letter of record 9 is refused (MESSAGE_TOO_LARGE)",
				"50.000 s  instance 0 still runs",
			}},
		},
		of:    "failed and outstanding dead letters",
		needs: unless(exitsExhausted, append(commitsFollowOutcomes(), hasDLQ(), writesDLQ(brokerWrites))...),
		check: newHalt,
		observes: []history.Kind{history.KindProduceRequest, history.KindProduceResponse, history.KindAttemptEnd,
			history.KindInstanceSignal, history.KindInstanceExited},
	}
}

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
	// leaky holds the planned outages during which a dead letter was written nevertheless.
	leaky map[int]bool
	// untold counts the windows in which the subject may have reported the failure in an unreadable log.
	untold int
}

// outage is an interval in which every dead-letter write failed.
type outage struct {
	from, to time.Duration
	writers  map[holder]*writer
	// codes are the errors in the answers to its writes.
	codes  []int16
	writes int64
}

// writer is a process whose dead-letter writes fail.
type writer struct {
	// from is the time of its first failed request, refused the time of the first final refusal (never if there was
	// none), last the time of the last sign that it retries.
	from, refused, last time.Duration
	records             map[int32]bool
}

// exitsExhausted reports whether the contract promises that exhausted records end the process, and no dead letters.
func exitsExhausted(w *state) bool {
	return w.contract.ExitsExhausted && !w.contract.HasDLQ() && !w.contract.WireOnly
}

func newHalt(r *report) checker {
	if exitsExhausted(r.w) {
		r.result.Of = "exhausted series"
		return &exits{report: r}
	}
	return &halt{report: r, pending: map[int64]time.Duration{}, leaky: map[int]bool{}}
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
		if by := c.now.writers[one.by]; by != nil && by.records[one.record] {
			by.last = max(by.last, one.at)
		}
		c.close(e.Time)
		c.got(e.Time, c.w.record(one.record))
		return
	}
	c.fail(one, e)
}

// got notes a dead letter that was written. While its link is down, a subject may not even be able to request a write,
// so that no write is seen to fail. Then the outage itself is the window.
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
		waited = waited || r.lastEnd.At() >= 0 && (!f.healed || r.lastEnd.At() <= f.to)
	}
	if waited {
		c.waited++
	}
}

// fail extends the window by a failed write, or begins one. A write that was requested before the last success may fail
// after it; the window then begins with its failure.
func (c *halt) fail(one *write, e *history.Event) {
	c.failed++
	asked := one.at
	if !c.open {
		c.now, c.open = outage{from: asked, to: e.Time, writers: map[holder]*writer{}}, true
		if n := len(c.windows); n > 0 && c.windows[n-1].to >= asked {
			c.now.from = e.Time
		}
	}
	c.now.writes++
	c.now.to = max(c.now.to, e.Time)
	asked = max(asked, c.now.from)
	by := c.now.writers[one.by]
	if by == nil {
		by = &writer{from: asked, refused: never, last: asked, records: map[int32]bool{}}
		c.now.writers[one.by] = by
	}
	by.from, by.last, by.records[one.record] = min(by.from, asked), max(by.last, asked), true
	if one.silent {
		return
	}
	by.last = max(by.last, e.Time)
	if !slices.Contains(c.now.codes, e.Code) {
		c.now.codes = append(c.now.codes, e.Code)
	}
	if by.refused == never && final(e.Code) {
		by.refused = e.Time
	}
}

// final reports whether clients fail a write at once when it is answered with the error: Kafka does not classify the
// error as retriable, and it does not concern the producer's own state, which clients repair by themselves. A status of
// a service is final if it says that the request is at fault.
func final(code int16) bool {
	if history.IsStatus(code) {
		later := code == http.StatusRequestTimeout || code == http.StatusTooEarly || code == http.StatusTooManyRequests
		return code < http.StatusInternalServerError && !later
	}
	switch code {
	case kerr.OutOfOrderSequenceNumber.Code, kerr.DuplicateSequenceNumber.Code, kerr.InvalidProducerEpoch.Code,
		kerr.UnknownProducerID.Code, kerr.ProducerFenced.Code, kerr.InvalidProducerIDMapping.Code:
		return false
	}
	known := kerr.TypedErrorForCode(code)
	return known != nil && !known.Retriable
}

func (c *halt) close(at time.Duration) {
	if !c.open {
		return
	}
	c.open = false
	c.now.to = at
	for _, by := range c.now.writers {
		by.records = nil
	}
	if c.now.to-c.now.from >= windowAtLeast {
		c.windows = append(c.windows, c.now)
	}
}

func (c *halt) finish() Result {
	c.failed += int64(len(c.pending))
	for i := 0; c.open && i < len(c.w.passes); i++ {
		c.denied(&c.w.passes[i])
	}
	c.close(c.now.to)
	for i := range c.w.faults {
		f := &c.w.faults[i]
		if f.injected && len(f.effects) > 0 && !c.leaky[i] && stopsDeadLetters(&f.planned) && f.to-f.from >= 2*windowAtLeast {
			c.planned = append(c.planned, outage{from: f.from + windowAtLeast, to: f.to})
		}
	}
	c.result.Judged = c.failed + c.waited
	for i := range c.w.passes {
		c.w.passesOf(&c.w.passes[i], c.judgePass)
	}
	for i := range c.windows {
		c.judgeSurface(&c.windows[i])
	}
	for i := range c.w.unkept {
		c.judgeUnkept(&c.w.unkept[i])
	}
	if c.result.Judged == 0 && c.plannedOutage() {
		return c.done(Inconclusive, "the plan breaks dead-letter writes, but no dead letter was due meanwhile")
	}
	if c.untold > 0 {
		return c.done(Inconclusive, "dead letters were refused for long, and whether the subject reported it can't be "+
			"told: "+c.untoldWhy())
	}
	return c.judgedOrNot(NotApplicable, "no dead-letter write failed, and nothing of the plan should have made one fail")
}

// denied extends the last outage by the commit of a process that had a final refusal and wrote no dead letter since,
// past a record that owed one: its client denies writes by itself, as librdkafka and idempotent producers do.
func (c *halt) denied(p *pass) {
	r, by := c.w.stateOf(p), c.now.writers[p.by]
	if by == nil || by.refused == never || c.w.letterAsked(r) >= 0 {
		return
	}
	least := c.w.contract.LeastAttempts()
	spent := c.w.classOfLast(r) == classRetryable && least > 0 && int(r.attempts) >= least
	if spent || c.w.classOfLast(r) == classPermanent {
		by.last, c.now.to = max(by.last, p.at), max(c.now.to, p.at)
	}
}

// untoldWhy says why it is not known whether the subject reported a failure, and what to do about that.
func (c *halt) untoldWhy() string {
	if c.w.contract.ProcessUnseen {
		return "dlqbench does not start this consumer, so its log is not seen, and it has no health that turned bad. Name " +
			"the URL of a health that turns bad then (contract.health)"
	}
	return "no line of its log states a level in a form that dlqbench knows. Write levels in one of the forms that " +
		"docs/subjects.md lists, or name the URL of its health (contract.health)"
}

// judgePass reports a commit that, within a window, passed a record of which only the dead letter was outstanding.
func (c *halt) judgePass(p *pass) {
	r := c.w.stateOf(p)
	if !p.accepted || !c.w.owesLetter(p) || r.lastStart.At() > p.at ||
		c.w.letterAcked(r) >= 0 && c.w.letterAcked(r) <= p.at {
		return
	}
	for _, window := range slices.Concat(c.windows, c.planned) {
		if p.at < window.from || p.at > window.to {
			continue
		}
		c.saw("commit-advanced-while-dlq-down", c.w.about(p.number, 0, max(p.at, window.to), func() string {
			return fmt.Sprintf("%s although the dead letter of offset %d could not be written, %s into an outage of %s",
				c.w.deed(p), p.place.offset, units.Text(p.at-window.from), units.Text(window.to-window.from))
		}, moment{history.KindProduceRequest, c.w.letterAsked(r)}, moment{history.KindCommitRequest, p.at}))
		return
	}
}

// patience is how long final refusals must have continued before silence about them counts.
func (c *halt) patience() time.Duration {
	total := time.Duration(0)
	b := &c.w.contract.Backoff
	for k := 1; k < min(max(c.w.contract.MaxAttempts, 3), 64) && total < time.Hour; k++ {
		total += b.Wait(k) + b.Jitter
	}
	return max(surfaceAtLeast, 2*total)
}

// owed reports whether a process has known of the failure for long enough to have reported it. Time in which it was
// stopped does not count.
func (c *halt) owed(window *outage) bool {
	patience, unsaid := c.patience(), cmp.Or(c.w.contract.SurfacedWithin, surfaceUnsaid)
	for by, w := range window.writers {
		awake := func(since time.Duration) time.Duration {
			return w.last - since - c.w.stalls.frozen(by.instance, since, w.last)
		}
		if awake(w.from) >= unsaid || w.refused != never && awake(w.refused) >= patience {
			return true
		}
	}
	return false
}

func (c *halt) judgeSurface(window *outage) {
	if !c.owed(window) {
		c.remark("outage too short to tell whether it was surfaced")
		return
	}
	if c.w.surface.told(window.from, window.to+surfaceGrace, window.codes) {
		return
	}
	if c.w.contract.ProcessUnseen {
		c.skip("dlqbench does not start this consumer, so its log is not seen, and its health did not turn bad")
		c.untold++
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
			return fmt.Sprintf("%d dead-letter writes failed for %s and no instance logged an error or ended with one",
				window.writes, units.Text(window.to-window.from))
		},
	})
}

// plannedOutage reports whether the plan targets the dead letters. If it does, a run in which none was due proves
// nothing about them. This does not hold for a fault on a broker or a link that also carries dead letters.
func (c *halt) plannedOutage() bool {
	for i := range c.w.faults {
		planned := &c.w.faults[i].planned
		if planned.MayMiss && len(c.w.faults[i].effects) == 0 {
			continue // no dead letter depends on it
		}
		if stopsDeadLetters(planned) && (planned.Kind == "kafka" || planned.Target == "dlq" ||
			slices.Contains(c.w.header.Expect.Invariants, c.result.Name)) {
			return true
		}
	}
	return false
}
