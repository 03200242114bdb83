package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// scrape returns the content at the address, or "" if nothing answers.
func scrape(address string) string {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	page, _ := io.ReadAll(response.Body)
	return string(page)
}

// The figures of a run in progress can be scraped. The server ends with the run.
func TestMetrics(t *testing.T) {
	t.Parallel()
	p := start(t, folder(t), "run", "tiny.yaml", "--metrics-addr", "127.0.0.1:0", "--log-level", "info", "--set",
		"workload.duration=5m")
	p.waitForPhase("steady")
	address := regexp.MustCompile(`"address":"(127\.0\.0\.1:[0-9]+)"`).FindStringSubmatch(p.log())
	if address == nil {
		t.Fatalf("it does not say where:\n%s", p.log())
	}
	want := []*regexp.Regexp{
		regexp.MustCompile(`(?m)^dlqbench_records_sent_total\{scenario="tiny",slot="0"\} [1-9]`),
		regexp.MustCompile(`(?m)^dlqbench_success_latency_seconds_count\{.*\} [1-9]`),
		regexp.MustCompile(`(?m)^dlqbench_process_state\{process="instance 0",scenario="tiny",slot="0",state="running"\} 1$`),
		regexp.MustCompile(`(?m)^dlqbench_lag_records\{partition="1",.*topic="input"\} `),
		regexp.MustCompile(`(?m)^dlqbench_run_phase\{phase="steady",.*\} 1$`),
	}
	for deadline := time.Now().Add(patience); len(want) > 0; time.Sleep(20 * time.Millisecond) {
		page := scrape(address[1])
		for len(want) > 0 && want[0].MatchString(page) {
			want = want[1:]
		}
		if len(want) > 0 && time.Now().After(deadline) {
			t.Fatalf("there is no %v in\n%s", want[0], page)
		}
	}
	p.signal(syscall.SIGINT)
	p.wantExit(exitInterrupted, soon)
	if page := scrape(address[1]); page != "" {
		t.Errorf("it is served still:\n%s", page)
	}
}

// If the port is in use, nothing is started, and the error suggests a remedy.
func TestMetricsPortTaken(t *testing.T) {
	t.Parallel()
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	for _, command := range [][]string{{"run", "tiny.yaml"}, {"drill", "tiny.yaml", "--addr", "127.0.0.1:0", "--wait",
		"0s"}} {
		dir := folder(t)
		code, out := dlqbench(t, dir, append(command, "--metrics-addr", taken.Addr().String())...)
		if code != exitEnvironment || !strings.Contains(out, taken.Addr().String()) ||
			!strings.Contains(out, "address already in use") || !strings.Contains(out, "--metrics-addr takes") {
			t.Errorf("%s: exit code %d: %s", command[0], code, out)
		}
		if _, err := os.Stat(filepath.Join(dir, "runs")); err == nil {
			t.Errorf("%s: a run was begun", command[0])
		}
	}
}
