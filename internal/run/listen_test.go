package run

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/env/ports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// withFixed returns options for the small scenario with a consumer that has the addresses of Kafka and of what it calls
// in its command, and these ports.
func withFixed(t *testing.T, sets ...string) (options Options, kafka, downstream int) {
	t.Helper()
	free, err := []int{0, 0}, error(nil)
	for err == nil && free[1]-free[0] < 10 {
		free, err = ports.Free(2)
		slices.Sort(free)
	}
	if err != nil {
		t.Fatal(err)
	}
	kafka, downstream = free[0], free[1]
	fixed := fmt.Sprintf("export DLQBENCH_BOOTSTRAP_SERVERS=localhost:%d DLQBENCH_ORACLE_URL=http://127.0.0.1:%d; %s", kafka,
		downstream, strings.ReplaceAll(outsideConsumer(t, "consume"), "'", "''"))
	file := filepath.Join(t.TempDir(), "subject.yaml")
	text := fmt.Sprintf(`
name: fixed
kind: process
command: [sh, -c, '%s']
listen: {kafka: %d, downstream: %d}
contract:
  attempts: {max: 2}
  backoff: {initial: 20ms, multiplier: 2, cap: 50ms, jitter: 5ms, late: 20s}
  logical: terminal
  ordering: key
  dlq: {envelope: plain}
  poison: dead-letter
`, fixed, kafka, downstream)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	options = small(t)
	data, err := os.ReadFile(filepath.Join("testdata", "small.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	options.Scenario, options.Source, err = scenarios.ParseForSubject("small.yaml", data, sets, file)
	if err != nil {
		t.Fatal(err)
	}
	if options.Subject, err = scenarios.LoadSubject(file); err != nil {
		t.Fatal(err)
	}
	options.SubjectFile = file
	return options, kafka, downstream
}

// A consumer that can't be given addresses finds Kafka and what it calls where it looks, also after a kill.
func TestFixedPorts(t *testing.T) {
	t.Parallel()
	options, _, _ := withFixed(t, "faults=[{at: 0.2s, subject: {instance: 0, signal: KILL, restart_after: 200ms}}]")
	outcome, err := Run(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if verdict := outcome.Verdict; verdict.Verdict == assertions.Fail || verdict.Ledger.Succeeded == 0 {
		t.Errorf("%s: %v, %+v", verdict.Verdict, verdict.Reasons, verdict.Ledger)
	}
}

// A port that is taken is named before anything is started.
func TestAFixedPortThatIsTaken(t *testing.T) {
	t.Parallel()
	options, kafka, downstream := withFixed(t, "faults=[]")
	for name, port := range map[string]int{"kafka": kafka, "downstream": downstream} {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		_, err = Run(t.Context(), options)
		var failed *EnvironmentError
		says := fmt.Sprintf("port %d of listen.%s can't be listened on", port, name)
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q: %v", says, err)
		}
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
