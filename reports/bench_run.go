package reports

// This file converts a judged run to the form that a bench keeps.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
)

// overlaid returns the latencies whose histograms a bench keeps: those that characterize the consumer.
func overlaid() []string {
	return []string{measure.LatencySuccess, measure.LatencyService, measure.LatencyDeadLetter, measure.LatencyFirstAttempt,
		measure.LatencyCommitDelay, measure.LatencyReplay}
}

// NewBenchRun converts a judged run. elapsed is its whole duration, setUp the part before its load started. An error
// means that a histogram could not be encoded.
func NewBenchRun(run Run, elapsed, setUp time.Duration) (BenchRun, error) {
	v, m := run.Verdict, run.Measurements
	if v == nil {
		return BenchRun{}, errNoVerdict
	}
	out := BenchRun{
		Verdict: v.Verdict, Reasons: slices.Clone(v.Reasons), Thresholds: slices.Clone(v.Thresholds),
		Started: v.Started.UTC(), Elapsed: elapsed, SetUp: setUp,
		Dir: run.Dir, Command: v.Rerun, Throughput: v.Throughput, Latency: map[string]BenchLatency{}, Ledger: v.Ledger,
		Health: v.Health, Usage: v.Usage,
	}
	for _, result := range v.Invariants {
		out.Invariants = append(out.Invariants, benchInvariant(result))
	}
	for name, latency := range v.Latency {
		if latency.Count > 0 {
			out.Latency[name] = BenchLatency{Quantiles: latency.Quantiles, Phases: latency.Phases}
		}
	}
	if m == nil {
		return out, nil
	}
	out.LagMax, out.LagEnd, out.Drain, out.Drained = m.LagMax, m.LagEnd, m.DrainTime, m.Drained
	out.Recovery = benchRecovery(v.Faults, m.Recoveries)
	for _, name := range overlaid() {
		latency, found := out.Latency[name]
		histogram := m.Histograms[name][measure.PhaseAll]
		if !found || histogram == nil {
			continue
		}
		encoded, err := EncodeHDR(histogram)
		if err != nil {
			return out, err
		}
		latency.HDR = encoded
		out.Latency[name] = latency
	}
	return out, nil
}

func benchInvariant(result assertions.Result) BenchInvariant {
	out := BenchInvariant{Name: result.Name, Verdict: result.Status, Judged: result.Judged, Anomalies: map[string]int64{},
		Why: result.Why}
	for _, anomaly := range result.Anomalies {
		out.Anomalies[anomaly.Name] += anomaly.Count
	}
	return out
}

func benchRecovery(faults []assertions.FaultResult, recoveries []measure.Recovery) (out []BenchRecovery) {
	for i, fault := range faults {
		one := BenchRecovery{Fault: fault.Name, What: fault.What, From: fault.Observed.From, To: fault.Observed.To}
		if i < len(recoveries) {
			one.Recovery = recoveries[i]
		}
		out = append(out, one)
	}
	return out
}

// WithoutHistograms returns the run as a probe keeps it.
func (r BenchRun) WithoutHistograms() BenchRun {
	latencies := make(map[string]BenchLatency, len(r.Latency))
	for name, latency := range r.Latency {
		latency.HDR = ""
		latencies[name] = latency
	}
	r.Latency = latencies
	return r
}
