package bench

// This file derives advice from results, in plain words, with the evidence. It ignores differences that could be noise:
// package stats decides which are real.

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dlqbench/dlqbench/internal/stats"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports"
)

// mostAdvice is the maximum number of pieces of advice, because people do not read more.
const mostAdvice = 20

// Advise lists the changes that the results of a bench suggest: first what
// can't keep up, then what is broken, then what is better or worse than
// the first value of its setting, then what drifts, then why nothing can be concluded. Each pair of cells is compared
// by the most important figures, with a total rate of false alarms of stats.Alpha. If a setting was tried in several
// cells, the difference must show in more than one of them, and in none of them in the opposite direction.
func Advise(bench reports.Bench) []reports.BenchAdvice {
	advice := append(adviseBehind(bench), adviseBroken(bench)...)
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
		all = append(all, dimension{label: short(axis.Path, bench.SettingPaths()), values: axis.Values,
			of: func(c reports.BenchCell) (string, string) {
				rest := append(settingTexts(c, axis.Path), c.Workload, c.Faults)
				return c.Setting(axis.Path), strings.Join(slices.DeleteFunc(rest, func(s string) bool { return s == "" }), ", ")
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

// settingTexts are a cell's settings except one, such as "ordering=key".
func settingTexts(cell reports.BenchCell, but string) (texts []string) {
	for _, setting := range cell.Settings {
		if setting.Path != but {
			texts = append(texts, lastWord(setting.Path)+"="+setting.Value)
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

// compare returns the real differences between cells of two values, and the number of pairs of cells compared.
func (d dimension) compare(bench reports.Bench, first, second string) (found []contrast, contexts int) {
	all := d.contrasts(bench, first, second)
	contexts = len(all) / len(decisive(bench.Mode))
	return slices.DeleteFunc(all, func(c contrast) bool { return !c.difference.Real }), contexts
}

// contrasts compares the decisive figures of all pairs of cells that differ only in this dimension. It omits cells that
// are not ok.
func (d dimension) contrasts(bench reports.Bench, first, second string) (all []contrast) {
	for _, a := range bench.Cells {
		valueA, restA := d.of(a)
		if valueA != first || a.State != reports.BenchOK {
			continue
		}
		for _, b := range bench.Cells {
			if valueB, restB := d.of(b); valueB != second || restB != restA || b.State != reports.BenchOK {
				continue
			}
			all = append(all, compareCells(bench.Mode, a, b, restA)...)
		}
	}
	return all
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

func compareCells(mode reports.BenchMode, a, b reports.BenchCell, rest string) (all []contrast) {
	figures := decisive(mode)
	pairs := make([]stats.Pair, len(figures))
	for i, figure := range figures {
		pairs[i] = stats.Pair{A: a.Figures(figure), B: b.Figures(figure)}
	}
	for i, difference := range stats.CompareAll(pairs) {
		all = append(all, contrast{figures[i], difference, rest, []int{a.Number, b.Number}})
	}
	return all
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

// named is a value with its setting.
func (d dimension) named(value string) string {
	if d.label == "" {
		return value
	}
	return d.label + "=" + value
}

// say puts the differences into words.
func (d dimension) say(first, value string, good, bad []contrast) reports.BenchAdvice {
	what, instead := d.named(value), d.named(first)
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

// mostLooks is the maximum number of unproven differences that are listed.
const mostLooks = 3

// look is a difference that the repetitions can't prove.
type look struct {
	factor         float64
	words, figures string
}

// looks lists the largest unproven differences between two values of a setting, the largest first.
func looks(bench reports.Bench) (all []look) {
	for _, d := range dimensions(bench) {
		for _, value := range d.values[min(len(d.values), 1):] {
			for _, c := range d.contrasts(bench, d.values[0], value) {
				if one := c.look(d.named(value), d.named(d.values[0])); one.factor >= leastLook {
					all = append(all, one)
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b look) int { return cmp.Compare(b.factor, a.factor) })
	return all[:min(len(all), mostLooks)]
}

// look puts a difference into words as it looks, whether or not it is proven. Its factor is 0 if there is none, as of
// figures that are 0.
func (c contrast) look(what, instead string) look {
	factor, word := c.difference.Ratio, "worse"
	if factor < 1 {
		factor = 1 / factor
	}
	if c.better() {
		word = "better"
	}
	if math.IsInf(factor, 0) || math.IsNaN(factor) {
		return look{}
	}
	out := look{factor: factor,
		words:   fmt.Sprintf("%s looks %s times %s than %s in %s", what, times(factor), word, instead, c.figure.Words),
		figures: fmt.Sprintf("%s against %s", c.figure.Unit.Text(c.difference.B), c.figure.Unit.Text(c.difference.A))}
	if c.rest != "" {
		out.figures += ", both with " + c.rest
	}
	return out
}

// leastLook is the smallest factor between two cells that is worth a remark.
const leastLook = 1.2

// times formats a factor as people say it: 25, 3.7, 1.2.
func times(factor float64) string {
	if factor >= 10 {
		return fmt.Sprintf("%.0f", factor)
	}
	return strconv.FormatFloat(math.Round(factor*10)/10, 'f', -1, 64)
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

// adviseBehind warns about cells that can't keep up with their load.
func adviseBehind(bench reports.Bench) []reports.BenchAdvice {
	out := reports.BenchAdvice{}
	var names []string
	for _, cell := range bench.Cells {
		if behind := cell.Behind(); behind != "" {
			names, out.Cells = append(names, cell.Name), append(out.Cells, cell.Number)
			out.Evidence = append(out.Evidence, cell.Name+": "+behind)
		}
	}
	switch len(names) {
	case 0:
		return nil
	case 1:
		out.Text = fmt.Sprintf("Lower the load, or leave out %s: it can't keep up, so its latencies grow as long as the "+
			"load lasts.", names[0])
	default:
		out.Text = fmt.Sprintf("Lower the load, or leave out the %d cells that can't keep up: their latencies grow as long "+
			"as the load lasts.", len(names))
	}
	return []reports.BenchAdvice{out}
}

// adviseRepetitions reports when there are too few conclusive repetitions to establish any difference, and which
// differences look large enough to be worth the repetitions.
func adviseRepetitions(bench reports.Bench) (reports.BenchAdvice, bool) {
	needed := stats.Needed(len(decisive(bench.Mode)))
	if bench.Count(reports.BenchOK) < 2 {
		return reports.BenchAdvice{}, false
	}
	if bench.Repetitions < needed {
		few := units.Plural(int64(bench.Repetitions), "repetition", "repetitions")
		out := reports.BenchAdvice{
			Text: fmt.Sprintf("%s can't prove a difference: run %d of each cell (repetitions: %d).", few, needed, needed)}
		for i, look := range looks(bench) {
			if i == 0 {
				out.Text = fmt.Sprintf("%s; %s can't prove it: run %d of each cell (repetitions: %d).", look.words, few, needed,
					needed)
			}
			out.Evidence = append(out.Evidence, look.words+": "+look.figures)
		}
		if len(out.Evidence) == 0 {
			out.Evidence = []string{"no figure looks different so far"}
		}
		return out, true
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
