package assertions

// halt-on-dlq-failure, for a subject without a dead-letter topic that promises to end when a record has failed for good
// (Contract.ExitsExhausted): the process that made the last attempt of a series ends by itself, with an error.
// commit-after-outcome, to which such a record is unfinished, judges that it commits nothing past the record.

import (
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

type exits struct {
	*report
	exhausted []exhaustion
	last      time.Duration
}

// exhaustion is the end of a series whose last attempt failed.
type exhaustion struct {
	number int32
	by     holder
	at     time.Duration
	// told is when something else ended the process, exited when it ended; both may be never.
	told, exited time.Duration
	code         int16
}

func (c *exits) observe(e *history.Event) {
	c.last = max(c.last, e.Time)
	switch e.Kind {
	case history.KindAttemptEnd:
		c.note(c.w.attempt)
	case history.KindInstanceSignal, history.KindInstanceExited:
		by := holder{e.Instance, e.Run}
		for i := range c.exhausted {
			one := &c.exhausted[i]
			switch {
			case one.by != by || one.exited != never:
			case e.Kind == history.KindInstanceExited:
				one.exited, one.code = e.Time-time.Duration(max(e.Aux, 0)), e.Code
			case one.told == never:
				one.told = e.Time
			}
		}
	}
}

// note notes a failed attempt that was the last of its series. An attempt that may belong to an earlier assignment, or
// to several series, proves nothing, and neither does one in a call for several records.
func (c *exits) note(a *attempt) {
	if a == nil || a.stray || a.within.isForSeveral() || a.life != c.w.record(a.number).lives ||
		c.w.record(a.number).has(markMixed) || c.w.record(a.number).several() {
		return
	}
	switch c.w.classes[a.outcome] {
	case classPermanent:
	case classRetryable:
		if c.w.contract.MaxAttempts == 0 || int(a.k) < c.w.contract.MaxAttempts ||
			c.w.withinCalls(a.number, c.w.contract.MaxAttempts-1) {
			return
		}
	default:
		return
	}
	c.exhausted = append(c.exhausted, exhaustion{number: a.number, by: a.by, at: a.end, told: never, exited: never})
}

func (c *exits) finish() Result {
	for i := range c.exhausted {
		c.judge(&c.exhausted[i])
	}
	return c.judgedOrNot(NotApplicable, "no record failed for good")
}

func (c *exits) judge(one *exhaustion) {
	limit := one.at + c.w.contract.StopGrace + endingTime
	ended := one.exited != never && one.exited <= limit
	switch {
	case one.told != never && one.told <= limit && (!ended || one.told <= one.exited):
		c.skip("the process was told to end, too")
		return
	case !ended && c.last < limit:
		c.skip("the run ended first")
		return
	}
	c.result.Judged++
	if ended && one.code != 0 {
		return
	}
	c.saw("failure-not-surfaced", c.w.about(one.number, 0, limit, func() string {
		if ended {
			return fmt.Sprintf("instance %d exhausted its attempts, and ended %s later as if nothing had happened (exit code 0)",
				one.by.instance, units.Text(one.exited-one.at))
		}
		return fmt.Sprintf("instance %d exhausted its attempts, and still ran %s later", one.by.instance,
			units.Text(limit-one.at))
	}, moment{history.KindAttemptEnd, one.at}))
}
