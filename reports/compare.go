package reports

// This file compares two sets of runs: the changes in the invariants, and the figures that differ by more than chance
// and noise explain.
//
//	verdict.json │ results.json │ baseline ──▶ CompareRun (compare_read.go)
//	                                              │ before, after
//	                                              ▼
//	          incomparable (compare_fit.go) ◀── Compare ──▶ Comparison ──▶ terminal │ Markdown │ JSON
//
// Only repetitions can show a difference in figures (internal/stats). With one run on each side, the figures are
// reported but not judged.

import (
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/stats"
)

// CompareSchema is the version of the output of CompareJSON.
const CompareSchema = 1

// CompareVerdict is the result of comparing the after side with the before side.
type CompareVerdict string

// The verdicts, worst first.
const (
	// CompareViolated: an invariant is violated that was not violated before, or with an anomaly that was not seen
	// before.
	CompareViolated CompareVerdict = "newly-violated"
	// CompareFirstViolated: an invariant is violated that no run before has judged. It may have been violated all along.
	CompareFirstViolated CompareVerdict = "violated-when-first-judged"
	// CompareUnproven: an invariant that passed before could not be judged in any repetition after.
	CompareUnproven CompareVerdict = "not-shown-any-more"
	// CompareRegressed: a watched figure is worse by more than noise and chance explain.
	CompareRegressed CompareVerdict = "regressed"
	// CompareTooFew: figures differ, but there are too few repetitions to show significance.
	CompareTooFew CompareVerdict = "too-few-repetitions"
	// CompareSame: none of these.
	CompareSame CompareVerdict = "no-regression"
)

// Comparison is what CompareJSON writes.
type Comparison struct {
	Schema  int            `json:"schema"`
	Verdict CompareVerdict `json:"verdict"`
	// Alpha is the rate of false alarms that is accepted over all watched figures together.
	Alpha float64 `json:"alpha"`
	// Notes are what must be known to read the rest: other versions, other seeds, and what was compared though it is
	// not the same.
	Notes []string      `json:"notes"`
	Cases []CompareCase `json:"cases"`
	// OnlyBefore names the cases that have no runs after.
	OnlyBefore []string `json:"only_before"`
}

// CompareCase compares the repetitions of one scenario, or of one cell of a bench.
type CompareCase struct {
	Name       string             `json:"name"`
	Verdict    CompareVerdict     `json:"verdict"`
	Before     CompareSide        `json:"before"`
	After      CompareSide        `json:"after"`
	Invariants []CompareInvariant `json:"invariants"`
	Figures    []CompareFigure    `json:"figures"`
}

// CompareSide is one side of a case.
type CompareSide struct {
	// Subjects are what the runs were of, as a rule one.
	Subjects []string `json:"subjects"`
	Runs     []string `json:"runs"`
	// Failed and Inconclusive count the runs with that verdict.
	Failed       int `json:"failed"`
	Inconclusive int `json:"inconclusive"`
}

// InvariantChange is the change of an invariant's status.
type InvariantChange string

// The changes, worst first.
const (
	InvariantNewlyViolated InvariantChange = "newly-violated"
	// InvariantFirstViolated: no run before judged the invariant, so it may have been violated all along.
	InvariantFirstViolated InvariantChange = "violated-when-first-judged"
	InvariantOtherwise     InvariantChange = "violated-in-another-way"
	InvariantUnproven      InvariantChange = "not-shown-any-more"
	InvariantStill         InvariantChange = "still-violated"
	InvariantHealed        InvariantChange = "not-violated-any-more"
	InvariantShown         InvariantChange = "shown-now"
	InvariantSame          InvariantChange = "as-before"
)

// CompareInvariant is one invariant on both sides. A status is the worst of the side's runs; "" where no run has the
// invariant.
type CompareInvariant struct {
	Name      string            `json:"name"`
	Change    InvariantChange   `json:"change"`
	Before    assertions.Status `json:"before"`
	After     assertions.Status `json:"after"`
	Anomalies []CompareAnomaly  `json:"anomalies"`
	// Why explains a status that is not shown any more; Command shows what is newly violated again.
	Why     string `json:"why,omitempty"`
	Command string `json:"command,omitempty"`
}

