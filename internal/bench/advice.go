package bench

// This file derives advice from results, in plain words, with the evidence. It ignores differences that could be noise:
// package stats decides which are real.

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/internal/stats"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports"
)

// mostAdvice is the maximum number of pieces of advice, because people do not read more.
const mostAdvice = 20

// Advise lists the changes that the results of a bench suggest: first what is broken, then what is better or worse than
// the first value of its setting, then what drifts, then why nothing can be concluded. Each pair of cells is compared
// by the most important figures, with a total rate of false alarms of stats.Alpha. If a setting was tried in several
// cells, the difference must show in more than one of them, and in none of them in the opposite direction.
func Advise(bench reports.Bench) []reports.BenchAdvice {
	advice := adviseBroken(bench)
	for _, dimension := range dimensions(bench) {
		advice = append(advice, dimension.advise(bench)...)
	}
	advice = append(advice, adviseDrift(bench)...)
	advice = append(advice, adviseLimits(bench)...)
	if few, short := adviseRepetitions(bench); short {
		advice = append(advice, few)
	}
	return advice[:min(len(advice), mostAdvice)]
}

// adviseBroken warns about cells that break promises.
func adviseBroken(bench reports.Bench) (advice []reports.BenchAdvice) {
	for _, cell := range bench.Cells {
		if cell.State != reports.BenchBroken {
			continue
		}
		evidence := slices.Clone(cell.Why)
		if cell.Command != "" {
			evidence = append(evidence, reports.ShownBy+cell.Command)
		}
		advice = append(advice, reports.BenchAdvice{
			Text: fmt.Sprintf("Don't use %s: it breaks a promise, however fast it is.", cell.Name), Evidence: evidence,
			Cells: []int{cell.Number},
		})
	}
	return advice
}

// dimension is a difference between cells: a crossed setting, or the choice among the listed cells.
type dimension struct {
	// label is the setting as in the cells' names, or "" for listed cells.
	label  string
	values []string
	// of returns a cell's value of the dimension, and the rest of the cell's identity.
	of func(reports.BenchCell) (value, rest string)
}

func dimensions(bench reports.Bench) (all []dimension) {
	if len(bench.Axes) == 0 {
		return listed(bench)
	}
	for _, axis := range bench.Axes {
		all = append(all, dimension{label: label(axis, bench.Axes), values: axis.Values,
			of: func(c reports.BenchCell) (string, string) {
				value, _ := c.Setting(axis.Path)
				rest := append(settingTexts(c, axis.Path), c.Workload, c.Faults)
				return value, strings.Join(slices.DeleteFunc(rest, func(s string) bool { return s == "" }), ", ")
			}})
	}
	return all
}

// listed is the dimension of a bench with listed cells. It returns none if the cells differ only in workload and
// faults, which nobody chooses.
func listed(bench reports.Bench) []dimension {
	if len(bench.SettingPaths()) == 0 {
		return nil
	}
	out := dimension{of: func(c reports.BenchCell) (value, rest string) {
		value, _, _ = strings.Cut(c.Name, ", ")
		return value, strings.Trim(c.Workload+", "+c.Faults, ", ")
	}}
	for _, cell := range bench.Cells {
		if value, _ := out.of(cell); !slices.Contains(out.values, value) {
			out.values = append(out.values, value)
		}
	}
	return []dimension{out}
}

// label is a setting's last word, or its whole path if others end with the same word, as in the names of cells.
func label(a reports.BenchAxis, all []reports.BenchAxis) string {
	last := a.Path[strings.LastIndex(a.Path, ".")+1:]
	for _, other := range all {
		if other.Path != a.Path && other.Path[strings.LastIndex(other.Path, ".")+1:] == last {
			return a.Path
		}
	}
	return last
}

// settingTexts are a cell's settings except one, such as "ordering=key".
func settingTexts(cell reports.BenchCell, but string) (texts []string) {
	for _, setting := range cell.Settings {
		if setting.Path != but {
			texts = append(texts, setting.Path[strings.LastIndex(setting.Path, ".")+1:]+"="+setting.Value)
		}
	}
	return texts
}

// contrast compares one figure of two cells that differ in one dimension only.
type contrast struct {
	figure     reports.BenchFigure
	difference stats.Difference
	rest       string
	cells      []int
}

// better reports whether the second cell is better.
func (c contrast) better() bool { return (c.difference.Shift > 0) == c.figure.Higher }

// advise compares every value with the first.
func (d dimension) advise(bench reports.Bench) (advice []reports.BenchAdvice) {
	if len(d.values) < 2 {
		return nil
	}
	first := d.values[0]
	for _, value := range d.values[1:] {
		found, contexts := d.compare(bench, first, value)
		good, bad := d.settled(found, contexts)
		if len(good)+len(bad) > 0 {
			advice = append(advice, d.say(first, value, good, bad))
		}
	}
	return advice
}

