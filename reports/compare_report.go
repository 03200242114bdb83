package reports

// This file builds the document of a comparison: the verdict, the changes in the invariants, and the figures with
// their noise floor.

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/stats"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports/document"
)

// CompareTerminal writes the comparison to the terminal w.
func CompareTerminal(w io.Writer, c Comparison, color bool) error {
	return document.Terminal(w, compareDocument(c), Columns(w), color)
}

// CompareMarkdown writes the comparison in GitHub's flavour.
func CompareMarkdown(w io.Writer, c Comparison) error {
	return document.Markdown(w, compareDocument(c))
}

// CompareHTML writes the comparison as one self-contained page, for reviewers of a change.
func CompareHTML(w io.Writer, c Comparison) error { return document.HTML(w, compareDocument(c)) }

func compareDocument(c Comparison) document.Document {
	out := document.Document{
		Kind: "comparison", Mark: compareMark(c.Verdict), Word: compareWord(c.Verdict), Title: "dlqbench compare",
		Foot: "The same facts for programs: dlqbench compare --json.",
	}
	for _, of := range c.Cases {
		out.Sections = append(out.Sections, document.Section{
			Title: name(of.Name), Mark: compareMark(of.Verdict), Word: compareWord(of.Verdict),
			Blocks: []document.Block{
				document.Paragraph{Text: document.Plain(compareHeadline(of))},
				document.KeyValues{Items: []document.KeyValue{
					{Key: "before", Value: document.Plain(sideText(of.Before))},
					{Key: "after", Value: document.Plain(sideText(of.After))},
				}},
				document.Heading("Invariants"), compareInvariantTable(of), sameInvariants(of),
				document.Heading("Figures (medians)"), compareFigureTable(of),
			},
		})
	}
	remarks := each(compareRemarks(c), func(words string) document.Item {
		return document.Item{Text: document.Plain(words)}
	})
	out.Sections = append(out.Sections, document.Section{Blocks: []document.Block{document.List{Items: remarks}}})
	return out
}

func compareMark(verdict CompareVerdict) document.Mark {
	return cmp.Or(map[CompareVerdict]document.Mark{CompareSame: document.Pass, CompareViolated: document.Fail,
		CompareFirstViolated: document.Fail, CompareRegressed: document.Worse}[verdict], document.Unsure)
}

// sideText describes a side: "5 runs of reference: runs/a … runs/e".
func sideText(of CompareSide) string {
	out := fmt.Sprintf("%s of %s", units.Plural(int64(len(of.Runs)), "run", "runs"), text(strings.Join(of.Subjects, ", ")))
	if of.Failed > 0 {
		out += fmt.Sprintf(", %d failed", of.Failed)
	}
	if of.Inconclusive > 0 {
		out += fmt.Sprintf(", %d inconclusive (whose figures don't count)", of.Inconclusive)
	}
	if n := len(of.Runs); n > 0 {
		out += ": " + visible(of.Runs[0], maxName)
		if n > 1 {
			out += " … " + visible(of.Runs[n-1], maxName)
		}
	}
	return out
}

// compareInvariantTable lists the invariants whose status changed.
func compareInvariantTable(of CompareCase) document.Table {
	out := document.Table{Columns: []document.Column{{}, {Title: "change"}, {Title: "anomalies and remarks", Below: true}}}
	marks := map[InvariantChange]document.Mark{
		InvariantNewlyViolated: document.Fail, InvariantFirstViolated: document.Fail, InvariantOtherwise: document.Fail,
		InvariantStill:  document.Fail,
		InvariantHealed: document.Pass, InvariantShown: document.Pass, InvariantUnproven: document.Unsure,
	}
	for _, invariant := range of.Invariants {
		if invariant.Change == InvariantSame {
			continue
		}
		remarks := append(document.Cells(each(invariant.Anomalies, anomalyChange)...), document.Plain(text(invariant.Why)))
		switch invariant.Change {
		case InvariantNewlyViolated, InvariantFirstViolated, InvariantOtherwise:
			remarks = append(remarks, seeAlso(invariant.Command))
		}
		out.Rows = append(out.Rows, document.Row{Mark: marks[invariant.Change], Cells: []document.Text{
			document.Plain(name(invariant.Name)), document.Plain(invariantChange(invariant)), document.Lines(remarks...),
		}})
	}
	return out
}

// seeAlso returns the command that shows the evidence.
func seeAlso(command string) document.Text {
	if command == "" {
		return nil
	}
	return document.Text{{Text: "see: "}, {Text: command, Style: document.StyleCode}}
}

func sameInvariants(of CompareCase) document.Paragraph {
	same := count(of.Invariants, func(invariant CompareInvariant) bool { return invariant.Change == InvariantSame })
	if same == 0 {
		return document.Paragraph{}
	}
	return document.Paragraph{Text: document.Plain(
		units.Plural(int64(same), "invariant stands as", "invariants stand as") + " before.")}
}

