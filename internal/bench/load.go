package bench

// This file reads a bench's file into its plan. It reports all problems of the file and of its cells before anything is
// run.

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// Plan is the content of a bench's file: the cells, and the order of their repetitions.
type Plan struct {
	// File is the bench's file as given, Text its content, Hash the SHA-256 of all inputs of its runs.
	File string
	Text []byte
	Hash string
	Spec Spec
	// Arg is the argument of dlqbench run for the scenario, ScenarioName its name. SubjectName is the name of the
	// measured subject, or how many there are.
	Arg, ScenarioName, SubjectName string
	Seed                           uint64
	Mode                           reports.BenchMode
	Axes                           []reports.BenchAxis
	Workloads, Faults              []string
	Cells                          []PlannedCell
	// Rounds are, for each repetition, the indexes of the cells in the order in which they are run.
	Rounds [][]int
}

// consumer is what a cell measures.
type consumer struct {
	name string
	// file is its subject.yaml, or "" for the scenario's own; from is the one that settings of the subject change, or ""
	// for the reference consumer, and text its content.
	file, from string
	text       []byte
}

// PlannedCell is a cell that can be run.
type PlannedCell struct {
	Number           int
	Name             string
	Settings         []reports.BenchSetting
	Workload, Faults string
	// Subject is the subject.yaml of its own consumer, as written; "" for that of the bench.
	Subject  string
	consumer consumer
	// Sets are overrides in the syntax of dlqbench run --set; SubjectSets are those of subject.yaml.
	Sets, SubjectSets []string
	// Load is the planned duration of warm-up and load; WarmUp is the first part of it.
	Load, WarmUp time.Duration
	// Stretches are the steps of its load; Rate is the rate of the first.
	Stretches []scenarios.Step
	Rate      float64
	// MaxSlip is the maximum delay of the generator for a run to prove anything.
	MaxSlip time.Duration
}

// Kafka checks whether the Kafka that a bench wants is available. fits reports whether it can run a scenario.
type Kafka func(scenarios.Provider) (fits func(*scenarios.Scenario) error, err error)

// Load finds a bench, which is the name of a shipped one or a file, and reads it and all files that it names. If they
// have problems, the error is a *scenarios.Problems.
func Load(arg string, kafka Kafka) (*Plan, error) {
	name, data, err := Find(arg)
	if err != nil {
		return nil, err
	}
	return Parse(name, data, kafka)
}

// Parse is Load for a text that has been read already.
func Parse(file string, data []byte, kafka Kafka) (*Plan, error) {
	l := &loader{spec: defaults(), plan: &Plan{File: file, Text: data}}
	strict, err := scenarios.DecodeStrict(file, data, schemaText, &l.spec)
	if err != nil {
		return nil, err
	}
	l.Strict = strict
	l.checkMode()
	if l.Has("/subject") && l.Sound("/subject") {
		l.own, _ = l.consumer("/subject", l.Relative(l.spec.Subject))
	}
	l.readScenario()
	if l.fits, err = kafka(l.spec.Cluster); err != nil {
		l.Complain("/cluster", err.Error(), "")
		l.fits = func(*scenarios.Scenario) error { return nil }
	}
	if l.base != nil {
		l.checkLoad()
		l.expand()
	}
	if err := l.Err(); err != nil {
		return nil, err
	}
	p := l.plan
	p.Spec, p.Mode = l.spec, reports.BenchMode(l.spec.Mode)
	p.ScenarioName, p.Seed = l.base.Name, l.base.Seed
	if l.spec.Seed != nil {
		p.Seed = *l.spec.Seed
	}
	p.SubjectName = l.own.name
	texts, names := [][]byte{data, l.source}, map[string]bool{}
	for _, cell := range p.Cells {
		texts, names[cell.consumer.name] = append(texts, cell.consumer.text), true
		p.SubjectName = cell.consumer.name
	}
	if len(names) > 1 {
		p.SubjectName = fmt.Sprintf("%d consumers", len(names))
	}
	p.Hash = digest(texts...)
	p.Rounds = rounds(len(p.Cells), l.spec.Repetitions, p.Seed)
	return p, nil
}

