package reports

// This file builds the page of a run. It has all that the verdict has: besides what a terminal shows (run_report.go),
// every violation with its traces and logs (run_findings.go), what became of the records (run_records.go), curves
// (run_timeline.go), faults, usage and configuration.

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports/document"
)

// HTML writes the report as one self-contained page.
func HTML(w io.Writer, run Run) error {
	if run.Verdict == nil {
		return errNoVerdict
	}
	return document.HTML(w, runPage(run))
}

func runPage(run Run) document.Document {
	v := run.Verdict
	shown := tell(v)
	word, mark := run.word()
	return document.Document{
		Kind: "run report", Mark: mark, Word: word, Title: name(v.Scenario),
		Lead: append(lead(v), run.waivedLead()...), About: about(run),
		Banner: banner(v, shown), Foot: "The same facts for programs: verdict.json.",
		Search: "record:812, key:key-000017, partition:3, offset:1352, an id, or any words",
		Sections: []document.Section{
			{Blocks: []document.Block{document.KeyValues{Big: true, Items: headFacts(v)}}},
			{Title: "Timeline", Blocks: timeline(v)},
			{Title: "Invariants", Aside: heldOf(v), Blocks: findings(run, shown)},
			{Title: "Not judged", Aside: "what this verdict does not say", Blocks: []document.Block{notJudgedTable(v)}},
			{Title: "Thresholds", Blocks: []document.Block{thresholdTable(v)}},
			{Title: "Latency", Blocks: latencyBlocks(v)},
			{Title: "Records", Aside: "what became of " + units.Count(v.Ledger.Acknowledged) + " acknowledged",
				Blocks: recordBlocks(v, shown)},
			problemSection(v, shown),
			{Title: "Faults", Aside: "planned and observed, on the run's clock", Blocks: faultBlocks(v)},
			{Title: "Resources", Aside: "what the consumer used", Blocks: resourceBlocks(v.Usage)},
			{Title: "Run", Blocks: []document.Block{
				document.Heading("Was the harness itself well?"),
				document.KeyValues{Big: true, Items: healthFacts(v.Health, v.Ledger)},
				document.Details{Title: "Topics and environment", Blocks: []document.Block{
					document.KeyValues{Items: detailFacts(run)}}}}},
		},
	}
}

// about describes the run in a few words, with its date.
func about(run Run) []string {
	out := facts(run)
	if started := run.Verdict.Started; !started.IsZero() {
		out = append(out, started.UTC().Format("2 January 2006, 15:04 UTC"))
	}
	return out
}

// banner returns the cause of the first root with the commands that show it again, the other roots, and the reasons
// that the headline does not mention.
func banner(v *assertions.Verdict, shown evidence) []document.Block {
	reasons, further := alsoList(v), furtherRoots(v)
	reasons.Most, further.Most = 0, 0
	again := command("Run it again", visible(v.Rerun, document.Whole))
	facts := known(again)
	if len(v.Roots) > 0 {
		facts = append(causeFacts(v, again), whereFacts(v, v.Roots[0], shown)...)
	}
	if v.Verdict != assertions.Pass {
		facts = append(facts, fact("Promises", judgedWords(v), ""))
	}
	out := []document.Block{document.KeyValues{Items: facts}}
	if len(further.Items) > 0 {
		out = append(out, document.Paragraph{Text: document.Bold("Also violated, and not explained by this")}, further)
	}
	return append(out, reasons)
}

// headFacts returns the figures that a reader wants first.
func headFacts(v *assertions.Verdict) []document.KeyValue {
	l := v.Ledger
	out := []document.KeyValue{
		helped("Acknowledged by the broker, of those that the scenario planned to send.",
			fact("Records", units.Count(l.Acknowledged), "of "+units.Count(l.Planned)+" planned")),
		helped("Records sent and records finished per second while the load lasted.",
			fact("Load", units.PerSecond(v.Throughput.Sent), units.PerSecond(v.Throughput.Processed)+" processed")),
	}
	if q, ok := v.Latency[measure.LatencySuccess]; ok && q.Count > 0 {
		out = append(out, helped("The time from when a record should have been sent to the end of its successful attempt. "+
			"99 % of them took at most p99, half of them at most p50.",
			fact("Success p99", units.Text(q.P99), "p50 "+units.Text(q.P50))))
	}
	out = append(out, helped("Records in the dead-letter topic, and calls of the downstream for all records.",
		fact("Dead letters", units.Count(l.DeadLettered), units.Count(l.Attempts)+" attempts")))
	if all := int64(len(v.Faults)); all > 0 {
		sound := int64(count(v.Faults, func(f assertions.FaultResult) bool { return became(v, f).sound() }))
		out = append(out, helped("Planned faults that disturbed something. A fault without effect shows nothing.",
			warned(sound < all, fact("Faults", units.Count(sound)+" of "+units.Count(all), "took effect"))))
	}
	if l.Unfinished > 0 {
		out = append(out, helped("Acknowledged, and neither processed nor dead-lettered when the run ended.",
			marked(document.Fail, fact("Unfinished", units.Count(l.Unfinished), "records with no end"))))
	} else if v.Drain.Drained {
		out = append(out, helped("The time from the end of the load until nothing was left to process. The lag is the "+
			"number of records that are not yet committed.",
			fact("Drain", units.Text(v.Drain.Time), "lag at most "+units.Count(v.Drain.LagMax))))
	}
	return out
}

