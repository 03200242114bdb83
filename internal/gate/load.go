package gate

// This file reads dlqbench.yaml into a suite. It reports all problems of the file, and of the scenarios and subjects
// that it names, before anything is run.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// ConfigFile is the default file name of a suite.
const ConfigFile = "dlqbench.yaml"

// Suite is the contents of a dlqbench.yaml: the runs in their order, and the waivers of their failures.
type Suite struct {
	// File is the path of dlqbench.yaml, as given.
	File    string
	Entries []Entry
	// LeftOut are scenarios that a pattern selects but that cannot be run here.
	LeftOut []reports.SuiteLeft
	Waivers []Exemption
	// Required are the invariants that must be judged.
	Required []Requirement
	Cluster  scenarios.Provider
	// Budget is the maximum duration of the whole suite. 0 means no limit.
	Budget time.Duration
	// Kubernetes is what a campaign's pods are made of.
	Kubernetes Kubernetes
}

// Entry is one run of a suite.
type Entry struct {
	// Number counts from 1 in the order of the suite, independent of shards.
	Number int
	// Scenario is the scenario's name, Arg the argument to dlqbench run.
	Scenario, Arg string
	// Subject is the subject.yaml that replaces the scenario's own subject, or "". SubjectName is the name of the
	// judged subject.
	Subject, SubjectName string
	// Seed replaces the scenario's seed. nil keeps that.
	Seed *uint64
	// Settings is the name of the suite's settings that the run has, "" if the suite has none.
	Settings string
	// Sets are overrides in the syntax of dlqbench run --set.
	Sets []string
	// Where is the place that a finding about the run points to: the scenario's name in a file of the repository, or
	// the entry of dlqbench.yaml.
	Where reports.SuitePlace
	// listed is the place in dlqbench.yaml that selects the run; pattern reports whether it selects others, too.
	listed  string
	pattern bool
}

// Exemption is a waiver and its place in the file.
type Exemption struct {
	Waiver
	Where reports.SuitePlace
	// ends is the end of its last day.
	ends time.Time
}

// Expired reports whether its last day is over.
func (e Exemption) Expired(now time.Time) bool { return !now.Before(e.ends) }

// Kafka checks whether the Kafka that a suite wants is available. fits reports whether it can run a scenario.
type Kafka func(scenarios.Provider) (fits func(*scenarios.Scenario) error, err error)

// Load reads a dlqbench.yaml and all files that it names. If they have problems, the error is a *scenarios.Problems.
func Load(path string, kafka Kafka) (*Suite, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf(
			"reading the suite: there is no file %s; dlqbench init writes one to begin with, --config names another", path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the suite: %w", err)
	}
	return Parse(path, data, kafka)
}

// Parse is Load for a text that has been read already.
func Parse(path string, data []byte, kafka Kafka) (*Suite, error) {
	l := &loader{suite: &Suite{File: path}, subjects: []subject{{}}, parsed: map[string]parsed{}, config: defaults()}
	strict, err := scenarios.DecodeStrict(path, data, schemaText, &l.config)
	if err != nil {
		return nil, err
	}
	l.Strict = strict
	l.suite.Cluster, l.suite.Budget, l.suite.Kubernetes = l.config.Cluster, l.config.Budget.D(), l.config.Kubernetes
	l.checkFigures()
	l.readSettings()
	l.readSubjects()
	l.fits, err = kafka(l.config.Cluster)
	if err != nil {
		l.Complain("/cluster", err.Error(), "")
		l.fits = func(*scenarios.Scenario) error { return nil }
	}
	l.seeds("/seeds", l.config.Seeds)
	for i := range l.config.Scenarios {
		l.selected(i)
	}
	l.dropRepeated()
	l.readWaivers()
	l.readRequired()
	if err := l.Err(); err != nil {
		return nil, err
	}
	for i := range l.suite.Entries {
		l.suite.Entries[i].Number = i + 1
	}
	if len(l.suite.Entries) == 0 {
		return nil, fmt.Errorf("%s: nothing can be run: %s", path, l.leftOut())
	}
	return l.suite, nil
}

// loader collects a suite and its problems.
type loader struct {
	*scenarios.Strict
	config   Config
	suite    *Suite
	subjects []subject
	// settings are the named settings that every scenario is run with: one without a name if the suite has none.
	settings []named
	fits     func(*scenarios.Scenario) error
	parsed   map[string]parsed
	// unusable are the thresholds that cannot be evaluated.
	unusable []string
}

// parsed is the result of reading a scenario.
type parsed struct {
	scenario *scenarios.Scenario
	err      error
}

// subject is a subject.yaml that has been read. The zero subject stands for the scenario's own.
type subject struct{ file, name string }

func (l *loader) checkFigures() {
	if l.Sound("/budget") && l.config.Budget <= 0 {
		l.Complain("/budget", "in no time nothing can be run: write how long the gate may take, such as 15m", "")
	}
	for i, expression := range l.config.Thresholds {
		l.checkThreshold(fmt.Sprintf("/thresholds/%d", i), expression)
	}
	for i, one := range l.config.Scenarios {
		for k, expression := range one.Thresholds {
			l.checkThreshold(fmt.Sprintf("/scenarios/%d/thresholds/%d", i, k), expression)
		}
	}
}

