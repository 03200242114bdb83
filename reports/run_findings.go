package reports

// This file builds the part of a run's page on its invariants: every violation with its counterexamples, their traces,
// and what the processes wrote to their logs at the time.

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports/document"
)

// The page must stay small enough to be mailed and opened on a phone. So counterexamples and logs have a budget in
// bytes, and a trace a limit in lines. verdict.json has the parts that were left out.
const (
	counterexampleBudget = 1_400_000
	traceLines           = 60
	logBudget            = 200_000
	logLine              = 40
	longGap              = 250 * time.Millisecond
)

// evidence is the counterexamples of a page.
type evidence struct {
	// of has those of each anomaly, by the anchor of the anomaly.
	of map[string][]document.Block
	// anchors are the places of the records' traces.
	anchors map[int32]string
}

// judged returns the results in the order of the page: the experimental ones, which decide nothing, come last.
func judged(v *assertions.Verdict) []assertions.Result {
	return append(causal(v), ranked(v.Experimental)...)
}

// anomalyAnchor identifies an anomaly by its indices in judged.
func anomalyAnchor(result, anomaly int) string { return fmt.Sprintf("w-%d-%d", result+1, anomaly+1) }

// tell returns the counterexamples that the budget has room for. Every anomaly gets its first before any gets a second.
// A first one that exceeds the budget is shown without its events.
func tell(v *assertions.Verdict) evidence {
	out := evidence{of: map[string][]document.Block{}, anchors: map[int32]string{}}
	budget := counterexampleBudget
	for round := range assertions.MaxCounterexamples {
		for i, r := range judged(v) {
			for k, a := range r.Anomalies {
				if round >= len(a.Counterexamples) {
					continue
				}
				at, w := anomalyAnchor(i, k), a.Counterexamples[round]
				told := newCounterexample(v, w, fmt.Sprintf("%s-%d", at, round+1))
				switch cost := pageSize(told); {
				case cost <= budget:
					budget -= cost
				case round > 0:
					continue
				default:
					told.Blocks[1] = document.Trace{Events: []document.Event{{
						Between: "verdict.json has the events: this report has no room for them"}}}
				}
				told.Open = round == 0
				out.of[at] = append(out.of[at], told)
				if w.Record >= 0 && out.anchors[w.Record] == "" {
					out.anchors[w.Record] = told.ID
				}
			}
		}
	}
	return out
}

// pageSize returns the approximate size of a block on a page in bytes: that of its JSON, in which names and escapes
// take about as much room as markup does.
func pageSize(block document.Block) int {
	data, err := json.Marshal(block)
	if err != nil { // A number that JSON does not have. Blocks with texts have none.
		return counterexampleBudget
	}
	return len(data)
}

func heldOf(v *assertions.Verdict) string {
	held, applicable := int64(0), int64(0)
	for _, r := range v.Invariants {
		if r.Status == assertions.NotApplicable || r.Unjudged == assertions.Inapplicable {
			continue
		}
		applicable++
		if r.Status == assertions.Pass {
			held++
		}
	}
	return fmt.Sprintf("%s of %s held", units.Count(held), units.Count(applicable))
}

// findings returns a finding for each invariant that was judged.
func findings(run Run, shown evidence) []document.Block {
	v := run.Verdict
	var out, experimental []document.Block
	logs := logBudget
	for i, r := range judged(v) {
		switch {
		case i < len(v.Invariants) && r.Status == assertions.NotApplicable:
		case i >= len(v.Invariants):
			experimental = append(experimental, finding(run, r, i, shown, &logs))
		default:
			out = append(out, finding(run, r, i, shown, &logs))
		}
	}
	if len(out) == 0 {
		out = append(out, document.Paragraph{Text: document.Plain("No invariant was judged."), Soft: true})
	}
	if len(experimental) > 0 {
		out = append(append(out, document.Heading(experimentalTitle)), experimental...)
	}
	return append(out, document.Paragraph{Text: document.Plain(logsNote(v)), Soft: true})
}

