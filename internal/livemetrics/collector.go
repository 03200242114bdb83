package livemetrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/reports"
)

const prefix = "dlqbench_"

// MaxFaults is the maximum number of faults in force with series of their own, because their names come from scenarios
// and from people.
const MaxFaults = 50

// family is a metric, and the place of its value in a snapshot.
type family struct {
	name, help string
	kind       prometheus.ValueType
	labels     []string // in addition to those of the run
	// show calls series with the value and labels of each series.
	show func(s *reports.Snapshot, series func(value float64, labels ...string))
	desc *prometheus.Desc
}

// histogram is the histogram of a latency.
type histogram struct {
	name, help string
	of         func(s *reports.Snapshot) reports.Buckets
	desc       *prometheus.Desc
}

type families struct {
	values     []family
	histograms []histogram
}

// describe lists all metrics of a run.
func describe() families {
	all := families{histograms: []histogram{
		{name: "success_latency_seconds",
			help: "Time from the moment at which a record should have been sent to the end of its first successful attempt.",
			of:   func(s *reports.Snapshot) reports.Buckets { return s.Latency.Success.SinceBegin }},
		{name: "first_attempt_latency_seconds",
			help: "Time from the moment at which a record should have been sent to the start of its first attempt.",
			of:   func(s *reports.Snapshot) reports.Buckets { return s.Latency.FirstAttempt.SinceBegin }},
	}}
	for _, part := range [][]family{runFamilies(), countFamilies(), stateFamilies(), processFamilies(), storeFamilies()} {
		all.values = append(all.values, part...)
	}
	for i := range all.values {
		one := &all.values[i]
		one.desc = prometheus.NewDesc(prefix+one.name, one.help, append(runLabels(), one.labels...), nil)
	}
	for i := range all.histograms {
		one := &all.histograms[i]
		one.desc = prometheus.NewDesc(prefix+one.name, one.help, runLabels(), nil)
	}
	return all
}

// runLabels are the labels of every series of a run.
func runLabels() []string { return []string{"slot", "scenario"} }

// one returns a show function for a single series without labels of its own.
func one(value func(s *reports.Snapshot) float64) func(*reports.Snapshot, func(float64, ...string)) {
	return func(s *reports.Snapshot, series func(float64, ...string)) { series(value(s)) }
}

// runFamilies identify the run and its progress.
func runFamilies() []family {
	return []family{
		{name: "run_info", help: "The run that has the slot, or had it last; always 1.", kind: prometheus.GaugeValue,
			labels: []string{"run_id", "seed", "subject"}, show: func(s *reports.Snapshot, series func(float64, ...string)) {
				series(1, s.RunID, strconv.FormatUint(s.Seed, 10), s.Subject)
			}},
		{name: "run_start_timestamp_seconds", help: "When the run began.", kind: prometheus.GaugeValue,
			show: one(func(s *reports.Snapshot) float64 { return float64(s.Started.UnixMilli()) / 1000 })},
		{name: "run_phase", help: "Whether the run is in the phase (1) or not (0); in none, the run is over.",
			kind: prometheus.GaugeValue, labels: []string{"phase"},
			show: func(s *reports.Snapshot, series func(float64, ...string)) {
				for _, phase := range phases() {
					series(truth(s.Phase == phase), phase)
				}
			}},
		{name: "load_elapsed_seconds", help: "Time since the load began; before that, since the run began.",
			kind: prometheus.GaugeValue, show: one(func(s *reports.Snapshot) float64 { return s.Elapsed.Seconds() })},
		{name: "load_planned_seconds", help: "How long the load is planned to last; 0 until it begins.",
			kind: prometheus.GaugeValue, show: one(func(s *reports.Snapshot) float64 { return s.Total.Seconds() })},
	}
}

