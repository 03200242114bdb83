// Package drill_test drills on Apache Kafka as people do: they start the program, break brokers through the page's
// requests, heal them with the printed command line, and run what was recorded. Brokers as processes need Java and an
// installed Kafka, and are asked for with DLQBENCH_KAFKA_TESTS=1; brokers in containers need an engine and an image,
// and are asked for with DLQBENCH_DOCKER_TESTS=1 (.ci/docker.sh).
package drill_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/internal/env/cluster/install"
	"github.com/dlqbench/dlqbench/internal/env/cluster/process"
	"github.com/dlqbench/dlqbench/internal/testkit/programtest"
	"github.com/dlqbench/dlqbench/scenarios"
)

// limit bounds everything that the tests wait for.
const limit = 4 * time.Minute

const crew = `
name: crew
description: A crew breaks brokers.
cluster: {brokers: 3}
topics: {input: {partitions: 6}}
subject: {reference: {instances: 2, max_retries: 3, retry_backoff_ms: 100, retry_jitter_ms: 20}}
workload: {rate: 100/s, duration: 10m, outcomes: {success: 92, transient: {weight: 4, failures: 2}, exhausted: 2, permanent: 2}}
expect: {max_slip: 10s}
`

// going is a drill that goes on.
type going struct {
	*testing.T
	dir     string
	program string
	command *exec.Cmd
	address string
	heal    string
	key     string
}

func newDir(t *testing.T, asked string) (dir, program string) {
	t.Helper()
	if os.Getenv(asked) != "1" {
		t.Skipf("skipped: tests with real brokers of this kind are run with %s=1", asked)
	}
	dir = t.TempDir()
	program, err := programtest.Build()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "crew.yaml"), []byte(crew), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, program
}

