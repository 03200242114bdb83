package livemetrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/testkit/golden"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/testkit/promtest"
	"github.com/dlqbench/dlqbench/reports"
)

// snapshot returns a snapshot with a value in every field.
func snapshot() reports.Snapshot {
	latencies := reports.LiveLatencies{SinceBegin: reports.Buckets{
		Bounds: []time.Duration{time.Millisecond, 10 * time.Millisecond}, Below: []uint64{3, 7}, Count: 9,
		Sum: 250 * time.Millisecond,
	}}
	return reports.Snapshot{
		Scenario: "smoke", RunID: "run-1", Seed: 1<<63 + 1, Subject: "reference", Started: time.UnixMilli(1500),
		Phase: history.PhaseFault, Elapsed: 3 * time.Second, Total: time.Minute,
		Totals: reports.Totals{Sent: 9, Acknowledged: 8, Processed: 7, Attempts: 6, DeadLetters: 5, Duplicates: 4,
			Replayed: 3, Late: 2},
		Lag: 12, DeadLetters: 5, RetriesInFlight: 11, Rebalances: 13, FaultsInjected: 14,
		Latency: reports.LiveLatency{Success: latencies, FirstAttempt: latencies},
		Partitions: []reports.PartitionState{{Topic: "run-1.input", Lag: 5}, {Topic: "run-1.input", Partition: 1, Lag: 7},
			{Topic: "theirs", Lag: 1}},
		Instances: []reports.InstanceState{
			{Kind: "instance", Name: "instance 0", Status: reports.InstanceRunning, Partitions: 2, Attempts: 6, Fetched: 20,
				Errors: 1}, {Kind: "worker", Name: "worker 0", Status: reports.InstanceKilled},
		},
		Store: &reports.StoreFigures{ByState: map[history.StoreState]int64{history.StorePending: 15}, Changes: 16},
		ActiveFaults: []reports.FaultState{{Name: "slow", Kind: "network", Target: "dlq"},
			{Name: "slow", Kind: "network", Target: "dlq"}, {Name: "bad\xff", Kind: "kafka", Target: "dlq"}},
	}
}

func TestShown(t *testing.T) {
	m := New("v1")
	promtest.Compare(t, promtest.Series(t, m.Registry()), map[string]float64{"dlqbench_build_info version=v1": 1,
		"dlqbench_runs_finished_total verdict=fail": 0})
	update, end := m.Watch()
	if shown := promtest.Series(t, m.Registry()); len(shown) != 5 {
		t.Errorf("before the first snapshot there are %v", shown)
	}
	update(snapshot())
	const run = " scenario=smoke slot=0"
	promtest.Compare(t, promtest.Series(t, m.Registry()), map[string]float64{
		"dlqbench_run_info run_id=run-1 scenario=smoke seed=9223372036854775809 slot=0 subject=reference": 1,
		"dlqbench_run_start_timestamp_seconds" + run:                                                      1.5,
		"dlqbench_run_phase phase=fault" + run:                                                            1,
		"dlqbench_run_phase phase=drain" + run:                                                            0,
		"dlqbench_load_elapsed_seconds" + run:                                                             3,
		"dlqbench_load_planned_seconds" + run:                                                             60,
		"dlqbench_records_sent_total" + run:                                                               9,
		"dlqbench_records_acknowledged_total" + run:                                                       8,
		"dlqbench_records_processed_total" + run:                                                          7,
		"dlqbench_attempts_total" + run:                                                                   6,
		"dlqbench_dead_letters_total" + run:                                                               5,
		"dlqbench_records_duplicated_total" + run:                                                         4,
		"dlqbench_replays_total" + run:                                                                    3,
		"dlqbench_records_late_total" + run:                                                               2,
		"dlqbench_rebalances_total" + run:                                                                 13,
		"dlqbench_faults_injected_total" + run:                                                            14,
		"dlqbench_retries_in_flight" + run:                                                                11,
		"dlqbench_lag_records partition=1 scenario=smoke slot=0 topic=input":                              7,
		"dlqbench_lag_records partition=0 scenario=smoke slot=0 topic=theirs":                             1,
		"dlqbench_fault_active fault=slow kind=network scenario=smoke slot=0 target=dlq":                  1,
		"dlqbench_fault_active fault=bad\uFFFD kind=kafka scenario=smoke slot=0 target=dlq":               1,
		"dlqbench_process_state process=instance 0 scenario=smoke slot=0 state=running":                   1,
		"dlqbench_process_state process=worker 0 scenario=smoke slot=0 state=running":                     0,
		"dlqbench_process_state process=worker 0 scenario=smoke slot=0 state=killed":                      1,
		"dlqbench_process_partitions process=instance 0" + run:                                            2,
		"dlqbench_process_attempts_total process=instance 0" + run:                                        6,
		"dlqbench_process_fetched_records_total process=instance 0" + run:                                 20,
		"dlqbench_process_errors_total process=instance 0" + run:                                          1,
		"dlqbench_store_entries scenario=smoke slot=0 state=pending":                                      15,
		"dlqbench_store_entries scenario=smoke slot=0 state=failed":                                       0,
		"dlqbench_store_changes_total" + run:                                                              16,
		"dlqbench_success_latency_seconds_count" + run:                                                    9,
		"dlqbench_success_latency_seconds_sum" + run:                                                      0.25,
		"dlqbench_success_latency_seconds_bucket" + run + " le=0.001":                                     3,
		"dlqbench_first_attempt_latency_seconds_bucket" + run + " le=0.01":                                7,
	})
	// The last values of a run remain, except those that end with it.
	end("fail")
	shown := promtest.Series(t, m.Registry())
	promtest.Compare(t, shown, map[string]float64{"dlqbench_runs_finished_total verdict=fail": 1,
		"dlqbench_records_sent_total" + run: 9, "dlqbench_run_phase phase=fault" + run: 0})
	for name := range shown {
		if strings.HasPrefix(name, "dlqbench_fault_active") {
			t.Errorf("after the end there is %s", name)
		}
	}
}

