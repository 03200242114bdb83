package reports

// A bench as a comment on a change, or in GITHUB_STEP_SUMMARY.

import (
	"cmp"
	"fmt"
	"io"
	"strings"
)

// BenchMarkdown writes the summary in GitHub's flavour, with the same care for texts from the runs as Markdown.
func BenchMarkdown(w io.Writer, bench Bench) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## dlqbench bench: %s\n\n%s\n\n", md(name(bench.Name)), md(benchHeadline(bench)))
	if bench.Description != "" {
		fmt.Fprintf(&b, "%s\n\n", md(text(bench.Description)))
	}
	fmt.Fprintf(&b, "%s\n", md(strings.Join(benchAbout(bench), " · ")))
	benchAdviceMarkdown(&b, bench)
	benchCellsMarkdown(&b, bench)
	benchRecoveryMarkdown(&b, bench)
	benchWhyMarkdown(&b, bench)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the summary of the bench: %w", err)
	}
	return nil
}

func benchAdviceMarkdown(b *strings.Builder, bench Bench) {
	if len(bench.Advice) == 0 {
		return
	}
	b.WriteString("\n### What to change\n\n")
	for _, advice := range bench.Advice {
		fmt.Fprintf(b, "- **%s**\n", md(text(advice.Text)))
		for _, evidence := range advice.Evidence {
			fmt.Fprintf(b, "  - %s\n", md(text(evidence)))
		}
	}
}

func benchCellsMarkdown(b *strings.Builder, bench Bench) {
	columns := benchColumns(bench)
	front := onFront(bench)
	b.WriteString("\n| | cell | runs |")
	for _, column := range columns {
		fmt.Fprintf(b, " %s |", md(column.title))
	}
	b.WriteString("\n|---|---|---:|" + strings.Repeat("---:|", len(columns)) + "\n")
	for _, of := range bench.Cells {
		label := md(name(of.Name))
		if front[of.Number] {
			label = "**" + label + "** ★"
		}
		fmt.Fprintf(b, "| %s | %d. %s | %d |", benchSign(of.State), of.Number, label, len(of.Repetitions))
		for _, column := range columns {
			value, spread := column.shown(of)
			fmt.Fprintf(b, " %s |", cmp.Or(strings.TrimSpace(value+" "+spread), "–"))
		}
		b.WriteString("\n")
	}
	var noise []string
	for _, column := range columns {
		if share, known := noiseOf(bench, column.BenchFigure); known {
			noise = append(noise, column.title+" "+percent(share))
		}
	}
	b.WriteString(
		"\nMedians, ± half the width of the middle half; ★ no other cell beats it in rate, p99 and duplicates together.")
	if len(noise) > 0 {
		fmt.Fprintf(b, " Noise floor (three quarters of all pairs of identical runs differ by at most): %s.",
			md(strings.Join(noise, ", ")))
	}
	b.WriteString("\n")
}

func benchRecoveryMarkdown(b *strings.Builder, bench Bench) {
	recoveries := newBenchRecoveries(bench)
	if len(recoveries.faults) == 0 {
		return
	}
	b.WriteString("\n<details><summary>Recovery after each fault</summary>\n\n| cell |")
	for _, fault := range recoveries.faults {
		fmt.Fprintf(b, " %s |", md(name(fault)))
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(recoveries.faults)) + "\n")
	for i, of := range bench.Cells {
		fmt.Fprintf(b, "| %d. %s |", of.Number, md(name(of.Name)))
		for _, recovered := range recoveries.rows[i] {
			fmt.Fprintf(b, " %s |", recovered.words())
		}
		b.WriteString("\n")
	}
	b.WriteString("\n</details>\n")
}

// benchWhyMarkdown says of each cell that is not ok why, and what shows it again.
func benchWhyMarkdown(b *strings.Builder, bench Bench) {
	for _, of := range bench.Cells {
		if of.State == BenchOK || len(of.Why) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n<details><summary>%s %d. %s: %s</summary>\n\n", benchSign(of.State), of.Number,
			inElement(name(of.Name)), benchWord(of.State))
		for _, why := range of.Why {
			fmt.Fprintf(b, "- %s\n", md(text(why)))
		}
		if of.Command != "" {
			fmt.Fprintf(b, "\n%s", fenced("sh", visible(of.Command, 4096)+"\n"))
		}
		b.WriteString("\n</details>\n")
	}
}

func benchSign(state BenchState) string {
	switch state {
	case BenchOK:
		return "✅"
	case BenchBroken:
		return "❌"
	case BenchNotRun:
		return "➖"
	}
	return "❔"
}
