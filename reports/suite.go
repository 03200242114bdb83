package reports

// This file defines the result of several runs that form one gate: the result of each run, the waived failures, and
// the overall result.

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/dlqbench/dlqbench/internal/units"
)

// SuiteSchema is the version of gate.json.
const SuiteSchema = 1

// The files that WriteSuite writes to an artifacts folder.
const (
	SuiteJSONFile  = "gate.json"
	SuiteIndexFile = "index.html"
)

// Standing is the result of a run in a suite, or of a suite as a whole.
type Standing string

// The standings, worst first. NotRun and Waived do not make a suite fail by themselves. The reason why a run was not
// run may make the suite inconclusive.
const (
	StandingInterrupted  Standing = "interrupted"
	StandingFail         Standing = "fail"
	StandingEnvironment  Standing = "environment"
	StandingInconclusive Standing = "inconclusive"
	StandingThreshold    Standing = "threshold"
	StandingNotRun       Standing = "not-run"
	StandingWaived       Standing = "waived"
	StandingPass         Standing = "pass"
)

// SuiteCampaign is the Kind of a suite whose runs were run apart from each other.
const SuiteCampaign = "campaign"

// Suite is a gate's run: the content of gate.json.
type Suite struct {
	Schema int `json:"schema"`
	// Kind is SuiteCampaign, or "" for a gate.
	Kind    string   `json:"kind,omitempty"`
	Verdict Standing `json:"verdict"`
	// Config is the dlqbench.yaml, Shard "1/3" where only a part of it was run.
	Config  string        `json:"config"`
	Shard   string        `json:"shard,omitempty"`
	Started time.Time     `json:"started"`
	Elapsed time.Duration `json:"elapsed_ns"`
	Runs    []SuiteRun    `json:"runs"`
	Waivers []SuiteWaiver `json:"waivers"`
	// Required are the invariants that must be judged, by subject; they are looked at when all runs are over.
	Required []SuiteRequirement `json:"required,omitempty"`
	LeftOut  []SuiteLeft        `json:"left_out"`
}

// SuiteRun is one run of a suite.
type SuiteRun struct {
	// Number counts from 1 over the whole suite; Label names the run, Scenario, Subject and Seed (nil: the scenario's
	// own) say what it is made of.
	Number   int     `json:"number"`
	Label    string  `json:"label"`
	Scenario string  `json:"scenario"`
	Subject  string  `json:"subject"`
	Seed     *uint64 `json:"seed,omitempty"`
	// Where a finding about it is shown: in a scenario of the repository's own, or in dlqbench.yaml.
	Where SuitePlace `json:"where"`
	// Standing is what counts, Verdict what was judged; they differ where failures are waived. Verdict is "" where
	// nothing was judged.
	Standing Standing `json:"standing"`
	Verdict  string   `json:"verdict,omitempty"`
	// Missing: it was not run, and without it the gate has not shown what it is there to show.
	Missing bool `json:"missing,omitempty"`
	// Reasons say why it stands as it does, worst first.
	Reasons []string      `json:"reasons"`
	Waived  []SuiteWaived `json:"waived"`
	// Promised says where the contract promises the violated invariants. Those of a scenario's own subject have no place.
	Promised []SuitePromise `json:"promised,omitempty"`
	Elapsed  time.Duration  `json:"elapsed_ns"`
	// Dir is the run directory, Artifacts its folder among the artifacts; "" where there is none.
	Dir       string `json:"run_directory,omitempty"`
	Artifacts string `json:"artifacts,omitempty"`
	// Judged is what its own report is made of.
	Judged Run `json:"-"`
}

// SuitePromise is the place in a contract that promises a violated invariant.
type SuitePromise struct {
	Invariant string     `json:"invariant"`
	Where     SuitePlace `json:"where"`
}

// SuiteWaived is a failure that is waived.
type SuiteWaived struct {
	Invariant string `json:"invariant"`
	Anomaly   string `json:"anomaly"`
	Count     int64  `json:"count"`
	Reason    string `json:"reason"`
	Until     string `json:"until"`
}

// SuiteWaiver is a waiver and what became of it.
type SuiteWaiver struct {
	Invariant string     `json:"invariant,omitempty"`
	Anomaly   string     `json:"anomaly,omitempty"`
	Scenario  string     `json:"scenario,omitempty"`
	Reason    string     `json:"reason"`
	Until     string     `json:"until"`
	Where     SuitePlace `json:"where"`
	// Matched counts the runs with a failure that it names. Expired: its date is past, so that they count. NeedlessNow:
	// everything that it could have been for was judged, and no run violates it.
	Matched     int  `json:"matched"`
	Expired     bool `json:"expired"`
	NeedlessNow bool `json:"needless_now"`
}

// SuiteLeft is a scenario that a pattern named and that can't be run here.
type SuiteLeft struct {
	Scenario string `json:"scenario"`
	Why      string `json:"why"`
}

// SuitePlace is a place in a file; lines and columns count from 1.
type SuitePlace struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
}

// kind is the command that made the suite.
func (s Suite) kind() string { return cmp.Or(s.Kind, "gate") }

// Names describes what a waiver covers: "no-loss: lost in smoke".
func (w SuiteWaiver) Names() string {
	what := w.Invariant
	switch {
	case what == "":
		what = w.Anomaly
	case w.Anomaly != "":
		what += ": " + w.Anomaly
	}
	if w.Scenario != "" {
		what += " in " + w.Scenario
	}
	return what
}

// Remark returns a remark on a waiver besides that it applies, "" if there is none.
func (w SuiteWaiver) Remark() string {
	switch {
	case w.Expired && w.Matched > 0:
		return fmt.Sprintf("the waiver of %s ended on %s, and it still fails: the failure counts again", w.Names(), w.Until)
	case w.Expired:
		return fmt.Sprintf("the waiver of %s ended on %s: take it out", w.Names(), w.Until)
	case w.NeedlessNow:
		return fmt.Sprintf("%s is waived until %s, and no run violates it: take the waiver out", w.Names(), w.Until)
	}
	return ""
}

// Count returns the number of runs with the standing.
func (s Suite) Count(standing Standing) int {
	return count(s.Runs, func(run SuiteRun) bool { return run.Standing == standing })
}

// Counts lists the number of runs per standing, worst first: "1 failed, 2 waived, 5 passed".
func (s Suite) Counts() string {
	words := []struct {
		standing Standing
		word     string
	}{
		{StandingInterrupted, "interrupted"}, {StandingFail, "failed"}, {StandingEnvironment, "could not be run"},
		{StandingInconclusive, "inconclusive"},
		{StandingThreshold, "missed a threshold"}, {StandingNotRun, "not run"}, {StandingWaived, "waived"},
		{StandingPass, "passed"},
	}
	out := ""
	for _, one := range words {
		if n := s.Count(one.standing); n > 0 {
			out += fmt.Sprintf(", %s %s", units.Count(int64(n)), one.word)
		}
	}
	if out == "" {
		return "nothing to run"
	}
	return out[2:]
}

// SuiteJSON writes gate.json: the suite, and its coverage of the contracts.
func SuiteJSON(w io.Writer, suite Suite) error {
	suite.Schema = SuiteSchema
	return writeJSON(w, "the gate's findings", struct {
		Suite
		Coverage []SuiteCoverage `json:"coverage"`
	}{suite, suite.Coverage()})
}
