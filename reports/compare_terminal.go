package reports

// A comparison on a terminal: how it stands, what changed in the invariants, and the figures with the noise floor
// beside them.

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/stats"
	"github.com/dlqbench/dlqbench/internal/units"
)

// CompareTerminal writes the comparison, lines cut at 80 columns except for commands that are meant to be copied.
// Without color it writes no escape sequence.
func CompareTerminal(w io.Writer, c Comparison, color bool) error {
	s := &screen{color: color, width: screenWidth}
	for i, of := range c.Cases {
		if i > 0 {
			s.lines = append(s.lines, "")
		}
		s.compareBanner(of)
		s.compareSide("before", of.Before)
		s.compareSide("after", of.After)
		s.compareInvariants(of)
		s.compareFigures(of)
	}
	if remarks := compareRemarks(c); len(remarks) > 0 {
		s.lines = append(s.lines, "")
		for _, remark := range remarks {
			s.addWrapped(1, remark)
		}
	}
	if _, err := io.WriteString(w, strings.Join(s.lines, "\n")+"\n"); err != nil {
		return fmt.Errorf("writing the comparison: %w", err)
	}
	return nil
}

func (s *screen) compareBanner(of CompareCase) {
	badge := " " + compareWord(of.Verdict) + " "
	if s.color {
		background := map[CompareVerdict]string{CompareSame: "2", CompareViolated: "1", CompareRegressed: "1"}[of.Verdict]
		if background == "" {
			background = "3"
		}
		badge = lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Color("0")).Background(lipgloss.Color(background)).
			Render(badge)
	}
	s.add("%s %s", badge, s.bold(name(of.Name)))
	s.addWrapped(1, compareHeadline(of))
}

func (s *screen) compareSide(side string, of CompareSide) {
	s.add("%s", s.faint(fmt.Sprintf(" %-6s  %s", side, sideText(of))))
}

// sideText says what a side is: "5 runs of reference: runs/a … runs/e".
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

func (s *screen) compareInvariants(of CompareCase) {
	s.heading("Invariants")
	same := int64(0)
	for _, invariant := range of.Invariants {
		if invariant.Change == InvariantSame {
			same++
			continue
		}
		s.add(" %s %s %s", s.mark(invariantMark(invariant)), cell(name(invariant.Name), 24), invariantChange(invariant))
		for _, anomaly := range invariant.Anomalies {
			s.addWrapped(5, anomalyChange(anomaly))
		}
		if invariant.Why != "" {
			s.addWrapped(5, text(invariant.Why))
		}
		if invariant.Command != "" && (invariant.Change == InvariantNewlyViolated || invariant.Change == InvariantOtherwise) {
			s.lines = append(s.lines, "     see: "+visible(invariant.Command, 4096))
		}
	}
	if same > 0 {
		s.add(" %s", s.faint(fmt.Sprintf("= %s before", units.Plural(same, "invariant stands as", "invariants stand as"))))
	}
}

// invariantMark is the sign of what became of an invariant.
func invariantMark(invariant CompareInvariant) assertions.Status {
	switch invariant.Change {
	case InvariantNewlyViolated, InvariantOtherwise, InvariantStill:
		return assertions.Fail
	case InvariantHealed, InvariantShown:
		return assertions.Pass
	}
	return assertions.Inconclusive
}

// invariantChange says what became of an invariant, in words.
func invariantChange(invariant CompareInvariant) string {
	status := func(s assertions.Status) string {
		if s == "" {
			return "not judged"
		}
		return string(s)
	}
	words := map[InvariantChange]string{
		InvariantNewlyViolated: "newly violated", InvariantOtherwise: "violated in another way",
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

func (s *screen) compareFigures(of CompareCase) {
	if len(of.Figures) == 0 {
		return
	}
	s.heading("Figures (medians)")
	s.add("%s", s.faint(fmt.Sprintf(" %-18s %11s %11s %9s %8s %7s", "", "before", "after", "change", "noise", "p")))
	for _, figure := range of.Figures {
		line := fmt.Sprintf(" %s %11s %11s %9s %8s %7s  %s", cell(figure.Title, 18), figureValue(figure, figure.Before),
			figureValue(figure, figure.After), figure.ChangeText(), figure.NoiseText(), pText(figure), figureWord(figure.Change))
		switch figure.Change {
		case FigureWorse:
			line = s.style(line, "1", true)
		case FigureBetter:
			line = s.style(line, "2", true)
		}
		s.add("%s", line)
	}
}

// figureValue is a side's median with its unit.
func figureValue(f CompareFigure, of stats.Summary) string {
	if of.Count == 0 {
		return "–"
	}
	return f.Unit.Text(of.Median)
}

// Text prints a figure of a bench or a comparison.
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

// ChangeText is the change beside the before side's median; from nothing there is no share, so it is told as it is.
// Where figures are far apart, or repetitions are, it is a factor, as the noise is: in shares a half (-50 %) would look
// less than a double (+100 %).
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

// asFactor tells that a difference is told as a factor. Nothing is a factor of counts that may be 0.
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

// signedPercent prints a share with its sign: +12 %, -0.40 %.
func signedPercent(share float64) string {
	switch {
	case share > 0:
		return "+" + percent(share)
	case share < 0:
		return "-" + percent(-share)
	}
	return percent(0)
}

// percent prints a share; one that is there is never printed as nothing.
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

// NoiseText is the noise floor in the unit of the change.
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
		FigureWorse: "WORSE", FigureBetter: "better", FigureSame: "=", FigureTooFew: "?", FigureShown: "", FigureAbsent: "",
	}[change]
}

// compareWord is a verdict as a banner says it.
func compareWord(verdict CompareVerdict) string {
	switch verdict {
	case CompareViolated:
		return "NEWLY VIOLATED"
	case CompareUnproven:
		return "NOT SHOWN ANY MORE"
	case CompareRegressed:
		return "REGRESSED"
	case CompareTooFew:
		return "TOO FEW REPETITIONS"
	}
	return "NO REGRESSION"
}

// compareHeadline says in a sentence or two why a case stands as it does.
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
		{"Newly violated", invariants[InvariantNewlyViolated]}, {"Violated in another way", invariants[InvariantOtherwise]},
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

// compareRemarks say how the figures are to be read.
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
		named := make([]string, len(c.OnlyBefore))
		for i, of := range c.OnlyBefore {
			named[i] = name(of)
		}
		out = append(out, "Not compared, as there are no runs of it after: "+strings.Join(named, ", "))
	}
	return append(out, fmt.Sprintf("The change is the median of what any run after is beside any run before. It is "+
		"called one if it is larger than the noise (what three quarters of all pairs of identical runs differ by at most) "+
		"and p is at most %g (exact permutation test, Holm over all watched figures). Figures without a p are shown only.",
		c.Alpha))
}