// start begins a drill and returns when its load goes on.
func start(t *testing.T, dir, program string, arguments ...string) *going {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	g := &going{T: t, dir: dir, program: program,
		command: exec.CommandContext(ctx, program, append([]string{"drill", "crew.yaml", "--addr", "127.0.0.1:0",
			"--wait", "0s"},
			arguments...)...)}
	g.command.Dir = dir
	printed, err := g.command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.command.Start(); err != nil {
		t.Fatal(err)
	}
	heal := regexp.MustCompile(`heal everything: (curl .*X-Dlqbench-Form: (\w+)' (http://[^/]+/injector/).*)`)
	lines := bufio.NewScanner(printed)
	for lines.Scan() {
		if found := heal.FindStringSubmatch(lines.Text()); found != nil {
			g.heal, g.key, g.address = found[1], found[2], found[3]
			break
		}
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines.Scan() { // so that it can go on printing
			t.Log(lines.Text())
		}
		if err := lines.Err(); err != nil {
			t.Logf("reading what it prints: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-read })
	for deadline := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		status, said := g.do("replay", "{}")
		if status != http.StatusConflict || !strings.Contains(said, "not begun") {
			return g
		}
		if time.Now().After(deadline) {
			t.Fatal("the load does not begin")
		}
	}
}

// do asks for an action as any program may.
func (g *going) do(action, order string) (status int, said string) {
	g.Helper()
	request, err := http.NewRequestWithContext(g.Context(), http.MethodPost, g.address+"do/"+action,
		strings.NewReader(order))
	if err != nil {
		g.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Dlqbench-Form", g.key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		g.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct{ Message, Error string }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		g.Fatalf("%s %s: %v", action, order, err)
	}
	return response.StatusCode, answer.Message + answer.Error
}

// processed waits until the consumer has so many records behind it: what is judged needs some.
func (g *going) processed(least int64) {
	g.Helper()
	ctx, cancel := context.WithTimeout(g.Context(), limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, g.address+"events", nil)
	if err != nil {
		g.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		g.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var frame struct {
			Live struct {
				Totals struct {
					Processed int64 `json:"processed"`
				} `json:"totals"`
			} `json:"live"`
		}
		data, found := strings.CutPrefix(lines.Text(), "data: ")
		if found && json.Unmarshal([]byte(data), &frame) == nil && frame.Live.Totals.Processed >= least {
			return
		}
	}
	g.Fatalf("the consumer has not processed %d records: %v", least, lines.Err())
}

// must asks for an action that is granted.
func (g *going) must(action, order string) {
	g.Helper()
	if status, said := g.do(action, order); status != http.StatusOK {
		g.Fatalf("%s %s: %d %s", action, order, status, said)
	}
}

// wait waits for the drill's end, and holds it to an exit code of 0.
func (g *going) wait() {
	g.Helper()
	if err := g.command.Wait(); err != nil {
		g.Errorf("the drill ended with %v:\n%s", err, g.file("summary.md"))
	}
}

func (g *going) file(name string) string {
	g.Helper()
	text, err := os.ReadFile(filepath.Join(g.dir, "runs", "latest", name))
	if err != nil {
		g.Error(err)
	}
	return string(text)
}

// Brokers are killed until no partition has the replicas that it needs, one stands still, leaders and the coordinator
// move; everything is healed from another terminal. The recording does it all again.
func TestBrokersAreBrokenByHand(t *testing.T) {
	dir, program := newDir(t, "DLQBENCH_KAFKA_TESTS")
	breakByHand(t, dir, program, "--cluster", "process")
}

func TestContainersAreBrokenByHand(t *testing.T) {
	dir, program := newDir(t, "DLQBENCH_DOCKER_TESTS")
	breakByHand(t, dir, program, "--cluster", "docker", "--image", os.Getenv("DLQBENCH_DOCKER_IMAGE"))
}

func breakByHand(t *testing.T, dir, program string, cluster ...string) {
	t.Helper()
	g := start(t, dir, program, cluster...)
	g.must("break", `{"by": "Ada", "spec": {"broker": {"move_coordinator": true}}}`)
	g.must("break", `{"by": "Ada", "spec": {"broker": {"broker": 1, "move_leaders": true}}}`)
	g.must("heal", `{"fault": "2"}`)
	g.must("break", `{"by": "Ada", "spec": {"broker": {"broker": 2, "kill": true}}}`)
	g.must("break", `{"by": "Ada", "spec": {"broker": {"broker": 3, "kill": true}}}`)
	g.must("notice", `{"by": "Bob", "text": "nothing is written any more"}`)
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", g.heal).CombinedOutput(); err != nil ||
		!strings.Contains(string(out), "Everything is healed") {
		t.Fatalf("%s: %v\n%s", g.heal, err, out)
	}
	g.must("break", `{"spec": {"kafka": {"api": "Produce", "client_id": "nobody", "error": "NOT_ENOUGH_REPLICAS"}}}`)
	g.must("stop", `{}`)
	g.wait()
	debrief := g.file("debrief.md")
	for _, words := range []string{"pass: Debrief: crew", "broker-2-kill: broker 2 killed", "of 4 noticed",
		"Faults without effect", "stopped by"} {
		if !strings.Contains(debrief, words) {
			t.Errorf("the debrief does not have %q:\n%s", words, debrief)
		}
	}
	recorded, err := scenarios.Load(filepath.Join(dir, "runs", "latest", "recorded.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var missing []bool
	for _, fault := range recorded.Faults {
		missing = append(missing, fault.MayMiss)
	}
	if len(missing) != 5 || !missing[4] || missing[2] || missing[3] {
		t.Errorf("recorded: %+v", recorded.Faults)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	again := exec.CommandContext(ctx, program, append([]string{"run", "runs/latest/recorded.yaml"}, cluster...)...)
	again.Dir = dir
	if out, err := again.CombinedOutput(); err != nil {
		t.Errorf("the recording ends with %v:\n%s", err, out)
	}
}

// On another's cluster nothing can be broken; its owner breaks what lies between it and the consumer, and brokers only
// by commands of his own.
func TestAClusterOfOnesOwn(t *testing.T) {
	dir, program := newDir(t, "DLQBENCH_KAFKA_TESTS")
	installed, err := install.Open("")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	kafka, err := process.Start(ctx, process.Options{Brokers: 3, Dir: filepath.Join(dir, "kafka"), Kafka: installed,
		Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kafka.Close() })
	external := []string{"--cluster", "external", "--bootstrap", kafka.Brokers()[0].Address}

	g := start(t, dir, program, external...)
	for action, order := range map[string]string{
		"break": `{"spec": {"network": {"link": "downstream", "latency": "100ms"}}}`, "kill": `{"instance": 0}`,
		"scale": `{"instances": 3}`,
	} {
		if status, said := g.do(action, order); status != http.StatusForbidden ||
			!strings.Contains(said, "--i-own-this-cluster") {
			t.Errorf("%s on another's cluster: %d %s", action, status, said)
		}
	}
	g.processed(300)
	g.must("stop", `{}`)
	g.wait()

	g = start(t, dir, program, append(external, "--i-own-this-cluster")...)
	g.must("break", `{"spec": {"network": {"link": "brokers", "latency": "100ms"}}}`)
	g.must("break", `{"spec": {"kafka": {"api": "Produce", "topic": "dlq", "error": "NOT_ENOUGH_REPLICAS"}}}`)
	if status, said := g.do("break", `{"spec": {"broker": {"broker": 1, "kill": true}}}`); status !=
		http.StatusConflict || !strings.Contains(said, "dlqbench.broker.kill") {
		t.Errorf("killing a broker without a command for it: %d %s", status, said)
	}
	g.must("heal-all", `{}`)
	g.processed(300)
	g.must("stop", `{}`)
	g.wait()
}
