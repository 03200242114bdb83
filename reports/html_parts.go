package reports

// This file has the parts of the HTML report that are more than a list of texts: invariants down to their
// counterexamples, the ledger, and the fault log.

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/units"
)

// The report must stay small enough to be mailed and opened on a phone. So counterexamples have a budget in bytes of
// markup, and a trace a limit in lines. verdict.json has the parts that were left out.
const (
	counterexampleBudget = 1_400_000
	counterexampleLines  = 60
	lineMarkup           = 330
	counterexampleMarkup = 1100
	rowMarkup            = 460
	faultMarkup          = 60
	longGap              = 250 * time.Millisecond
	maxFaultsInLine      = 6
)

type invariantView struct {
	Name, Promise, Judged, NotJudged, Why string
	Status                                assertions.Status
	// Tone and Word are the appearance and the text of the status. An invariant that held but was judged only in part
	// gets no tick.
	Tone, Word string
	Anomalies  []*anomalyView
}

type anomalyView struct {
	Name            string
	Count           string
	Counterexamples []counterexampleView
	// Told is the number of occurrences and how many are shown here. Untold says where the others are.
	Told, Untold string
	// Since is the time of the first occurrence.
	Since string
	Logs  []logView
}

type counterexampleView struct {
	Summary, Position, ID, Command string
	// Anchor is the element's id. The others are the values that the search looks up by name.
	Anchor, Record, Key, Partition, Offset string
	// Sequence is the trace as a diagram, nil if there is nothing to draw or no room. Lines are the trace as a list.
	Sequence *sequenceView
	Lines    []lineView
	Events   string
}

type lineView struct {
	// Skipped, if set, stands for omitted events. No other field is set then.
	Skipped string
	Time    string
	// Gap is a long pause before this event.
	Gap        string
	Delta      string
	Kind, Text string
	Marked     bool
	// Contrast is the time from the first contradicting event to this one.
	Contrast string
	Faults   []faultRef
}

type faultRef struct {
	Label, Name string
	Anchor      string
}

// telling is an anomaly that is being added to the page.
type telling struct {
	assertions.Anomaly
	view   *anomalyView
	anchor string
	full   bool
}

func (p *view) addInvariants(v *assertions.Verdict) {
	var anomalies []*telling
	held, applicable, logs := int64(0), int64(0), logBudget
	all := ranked(v.Invariants)
	for i, r := range append(all, ranked(v.Experimental)...) {
		if r.Unjudged == assertions.Inapplicable {
			continue
		}
		iv, told := newInvariantView(v, r, fmt.Sprintf("w-%d", i+1), &logs)
		anomalies = append(anomalies, told...)
		switch {
		case i >= len(all):
			p.Experimental = append(p.Experimental, iv)
		case r.Status == assertions.NotApplicable:
			p.NotApplicable = append(p.NotApplicable, iv)
		default:
			p.Invariants = append(p.Invariants, iv)
			applicable++
			if r.Status == assertions.Pass {
				held++
			}
		}
	}
	p.ExperimentalTitle = experimentalTitle
	p.Held = fmt.Sprintf("%s of %s held", units.Count(held), units.Count(applicable))
	p.anchors = tell(v, anomalies, counterexampleBudget)
}

func newInvariantView(
	v *assertions.Verdict, r assertions.Result, anchor string, logs *int,
) (invariantView, []*telling) {
	iv := invariantView{
		Name: name(r.Name), Promise: promise(r.Name), Status: r.Status, Judged: judgedOf(r),
		NotJudged: notJudged(r), Why: text(r.Why),
	}
	iv.Tone, iv.Word = string(r.Status), string(r.Status)
	if r.Status == assertions.Pass && r.Partial() {
		iv.Tone, iv.Word = string(assertions.Inconclusive), "in part"
	}
	var anomalies []*telling
	for k, a := range r.Anomalies {
		av := &anomalyView{Name: name(a.Name), Count: units.Count(a.Count), Logs: logViews(v, r.Name, a.Name, logs)}
		if a.First != nil && a.First.At >= 0 {
			av.Since = sinceWords(v, a.First)
		}
		anomalies = append(anomalies, &telling{Anomaly: a, view: av, anchor: fmt.Sprintf("%s-%d", anchor, k+1)})
		iv.Anomalies = append(iv.Anomalies, av)
	}
	return iv, anomalies
}

