package reports

// This file builds the document of a run for a terminal and for Markdown: the verdict first, the next steps last. The
// page of a run (run_page.go) has more: curves, traces as diagrams, logs.

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports/document"
)

const (
	screenWidth = 80
	// A screen has no room for every fault and reason of a long run. The report has them all.
	screenFaults  = 8
	screenReasons = 4
	// That of a run that failed has the cause first, and less room for the rest.
	screenFaultsFailed = 3
	screenRoots        = 3
	screenSummary      = 180
	// A comment on a change has room for the first counterexamples only.
	markdownCounterexamples = 2
	markdownLines           = 25
)

// UseColor reports whether output to w may be coloured: w is a terminal that supports it, and NO_COLOR
// (https://no-color.org) is not set.
func UseColor(w io.Writer) bool {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	return onTerminal(w)
}

// Terminal writes the result of a run to the terminal w: the verdict and its cause on one screen, or with verbose
// everything that is known of the run as text.
func Terminal(w io.Writer, run Run, color, verbose bool) error {
	if run.Verdict == nil {
		return errNoVerdict
	}
	doc := runDocument(run)
	if verbose {
		doc = doc.Unfolded()
	}
	return document.Terminal(w, doc, Columns(w), color)
}

// Markdown writes summary.md in GitHub's flavour: the run as a comment on a change, or in GITHUB_STEP_SUMMARY.
func Markdown(w io.Writer, run Run) error {
	if run.Verdict == nil {
		return errNoVerdict
	}
	return document.Markdown(w, runDocument(run))
}

func runDocument(run Run) document.Document {
	v := run.Verdict
	failed := len(v.Roots) > 0
	word, mark := run.word()
	out := document.Document{
		Kind: "run report", Mark: mark, Word: word, Title: name(v.Scenario),
		Lead: append(lead(v), run.waivedLead()...), About: facts(run),
		Sections: []document.Section{
			{Blocks: []document.Block{document.KeyValues{Items: causeFacts(v)}}},
			{Title: "Also violated, and not explained by this", Blocks: []document.Block{furtherRoots(v)}},
			{Title: "Invariants", Folded: failed, Blocks: []document.Block{invariantTable(run, causal(v))}},
			{Title: experimentalTitle, Blocks: []document.Block{invariantTable(run, v.Experimental)}},
			{Title: "Faults", Blocks: []document.Block{faultTable(v)}},
			{Title: "Latency", Folded: failed, Blocks: []document.Block{latencyTable(v, []string{measure.LatencySuccess,
				measure.LatencyService, measure.LatencyDeadLetter, measure.LatencyCommitDelay, measure.LatencyReplay})}},
			{Blocks: []document.Block{runFigures(v)}},
			{Title: "Thresholds", Folded: failed && len(missed(v)) == 0, Blocks: []document.Block{thresholdTable(v)}},
			{Title: "Also", Blocks: []document.Block{alsoList(v)}},
			{Title: "All latencies", Folded: true, Blocks: []document.Block{latencyTable(v, latencyNames(v.Latency))}},
		},
	}
	out.Sections = append(append(out.Sections, traces(v)...), document.Section{Blocks: []document.Block{whatNext(run)}})
	return out
}

// whatNext returns the next steps for the reader.
func whatNext(run Run) document.KeyValues {
	report := ""
	if run.Dir != "" {
		report = filepath.Join(run.Dir, HTMLFile)
	}
	return document.KeyValues{Items: known(command("Report", report), command("Rerun", run.Verdict.Rerun))}
}

func runMark(s standing) document.Mark {
	return cmp.Or(map[standing]document.Mark{standsPass: document.Pass, standsFail: document.Fail,
		standsMissed: document.Warning}[s], document.Unsure)
}

// facts describes the run in a few words.
func facts(run Run) []string {
	v := run.Verdict
	out := []string{name(v.Subject)}
	if run.Verdict.Instances > 0 {
		out[0] += " × " + units.Count(int64(run.Verdict.Instances))
	}
	out = append(out, counted(v.Ledger.Acknowledged, "records"), units.PerSecond(v.Throughput.Sent))
	if length := ended(v); length > 0 {
		out = append(out, units.Text(length.Round(100*time.Millisecond)))
	}
	return append(out, fmt.Sprintf("seed %d", v.Seed))
}

