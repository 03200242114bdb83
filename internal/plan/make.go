package plan

// This file makes a plan. Every concern draws from a separate random stream, so an addition to one (a fault, a
// replay) does not change the others. For the same reason, bursts draw after all other records and are merged with
// them at the end.

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/samples"
	"github.com/dlqbench/dlqbench/scenarios"
)

// maxRate is the maximum rate: records one nanosecond apart are at the resolution of the clock.
const maxRate = 1e9

// Make returns the plan of the scenario for the seed, with records that are made from samples; nil stands for records
// of the workload's own. halts: the consumer promises to halt at records that it can't read. It returns an error for a
// scenario whose load scenarios.Parse would reject.
func Make(s *scenarios.Scenario, seed uint64, from *samples.Set, halts bool) (*Plan, error) {
	load := s.Workload
	if err := sane(load, from); err != nil {
		return nil, fmt.Errorf("making the plan of %s: %w", s.Name, err)
	}
	p := &Plan{
		Seed: seed, WarmUp: load.WarmUp.D(), RetryAfter: load.Outcomes.RateLimited.RetryAfter.D(), ErrorText: load.ErrorText,
		Faults: planFaults(s, seed),
	}
	for _, stretch := range load.Stretches() {
		p.Steady += stretch.For.D()
	}
	p.addArrivals(load)
	regular := len(p.Records)
	p.addBursts(load.Bursts)
	due := len(p.Records)
	p.addSpare(load)
	p.addKeys(load.Keys, s.Topics.Input.Partitions, from)
	p.addOutcomes(load.Outcomes, "outcomes")
	p.failPartitions(load.Failing)
	p.addValues(load, from, halts)
	p.addRepeated(load.Repeated.Share())
	p.addReplay(s.Replay, "replay")
	p.merge(regular, due)
	p.addNodes(s)
	p.addStore(s.Store)
	return p, nil
}

func sane(load scenarios.Workload, from *samples.Set) error {
	var length time.Duration
	for _, stretch := range load.Stretches() {
		if rate := stretch.Rate.PerSecond(); math.IsNaN(rate) || rate < 0 || rate > maxRate {
			return fmt.Errorf("a rate of %v can't be planned", stretch.Rate)
		}
		length += stretch.For.D()
	}
	if length <= 0 {
		return fmt.Errorf("the steady phase has no length")
	}
	if _, missing := load.Malformed.Ways(from.Shape()); missing != "" {
		return fmt.Errorf("malformed.how has %s, which the values of its records can't have: leave it out", missing)
	}
	return nil
}

// stream returns the random stream of one concern.
func (p *Plan) stream(concern string) *rand.Rand {
	return rand.New(rand.NewChaCha8(streamKey(p.Seed, concern)))
}

// streamKey mixes seed and name so that neighbouring seeds and names give unrelated keys.
func streamKey(seed uint64, concern string) [32]byte {
	return sha256.Sum256(append(binary.LittleEndian.AppendUint64(nil, seed), concern...))
}

// addArrivals appends the records with their times: the warm-up at the first rate, then the stretches of the steady
// phase.
func (p *Plan) addArrivals(load scenarios.Workload) {
	stretches := load.Stretches()
	expected := stretches[0].Rate.PerSecond() * p.WarmUp.Seconds()
	for _, stretch := range stretches {
		expected += stretch.Rate.PerSecond() * stretch.For.D().Seconds()
	}
	p.Records = make([]Record, 0, int(expected*1.01)+64+burstRecords(load.Bursts, p.Steady))
	random := p.stream("arrivals")
	poisson := load.Arrivals == scenarios.ArrivalsPoisson
	arrive := func(from, length time.Duration, rate float64, warmup bool) {
		times := evenly(rate)
		if poisson {
			times = exponentially(rate, random)
		}
		for {
			at := times()
			if at >= float64(length) {
				return
			}
			p.Records = append(p.Records, Record{At: from + time.Duration(at), Warmup: warmup, Key: history.None})
		}
	}
	arrive(0, p.WarmUp, stretches[0].Rate.PerSecond(), true)
	from := p.WarmUp
	for _, stretch := range stretches {
		arrive(from, stretch.For.D(), stretch.Rate.PerSecond(), false)
		from += stretch.For.D()
	}
}

// evenly returns a function that returns times in ns at the constant rate, from 0. They are computed from the count,
// so that errors do not accumulate.
func evenly(rate float64) func() float64 {
	if rate <= 0 {
		return func() float64 { return math.Inf(1) }
	}
	n := -1.0
	return func() float64 {
		n++
		return n * float64(time.Second) / rate
	}
}

// exponentially returns a function that returns the times in ns of a Poisson process.
func exponentially(rate float64, random *rand.Rand) func() float64 {
	if rate <= 0 {
		return func() float64 { return math.Inf(1) }
	}
	at := 0.0
	return func() float64 {
		at += random.ExpFloat64() * float64(time.Second) / rate
		return at
	}
}

// addOutcomes draws the outcomes of the records by weight, from the named stream. Records of the warm-up succeed.
func (p *Plan) addOutcomes(outcomes scenarios.Outcomes, stream string) {
	type choice struct {
		weight, failures int
		outcome          history.Outcome
	}
	choices := []choice{
		{outcomes.Success, 0, history.OutcomeSuccess},
		{outcomes.Transient.Weight, outcomes.Transient.Failures, history.OutcomeTransient},
		{outcomes.Exhausted, 0, history.OutcomeExhausted},
		{outcomes.Permanent, 0, history.OutcomePermanent},
		{outcomes.Logical, 0, history.OutcomeLogical},
		{outcomes.RateLimited.Weight, outcomes.RateLimited.Failures, history.OutcomeRateLimited},
		{outcomes.Timeout.Weight, outcomes.Timeout.Failures, history.OutcomeTimeout},
		{outcomes.Reset.Weight, outcomes.Reset.Failures, history.OutcomeReset},
	}
	total := 0
	for _, c := range choices {
		total += c.weight
	}
	random := p.stream(stream)
	for i := range p.Records {
		record := &p.Records[i]
		record.Outcome = history.OutcomeSuccess
		if total == 0 {
			continue
		}
		draw := random.IntN(total)
		if record.Warmup {
			continue
		}
		for _, c := range choices {
			if draw -= c.weight; draw < 0 {
				record.Outcome, record.Failures = c.outcome, uint8(c.failures)
				break
			}
		}
	}
}

// addReplay chooses, among the records that are planned to be dead-lettered, those whose cause will be fixed, and
// among these the ones that fail again.
func (p *Plan) addReplay(replay *scenarios.Replay, stream string) {
	if replay == nil {
		return
	}
	random := p.stream(stream)
	for i := range p.Records {
		record := &p.Records[i]
		healed, again := random.Float64(), random.Float64()
		if record.Outcome != history.OutcomeExhausted && record.Outcome != history.OutcomePermanent ||
			record.Malformed.Refusable() { // one that was refused would be refused again
			continue
		}
		record.Healed = healed < replay.Healed.Share()
		record.FailsAgain = record.Healed && again < replay.FailAgain.Share()
	}
}
