// Package dlqbench runs scenarios against a Kafka consumer and reads their verdicts, from Go. Tests have it shorter in
// [dlqtest].
//
// It starts the program dlqbench, so that importing it brings in nothing but the standard library. The program is
// Options.Binary, else $DLQBENCH, else the tool of the module at hand (go get -tool
// github.com/dlqbench/dlqbench/cmd/dlqbench), else the one on $PATH.
//
// [dlqtest]: https://pkg.go.dev/github.com/dlqbench/dlqbench/dlqtest
package dlqbench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Options say what is run and how.
type Options struct {
	// Scenario is the name of a shipped scenario, or a scenario file.
	Scenario string
	// Subject is the subject.yaml of the consumer to judge; "" is what the scenario names.
	Subject string
	// Seed, when not nil, is that of every random choice; default: the scenario's.
	Seed *uint64
	// Set overrides values of the scenario, each as path=value.
	Set []string
	// Flags are further flags of `dlqbench run`, such as --cluster=process.
	Flags []string
	// Out is the folder for run directories; default: runs.
	Out string
	// Binary is the program dlqbench; default: see the package.
	Binary string
	// Progress, if set, is written what the program says while it runs.
	Progress io.Writer
}

// Status is a verdict in one word.
type Status string

// The verdicts. NotApplicable is that of invariants alone: the contract does not promise it, or there was nothing to
// judge.
const (
	Pass          Status = "pass"
	Fail          Status = "fail"
	Inconclusive  Status = "inconclusive"
	NotApplicable Status = "not-applicable"
)

// Verdict is what was judged of a run: the part of its verdict.json that tests need.
type Verdict struct {
	// Dir is the run directory, with report.html, verdict.json and the history.
	Dir string `json:"-"`

	Status   Status `json:"verdict"`
	RunID    string `json:"run_id"`
	Scenario string `json:"scenario"`
	Subject  string `json:"subject"`
	Seed     uint64 `json:"seed"`
	// Reasons say why Status is not Pass, in sentences, worst first.
	Reasons    []string    `json:"reasons"`
	Invariants []Invariant `json:"invariants"`
	Thresholds []Threshold `json:"thresholds"`
}

// Invariant is what one invariant says.
type Invariant struct {
	Name   string `json:"name"`
	Status Status `json:"verdict"`
	// Judged is how many things were judged; Of says which: records, attempts, commits.
	Judged int64  `json:"judged"`
	Of     string `json:"of"`
	// Why explains Inconclusive and NotApplicable.
	Why       string    `json:"why"`
	Anomalies []Anomaly `json:"anomalies"`
}

// Anomaly is one way in which an invariant was violated.
type Anomaly struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
	// Counterexamples are at most 20 of the occurrences: that of the record which the reports show, then the shortest.
	Counterexamples []Counterexample `json:"counterexamples"`
}

// Counterexample is one occurrence of an anomaly.
type Counterexample struct {
	// Summary says in one sentence what contradicts what.
	Summary string `json:"summary"`
	// Trace is what happened to the record, in order.
	Trace []Event `json:"trace"`
	// Command prints all that the run knows of the record.
	Command string `json:"command"`
}

// Event is one event of a record's trace.
type Event struct {
	// Time is since the run began.
	Time time.Duration `json:"time_ns"`
	Text string        `json:"text"`
	// Marked events contradict each other.
	Marked bool `json:"marked"`
}

// Threshold is a threshold of the scenario. Missing one leaves Verdict.Status as it is.
type Threshold struct {
	Expression string `json:"expression"`
	// Actual is the figure, with its unit.
	Actual string `json:"actual"`
	Met    bool   `json:"met"`
}

// Missed are the thresholds that were missed.
func (v *Verdict) Missed() []Threshold {
	var missed []Threshold
	for _, threshold := range v.Thresholds {
		if !threshold.Met {
			missed = append(missed, threshold)
		}
	}
	return missed
}

// graceful is how long a run that is to end early has to heal, audit and judge what there is.
const graceful = 60 * time.Second

// writeLimit bounds waiting for a program that another process still writes.
const writeLimit = 30 * time.Second