// compare returns the real differences between cells of two values, and the number of pairs of cells compared. It omits
// cells that are not ok.
func (d dimension) compare(bench reports.Bench, first, second string) (found []contrast, contexts int) {
	for _, a := range bench.Cells {
		valueA, restA := d.of(a)
		if valueA != first || a.State != reports.BenchOK {
			continue
		}
		for _, b := range bench.Cells {
			if valueB, restB := d.of(b); valueB != second || restB != restA || b.State != reports.BenchOK {
				continue
			}
			contexts++
			found = append(found, compareCells(bench.Mode, a, b, restA)...)
		}
	}
	return found, contexts
}

// decisive lists the figures by which a choice between settings is made. They are few, because comparing more figures
// takes more repetitions to tell chance from a difference. After a search, the latencies are those at each cell's own
// rate, which do not show which cell is better.
func decisive(mode reports.BenchMode) (figures []reports.BenchFigure) {
	names := []string{"throughput.processed", "latency.success.p99", "latency.dead_letter.p99", "share.duplicates",
		"recovery.drain"}
	switch mode {
	case reports.BenchMaxThroughput:
		names = []string{reports.RateHeld, "share.duplicates"}
	case reports.BenchStep, reports.BenchSoak:
		names[0] = mode.Own()[0].Name
	}
	for _, name := range names {
		if figure, found := mode.Figure(name); found {
			figures = append(figures, figure)
		}
	}
	return figures
}

func compareCells(mode reports.BenchMode, a, b reports.BenchCell, rest string) (found []contrast) {
	figures := decisive(mode)
	pairs := make([]stats.Pair, len(figures))
	for i, figure := range figures {
		pairs[i] = stats.Pair{A: a.Figures(figure), B: b.Figures(figure)}
	}
	for i, difference := range stats.CompareAll(pairs) {
		if difference.Real {
			found = append(found, contrast{figures[i], difference, rest, []int{a.Number, b.Number}})
		}
	}
	return found
}

// settled keeps the differences that are consistent: with several pairs of cells, a difference must show in at least
// two of them, and all must agree.
func (d dimension) settled(found []contrast, contexts int) (good, bad []contrast) {
	for _, c := range found {
		same := 0
		for _, other := range found {
			if other.figure.Name == c.figure.Name {
				if other.better() != c.better() {
					same = math.MinInt32
				}
				same++
			}
		}
		switch {
		case same < min(contexts, 2):
		case c.better():
			good = append(good, c)
		default:
			bad = append(bad, c)
		}
	}
	return good, bad
}

// say puts the differences into words.
func (d dimension) say(first, value string, good, bad []contrast) reports.BenchAdvice {
	what, instead := value, first
	if d.label != "" {
		what, instead = d.label+"="+what, d.label+"="+instead
	}
	out := reports.BenchAdvice{Text: fmt.Sprintf("Prefer %s to %s: it has better %s, and nothing that was compared is "+
		"worse.", what, instead, figureWords(good))}
	switch {
	case len(good) == 0:
		out.Text = fmt.Sprintf("Prefer %s to %s: that has worse %s, and nothing that was compared is better.", instead, what,
			figureWords(bad))
	case len(bad) > 0:
		out.Text = fmt.Sprintf("Choose between %s and %s: the first has better %s, the second better %s.", what, instead,
			figureWords(good), figureWords(bad))
	}
	all := append(slices.Clone(good), bad...)
	slices.SortStableFunc(all, func(a, b contrast) int { return cmp.Compare(effect(b), effect(a)) })
	for i, c := range all {
		sameFigure := func(other contrast) bool { return other.figure.Name == c.figure.Name }
		if !slices.ContainsFunc(all[:i], sameFigure) {
			out.Evidence = append(out.Evidence, c.evidence(what, instead, all[i+1:]))
		}
		for _, number := range c.cells {
			if !slices.Contains(out.Cells, number) {
				out.Cells = append(out.Cells, number)
			}
		}
	}
	slices.Sort(out.Cells)
	return out
}

// effect is the size of a difference relative to the noise.
func effect(c contrast) float64 { return math.Abs(c.difference.Shift) / max(c.difference.Floor, 1e-12) }

