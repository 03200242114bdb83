package reports

// summary.md: the run as a comment on a change, or in GITHUB_STEP_SUMMARY. What matters is seen without unfolding
// anything.

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/units"
)

const (
	markdownCounterexamples = 2
	markdownLines           = 25
)

// Markdown writes the summary in GitHub's flavour. Texts that come from the run can neither open an element, break out
// of a table or a code block, make a link, nor mention anyone.
func Markdown(w io.Writer, run Run) error {
	if run.Verdict == nil {
		return errNoVerdict
	}
	v := run.Verdict
	var b strings.Builder
	sign := map[standing]string{standsPass: "✅", standsFail: "❌", standsMissed: "⚠️", standsInconclusive: "❔"}[stands(v)]
	fmt.Fprintf(&b, "## %s %s: %s\n\n%s\n\n%s\n\n", sign, stands(v).word(), md(name(v.Scenario)), md(headline(v)),
		md(coverage(v)))
	fmt.Fprintf(&b, "%s\n", md(strings.Join(facts(run), " · ")))
	markdownInvariants(&b, v)
	markdownFaults(&b, v)
	markdownThresholds(&b, v)
	markdownFigures(&b, v)
	markdownStories(&b, v)
	if run.Dir != "" {
		fmt.Fprintf(&b, "\nReport: %s\n", code(filepath.Join(run.Dir, HTMLFile)))
	}
	if v.Rerun != "" {
		fmt.Fprintf(&b, "\nRun it again:\n\n%s", fenced("sh", visible(v.Rerun, 4096)+"\n"))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the summary: %w", err)
	}
	return nil
}

func markdownInvariants(b *strings.Builder, v *assertions.Verdict) {
	if len(v.Invariants) == 0 {
		return
	}
	b.WriteString("\n| | invariant | judged | anomalies and remarks |\n|---|---|---:|---|\n")
	for _, r := range ranked(v) {
		sign := map[assertions.Status]string{assertions.Pass: "✅", assertions.Fail: "❌",
			assertions.NotApplicable: "➖"}[r.Status]
		switch {
		case r.Unjudged == assertions.Inapplicable:
			continue
		case sign == "":
			sign = "❔"
		case r.Status == assertions.Pass && r.Partial():
			sign = "🟡"
		}
		var remarks []string
		for _, a := range r.Anomalies {
			remarks = append(remarks, fmt.Sprintf("**%s** × %s", md(name(a.Name)), units.Count(a.Count)))
		}
		for _, more := range []string{text(r.Why), notJudged(r)} {
			if more != "" {
				remarks = append(remarks, md(more))
			}
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", sign, md(name(r.Name)), md(judgedOf(r)), strings.Join(remarks, "; "))
	}
}

func markdownFaults(b *strings.Builder, v *assertions.Verdict) {
	if len(v.Faults) == 0 {
		return
	}
	b.WriteString(
		"\n| fault | planned | observed | what it did | noticed | lag back | steady |\n|---|---|---|---|---:|---:|---:|\n")
	for _, f := range v.Faults {
		state := became(v, f)
		observed := window(f.Observed.FaultWindow)
		if !f.Observed.Injected {
			observed = "–"
		}
		did := string(state)
		if what := effects(f); what != "" {
			did += ": " + what
		}
		if !state.sound() {
			did = "⚠️ " + did
		}
		fmt.Fprintf(b, "| %s: %s | %s | %s | %s |", md(faultName(f)), md(text(f.What)), window(f.Planned), observed, md(did))
		for _, span := range []measure.Span{f.Recovery.Detect, f.Recovery.CatchUp, f.Recovery.Steady} {
			words := "–"
			if span.State != "" {
				words = spanValue(span)
			}
			fmt.Fprintf(b, " %s |", words)
		}
		b.WriteString("\n")
	}
}

func markdownThresholds(b *strings.Builder, v *assertions.Verdict) {
	if len(v.Thresholds) == 0 {
		return
	}
	b.WriteString("\n| | threshold | actual |\n|---|---|---|\n")
	for _, t := range v.Thresholds {
		sign := "✅"
		if !t.Met {
			sign = "❌"
		}
		actual := text(t.Actual)
		if t.Error != "" {
			actual = text(t.Error)
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", sign, code(t.Expression), md(actual))
	}
}

func markdownFigures(b *strings.Builder, v *assertions.Verdict) {
	fmt.Fprintf(b, "\n%s", md(conservation(v)))
	if v.Drain.Drained {
		fmt.Fprintf(b, "; drained in %s, lag at most %s", units.Text(v.Drain.Time), units.Count(v.Drain.LagMax))
	}
	b.WriteString(".\n")
	if remark := remarkOnRetries(v.Usage); remark != "" {
		fmt.Fprintf(b, "\nRetries: %s.\n", md(remark))
	}
	names := latencyNames(v.Latency)
	if len(names) == 0 {
		return
	}
	b.WriteString(
		"\n<details><summary>Latency</summary>\n\n| | p50 | p90 | p99 | p99.9 | max |\n|---|---:|---:|---:|---:|---:|\n")
	for _, key := range names {
		q := v.Latency[key].Quantiles
		if q.Count == 0 {
			continue
		}
		title, _ := latencyTitle(key)
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", md(title),
			units.Text(q.P50), units.Text(q.P90), units.Text(q.P99), units.Text(q.P999), units.Text(q.Max))
	}
	b.WriteString("\n</details>\n")
}

// markdownStories tells the first counterexamples of what was violated, folded.
func markdownStories(b *strings.Builder, v *assertions.Verdict) {
	for _, r := range v.Invariants {
		for _, a := range r.Anomalies {
			if len(a.Counterexamples) == 0 {
				continue
			}
			fmt.Fprintf(b, "\n<details><summary>%s: %s × %s</summary>\n", inElement(name(r.Name)), inElement(name(a.Name)),
				units.Count(a.Count))
			for _, w := range a.Counterexamples[:min(len(a.Counterexamples), markdownCounterexamples)] {
				trace := text(w.Summary) + "\n"
				if where := position(w); where != "" {
					trace += where + "\n"
				}
				fmt.Fprintf(b, "\n%s", fenced("text", trace+"\n"+plainTrace(w, "", markdownLines)+allOfIt(w)))
			}
			b.WriteString("\n</details>\n")
		}
	}
}

// allOfIt names the command that tells the whole trace.
func allOfIt(w assertions.Counterexample) string {
	if w.Command == "" {
		return ""
	}
	return "\nall of it: " + text(w.Command) + "\n"
}
