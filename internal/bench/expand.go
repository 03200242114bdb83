package bench

// This file expands the keys of a bench's file into cells: crossed or listed settings, times workloads, times faults.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// mostCells is the maximum number of cells, because each cell takes the time of its runs.
const mostCells = 300

// option is one alternative of what is crossed: its name, and its settings with their places in the file.
type option struct {
	name  string
	place string
	// subject and consumer are of a cell that has its own; nil: that of the bench.
	subject  string
	consumer *consumer
	sets     []scenarios.Setting
	settings []reports.BenchSetting
}

// expand makes the cells and checks each against its scenario.
func (l *loader) expand() {
	cells, ok := l.settings()
	workloads := named(l, "/workloads", l.spec.Workloads,
		func(name string) []scenarios.Setting {
			return l.Settings(scenarios.Below("/workloads", name), l.spec.Workloads[name])
		})
	faults := named(l, "/faults", l.spec.Faults,
		func(name string) []scenarios.Setting {
			text, err := json.Marshal(orEmpty(l.spec.Faults[name]))
			if err != nil {
				return nil // a value that was just decoded can be encoded
			}
			return []scenarios.Setting{{Path: "faults", Value: string(text), Place: scenarios.Below("/faults", name)}}
		})
	if !ok {
		return
	}
	if count := max(len(cells), 1) * max(len(workloads), 1) * max(len(faults), 1); count > mostCells {
		l.Complain(l.widest(), fmt.Sprintf("this makes %d cells; a bench can have %d at most, and each is run %d times",
			count, mostCells, l.spec.Repetitions), "")
		return
	}
	for _, one := range workloads {
		l.plan.Workloads = append(l.plan.Workloads, one.name)
	}
	for _, one := range faults {
		l.plan.Faults = append(l.plan.Faults, one.name)
	}
	seen := map[string]string{}
	for _, cell := range orOne(cells) {
		for _, workload := range orOne(workloads) {
			for _, fault := range orOne(faults) {
				l.cell(cell, workload, fault, seen)
			}
		}
	}
}