// invariantMark returns the mark of an invariant. One that held but was judged only in part has a separate mark.
func invariantMark(r assertions.Result) document.Mark {
	switch {
	case r.Status == assertions.Pass && r.Partial():
		return document.Partial
	case r.Status == assertions.Pass:
		return document.Pass
	case r.Status == assertions.Fail:
		return document.Fail
	}
	return document.Unsure
}

// invariantTable lists the invariants that were judged. The lead names those that were not.
func invariantTable(run Run, results []assertions.Result) document.Table {
	out := document.Table{Pack: true, Columns: []document.Column{
		{Title: "invariant"}, {Title: "judged", Figure: true}, {Title: "of", Spare: true},
		{Title: "anomalies and remarks", Below: true}}}
	for _, r := range ranked(results) {
		if r.Status == assertions.NotApplicable {
			continue
		}
		var remarks []document.Text
		for _, a := range r.Anomalies {
			remarks = append(remarks, append(document.Marked(name(a.Name), document.Fail),
				document.Plain(" × "+units.Count(a.Count))...))
			if waiver := run.waiver(r.Name, a.Name); waiver != nil {
				remarks = append(remarks, document.Marked(text(waiver.until()), document.Waived))
			}
			if len(a.Counterexamples) > 0 {
				remarks = append(remarks, document.Plain("e.g. "+visible(a.Counterexamples[0].Summary, screenSummary)),
					seeAlso(a.Counterexamples[0].Command))
			}
		}
		remarks = append(remarks, document.Plain(text(r.Why)), document.Plain(notJudged(r)))
		out.Rows = append(out.Rows, document.Row{Mark: run.mark(r), Cells: []document.Text{document.Plain(name(r.Name)),
			document.Plain(judgedCount(r)), document.Plain(strings.TrimPrefix(judgedOf(r), judgedCount(r)+" ")),
			document.Lines(remarks...)}})
	}
	return out
}

func faultTable(v *assertions.Verdict) document.Table {
	out := document.Table{Most: screenFaults, Columns: []document.Column{
		{Title: "fault"}, {Title: "in force"}, {Title: "noticed", Figure: true, Spare: true},
		{Title: "lag back", Figure: true, Spare: true}, {Title: "steady", Figure: true}, {Title: "planned", Spare: true},
		{Title: "what", Spare: true}, {Title: "what it did", Below: true}}}
	for _, f := range v.Faults {
		state, mark := became(v, f), document.Pass
		did := cmp.Or(effects(f), string(state)) + byHand(f)
		if !state.sound() {
			mark = document.Warning
			did = strings.TrimSuffix(string(state)+": "+effects(f), ": ") + "; planned " + window(f.Planned) + byHand(f)
		}
		row := document.Row{Mark: mark, Cells: document.Cells(faultName(f), "–")}
		if f.Observed.Injected {
			row.Cells[1] = document.Plain(window(f.Observed.FaultWindow))
		}
		for _, span := range []measure.Span{f.Recovery.Detect, f.Recovery.CatchUp, f.Recovery.Steady} {
			row.Cells = append(row.Cells, spanText(span))
		}
		row.Cells = append(row.Cells, document.Cells(window(f.Planned), text(f.What), did)...)
		out.Rows = append(out.Rows, row)
	}
	if len(v.Roots) > 0 {
		out.Most = screenFaultsFailed
	}
	return out
}

func spanText(span measure.Span) document.Text {
	switch span.State {
	case "":
		return document.Plain("–")
	case measure.SpanNever:
		return document.Marked(spanValue(span), document.Warning)
	}
	return document.Plain(spanValue(span))
}

// latencyTable lists the latencies that have values.
func latencyTable(v *assertions.Verdict, keys []string) document.Table {
	out := quantileColumns("latency")
	for _, key := range keys {
		if q := v.Latency[key].Quantiles; q.Count > 0 {
			title, span := latencyTitle(key)
			out.Rows = append(out.Rows, quantilesRow(title, q))
			if span != "" {
				out.Columns[0].Help += fmt.Sprintf("%s: %s. ", title, span)
			}
		}
	}
	return out
}

