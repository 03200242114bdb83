package bench

// This file evaluates a run for its cell: whether a rate was held, and whether a promise was broken.

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports"
)

const (
	// leastSent is the minimum share of the planned load that must be sent in time for a run to prove anything about
	// its rate.
	leastSent = 0.95
	// mostStalled is the maximum share of the load's time for which the harness may have stalled if a failure is to
	// count against the consumer.
	mostStalled = 0.1
	// ownSlip and ownSend are the shares of the success latency above which it is not due to the consumer alone: the
	// delay with which records were sent, and the time that Kafka took to accept them.
	ownSlip, ownSend = 0.25, 0.5
	// growing is the share of the load by which a backlog grows if the rate is not held. fewRecords is the total growth
	// that is too small to prove anything.
	growing    = 0.02
	fewRecords = 20
)

// late lists the anomalies that only say that something took too long. Beyond the rate that a consumer holds, they say
// nothing new. All others are broken promises at any rate.
func late() []string {
	return []string{
		"stalled", "backoff-late", "head-of-line-blocked", "paused-partition", "rebalance-storm", "stop-timeout",
		"retry-late", "retention-late",
	}
}

// held reports whether a probe held its rate. A failure that may be due to the harness is unproven, and never the
// consumer's. A rate held despite a disturbance counts as held, because a disturbance makes a consumer slower, never
// faster.
func held(cell PlannedCell, bound string, run reports.BenchRun) (reports.BenchHold, []string) {
	if run.Verdict == "" {
		return reports.BenchUnproven, []string{run.Error}
	}
	if run.Throughput.Sent < leastSent*run.Throughput.Offered ||
		run.Ledger.Acknowledged < int64(leastSent*float64(run.Ledger.Planned)) {
		return reports.BenchUnproven, []string{fmt.Sprintf("the load generator did not keep the rate: %.0f/s were due, "+
			"%.0f/s were sent, %d of %d records were accepted",
			run.Throughput.Offered, run.Throughput.Sent, run.Ledger.Acknowledged, run.Ledger.Planned)}
	}
	hold, why := cell.held(bound, run)
	if hold == reports.BenchNotHeld {
		if disturbed := cell.disturbed(run); len(disturbed) > 0 {
			return reports.BenchUnproven, append(disturbed, why...)
		}
	}
	return hold, why
}

// held is the same without looking at whether the load was driven as planned.
func (c PlannedCell) held(bound string, run reports.BenchRun) (reports.BenchHold, []string) {
	switch run.Verdict {
	case assertions.Fail:
		return reports.BenchNotHeld, run.Reasons
	case assertions.Inconclusive:
		return reports.BenchUnproven, run.Reasons
	}
	if hold, why := boundHeld(bound, run); hold != reports.BenchHeld {
		return hold, []string{why}
	}
	if how := c.outgrown(run); how != "" {
		return reports.BenchNotHeld, []string{how}
	}
	if !run.Drained {
		return reports.BenchNotHeld, []string{"not every record was finished and committed when the run ended"}
	}
	return reports.BenchHeld, nil
}

// outgrown says how the backlog grew, "" if it did not.
func (c PlannedCell) outgrown(run reports.BenchRun) string {
	growth := run.BacklogGrowth
	if growth <= growing*run.Throughput.Offered || growth*(c.Load-c.WarmUp).Seconds() <= fewRecords {
		return ""
	}
	return fmt.Sprintf("the backlog grew by %s: %s were sent, %s were finished", units.PerSecond(growth),
		units.PerSecond(run.Throughput.Sent), units.PerSecond(run.Throughput.Processed))
}

// behind says how the consumer fell behind the load of a run, "" if it kept up. Searches and stepped loads look for the
// rate at which it falls behind, so there it is no finding. Nor is a backlog that the harness may have caused, which is
// at most the load of the time for which it stalled.
func (c PlannedCell) behind(mode reports.BenchMode, run reports.BenchRun) string {
	backlog := run.BacklogGrowth * (c.Load - c.WarmUp).Seconds()
	if mode != reports.BenchFixed && mode != reports.BenchSoak || run.Verdict == "" ||
		backlog <= run.Health.Stalled.Seconds()*run.Throughput.Offered {
		return ""
	}
	return c.outgrown(run)
}

// disturbed lists what kept the harness from driving the load as planned.
func (c PlannedCell) disturbed(run reports.BenchRun) (why []string) {
	if slip := run.Health.SlipP99; c.MaxSlip > 0 && slip > c.MaxSlip {
		why = append(why, fmt.Sprintf(
			"the load generator could not keep its schedule: 1%% of the records were handed over more than %s late",
			units.Text(slip)))
	}
	if run.Health.Stalled.Seconds() > mostStalled*c.Load.Seconds() {
		why = append(why, fmt.Sprintf("the harness itself was held up for %s", units.Text(run.Health.Stalled)))
	}
	return why
}

// boundHeld reports whether a run met the bound.
func boundHeld(bound string, run reports.BenchRun) (reports.BenchHold, string) {
	at := slices.IndexFunc(run.Thresholds, func(t measure.Threshold) bool { return t.Expression == bound })
	switch {
	case at < 0:
		return reports.BenchUnproven, "the bound was not evaluated"
	case run.Thresholds[at].Met:
		return reports.BenchHeld, ""
	case run.Thresholds[at].Error != "":
		return reports.BenchUnproven, fmt.Sprintf("%s can't be told: %s", bound, run.Thresholds[at].Error)
	}
	why := fmt.Sprintf("%s was missed: %s", bound, run.Thresholds[at].Shown())
	if !strings.Contains(bound, "latency.") {
		return reports.BenchNotHeld, why
	}
	success := float64(run.Latency[measure.LatencySuccess].P99)
	if slip := run.Health.SlipP99; float64(slip) > ownSlip*success {
		return reports.BenchUnproven, fmt.Sprintf("%s; but 1%% of the records were handed over more than %s late by the "+
			"load generator, which is part of that", why, units.Text(slip))
	}
	if send := run.Latency[measure.LatencySend].P99; float64(send) > ownSend*success {
		return reports.BenchUnproven, fmt.Sprintf("%s; but Kafka itself took up to %s to accept a record (99%% of them)", why,
			units.Text(send))
	}
	return reports.BenchNotHeld, why
}

