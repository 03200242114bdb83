package assertions

// call-timeouts: a call that gets no answer is given up by the consumer itself.

import (
	"fmt"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

func callTimeoutsInvariant() Invariant {
	return Invariant{
		Name:         "call-timeouts",
		Experimental: true,
		Promise:      "A call that gets no answer is given up by the consumer itself.",
		Rule: "When the downstream stub leaves a call unanswered, the consumer closes the connection or cancels the call " +
			"within " + units.Text(unanswered) + ". The stub then closes the connection. Calls that a fault ends earlier are " +
			"not judged, and neither are those over a link that may have hidden that the client left, or while the process or " +
			"the harness could not run.",
		Evidence: "the attempts that the downstream stub leaves unanswered, and which side ended them",
		Cause: "The client has no timeout, as is the default of Go's http.Client, Python's requests, axios and Spring's " +
			"RestTemplate, or a longer one. A downstream that hangs then stops the consumer, until the process loses its " +
			"partitions (max.poll.interval.ms) and the next one hangs at the same record.",
		Scenario: "calls that are left unanswered (transient-downstream)",
		Anomalies: []AnomalyNote{
			{"never-given-up", "the consumer waited until the downstream closed the connection", []string{
				"1.000 s  attempt 1 starts",
				"31.00 s  no answer came, and the client still waits",
			}},
		},
		of:       "calls without an answer",
		needs:    []precondition{seesAttempts("calls")},
		check:    func(r *report) checker { return &callTimeouts{report: r} },
		observes: []history.Kind{history.KindAttemptEnd},
	}
}

type callTimeouts struct{ *report }

func (c *callTimeouts) observe(*history.Event) {
	a := c.w.attempt
	if a == nil || a.outcome != history.OutcomeTimeout {
		return
	}
	if a.gone {
		c.result.Judged++
		return
	}
	waited := a.end - a.start
	if waited < unanswered {
		return
	}
	if why, hidden := c.w.answersHidden(a.number, a.by.instance, a.start, a.end); hidden {
		c.skip(why)
		return
	}
	c.result.Judged++
	c.saw("never-given-up", c.w.about(a.number, a.start, a.end, func() string {
		return fmt.Sprintf("the call got no answer, and its client still waited after %s", units.Text(waited))
	}, moment{history.KindAttemptStart, a.start}, moment{history.KindAttemptEnd, a.end}))
}

func (c *callTimeouts) finish() Result {
	return c.judgedOrNot(NotApplicable, "no call was left unanswered")
}
