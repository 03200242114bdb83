package assertions

// dlq-once: a record has one dead letter, and one more for each disruption that justifies it. The audit counts. If it
// did not read the dead-letter topic, the acknowledged writes count, and an idempotent producer's repeats count once.

import (
	"fmt"
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

func dlqOnceInvariant() Invariant {
	return Invariant{
		Name:    "dlq-once",
		Promise: "A record is dead-lettered once, unless a disruption explains a second copy.",
		Rule: "The dead-letter topic holds at most one copy for each replay generation of the record and, if the " +
			"workload produced it twice, for each of its two offsets, plus one for " +
			"each disruption while the record was open: its holder lost the partition or was stopped, or a commit or a " +
			"write failed, went unanswered or was answered too late.",
		Evidence: "the audit's dead letters, assignments, signals, and the answers to writes and commits",
		Cause: "A retry wraps a write that had succeeded. Two layers dead-letter the same failure. The record is " +
			"dead-lettered but not marked as finished.",
		Contract: "dlq: {enabled: true}",
		Scenario: "records that fail for good (smoke)",
		Anomalies: []AnomalyNote{
			{"dlq-duplicate", "the record has more dead letters than the run's events explain", []string{
				"1.000 s  the dead letter of record 4 is accepted",
				"1.010 s  record 4 is written to the dead-letter topic again, and accepted",
			}},
			{"two-payloads-one-source", "two dead letters of one record have different values, though the contract " +
				"keeps the value", []string{
				"1.000 s  the dead letter of record 4 is accepted",
				"1.010 s  record 4 is written to the dead-letter topic again, with another value",
			}},
		},
		of: "dead-lettered records",
		needs: []precondition{hasDLQ(), writesDLQ("the broker writes the dead letters, and writes one again " +
			"when it is not sure of it")},
		check: func(r *report) checker { return &dlqOnce{r} },
	}
}

type dlqOnce struct {
	*report
}

func (c *dlqOnce) finish() Result {
	audited := c.w.audited(history.RoleDLQ)
	for number := range c.w.records.count {
		l := c.w.letters.of(int32(number))
		found := c.w.foundOf.of(int32(number))
		if l == nil && len(found) == 0 {
			continue
		}
		c.result.Judged++
		c.judge(int32(number), l, found, audited)
	}
	if c.result.Judged == 0 && c.w.planned(history.OutcomeExhausted, history.OutcomePermanent) {
		return c.done(Inconclusive, "the plan has records that must be dead-lettered, but none was")
	}
	return c.judgedOrNot(NotApplicable, c.w.noLetters())
}

func (c *dlqOnce) judge(number int32, l *deadLettered, found []*letter, audited bool) {
	r := c.w.record(number)
	// Each replay generation may have its own dead letter; disturbed adds up the disruptions of earlier ones.
	allowed := 1 + int(r.lives) + c.w.disruptions(number, r)
	copies := len(found)
	if l != nil {
		allowed += l.disturbed - int(l.forged)
		if !audited {
			copies = int(l.distinct)
		}
	}
	if slices.ContainsFunc(found, func(one *letter) bool { return one.claimed }) {
		allowed += len(c.w.unsure) // any of these writes may be a dead letter of the record
		if !r.has(markAcked) {
			allowed += int(c.w.disturbed(c.w.home(number, r))) // only the audit showed the record
		}
	}
	if p := c.w.home(number, r); p != nil && p.unanswered != endless {
		allowed++
	}
	if copies > allowed {
		c.saw("dlq-duplicate", c.w.about(number, 0, endless, func() string {
			return fmt.Sprintf("%d dead letters of one record; what happened justifies %d", copies, allowed)
		}, marksOf(found)...))
	} else if same := ofOnePlace(found); r.lives == 0 && len(same) > allowed-r.again() {
		c.saw("dlq-duplicate", c.w.about(number, 0, endless, func() string {
			return fmt.Sprintf("%d dead letters of its copy at offset %d; what happened justifies %d", len(same),
				same[0].claim.Offset, allowed-r.again())
		}, marksOf(same)...))
	}
	if c.w.contract.ChangesValue {
		return // a wrapper may contain the time, and a replayed wrapper is wrapped again
	}
	for _, one := range found[min(1, len(found)):] {
		if one.valueHash != found[0].valueHash {
			c.saw("two-payloads-one-source", c.w.about(number, 0, endless, func() string {
				return fmt.Sprintf("two dead letters of one record with different values, at offsets %d and %d", found[0].offset,
					one.offset)
			}, marksOf([]*letter{found[0], one})...))
			return
		}
	}
}

// ofOnePlace returns the largest group of dead letters that name one place as that of their record.
func ofOnePlace(found []*letter) (most []*letter) {
	by := map[place][]*letter{}
	for _, one := range found {
		if one.claim != nil && one.claim.Partition >= 0 && one.claim.Offset >= 0 {
			at := place{one.claim.Topic, one.claim.Partition, one.claim.Offset}
			by[at] = append(by[at], one)
			if len(by[at]) > len(most) {
				most = by[at]
			}
		}
	}
	return most
}

func marksOf(found []*letter) []moment {
	var marks []moment
	for _, one := range found {
		marks = append(marks, moment{history.KindAuditRecord, one.at})
	}
	return marks
}

// placeFound attributes the dead letters that the last audit of each dead-letter topic found to their records, in the
// order in which they were found.
func (w *state) placeFound() {
	for i := range w.found {
		if one := &w.found[i]; one.number >= 0 && !one.repeated && one.audit == w.audits[one.topic] {
			w.foundOf.set(one.number, append(w.foundOf.of(one.number), one))
		}
	}
}

// audited reports whether there are topics of the role and an audit read all of them to their ends.
func (w *state) audited(role history.Role) bool {
	there := false
	for i := range w.header.Topics {
		if w.header.Topics[i].Role != role {
			continue
		}
		there = true
		if w.audits[i] == 0 || slices.ContainsFunc(w.parts[i], func(p partition) bool { return !p.audited }) {
			return false
		}
	}
	return there
}
