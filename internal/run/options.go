package run

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/samples"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// Options set what to run and how.
type Options struct {
	Scenario *scenarios.Scenario
	// Arg is the scenario as the user named it: a file or a shipped one.
	Arg string
	// Source is the scenario's text with every --set applied. It is kept beside the run.
	Source []byte
	// Subject, when set, is the subject to judge, read from SubjectFile, to which its paths are relative. nil stands
	// for the reference consumer.
	Subject     *scenarios.SubjectFile
	SubjectFile string
	// Seed, when not nil, replaces the scenario's seed.
	Seed *uint64
	// Cluster is the Kafka to run against.
	Cluster ClusterOptions
	// Out is the folder for run directories.
	Out string
	// Executable is this program. It is started again as the reference consumer, the replay tool and the subprocess
	// reaper.
	Executable string
	// ReferenceCommand replaces `dlqbench consume` and ReplayCommand `dlqbench replay`. The contract remains that of
	// the reference consumer. Planted bugs run this way.
	ReferenceCommand, ReplayCommand []string
	// StoreCommands replace `dlqbench dlq router` (key "router") and `dlqbench dlq worker` (key "worker") in the same
	// way.
	StoreCommands map[string][]string
	// Rerun is the command line that runs the same plan again, with %d for the seed.
	Rerun string
	// Version is the version of dlqbench, for the record.
	Version string
	// KeepData keeps the brokers' data in the run directory.
	KeepData bool
	Log      zerolog.Logger
	// Watch, if set, is called several times a second with the content of the live view.
	Watch func(reports.Snapshot)
	// Place is the place among several runs, for the live view, such as 2/5; "" for a single run.
	Place string
	// Audited, if set, is called with each record that an audit finds in a topic, and with what is recorded of it.
	Audited func(topic history.Topic, record *kgo.Record, found history.Event)
	// Discovery, if set, collects what the subject reads, writes and calls.
	Discovery *Discovery
	// namesOnly: the run only waits until the subject reads from a topic (see Discover).
	namesOnly bool
	// Announce, if set, shows a person what to do: how to start a consumer that dlqbench does not start. Without it,
	// the log does.
	Announce func(text string)
	// Pods are those that the consumer runs in, if its kind is deployment.
	Pods Pods
	// Manual, if set, injects and lifts faults during the run, and may end its load.
	Manual *Manual
}

// Pods are the pods of a consumer whose kind is deployment. Somebody else creates them.
type Pods interface {
	// Begin tells what they need to know, before any instance is started: the environment variables, which are the same
	// in all. lost is called if one goes away that the run did not end.
	Begin(env map[string]string, lost func(error)) error
	// Can reports whether Act can do something to an instance: subject.ActStart, or the name of a signal.
	Can(act string) bool
	Act(ctx context.Context, instance int, act string) error
}

// samples are what the subject has its records made from, nil for records of the workload's own.
func (o *Options) samples() *samples.Set {
	if o.Subject == nil {
		return nil
	}
	return o.Subject.Samples
}

// halts reports whether the subject promises to halt at records that it can't read.
func (o *Options) halts() bool {
	return o.Subject != nil && o.Subject.Contract.Poison == string(history.PoisonHalt)
}

// Outcome is the result of a run.
type Outcome struct {
	// Dir is the run directory.
	Dir string
	// Verdict is nil when there was nothing to judge. Judged contains the verdict as well, with the input of the
	// reports.
	Verdict *assertions.Verdict
	Judged  reports.Run
	// Interrupted says that the user ended the run early. The part that was recorded has been judged.
	Interrupted bool
	// Elapsed is the duration of the whole run. SetUp is the part of it before the load began, 0 if the load did not
	// begin.
	Elapsed, SetUp time.Duration
}

// EnvironmentError says that a run failed for reasons that lie neither in the subject's promises nor in the
// scenario. The exit code is 3.
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
