package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/scenarios"
)

const (
	// codeAbsent is the exit code with which a build reports that this machine lacks a prerequisite.
	codeAbsent = 77
	// strangerSlip relaxes the punctuality of the load, which does not matter here, as in the other runs of the proof.
	strangerSlip = "expect.max_slip=1s"
	// drawings is how many situations are drawn for a stranger until one applies to it.
	drawings = 64
)

// Stranger is a correct consumer written without knowledge of dlqbench, described by its subject file.
type Stranger struct {
	// File is the path of the subject file, as found.
	File    string
	Subject *scenarios.SubjectFile
}

// FindStrangers reads the subject files of a folder: NAME/subject.yaml and NAME/subjects/*.yaml. Within NAME,
// subject.yaml comes first.
func FindStrangers(folder string) ([]Stranger, error) {
	var all []Stranger
	for _, pattern := range []string{"*/subject.yaml", "*/subjects/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return nil, fmt.Errorf("looking for subject files in %s: %w", folder, err)
		}
		for _, file := range files {
			subject, err := scenarios.LoadSubject(file)
			if err != nil {
				return nil, err
			}
			all = append(all, Stranger{File: file, Subject: subject})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there is no NAME/subject.yaml and no NAME/subjects/*.yaml in %s", folder)
	}
	return all, nil
}

// Selected returns the strangers whose subjects have these names, or all if there are no names. A name without a
// stranger is an error.
func Selected(all []Stranger, names []string) ([]Stranger, error) {
	if len(names) == 0 {
		return all, nil
	}
	var selected []Stranger
	for _, name := range names {
		at := slices.IndexFunc(all, func(one Stranger) bool { return one.Subject.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("no stranger has the name %q: it is the name in its subject file", name)
		}
		selected = append(selected, all[at])
	}
	return selected, nil
}

// encounter is a stranger in a shipped scenario.
type encounter struct {
	stranger Stranger
	scenario string
}

// encounters lists every stranger once in every shipped scenario that applies to it. Scenarios that apply to most
// strangers come first. Neighbours differ in both scenario and stranger, and each stranger comes up once before any
// comes up again.
func encounters(strangers []Stranger, fits func(*scenarios.Scenario) bool) ([]encounter, error) {
	var common []string
	var special []encounter
	unfit := map[encounter]bool{}
	for _, name := range scenarios.Names() {
		text, _ := scenarios.Shipped(name)
		scenario, err := scenarios.Parse(name, text)
		if err != nil {
			return nil, err
		}
		if !ordinary(scenario) || !fits(scenario) {
			continue
		}
		var met []encounter
		for _, one := range strangers {
			pair := encounter{stranger: one, scenario: name}
			unfit[pair] = scenario.Unfit(one.Subject) != "" || scenario.Replay != nil && !replayable(one.Subject)
			if !unfit[pair] { // parsing for a subject costs milliseconds
				_, _, err := scenarios.ParseForSubject(name, text, nil, one.File)
				unfit[pair] = err != nil
			}
			if !unfit[pair] {
				met = append(met, pair)
			}
		}
		if len(met) > len(strangers)/2 {
			common = append(common, name)
		} else {
			special = append(special, met...)
		}
	}
	var all []encounter
	for round := range common {
		for i, stranger := range strangers {
			one := encounter{stranger: stranger, scenario: common[(round+i)%len(common)]}
			if !unfit[one] {
				all = append(all, one)
			}
		}
	}
	return append(all, special...), nil
}

// ordinary reports whether a scenario is about a plain consumer with a dead-letter topic, and not about stores, graphs,
// services or a framework's envelope. The consumer's contract decides about all other requirements (Unfit).
func ordinary(s *scenarios.Scenario) bool {
	r := s.Subject.Reference
	return s.Store == nil && s.Graph == nil && len(s.Services) == 0 && s.Drill == nil && s.Subject.File == "" &&
		r.DLQEnabled && r.Envelope == deadletter.PlainName
}

// replayable reports whether the dead letters of a subject name their source in a form that dlqbench replay reads.
func replayable(subject *scenarios.SubjectFile) bool {
	_, err := deadletter.Named(string(subject.Contract.DLQ.Envelope))
	return subject.Contract.DLQ.Envelope != "" && err == nil
}

// ProveStrangers runs strangers in shipped scenarios: runs of them, from number first on. Numbers after the last pair
// start over with other seeds. With drawn, they run under faults that are drawn from the number instead, alone and in
// pairs, as the correct consumer in the proof of soundness.
func (c *Config) ProveStrangers(
	ctx context.Context, strangers []Stranger, cluster run.ClusterOptions, first uint64, runs int, drawn bool,
) (*Soundness, error) {
	table := newSoundness(first)
	next := func(number uint64) (meeting, error) { return drawnFor(strangers, number) }
	if !drawn {
		all, err := encounters(strangers, func(s *scenarios.Scenario) bool { return cluster.Fits(s) == nil })
		if err != nil {
			return nil, err
		}
		table.Pairs = len(all)
		next = func(number uint64) (meeting, error) { return all[number%uint64(len(all))].meeting(), nil }
	}
	builds := &builds{done: map[string]func() error{}}
	var mu sync.Mutex
	c.each(ctx, runs, func(i int) {
		number := first + uint64(i)
		one, err := next(number)
		if err != nil {
			c.count(ctx, table, sounded{seed: number, err: err}, &mu)
			return
		}
		c.meet(ctx, table, one, number, cluster, builds, &mu)
	})
	return table, ctx.Err()
}

// meeting is one run of a stranger.
type meeting struct {
	stranger Stranger
	// scenario is its name, and text what it says. Those that are drawn have the name drawnScenario.
	scenario string
	text     []byte
	faults   []string
}

const drawnScenario = "drawn"

func (e encounter) meeting() meeting {
	text, _ := scenarios.Shipped(e.scenario)
	return meeting{e.stranger, e.scenario, text, []string{e.scenario}}
}

// trial is the run of the meeting, for a consumer that is already built.
func (m meeting) trial() trial {
	subject := *m.stranger.Subject
	subject.Build = nil
	return trial{
		name: "strangers-" + subject.Name + "-" + m.scenario, of: m.scenario, scenario: m.text,
		sets: []string{strangerSlip}, subject: &subject, subjectFile: m.stranger.File,
	}
}

// meet carries out a run. The number is also the seed.
func (c *Config) meet(
	ctx context.Context, table *Soundness, m meeting, number uint64, cluster run.ClusterOptions, builds *builds,
	mu *sync.Mutex,
) {
	name := m.stranger.Subject.Name
	result := sounded{seed: number, mode: name, faults: m.faults, what: name + " in " + strings.Join(m.faults, " and ")}
	if result.err = builds.build(ctx, m.stranger); result.err == nil {
		rerun := fmt.Sprintf("--seed %%d --subject %s --set %s", m.stranger.File, strangerSlip)
		if cluster.Provider != "" && cluster.Provider != run.ClusterEmbedded {
			rerun += " --cluster " + cluster.Provider
		}
		t := m.trial()
		t.seed, t.cluster, t.rerun = number, cluster, "dlqbench run "+m.file(".")+" "+rerun
		result.outcome, result.err = c.run(ctx, t)
		if result.err == nil {
			result.rerun = fmt.Sprintf("dlqbench run "+m.file(result.outcome.Dir)+" "+rerun, number)
		}
	}
	c.count(ctx, table, result, mu)
}

// file names the scenario for a command; one that was drawn stands in the run's folder.
func (m meeting) file(dir string) string {
	if m.scenario != drawnScenario {
		return m.scenario
	}
	return dir + "/scenario.yaml"
}

// drawnFor returns the run of a number: the strangers take turns, and each begins with other faults. After two rounds,
// they come four times as slowly for two, because clients notice some faults only after seconds.
func drawnFor(strangers []Stranger, number uint64) (meeting, error) {
	which, round := number%uint64(len(strangers)), number/uint64(len(strangers))
	s, refused := strangers[which], ""
	for try := range uint64(drawings) {
		situation := draw(number+try<<32, modeOf(s.Subject, 1+int((number+try)%3), 1+3*int(round/2%2)), which+try, round)
		text := []byte(situation.Scenario)
		scenario, err := scenarios.Parse(drawnScenario, text)
		if err != nil {
			return meeting{}, fmt.Errorf("drawing faults for %s: %w", s.File, err)
		}
		if refused = scenario.Unfit(s.Subject); scenario.Replay != nil && !replayable(s.Subject) {
			refused = "its dead letters can't be replayed"
		}
		if refused == "" {
			if _, _, err = scenarios.ParseForSubject(drawnScenario, text, []string{strangerSlip}, s.File); err == nil {
				return meeting{s, drawnScenario, text, situation.Faults}, nil
			}
			refused = err.Error()
		}
	}
	return meeting{}, fmt.Errorf("drawing faults for %s: none of %d situations applies: %s", s.File, drawings, refused)
}

// modeOf returns the mode of the reference consumer that is nearest to a consumer. It decides which faults can have an
// effect.
func modeOf(s *scenarios.SubjectFile, instances, pace int) mode {
	c := &s.Contract
	promised, _ := s.HistoryContract() // it was checked when the file was read
	m := mode{
		never:    scenarios.NeverEnding(&promised),
		ordering: cmp.Or(c.Ordering, "none"), retry: "in-place", protocol: cmp.Or(c.GroupProtocol, "classic"),
		instances: instances, pace: pace, transactions: c.Transactions,
		writes: slices.ContainsFunc(s.Downstreams, func(d scenarios.Downstream) bool { return d.Kafka != nil }),
	}
	if c.Retry == "topics" {
		m.retry = c.Retry
	}
	if c.GroupType == "share" {
		m.protocol = c.GroupType
	}
	return m
}

// builds ensures that each build is done once, although several strangers may share it and several runs may want it at
// once.
type builds struct {
	mu   sync.Mutex
	done map[string]func() error
}

// absentError names the prerequisite that this machine lacks to build a stranger.
type absentError struct{ what string }

func (e absentError) Error() string { return e.what }

func (b *builds) build(ctx context.Context, s Stranger) error {
	folder := filepath.Join(filepath.Dir(s.File), s.Subject.Dir)
	key := folder + "\x00" + strings.Join(s.Subject.Build, "\x00")
	b.mu.Lock()
	once := b.done[key]
	if once == nil {
		once = sync.OnceValue(func() error { return buildIn(ctx, folder, s.Subject.Build) })
		b.done[key] = once
	}
	b.mu.Unlock()
	return once()
}

func buildIn(ctx context.Context, folder string, words []string) error {
	if len(words) == 0 {
		return nil
	}
	command := exec.CommandContext(ctx, words[0], words[1:]...)
	command.Dir, command.Env = folder, os.Environ()
	output, err := command.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	last := lines[len(lines)-1]
	var ended *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrNotFound):
		return absentError{fmt.Sprintf("%s: there is no %s in the PATH", folder, words[0])}
	case errors.As(err, &ended) && ended.ExitCode() == codeAbsent:
		return absentError{folder + ": " + last}
	}
	return fmt.Errorf("building %s with %q: %w: %s", folder, words, err, last)
}
