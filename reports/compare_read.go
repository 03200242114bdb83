package reports

// This file reads the compared part of a run from three kinds of files: the verdict.json of a run, the results.json
// of a bench, and a baseline, which holds only that part.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
)

// BaselineSchema is the version of a baseline file.
const BaselineSchema = 1

// EnvironmentLoad is the key in a run's environment for the digest of everything that its subject is asked to do:
// cluster, topics, workload, faults, replay. Runs with the same digest may be compared. The digest does not include
// the subject's contract and settings.
const EnvironmentLoad = "load"

// environmentBench is the key for the digest of the files from which a bench's runs are made.
const environmentBench = "bench files"

// CompareRun is what of a run is compared.
type CompareRun struct {
	// Case is what the run is a repetition of: the scenario, or the bench's scenario and cell. RunID tells the run from
	// all others, "" if that is not known; Label names it for people.
	Case    string `json:"case"`
	RunID   string `json:"run_id"`
	Label   string `json:"label"`
	Subject string `json:"subject"`
	Seed    uint64 `json:"seed"`
	// Command shows the run again.
	Command     string            `json:"command"`
	Started     time.Time         `json:"started"`
	Verdict     assertions.Status `json:"verdict"`
	Environment map[string]string `json:"environment"`
	// Planned and Faults are what was asked of the subject: so many records while these faults were on. Planned is 0
	// where the load was searched for.
	Planned    int64            `json:"planned"`
	Faults     []string         `json:"faults"`
	Invariants []BenchInvariant `json:"invariants"`
	// Figures by the names that thresholds have for them, those that were measured: seconds, per second, shares or
	// counts.
	Figures map[string]float64 `json:"figures"`
}

// comparedFigure is a figure in comparisons.
type comparedFigure struct {
	BenchFigure
	// title is short, for a table. Watched figures decide the verdict, the others are shown.
	title   string
	watched bool
}

// comparedFigures returns all compared figures in display order: those of a bench in any mode, and others that a run
// has. Few are watched, because each further one reduces the power to detect changes in the others.
func comparedFigures() []comparedFigure {
	words := []struct {
		name, title string
		watched     bool
	}{
		{"rate.held", "highest rate held", true}, {"rate.knee", "highest step held", true},
		{"drift.p99", "drift of p99", true},
		{"drift.backlog", "backlog growth", true}, {"throughput.processed", "throughput", true},
		{"latency.success.p50", "success p50", true}, {"latency.success.p90", "success p90", false},
		{"latency.success.p99", "success p99", true},
		{"latency.success.p999", "success p99.9", false}, {"latency.dead_letter.p99", "dead letter p99", false},
		{"latency.commit_delay.p99", "commit delay p99", false},
		{"recovery.steady", "longest recovery", true}, {"recovery.drain", "drain", true},
		{"share.duplicates", "duplicates", true},
		{"share.dead_lettered", "dead letters", true}, {"count.attempts", "attempts", false},
		{"subject.rss.max", "memory", false}, {"subject.cpu.mean", "processors", false},
	}
	all := slices.Concat(BenchMaxThroughput.Own(), BenchStep.Own(), BenchSoak.Own(),
		BenchFigures(BenchFixed), figuresOfRun())
	var out []comparedFigure
	for _, of := range words {
		at := slices.IndexFunc(all, func(f BenchFigure) bool { return f.Name == of.name })
		if at >= 0 {
			out = append(out, comparedFigure{BenchFigure: all[at], title: of.title, watched: of.watched})
		}
	}
	return out
}

