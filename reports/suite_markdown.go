package reports

// The summary of a gate as a comment on a change, or in GITHUB_STEP_SUMMARY: one table, then what does not pass,
// folded.

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/dlqbench/dlqbench/internal/units"
)

// mostMarkdown is how long the summary of a gate may be in bytes: GitHub takes 1 MiB for one step. What is left out is
// in the artifacts.
const mostMarkdown = 900 << 10

// SuiteMarkdown writes the summary in GitHub's flavour, with the same care for texts from the runs as Markdown.
func SuiteMarkdown(w io.Writer, suite Suite) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s dlqbench gate: %s\n\n%s\n\n", suiteSign(suite.Verdict), suiteWord(suite.Verdict),
		md(suite.Counts()))
	about := []string{suite.Config}
	if suite.Shard != "" {
		about = append(about, "shard "+suite.Shard)
	}
	fmt.Fprintf(&b, "%s\n", md(text(strings.Join(append(about, units.Text(suite.Elapsed)), " · "))))
	for _, line := range suite.coverageLines() {
		fmt.Fprintf(&b, "\n%s\n", md(line))
	}
	for _, one := range suite.unmet() {
		fmt.Fprintf(&b, "\n%s %s\n", requirementSign(one), md(text(one.Remark())))
	}
	suiteTable(&b, suite)
	suiteWaivers(&b, suite)
	if len(suite.LeftOut) > 0 {
		b.WriteString("\n<details><summary>Left out, as they can't be run here</summary>\n\n")
		for _, left := range suite.LeftOut {
			fmt.Fprintf(&b, "- %s: %s\n", md(name(left.Scenario)), md(text(left.Why)))
		}
		b.WriteString("\n</details>\n")
	}
	suiteDetails(&b, suite)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the gate's summary: %w", err)
	}
	return nil
}

func suiteTable(b *strings.Builder, suite Suite) {
	if len(suite.Runs) == 0 {
		return
	}
	b.WriteString("\n| | run | judged | why | took |\n|---|---|---|---|---:|\n")
	for _, run := range suite.Runs {
		var why []string
		for i, reason := range run.Reasons {
			if i == screenReasons {
				why = append(why, fmt.Sprintf("and %d more", len(run.Reasons)-i))
				break
			}
			why = append(why, md(text(reason)))
		}
		took := "–"
		if run.Elapsed > 0 {
			took = units.Text(run.Elapsed)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", suiteSign(run.Standing), md(name(run.Label)), stood(run),
			strings.Join(why, "<br>"), took)
	}
}

// stood is how a run stands, and how much of what was promised it is about.
func stood(run SuiteRun) string {
	if extent := run.Extent(); extent != "" {
		return suiteWord(run.Standing) + "<br>" + md(extent)
	}
	return suiteWord(run.Standing)
}

// requirementSign is what a requirement that is not met makes of the gate.
func requirementSign(r SuiteRequirement) string {
	if r.Elsewhere {
		return "⚠️"
	}
	return suiteSign(StandingInconclusive)
}

func suiteWaivers(b *strings.Builder, suite Suite) {
	if len(suite.Waivers) == 0 {
		return
	}
	b.WriteString("\n| waived | until | reason | runs | |\n|---|---|---|---:|---|\n")
	for _, waiver := range suite.Waivers {
		remark := md(text(waiver.Remark()))
		if remark != "" {
			remark = "⚠️ " + remark
		}
		fmt.Fprintf(b, "| %s | %s | %s | %d | %s |\n", md(text(waiver.Names())), md(name(waiver.Until)),
			md(text(waiver.Reason)), waiver.Matched, remark)
	}
}

// suiteDetails tells what does not pass as its own summary does, as far as there is room.
func suiteDetails(b *strings.Builder, suite Suite) {
	for _, run := range suite.Runs {
		if run.Judged.Verdict == nil || run.Standing == StandingPass {
			continue
		}
		var one bytes.Buffer
		if err := Markdown(&one, run.Judged); err != nil {
			continue // there is a verdict, and a buffer takes everything
		}
		if b.Len()+one.Len() > mostMarkdown {
			fmt.Fprintf(b, "\n%s: see its report among the artifacts; there is no more room here.\n", md(name(run.Label)))
			continue
		}
		fmt.Fprintf(b, "\n<details><summary>%s</summary>\n\n%s\n</details>\n", inElement(name(run.Label)), one.String())
	}
}

// suiteSign is a standing in one sign, suiteWord in a word or two.
func suiteSign(standing Standing) string {
	switch standing {
	case StandingPass:
		return "✅"
	case StandingFail:
		return "❌"
	case StandingThreshold:
		return "⚠️"
	case StandingWaived:
		return "☑️"
	case StandingNotRun:
		return "➖"
	case StandingEnvironment:
		return "💥"
	}
	return "❔"
}

func suiteWord(standing Standing) string {
	switch standing {
	case StandingThreshold:
		return "THRESHOLD MISSED"
	case StandingNotRun:
		return "NOT RUN"
	}
	return strings.ToUpper(string(standing))
}