// Run runs a scenario and returns its verdict, whatever it is: a consumer that broke its promises is no error. When ctx
// ends, so does the run, and the error wraps that of ctx; what there was until then is judged.
func Run(ctx context.Context, options Options) (*Verdict, error) {
	out := cmp.Or(options.Out, "runs")
	args := []string{"run", "--json", "--out", out}
	if options.Subject != "" {
		args = append(args, "--subject", options.Subject)
	}
	if options.Seed != nil {
		args = append(args, "--seed", strconv.FormatUint(*options.Seed, 10))
	}
	for _, set := range options.Set {
		args = append(args, "--set", set)
	}
	args = slices.Concat(args, options.Flags, []string{"--", options.Scenario})
	verdict, err := options.judged(ctx, args)
	if err != nil {
		return nil, fmt.Errorf("running %s: %w", options.Scenario, err)
	}
	if verdict.Dir, err = find(out, verdict.RunID); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return verdict, fmt.Errorf("%s was ended early: %w", options.Scenario, context.Cause(ctx))
	}
	return verdict, nil
}

// Judge judges the stored run in a run directory again.
func Judge(ctx context.Context, dir string) (*Verdict, error) {
	verdict, err := Options{}.judged(ctx, []string{"check", "--json", "--", dir})
	if err != nil {
		return nil, fmt.Errorf("judging %s: %w", dir, err)
	}
	verdict.Dir = dir
	return verdict, nil
}

// judged starts the program and reads the verdict that it prints. Its exit code says no more than the verdict does.
func (o Options) judged(ctx context.Context, args []string) (*Verdict, error) {
	binary, err := o.binary(ctx)
	if err != nil {
		return nil, err
	}
	var stdout, stderr bytes.Buffer
	ended := o.start(ctx, binary, args, &stdout, &stderr)
	// Two `go tool` at a time that find no dlqbench in Go's cache both put it there: the file that one has told of is
	// still being written by the other.
	for began := time.Now(); errors.Is(ended, syscall.ETXTBSY) && time.Since(began) < writeLimit; {
		time.Sleep(writeLimit / 1000)
		ended = o.start(ctx, binary, args, &stdout, &stderr)
	}
	verdict := &Verdict{}
	if json.Unmarshal(stdout.Bytes(), verdict) == nil && verdict.RunID != "" {
		return verdict, nil
	}
	if said := strings.TrimSpace(stderr.String()); said != "" {
		return nil, errors.New(said)
	}
	return nil, fmt.Errorf("%s %s printed no verdict: %w", binary, strings.Join(args, " "), ended)
}

// start starts the program and waits until it has ended.
func (o Options) start(ctx context.Context, binary string, args []string, stdout, stderr *bytes.Buffer) error {
	command := exec.CommandContext(ctx, binary, args...)
	command.Stdout, command.Stderr = stdout, stderr
	if o.Progress != nil {
		command.Stderr = io.MultiWriter(stderr, o.Progress)
	}
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = graceful
	return command.Run()
}

// binary is the program's path.
func (o Options) binary(ctx context.Context) (string, error) {
	if o.Binary != "" {
		return o.Binary, nil
	}
	if path := os.Getenv("DLQBENCH"); path != "" {
		return path, nil
	}
	if path, err := exec.CommandContext(ctx, "go", "tool", "-n", "dlqbench").Output(); err == nil {
		return strings.TrimSpace(string(path)), nil
	}
	if path, err := exec.LookPath("dlqbench"); err == nil {
		return path, nil
	}
	return "", errors.New("the program dlqbench was not found: make it a tool of the module with " +
		"`go get -tool github.com/dlqbench/dlqbench/cmd/dlqbench`, or install it, or set DLQBENCH to its path")
}

// find returns the run directory of the run.
func find(out, runID string) (string, error) {
	entries, err := os.ReadDir(out)
	for _, entry := range slices.Backward(entries) {
		if !entry.IsDir() {
			continue // latest, a link
		}
		dir := filepath.Join(out, entry.Name())
		data, err := os.ReadFile(filepath.Join(dir, "verdict.json"))
		stored := Verdict{}
		if err == nil && json.Unmarshal(data, &stored) == nil && stored.RunID == runID {
			return dir, nil
		}
	}
	return "", errors.Join(fmt.Errorf("%s has no run directory of run %s", out, runID), err)
}