func phases() []string {
	return []string{
		history.PhaseSetup, history.PhaseWarmup, history.PhaseSteady, history.PhaseFault, history.PhaseHeal,
		history.PhaseDrain, history.PhaseReplay, history.PhaseAudit, history.PhaseSeal,
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// countFamilies are the total counts.
func countFamilies() []family {
	count := func(name, help string, of func(t reports.Totals) int64) family {
		return family{name: name, help: help, kind: prometheus.CounterValue, show: one(func(s *reports.Snapshot) float64 {
			return float64(of(s.Totals))
		})}
	}
	return []family{
		count("records_sent_total", "Records that the workload handed to its producer.", func(t reports.Totals) int64 {
			return t.Sent
		}),
		count("records_acknowledged_total", "Records that the brokers acknowledged to the workload.",
			func(t reports.Totals) int64 { return t.Acknowledged }),
		count("records_late_total", "Records that were sent later than the scenario allows.", func(t reports.Totals) int64 {
			return t.Late
		}),
		count("records_processed_total", "Attempts that succeeded, or failed logically.", func(t reports.Totals) int64 {
			return t.Processed
		}),
		count("records_duplicated_total", "Records that succeeded more than once.", func(t reports.Totals) int64 {
			return t.Duplicates
		}),
		count("attempts_total", "Attempts of the subject at the downstream.", func(t reports.Totals) int64 {
			return t.Attempts
		}),
		count("dead_letters_total", "Dead letters that the brokers acknowledged.", func(t reports.Totals) int64 {
			return t.DeadLetters
		}),
		count("replays_total", "Dead letters that were written back and acknowledged.", func(t reports.Totals) int64 {
			return t.Replayed
		}),
		{name: "rebalances_total", help: "Number of reassignments of partitions, without the first assignment.",
			kind: prometheus.CounterValue, show: one(func(s *reports.Snapshot) float64 { return float64(s.Rebalances) })},
		{name: "faults_injected_total", help: "Faults that were injected.", kind: prometheus.CounterValue,
			show: one(func(s *reports.Snapshot) float64 { return float64(s.FaultsInjected) })},
	}
}

// stateFamilies are the present state, such as the faults in force.
func stateFamilies() []family {
	return []family{
		{name: "lag_records", help: "Records of the partition that no accepted commit covers yet.",
			kind: prometheus.GaugeValue, labels: []string{"topic", "partition"},
			show: func(s *reports.Snapshot, series func(float64, ...string)) {
				for _, p := range s.Partitions {
					series(float64(p.Lag), topicOf(s, p.Topic), strconv.Itoa(int(p.Partition)))
				}
			}},
		{name: "retries_in_flight", help: "Records that failed and are neither finished nor dead-lettered yet.",
			kind: prometheus.GaugeValue, show: one(func(s *reports.Snapshot) float64 { return float64(s.RetriesInFlight) })},
		{name: "fault_active", help: "A fault that is in force; always 1.", kind: prometheus.GaugeValue,
			labels: []string{"fault", "kind", "target"}, show: func(s *reports.Snapshot, series func(float64, ...string)) {
				shown := map[[3]string]bool{}
				for _, fault := range s.ActiveFaults {
					name := [3]string{labelOf(fault.Name), fault.Kind, labelOf(fault.Target)}
					if !shown[name] && len(shown) < MaxFaults { // two faults of one name form one series
						shown[name] = true
						series(1, name[:]...)
					}
				}
			}},
	}
}

// processFamilies describe the subject's instances and the processes of the dead-letter store's service. The label is
// not "instance", which Prometheus uses for the target.
func processFamilies() []family {
	each := func(of func(p *reports.InstanceState) float64) func(*reports.Snapshot, func(float64, ...string)) {
		return func(s *reports.Snapshot, series func(float64, ...string)) {
			for i := range s.Instances {
				series(of(&s.Instances[i]), s.Instances[i].Name)
			}
		}
	}
	process := []string{"process"}
	return []family{
		{name: "process_state", help: "Whether the process is in the state (1) or not (0).", kind: prometheus.GaugeValue,
			labels: []string{"process", "state"}, show: func(s *reports.Snapshot, series func(float64, ...string)) {
				for _, p := range s.Instances {
					for _, state := range processStates() {
						series(truth(p.Status == state), p.Name, string(state))
					}
				}
			}},
		{name: "process_partitions", help: "Input partitions that the process has.", kind: prometheus.GaugeValue,
			labels: process, show: each(func(p *reports.InstanceState) float64 { return float64(p.Partitions) })},
		{name: "process_attempts_total", help: "Attempts of the process at the downstream.", kind: prometheus.CounterValue,
			labels: process, show: each(func(p *reports.InstanceState) float64 { return float64(p.Attempts) })},
		{name: "process_fetched_records_total", help: "Records that were handed to the process.",
			kind: prometheus.CounterValue, labels: process,
			show: each(func(p *reports.InstanceState) float64 { return float64(p.Fetched) })},
		{name: "process_errors_total", help: "Lines that the process wrote to its log and that report an error.",
			kind: prometheus.CounterValue, labels: process,
			show: each(func(p *reports.InstanceState) float64 { return float64(p.Errors) })},
	}
}

func processStates() []reports.InstanceStatus {
	return []reports.InstanceStatus{
		reports.InstanceStarting, reports.InstanceRunning, reports.InstancePaused, reports.InstanceStopping,
		reports.InstanceStopped, reports.InstanceKilled, reports.InstanceCrashed,
	}
}

// storeFamilies describe the dead-letter store, if one is judged.
func storeFamilies() []family {
	return []family{
		{name: "store_entries", help: "Entries of the dead-letter store, by state.", kind: prometheus.GaugeValue,
			labels: []string{"state"}, show: func(s *reports.Snapshot, series func(float64, ...string)) {
				if s.Store == nil {
					return
				}
				for _, state := range reports.StoreStates() {
					series(float64(s.Store.ByState[state]), string(state))
				}
			}},
		{name: "store_changes_total", help: "Changes of entries of the dead-letter store that were seen.",
			kind: prometheus.CounterValue, show: func(s *reports.Snapshot, series func(float64, ...string)) {
				if s.Store != nil {
					series(float64(s.Store.Changes))
				}
			}},
	}
}