// invariantChange describes the change of an invariant in words.
func invariantChange(invariant CompareInvariant) string {
	status := func(s assertions.Status) string {
		if s == "" {
			return "not judged"
		}
		return string(s)
	}
	words := map[InvariantChange]string{
		InvariantNewlyViolated: "newly violated",
		InvariantFirstViolated: "judged for the first time", InvariantOtherwise: "violated in another way",
		InvariantUnproven: "not shown any more",
		InvariantStill:    "still violated", InvariantHealed: "not violated any more", InvariantShown: "shown now",
		InvariantSame: "as before",
	}[invariant.Change]
	return fmt.Sprintf("%s (%s → %s)", words, status(invariant.Before), status(invariant.After))
}

func anomalyChange(a CompareAnomaly) string {
	side := func(n int64, runs int) string {
		if n == 0 {
			return "none"
		}
		return fmt.Sprintf("%s in %s", units.Count(n), units.Plural(int64(runs), "run", "runs"))
	}
	return fmt.Sprintf("%s: %s before, %s after", name(a.Name), side(a.Before, a.RunsBefore), side(a.After, a.RunsAfter))
}

func compareFigureTable(of CompareCase) document.Table {
	out := document.Table{Columns: []document.Column{
		{}, {Title: "before", Figure: true, Help: "The median of the runs before."},
		{Title: "after", Figure: true, Help: "The median of the runs after."},
		{Title: "change", Figure: true, Help: "The median of what any run after is beside any run before."},
		{Title: "interval", Figure: true, Spare: true, Help: "Where the change lies with 95 % confidence."},
		{Title: "noise", Figure: true, Help: "What three quarters of all pairs of identical runs differ by at most."},
		{Title: "p", Figure: true, Help: "How likely chance alone makes such a difference: 0.05 or less counts as a " +
			"change. Figures without it are shown only."}, {},
	}}
	marks := map[FigureChange]document.Mark{FigureWorse: document.Worse, FigureBetter: document.Pass,
		FigureSame: document.Same, FigureTooFew: document.Unsure}
	for _, figure := range of.Figures {
		out.Rows = append(out.Rows, document.Row{Mark: marks[figure.Change],
			Strong: figure.Change == FigureWorse || figure.Change == FigureBetter,
			Cells:  figureCells(figure, figureWord(figure.Change))})
	}
	return out
}

// figureCells returns the cells of a figure that is compared, from its title to the conclusion.
func figureCells(f CompareFigure, word string) []document.Text {
	return document.Cells(f.Title, figureValue(f, f.Before), figureValue(f, f.After), f.ChangeText(), intervalText(f),
		f.NoiseText(), pText(f), word)
}

// figureValue formats a side's median with its unit.
func figureValue(f CompareFigure, of stats.Summary) string {
	if of.Count == 0 {
		return "–"
	}
	return f.Unit.Text(of.Median)
}

// Text formats a figure of a bench or a comparison.
func (u BenchUnit) Text(v float64) string {
	switch u {
	case BenchUnitTime:
		return units.Text(time.Duration(math.Round(v * float64(time.Second))))
	case BenchUnitRate:
		return units.PerSecond(v)
	case BenchUnitShare:
		return percent(v)
	case BenchUnitSize:
		return size(int64(v))
	}
	if v == math.Trunc(v) {
		return units.Count(int64(v))
	}
	return units.Significant(v)
}

// ChangeText formats the change relative to the before side's median. There is no share of zero, so the change is
// then absolute. If the figures or the repetitions are far apart, the change is a factor, and so is the noise. As
// shares, a half (-50 %) would look smaller than a double (+100 %).
func (f CompareFigure) ChangeText() string {
	d := f.Difference
	switch {
	case f.Change == FigureAbsent:
		return "–"
	case d.Shift == 0:
		return "0 %"
	case math.IsInf(d.Ratio, 0) || math.IsNaN(d.Ratio):
		sign := "+"
		if d.Shift < 0 {
			sign = "-"
		}
		return sign + f.Unit.Text(math.Abs(d.Shift))
	}
	return ratioText(d.Ratio, asFactor(d))
}

// asFactor reports whether a difference is shown as a factor. Counts that may be 0 never are.
func asFactor(d stats.Difference) bool {
	return d.Low > 0 && (d.Noise >= 0.25 || d.Ratio >= 3 || d.Ratio <= 1.0/3)
}

func ratioText(ratio float64, factor bool) string {
	switch {
	case !factor:
		return signedPercent(ratio - 1)
	case ratio < 1:
		return "÷ " + units.Significant(1/ratio)
	}
	return "× " + units.Significant(ratio)
}