// CompareAnomaly counts an anomaly over all runs of a side, and the runs that have it.
type CompareAnomaly struct {
	Name       string `json:"name"`
	Before     int64  `json:"before"`
	After      int64  `json:"after"`
	RunsBefore int    `json:"runs_before"`
	RunsAfter  int    `json:"runs_after"`
}

// FigureChange is the conclusion about a figure.
type FigureChange string

// The conclusions. A shown figure is displayed and not judged. too-few means that no difference could have been
// significant.
const (
	FigureWorse  FigureChange = "worse"
	FigureBetter FigureChange = "better"
	FigureSame   FigureChange = "no-difference"
	FigureTooFew FigureChange = "too-few-repetitions"
	FigureShown  FigureChange = "shown-only"
	FigureAbsent FigureChange = "not-measured"
)

// CompareFigure is one figure on both sides.
type CompareFigure struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// HigherIsBetter tells which direction is the good one.
	Unit           BenchUnit        `json:"unit"`
	HigherIsBetter bool             `json:"higher_is_better"`
	Watched        bool             `json:"watched"`
	Change         FigureChange     `json:"change"`
	Before         stats.Summary    `json:"before"`
	After          stats.Summary    `json:"after"`
	Difference     stats.Difference `json:"difference"`
}

// Compare compares the runs of two sides. Runs of the same case are repetitions of each other. The error says why
// there is nothing to compare, or which runs must not be compared. With evenSo, runs of the same case are compared
// even if they were made differently, and a note lists the differences.
func Compare(before, after []CompareRun, evenSo bool) (Comparison, error) {
	out := Comparison{Schema: CompareSchema, Alpha: stats.Alpha, Verdict: CompareSame}
	if err := namedOnce(slices.Concat(before, after)); err != nil {
		return out, err
	}
	olds, news := byCase(before), byCase(after)
	for _, of := range news {
		at := slices.IndexFunc(olds, func(old runsOfCase) bool { return old.name == of.name })
		if at < 0 {
			return out, missingCase(of.name, olds)
		}
		notes, differ := fits(of.name, olds[at].runs, of.runs)
		if len(differ) > 0 && !evenSo {
			return out, &IncomparableError{Case: of.name, Why: differ}
		}
		for _, why := range differ {
			out.Notes = addOnce(out.Notes, "compared even so: "+why)
		}
		for _, note := range notes {
			out.Notes = addOnce(out.Notes, note)
		}
		out.Cases = append(out.Cases, compareCase(of.name, olds[at].runs, of.runs))
	}
	if len(out.Cases) == 0 {
		return out, &IncomparableError{Why: []string{"there are no runs on the after side"}}
	}
	for _, old := range olds {
		if !slices.ContainsFunc(news, func(of runsOfCase) bool { return of.name == old.name }) {
			out.OnlyBefore = append(out.OnlyBefore, old.name)
		}
	}
	judgeFigures(out.Cases, olds, news)
	for i := range out.Cases {
		out.Cases[i].conclude()
		out.Verdict = worse(out.Verdict, out.Cases[i].Verdict)
	}
	return out, nil
}

// runsOfCase are the repetitions of one case.
type runsOfCase struct {
	name string
	runs []CompareRun
}

func byCase(runs []CompareRun) []runsOfCase {
	var out []runsOfCase
	for _, run := range runs {
		at := slices.IndexFunc(out, func(of runsOfCase) bool { return of.name == run.Case })
		if at < 0 {
			at = len(out)
			out = append(out, runsOfCase{name: run.Case})
		}
		out[at].runs = append(out[at].runs, run)
	}
	return out
}

// missingCase reports that a case has no counterpart, so there is nothing to compare it with.
func missingCase(of string, olds []runsOfCase) error {
	known := each(olds, func(old runsOfCase) string { return name(old.name) })
	why := "the before side has no runs of it, only of " + strings.Join(known, ", ")
	if len(olds) == 0 {
		why = "there are no runs on the before side"
	}
	return &IncomparableError{Case: of, Why: []string{why}}
}

func compareCase(of string, before, after []CompareRun) CompareCase {
	return CompareCase{Name: of, Before: newSide(before), After: newSide(after),
		Invariants: compareInvariants(before, after)}
}

