package main

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// A drill whose port is in use by another one reports that before it starts anything.
func TestDrillPortTaken(t *testing.T) {
	t.Parallel()
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	dir := folder(t)
	code, out := dlqbench(t, dir, "drill", "tiny.yaml", "--addr", taken.Addr().String())
	if code != exitEnvironment || !strings.Contains(out, "is taken, perhaps by another drill") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "runs")); err == nil {
		t.Error("it has started something")
	}
}

// An interrupt ends a drill like its button: faults in force are lifted, and the verdict is that of a whole run.
func TestDrillInterrupted(t *testing.T) {
	t.Parallel()
	p := start(t, folder(t), "drill", "tiny.yaml", "--addr", "127.0.0.1:0", "--wait", "0s", "--open-ended", "--set",
		"faults=[{at: 100ms, for: 4m, kafka: {api: Produce, topic: dlq, error: NOT_ENOUGH_REPLICAS}}]", "--set",
		"workload.outcomes={success: 70, permanent: 30}", "--set", "workload.keys.count=2")
	p.waitForPhase("fault")
	// wait until the fault has had an effect
	p.waitForFile(filepath.Join("logs", "instance-0.log"), "NOT_ENOUGH_REPLICAS")
	p.signal(syscall.SIGINT)
	p.wantExit(exitPass, patience)
	p.wantFiles(true, "verdict.json", "debrief.html", "recorded.yaml", "history/sealed.json")
	p.wantNoProcess(p.runID())
	debrief, err := os.ReadFile(filepath.Join(p.dir, "runs", "latest", "debrief.md"))
	if err != nil || !strings.Contains(string(debrief), "stopped from the terminal") {
		t.Errorf("%v:\n%s", err, debrief)
	}
}

// A client of toxiproxy starts a drill, and what it does is recorded and judged like what is done on the page.
func TestDrillByToxiproxy(t *testing.T) {
	t.Parallel()
	p := start(t, folder(t), "drill", "tiny.yaml", "--addr", "127.0.0.1:0", "--set", "workload.duration=4s")
	p.waitFor("the drill begins")
	address := regexp.MustCompile(`http://\S+/toxiproxy/\w+`).FindString(p.log())
	client := toxiproxy.NewClient(strings.Replace(address, "://", "://Ada@", 1))
	downstream := must.Get(client.Proxy("downstream"))(t)
	p.waitForPhase("steady")
	must.Get(downstream.AddToxic("lag", "latency", "", 1, toxiproxy.Attributes{"latency": 20}))(t)
	p.waitForPhase("fault")
	must.Do(t, downstream.RemoveToxic("lag"))
	p.wantExit(exitPass, patience)
	recorded, err := os.ReadFile(p.run("recorded.yaml"))
	if err != nil || !strings.Contains(string(recorded), "latency: 20ms") {
		t.Errorf("%v:\n%s", err, recorded)
	}
	debrief, err := os.ReadFile(p.run("debrief.md"))
	if err != nil || !strings.Contains(string(debrief), "| Ada | injector |") {
		t.Errorf("%v:\n%s", err, debrief)
	}
}

// So is what it does during a run, beside the scenario's own faults.
func TestRunByToxiproxy(t *testing.T) {
	t.Parallel()
	p := start(t, folder(t), "run", "tiny.yaml", "--toxiproxy-api", "127.0.0.1:0", "--set", "workload.duration=4s",
		"--set",
		"faults=[{at: 0s, for: 200ms, network: {link: brokers, latency: 5ms}}]")
	p.waitForPhase("steady")
	address := regexp.MustCompile(`http://\S+/toxiproxy/\w+`).FindString(p.log())
	client := toxiproxy.NewClient(strings.Replace(address, "://", "://Ada@", 1))
	downstream := must.Get(client.Proxy("downstream"))(t)
	must.Get(downstream.AddToxic("lag", "latency", "", 1, toxiproxy.Attributes{"latency": 20}))(t)
	p.wantExit(exitPass, patience)
	recorded, err := os.ReadFile(p.run("recorded.yaml"))
	if err != nil || !strings.Contains(string(recorded), "latency: 20ms") ||
		!strings.Contains(string(recorded), "latency: 5ms") {
		t.Errorf("%v:\n%s", err, recorded)
	}
	verdict, err := os.ReadFile(p.run("verdict.json"))
	if err != nil || strings.Count(string(verdict), `"by": "Ada"`) != 1 ||
		!strings.Contains(string(verdict), "recorded.yaml") {
		t.Errorf("%v:\n%s", err, verdict)
	}
	p.wantFiles(false, "debrief.md")
}

// A run without injected faults is repeated by its own command.
func TestRunByToxiproxyUnused(t *testing.T) {
	t.Parallel()
	p := start(t, folder(t), "run", "tiny.yaml", "--toxiproxy-api", "127.0.0.1:0")
	p.wantExit(exitPass, patience)
	p.wantFiles(false, "recorded.yaml", "debrief.md")
	if verdict, err := os.ReadFile(p.run("verdict.json")); err != nil ||
		!strings.Contains(string(verdict), `"rerun": "dlqbench run tiny.yaml --seed`) {
		t.Errorf("%v:\n%s", err, verdict)
	}
}

// Before the load has begun, an interrupt ends a drill at once.
func TestDrillInterruptedInSetUp(t *testing.T) {
	t.Parallel()
	p := start(t, folder(t, "subject.yaml",
		"name: slow\nkind: process\ncommand: [sh, -c, 'echo thinking; sleep 3604.25']\nready: {timeout: 10m}"),
		"drill", "tiny.yaml", "--addr", "127.0.0.1:0", "--wait", "0s", "--subject",
		"subject.yaml")
	p.waitForFile("logs/instance-0.log", "thinking")
	p.signal(syscall.SIGINT)
	p.wantExit(exitInterrupted, soon)
	p.wantFiles(true, "debrief.md")
	p.wantNoProcess(p.runID())
}
