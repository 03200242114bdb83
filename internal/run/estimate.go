package run

// The estimate of a run's duration, made before anything is started.

import (
	"cmp"
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/scenarios"
)

// Estimate is the expected duration of a run, part by part in order.
type Estimate struct {
	Scenario string
	Parts    []EstimatedPart
}

// EstimatedPart is one part of a run: its minimum duration by plan and contract, its usual duration if all goes
// well, its maximum duration, and the reason. A subject that is judged to fail often takes longer than Usual.
type EstimatedPart struct {
	Name               string
	Least, Usual, Most time.Duration
	Why                string
}

// Total returns the sum of all parts.
func (e Estimate) Total() EstimatedPart {
	total := EstimatedPart{Name: e.Scenario}
	for _, part := range e.Parts {
		total.Least, total.Usual, total.Most = total.Least+part.Least, total.Usual+part.Usual, total.Most+part.Most
	}
	return total
}

// EstimateRun estimates the duration of a run with the options. It starts nothing and leaves nothing behind. It
// returns the errors of the plan and the contract.
func EstimateRun(options Options) (Estimate, error) {
	s, seed := options.Scenario, options.Scenario.Seed
	if options.Seed != nil {
		seed = *options.Seed
	}
	planned, err := plan.Make(s, seed, options.samples(), options.halts())
	if err != nil {
		return Estimate{}, err
	}
	contract, ready := history.Contract{}, 30*time.Second
	switch {
	case options.Subject != nil:
		if contract, err = options.Subject.HistoryContract(); err != nil {
			return Estimate{}, fmt.Errorf("reading the contract of %s: %w", options.SubjectFile, err)
		}
		ready = cmp.Or(options.Subject.Ready.Timeout.D(), ready)
	case s.Subject.Reference != nil:
		contract = scenarios.ReferenceContract(*s.Subject.Reference)
	}
	e, load := Estimate{Scenario: s.Name}, planned.WarmUp+planned.Steady
	e.Parts = append(e.Parts, setUpPart(options, ready), EstimatedPart{
		Name: "load", Least: load, Usual: load, Most: load, Why: fmt.Sprintf("%d records", planned.Due()),
	})
	if len(planned.Faults) > 0 {
		e.Parts = append(e.Parts, EstimatedPart{
			Name: "faults", Most: meetingLimit(contract, len(planned.Faults)),
			Why: "beyond the load, while one has met nothing or an instance is not ready again; longer while the subject is " +
				"behind",
		})
	}
	e.Parts = append(e.Parts, drainPart(planned, &contract, s.InstanceCount()))
	if s.Replay != nil {
		e.Parts = append(e.Parts, replayPart(s, planned, contract))
	}
	e.Parts = append(e.Parts, EstimatedPart{
		Name: "stop", Usual: time.Second, Most: contract.StopGrace + killMargin + auditLimit,
		Why: "the grace of the contract, and the audit of the topics",
	})
	return e, nil
}

// setUpPart estimates the start of Kafka and the subject. The duration of a build is not known.
func setUpPart(options Options, ready time.Duration) EstimatedPart {
	part := EstimatedPart{Name: "setup", Why: fmt.Sprintf("%d instances, each ready within %s",
		options.Scenario.InstanceCount(), ready)}
	if options.Subject != nil && len(options.Subject.Build) > 0 {
		part.Why += "; without the build, which is not known"
	}
	kafka := options.Cluster.provider()
	part.Usual, part.Most = kafka.usual+2*time.Second, kafka.most+ready
	return part
}

// replayPart estimates the replay of dead letters at its rate, and the drain after it.
func replayPart(s *scenarios.Scenario, planned *plan.Plan, contract history.Contract) EstimatedPart {
	letters := 0
	for i := range planned.Due() {
		if planned.Records[i].Healed {
			letters++
		}
	}
	took := time.Duration(float64(letters) / max(s.Replay.Rate.PerSecond(), 1) * float64(time.Second))
	rounds := time.Duration(max(s.Replay.Rounds, 1))
	return EstimatedPart{
		Name: "replay", Usual: rounds * (took + seriesOf(contract) + time.Second),
		Most: rounds * (took + seriesOf(contract) + contract.Patience(planned.Failures(&contract)) + time.Second),
		Why:  fmt.Sprintf("%d dead letters at %s, and their drain", letters, s.Replay.Rate),
	}
}

// seriesOf returns the time that the attempts of a persistently failing record take by the contract, excluding the
// time of the attempts themselves.
func seriesOf(contract history.Contract) time.Duration {
	const mostCounted, longest = 64, time.Hour
	total := time.Duration(0)
	for k := 1; k < min(max(contract.MaxAttempts, 1), mostCounted) && total < longest; k++ {
		total += contract.Backoff.Wait(k) + contract.Backoff.Jitter
	}
	return total
}