func quantileColumns(of string) document.Table {
	return document.Table{Columns: []document.Column{{Title: of},
		{Title: "p50", Figure: true, Help: "The median: half of the values are at most this."},
		{Title: "p90", Figure: true, Spare: true, Help: "Nine of ten values are at most this."},
		{Title: "p99", Figure: true, Help: "99 of 100 values are at most this."},
		{Title: "p99.9", Figure: true, Spare: true, Help: "999 of 1,000 values are at most this."},
		{Title: "max", Figure: true, Help: "The largest value."},
		{Title: "values", Figure: true, Spare: true,
			Help: "The number of measurements. Of few, the high quantiles say little."}}}
}

func quantilesRow(title string, q measure.Quantiles) document.Row {
	return document.Row{Cells: document.Cells(title, units.Text(q.P50), units.Text(q.P90), units.Text(q.P99),
		units.Text(q.P999), units.Text(q.Max), units.Count(q.Count))}
}

// runFigures returns where the records went, how the run ended, and the state of the harness.
func runFigures(v *assertions.Verdict) document.KeyValues {
	drain := ""
	if len(v.Phases) > 0 {
		drained := "not drained"
		if v.Drain.Drained {
			drained = units.Text(v.Drain.Time)
		}
		drain = fmt.Sprintf("%s; lag at most %s, %s at the end", drained, units.Count(v.Drain.LagMax),
			units.Count(v.Drain.LagEnd))
	}
	h := v.Health
	words := fmt.Sprintf("slip p99 %s, %s", units.Text(h.SlipP99), units.Plural(h.Stalls, "stall", "stalls"))
	if h.Stalls > 0 {
		words += " of " + units.Text(h.Stalled) + " in all"
	}
	if h.CPU > 0 {
		words += ", " + units.Significant(h.CPU) + " processors used"
	}
	promises := ""
	if v.Verdict != assertions.Pass {
		promises = judgedWords(v)
	}
	if len(v.Roots) > 0 { // the report has the state of the harness, and the cause needs the room
		words = ""
	}
	return document.KeyValues{Items: known(fact("Promises", promises, ""), fact("Records", conservation(v), ""),
		fact("Drain", drain, ""),
		fact("Retries", remarkOnRetries(v.Usage), ""), fact("Harness", words, ""))}
}

func thresholdTable(v *assertions.Verdict) document.Table {
	out := document.Table{Columns: []document.Column{{Title: "threshold"}, {Title: "actual"}}}
	for _, t := range v.Thresholds {
		mark, actual := document.Pass, t.Shown()
		if !t.Met {
			mark = document.Fail
		}
		if t.Error != "" {
			actual = t.Error
		}
		out.Rows = append(out.Rows, document.Row{Mark: mark, Cells: document.Cells(text(t.Expression), text(actual))})
	}
	return out
}

// alsoList returns the reasons that the headline does not mention.
func alsoList(v *assertions.Verdict) document.List {
	return document.List{Most: screenReasons, Items: each(furtherReasons(v), func(reason string) document.Item {
		return document.Item{Text: document.Plain(text(reason))}
	})}
}

// traces returns the traces of the first counterexamples of the violations.
func traces(v *assertions.Verdict) []document.Section {
	var out []document.Section
	for _, r := range causal(v) {
		for _, a := range r.Anomalies {
			section := document.Section{Folded: true,
				Title: fmt.Sprintf("%s: %s × %s", name(r.Name), name(a.Name), units.Count(a.Count))}
			for _, w := range a.Counterexamples[:min(len(a.Counterexamples), markdownCounterexamples)] {
				trace := text(w.Summary) + "\n"
				if where := position(w); where != "" {
					trace += where + "\n"
				}
				trace += "\n" + plainTrace(w, "", markdownLines, 0)
				if w.Command != "" {
					trace += "\nall of it: " + text(w.Command) + "\n"
				}
				section.Blocks = append(section.Blocks, document.Code(trace))
			}
			out = append(out, section)
		}
	}
	return out
}