func newSide(runs []CompareRun) CompareSide {
	out := CompareSide{}
	for _, run := range runs {
		out.Runs = append(out.Runs, run.Label)
		out.Subjects = addOnce(out.Subjects, run.Subject)
		switch run.Verdict {
		case assertions.Fail:
			out.Failed++
		case assertions.Pass:
		default:
			out.Inconclusive++
		}
	}
	return out
}

// compareInvariants lists the invariants of both sides, the worst change first.
func compareInvariants(before, after []CompareRun) []CompareInvariant {
	var names []string
	for _, run := range slices.Concat(after, before) {
		for _, invariant := range run.Invariants {
			names = addOnce(names, invariant.Name)
		}
	}
	out := each(names, func(of string) CompareInvariant { return compareInvariant(of, before, after) })
	order := []InvariantChange{
		InvariantNewlyViolated, InvariantFirstViolated, InvariantOtherwise, InvariantUnproven, InvariantStill,
		InvariantHealed, InvariantShown, InvariantSame,
	}
	slices.SortStableFunc(out, func(a, b CompareInvariant) int {
		return slices.Index(order, a.Change) - slices.Index(order, b.Change)
	})
	return out
}

func compareInvariant(of string, before, after []CompareRun) CompareInvariant {
	out := CompareInvariant{Name: of, Before: statusOf(of, before), After: statusOf(of, after)}
	out.Anomalies = compareAnomalies(of, before, after)
	fresh := slices.ContainsFunc(out.Anomalies, func(a CompareAnomaly) bool { return a.Before == 0 && a.After > 0 })
	held := func(s assertions.Status) bool { return s == assertions.Pass }
	switch {
	case out.After == assertions.Fail && (out.Before == assertions.NotApplicable || out.Before == ""):
		out.Change = InvariantFirstViolated
	case out.After == assertions.Fail && out.Before != assertions.Fail:
		out.Change = InvariantNewlyViolated
	case out.After == assertions.Fail && fresh:
		out.Change = InvariantOtherwise
	case out.After == assertions.Fail:
		out.Change = InvariantStill
	case out.Before == assertions.Fail && held(out.After):
		out.Change = InvariantHealed
	case (held(out.Before) || out.Before == assertions.Fail) && !held(out.After):
		out.Change = InvariantUnproven // also if it was violated: nothing shows that it no longer is
	case held(out.After) && !held(out.Before):
		out.Change = InvariantShown
	default:
		out.Change = InvariantSame
	}
	for _, run := range after {
		for _, invariant := range run.Invariants {
			switch {
			case invariant.Name != of:
			case invariant.Verdict == assertions.Fail && out.Command == "":
				out.Command = run.Command
			case out.Change == InvariantUnproven && out.Why == "":
				out.Why = invariant.Why
			}
		}
	}
	return out
}

// statusOf returns the status of an invariant on one side: violated if it is violated in any run, otherwise held if
// it held in any. A run that judged nothing does not weaken those that did.
func statusOf(of string, runs []CompareRun) assertions.Status {
	var seen []assertions.Status
	for _, run := range runs {
		for _, invariant := range run.Invariants {
			if invariant.Name == of {
				seen = append(seen, invariant.Verdict)
			}
		}
	}
	for _, status := range []assertions.Status{assertions.Fail, assertions.Pass, assertions.Inconclusive} {
		if slices.Contains(seen, status) {
			return status
		}
	}
	if len(seen) > 0 {
		return assertions.NotApplicable
	}
	return ""
}

func compareAnomalies(of string, before, after []CompareRun) []CompareAnomaly {
	counts := map[string]*CompareAnomaly{}
	count := func(runs []CompareRun, add func(a *CompareAnomaly, n int64)) {
		for _, run := range runs {
			for _, invariant := range run.Invariants {
				if invariant.Name != of {
					continue
				}
				for anomaly, n := range invariant.Anomalies {
					if counts[anomaly] == nil {
						counts[anomaly] = &CompareAnomaly{Name: anomaly}
					}
					add(counts[anomaly], n)
				}
			}
		}
	}
	count(before, func(a *CompareAnomaly, n int64) { a.Before += n; a.RunsBefore++ })
	count(after, func(a *CompareAnomaly, n int64) { a.After += n; a.RunsAfter++ })
	return each(slices.Sorted(maps.Keys(counts)), func(anomaly string) CompareAnomaly { return *counts[anomaly] })
}