// tell adds the counterexamples to the anomalies, within the budget. Every anomaly gets its first before any gets a
// second. A first one that exceeds the budget is shown without its events. It returns the location of each record's
// trace.
func tell(v *assertions.Verdict, anomalies []*telling, budget int) map[int32]string {
	anchors := map[int32]string{}
	for round := range assertions.MaxCounterexamples {
		for _, a := range anomalies {
			if a.full || round >= len(a.Counterexamples) {
				continue
			}
			counterexample := newCounterexampleView(v, a.Counterexamples[round])
			counterexample.Anchor = fmt.Sprintf("%s-%d", a.anchor, round+1)
			cost := counterexample.size()
			a.full = cost > budget
			if a.full && round > 0 {
				continue
			}
			if a.full {
				counterexample.Sequence, counterexample.Lines = nil,
					[]lineView{{Skipped: "verdict.json has the events: this report has no room for them"}}
			} else {
				budget -= cost
			}
			a.view.Counterexamples = append(a.view.Counterexamples, counterexample)
			if record := a.Counterexamples[round].Record; record >= 0 && anchors[record] == "" {
				anchors[record] = counterexample.Anchor
			}
		}
	}
	for _, a := range anomalies {
		a.view.Told = fmt.Sprintf("all %s counted, %s told here", units.Count(a.Count),
			units.Count(int64(len(a.view.Counterexamples))))
		a.view.Untold = untold(a.Count, int64(len(a.Counterexamples)), int64(len(a.view.Counterexamples)))
	}
	return anchors
}

// untold says where the occurrences are that are not shown here.
func untold(all, inVerdict, here int64) string {
	var parts []string
	if more := inVerdict - here; more > 0 {
		parts = append(parts, units.Plural(more, "more is", "more are")+" told in verdict.json")
	}
	if more := all - inVerdict; more > 0 {
		parts = append(parts, units.Count(more)+" more, counted but not kept")
	}
	return strings.Join(parts, "; ")
}

// size returns the approximate size of the counterexample in the page, in bytes.
func (w counterexampleView) size() int {
	total := counterexampleMarkup + 2*escapedLen(w.Summary) + escapedLen(w.Position) + 2*escapedLen(w.ID) + escapedLen(
		w.Command) + 2*escapedLen(w.Key)
	total += w.Sequence.size()
	for _, line := range w.Lines {
		total += lineMarkup + escapedLen(line.Text) + escapedLen(line.Kind)
		for _, fault := range line.Faults {
			total += faultMarkup + escapedLen(fault.Name)
		}
	}
	return total
}

// size returns the approximate size of the diagram in the page, in bytes.
func (s *sequenceView) size() int {
	if s == nil {
		return 0
	}
	total := rowMarkup * (len(s.Rows) + len(s.Lanes))
	for _, row := range s.Rows {
		total += escapedLen(row.Label) + escapedLen(row.Across)
	}
	for _, lane := range s.Lanes {
		total += 2 * escapedLen(lane.Full)
	}
	return total
}

func escapedLen(s string) int { return len(template.HTMLEscapeString(s)) }

func newCounterexampleView(v *assertions.Verdict, w assertions.Counterexample) counterexampleView {
	out := counterexampleView{
		Summary: text(w.Summary), Position: position(w), ID: name(w.ID), Command: text(w.Command), Key: name(w.Key),
		Sequence: newSequence(v, w), Events: units.Plural(int64(len(w.Trace)), "event", "events"),
	}
	out.Record, out.Partition, out.Offset = numberWord(int64(w.Record)), numberWord(int64(w.Partition)),
		numberWord(w.Offset)
	var previous, firstMark time.Duration
	marks, first := 0, true
	for _, line := range shorten(w.Trace, counterexampleLines) {
		if line.skipped > 0 {
			out.Lines = append(out.Lines, lineView{Skipped: units.Plural(int64(line.skipped), "event", "events") + " left out"})
			continue
		}
		lv := lineView{
			Time: clock(line.Time), Kind: name(line.Kind), Text: text(line.Text), Marked: line.Marked,
			Faults: faultsAt(v, line.Time),
		}
		if since := line.Time - previous; !first && since >= longGap {
			lv.Gap = units.Text(since)
		} else if !first && since > 0 {
			lv.Delta = "+" + units.Text(since)
		}
		if line.Marked {
			if marks == 0 {
				firstMark = line.Time
			} else {
				lv.Contrast = units.Text(line.Time-firstMark) + " after the first mark"
			}
			marks++
		}
		previous, first = line.Time, false
		out.Lines = append(out.Lines, lv)
	}
	return out
}