// latencyBlocks returns the latencies over the whole run and, folded, per phase.
func latencyBlocks(v *assertions.Verdict) []document.Block {
	whole := latencyTable(v, latencyNames(v.Latency))
	if len(whole.Rows) == 0 {
		return nil
	}
	phases := document.Details{Title: "By phase"}
	for _, key := range latencyNames(v.Latency) {
		l := v.Latency[key]
		if l.Count == 0 {
			continue
		}
		title, span := latencyTitle(key)
		table := quantileColumns("phase")
		for i := range table.Columns { // the table above explains them
			table.Columns[i].Help = ""
		}
		table.Rows = append(table.Rows, quantilesRow("whole run", l.Quantiles))
		for _, phase := range phaseNames(l.Phases, v.Phases) {
			if q := l.Phases[phase]; q.Count > 0 && phase != measure.PhaseAll {
				table.Rows = append(table.Rows, quantilesRow(name(phase), q))
			}
		}
		phases.Blocks = append(phases.Blocks, document.Heading(strings.TrimSuffix(title+": "+span, ": ")), table)
	}
	return []document.Block{percentiles(v), whole, phases}
}

// faultBlocks returns for each fault what was planned, what was observed, and the recovery from it.
func faultBlocks(v *assertions.Verdict) []document.Block {
	whole := ended(v)
	for _, f := range v.Faults {
		whole = max(whole, f.Planned.To, f.Observed.To)
	}
	var out []document.Block
	for i, f := range v.Faults {
		state, mark := became(v, f), document.Pass
		if !state.sound() {
			mark = document.Warning
		}
		observed := "not seen"
		bar := document.Bar{Whole: float64(whole), Parts: []document.Part{part(f.Planned, whole, "planned")}}
		if f.Observed.Injected {
			observed = window(f.Observed.FaultWindow)
			bar.Parts = append(bar.Parts, part(f.Observed.FaultWindow, whole, "seen"))
		}
		facts := []document.KeyValue{fact("Target", strings.TrimSuffix(name(f.Kind)+", "+name(f.Target), ", "), ""),
			fact("Planned", window(f.Planned), ""), fact("Observed", observed, "")}
		for _, kind := range slices.Sorted(maps.Keys(f.Observed.Effects)) {
			facts = append(facts, fact(name(kind), units.Count(f.Observed.Effects[kind]), ""))
		}
		if len(f.Observed.Effects) == 0 {
			facts = append(facts, fact("Effects", "none counted", ""))
		}
		one := document.Details{ID: faultAnchor(i), Mark: mark, Word: string(state), Open: true,
			Title: faultLabel(i) + " " + faultName(f), Note: text(f.What) + byHand(f)}
		if why := whyIdle(f); why != "" {
			one.Blocks = append(one.Blocks, document.Paragraph{Text: document.Plain("It did nothing: " + why)})
		}
		one.Blocks = append(one.Blocks, bar, document.KeyValues{Across: true, Items: facts},
			document.KeyValues{Across: true, Items: recoveryFacts(f)})
		out = append(out, one)
	}
	return out
}

// part returns the part of a bar for a window of a run. A moment is still wide enough to be visible.
func part(w assertions.FaultWindow, whole time.Duration, shape string) document.Part {
	least := whole / 250
	from := min(max(w.From, 0), whole-least)
	return document.Part{From: float64(from), To: float64(max(w.To, from+least)), Shape: shape}
}

func faultLabel(index int) string { return "F" + strconv.Itoa(index+1) }

func faultAnchor(index int) string { return fmt.Sprintf("fault-%d", index+1) }

// maxTags is the maximum number of faults named beside a moment.
const maxTags = 6

// faultTags returns the faults that were in force at a time.
func faultTags(v *assertions.Verdict, at time.Duration) document.Text {
	var out document.Text
	for i, f := range v.Faults {
		seen := f.Observed
		if seen.Injected && seen.To > seen.From && at >= seen.From && at <= seen.To && len(out) < maxTags {
			out = append(out, faultTag(i, f))
		}
	}
	return out
}

func faultTag(index int, f assertions.FaultResult) document.Span {
	return document.Span{Text: faultLabel(index), Style: document.StyleTag, Link: "#" + faultAnchor(index),
		Note: faultName(f)}
}

// detailFacts returns the configuration of the run.
func detailFacts(run Run) []document.KeyValue {
	v := run.Verdict
	out := []document.KeyValue{fact("Run", name(v.RunID), ""), fact("Directory", visible(run.Dir, document.Whole), ""),
		fact("Group", name(v.Group), "")}
	for _, topic := range v.Topics {
		out = append(out, fact("Topic ("+name(string(topic.Role))+")", name(topic.Name)+", "+
			units.Plural(int64(topic.Partitions), "partition", "partitions"), ""))
	}
	for _, key := range slices.Sorted(maps.Keys(v.Environment)) {
		out = append(out, fact(name(key), text(v.Environment[key]), ""))
	}
	return known(out...)
}
