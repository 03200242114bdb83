package assertions

// duplicates: a record succeeds once, and once more for each disruption that justifies it.

import (
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

func duplicatesInvariant() Invariant {
	return Invariant{
		Name:    "duplicates",
		Promise: "A record is processed once, unless a disruption explains a repeat.",
		Rule: "A record succeeds at most once, plus once for each disruption between its first delivery and the " +
			"accepted commit that covers it. An answer that may have been lost on its way counts as a disruption.",
		Evidence: "the answers of the downstream stub, assignments, signals, and commits",
		Cause: "An offset goes back further than the first unfinished record. A poll that timed out delivers the " +
			"same batch again. A goroutine, a thread or a task goes on after its partition was taken away, beside the next.",
		Anomalies: []AnomalyNote{
			{"duplicate", "the record succeeded more often than the run's events explain", []string{
				"1.000 s  attempt 1 is answered success",
				"1.200 s  attempt 2 is answered success; nothing happened in between",
			}},
		},
		of:       "successes",
		needs:    []precondition{seesAttempts("successes")},
		check:    func(r *report) checker { return &duplicates{report: r} },
		observes: []history.Kind{history.KindAttemptEnd},
	}
}

type duplicates struct {
	*report
	suspects []repeated
}

// repeated is a success beyond the allowed number, unless the answer to the previous one was lost.
type repeated struct {
	number    int32
	instance  int16
	successes uint8
	// allowed is the number of successes that disruptions justified by then.
	allowed  int
	from, to time.Duration
	// began is the start of the attempt that had succeeded before, as far as that is known.
	began time.Duration
}

func (c *duplicates) observe(*history.Event) {
	a := c.w.attempt
	if a == nil || a.gone || c.w.classes[a.outcome] != classSuccess {
		return
	}
	r := c.w.record(a.number)
	if a.life != r.lives {
		return
	}
	c.result.Judged++
	if allowed := 1 + c.w.disruptions(a.number, r); int(r.successes) > allowed {
		one := repeated{number: a.number, instance: a.by.instance, successes: r.successes, allowed: allowed,
			from: a.lastSuccess, to: a.end, began: a.lastSuccess}
		if a.before.end == a.lastSuccess {
			one.began = a.before.start
		}
		c.suspects = append(c.suspects, one)
	}
}

func (c *duplicates) finish() Result {
	excused := map[int32]int{}
	for i := range c.suspects {
		s := &c.suspects[i]
		// A lost answer justifies one more success, permanently.
		if why, hidden := c.w.answersHidden(s.number, s.instance, s.began, s.to); hidden {
			excused[s.number]++
			c.withdraw(why)
			continue
		}
		r := c.w.record(s.number)
		if c.w.missed(s.began, s.from) {
			excused[s.number]++
			c.withdraw("answered when the client may have given up")
			continue
		}
		// Another process or copy may have succeeded since the call that failed.
		if most := 1 + excused[s.number] + c.w.disruptions(s.number, r); (c.w.hops || r.several() || s.allowed > 1) &&
			int(s.successes) <= most+c.w.calls.failuresOf(s.number, s.to) {
			c.withdraw("several copies")
			continue
		}
		if p := c.w.home(s.number, r); p != nil && p.unanswered <= s.to {
			c.withdraw("commit unanswered")
			continue
		}
		if int(s.successes) <= s.allowed+excused[s.number] {
			continue
		}
		c.saw("duplicate", c.w.about(s.number, 0, s.to, func() string {
			return fmt.Sprintf("success number %d; what happened until then justifies %d", s.successes,
				s.allowed+excused[s.number])
		}, moment{history.KindAttemptEnd, s.from}, moment{history.KindAttemptEnd, s.to}))
	}
	return c.judgedOrNot(Inconclusive, "no success was seen")
}