// signedPercent formats a share with its sign: +12 %, -0.40 %.
func signedPercent(share float64) string {
	switch {
	case share > 0:
		return "+" + percent(share)
	case share < 0:
		return "-" + percent(-share)
	}
	return percent(0)
}

// percent formats a share. A share above zero is never formatted as zero.
func percent(share float64) string {
	switch of := share * 100; {
	case of == 0:
		return "0 %"
	case of < 0.01:
		return "<0.01 %"
	case of < 10:
		return fmt.Sprintf("%.2g %%", of)
	default:
		return units.Count(int64(math.Round(of))) + " %"
	}
}

// intervalText formats the interval of the change, with its confidence if that is not 95 %. Two single runs have no
// interval.
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

// NoiseText formats the noise floor in the unit of the change.
func (f CompareFigure) NoiseText() string {
	d := f.Difference
	switch {
	case f.Change == FigureAbsent || math.IsNaN(d.Floor):
		return "–"
	case math.IsInf(d.Noise, 0) || math.IsNaN(d.Noise):
		return f.Unit.Text(d.Floor)
	case asFactor(d):
		return "× " + units.Significant(1+d.Noise)
	}
	return percent(d.Noise)
}

func pText(f CompareFigure) string {
	if f.Change == FigureAbsent || f.Change == FigureShown || f.Change == FigureTooFew {
		return "–"
	}
	return probability(f.Difference.Adjusted)
}

func probability(p float64) string {
	if p < 0.001 {
		return "<0.001"
	}
	return fmt.Sprintf("%.2g", p)
}

func figureWord(change FigureChange) string {
	return map[FigureChange]string{
		FigureWorse: "WORSE", FigureBetter: "better",
	}[change]
}

// compareWord returns the banner text of a verdict.
func compareWord(verdict CompareVerdict) string {
	return cmp.Or(map[CompareVerdict]string{
		CompareViolated: "NEWLY VIOLATED", CompareFirstViolated: "VIOLATED, JUDGED FOR THE FIRST TIME",
		CompareUnproven: "NOT SHOWN ANY MORE", CompareRegressed: "REGRESSED", CompareTooFew: "TOO FEW REPETITIONS",
	}[verdict], "NO REGRESSION")
}

// compareHeadline explains a case's verdict in one or two sentences.
func compareHeadline(of CompareCase) string {
	invariants := map[InvariantChange][]string{}
	for _, invariant := range of.Invariants {
		invariants[invariant.Change] = append(invariants[invariant.Change], name(invariant.Name))
	}
	var worse, better []string
	for _, figure := range of.Figures {
		sentence := fmt.Sprintf("%s %s (%s → %s, noise %s)", figure.Title, figure.ChangeText(),
			figureValue(figure, figure.Before), figureValue(figure, figure.After), figure.NoiseText())
		switch figure.Change {
		case FigureWorse:
			worse = append(worse, sentence)
		case FigureBetter:
			better = append(better, sentence)
		}
	}
	var out []string
	for _, part := range []struct {
		words string
		of    []string
	}{
		{"Newly violated", invariants[InvariantNewlyViolated]},
		{"Judged for the first time, and violated", invariants[InvariantFirstViolated]},
		{"Violated in another way", invariants[InvariantOtherwise]},
		{"Not shown any more", invariants[InvariantUnproven]}, {"Worse", worse},
		{"Still violated", invariants[InvariantStill]},
		{"Not violated any more", invariants[InvariantHealed]}, {"Better", better},
	} {
		if len(part.of) > 0 {
			out = append(out, part.words+": "+strings.Join(part.of, ", ")+".")
		}
	}
	if len(out) > 0 {
		return strings.Join(out, " ")
	}
	if of.Verdict == CompareTooFew {
		return "The invariants stand as before. Whether a figure changed, so few repetitions can't show."
	}
	return "The invariants stand as before, and no watched figure changed by more than noise."
}

// compareRemarks explains how to read the figures.
func compareRemarks(c Comparison) []string {
	var out []string
	if needed := c.tooFew(); needed > 0 {
		out = append(out, fmt.Sprintf("? Not enough repetitions: however far apart, figures of so few runs could be so by "+
			"chance. %d runs on each side are the fewest that can show a difference here.", needed))
	}
	for _, note := range c.Notes {
		out = append(out, "Note: "+text(note))
	}
	if len(c.OnlyBefore) > 0 {
		out = append(out, "Not compared, as there are no runs of it after: "+
			strings.Join(each(c.OnlyBefore, name), ", "))
	}
	return append(out, fmt.Sprintf("The change is the median of what any run after is beside any run before. It is "+
		"called one if it is larger than the noise (what three quarters of all pairs of identical runs differ by at most) "+
		"and p is at most %g (exact permutation test, Holm over all watched figures). Figures without a p are shown only.",
		c.Alpha))
}
