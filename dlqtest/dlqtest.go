// Package dlqtest holds a Kafka consumer to its promises in go test.
//
//	func TestDeadLetters(t *testing.T) {
//		dlqtest.Run(t, "dlq-publish-failure", dlqtest.Subject("subject.yaml"))
//	}
//
// The consumer is a program that a subject.yaml describes ([Subject]), or a function of the test itself ([Func]). Run
// fails the test with the counterexamples that were found, and with the path of the report. It needs the program
// dlqbench: make it a tool of the module, with go get -tool github.com/dlqbench/dlqbench/cmd/dlqbench. A scenario takes
// ten seconds to a minute; [testing.Short] is a way to leave it out.
package dlqtest

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench"
)

// SeedVariable is the environment variable whose value, if set, is the seed of every run: with it a failure can be
// repeated.
const SeedVariable = "DLQTEST_SEED"

// Option is a part of what [Run] runs.
type Option func(*test)

// test is one call of Run.
type test struct {
	testing.TB
	options  dlqbench.Options
	consumer func(context.Context, Env) error
	contract string
}

// Subject judges the consumer that the subject file describes.
func Subject(file string) Option { return func(t *test) { t.options.Subject = file } }

// Func judges the function. It is called in a process of its own for each instance: the test binary, started once more
// to run this test alone up to its call of Run. So it can be killed, frozen and started again like any consumer. What a
// test does before it calls Run happens in those processes, too. When ctx ends, the consumer is to commit what is
// finished and return nil; an error, or a return before that, ends the process with code 1.
func Func(consumer func(ctx context.Context, env Env) error) Option {
	return func(t *test) { t.consumer = consumer }
}

// Contract says what the function promises: the part `contract` of a subject.yaml, in YAML. Without it the function
// promises the least that anyone would call correct.
func Contract(yaml string) Option { return func(t *test) { t.contract = yaml } }

// Set overrides a value of the scenario, such as Set("workload.rate", "500/s").
func Set(path, value string) Option {
	return func(t *test) { t.options.Set = append(t.options.Set, path+"="+value) }
}

// Seed is that of every random choice; default: the scenario's.
func Seed(seed uint64) Option { return func(t *test) { t.options.Seed = &seed } }

// Out is the folder for run directories; default: runs, in the folder of the test.
func Out(dir string) Option { return func(t *test) { t.options.Out = dir } }

// Flags are further flags of `dlqbench run`, such as "--cluster=process".
func Flags(flags ...string) Option {
	return func(t *test) { t.options.Flags = append(t.options.Flags, flags...) }
}

// Run runs a scenario, the name of a shipped one or a file, and holds the consumer to its promises. The test fails
// where a promise is broken or a threshold missed, and where the run could not tell. The verdict is returned for
// further looks at it.
func Run(tb testing.TB, scenario string, options ...Option) *dlqbench.Verdict {
	tb.Helper()
	t := &test{TB: tb, options: dlqbench.Options{Scenario: scenario}}
	for _, option := range options {
		option(t)
	}
	if os.Getenv(childVariable) == t.Name() && t.consumer != nil {
		t.consume() // does not return
	}
	t.prepare()
	ctx, cancel := t.inTime()
	defer cancel()
	verdict, err := dlqbench.Run(ctx, t.options)
	if err != nil {
		t.Fatal(err)
	}
	t.tell(verdict)
	return verdict
}

func (t *test) prepare() {
	t.Helper()
	if text := os.Getenv(SeedVariable); text != "" {
		seed, err := strconv.ParseUint(text, 0, 64)
		if err != nil {
			t.Fatalf("%s=%q: write a whole number from 0 to 2^64-1", SeedVariable, text)
		}
		t.options.Seed = &seed
	}
	switch {
	case t.consumer != nil && t.options.Subject != "":
		t.Fatal("dlqtest: Subject and Func both say what to judge; leave one out")
	case t.consumer == nil && t.contract != "":
		t.Fatal("dlqtest: Contract goes with Func; a Subject's contract is in its file")
	case t.consumer != nil:
		t.options.Subject = t.writeSubject()
	}
}

// margin is what is left of the test's time for a run to end in order.
const margin = 20 * time.Second

// inTime ends the run in time before the test's own deadline, so that what there is until then is judged and nothing
// stays behind.
func (t *test) inTime() (context.Context, context.CancelFunc) {
	if limited, ok := t.TB.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, set := limited.Deadline(); set {
			return context.WithDeadline(t.Context(), deadline.Add(-margin))
		}
	}
	return context.WithCancel(t.Context())
}

// tell fails the test with what is wrong.
func (t *test) tell(verdict *dlqbench.Verdict) {
	t.Helper()
	if verdict.Status == dlqbench.Pass && len(verdict.Missed()) == 0 {
		return
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s\n", verdict.Scenario, verdict.Status)
	for _, reason := range verdict.Reasons {
		fmt.Fprintf(&text, "  %s\n", reason)
	}
	for _, invariant := range verdict.Invariants {
		for _, anomaly := range invariant.Anomalies {
			describe(&text, invariant.Name, anomaly)
		}
	}
	fmt.Fprintf(&text, "report: %s/report.html\n", verdict.Dir)
	fmt.Fprintf(&text, "repeat: %s=%d go test -run '%s'", SeedVariable, verdict.Seed, pattern(t.Name()))
	t.Error(text.String())
}

// describe tells an anomaly with its shortest counterexample; what contradicts is marked.
func describe(text *strings.Builder, invariant string, anomaly dlqbench.Anomaly) {
	fmt.Fprintf(text, "  %s: %s, %d times\n", invariant, anomaly.Name, anomaly.Count)
	if len(anomaly.Counterexamples) == 0 {
		return
	}
	first := anomaly.Counterexamples[0]
	fmt.Fprintf(text, "    %s\n", first.Summary)
	for _, event := range first.Trace {
		mark := ' '
		if event.Marked {
			mark = '>'
		}
		fmt.Fprintf(text, "    %c %9.3f s  %s\n", mark, event.Time.Seconds(), event.Text)
	}
}