// notJudgedTable lists the promises of which a run judged nothing, or only a part, with the reason and what it takes to
// judge them. Those that can't concern the subject are left out.
func notJudgedTable(v *assertions.Verdict) document.Table {
	out := document.Table{Columns: []document.Column{{Title: "invariant"}, {Title: "promise"},
		{Title: "why not", Help: "What was missing in the contract, or did not happen in the run."},
		{Title: "to judge it", Help: "What the contract or the scenario must have."}}}
	for _, r := range v.Invariants {
		mark, why, needed := document.Skipped, text(r.Why), needs(r.Name)
		switch {
		case r.Unjudged == assertions.Inapplicable:
			continue
		case r.Status != assertions.NotApplicable:
			if notJudged(r) == "" {
				continue
			}
			mark, why, needed = document.Partial, judgedOf(r)+" judged; "+notJudged(r), ""
		}
		out.Rows = append(out.Rows, document.Row{Mark: mark,
			Cells: document.Cells(name(r.Name), promise(r.Name), why, needed)})
	}
	return out
}

// needs says what makes a run judge an invariant.
func needs(invariant string) string {
	if about := assertions.Explain(base(invariant)); len(about) > 0 {
		return about[0].Needs()
	}
	return ""
}

// finding returns what was found of an invariant. One that held but was judged only in part gets no tick.
func finding(run Run, r assertions.Result, index int, shown evidence, logs *int) document.Details {
	v := run.Verdict
	out := document.Details{Mark: run.mark(r), Word: string(r.Status), Title: name(r.Name), Note: promise(r.Name),
		Aside: judgedOf(r) + " judged", Open: r.Status == assertions.Fail}
	if r.Status == assertions.Pass && r.Partial() {
		out.Word = "in part"
	}
	if out.Mark == document.Waived {
		out.Word = "fail, waived"
	}
	add := func(words string, soft bool) {
		if words != "" {
			out.Blocks = append(out.Blocks, document.Paragraph{Text: document.Plain(words), Soft: soft})
		}
	}
	add(text(r.Why), false)
	add(notJudged(r), true)
	for k, a := range r.Anomalies {
		told := shown.of[anomalyAnchor(index, k)]
		out.Blocks = append(out.Blocks, document.Heading(name(a.Name)+" × "+units.Count(a.Count)))
		if waiver := run.waiver(r.Name, a.Name); waiver != nil {
			add(text(waiver.until()), false)
		}
		about := fmt.Sprintf("all %s counted, %s told here", units.Count(a.Count), units.Count(int64(len(told))))
		if a.First != nil && a.First.At >= 0 {
			about += " · first at " + sinceWords(v, a.First)
		}
		add(about, true)
		out.Blocks = append(out.Blocks, document.KeyValues{Items: known(
			fact("Follows", strings.TrimPrefix(followsFrom(v, r.Name, a.Name), "follows "), ""),
			fact("Likely cause", cause(r.Name, a.Name, ""), ""), document.KeyValue{Key: "Docs", Value: page(r.Name, a.Name)})})
		out.Blocks = append(out.Blocks, told[:min(1, len(told))]...)
		if more := told[min(1, len(told)):]; len(more) > 0 {
			out.Blocks = append(out.Blocks, document.Details{Spare: true, Title: units.Plural(int64(len(more)), "more example",
				"more examples"), Blocks: more})
		}
		add(untold(a.Count, int64(len(a.Counterexamples)), int64(len(told))), true)
		out.Blocks = append(out.Blocks, logExcerpts(v, r.Name, a.Name, logs)...)
	}
	return out
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

// newCounterexample returns a counterexample: where it is, and its trace.
func newCounterexample(v *assertions.Verdict, w assertions.Counterexample, anchor string) document.Details {
	return document.Details{
		ID: anchor, Title: text(w.Summary), Aside: strings.TrimSpace(position(w) + "  " + name(w.Key)),
		Find: find(w.Record, w.Partition, w.Offset, w.ID, w.Key), Blocks: []document.Block{
			document.KeyValues{Items: known(command("Record id", name(w.ID)), command("All of it", text(w.Command)))},
			document.Trace{
				ID: anchor, Drawing: newSequence(v, w), Events: traceEvents(v, w.Trace),
				Title: "The same as a list (" + units.Plural(int64(len(w.Trace)), "event", "events") + ")"}},
	}
}

// find returns what the search of the page knows of a record.
func find(record, partition int32, offset int64, id, key string) document.Find {
	return document.Find{"record": numberWord(int64(record)), "partition": numberWord(int64(partition)),
		"offset": numberWord(offset), "id": name(id), "key": name(key)}
}

// numberWord formats a number that may be missing.
func numberWord(n int64) string {
	if n < 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func traceEvents(v *assertions.Verdict, lines []assertions.Line) []document.Event {
	var out []document.Event
	var previous, firstMark time.Duration
	marks, first := 0, true
	for _, line := range shorten(lines, traceLines) {
		if line.skipped > 0 {
			out = append(out, document.Event{Between: units.Plural(int64(line.skipped), "event", "events") + " left out"})
			continue
		}
		event := document.Event{Time: clock(line.Time), Kind: name(line.Kind), Text: text(line.Text), Marked: line.Marked,
			Aside: faultTags(v, line.Time)}
		if since := line.Time - previous; !first && since >= longGap {
			out = append(out, document.Event{Between: units.Text(since)})
		} else if !first && since > 0 {
			event.Delta = "+" + units.Text(since)
		}
		if line.Marked {
			if marks == 0 {
				firstMark = line.Time
			} else {
				event.Aside = append(event.Aside, document.Marked(
					" "+units.Text(line.Time-firstMark)+" after the first mark", document.Fail)...)
			}
			marks++
		}
		previous, first = line.Time, false
		out = append(out, event)
	}
	return out
}

// logExcerpts returns what the subject's processes wrote around the first occurrence of an anomaly, within the budget.
func logExcerpts(v *assertions.Verdict, invariant, anomaly string, budget *int) []document.Block {
	var out []document.Block
	for _, one := range v.Logs {
		if one.Invariant != invariant || one.Anomaly != anomaly || *budget <= 0 {
			continue
		}
		var lines strings.Builder
		shown, left := int64(0), one.LeftOut
		for _, line := range one.Lines {
			words := fmt.Sprintf("%9s  %s\n", clock(line.Time), text(line.Text))
			if *budget -= pageSize(document.Code(words)) + logLine; *budget <= 0 {
				left++
				continue
			}
			shown++
			lines.WriteString(words)
		}
		if shown == 0 {
			lines.WriteString("nothing was written in that time\n")
		}
		if left > 0 {
			lines.WriteString(units.Plural(left, "more line", "more lines") + " of the same time: see " + name(one.File) + "\n")
		}
		out = append(out, document.Details{Spare: true, Title: "Log of " + name(one.Process) + " around " + clock(one.At),
			Aside:  units.Plural(shown, "line", "lines") + " of " + name(one.File),
			Blocks: []document.Block{document.Code(lines.String())}})
	}
	return out
}

// logsNote says where the logs in the page come from, or why there are none.
func logsNote(v *assertions.Verdict) string {
	switch {
	case v.LogsNote != "":
		return text(v.LogsNote)
	case len(v.Logs) > 0:
		return "What the subject's processes wrote within 3 s of the first occurrence of each violation, from the folder " +
			"logs of the run's directory. Times are when dlqbench read the lines; passwords that it knew are masked."
	case len(failures(v)) > 0:
		return "This verdict holds no lines of the subject's logs: they are in the folder logs of the run's directory."
	}
	return ""
}
