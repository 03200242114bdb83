package reports

// This file has the content of the HTML report as plain texts, in the order of the page. Every text from the run has
// passed text() or name() here. The template escapes it for HTML.

import (
	"strconv"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports/document"
)

// view is the page's content.
type view struct {
	Stand    standing
	Word     string
	Scenario string
	Headline string
	Coverage string
	Reasons  []string
	Meta     []string
	Rerun    string
	Facts    []fact

	Invariants    []invariantView
	NotApplicable []invariantView
	// Experimental are the invariants that decide nothing, shown under ExperimentalTitle.
	Experimental      []invariantView
	ExperimentalTitle string
	Held              string
	// Pin is the first violation, nil if there is none. Index names every affected record. LogsNote says where log
	// lines come from.
	Pin      *pinView
	Index    indexView
	LogsNote string
	// anchors are the locations of the records' traces.
	anchors map[int32]string

	HasCurves, HasPercentiles, HasUsage bool

	// Latencies are over the whole run, Phases per phase.
	Latencies, Thresholds document.Table
	Phases                document.Details
	Ledger                ledgerView
	Account               accountView
	Faults                []faultView
	Usage                 []fact
	Health                []fact
	Details               []fact
}

// fact is a figure with its label.
type fact struct {
	Label, Value, Note string
	// Tone is bad or warn if the figure is not as it should be.
	Tone string
}

func newView(run Run) view {
	v := run.Verdict
	out := view{
		Stand: stands(v), Word: stands(v).word(), Scenario: name(v.Scenario), Headline: headline(v), Coverage: coverage(v),
		Meta:  metaLine(run),
		Rerun: visible(v.Rerun, 4096), Facts: headFacts(run), Ledger: newLedgerView(v.Ledger),
		Faults: faultViews(v), Usage: usageFacts(v.Usage), Health: healthFacts(v.Health, v.Ledger), Details: detailFacts(run),
		Latencies: latencyTable(v, latencyNames(v.Latency)), Thresholds: thresholdTable(v),
		Phases: document.Details{Title: "By phase", Blocks: phaseTables(v)},
	}
	for _, reason := range furtherReasons(v) {
		out.Reasons = append(out.Reasons, text(reason))
	}
	out.addInvariants(v)
	out.Account = newAccountView(v, out.anchors)
	out.Index, out.LogsNote = newIndexView(v, out.anchors), logsNote(v)
	if out.Pin = newPinView(v); out.Pin != nil {
		if first := firstFailure(v).First; first != nil {
			out.Pin.Anchor = out.anchors[first.Record]
		}
	}
	out.HasCurves, out.HasPercentiles, out.HasUsage = hasCurves(v), len(v.Percentiles) > 0, len(v.Series.Instances) > 0
	return out
}

func metaLine(run Run) []string {
	v := run.Verdict
	subject := name(v.Subject)
	if n := v.Instances; n > 0 {
		subject += ", " + units.Plural(int64(n), "instance", "instances")
	}
	out := []string{subject, "seed " + strconv.FormatUint(v.Seed, 10)}
	if length := ended(v); length > 0 {
		out = append(out, "ran "+units.Text(length.Round(100*time.Millisecond)))
	}
	if !v.Started.IsZero() {
		out = append(out, v.Started.UTC().Format("2 January 2006, 15:04 UTC"))
	}
	return out
}

// headFacts returns the figures that a reader wants first.
func headFacts(run Run) []fact {
	v := run.Verdict
	l := v.Ledger
	out := []fact{
		{Label: "Records", Value: units.Count(l.Acknowledged), Note: "of " + units.Count(l.Planned) + " planned"},
		{Label: "Load", Value: units.PerSecond(v.Throughput.Sent),
			Note: units.PerSecond(v.Throughput.Processed) + " processed"},
	}
	if q, ok := v.Latency[measure.LatencySuccess]; ok && q.Count > 0 {
		out = append(out, fact{Label: "Success p99", Value: units.Text(q.P99), Note: "p50 " + units.Text(q.P50)})
	}
	dead := fact{Label: "Dead letters", Value: units.Count(l.DeadLettered), Note: units.Count(l.Attempts) + " attempts"}
	out = append(out, dead)
	if len(v.Faults) > 0 {
		out = append(out, faultFact(v))
	}
	if l.Unfinished > 0 {
		out = append(out, fact{Label: "Unfinished", Value: units.Count(l.Unfinished),
			Note: "records with no end", Tone: "bad"})
	} else if v.Drain.Drained {
		out = append(out, fact{Label: "Drain", Value: units.Text(v.Drain.Time),
			Note: "lag at most " + units.Count(v.Drain.LagMax)})
	}
	return out
}

func faultFact(v *assertions.Verdict) fact {
	sound := int64(0)
	for _, f := range v.Faults {
		if became(v, f).sound() {
			sound++
		}
	}
	out := fact{Label: "Faults", Value: units.Count(sound) + " of " + units.Count(int64(len(v.Faults))),
		Note: "took effect"}
	if sound < int64(len(v.Faults)) {
		out.Tone = "warn"
	}
	return out
}

// phaseTables returns the latencies per phase.
func phaseTables(v *assertions.Verdict) []document.Block {
	var out []document.Block
	for _, key := range latencyNames(v.Latency) {
		l := v.Latency[key]
		if l.Count == 0 {
			continue
		}
		title, span := latencyTitle(key)
		table := quantileColumns("phase")
		table.Rows = append(table.Rows, quantilesRow("whole run", l.Quantiles))
		for _, phase := range phaseNames(l.Phases, v.Phases) {
			if q := l.Phases[phase]; q.Count > 0 && phase != measure.PhaseAll {
				table.Rows = append(table.Rows, quantilesRow(name(phase), q))
			}
		}
		out = append(out, document.Heading(strings.TrimSuffix(title+": "+span, ": ")), table)
	}
	return out
}

// detailFacts returns the configuration of the run.
func detailFacts(run Run) []fact {
	v := run.Verdict
	var out []fact
	add := func(label, value string) {
		if value != "" {
			out = append(out, fact{Label: label, Value: value})
		}
	}
	add("Run", name(v.RunID))
	add("Directory", visible(run.Dir, 4096))
	add("Group", name(v.Group))
	for _, topic := range v.Topics {
		add("Topic ("+name(string(topic.Role))+")", name(topic.Name)+", "+units.Plural(int64(topic.Partitions), "partition",
			"partitions"))
	}
	for _, key := range sortedKeys(v.Environment) {
		add(name(key), text(v.Environment[key]))
	}
	return out
}
