package assertions

// bounded-retries: a retryable record is attempted as often as the contract says before it is given up, neither more
// nor less, and is not redelivered endlessly.
//
// Too many attempts are proven by the downstream stub's observations, within one series. Too few are proven only if
// nothing could have hidden an attempt: no fault on the link to the stub, no process stopped or stalled. If the count
// is kept in the process, attempts of a process that had the partition before may belong to the earlier delivery. So a
// record that it may have had then is allowed the attempts of all its deliveries, or one more.

import (
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

func boundedRetriesInvariant() Invariant {
	return Invariant{
		Name:    "bounded-retries",
		Promise: "A record that keeps failing with retriable errors is attempted exactly as often as promised.",
		Rule: "A series, which is the attempts between two events that justify a fresh count, has the contract's " +
			"maximum of attempts when every one fails. A new series needs such an event: a restart, the loss of the " +
			"partition, a failed dead-letter write, or a return to the last commit because a later one failed or a " +
			"transaction was aborted. Such a failure justifies one return. After some errors, " +
			"clients fail further writes without a request: librdkafka after TOPIC_AUTHORIZATION_FAILED, idempotent producers " +
			"after CLUSTER_AUTHORIZATION_FAILED and errors of their sequence or epoch. Until a dead letter is acknowledged, a " +
			"write may then have failed after the last promised attempt.",
		Evidence: "the attempts of each process at the downstream stub, and assignments; too few attempts are " +
			"reported only when none can have been missed",
		Cause: "Retries and attempts are confused, which is off by one. The count is kept where every redelivery " +
			"clears it. The retry sits outside the dead-letter middleware and never runs.",
		Contract: "attempts: {max: 3}, with your number, or {max: unlimited}",
		Scenario: "records that fail and are tried again (transient-downstream)",
		Anomalies: []AnomalyNote{
			{"over-retried", "one series has more attempts than promised", []string{
				"attempts.max is 3",
				"1.000 s  attempt 1 is answered transient",
				"1.100 s  attempt 2 is answered transient",
				"1.300 s  attempt 3 is answered transient",
				"1.700 s  attempt 4 starts",
			}},
			{"under-retried", "the record was given up after fewer attempts than promised", []string{
				"attempts.max is 3",
				"1.000 s  attempt 1 is answered transient",
				"1.100 s  attempt 2 is answered transient",
				"1.110 s  instance 0 writes it to the dead-letter topic",
			}},
			{"endless-redelivery", "the count starts again and again although nothing justifies it", []string{
				"attempts.max is 3",
				"1.000 s  attempt 1 is answered transient",
				"1.300 s  attempt 3 is answered transient",
				"1.700 s  attempt 4 starts",
				"2.700 s  attempt 7 starts; no restart and no rebalance lies between",
			}},
		},
		of: "series",
		needs: []precondition{seesAttempts("attempts"), {
			func(w *state) bool { return w.contract.LeastAttempts() != 0 }, Unpromised,
			"the contract names no number of attempts",
		}},
		check:    func(r *report) checker { return &boundedRetries{report: r, over: map[int32]overrun{}} },
		observes: []history.Kind{history.KindAttemptStart, history.KindProduceRequest, history.KindShareAckRequest},
	}
}

type boundedRetries struct {
	*report
	over  map[int32]overrun
	under []shortfall
}

// overrun is a series with more attempts than promised.
type overrun struct {
	attempts uint16
	limit    int
	from, to time.Duration
}

// shortfall is a dead letter requested after fewer attempts than promised.
type shortfall struct {
	number   int32
	instance int16
	attempts uint16
	from, at time.Duration
	rush     bool
	asked    moment
}

func (c *boundedRetries) observe(e *history.Event) {
	if c.w.attempt != nil {
		c.judgeAttempt(c.w.attempt)
	}
	for _, one := range c.w.lettersAsked(e) {
		c.judgeLetter(&one)
	}
}

func (c *boundedRetries) judgeAttempt(a *attempt) {
	if a.fresh {
		c.result.Judged++
	}
	r := c.w.record(a.number)
	limit := c.w.contract.MaxAttempts
	if c.w.contract.Unlimited {
		return
	}
	if c.w.share {
		limit = c.w.limitOfShared(a.number, r)
	} else if !c.w.memory {
		// The count travels with each copy; a disruption may have made a further copy, or have caused one to be
		// attempted twice.
		limit *= 1 + c.w.disruptions(a.number, r)
	} else if r.has(markMixed) {
		// Each of its deliveries in this process may still be making its own attempts.
		limit *= 1 + max(1, c.w.disruptions(a.number, r))
	} else if c.w.heldBefore(c.w.home(a.number, r), a.number, r) {
		limit++
	}
	limit *= r.copies()
	if int(a.k) > limit && !c.w.withinCalls(a.number, limit) {
		c.over[a.number] = overrun{attempts: max(a.k, c.over[a.number].attempts), limit: limit, from: r.seriesStart.At(),
			to: a.start}
	}
}

// limitOfShared is the number of attempts that the series of a share group's record may have. If the broker counts,
// each delivery that was not requested by a release may repeat an attempt. If the process counts, a process that has
// the record again may still be making attempts of the earlier delivery.
func (w *state) limitOfShared(number int32, r *record) int {
	limit, d := w.contract.MaxAttempts, w.deliveryOf(number, r)
	switch {
	case w.memory && r.has(markMixed):
		return 2 * limit
	case !w.memory && d != nil:
		return limit + int(d.forced) + int(r.excuses)
	}
	return limit
}

// judgeLetter notes a dead letter that came too soon after retryable failures only. classification reports records that
// were given up without an attempt.
func (c *boundedRetries) judgeLetter(one *write) {
	r := c.w.record(one.record)
	if one.attempts == 0 || c.w.classes[one.before.outcome] != classRetryable || r.exempt() ||
		r.several() || c.w.enough(one) || c.w.perhapsUnread(one.at) {
		return // of several copies, one may have been attempted before the next was written back
	}
	made := one.attempts
	// A record that moved from one process to one other: the other knows only its own attempts. In other cases, only
	// the sum is certain.
	if c.w.memory && one.hops == 1 && one.sameDelivery {
		made = one.inRun
	}
	if least := c.w.contract.LeastAttempts(); int(made) < least {
		c.under = append(c.under, shortfall{one.record, one.by.instance, made, c.w.triedSince(one), one.at,
			c.w.rushed(one, least), one.mark()})
	}
}

func (c *boundedRetries) finish() Result {
	c.judgeOver()
	for i := range c.under {
		one := &c.under[i]
		if why, hidden := c.w.attemptsHidden(one.number, one.instance, one.from, one.at, one.rush); hidden {
			c.withdraw(why)
			continue
		}
		c.saw("under-retried", c.w.about(one.number, 0, one.at, func() string {
			return fmt.Sprintf("dead-lettered after %s; the contract promises %s", retryable(int(one.attempts)), c.w.tries())
		}, one.asked))
	}
	if !c.w.contract.HasDLQ() {
		c.judgeGivenUp()
	}
	return c.judgedOrNot(Inconclusive, "no attempt was seen")
}

func (c *boundedRetries) judgeOver() {
	for number := range c.w.records.count {
		one, known := c.over[int32(number)]
		if !known {
			continue
		}
		if limit := c.w.contract.MaxAttempts * (1 + c.w.disruptions(int32(number),
			c.w.record(int32(number)))); c.w.hops && int(one.attempts) <= limit {
			c.withdraw("several copies")
			continue
		}
		if why, hides := c.w.mayHideRepeats(int32(number), c.w.record(int32(number)).held.instance, one.from,
			one.to); hides {
			c.withdraw(why)
			continue
		}
		name := "over-retried"
		if int(one.attempts) > 2*one.limit {
			// Not a single extra attempt: the series started over, and nothing happened that would justify that.
			name = "endless-redelivery"
		}
		c.saw(name, c.w.about(int32(number), one.from, one.to, func() string {
			if most := c.w.contract.MaxAttempts; one.limit > most {
				return fmt.Sprintf("%d attempts in one series; the contract allows %d, and what happened to the record "+
					"justifies %d", one.attempts, most, one.limit)
			}
			return fmt.Sprintf("%d attempts in one series; the contract allows %d", one.attempts, one.limit)
		}, moment{history.KindAttemptStart, one.to}))
	}
}

// judgeGivenUp judges records that are given up by a commit past them, without a dead-letter topic.
func (c *boundedRetries) judgeGivenUp() {
	for i := range c.w.passes {
		p := &c.w.passes[i]
		r := c.w.stateOf(p)
		if !p.accepted || r.exempt() || r.several() || r.attempts == 0 || c.w.classOfLast(r) != classRetryable ||
			int(r.attempts) >= c.w.contract.LeastAttempts() || c.w.wentOn(p, r) || c.w.forfeited(p.number, r) {
			continue
		}
		if why, hidden := c.w.answersHidden(p.number, r.held.instance, r.born.At(), p.at); hidden {
			c.withdraw(why)
			continue
		}
		c.saw("under-retried", c.w.about(p.number, 0, p.at, func() string {
			return fmt.Sprintf("given up after %s; the contract promises %s", retryable(int(r.attempts)), c.w.tries())
		}, moment{history.KindCommitRequest, p.at}))
	}
}

// wentOn reports whether the record was attempted after the commit that passed it, perhaps by a process that had lost
// the partition.
func (w *state) wentOn(p *pass, r *record) bool {
	return r.lastStart.At() > p.at || r.attempts > p.attempts
}

// tries says how often a record is attempted that keeps failing.
func (w *state) tries() string {
	if w.contract.Unlimited {
		return "to try until it succeeds"
	}
	return units.Plural(int64(w.contract.MaxAttempts), "attempt", "attempts")
}

func retryable(failures int) string {
	return units.Plural(int64(failures), "retryable failure", "retryable failures")
}
