package reports

// This file defines the results of a bench: the same scenario under several settings of its consumer, each run
// several times. It has everything that a report needs, so that a report can be made without the run directories.

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/units"
)

// BenchSchema is the version of results.json.
const BenchSchema = 1

// The files that a bench writes to its folder.
const (
	BenchJSONFile = "results.json"
	// BenchCSVFile has a row for each repetition of each cell, BenchCellsCSVFile one for each cell.
	BenchCSVFile      = "results.csv"
	BenchCellsCSVFile = "cells.csv"
)

// BenchMode is what a bench measures in each cell.
type BenchMode string

// The modes: the figures at the scenario's own load; the highest rate that meets the bound without loss; the drift of
// the figures in a long run; and the rate at which the consumer no longer keeps up with a stepped load.
const (
	BenchFixed         BenchMode = "fixed"
	BenchMaxThroughput BenchMode = "max-throughput"
	BenchSoak          BenchMode = "soak"
	BenchStep          BenchMode = "step"
)

// BenchState is the result of a cell.
type BenchState string

// The states, worst first. A cell is broken if an invariant was violated in it. Its figures are shown, but it is
// never called fast. It is inconclusive if none of its repetitions proved anything.
const (
	BenchBroken       BenchState = "broken"
	BenchInconclusive BenchState = "inconclusive"
	BenchNotRun       BenchState = "not-run"
	BenchOK           BenchState = "ok"
)