// figuresOfRun returns the figures that a single run has and a bench leaves out.
func figuresOfRun() []BenchFigure {
	p90 := func(q measure.Quantiles) time.Duration { return q.P90 }
	p999 := func(q measure.Quantiles) time.Duration { return q.P999 }
	return []BenchFigure{
		latencyFigure(measure.LatencySuccess, "success", p90, "p90"),
		latencyFigure(measure.LatencySuccess, "success", p999, "p999"),
		{Name: "share.dead_lettered", Unit: BenchUnitShare, Of: func(r BenchRepetition) (float64, bool) {
			return float64(r.Run.Ledger.DeadLettered) / float64(max(r.Run.Ledger.Acknowledged, 1)), r.Run.Ledger.Acknowledged > 0
		}},
		{Name: "count.attempts", Unit: BenchUnitCount, Of: func(r BenchRepetition) (float64, bool) {
			return float64(r.Run.Ledger.Attempts), r.Run.Ledger.Acknowledged > 0
		}},
		{Name: "subject.rss.max", Unit: BenchUnitSize, Of: func(r BenchRepetition) (float64, bool) {
			return ofInstances(r, func(one measure.InstanceUsage) (float64, bool) { return float64(one.RSSMax), true })
		}},
		{Name: "subject.cpu.mean", Unit: BenchUnitCount, Of: func(r BenchRepetition) (float64, bool) {
			return ofInstances(r, func(one measure.InstanceUsage) (float64, bool) {
				if one.CPUMean == nil {
					return 0, false
				}
				return *one.CPUMean, true
			})
		}},
	}
}

// ofInstances returns the highest value over the instances.
func ofInstances(r BenchRepetition, value func(measure.InstanceUsage) (float64, bool)) (highest float64, found bool) {
	for _, one := range r.Run.Usage.Instances {
		if v, known := value(one); known {
			highest, found = max(highest, v), true
		}
	}
	return highest, found
}

// valuesOf returns a figure's values in the runs that have it.
func valuesOf(of string, runs []CompareRun) []float64 {
	var out []float64
	for _, run := range runs {
		if v, ok := run.Figures[of]; ok {
			out = append(out, v)
		}
	}
	return out
}

// RunOfVerdict extracts the compared part of a verdict. label names the run.
func RunOfVerdict(v *assertions.Verdict, label string) (CompareRun, error) {
	run, err := NewBenchRun(Run{Verdict: v}, 0, 0)
	if err != nil {
		return CompareRun{}, err
	}
	out := CompareRun{
		Case: v.Scenario, RunID: v.RunID, Label: label, Subject: v.Subject, Seed: v.Seed, Environment: v.Environment,
		Planned: v.Ledger.Planned,
	}
	run.Drain, run.Drained, run.Recovery = v.Drain.Time, v.Drain.Drained, nil
	for _, fault := range v.Faults {
		out.Faults = append(out.Faults, fmt.Sprintf("%s from %s for %s", fault.What, fault.At, fault.For))
		run.Recovery = append(run.Recovery, BenchRecovery{Fault: fault.Name, Recovery: fault.Recovery})
	}
	out.take(BenchRepetition{Run: run})
	return out, nil
}

// take extracts what every repetition has. Figures of a run that proved nothing do not describe the consumer and are
// left out, as in a bench.
func (r *CompareRun) take(of BenchRepetition) {
	r.Command, r.Started, r.Verdict, r.Invariants, r.Figures = of.Run.Command, of.Run.Started, of.Run.Verdict,
		of.Run.Invariants, map[string]float64{}
	if !of.Finished() || !of.Usable() {
		return
	}
	for _, figure := range comparedFigures() {
		if v, known := figure.Of(of); known && !math.IsNaN(v) && !math.IsInf(v, 0) {
			r.Figures[figure.Name] = v
		}
	}
}

// RunsOfBench extracts the compared part of a bench: each completed repetition of each cell. label names the bench.
func RunsOfBench(bench Bench, label string) []CompareRun {
	environment := maps.Clone(bench.Environment)
	if environment == nil {
		environment = map[string]string{}
	}
	delete(environment, EnvironmentLoad) // it belongs to one run; each cell has its own
	environment[environmentBench] = bench.SpecHash
	var out []CompareRun
	for _, cell := range bench.Cells {
		for _, repetition := range cell.Repetitions {
			one := CompareRun{
				Case: caseOfCell(bench, cell), RunID: repetition.Run.Dir, Label: fmt.Sprintf("%s, repetition %d", label,
					repetition.Number),
				Subject: bench.Subject, Seed: bench.Seed, Environment: environment,
			}
			if repetition.Search == nil {
				one.Planned = repetition.Run.Ledger.Planned
			}
			one.take(repetition)
			out = append(out, one)
		}
	}
	return out
}

