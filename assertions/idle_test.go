package assertions

import (
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// idleCase is a history with a fault that has no effect, a part of the reason given for it, and a part that the reason
// must not have.
type idleCase struct {
	name      string
	tell      func(*builder) history.Source
	want, not string
}

// kafkaFault plans a fault on requests.
func (b *builder) kafkaFault(api, target string) int64 {
	f := b.fault("kafka", target, api+" answered with an error")
	b.h.Faults[f].API = api
	return f
}

// plan has every record sent so far end with the outcome.
func (b *builder) plan(outcome history.Outcome) *builder {
	for i := range b.events {
		if b.events[i].Kind == history.KindSend {
			b.events[i].Outcome = outcome
		}
	}
	return b
}

// patient sets waits of ten seconds and more.
func (b *builder) patient() *builder {
	b.h.Contract().Backoff.Initial, b.h.Contract().Backoff.Cap = 10*time.Second, 20*time.Second
	return b
}

// countedCases: the operations that a fault targets are counted, and no others.
func countedCases() []idleCase {
	return []idleCase{
		{"a link to the downstream concerns attempts", func(b *builder) history.Source {
			f := b.fault("network", "downstream", "connections cut")
			b.begin().send(0).success(0).commit(1).starts(f)
			return b.heals(f).drain().done()
		}, "; attempts in the whole run: 1, ", ""},
		{"a commit in a transaction is no OffsetCommit", func(b *builder) history.Source {
			f := b.kafkaFault("OffsetCommit", "every instance")
			b.begin().send(0).success(0).inTxn(0, func() { b.commit(1) }).commitTxn(0).starts(f)
			return b.heals(f).drain().done()
		}, "; commits in the whole run: none", ""},
		{"a commit in a transaction is a TxnOffsetCommit", func(b *builder) history.Source {
			f := b.kafkaFault("TxnOffsetCommit", "every instance")
			b.begin().send(0).success(0).inTxn(0, func() { b.commit(1) }).commitTxn(0).starts(f)
			return b.heals(f).drain().done()
		}, "; commits in the whole run: 1, ", ""},
		{"ends of transactions", func(b *builder) history.Source {
			f := b.kafkaFault("EndTxn", "every instance")
			b.begin().send(0).success(0).inTxn(0, func() { b.commit(1) }).commitTxn(0).starts(f)
			return b.heals(f).drain().done()
		}, "; ends of transactions in the whole run: 1, ", ""},
		{"acknowledgements of a share group", func(b *builder) history.Source {
			f := b.kafkaFault("ShareAcknowledge", "every instance")
			b.shares(history.CounterMemory).share(0).success(0).accept(0).starts(f)
			return b.heals(f).drain().done()
		}, "; acknowledgements in the whole run: 1, ", ""},
		{"writes to another topic", func(b *builder) history.Source {
			f := b.kafkaFault("Produce", "retry")
			b.begin().send(0).fails(0, 3).letter(0).commit(1).starts(f)
			return b.heals(f).drain().done()
		}, "; writes to retry in the whole run: none", ""},
		{"writes to a topic by its name", func(b *builder) history.Source {
			f := b.kafkaFault("Produce", "in.dlq")
			b.begin().send(0).fails(0, 3).letter(0).commit(1).starts(f)
			return b.heals(f).drain().done()
		}, "; writes to in.dlq in the whole run: 1, ", ""},
	}
}

// ownerlessCases: a group without an owner of a partition is the reason if it lasted for half of the fault's time.
func ownerlessCases() []idleCase {
	const ownerless = "no member owned a partition"
	return []idleCase{
		{"the next owner came before the last one gave up", func(b *builder) history.Source {
			f := b.kafkaFault("Heartbeat", "group")
			b.begin().as(1, 0).up().assign(0, 1, 2, 3).as(0, 0).revoke(0, 1, 2, 3)
			return b.starts(f).wait(time.Second).heals(f).drain().done()
		}, "nothing came in ", ownerless},
		{"the only owner was killed", func(b *builder) history.Source {
			f := b.kafkaFault("Heartbeat", "group")
			b.begin().kill().starts(f).wait(time.Second).heals(f)
			return b.as(0, 1).up().assign(0, 1, 2, 3).drain().done()
		}, ownerless + " from 10 ms to 1.01 s; ", ""},
		{"nobody came after the last owner", func(b *builder) history.Source {
			f := b.kafkaFault("Heartbeat", "group")
			b.begin().revoke(0, 1, 2, 3).starts(f)
			return b.wait(time.Second).heals(f).drain().done()
		}, ownerless + " from 12 ms to the end of the run; find out why the consumer gave its partitions up", ""},
		{"there was none for a short part of the time", func(b *builder) history.Source {
			f := b.kafkaFault("Heartbeat", "group")
			b.begin().starts(f).revoke(0, 1, 2, 3).wait(time.Second).assign(0, 1, 2, 3)
			return b.wait(3 * time.Second).heals(f).drain().done()
		}, "nothing came in ", ownerless},
		{"a fault on a process needs no owner", func(b *builder) history.Source {
			f := b.fault("subject", "instance 1", "KILL")
			b.begin().revoke(0, 1, 2, 3).starts(f)
			return b.wait(time.Second).heals(f).drain().done()
		}, "nothing came in 1.00 s", ownerless},
	}
}

// noDeadLetterCases: a fault on dead letters had none to meet.
func noDeadLetterCases() []idleCase {
	const noneWritten = "the consumer wrote no dead letter in the whole run"
	silent := func(b *builder, f int64) history.Source {
		return b.starts(f).wait(50 * ms).heals(f).drain().done()
	}
	return []idleCase{
		{"a link to the dead-letter topic", func(b *builder) history.Source {
			f := b.fault("network", "dlq", "connections cut")
			return silent(b.begin().send(0).plan(history.OutcomePermanent), f)
		}, noneWritten, ""},
		{"one was written while it was in force, and another one later", func(b *builder) history.Source {
			f := b.kafkaFault("Produce", "dlq")
			b.begin().send(0).send(1).fails(0, 3).starts(f).letter(0).heals(f).fails(1, 3)
			return b.letter(1).commit(2).drain().done()
		}, "none of those that came in ", "its window closed"},
		{"one was written before it, and none later", func(b *builder) history.Source {
			f := b.kafkaFault("Produce", "dlq")
			return silent(b.begin().send(0).fails(0, 3).letter(0).commit(1), f)
		}, "nothing came in ", "its window closed"},
		{"records that succeed were not due", func(b *builder) history.Source {
			f := b.kafkaFault("Produce", "dlq")
			return silent(b.begin().send(0).plan(history.OutcomePermanent).send(1), f)
		}, noneWritten + ", although records had to be dead-lettered (1; at its end 1 had not been tried, and 0", ""},
		{"a record whose retries are over is not in them", func(b *builder) history.Source {
			f := b.kafkaFault("Produce", "dlq")
			return silent(b.begin().send(0).plan(history.OutcomeExhausted).fails(0, 3), f)
		}, noneWritten + ", although records had to be dead-lettered (1); writes", ""},
		{"attempts are not seen", func(b *builder) history.Source {
			f := b.kafkaFault("Produce", "dlq")
			b.h.Contract().WireOnly = true
			return silent(b.begin().send(0).plan(history.OutcomePermanent), f)
		}, noneWritten + ", and calls nothing whose answers could", "had to be dead-lettered"},
		{"no record was due", func(b *builder) history.Source {
			f := b.kafkaFault("Produce", "dlq")
			return silent(b.begin().send(0).success(0).commit(1), f)
		}, "nothing came in ", noneWritten},
		{"the broker writes the dead letters", func(b *builder) history.Source {
			f := b.kafkaFault("Produce", "dlq")
			b.h.Contract().BrokerLetters = true
			return silent(b.begin().send(0).plan(history.OutcomePermanent), f)
		}, "nothing came in ", noneWritten},
	}
}

// waitingCases: all lanes of the subject may have waited for retries if it was handed nothing for longer than a second,
// and its waits are as long.
func waitingCases() []idleCase {
	const nothing = "the subject was handed no record from "
	return []idleCase{
		{"to the end", func(b *builder) history.Source {
			f := b.fault("kafka", "input", "Fetch answered with an error")
			b.patient().begin().send(0).starts(f)
			return b.wait(9 * time.Second).heals(f).drain().done()
		}, nothing + "11 ms to the end of the run, ", ""},
		{"until the next record", func(b *builder) history.Source {
			f := b.fault("kafka", "input", "Fetch answered with an error")
			b.patient().begin().send(0).starts(f).wait(9 * time.Second).heals(f)
			return b.send(1).drain().done()
		}, nothing + "11 ms to 9.02 s, ", ""},
		{"a worker of the store was handed something", func(b *builder) history.Source {
			f := b.fault("kafka", "input", "Fetch answered with an error")
			b.patient().begin().send(0).starts(f).as(history.Worker(0), 0).fetch(0)
			return b.as(0, 0).wait(9 * time.Second).heals(f).drain().done()
		}, nothing, ""},
		{"its waits are short", func(b *builder) history.Source {
			f := b.fault("kafka", "input", "Fetch answered with an error")
			b.begin().send(0).starts(f)
			return b.wait(9 * time.Second).heals(f).drain().done()
		}, "nothing came in ", nothing},
		{"it was handed a record", func(b *builder) history.Source {
			f := b.fault("kafka", "input", "Fetch answered with an error")
			b.patient().begin().send(0).starts(f).send(1)
			return b.wait(9 * time.Second).heals(f).drain().done()
		}, "nothing came in ", nothing},
		{"for less than a second", func(b *builder) history.Source {
			f := b.fault("kafka", "input", "Fetch answered with an error")
			b.patient().begin().send(0).starts(f)
			return b.wait(900 * ms).heals(f).drain().done()
		}, "nothing came in ", nothing},
		{"a fault on the store does not need it", func(b *builder) history.Source {
			f := b.fault("store", "health probe", "the health probe says that something is wrong")
			b.patient().begin().send(0).starts(f)
			return b.wait(9 * time.Second).heals(f).drain().done()
		}, "nothing came in 9.00 s", nothing},
	}
}

// TestWhyAFaultHadNoEffect checks the reason that is given for a fault without effect.
func TestWhyAFaultHadNoEffect(t *testing.T) {
	for group, cases := range map[string][]idleCase{"counted": countedCases(), "ownerless": ownerlessCases(),
		"no dead letter": noDeadLetterCases(), "waiting": waitingCases()} {
		for _, one := range cases {
			t.Run(group+"/"+one.name, func(t *testing.T) {
				v := judged(t, one.tell(newBuilder()))
				if len(v.Faults) != 1 {
					t.Fatalf("%d faults", len(v.Faults))
				}
				got := v.Faults[0].Observed.Idle
				if !strings.Contains(got, one.want) || one.not != "" && strings.Contains(got, one.not) {
					t.Errorf("the reason is %q; want %q, and not %q", got, one.want, one.not)
				}
			})
		}
	}
}