// Names, units and help follow the conventions of Prometheus.
func TestConventions(t *testing.T) {
	m := New("v1")
	update, _ := m.Watch()
	update(snapshot())
	page := httptest.NewRecorder()
	m.Handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if page.Code != 200 {
		t.Fatalf("%d: %s", page.Code, page.Body)
	}
	if strings.Contains(page.Body.String(), "dlqbench_success_latency_seconds_bucket{") == false {
		t.Errorf("there is no histogram:\n%s", page.Body)
	}
	problems := must.Get(promlint.New(page.Body).Lint())(t)
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

// Concurrent runs have a slot each, and consecutive runs share one, so there are never more series than concurrent runs
// need.
func TestSlots(t *testing.T) {
	m := New("v1")
	var ends []func(string)
	for range 3 { // of one scenario: without slots their series would collide
		update, end := m.Watch()
		update(snapshot())
		ends = append(ends, end)
	}
	most := len(promtest.Series(t, m.Registry()))
	ends[1]("pass")
	for i := range 50 {
		update, end := m.Watch()
		one := snapshot()
		one.RunID, one.Seed, one.Partitions = fmt.Sprintf("run-%d", i), uint64(i), nil
		update(one)
		if shown := promtest.Series(t, m.Registry()); len(shown) > most {
			t.Fatalf("after %d runs there are %d series, %d with three at a time", i, len(shown), most)
		}
		end([]string{"pass", "", "gibberish"}[i%3])
	}
	promtest.Compare(t, promtest.Series(t, m.Registry()),
		map[string]float64{"dlqbench_runs_finished_total verdict=pass": 18, "dlqbench_runs_finished_total verdict=error": 33})
}

// The number of series is bounded for any number and any names of faults in force.
func TestFaultsAreBounded(t *testing.T) {
	m := New("v1")
	update, _ := m.Watch()
	one := snapshot()
	for i := range 1000 {
		one.ActiveFaults = append(one.ActiveFaults,
			reports.FaultState{Name: fmt.Sprintf("%d %s", i, strings.Repeat("漢", 300))})
	}
	update(one)
	count := 0
	for name := range promtest.Series(t, m.Registry()) {
		if strings.HasPrefix(name, "dlqbench_fault_active") {
			count++
		}
		if len([]rune(name)) > 300 {
			t.Errorf("a label of %d characters", len([]rune(name)))
		}
	}
	if count != MaxFaults {
		t.Errorf("%d faults have a series", count)
	}
}

// TestPage compares the page as it is served. The dashboard in docs/grafana is checked against it, too.
func TestPage(t *testing.T) {
	m := New("v1")
	update, _ := m.Watch()
	one := snapshot()
	one.ActiveFaults = one.ActiveFaults[:2]
	update(one)
	page := httptest.NewRecorder()
	m.Handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	golden.Check(t, "testdata/page.txt", page.Body.String())
}

// docs/live.md lists exactly the existing metrics, with type and help.
func TestDocumented(t *testing.T) {
	m := New("v1")
	update, _ := m.Watch()
	update(snapshot())
	families := must.Get(m.Registry().Gather())(t)
	var rows []string
	for _, family := range families {
		var names []string
		for _, label := range family.GetMetric()[0].GetLabel() {
			if name := label.GetName(); name != "scenario" && name != "slot" {
				names = append(names, "`"+name+"`")
			}
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |", family.GetName(),
			strings.ToLower(family.GetType().String()), strings.Join(names, ", "), family.GetHelp()))
	}
	text := must.Get(os.ReadFile("../../docs/live.md"))(t)
	var written []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `dlqbench_") {
			written = append(written, strings.TrimSpace(line))
		}
	}
	if !slices.Equal(written, rows) {
		t.Errorf("the table of docs/live.md should be\n%s", strings.Join(rows, "\n"))
	}
}