// figureWords names each figure once, as in "p99 of success latency and duplicates".
func figureWords(of []contrast) string {
	var words []string
	for _, c := range of {
		if !slices.Contains(words, c.figure.Words) {
			words = append(words, c.figure.Words)
		}
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// evidence gives a difference in figures: the pair of cells in which it is clearest, and the number of other pairs that
// show it.
func (c contrast) evidence(what, instead string, others []contrast) string {
	d := c.difference
	text := fmt.Sprintf("%s: %s with %s, %s with %s", c.figure.Words, c.figure.Unit.Text(d.B), what,
		c.figure.Unit.Text(d.A), instead)
	if c.rest != "" {
		text += ", both with " + c.rest
	}
	// Change and noise are shown on the scale on which they were compared, so that they are comparable.
	told := reports.CompareFigure{Unit: c.figure.Unit, Difference: d}
	text += fmt.Sprintf(" (%s; identical repetitions differ by %s; p = %.2g; %d against %d repetitions)",
		told.ChangeText(), told.NoiseText(), d.Adjusted, d.CountB, d.CountA)
	more := 0
	for _, other := range others {
		if other.figure.Name == c.figure.Name {
			more++
		}
	}
	if more > 0 {
		text += fmt.Sprintf(", likewise in %s", units.Plural(int64(more), "other pair of cells", "other pairs of cells"))
	}
	return text
}

// adviseDrift reports long runs whose end differs from their beginning.
func adviseDrift(bench reports.Bench) (advice []reports.BenchAdvice) {
	if bench.Mode != reports.BenchSoak {
		return nil
	}
	for _, cell := range bench.Cells {
		var first, last []float64
		for _, repetition := range cell.Repetitions {
			if drift := repetition.Drift; drift != nil && repetition.Usable() && len(drift.Parts) > 1 {
				first = append(first, drift.Parts[0].Success.P99.Seconds())
				last = append(last, drift.Parts[len(drift.Parts)-1].Success.P99.Seconds())
			}
		}
		if d := stats.Compare(first, last); d.Real && d.Shift > 0 {
			advice = append(advice, reports.BenchAdvice{
				Text: fmt.Sprintf("Look for what grows in %s: it becomes slower while it runs.", cell.Name),
				Evidence: []string{fmt.Sprintf(
					"p99 of success latency: %s in the first third, %s in the last (identical repetitions differ by %s; p = %.2g)",
					reports.BenchUnitTime.Text(d.A), reports.BenchUnitTime.Text(d.B), reports.BenchUnitTime.Text(d.Floor), d.P)},
				Cells: []int{cell.Number},
			})
		}
	}
	return advice
}

// adviseLimits reports where a search or a stepped load ended for reasons outside the consumer, so that the result is
// not mistaken for the consumer's limit.
func adviseLimits(bench reports.Bench) []reports.BenchAdvice {
	out := reports.BenchAdvice{Text: "Take these rates for lower bounds, and remove what kept the harness from going " +
		"higher: of more, nothing was shown about the consumer."}
	for _, cell := range bench.Cells {
		for _, repetition := range cell.Repetitions {
			var held float64
			var why string
			switch {
			case repetition.Search != nil && repetition.Search.Limit == reports.BenchLimitHarness:
				held, why = repetition.Search.Rate, whyUnproven(repetition.Search)
			case repetition.Knee != nil && repetition.Knee.Limit == reports.BenchLimitHarness:
				held, why = repetition.Knee.Rate, repetition.Knee.Why
			default:
				continue
			}
			out.Evidence = append(out.Evidence, fmt.Sprintf("%s, repetition %d: at least %s: %s", cell.Name,
				repetition.Number, units.PerSecond(held), why))
			out.Cells = append(out.Cells, cell.Number)
		}
	}
	if len(out.Cells) == 0 {
		return nil
	}
	out.Cells = slices.Compact(out.Cells)
	return []reports.BenchAdvice{out}
}

// whyUnproven returns why the last probe at the rate that ended a search proved nothing.
func whyUnproven(search *reports.BenchSearch) string {
	for _, probe := range slices.Backward(search.Probes) {
		if probe.Hold == reports.BenchUnproven && probe.Rate == search.Above {
			return fmt.Sprintf("at %s %s", units.PerSecond(probe.Rate), strings.Join(probe.Why, "; "))
		}
	}
	return "a probe proved nothing"
}

// adviseRepetitions reports when there are too few conclusive repetitions to establish any difference.
func adviseRepetitions(bench reports.Bench) (reports.BenchAdvice, bool) {
	needed := stats.Needed(len(decisive(bench.Mode)))
	if bench.Count(reports.BenchOK) < 2 {
		return reports.BenchAdvice{}, false
	}
	if bench.Repetitions < needed {
		return reports.BenchAdvice{
			Text: fmt.Sprintf("Repeat each cell %d times (repetitions: %d) to tell differences from noise.", needed, needed),
			Evidence: []string{fmt.Sprintf("%s of each cell can't show that a difference is none of chance, however large it is",
				units.Plural(int64(bench.Repetitions), "repetition", "repetitions"))},
		}, true
	}
	out := reports.BenchAdvice{
		Text: "Give the machine less to do beside the bench, or repeat the cells more often: too many runs proved nothing.",
	}
	for _, cell := range bench.Cells {
		usable := 0
		for _, repetition := range cell.Repetitions {
			if repetition.Usable() {
				usable++
			}
		}
		if unusable := len(cell.Repetitions) - usable; cell.State == reports.BenchOK && unusable > 0 &&
			bench.Repetitions-unusable < needed {
			out.Evidence = append(out.Evidence, fmt.Sprintf("%s: %d of %d repetitions say something of the consumer, %d "+
				"are needed", cell.Name, usable, len(cell.Repetitions), needed))
			out.Cells = append(out.Cells, cell.Number)
		}
	}
	return out, len(out.Evidence) > 0
}