func orOne(options []option) []option {
	if len(options) == 0 {
		return []option{{}}
	}
	return options
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// widest is the key that contributes most cells.
func (l *loader) widest() string {
	for _, key := range []string{"/matrix", "/cells"} {
		if l.Has(key) {
			return key
		}
	}
	return "/workloads"
}

// settings lists the cells before workloads and faults are applied.
func (l *loader) settings() (cells []option, ok bool) {
	ok = true
	switch {
	case l.Has("/matrix") && l.Has("/cells"):
		l.Complain("/cells", "matrix and cells exclude each other: cross the settings, or list the cells", "")
		return nil, false
	case l.Has("/matrix"):
		return l.matrix()
	}
	for i, cell := range l.spec.Cells {
		path := fmt.Sprintf("/cells/%d", i)
		if !l.Sound(path) {
			return nil, false
		}
		if first := slices.IndexFunc(l.spec.Cells[:i], func(other Cell) bool { return other.Name == cell.Name }); first >= 0 {
			l.Complain(path+"/name", fmt.Sprintf("the cell %s is here twice: line %d names it already", cell.Name,
				l.Where(fmt.Sprintf("/cells/%d/name", first)).Line), "")
			ok = false
		}
		one := option{name: cell.Name, place: path, sets: l.Settings(path+"/set", cell.Set)}
		if cell.Subject != "" {
			measured, read := l.consumer(path+"/subject", l.Relative(cell.Subject))
			one.subject, one.consumer, ok = cell.Subject, &measured, ok && read
			one.settings = append(one.settings, reports.BenchSetting{Path: "subject", Value: cell.Subject})
		}
		for _, set := range one.sets {
			one.settings = append(one.settings, reports.BenchSetting{Path: set.Path, Value: set.Value})
		}
		cells = append(cells, one)
	}
	return cells, ok
}

// matrix crosses its settings. The first one varies slowest.
func (l *loader) matrix() (cells []option, ok bool) {
	if len(l.spec.Matrix) == 0 {
		l.Complain("/matrix",
			"the matrix is empty: write settings and the values to compare, such as subject.reference.max_concurrency: [1, 8]",
			"")
		return nil, false
	}
	paths := scenarios.Ordered(l.Strict, "/matrix", l.spec.Matrix)
	count := 1
	for _, path := range paths {
		if !l.Sound(scenarios.Below("/matrix", path)) {
			return nil, false
		}
		values := l.spec.Matrix[path]
		if len(values) == 0 {
			l.Complain(scenarios.Below("/matrix", path), "there is no value: write those to compare, such as [1, 8]", "")
			return nil, false
		}
		if count *= len(values); count > mostCells {
			l.Complain("/matrix", fmt.Sprintf("this makes more than %d cells, and each is run %d times: compare fewer values, "+
				"or list the cells", mostCells, l.spec.Repetitions), "")
			return nil, false
		}
	}
	cells, ok = []option{{place: "/matrix"}}, true
	for _, path := range paths {
		axis := reports.BenchAxis{Path: path}
		var crossed []option
		for i, value := range l.spec.Matrix[path] {
			place, text := fmt.Sprintf("%s/%d", scenarios.Below("/matrix", path), i), value.String()
			if slices.Contains(axis.Values, text) {
				l.Complain(place, fmt.Sprintf("%s is here twice: it would make the same cells again", text), "")
				ok = false
			}
			axis.Values = append(axis.Values, text)
			set := scenarios.Setting{Path: path, Value: text, Place: place}
			for _, cell := range cells {
				crossed = append(crossed, cell.with(set, short(path, paths)))
			}
		}
		// The first setting varies slowest: cells with the same value of it stay together.
		slices.SortStableFunc(crossed, func(a, b option) int { return byFirst(a, b, l.plan.Axes) })
		cells, l.plan.Axes = crossed, append(l.plan.Axes, axis)
	}
	return cells, ok
}

// byFirst orders cells by the axes that have been crossed already. Cells equal in them keep their order.
func byFirst(a, b option, axes []reports.BenchAxis) int {
	for i, axis := range axes {
		if c := cmp.Compare(slices.Index(axis.Values, a.settings[i].Value),
			slices.Index(axis.Values, b.settings[i].Value)); c != 0 {
			return c
		}
	}
	return 0
}

// with returns the cell with one more setting.
func (o option) with(set scenarios.Setting, as string) option {
	out := option{place: o.place, sets: append(slices.Clone(o.sets), set)}
	out.settings = append(slices.Clone(o.settings), reports.BenchSetting{Path: set.Path, Value: set.Value})
	out.name = strings.TrimSpace(o.name + " " + as + "=" + set.Value)
	return out
}

// short is a path's last word, or the whole path if others end with the same word.
func short(path string, all []string) string {
	last := lastWord(path)
	if slices.ContainsFunc(all, func(other string) bool { return other != path && lastWord(other) == last }) {
		return path
	}
	return last
}

func lastWord(path string) string { return path[strings.LastIndex(path, ".")+1:] }

// named lists the named options at a key of the file.
func named[T any](l *loader, key string, of map[string]T,
	sets func(name string) []scenarios.Setting) (options []option) {
	for _, name := range scenarios.Named(l.Strict, key, of) {
		options = append(options, option{name: name, place: scenarios.Below(key, name), sets: sets(name)})
	}
	return options
}

// cell adds a cell, if it can be run and is not a duplicate.
func (l *loader) cell(of, workload, faults option, seen map[string]string) {
	sets := l.Settings("/set", l.spec.Set)
	for _, one := range []option{of, workload, faults} {
		sets = append(sets, one.sets...)
	}
	place := cmp.Or(of.place, workload.place, faults.place, "/scenario")
	var names []string
	for _, name := range []string{of.name, workload.name, faults.name} {
		if name != "" {
			names = append(names, name)
		}
	}
	cell := PlannedCell{
		Number: len(l.plan.Cells) + 1, Name: strings.Join(names, ", "), Settings: of.settings, Workload: workload.name,
		Faults: faults.name, consumer: l.own,
	}
	if of.consumer != nil {
		cell.Subject, cell.consumer = of.subject, *of.consumer
	}
	cell.Name = cmp.Or(cell.Name, l.base.Name)
	for i, set := range sets {
		if first := slices.IndexFunc(sets[:i], func(other scenarios.Setting) bool {
			return other.Path == set.Path
		}); first >= 0 {
			l.Complain(set.Place, fmt.Sprintf("%s is set twice for %s: in line %d, too", set.Path, cell.Name,
				l.Where(sets[first].Place).Line), "")
			return
		}
	}
	if !l.fitted(&cell, sets, place) {
		return
	}
	key := strings.Join(slices.Concat([]string{cell.consumer.file}, cell.Sets, []string{"\x00"}, cell.SubjectSets), "\x00")
	if first, twice := seen[key]; twice {
		l.Complain(place, fmt.Sprintf("%s is the same as %s: one of them is enough, it is repeated anyway", cell.Name, first),
			"")
		return
	}
	seen[key] = cell.Name
	l.plan.Cells = append(l.plan.Cells, cell)
}

// fitted checks a cell against its scenario and completes it. It reports problems at the place of the setting.
func (l *loader) fitted(cell *PlannedCell, sets []scenarios.Setting, place string) bool {
	var origins, subjectOrigins []string
	for _, set := range sets {
		text := set.Path + "=" + set.Value
		if key, of := subjectKey(set.Path); of && cell.consumer.from != "" {
			cell.SubjectSets, subjectOrigins = append(cell.SubjectSets, key+strings.TrimPrefix(text, set.Path)),
				append(subjectOrigins, set.Place)
			continue
		}
		cell.Sets, origins = append(cell.Sets, text), append(origins, set.Place)
	}
	if len(cell.SubjectSets) > 0 && !l.subjectFitted(cell, subjectOrigins) {
		return false
	}
	if l.plan.Mode == reports.BenchStep {
		cell.Sets = append(cell.Sets, stepSets(l.base, l.spec.Steps)...)
		for len(origins) < len(cell.Sets) {
			origins = append(origins, "/steps")
		}
	}
	scenario, _, err := scenarios.ParseForSubject(l.name, l.source, cell.Sets, cell.consumer.file)
	if err != nil {
		l.refused(place, cell.Sets, origins, err)
		return false
	}
	if err := l.fits(scenario); err != nil {
		l.Complain(place, fmt.Sprintf("%s can't be run here: %v", cell.Name, err), "")
		return false
	}
	load := scenario.Workload
	cell.WarmUp, cell.Load = load.WarmUp.D(), load.WarmUp.D()+load.Duration.D()
	cell.Stretches, cell.Rate, cell.MaxSlip = load.Stretches(), load.Stretches()[0].Rate.PerSecond(),
		scenario.Expect.MaxSlip.D()
	if l.plan.Mode == reports.BenchMaxThroughput {
		return l.searchable(cell, scenario, place)
	}
	return true
}

// subjectKey reports whether a setting belongs to subject.yaml, and returns its key. The scenario's own keys about its
// subject do not.
func subjectKey(path string) (key string, of bool) {
	key, of = strings.CutPrefix(path, "subject.")
	first, _, _ := strings.Cut(key, ".")
	return key, of && !slices.Contains([]string{"reference", "file", "instances"}, first)
}

// subjectFitted checks a cell's settings of subject.yaml against its schema.
func (l *loader) subjectFitted(cell *PlannedCell, origins []string) bool {
	text, err := scenarios.Apply(cell.consumer.from, cell.consumer.text, cell.SubjectSets)
	if err == nil {
		_, err = scenarios.ParseSubject(cell.consumer.from, text)
	}
	if err == nil {
		return true
	}
	l.refused(origins[0], cell.SubjectSets, origins, err)
	return false
}

// stepSets replace a scenario's load by the steps.
func stepSets(scenario *scenarios.Scenario, steps []scenarios.Step) (sets []string) {
	if len(scenario.Workload.Steps) == 0 {
		sets = append(sets, "workload.rate=null", "workload.duration=null")
	}
	var list []string
	for _, step := range steps {
		list = append(list, fmt.Sprintf("{rate: %s, for: %s}", step.Rate, step.For))
	}
	return append(sets, "workload.steps=["+strings.Join(list, ", ")+"]")
}

// searchable checks that a cell can be searched: a search sets the rate and judges by the bound.
func (l *loader) searchable(cell *PlannedCell, scenario *scenarios.Scenario, place string) bool {
	for _, set := range cell.Sets {
		if path, _, _ := strings.Cut(set, "="); path == "workload.rate" || path == "workload.steps" {
			l.Complain(place, fmt.Sprintf(
				"%s is what the search looks for: a cell can't set it (search.lowest is the rate that is tried first)", path), "")
			return false
		}
	}
	if scenario.Workload.Bursts != nil {
		l.Complain(place, "bursts come on top of the rate, so that a rate that is held is not the load: take them out", "")
		return false
	}
	// Settings that do not depend on the rate are added here once, so that a probe sets only its rate.
	cell.Sets = append(cell.Sets, steadySets(scenario)...)
	if l.Sound("/bound") && !slices.Contains(scenario.Expect.Thresholds, l.spec.Bound) {
		cell.Sets = append(cell.Sets, scenarios.ThresholdSet(len(scenario.Expect.Thresholds), l.spec.Bound))
	}
	highest := l.spec.Search.Highest
	if _, _, err := scenarios.ParseForSubject(l.name, l.source,
		append(slices.Clone(cell.Sets), RateSet(highest.PerSecond())), cell.consumer.file); err != nil {
		l.refusedRate(place, highest, err)
		return false
	}
	return true
}

// RateSet is the override that sets the rate of a probe.
func RateSet(perSecond float64) string { return "workload.rate=" + units.Rate(perSecond).String() }

// steadySets turn a stepped load into one of a single rate, which is set later.
func steadySets(scenario *scenarios.Scenario) []string {
	if len(scenario.Workload.Steps) == 0 {
		return nil
	}
	return []string{"workload.steps=null", "workload.duration=" + scenario.Workload.Duration.String()}
}

func (l *loader) refusedRate(place string, highest units.Rate, err error) {
	message := err.Error()
	if first, _, cut := strings.Cut(message, "\n"); cut {
		message = first
	}
	l.Complain(place, fmt.Sprintf("it can't be run at %s, the highest rate of the search: %s", highest, message),
		"set search.highest lower, or the scenario's duration shorter")
}

// rounds draws the order of the cells in each repetition, so that drift affects all cells alike.
func rounds(cells, repetitions int, seed uint64) [][]int {
	random := rand.New(rand.NewPCG(seed, uint64(cells)))
	all := make([][]int, repetitions)
	for i := range all {
		all[i] = random.Perm(cells)
	}
	return all
}