// digest is the digest of several texts. It includes their lengths, so that moving text from one into another changes
// it.
func digest(texts ...[]byte) string {
	sum := sha256.New()
	for _, text := range texts {
		fmt.Fprintf(sum, "%d\n%s", len(text), text)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// loader collects a plan and its problems.
type loader struct {
	*scenarios.Strict
	spec Spec
	plan *Plan
	// own is the consumer of cells that name none.
	own consumer
	// base is the scenario with the settings of all cells; name and source are those of its file.
	base   *scenarios.Scenario
	name   string
	source []byte
	fits   func(*scenarios.Scenario) error
}

// checkMode checks the keys that belong to a mode.
func (l *loader) checkMode() {
	mode := reports.BenchMode(l.spec.Mode)
	for key, with := range map[string]reports.BenchMode{"bound": reports.BenchMaxThroughput,
		"search": reports.BenchMaxThroughput, "steps": reports.BenchStep} {
		if l.Has("/"+key) && mode != with && l.modeSound() {
			l.Complain("/"+key, fmt.Sprintf("%s goes with mode: %s, and this is %s", key, with, mode), "")
		}
	}
	if mode == reports.BenchMaxThroughput && !l.Has("/bound") {
		l.Complain("/mode",
			"a search for the highest rate needs a bound: what must hold, such as bound: latency.success.p99 < 200ms", "")
	}
	if l.Sound("/bound") {
		l.Threshold("/bound", l.spec.Bound)
	}
	if l.Sound("/search") {
		l.checkSearch()
	}
	if mode == reports.BenchStep && !l.Has("/steps") {
		l.Complain("/mode", "mode: step needs the steps, such as steps: [{rate: 100/s, for: 3s}, {rate: 200/s, for: 3s}]", "")
	}
	for i := 1; i < len(l.spec.Steps); i++ {
		if path := fmt.Sprintf("/steps/%d", i); l.Sound(path) && l.Sound(path+"/rate") &&
			l.spec.Steps[i].Rate <= l.spec.Steps[i-1].Rate {
			l.Complain(path+"/rate", "the steps go up: each rate is more than the one before it", "")
		}
	}
}

func (l *loader) modeSound() bool { return !l.Has("/mode") || l.Sound("/mode") }

func (l *loader) checkSearch() {
	search := l.spec.Search
	if l.Sound("/search/lowest") && search.Lowest <= 0 {
		l.Complain("/search/lowest", "at this rate nothing is sent: write the rate that is tried first, such as 100/s", "")
	}
	if l.Sound("/search/highest") && (search.Highest <= 0 || search.Highest < search.Lowest) {
		l.Complain("/search/highest", "the highest rate must be more than the lowest", "")
	}
	if l.Sound("/search/precision") && (search.Precision < leastPrecision || search.Precision > 1) {
		l.Complain("/search/precision", fmt.Sprintf("write %s to 100%%: a rate is not known better than that",
			units.Percent(leastPrecision)), "")
	}
}

// consumer reads the subject.yaml that is named at a place, so that an error in it is reported once and not for every
// cell.
func (l *loader) consumer(place, file string) (c consumer, ok bool) {
	read := l.Subject(place, file)
	if read == nil {
		return c, false
	}
	text, err := os.ReadFile(file)
	if err != nil {
		l.Complain(place, err.Error(), "")
	}
	return consumer{name: read.Name, file: file, from: file, text: text}, err == nil
}

// readScenario reads the scenario with the settings of all cells.
func (l *loader) readScenario() {
	if !l.Sound("/scenario") || l.Has("/subject") && l.own.file == "" {
		return
	}
	arg := l.spec.Scenario
	if _, shipped := scenarios.Shipped(arg); !shipped && (strings.ContainsAny(arg, `/\`) || filepath.Ext(arg) != "") {
		arg = l.Relative(arg)
	}
	name, data, err := scenarios.Find(arg)
	if err != nil {
		l.Complain("/scenario", err.Error(), "")
		return
	}
	l.plan.Arg, l.name, l.source = arg, name, data
	plain, _, err := scenarios.ParseForSubject(name, data, nil, l.own.file)
	if err != nil {
		l.refused("/scenario", nil, nil, err)
		return
	}
	l.base = plain
	switch {
	case l.own.file != "":
	case plain.Subject.File == "":
		l.own.name = "reference"
	default:
		l.own, _ = l.consumer("/scenario", filepath.Join(filepath.Dir(l.name), plain.Subject.File))
		l.own.file = ""
	}
}

// checkLoad checks the scenario's load against the requirements of the mode.
func (l *loader) checkLoad() {
	if err := l.fits(l.base); err != nil {
		l.Complain("/scenario", fmt.Sprintf("%s can't be run here: %v", l.base.Name, err), "")
	}
	if l.plan.Mode = reports.BenchMode(l.spec.Mode); l.plan.Mode != reports.BenchMaxThroughput {
		return
	}
	if l.spec.Search.Lowest == 0 {
		l.spec.Search.Lowest = l.base.Workload.Stretches()[0].Rate
	}
	if l.spec.Search.Highest < l.spec.Search.Lowest {
		l.Complain("/search/highest", fmt.Sprintf("the highest rate is less than the scenario's, %s, which is tried first: "+
			"set search.lowest", l.spec.Search.Lowest), "")
	}
	if l.base.Workload.Bursts != nil {
		l.Complain("/scenario", fmt.Sprintf("%s sends bursts on top of its rate, so that a rate that is held is not the "+
			"load: take another scenario", l.base.Name), "")
	}
}

// refused reports the problems of a scenario. A problem that a setting causes is reported at its place in the bench, a
// problem in a file of the user's own in that file. origins are the places of the sets; place is that of the cell.
func (l *loader) refused(place string, sets, origins []string, err error) {
	var problems *scenarios.Problems
	if !errors.As(err, &problems) {
		l.Complain(place, err.Error(), "")
		return
	}
	_, shipped := scenarios.Shipped(l.name)
	for _, problem := range problems.Problems {
		at := slices.IndexFunc(sets, func(set string) bool { return problem.File == "--set "+set })
		switch {
		case at >= 0:
			l.Complain(of(origins[at], sets[at], problem.Column), problem.Message, problem.Hint)
		case len(sets) == 0 && !shipped:
			l.Add(problem)
		default:
			l.Complain(place, fmt.Sprintf("this can't be run: %s (in %s)", problem.Message, problem.File), problem.Hint)
		}
	}
}

// of is the place at which a problem in a column of a setting is reported. A problem in the path, which all values of a
// matrix share, is reported at the path.
func of(origin, set string, column int) string {
	if column <= strings.Index(set, "=") && strings.HasPrefix(origin, "/matrix/") {
		return origin[:strings.LastIndex(origin, "/")]
	}
	return origin
}
