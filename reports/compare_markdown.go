package reports

// A comparison as a comment on a change, or in GITHUB_STEP_SUMMARY.

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/dlqbench/dlqbench/internal/units"
)

// CompareMarkdown writes the comparison in GitHub's flavour, with the same care for texts from the runs as Markdown.
func CompareMarkdown(w io.Writer, c Comparison) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s dlqbench compare: %s\n", compareSign(c.Verdict), compareWord(c.Verdict))
	for _, of := range c.Cases {
		fmt.Fprintf(&b, "\n### %s %s\n\n%s\n\n", compareSign(of.Verdict), md(name(of.Name)), md(compareHeadline(of)))
		fmt.Fprintf(&b, "- before: %s\n- after: %s\n", md(sideText(of.Before)), md(sideText(of.After)))
		compareInvariantsMarkdown(&b, of)
		compareFiguresMarkdown(&b, of)
	}
	b.WriteString("\n")
	for _, remark := range compareRemarks(c) {
		fmt.Fprintf(&b, "- %s\n", md(remark))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the comparison: %w", err)
	}
	return nil
}

func compareInvariantsMarkdown(b *strings.Builder, of CompareCase) {
	same := 0
	var rows strings.Builder
	for _, invariant := range of.Invariants {
		if invariant.Change == InvariantSame {
			same++
			continue
		}
		var remarks []string
		for _, anomaly := range invariant.Anomalies {
			remarks = append(remarks, md(anomalyChange(anomaly)))
		}
		if invariant.Why != "" {
			remarks = append(remarks, md(text(invariant.Why)))
		}
		if invariant.Command != "" && (invariant.Change == InvariantNewlyViolated || invariant.Change == InvariantOtherwise) {
			remarks = append(remarks, code(invariant.Command))
		}
		sign := map[InvariantChange]string{
			InvariantNewlyViolated: "❌", InvariantOtherwise: "❌", InvariantStill: "❌", InvariantHealed: "✅", InvariantShown: "✅",
			InvariantUnproven: "❔",
		}[invariant.Change]
		fmt.Fprintf(&rows, "| %s | %s | %s | %s |\n", sign, md(name(invariant.Name)), md(invariantChange(invariant)),
			strings.Join(remarks, "<br>"))
	}
	if rows.Len() > 0 {
		fmt.Fprintf(b, "\n| | invariant | change | anomalies and remarks |\n|---|---|---|---|\n%s", rows.String())
	}
	if same > 0 {
		fmt.Fprintf(b, "\n%s before.\n", units.Plural(int64(same), "invariant stands as", "invariants stand as"))
	}
}

func compareFiguresMarkdown(b *strings.Builder, of CompareCase) {
	if len(of.Figures) == 0 {
		return
	}
	b.WriteString(
		"\n| | figure | before | after | change | interval | noise | p |\n|---|---|---:|---:|---:|---:|---:|---:|\n")
	for _, figure := range of.Figures {
		sign := map[FigureChange]string{FigureWorse: "🔺", FigureBetter: "✅", FigureSame: "=",
			FigureTooFew: "?"}[figure.Change]
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", sign, md(figure.Title),
			figureValue(figure, figure.Before), figureValue(figure, figure.After),
			figure.ChangeText(), intervalText(figure), md(figure.NoiseText()), md(pText(figure)))
	}
}

// intervalText is the interval of the change with its confidence where that is not 95 %; a single run against another
// has none.
func intervalText(f CompareFigure) string {
	d := f.Difference
	if f.Change == FigureAbsent || d.Level == 0 || math.IsInf(d.Low, 0) || math.IsInf(d.High, 0) || math.IsNaN(d.Low) {
		return "–"
	}
	out := ratioText(d.Low, asFactor(d)) + " … " + ratioText(d.High, asFactor(d))
	if d.Level < 0.95 {
		out += fmt.Sprintf(" (%.0f %%)", 100*d.Level)
	}
	return out
}

func compareSign(verdict CompareVerdict) string {
	switch verdict {
	case CompareSame:
		return "✅"
	case CompareViolated:
		return "❌"
	case CompareRegressed:
		return "🔺"
	}
	return "❔"
}
