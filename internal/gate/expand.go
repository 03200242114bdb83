package gate

// This file expands the entries of dlqbench.yaml into runs: patterns, subjects, seeds, allowances and thresholds.

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// patternSigns are the characters that make a selection a pattern.
const patternSigns = "*?["

// selected adds the runs of one selection.
func (l *loader) selected(i int) {
	path, one := fmt.Sprintf("/scenarios/%d", i), l.config.Scenarios[i]
	if !l.Sound(path) {
		return
	}
	if l.Sound(path + "/scenario") {
		path += "/scenario"
	}
	if one.Scenario == "" {
		l.Complain(path, "no scenario is named", "")
		return
	}
	args, pattern := l.matching(path, one.Scenario)
	for _, arg := range args {
		name, data, err := scenarios.Find(arg)
		if err != nil {
			l.Complain(path, err.Error(), "")
			continue
		}
		for _, subject := range l.subjects {
			for _, settings := range l.settings {
				base := Entry{Arg: arg, Subject: subject.file, SubjectName: subject.name, Settings: settings.name,
					listed: path, pattern: pattern, Where: l.where(path)}
				if l.described(&base, name, data, one, settings.sets) {
					l.seeded(base, fmt.Sprintf("/scenarios/%d", i), one.Seeds)
				}
			}
		}
	}
}

