package run

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// Options say what to run and how.
type Options struct {
	Scenario *scenarios.Scenario
	// Source is the scenario's text with every --set applied, kept beside the run.
	Source []byte
	// Subject, when set, is what is judged, read from SubjectFile, to which its paths are relative; nil is the
	// reference consumer.
	Subject     *scenarios.SubjectFile
	SubjectFile string
	// Seed, when not nil, replaces the scenario's.
	Seed *uint64
	// Cluster is the Kafka to run against.
	Cluster ClusterOptions
	// Out is the folder for run directories.
	Out string
	// Executable is this program: it is started again as the reference consumer, the replay tool and the guard.
	Executable string
	// ReferenceCommand replaces `dlqbench consume` and ReplayCommand `dlqbench replay`; the contract stays that of the
	// reference consumer. This is how planted bugs are run.
	ReferenceCommand, ReplayCommand []string
	// StoreCommands replace `dlqbench dlq router` ("router") and `dlqbench dlq worker` ("worker"), likewise.
	StoreCommands map[string][]string
	// Rerun is the command line that runs the same plan again, with %d for the seed.
	Rerun string
	// Version of dlqbench, for the record.
	Version string
	// KeepData keeps the brokers' data in the run directory.
	KeepData bool
	Log      zerolog.Logger
	// Watch, if set, is called several times a second with what the live view shows.
	Watch func(reports.Snapshot)
	// Manual, if set, injects and lifts faults while the run goes on, and may end its load.
	Manual *Manual
}

// Outcome is what a run left.
type Outcome struct {
	// Dir is the run directory.
	Dir string
	// Verdict is nil when there was nothing to judge. Judged has it too, with what the reports are made of.
	Verdict *assertions.Verdict
	Judged  reports.Run
	// Interrupted: the run was ended early by the user; what there was has been judged.
	Interrupted bool
	// Elapsed is the whole run; SetUp what went by of it before the load began, 0 if it did not.
	Elapsed, SetUp time.Duration
}

// EnvironmentError says that a run failed for reasons that lie neither in the subject's promises nor in the scenario:
// exit code 3.
type EnvironmentError struct {
	// Doing says what was being done.
	Doing string
	Err   error
}

func (e *EnvironmentError) Error() string { return fmt.Sprintf("%s: %v", e.Doing, e.Err) }

// Unwrap returns the cause.
func (e *EnvironmentError) Unwrap() error { return e.Err }

// environment wraps err, if any, as an EnvironmentError.
func environment(doing string, err error) error {
	if err == nil {
		return nil
	}
	return &EnvironmentError{Doing: doing, Err: err}
}