// Bench is the content of results.json.
type Bench struct {
	Schema      int    `json:"schema"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// File is the bench's file as it was named, SpecHash the SHA-256 of everything that its runs are made from: it, the
	// scenario, and the subject.
	File     string `json:"file"`
	SpecHash string `json:"spec_sha256"`
	// Version is that of dlqbench, Environment what the runs ran on, as in verdict.json.
	Version     string            `json:"dlqbench"`
	Environment map[string]string `json:"environment"`
	Scenario    string            `json:"scenario"`
	Subject     string            `json:"subject"`
	// Seed is that of the runs' plans; the order of the repetitions is drawn from it, too.
	Seed    uint64    `json:"seed"`
	Mode    BenchMode `json:"mode"`
	Bound   string    `json:"bound,omitempty"`
	Started time.Time `json:"started"`
	// Elapsed is the time that the bench itself ran; the time between an interruption and its resumption is no part of
	// it.
	Elapsed time.Duration `json:"elapsed_ns"`
	// Overhead is what the bench added to the time of its runs.
	Overhead BenchOverhead `json:"overhead"`
	// Repetitions is how many each cell was to have. Interrupted: the bench ended before all were run, and can be
	// resumed.
	Repetitions int  `json:"repetitions"`
	Interrupted bool `json:"interrupted"`
	// Axes are the settings that are crossed, in the order of the file; a bench whose cells are listed has none.
	// Workloads and Faults are the names of those that are crossed with them, empty where the scenario's own is used.
	Axes      []BenchAxis   `json:"axes"`
	Workloads []string      `json:"workloads"`
	Faults    []string      `json:"faults"`
	Cells     []BenchCell   `json:"cells"`
	Advice    []BenchAdvice `json:"advice"`
}

// BenchAxis is a setting and its values as they were written, in their order.
type BenchAxis struct {
	Path   string   `json:"path"`
	Values []string `json:"values"`
}

// BenchOverhead compares the time of a bench with that of its runs.
type BenchOverhead struct {
	// Runs is the sum of the runs, Share what the bench added to it: 0.02 is 2 %.
	Runs  time.Duration `json:"runs_ns"`
	Share float64       `json:"share"`
}

// BenchCell is one combination of settings, workload and faults.
type BenchCell struct {
	// Number counts from 1 in the order of the file.
	Number int `json:"number"`
	// Name tells it from the others of the bench: what was written, or its settings.
	Name string `json:"name"`
	// Settings are what differs from cell to cell; every cell of a matrix has all of them, in the order of Axes.
	Settings []BenchSetting `json:"settings"`
	Workload string         `json:"workload,omitempty"`
	Faults   string         `json:"faults,omitempty"`
	State    BenchState     `json:"state"`
	// Why says in sentences why it is not ok, worst first. Command shows it again: that of the run in which a promise
	// was broken.
	Why     []string `json:"why"`
	Command string   `json:"command,omitempty"`
	// Repetitions are those that were run, by number.
	Repetitions []BenchRepetition `json:"repetitions"`
}

// BenchSetting is a setting of a cell: the path as --set takes it, and the value as it was written.
type BenchSetting struct {
	Path  string `json:"path"`
	Value string `json:"value"`
}

// BenchRepetition is one measurement of a cell. Its run is the only one, or that of the highest rate that held in a
// search; a search in which none held has the run at the lowest rate.
type BenchRepetition struct {
	// Number counts from 1; repetitions of the same number were run one after another, in an order drawn for that
	// round.
	Number int      `json:"number"`
	Run    BenchRun `json:"run"`
	// Search is that of a max-throughput bench, Drift of a soak, Knee of a stepped load; nil in other modes.
	Search *BenchSearch `json:"search,omitempty"`
	Drift  *BenchDrift  `json:"drift,omitempty"`
	Knee   *BenchKnee   `json:"knee,omitempty"`
}

// BenchRun is what is known of a run. Figures that could not be measured are 0 with a count of 0, or absent; durations
// are in ns.
type BenchRun struct {
	// Verdict is "" when nothing was judged; Error then says why.
	Verdict assertions.Status `json:"verdict"`
	Error   string            `json:"error,omitempty"`
	// Reasons say why the verdict is not pass.
	Reasons    []string            `json:"reasons"`
	Invariants []BenchInvariant    `json:"invariants"`
	Thresholds []measure.Threshold `json:"thresholds"`
	Started    time.Time           `json:"started"`
	// Elapsed is the whole run, SetUp what went by of it before the load began.
	Elapsed time.Duration `json:"elapsed_ns"`
	SetUp   time.Duration `json:"set_up_ns"`
	// Dir is the run directory, Command the command that runs the same plan again.
	Dir     string `json:"run_directory"`
	Command string `json:"command"`
	// Throughput is per second over the steady and fault phases.
	Throughput measure.Throughput `json:"throughput"`
	// Latency by name, as in verdict.json; those without samples are left out.
	Latency map[string]BenchLatency `json:"latency"`
	// Ledger counts what became of the records: duplicates, dead letters, attempts.
	Ledger measure.Ledger `json:"ledger"`
	LagMax int64          `json:"lag_max"`
	LagEnd int64          `json:"lag_end"`
	// BacklogGrowth is by how many records per second those that were sent and not finished became more, from the end
	// of the load's first third to its end.
	BacklogGrowth float64 `json:"backlog_growth_per_s"`
	// Behind says how the consumer fell behind the load, "" if it kept up or if the bench looks for the rate at which it
	// does. Latencies of such a run grow with the length of the load.
	Behind string `json:"behind,omitempty"`
	// Drain is from heal until the last record was terminal and committed; it means nothing unless Drained.
	Drain   time.Duration `json:"drain_ns"`
	Drained bool          `json:"drained"`
	// Recovery is told of each fault, in the order of the schedule.
	Recovery []BenchRecovery `json:"recovery"`
	// Health is that of the harness while it measured.
	Health measure.Health `json:"health"`
	// Usage is what the instances of the subject used.
	Usage measure.Usage `json:"usage,omitzero"`
}

// BenchInvariant is what an invariant said of a run.
type BenchInvariant struct {
	Name    string            `json:"name"`
	Verdict assertions.Status `json:"verdict"`
	Judged  int64             `json:"judged"`
	// Anomalies counts what was found, by name.
	Anomalies map[string]int64 `json:"anomalies"`
	// Why explains inconclusive and not-applicable.
	Why string `json:"why,omitempty"`
}

// BenchLatency is a latency of a run.
type BenchLatency struct {
	measure.Quantiles
	Phases map[string]measure.Quantiles `json:"phases"`
	// HDR is the histogram over the whole run without its warm-up, values in microseconds: base64 of the HdrHistogram
	// V2 compressed encoding. "" for the latencies of the harness itself (send, slip) and of parts of a record's way
	// (backoff_error).
	HDR string `json:"hdr,omitempty"`
}

// BenchRecovery is what a fault cost, and how long it took to be rid of it.
type BenchRecovery struct {
	// Fault is its name, What describes it; From and To are when it was there, on the run's clock.
	Fault string        `json:"fault"`
	What  string        `json:"what"`
	From  time.Duration `json:"from_ns"`
	To    time.Duration `json:"to_ns"`
	measure.Recovery
}

// BenchLimit is the reason why a search ended.
type BenchLimit string

// The limits: a rate that the consumer did not hold; the load generator, which could not keep the schedule of a
// higher rate; the highest rate that the bench was configured to try; and none, because not even the lowest rate
// held.
const (
	BenchLimitConsumer BenchLimit = "consumer"
	BenchLimitHarness  BenchLimit = "harness"
	BenchLimitHighest  BenchLimit = "highest-rate"
	BenchLimitNone     BenchLimit = "nothing-held"
)

// BenchSearch is a search for the highest rate that holds.
type BenchSearch struct {
	// Rate is the highest that held, in records per second, 0 if none did. Above is the lowest that did not, 0 if all
	// did: the truth is in between.
	Rate  float64 `json:"rate_per_s"`
	Above float64 `json:"above_per_s"`
	// Limit is what kept the search from going higher. Only BenchLimitConsumer is a statement about the consumer; with
	// others Rate is a lower bound.
	Limit BenchLimit `json:"limit"`
	// Probes in the order in which they were run.
	Probes []BenchProbe `json:"probes"`
}

// BenchHold is the result of a probe: whether the rate was held.
type BenchHold string

// The results of a probe. An unproven probe was inconclusive and says nothing about the consumer.
const (
	BenchHeld     BenchHold = "held"
	BenchNotHeld  BenchHold = "not-held"
	BenchUnproven BenchHold = "inconclusive"
)

// BenchProbe is a run of a search.
type BenchProbe struct {
	Rate float64   `json:"rate_per_s"`
	Hold BenchHold `json:"hold"`
	// Why it was not held, or is inconclusive.
	Why []string `json:"why"`
	// Run has no histograms; the repetition's own run has.
	Run BenchRun `json:"run"`
}

// BenchPart is a stretch of a run's load.
type BenchPart struct {
	// From and To are on the run's clock; Rate is the planned load in records per second.
	From time.Duration `json:"from_ns"`
	To   time.Duration `json:"to_ns"`
	Rate float64       `json:"rate_per_s"`
	// Sent and Processed are rates of what happened in it, Success the latencies of the records that were meant to be
	// sent in it.
	Sent      float64           `json:"sent_per_s"`
	Processed float64           `json:"processed_per_s"`
	Success   measure.Quantiles `json:"success"`
	// Backlog is how many records were sent and not finished at its end.
	Backlog int64 `json:"backlog"`
}

// BenchDrift compares the parts of a long run: thirds of its steady phase.
type BenchDrift struct {
	Parts []BenchPart `json:"parts"`
}

// BenchKnee is where the load of a run that goes up step by step became too much.
type BenchKnee struct {
	Parts []BenchPart `json:"parts"`
	// Rate is that of the last step before the first that was not kept up with, 0 if not even the first was. Above is
	// the rate of that first one, 0 if all were; Why says what showed it.
	Rate  float64 `json:"rate_per_s"`
	Above float64 `json:"above_per_s"`
	Why   string  `json:"why,omitempty"`
	// Limit is as in a search.
	Limit BenchLimit `json:"limit"`
}

// BenchAdvice is what to change, with the evidence.
type BenchAdvice struct {
	// Text is a sentence; Evidence are sentences with figures, the strongest first, or ShownBy and a command.
	Text     string   `json:"text"`
	Evidence []string `json:"evidence"`
	// Cells are the numbers of those that it is about.
	Cells []int `json:"cells"`
}

// ShownBy is the prefix of evidence that is a command.
const ShownBy = "shown by: "

// EncodeHDR encodes a histogram in the form of BenchLatency.HDR.
func EncodeHDR(histogram *hdrhistogram.Histogram) (string, error) {
	encoded, err := histogram.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return "", fmt.Errorf("encoding a histogram: %w", err)
	}
	return string(encoded), nil
}

// Histogram decodes HDR. It returns nil if there is no histogram.
func (l BenchLatency) Histogram() (*hdrhistogram.Histogram, error) {
	if l.HDR == "" {
		return nil, nil
	}
	histogram, err := hdrhistogram.Decode([]byte(l.HDR))
	if err != nil {
		return nil, fmt.Errorf("decoding a histogram: %w", err)
	}
	return histogram, nil
}

// BenchJSON writes results.json: indented, keys always in the same order, lists and tables never null, and every
// figure finite.
func BenchJSON(w io.Writer, bench Bench) error {
	bench.Schema = BenchSchema
	return writeJSON(w, "the bench's results", bench)
}

// ReadBench reads a results.json. It returns an error if the file has another schema version or is not a bench's
// results.
func ReadBench(r io.Reader) (Bench, error) {
	var bench Bench
	data, err := io.ReadAll(r)
	if err != nil {
		return bench, fmt.Errorf("reading the results of a bench: %w", err)
	}
	var of struct {
		Schema *int               `json:"schema"`
		Cells  *[]json.RawMessage `json:"cells"`
	}
	if err := json.Unmarshal(data, &of); err != nil {
		return bench, fmt.Errorf("reading the results of a bench: this is no results.json: %w", err)
	}
	switch {
	case of.Schema == nil || of.Cells == nil:
		return bench, errors.New(
			"reading the results of a bench: this is no results.json of a bench: it has no schema or no cells")
	case *of.Schema != BenchSchema:
		return bench, fmt.Errorf("reading the results of a bench: they have schema %d, and this version of dlqbench reads "+
			"%d: run the bench again with it", *of.Schema, BenchSchema)
	}
	if err := json.Unmarshal(data, &bench); err != nil {
		return bench, fmt.Errorf("reading the results of a bench: %w", err)
	}
	return bench, nil
}

// Count returns the number of cells in the state.
func (b Bench) Count(state BenchState) int {
	return count(b.Cells, func(cell BenchCell) bool { return cell.State == state })
}

// Behind says how the cell fails to keep up with its load: in most of its usable repetitions it fell behind, held not
// even the lowest rate, or did not keep up with the first step. It is "" for a cell that keeps up.
func (c BenchCell) Behind() string {
	var usable, behind int
	var first string
	for _, repetition := range c.Repetitions {
		if !repetition.Finished() || !repetition.Usable() {
			continue
		}
		usable++
		if how := repetition.behind(); how != "" {
			behind++
			first = cmp.Or(first, how)
		}
	}
	switch {
	case 2*behind <= usable:
		return ""
	case usable == 1:
		return first
	}
	return fmt.Sprintf("%s (so in %d of %d repetitions)", first, behind, usable)
}

func (r BenchRepetition) behind() string {
	switch {
	case r.Search != nil && r.Search.Limit == BenchLimitNone:
		return fmt.Sprintf("it held not even the lowest rate, %s", units.PerSecond(r.Search.Above))
	case r.Knee != nil && r.Knee.Rate == 0 && r.Knee.Limit == BenchLimitNone:
		return fmt.Sprintf("it did not keep up with the first step, %s", units.PerSecond(r.Knee.Above))
	}
	return r.Run.Behind
}

// Setting returns the value of one of the cell's settings, "" if it does not have it.
func (c BenchCell) Setting(path string) string {
	for _, setting := range c.Settings {
		if setting.Path == path {
			return setting.Value
		}
	}
	return ""
}

// Usable reports whether the repetition's figures describe the consumer: it was judged, and the evidence sufficed.
func (r BenchRepetition) Usable() bool {
	if r.Search != nil && r.Search.Limit == BenchLimitHarness && r.Search.Rate == 0 {
		return false
	}
	return r.Run.Verdict == assertions.Pass || r.Run.Verdict == assertions.Fail
}

// Finished reports whether nothing of the repetition is left to run. An interrupted search has no limit yet, and runs
// that failed to run are run again.
func (r BenchRepetition) Finished() bool {
	return r.Run.Error == "" && (r.Search == nil || r.Search.Limit != "")
}

// ThresholdsMissed reports whether the repetition's run missed a threshold of its scenario.
func (r BenchRepetition) ThresholdsMissed() bool {
	return slices.ContainsFunc(r.Run.Thresholds, func(t measure.Threshold) bool { return !t.Met })
}