// matching returns the scenarios that a selection names: itself, or the matches of its pattern.
func (l *loader) matching(path, written string) (args []string, pattern bool) {
	isFile := strings.ContainsAny(written, `/\`) || filepath.Ext(written) != ""
	switch pattern = strings.ContainsAny(written, patternSigns); {
	case !pattern && isFile:
		return []string{l.Relative(written)}, false
	case !pattern:
		return []string{written}, false
	case isFile:
		files := written
		if !filepath.IsAbs(written) {
			files = quoteMeta(filepath.Dir(l.suite.File)) + string(filepath.Separator) + written
		}
		found, err := filepath.Glob(files)
		if err != nil {
			l.Complain(path, fmt.Sprintf("%q is no pattern: %v", written, err), "")
			return nil, true
		}
		for _, file := range found {
			args = append(args, filepath.Clean(file))
		}
	default:
		for _, name := range scenarios.Names() {
			matched, err := filepath.Match(written, name)
			if err != nil {
				l.Complain(path, fmt.Sprintf("%q is no pattern: %v", written, err), "")
				return nil, true
			}
			if matched {
				args = append(args, name)
			}
		}
	}
	if len(args) == 0 {
		l.Complain(path, fmt.Sprintf("nothing matches %s", written),
			"dlqbench list names the shipped scenarios; files are relative to the folder of this one")
	}
	return args, true
}

// quoteMeta escapes a folder's name so that its characters have no meaning in a pattern.
func quoteMeta(folder string) string {
	return strings.NewReplacer(`*`, `[*]`, `?`, `[?]`, `[`, `[[]`).Replace(folder)
}

// described completes a run with data from its scenario, and checks the scenario with all settings of the suite. It
// reports whether the scenario can be run.
func (l *loader) described(entry *Entry, name string, data []byte, one Selection, settings []scenarios.Setting) bool {
	for _, set := range settings {
		entry.Sets = append(entry.Sets, set.Path+"="+set.Value)
	}
	scenario, err := l.parse(name, data, entry.Sets, entry.Subject)
	if err != nil {
		return !l.refusedSetting(entry, settings, err) && l.refused(entry, name, err)
	}
	if more := l.overrides(scenario, one); len(more) > 0 {
		entry.Sets = append(entry.Sets, more...)
		if scenario, err = l.parse(name, data, entry.Sets, entry.Subject); err != nil {
			return l.refused(entry, name, err)
		}
	}
	entry.Scenario = scenario.Name
	if err := l.fits(scenario); err != nil {
		return l.refused(entry, name, err)
	}
	if entry.SubjectName == "" {
		entry.SubjectName = ownSubject(name, scenario)
	}
	if isOwn(name) {
		line, column := scenarios.KeyAt(data, "/name")
		entry.Where = reports.SuitePlace{File: name, Line: line, Column: column}
	}
	return true
}

// parse reads a scenario once, however often it is named, because parsing takes milliseconds.
func (l *loader) parse(name string, data []byte, sets []string, subject string) (*scenarios.Scenario, error) {
	key := strings.Join(append([]string{name, subject}, sets...), "\x00")
	if read, found := l.parsed[key]; found {
		return read.scenario, read.err
	}
	scenario, _, err := scenarios.ParseForSubject(name, data, sets, subject)
	l.parsed[key] = parsed{scenario, err}
	return scenario, err
}

// isOwn reports whether a scenario is a file, not a shipped one.
func isOwn(name string) bool {
	_, shipped := scenarios.Shipped(name)
	return !shipped
}

// ownSubject is the name of the subject that a scenario specifies itself.
func ownSubject(name string, scenario *scenarios.Scenario) string {
	if scenario.Subject.File == "" {
		return "reference"
	}
	read, err := scenarios.LoadSubject(filepath.Join(filepath.Dir(name), scenario.Subject.File))
	if err != nil {
		return scenario.Subject.File // it was read just before
	}
	return read.Name
}

// refusedSetting reports problems of named settings at their places. It reports whether all problems are of that kind.
// A scenario that a pattern selects is left out instead.
func (l *loader) refusedSetting(entry *Entry, settings []scenarios.Setting, err error) bool {
	var problems *scenarios.Problems
	if !errors.As(err, &problems) || entry.pattern {
		return false
	}
	all := true
	for _, problem := range problems.Problems {
		at := slices.IndexFunc(entry.Sets, func(set string) bool { return problem.File == "--set "+set })
		if all = all && at >= 0; at >= 0 {
			l.Complain(settings[at].Place, problem.Message, problem.Hint)
		}
	}
	return all
}

// refused handles a scenario that cannot be run. For a scenario of the repository, the problem is reported at its place
// in that file. A shipped scenario does not fit the suite's settings: the problem is reported where the suite names it,
// and if a pattern selects it, it is left out.
func (l *loader) refused(entry *Entry, name string, err error) bool {
	var problems *scenarios.Problems
	isProblems := errors.As(err, &problems)
	if isProblems && isOwn(name) {
		l.Add(problems.Problems...)
		return false
	}
	why := err.Error()
	if isProblems {
		var messages []string
		for _, problem := range problems.Problems {
			messages = append(messages, problem.Message)
		}
		why = strings.Join(messages, "; ")
	}
	if entry.pattern {
		l.suite.LeftOut = append(l.suite.LeftOut, reports.SuiteLeft{Scenario: name, Why: why})
		return false
	}
	with := ""
	if entry.Subject != "" {
		with = " with " + entry.Subject
	}
	l.Complain(entry.listed, fmt.Sprintf("%s can't be run%s: %s", name, with, why), "")
	return false
}

// overrides lists, in the syntax of --set, the changes that the suite and the selection make to a scenario.
func (l *loader) overrides(plain *scenarios.Scenario, one Selection) []string {
	allowed := map[string]json.RawMessage{}
	for _, allow := range []scenarios.Allow{l.config.Allow, one.Allow} {
		if text, err := json.Marshal(allow); err == nil {
			_ = json.Unmarshal(text, &allowed) // the text was just encoded from a mapping
		}
	}
	var sets []string
	for _, name := range slices.Sorted(maps.Keys(allowed)) {
		sets = append(sets, "expect.allow."+name+"="+strings.Trim(string(allowed[name]), `"`))
	}
	more := append(slices.Clone(l.config.Thresholds), one.Thresholds...)
	more = slices.DeleteFunc(more, func(expression string) bool {
		return slices.Contains(plain.Expect.Thresholds, expression) || slices.Contains(l.unusable, expression)
	})
	for i, expression := range more {
		sets = append(sets, scenarios.ThresholdSet(len(plain.Expect.Thresholds)+i, expression))
	}
	return sets
}

// mostSeeds is the maximum number of seeds, because each is a run.
const mostSeeds = 10_000

// seeds returns the seeds of a list in the file.
func (l *loader) seeds(path string, ranges []Range) []uint64 {
	for i := range ranges {
		if _, err := each(ranges[:i+1], mostSeeds); err != nil {
			l.Complain(fmt.Sprintf("%s/%d", path, i), err.Error(), "")
			return nil
		}
	}
	seeds, _ := each(ranges, mostSeeds) // they were just checked
	return seeds
}

// seeded adds a run for each seed. path is that of the selection.
func (l *loader) seeded(base Entry, path string, own []Range) {
	seeds := l.seeds(path+"/seeds", own)
	if len(own) == 0 {
		seeds = l.seeds("/seeds", l.config.Seeds)
	}
	if len(own)+len(l.config.Seeds) == 0 {
		l.suite.Entries = append(l.suite.Entries, base)
	}
	for _, seed := range seeds {
		entry := base
		entry.Seed = &seed
		l.suite.Entries = append(l.suite.Entries, entry)
	}
}

// Key identifies a run within its suite, on every machine and in every order of the suite.
func (e Entry) Key() string {
	key := e.Arg + "\x00" + e.Subject
	if e.Settings != "" {
		key += "\x00" + e.Settings + "\x00"
	}
	if e.Seed != nil {
		key += "\x00" + strconv.FormatUint(*e.Seed, 10)
	}
	return filepath.ToSlash(key)
}

// Label names a run for people: the scenario, and what distinguishes it from the suite's other runs of it.
func (e Entry) Label() string {
	var more []string
	if e.Subject != "" {
		more = append(more, e.SubjectName)
	}
	if e.Settings != "" {
		more = append(more, e.Settings)
	}
	if e.Seed != nil {
		more = append(more, fmt.Sprintf("seed %d", *e.Seed))
	}
	if len(more) == 0 {
		return e.Scenario
	}
	return fmt.Sprintf("%s (%s)", e.Scenario, strings.Join(more, ", "))
}

// byName stands for all entries that name their scenario.
const byName = "by name"

// chosen identifies the decision of one entry of dlqbench.yaml for all seeds.
func (e Entry) chosen() string { return e.Arg + "\x00" + e.Subject }

// dropRepeated removes repeated runs. A named run takes precedence over patterns, which are for the rest, and the first
// pattern over later ones. A run that is named twice is an error.
func (l *loader) dropRepeated() {
	named := map[string]Entry{}
	for _, entry := range l.suite.Entries {
		if entry.pattern {
			continue
		}
		if first, twice := named[entry.Key()]; twice {
			l.Complain(entry.listed, fmt.Sprintf("%s is here twice: line %d names it already", entry.Label(),
				l.Where(first.listed).Line), "")
			continue
		}
		named[entry.Key()] = entry
	}
	// seen has the runs in the suite; chosen has, for each scenario with a subject, the entry that selected it, for all
	// seeds
	seen, chosen := map[string]bool{}, map[string]string{}
	for _, entry := range named {
		chosen[entry.chosen()] = byName
	}
	l.suite.Entries = slices.DeleteFunc(l.suite.Entries, func(entry Entry) bool {
		by := entry.listed
		if !entry.pattern {
			by = byName
		}
		if chosen[entry.chosen()] == "" {
			chosen[entry.chosen()] = by
		}
		drop := seen[entry.Key()] || chosen[entry.chosen()] != by
		seen[entry.Key()] = true
		return drop
	})
	seenOut := map[reports.SuiteLeft]bool{}
	l.suite.LeftOut = slices.DeleteFunc(l.suite.LeftOut, func(out reports.SuiteLeft) bool {
		drop := seenOut[out]
		seenOut[out] = true
		return drop
	})
}
