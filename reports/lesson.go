package reports

// This file explains a planted bug, before and after the run that demonstrates it.

import (
	"fmt"
	"io"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports/document"
)

// lessonLines is the number of lines of a trace that a lesson shows.
const lessonLines = 9

// Lesson is a planted bug that a run demonstrates.
type Lesson struct {
	// Name and What are the bug, Invariant and Anomaly what must be reported of it.
	Name, What, Invariant, Anomaly string
	// Scenario is the scenario of the run.
	Scenario string
	// Mistake and Right are the code of the mistake and that of a correct consumer.
	Mistake, Right string
	// Trace says how the mistake is seen in the trace of a record.
	Trace string
}

// Shown reports whether the run shows the bug.
func (l Lesson) Shown(v *assertions.Verdict) bool { return l.found(v) != nil }

func (l Lesson) found(v *assertions.Verdict) *assertions.Anomaly {
	for _, r := range v.Invariants {
		for i := range r.Anomalies {
			if base(r.Name) == l.Invariant && r.Anomalies[i].Name == l.Anomaly {
				return &r.Anomalies[i]
			}
		}
	}
	return nil
}

// example returns the counterexample to show: that of the headline if it is one of this bug.
func (l Lesson) example(v *assertions.Verdict) (assertions.Counterexample, bool) {
	found := l.found(v)
	if found == nil || len(found.Counterexamples) == 0 {
		return assertions.Counterexample{}, false
	}
	for _, one := range found.Counterexamples {
		if len(v.Roots) > 0 && one.Record == v.Roots[0].Example.Record {
			return one, true
		}
	}
	return found.Counterexamples[0], true
}

// lessonEvents returns the events of a trace that a lesson has room for.
func lessonEvents(of assertions.Counterexample) []document.Event {
	var out []document.Event
	for _, line := range shorten(of.Trace, lessonLines) {
		event := document.Event{Time: clock(line.Time), Kind: name(line.Kind), Text: text(line.Text), Marked: line.Marked}
		if line.skipped > 0 {
			event = document.Event{Between: units.Plural(int64(line.skipped), "event", "events")}
		}
		out = append(out, event)
	}
	return out
}

// LessonBefore explains the mistake and says what will be run.
func LessonBefore(w io.Writer, lesson Lesson, color bool) error {
	return document.Terminal(w, document.Document{
		Mark: document.Unsure, Word: "DEMO", Title: name(lesson.Name),
		Lead: []document.Text{document.Plain("The bug: " + text(lesson.What) + ".")},
		Sections: []document.Section{
			{Title: "The mistake", Blocks: []document.Block{document.Code(lesson.Mistake)}},
			{Blocks: []document.Block{document.Paragraph{Text: document.Plain(fmt.Sprintf(
				"A consumer with this bug now runs in the scenario %s, for about ten seconds.", lesson.Scenario))}}},
		},
	}, Columns(w), color)
}

// LessonAfter explains how the run shows the mistake, and what a correct consumer does. report says where the report
// is.
func LessonAfter(w io.Writer, lesson Lesson, run Run, report string, color bool) error {
	seen := []document.Block{document.Paragraph{Text: document.Plain(lesson.Trace)}}
	example, found := lesson.example(run.Verdict)
	if found {
		seen = append(seen, document.Trace{Events: lessonEvents(example)})
	}
	return document.Terminal(w, document.Document{
		Mark: document.Unsure, Word: "DEMO", Title: "What " + name(lesson.Name) + " shows",
		Sections: []document.Section{
			{Title: "In the trace of a record", Blocks: seen},
			{Title: "A correct consumer", Blocks: []document.Block{document.Code(lesson.Right)}},
			{Blocks: []document.Block{document.KeyValues{Items: known(
				fact("Report", report, ""), command("Whole trace", text(example.Command)),
				command("Correct", "dlqbench run "+lesson.Scenario),
				command("Other bugs", "dlqbench demo --list"))}}},
		},
	}, Columns(w), color)
}
