package measure

import (
	"fmt"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// environment holds the names that a threshold can use. Its types are the schema: an unknown name, or a duration
// compared with a bare number, is an error before the run begins.
type environment struct {
	Latency    latencyNames    `expr:"latency"`
	Throughput throughputNames `expr:"throughput"`
	Lag        lagNames        `expr:"lag"`
	Recovery   recoveryNames   `expr:"recovery"`
	Count      countNames      `expr:"count"`
	Share      shareNames      `expr:"share"`
	Subject    subjectNames    `expr:"subject"`
}

type latencyNames struct {
	Send         phaseNames `expr:"send"`
	FirstAttempt phaseNames `expr:"first_attempt"`
	Success      phaseNames `expr:"success"`
	Service      phaseNames `expr:"service"`
	DeadLetter   phaseNames `expr:"dead_letter"`
	BackoffError phaseNames `expr:"backoff_error"`
	CommitDelay  phaseNames `expr:"commit_delay"`
	Replay       phaseNames `expr:"replay"`
	Slip         phaseNames `expr:"slip"`
}

type phaseNames struct {
	quantileNames
	Setup  quantileNames `expr:"setup"`
	Warmup quantileNames `expr:"warm_up"`
	Steady quantileNames `expr:"steady"`
	Fault  quantileNames `expr:"fault"`
	Heal   quantileNames `expr:"heal"`
	Drain  quantileNames `expr:"drain"`
	Replay quantileNames `expr:"replay"`
	Audit  quantileNames `expr:"audit"`
}

type quantileNames struct {
	P50   time.Duration `expr:"p50"`
	P90   time.Duration `expr:"p90"`
	P99   time.Duration `expr:"p99"`
	P999  time.Duration `expr:"p999"`
	Max   time.Duration `expr:"max"`
	Count int64         `expr:"count"`
}

type throughputNames struct {
	Offered   float64 `expr:"offered"`
	Sent      float64 `expr:"sent"`
	Processed float64 `expr:"processed"`
}

type lagNames struct {
	Max int64 `expr:"max"`
	End int64 `expr:"end"`
}

// recoveryNames refer to the whole run, and to the slowest of its faults.
type recoveryNames struct {
	Drain   time.Duration `expr:"drain"`
	Detect  time.Duration `expr:"detect"`
	CatchUp time.Duration `expr:"catch_up"`
	Steady  time.Duration `expr:"steady"`
}

type countNames struct {
	Planned      int64 `expr:"planned"`
	Sent         int64 `expr:"sent"`
	Acknowledged int64 `expr:"acknowledged"`
	Late         int64 `expr:"late"`
	Succeeded    int64 `expr:"succeeded"`
	Logical      int64 `expr:"logical"`
	DeadLettered int64 `expr:"dead_lettered"`
	Unfinished   int64 `expr:"unfinished"`
	Held         int64 `expr:"held"`
	Forfeited    int64 `expr:"forfeited"`
	Attempts     int64 `expr:"attempts"`
	Duplicates   int64 `expr:"duplicates"`
	Replayed     int64 `expr:"replayed"`
}

// shareNames are shares of the acknowledged records, from 0 to 1.
type shareNames struct {
	Duplicates   float64 `expr:"duplicates"`
	DeadLettered float64 `expr:"dead_lettered"`
	Succeeded    float64 `expr:"succeeded"`
}

// subjectNames refer to the instance with the highest usage, and to the record that was attempted most often.
type subjectNames struct {
	RSS struct {
		Max    int64 `expr:"max" unit:"size"`
		Growth int64 `expr:"growth" unit:"size"`
	} `expr:"rss"`
	CPU struct {
		Mean float64 `expr:"mean"`
		Max  float64 `expr:"max"`
	} `expr:"cpu"`
	AttemptsPerSecond struct {
		Max int64 `expr:"max"`
	} `expr:"attempts_per_second"`
}

// environment returns the values.
func (m *Measurements) environment(latencies map[string]Latency) environment {
	l := &m.Ledger
	share := func(n int64) float64 { return float64(n) / float64(max(l.Acknowledged, 1)) }
	return environment{
		Latency: latencyNames{
			Send: namePhases(latencies[LatencySend]), FirstAttempt: namePhases(latencies[LatencyFirstAttempt]),
			Success: namePhases(latencies[LatencySuccess]), Service: namePhases(latencies[LatencyService]),
			DeadLetter:   namePhases(latencies[LatencyDeadLetter]),
			BackoffError: namePhases(latencies[LatencyBackoffError]), CommitDelay: namePhases(latencies[LatencyCommitDelay]),
			Replay: namePhases(latencies[LatencyReplay]), Slip: namePhases(latencies[LatencySlip]),
		},
		Throughput: throughputNames(m.Throughput),
		Lag:        lagNames{Max: m.LagMax, End: m.LagEnd},
		Recovery: recoveryNames{
			Drain: m.DrainTime, Detect: m.slowest("detect"), CatchUp: m.slowest("catch_up"), Steady: m.slowest("steady"),
		},
		Count: countNames{
			Planned: l.Planned, Sent: l.Sent, Acknowledged: l.Acknowledged, Late: l.Late, Succeeded: l.Succeeded,
			Logical: l.Logical, DeadLettered: l.DeadLettered, Unfinished: l.Unfinished, Held: l.Held, Forfeited: l.Forfeited,
			Attempts: l.Attempts, Duplicates: l.Duplicates, Replayed: l.Replayed,
		},
		Share: shareNames{Duplicates: share(l.Duplicates), DeadLettered: share(l.DeadLettered),
			Succeeded: share(l.Succeeded)},
		Subject: m.Usage.names(),
	}
}

// names returns the highest values of all instances; missing values are 0.
func (u *Usage) names() (out subjectNames) {
	var growths []int64
	for _, one := range u.Instances {
		out.RSS.Max = max(out.RSS.Max, one.RSSMax)
		if one.RSSGrowth != nil {
			growths = append(growths, *one.RSSGrowth)
		}
		if one.CPUMean != nil {
			out.CPU.Mean, out.CPU.Max = max(out.CPU.Mean, *one.CPUMean), max(out.CPU.Max, *one.CPUMax)
		}
	}
	if len(growths) > 0 {
		out.RSS.Growth = slices.Max(growths)
	}
	if u.Busiest != nil {
		out.AttemptsPerSecond.Max = u.Busiest.Attempts
	}
	return out
}

// missing returns the reason why there is no value for subject.NAME, or "" if there is one.
func (u *Usage) missing(path []string) string {
	growth := func(one InstanceUsage) bool { return one.RSSGrowth != nil }
	busy := func(one InstanceUsage) bool { return one.CPUMean != nil }
	switch {
	case path[1] == "attempts_per_second":
		if u.Busiest == nil {
			return "not measured: no attempt of a record was seen"
		}
	case len(u.Instances) == 0:
		return "not measured: the history has no samples of the subject's processes, which are taken of those that " +
			"dlqbench starts"
	case path[2] == "growth" && !slices.ContainsFunc(u.Instances, growth):
		return fmt.Sprintf("not measured: no process was under load for %d s after it was ready", growthReadings)
	case path[1] == "cpu" && !slices.ContainsFunc(u.Instances, busy):
		return "not measured: no instance was sampled twice under load"
	}
	return ""
}

func namePhases(l Latency) phaseNames {
	return phaseNames{
		quantileNames: nameQuantiles(l.Quantiles),
		Setup:         nameQuantiles(l.Phases[history.PhaseSetup]), Warmup: nameQuantiles(l.Phases[history.PhaseWarmup]),
		Steady: nameQuantiles(l.Phases[history.PhaseSteady]), Fault: nameQuantiles(l.Phases[history.PhaseFault]),
		Heal: nameQuantiles(l.Phases[history.PhaseHeal]), Drain: nameQuantiles(l.Phases[history.PhaseDrain]),
		Replay: nameQuantiles(l.Phases[history.PhaseReplay]), Audit: nameQuantiles(l.Phases[history.PhaseAudit]),
	}
}

func nameQuantiles(q Quantiles) quantileNames {
	return quantileNames{P50: q.P50, P90: q.P90, P99: q.P99, P999: q.P999, Max: q.Max, Count: q.Count}
}

// missing returns the reason why the path, such as [latency success fault p99], has no value, or "" if there is one. An
// unmeasured value must not meet a threshold, although it is 0.
func (m *Measurements) missing(latencies map[string]Latency, path []string) string {
	switch path[0] {
	case "latency":
		q := latencies[path[1]].Quantiles
		if len(path) == 4 {
			q = latencies[path[1]].Phases[phaseName(path[2])]
		}
		if q.Count == 0 && path[len(path)-1] != "count" {
			return "no samples"
		}
	case "throughput":
		if m.Throughput == (Throughput{}) {
			return "no samples: the run had no steady phase, or no records were sent in it"
		}
	case "lag", "share", "count":
		if path[0] != "count" && m.Ledger.Acknowledged == 0 {
			return "no samples: no record was acknowledged"
		}
		if m.wireOnly && slices.Contains([]string{"succeeded", "logical", "attempts", "duplicates"}, path[1]) {
			return "not measured: the consumer makes no calls that are seen (observe: wire)"
		}
	case "subject":
		return m.Usage.missing(path)
	case "recovery":
		if path[1] != "drain" {
			return m.unrecovered(path[1])
		}
		if !m.Drained {
			return "the run ended before every record was finished and committed"
		}
	}
	return ""
}

// span returns the span that a threshold calls by this name.
func (r *Recovery) span(name string) Span {
	switch name {
	case "detect":
		return r.Detect
	case "catch_up":
		return r.CatchUp
	}
	return r.Steady
}

// slowest is the longest known time of this name.
func (m *Measurements) slowest(name string) time.Duration {
	var longest time.Duration
	for i := range m.Recoveries {
		if span := m.Recoveries[i].span(name); span.Known() {
			longest = max(longest, span.Time)
		}
	}
	return longest
}

// unrecovered returns the reason why there is no slowest time: a recovery that never happened is slower than all
// others, and without a known time there is nothing to compare. Recoveries that overlap another fault are left out.
func (m *Measurements) unrecovered(name string) string {
	why, known := "the run had no faults", false
	for i := range m.Recoveries {
		switch span := m.Recoveries[i].span(name); span.State {
		case SpanNever:
			return fmt.Sprintf("of fault %d: %s", i+1, span.Note)
		case SpanKnown:
			known = true
		default:
			why = fmt.Sprintf("it can't be told, of fault %d: %s", i+1, span.Note)
		}
	}
	if known {
		return ""
	}
	return why
}

// phaseName returns the phase as the history writes it.
func phaseName(inExpression string) string {
	if inExpression == "warm_up" {
		return history.PhaseWarmup
	}
	return inExpression
}