// judgeFigures compares the figures of all cases. The watched figures form one family, so the rate of false alarms
// does not grow with the number of cases.
func judgeFigures(cases []CompareCase, olds, news []runsOfCase) {
	var watched []stats.Pair
	var places []*CompareFigure
	for i := range cases {
		before, after := runsNamed(olds, cases[i].Name), runsNamed(news, cases[i].Name)
		for _, of := range comparedFigures() {
			pair := stats.Pair{A: valuesOf(of.Name, before), B: valuesOf(of.Name, after)}
			if len(pair.A)+len(pair.B) == 0 {
				continue
			}
			cases[i].Figures = append(cases[i].Figures, newFigure(of, pair))
		}
		for j := range cases[i].Figures {
			figure := &cases[i].Figures[j]
			if figure.Watched && figure.Change != FigureAbsent {
				watched = append(watched, stats.Pair{A: valuesOf(figure.Name, before), B: valuesOf(figure.Name, after)})
				places = append(places, figure)
			}
		}
	}
	for i, difference := range stats.CompareAll(watched) {
		places[i].Difference = difference
		places[i].Change = changeOf(difference, places[i].HigherIsBetter)
	}
}

func runsNamed(of []runsOfCase, name string) []CompareRun {
	for _, one := range of {
		if one.name == name {
			return one.runs
		}
	}
	return nil
}

func newFigure(of comparedFigure, pair stats.Pair) CompareFigure {
	out := CompareFigure{
		Name: of.Name, Title: of.title, Unit: of.Unit, HigherIsBetter: of.Higher, Watched: of.watched, Change: FigureShown,
		Before: stats.Summarize(pair.A), After: stats.Summarize(pair.B),
	}
	if len(pair.A) == 0 || len(pair.B) == 0 {
		out.Change = FigureAbsent
	}
	out.Difference = stats.Compare(pair.A, pair.B)
	if !of.watched {
		out.Difference.Real, out.Difference.Needed = false, 0
	}
	return out
}

func changeOf(d stats.Difference, higherIsBetter bool) FigureChange {
	switch {
	case d.Needed > 0 && d.Shift != 0:
		return FigureTooFew
	case !d.Real:
		return FigureSame
	case (d.Shift > 0) == higherIsBetter:
		return FigureBetter
	}
	return FigureWorse
}

// conclude sets the case's verdict to its worst change.
func (c *CompareCase) conclude() {
	c.Verdict = CompareSame
	for _, invariant := range c.Invariants {
		switch invariant.Change {
		case InvariantNewlyViolated, InvariantOtherwise:
			c.Verdict = worse(c.Verdict, CompareViolated)
		case InvariantFirstViolated:
			c.Verdict = worse(c.Verdict, CompareFirstViolated)
		case InvariantUnproven:
			c.Verdict = worse(c.Verdict, CompareUnproven)
		}
	}
	for _, figure := range c.Figures {
		switch figure.Change {
		case FigureWorse:
			c.Verdict = worse(c.Verdict, CompareRegressed)
		case FigureTooFew:
			c.Verdict = worse(c.Verdict, CompareTooFew)
		}
	}
}

func worse(a, b CompareVerdict) CompareVerdict {
	order := []CompareVerdict{CompareViolated, CompareFirstViolated, CompareUnproven, CompareRegressed, CompareTooFew,
		CompareSame}
	if slices.Index(order, a) <= slices.Index(order, b) {
		return a
	}
	return b
}

// tooFew returns the number of repetitions that each side would need. It returns 0 if there are enough wherever a
// figure differs.
func (c Comparison) tooFew() int {
	needed := 0
	for _, of := range c.Cases {
		for _, figure := range of.Figures {
			if figure.Change == FigureTooFew {
				needed = max(needed, figure.Difference.Needed)
			}
		}
	}
	return needed
}

// CompareJSON writes the comparison: indented, keys always in the same order, lists never null.
func CompareJSON(w io.Writer, c Comparison) error { return writeJSON(w, "the comparison", c) }