// checkThreshold reports a threshold that cannot be evaluated, once and not again for each run that it applies to.
func (l *loader) checkThreshold(path, expression string) {
	if l.Threshold(path, expression); l.Has(path) && !l.Sound(path) {
		l.unusable = append(l.unusable, expression)
	}
}

// readSubjects reads each subject once, so that an error in one is reported once and not for every scenario.
func (l *loader) readSubjects() {
	if !l.Sound("/subjects") {
		return
	}
	l.subjects = nil
	for i, written := range l.config.Subjects {
		path := fmt.Sprintf("/subjects/%d", i)
		if !l.Has(path) {
			path = "/subjects"
		}
		file := l.Relative(written)
		if slices.ContainsFunc(l.subjects, func(s subject) bool { return s.file == file }) {
			l.Complain(path, written+" is here twice", "")
			continue
		}
		if read := l.Subject(path, file); read != nil {
			l.subjects = append(l.subjects, subject{file, read.Name})
		}
	}
	if len(l.config.Subjects) == 0 {
		l.Complain("/subjects", "no subject is named: write a subject.yaml, or leave the key out to judge the scenarios' own",
			"")
	}
}

// named are settings under a name.
type named struct {
	name string
	sets []scenarios.Setting
}

// readSettings lists the named settings.
func (l *loader) readSettings() {
	if !l.Has("/settings") {
		l.settings = []named{{}}
		return
	}
	for _, name := range scenarios.Named(l.Strict, "/settings", l.config.Settings) {
		sets := l.Settings(scenarios.Below("/settings", name), l.config.Settings[name])
		l.settings = append(l.settings, named{name, sets})
	}
}

func (l *loader) where(path string) reports.SuitePlace {
	at := l.Where(path)
	return reports.SuitePlace{File: at.File, Line: at.Line, Column: at.Column}
}

func (l *loader) leftOut() string {
	var list []string
	for _, one := range l.suite.LeftOut {
		list = append(list, one.Scenario+": "+one.Why)
	}
	return strings.Join(list, "; ")
}

// readWaivers checks the waivers. A waiver that could never apply is an error, because the user would believe that a
// failure is waived when it counts.
func (l *loader) readWaivers() {
	var known []string
	for _, entry := range l.suite.Entries {
		known = append(known, entry.Scenario)
	}
	for _, one := range l.suite.LeftOut {
		known = append(known, one.Scenario)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	for i, waiver := range l.config.Waive {
		path := fmt.Sprintf("/waive/%d", i)
		if !l.Sound(path) {
			continue
		}
		l.checkWaived(path, waiver)
		if waiver.Scenario != "" && !slices.Contains(known, waiver.Scenario) && len(known) > 0 {
			l.Unknown(path+"/scenario", fmt.Sprintf("the suite runs no scenario %q", waiver.Scenario), waiver.Scenario, known)
		}
		if strings.TrimSpace(waiver.Reason) == "" && l.Has(path+"/reason") {
			l.Complain(path+"/reason", "a failure is waived for a reason: say which, such as the ticket and who decided", "")
		}
		last, err := time.Parse(time.DateOnly, waiver.Until)
		if err != nil && l.Has(path+"/until") {
			l.Complain(path+"/until", fmt.Sprintf("%q is no date: write the last day on which it is waived, such as 2026-12-31",
				waiver.Until), "")
		}
		l.suite.Waivers = append(l.suite.Waivers, Exemption{Waiver: waiver, Where: l.where(path),
			ends: last.AddDate(0, 0, 1)})
	}
}

func (l *loader) checkWaived(path string, waiver Waiver) {
	invariants, anomalies := assertions.Deciding(), assertions.AnomalyNames()
	knownInvariant, knownAnomaly := slices.Contains(invariants, waiver.Invariant),
		slices.Contains(anomalies, waiver.Anomaly)
	if waiver.Invariant == "" && waiver.Anomaly == "" {
		l.Complain(path, "it does not say what is waived: name an invariant, an anomaly, or both", "")
	}
	if waiver.Invariant != "" && !knownInvariant {
		l.unknownInvariant(path+"/invariant", waiver.Invariant)
	}
	if waiver.Anomaly != "" && !knownAnomaly {
		slices.Sort(anomalies)
		l.Unknown(path+"/anomaly", fmt.Sprintf("there is no anomaly %q", waiver.Anomaly), waiver.Anomaly,
			slices.Compact(anomalies))
	}
	if !knownInvariant || !knownAnomaly {
		return
	}
	var of []string
	for _, explained := range assertions.Explain(waiver.Anomaly) {
		of = append(of, explained.Of)
	}
	if !slices.Contains(of, waiver.Invariant) {
		l.Complain(path+"/anomaly", fmt.Sprintf("%s is no anomaly of %s: it violates %s", waiver.Anomaly, waiver.Invariant,
			strings.Join(of, " and ")), "")
	}
}
