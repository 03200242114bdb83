package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/env/ports"
	"github.com/dlqbench/dlqbench/internal/testkit/programtest"
	"github.com/dlqbench/dlqbench/scenarios"
)

// outsideConsumer is the reference consumer as somebody would start it, in a shell.
func outsideConsumer(t *testing.T, command string) string {
	t.Helper()
	settings, err := json.Marshal(small(t).Scenario.Settings(0))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("DLQBENCH_SETTINGS='%s' exec '%s' %s", settings, programtest.Path(), command)
}

// withExternal returns options for the small scenario with a consumer that dlqbench does not start, and its port of
// Kafka. more are further lines of its subject.yaml.
func withExternal(t *testing.T, external, more string, sets ...string) (Options, int) {
	t.Helper()
	free, err := []int{0, 0, 0}, error(nil)
	for err == nil && (free[1]-free[0] < 20 || free[2]-free[1] < 2) { // those of two instances follow
		free, err = ports.Free(3)
		slices.Sort(free)
	}
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "subject.yaml")
	text := fmt.Sprintf(`
name: outside
kind: external
external: {kafka: %d, downstream: %d, registry: %d%s}
contract:
  attempts: {max: 2}
  backoff: {initial: 20ms, multiplier: 2, cap: 50ms, jitter: 5ms, late: 20s}
  logical: terminal
  ordering: key
  dlq: {envelope: plain}
  poison: dead-letter
%s`, free[0], free[1], free[2], external, more)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	options := small(t)
	data, err := os.ReadFile(filepath.Join("testdata", "small.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	sets = append([]string{"faults=[]"}, sets...)
	if options.Scenario, options.Source, err = scenarios.ParseForSubject("small.yaml", data, sets, file); err != nil {
		t.Fatal(err)
	}
	if options.Subject, err = scenarios.LoadSubject(file); err != nil {
		t.Fatal(err)
	}
	options.SubjectFile = file
	return options, free[0]
}

// Somebody starts the consumer with the settings that the run prints. It is judged like any other. What is not seen of
// it is not judged, and it still runs when the run is over.
func TestExternal(t *testing.T) {
	t.Parallel()
	for _, one := range []struct{ command, anomaly string }{
		{"consume", ""},
		{"bug consume one-retry-too-few", "under-retried"},
	} {
		options, _ := withExternal(t, "", "")
		var consumer *exec.Cmd
		options.Announce = func(text string) {
			consumer = exec.Command("sh", "-c", strings.Join(exports(text), "\n")+"\n"+outsideConsumer(t, one.command))
			if err := consumer.Start(); err != nil {
				t.Error(err)
			}
		}
		outcome, err := Run(t.Context(), options)
		if consumer != nil && consumer.Process != nil {
			if stopped := consumer.Process.Kill(); stopped != nil {
				t.Errorf("the consumer had ended: %v", stopped)
			}
			_ = consumer.Wait()
		}
		if err != nil {
			t.Fatal(err)
		}
		wantOutside(t, outcome.Verdict, one.anomaly)
		wantFiles(t, outcome.Dir, true, "external-0.env")
		wantFiles(t, outcome.Dir, false, "logs/instance-0.log")
	}
}

// exports are the lines for a shell in what a run prints.
func exports(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "export ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// wantOutside checks the verdict on a consumer that dlqbench does not start.
func wantOutside(t *testing.T, verdict *assertions.Verdict, anomaly string) {
	t.Helper()
	found := []string{}
	for _, result := range verdict.Invariants {
		for _, one := range result.Anomalies {
			found = append(found, one.Name)
		}
		if ends := result.Name == "graceful-stop" || result.Name == "stays-up"; ends &&
			(result.Status != assertions.NotApplicable || result.Unjudged != assertions.Unseen) {
			t.Errorf("%s is %s: %s", result.Name, result.Status, result.Why)
		}
	}
	switch {
	case anomaly == "" && verdict.Verdict != assertions.Pass:
		t.Errorf("the verdict is %s: %v", verdict.Verdict, verdict.Reasons)
	case anomaly != "" && !slices.Contains(found, anomaly):
		t.Errorf("the anomalies are %v, want %s", found, anomaly)
	}
}

// Signals, and starts, are commands of the user's.
func TestExternalSignals(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "consumer.sh")
	start := "#!/bin/sh\n" + `echo $$ > "$0.pid$DLQBENCH_INSTANCE"` + "\n" + outsideConsumer(t, "consume") + "\n"
	if err := os.WriteFile(script, []byte(start), 0o700); err != nil {
		t.Fatal(err)
	}
	kill := func(signal string) string {
		return fmt.Sprintf(`[sh, -c, 'kill -%s $(cat "%s.pid{{.Instance}}")']`, signal, script)
	}
	options, _ := withExternal(t, fmt.Sprintf(", instances: 2, signals: {start: [sh, -c, '%s > /dev/null 2>&1 &'], "+
		"term: %s, kill: %s, stop: %s, cont: %s}", script, kill("TERM"), kill("KILL"), kill("STOP"), kill("CONT")), "",
		"workload.duration=2s", "faults=[{at: 100ms, subject: {instance: 0, signal: KILL, restart_after: 100ms}}, "+
			"{at: 200ms, for: 300ms, subject: {instance: 1, signal: STOP}}]")
	outcome, err := Run(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	wantOutside(t, outcome.Verdict, "")
	if len(outcome.Verdict.Faults) != 2 {
		t.Fatalf("the faults are %+v", outcome.Verdict.Faults)
	}
	for _, fault := range outcome.Verdict.Faults {
		if len(fault.Observed.Effects) < 2 {
			t.Errorf("%s had the effects %v", fault.Name, fault.Observed.Effects)
		}
	}
}

// A run that cannot begin says why, and is a failure of the environment.
func TestExternalNotThere(t *testing.T) {
	never, kafka := withExternal(t, "", "ready: {timeout: 100ms}")
	inUse, taken := withExternal(t, "", "")
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", taken))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	failing, _ := withExternal(t, ", signals: {start: [sh, -c, 'echo no such service; exit 3']}", "")
	for _, one := range []struct {
		options Options
		says    string
	}{
		{never, fmt.Sprintf("nothing is connected to 127.0.0.1:%d", kafka)},
		{inUse, fmt.Sprintf("port %d of external.kafka can't be listened on", taken)},
		{failing, "no such service"},
	} {
		outcome, err := Run(t.Context(), one.options)
		var failed *EnvironmentError
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), one.says) || outcome.Verdict != nil {
			t.Errorf("want %q: %v", one.says, err)
		}
	}
}