// numberWord formats a number for the search, which may be missing.
func numberWord(n int64) string {
	if n < 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// faultsAt returns the faults that were in force at a time.
func faultsAt(v *assertions.Verdict, at time.Duration) []faultRef {
	var out []faultRef
	for i, f := range v.Faults {
		seen := f.Observed
		if seen.Injected && seen.To > seen.From && at >= seen.From && at <= seen.To && len(out) < maxFaultsInLine {
			out = append(out, faultRef{Label: faultLabel(i), Name: faultName(f), Anchor: faultAnchor(i)})
		}
	}
	return out
}

func faultAnchor(index int) string { return fmt.Sprintf("fault-%d", index+1) }

type ledgerView struct {
	Parts   []ledgerPart
	Total   string
	Balance string
	Others  []fact
}

// ledgerPart is one final state of records. X and Width place it on a bar of 1000 units.
type ledgerPart struct {
	Label, Value, Share, Class string
	X, Width                   string
}

func newLedgerView(l measure.Ledger) ledgerView {
	out := ledgerView{Total: units.Count(l.Acknowledged)}
	open := balance(l)
	switch {
	case open > 0:
		out.Balance = units.Count(open) + " records are not accounted for."
	case open < 0:
		out.Balance = units.Count(-open) + " records ended in two ways."
	}
	ends := []struct {
		label, class string
		n            int64
	}{
		{"succeeded", "p-ok", l.Succeeded}, {"dead-lettered", "p-dlq", l.DeadLettered},
		{"logical failures", "p-logical", l.Logical},
		{"unfinished", "p-open", l.Unfinished}, {"not accounted for", "p-open", max(0, open)},
	}
	whole := max(1, l.Acknowledged, l.Acknowledged-open)
	x := 0.0
	for i, end := range ends {
		if i == len(ends)-1 && end.n == 0 {
			continue
		}
		width := 1000 * float64(end.n) / float64(whole)
		out.Parts = append(out.Parts, ledgerPart{
			Label: end.label, Value: units.Count(end.n), Class: end.class, Share: share(end.n, whole),
			X: fmt.Sprintf("%.2f", x), Width: fmt.Sprintf("%.2f", width),
		})
		x += width
	}
	out.Others = []fact{
		{Label: "Planned", Value: units.Count(l.Planned)}, {Label: "Sent", Value: units.Count(l.Sent)},
		{Label: "Acknowledged", Value: units.Count(l.Acknowledged)}, {Label: "Sent late", Value: units.Count(l.Late)},
		{Label: "Attempts", Value: units.Count(l.Attempts)}, {Label: "Duplicates", Value: units.Count(l.Duplicates)},
		{Label: "Replayed", Value: units.Count(l.Replayed)},
	}
	return out
}

// share formats a part of a whole. A part above zero is never formatted as zero.
func share(n, whole int64) string {
	percent := 100 * float64(n) / float64(whole)
	switch {
	case n == 0:
		return "0 %"
	case percent < 0.01:
		return "< 0.01 %"
	case percent > 99.99 && n < whole:
		return "> 99.99 %"
	}
	return fmt.Sprintf("%.2f %%", percent)
}

type faultView struct {
	Label, Anchor, Name, Kind, What, Target string
	State                                   faultState
	Sound                                   bool
	Planned, Observed                       string
	Effects                                 []fact
	// Idle is the reason why the fault did nothing, if the verdict's reasons do not say it.
	Idle string
	// Recovery has the time until the fault was felt, and the time to recover from it.
	Recovery []fact
	// The windows on a bar of 1000 units that represents the run.
	PlannedX, PlannedWidth, ObservedX, ObservedWidth string
}

func faultViews(v *assertions.Verdict) []faultView {
	out := make([]faultView, 0, len(v.Faults))
	whole := ended(v)
	for _, f := range v.Faults {
		whole = max(whole, f.Planned.To, f.Observed.To)
	}
	for i, f := range v.Faults {
		fv := faultView{
			Label: faultLabel(i), Anchor: faultAnchor(i), Name: faultName(f), Kind: name(f.Kind), What: text(f.What),
			Target: name(f.Target), State: became(v, f), Planned: window(f.Planned), Observed: "not seen",
			Idle: whyIdle(f),
		}
		fv.Sound = fv.State.sound()
		fv.PlannedX, fv.PlannedWidth = place(f.Planned, whole)
		if f.Observed.Injected {
			fv.Observed = window(f.Observed.FaultWindow)
			fv.ObservedX, fv.ObservedWidth = place(f.Observed.FaultWindow, whole)
		}
		fv.Recovery = recoveryFacts(f)
		for _, kind := range sortedKeys(f.Observed.Effects) {
			fv.Effects = append(fv.Effects, fact{Label: name(kind), Value: units.Count(f.Observed.Effects[kind])})
		}
		out = append(out, fv)
	}
	return out
}

// place maps a window to a bar of 1000 units. An instant is still wide enough to be visible.
func place(w assertions.FaultWindow, whole time.Duration) (x, width string) {
	scale := 1000 / max(1, float64(whole))
	from := min(996, max(0, float64(w.From)*scale))
	return fmt.Sprintf("%.2f", from), fmt.Sprintf("%.2f", max(4, float64(w.To-w.From)*scale))
}
