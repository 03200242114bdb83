package run

import (
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/faults/downstream"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
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

// TestDrainOfRetriesInPlace checks that a record that waits for a retry blocks those behind it, as far as the
// contract says so. Each record has two waits of 5 s.
func TestDrainOfRetriesInPlace(t *testing.T) {
	for _, one := range []struct {
		name               string
		contract           func(*history.Contract)
		load               func(*plan.Plan)
		least, usual, most time.Duration
		why                string
	}{
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
		t.Run(one.name, func(t *testing.T) {
			planned, contract := exhaustedLoad(), history.Contract{
				MaxAttempts: 3, Retry: history.RetryInPlace, Ordering: history.OrderingNone,
				Backoff:   history.Backoff{Initial: 5 * time.Second, Multiplier: 1},
				Retryable: []history.Outcome{history.OutcomeTransient},
			}
			one.contract(&contract)
			if one.load != nil {
				one.load(planned)
			}
			part := drainPart(planned, &contract, 1)
			part.Most -= contract.Patience()
			part.Usual -= drainPoll
			if one.usual == drainCap {
				part.Usual = drainCap // it includes the pause before the last look
			}
			if part.Least != one.least || part.Usual != one.usual || part.Most != one.most ||
				!strings.Contains(part.Why, one.why) {
				t.Errorf("%s, %s, %s (%s); want %s, %s, %s (%s)", part.Least, part.Usual, part.Most, part.Why, one.least,
					one.usual, one.most, one.why)
			}
		})
	}
}
