package run

import (
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/faults/downstream"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/internal/units"
)

// exhaustedLoad is a load of one second in which four records of two partitions fail permanently, two of them with
// the same key.
func exhaustedLoad() *plan.Plan {
	planned := &plan.Plan{Steady: time.Second}
	for i := range int32(4) {
		planned.Records = append(planned.Records, plan.Record{Partition: i % 2, Key: max(0, i-1),
			Outcome: history.OutcomeExhausted})
	}
	return planned
}

// drainCase is a load, a contract and the estimate of the drain. Each of its records has two waits of 5 s.
type drainCase struct {
	name               string
	contract           func(*history.Contract)
	load               func(*plan.Plan)
	instances          int
	least, usual, most time.Duration
	why                string
}

func (one drainCase) check(t *testing.T) {
	planned, contract := exhaustedLoad(), history.Contract{
		MaxAttempts: 3, Retry: history.RetryInPlace, Ordering: history.OrderingNone,
		Backoff:   history.Backoff{Initial: 5 * time.Second, Multiplier: 1},
		Retryable: []history.Outcome{history.OutcomeTransient, history.OutcomeRateLimited},
	}
	if one.contract != nil {
		one.contract(&contract)
	}
	if one.load != nil {
		one.load(planned)
	}
	part := drainPart(planned, &contract, one.instances)
	part.Most -= contract.Patience(planned.Failures(&contract))
	part.Usual -= drainPoll
	if one.usual == drainCap {
		part.Usual = drainCap // it includes the pause before the last look
	}
	if part.Least != one.least || part.Usual != one.usual || part.Most != one.most ||
		!strings.Contains(part.Why, one.why) {
		t.Errorf("%s, %s, %s (%s); want %s, %s, %s (%s)", part.Least, part.Usual, part.Most, part.Why, one.least,
			one.usual, one.most, one.why)
	}
}

// all sets the outcome of all records, and how often they fail.
func all(planned *plan.Plan, outcome history.Outcome, failures uint8) {
	for i := range planned.Records {
		planned.Records[i].Outcome, planned.Records[i].Failures = outcome, failures
	}
}

// TestDrainOfLoads checks which records wait, and from when on, in the order of the partition.
func TestDrainOfLoads(t *testing.T) {
	const second = time.Second
	for _, one := range []drainCase{
		{name: "records that fail once", load: func(p *plan.Plan) { all(p, history.OutcomeTransient, 1) },
			least: 9 * second, usual: 9 * second, most: 19 * second},
		{name: "records that fail once, and no number of attempts",
			contract: func(c *history.Contract) { c.MaxAttempts = 0 },
			load:     func(p *plan.Plan) { all(p, history.OutcomeTransient, 1) }, usual: 9 * second, most: 19 * second},
		{name: "records that are not retried", load: func(p *plan.Plan) { all(p, history.OutcomePermanent, 0) },
			most: 10 * second},
		{name: "permanent failures that are retried", contract: func(c *history.Contract) {
			c.Retryable = []history.Outcome{history.OutcomePermanent}
		}, load: func(p *plan.Plan) { all(p, history.OutcomePermanent, 0) },
			least: 19 * second, usual: 19 * second, most: 39 * second},
		{name: "a Retry-After", load: func(p *plan.Plan) {
			all(p, history.OutcomeRateLimited, 1)
			p.RetryAfter = 8 * second
		}, least: 15 * second, usual: 15 * second, most: 31 * second},
		{name: "a Retry-After that is not waited for", contract: func(c *history.Contract) { c.IgnoresRetryAfter = true },
			load: func(p *plan.Plan) {
				all(p, history.OutcomeRateLimited, 1)
				p.RetryAfter = 8 * second
			}, least: 9 * second, usual: 9 * second, most: 19 * second},
		{name: "each partition has its instance", instances: 2, least: 19 * second, usual: 19 * second, most: 19 * second},
		{name: "after the warm-up", load: func(p *plan.Plan) { p.WarmUp = 5 * second },
			least: 14 * second, usual: 14 * second, most: 34 * second},
		{name: "a downstream that is down after the warm-up", load: func(p *plan.Plan) {
			all(p, history.OutcomeSuccess, 0)
			p.WarmUp, p.Records[3].At = 5*second, 6*second
			p.Faults = []faults.Planned{{Fault: &downstream.Downstream{Outage: true},
				PlannedFault: history.PlannedFault{For: 3 * second}}}
		}, usual: 5 * second, most: 10 * second},
		{name: "a fault that fails no attempt", load: func(p *plan.Plan) {
			all(p, history.OutcomeSuccess, 0)
			p.Faults = []faults.Planned{{Fault: &downstream.Downstream{Slow: units.Duration(second)},
				PlannedFault: history.PlannedFault{For: 6 * second}}}
		}, most: 10 * second},
		{name: "in a share group", contract: func(c *history.Contract) {
			c.Ordering, c.GroupType = history.OrderingNone, history.GroupShare
		}, least: 9 * second, usual: 9 * second, most: 10 * second, why: "the waits of the last record"},
	} {
		contract := one.contract
		one.contract = func(c *history.Contract) {
			c.Ordering = history.OrderingPartition
			if contract != nil {
				contract(c)
			}
		}
		t.Run(one.name, one.check)
	}
}