// breach is a violated invariant of a cell.
type breach struct {
	invariant string
	// anomalies counts the findings over all runs of the cell. repetitions are those with a finding. rate is the lowest
	// rate of a search with a finding.
	anomalies   map[string]int64
	repetitions []string
	rate        float64
}

func (b breach) String() string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(b.anomalies)) {
		found = append(found, fmt.Sprintf("%d × %s", b.anomalies[name], name))
	}
	at := ""
	if b.rate > 0 {
		at = ", from " + units.PerSecond(b.rate) + " on"
	}
	return fmt.Sprintf("%s was violated: %s (repetition %s%s)", b.invariant, strings.Join(found, ", "),
		strings.Join(b.repetitions, ", "), at)
}

// breaches are the broken promises of a cell, and the command that shows the first.
type breaches struct {
	all     []breach
	command string
}

// take adds the broken promises of a run. Beyond the held rate, lateness breaks no promise.
func (b *breaches) take(run reports.BenchRun, repetition int, rate float64, beyond bool) {
	for _, invariant := range run.Invariants {
		if invariant.Verdict != assertions.Fail {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(invariant.Anomalies)) {
			if !beyond || !slices.Contains(late(), name) {
				b.add(invariant.Name, name, invariant.Anomalies[name], strconv.Itoa(repetition), rate)
				b.command = cmp.Or(b.command, run.Command)
			}
		}
	}
}

func (b *breaches) add(invariant, anomaly string, count int64, repetition string, rate float64) {
	at := slices.IndexFunc(b.all, func(one breach) bool { return one.invariant == invariant })
	if at < 0 {
		at = len(b.all)
		b.all = append(b.all, breach{invariant: invariant, anomalies: map[string]int64{}, rate: rate})
	}
	one := &b.all[at]
	one.anomalies[anomaly] += count
	one.rate = min(one.rate, rate)
	one.repetitions = appendNew(one.repetitions, repetition)
}

// brokenIn returns the promises that a cell's runs broke.
func brokenIn(mode reports.BenchMode, repetitions []reports.BenchRepetition) (found breaches) {
	for _, repetition := range repetitions {
		if repetition.Search == nil {
			beyond := mode == reports.BenchStep && repetition.Knee != nil && repetition.Knee.Above > 0
			found.take(repetition.Run, repetition.Number, 0, beyond)
			continue
		}
		// If not even the lowest rate holds, no rate counts as beyond the held one.
		beyond := repetition.Search.Limit != reports.BenchLimitNone
		for _, probe := range repetition.Search.Probes {
			found.take(probe.Run, repetition.Number, probe.Rate, beyond)
		}
	}
	return found
}

// stand sets the standing of a cell after its repetitions.
func stand(mode reports.BenchMode, cell *reports.BenchCell) {
	cell.State, cell.Why, cell.Command = reports.BenchNotRun, nil, ""
	if len(cell.Repetitions) == 0 {
		return
	}
	if found := brokenIn(mode, cell.Repetitions); len(found.all) > 0 {
		cell.State, cell.Command = reports.BenchBroken, found.command
		for _, one := range found.all {
			cell.Why = append(cell.Why, one.String())
		}
		return // unproven repetitions do not weaken proven ones
	}
	var reasons []string
	unproven := map[string][]string{} // repetitions by reason
	for _, repetition := range cell.Repetitions {
		if !repetition.Finished() && repetition.Run.Error == "" {
			continue // an unfinished search
		}
		if cell.State == reports.BenchNotRun {
			cell.State = reports.BenchInconclusive
		}
		if reason := unprovenBy(repetition); reason != "" {
			reasons = appendNew(reasons, reason)
			unproven[reason] = append(unproven[reason], strconv.Itoa(repetition.Number))
		}
		if repetition.Finished() && repetition.Usable() {
			cell.State = reports.BenchOK
		}
	}
	for _, reason := range reasons {
		cell.Why = append(cell.Why, fmt.Sprintf("repetition %s: %s", strings.Join(unproven[reason], ", "), reason))
	}
}

// unprovenBy returns why a repetition proves nothing, or less than it should; "" if it is conclusive.
func unprovenBy(repetition reports.BenchRepetition) string {
	run := repetition.Run
	search := repetition.Search
	switch {
	case search != nil && search.Limit == reports.BenchLimitHarness && search.Rate > 0:
		return fmt.Sprintf("the consumer holds at least %s; whether it holds more this machine can't show",
			units.PerSecond(search.Rate))
	case run.Verdict == "":
		return run.Error
	case run.Verdict == assertions.Inconclusive:
		return strings.Join(run.Reasons, "; ")
	case search != nil && search.Limit == reports.BenchLimitHarness:
		return "the runs at the lowest rate proved nothing: " + strings.Join(search.Probes[len(search.Probes)-1].Why, "; ")
	case search != nil && search.Limit == reports.BenchLimitNone:
		return fmt.Sprintf("not even the lowest rate held, %s", units.PerSecond(search.Above))
	}
	return ""
}

func appendNew(list []string, more ...string) []string {
	for _, one := range more {
		if !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return list
}