// caseOfCell returns a case name that differs from those of cells in other benches with the same name and other
// settings.
func caseOfCell(bench Bench, cell BenchCell) string {
	out := bench.Scenario + " (" + string(bench.Mode)
	if bench.Bound != "" {
		out += ", " + bench.Bound
	}
	out += "): " + cell.Name
	for _, setting := range cell.Settings {
		out += fmt.Sprintf(" %s=%s", setting.Path, setting.Value)
	}
	for _, more := range []string{cell.Workload, cell.Faults} {
		if more != "" {
			out += ", " + more
		}
	}
	return out
}

// baselineFile is a baseline as it is written.
type baselineFile struct {
	Schema int          `json:"baseline_schema"`
	Saved  time.Time    `json:"saved"`
	Runs   []CompareRun `json:"runs"`
}

// WriteBaseline writes the compared part of the runs, for comparisons with later runs.
func WriteBaseline(w io.Writer, runs []CompareRun, saved time.Time) error {
	return writeJSON(w, "the baseline", baselineFile{Schema: BaselineSchema, Saved: saved.UTC(), Runs: runs})
}

// ReadCompared reads the runs of a verdict.json, of a bench's results.json, or of a baseline. label names the input.
// For any other input, or another version, the error says what to do.
func ReadCompared(data []byte, label string) ([]CompareRun, error) {
	var of struct {
		Baseline *int             `json:"baseline_schema"`
		Schema   *int             `json:"schema"`
		RunID    *string          `json:"run_id"`
		Cells    *json.RawMessage `json:"cells"`
	}
	if err := json.Unmarshal(data, &of); err != nil {
		return nil, fmt.Errorf("reading %s: this is no JSON: %w", label, err)
	}
	switch {
	case of.Baseline != nil:
		return readBaseline(data, *of.Baseline, label)
	case of.Cells != nil:
		bench, err := ReadBench(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("%w (%s)", err, label)
		}
		if runs := RunsOfBench(bench, label); len(runs) > 0 {
			return runs, nil
		}
		return nil, fmt.Errorf("reading %s: this bench has no runs: let it run to its end, or resume it", label)
	case of.Schema != nil && of.RunID != nil:
		return readVerdict(data, *of.Schema, label)
	}
	return nil, fmt.Errorf(
		"reading %s: this is neither the verdict.json of a run, nor the results.json of a bench, nor a baseline", label)
}

func readBaseline(data []byte, schema int, label string) ([]CompareRun, error) {
	if schema != BaselineSchema {
		return nil, fmt.Errorf("reading %s: the baseline has schema %d, and this version of dlqbench reads %d: "+
			"save it again with this version, dlqbench compare --save %s RUN…", label, schema, BaselineSchema, label)
	}
	var file baselineFile
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("reading the baseline %s: %w", label, err)
	}
	if len(file.Runs) == 0 {
		return nil, fmt.Errorf("reading %s: the baseline holds no runs: save it again, dlqbench compare --save %s RUN…",
			label, label)
	}
	return file.Runs, nil
}

func readVerdict(data []byte, schema int, label string) ([]CompareRun, error) {
	if schema != assertions.SchemaVersion {
		return nil, fmt.Errorf("reading %s: the verdict has schema %d, and this version of dlqbench reads %d: "+
			"judge the run again with this version, dlqbench check RUN", label, schema, assertions.SchemaVersion)
	}
	var verdict assertions.Verdict
	if err := json.Unmarshal(data, &verdict); err != nil {
		return nil, fmt.Errorf("reading the verdict %s: %w", label, err)
	}
	if verdict.Scenario == "" {
		return nil, fmt.Errorf("reading the verdict %s: %w", label, errNoScenario)
	}
	run, err := RunOfVerdict(&verdict, label)
	return []CompareRun{run}, err
}

var errNoScenario = errors.New("it names no scenario, so there is no telling what it may be compared with")