// TestDrainOfRetriesInPlace checks that a record that waits for a retry blocks those behind it, as far as the
// contract says so.
func TestDrainOfRetriesInPlace(t *testing.T) {
	for _, one := range []drainCase{
		{name: "in the order of the partition",
			contract: func(c *history.Contract) { c.Ordering = history.OrderingPartition },
			least:    19 * time.Second, usual: 19 * time.Second, most: 39 * time.Second, why: "one record of each partition"},
		{name: "in the order of the key", contract: func(c *history.Contract) { c.Ordering = history.OrderingKey },
			least: 19 * time.Second, usual: 19 * time.Second, most: 39 * time.Second, why: "one record of each key"},
		{name: "in no order that is promised", contract: func(*history.Contract) {},
			least: 9 * time.Second, usual: 19 * time.Second, most: 39 * time.Second, why: "at most: of each instance"},
		{name: "beside each other", contract: func(c *history.Contract) { c.Isolation = 0.5 },
			least: 9 * time.Second, usual: 9 * time.Second, most: 10 * time.Second, why: "the waits of the last record"},
		{name: "in retry topics", contract: func(c *history.Contract) { c.Retry = history.RetryTopics },
			least: 9 * time.Second, usual: 9 * time.Second, most: 10 * time.Second, why: "the waits of the last record"},
		{name: "a number of attempts that is not promised", contract: func(c *history.Contract) { c.MaxAttempts = 0 }},
		{name: "a jitter that may be none",
			contract: func(c *history.Contract) {
				c.Ordering, c.Backoff.Jitter = history.OrderingPartition, time.Second
			},
			least: 19 * time.Second, usual: 23 * time.Second, most: 47 * time.Second, why: "one record of each partition"},
		{name: "a downstream that is down", contract: func(c *history.Contract) { c.Ordering = history.OrderingPartition },
			load: func(p *plan.Plan) {
				for i := range p.Records {
					p.Records[i].Outcome = history.OutcomeSuccess
				}
				p.Faults = []faults.Planned{{Fault: &downstream.Downstream{Outage: true},
					PlannedFault: history.PlannedFault{For: 6 * time.Second}}}
			},
			usual: 9 * time.Second, most: 10 * time.Second, why: "one record of each partition"},
		{name: "for longer than a drain may take",
			contract: func(c *history.Contract) {
				c.Ordering, c.Backoff.Initial = history.OrderingPartition, 10*time.Minute
			},
			least: drainCap, usual: drainCap, most: drainCap, why: "may need 1 h 19 m"},
	} {
		t.Run(one.name, one.check)
	}
}
