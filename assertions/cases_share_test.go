package assertions

// Histories of share groups (KIP-932): permitted actions of members, and actions that the broker takes by itself.

import (
	"slices"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// shares makes the subject a member of a share group, and starts it. Where the broker counts, each delivery is one
// attempt.
func (b *builder) shares(counter history.Counter) *builder {
	c := b.h.Contract()
	c.GroupType, c.Ordering, c.Counter = history.GroupShare, history.OrderingNone, counter
	if counter == history.CounterDelivery {
		c.Retry, c.Backoff = history.RetryRedelivery, history.Backoff{}
	}
	b.taken, b.deliveries = map[int64]bool{}, map[int32]int32{}
	return b.phase(history.PhaseSetup).up().phase(history.PhaseWarmup).phase(history.PhaseSteady)
}

// share sends a record and has it delivered to the current instance.
func (b *builder) share(number int32) *builder {
	return b.handOver(number, 0, 0, 0).acked(number, 0).hand(number)
}

// hand delivers the record to the current instance.
func (b *builder) hand(number int32) *builder {
	at := b.where[number]
	b.deliveries[number]++
	e := b.of(history.KindShareAcquired)
	e.Topic, e.Partition, e.Offset, e.Aux, e.N = at.topic, at.partition, at.offset, at.offset, b.deliveries[number]
	b.put(e)
	return b
}

func (b *builder) askAck(number int32, how int32) history.Event {
	b.op++
	at := b.where[number]
	e := b.of(history.KindShareAckRequest)
	e.Op, e.Topic, e.Partition, e.Offset, e.Aux, e.N = b.op, at.topic, at.partition, at.offset, at.offset, how
	return *b.put(e)
}

func (b *builder) answerAck(asked history.Event, code int16, flags history.Flags) *builder {
	e := asked
	e.Kind, e.Time, e.Code, e.Flags = history.KindShareAckResponse, b.tick(), code, flags
	b.put(e)
	if code == 0 && !flags.Has(history.Forged) && asked.N != history.AckRelease {
		b.forget(asked.Offset)
	}
	return b
}

// forget notes that the broker has finished the offset, so the group may begin after it.
func (b *builder) forget(offset int64) *builder {
	b.taken[offset] = true
	for b.taken[b.commits[0]] {
		b.commits[0]++
	}
	return b
}

func (b *builder) accept(number int32) *builder {
	return b.answerAck(b.askAck(number, history.AckAccept), 0, 0)
}

func (b *builder) reject(number int32) *builder {
	return b.answerAck(b.askAck(number, history.AckReject), 0, 0)
}

func (b *builder) release(number int32) *builder {
	return b.answerAck(b.askAck(number, history.AckRelease), 0, 0)
}

const (
	inMemory   = history.CounterMemory
	byDelivery = history.CounterDelivery
	transient  = history.OutcomeTransient
	permanent  = history.OutcomePermanent
	// The broker's error codes for an acknowledgement of a record that the member no longer has, and of a partition
	// that it no longer leads.
	invalidRecordState = 121
	notLeader          = 6
)

func shareCases() []testCase {
	return slices.Concat(shareAckCases(), shareDeliveryCases(), shareCountCases(), shareMemberCases(),
		brokerLetterCases())
}

// shareMemberCases: a member leaves its group; another continues with the rest.
func shareMemberCases() []testCase {
	leaving := func(name string, want []string, tell func(*builder)) testCase {
		return testCase{name, want, func(b *builder) history.Source {
			b.shares(inMemory).members(1, "").share(0).success(0).accept(0)
			tell(b)
			b.as(1, 0).up().members(1, "").share(1).success(1).accept(1).drain().phase(history.PhaseAudit)
			return b.as(0, 0).signal("TERM").exit(0).as(1, 0).signal("TERM").exit(0).sealed()
		}}
	}
	return []testCase{
		leaving("a member leaves its share group for good", []string{"gave-up"}, func(b *builder) {
			b.members(0, "leave").wait(4 * time.Second)
		}),
		leaving("a member of a share group falls silent", []string{"gave-up"}, func(b *builder) {
			b.members(0, "silent").wait(4 * time.Second)
		}),
		leaving("a member is put out of its share group, and joins again without a record to do", nil, func(b *builder) {
			b.members(0, "fenced").wait(2*time.Second).members(1, "").wait(4 * time.Second)
		}),
		leaving("a member of a share group is silent, but works", nil, func(b *builder) {
			b.members(0, "silent").wait(4 * time.Second).share(2).success(2).accept(2)
		}),
	}
}

// shareAckCases: permitted acknowledgements, accept and reject, and their times.
func shareAckCases() []testCase {
	return []testCase{
		{"each record is acknowledged when it is done", nil, func(b *builder) history.Source {
			b.shares(inMemory).share(0).share(1).share(2).success(1).accept(1).fails(2, 3).letter(2).reject(2)
			return b.attempt(0, history.OutcomeLogical).accept(0).drain().done()
		}},
		{"accepted before it was processed", []string{"commit-past-unfinished"}, func(b *builder) history.Source {
			return b.shares(inMemory).share(0).accept(0).success(0).drain().done()
		}},
		{"accepted in a range with others before it was processed", []string{"commit-past-unfinished"},
			func(b *builder) history.Source {
				b.shares(inMemory).share(0).share(1).share(2).success(0).success(2)
				asked := b.event(history.KindShareAckRequest)
				b.op++
				asked.Instance, asked.Op, asked.Topic, asked.Partition, asked.Offset, asked.Aux, asked.N = 0, b.op, input, 0, 0, 2,
					history.AckAccept
				b.answerAck(*b.put(asked), 0, 0).forget(1).forget(2)
				return b.success(1).drain().done()
			}},
		{"a failed one is accepted while it is still to be tried again", []string{"commit-past-unfinished"},
			func(b *builder) history.Source {
				return b.shares(inMemory).share(0).fails(0, 1).accept(0).wait(105 * ms).success(0).drain().done()
			}},
		{"rejected before its dead letter was acknowledged", []string{"commit-before-dlq"}, func(b *builder) history.Source {
			b.shares(inMemory).share(0).attempt(0, permanent)
			asked := b.askLetter(0)
			b.reject(0)
			return b.answerLetter(asked, 0, 0).drain().done()
		}},
		{"rejected, and its dead letter refused", []string{"commit-without-dlq", "lost"}, func(b *builder) history.Source {
			b.shares(inMemory).share(0).attempt(0, permanent)
			return b.answerLetter(b.askLetter(0), 19, 0).reject(0).drain().done()
		}},
		{"rejected without a dead letter", []string{"commit-past-unfinished", "lost"}, func(b *builder) history.Source {
			return b.shares(inMemory).share(0).attempt(0, permanent).reject(0).drain().done()
		}},
		{"rejected too early, and the broker refuses", nil, func(b *builder) history.Source {
			b.shares(inMemory).share(0).attempt(0, permanent)
			b.answerAck(b.askAck(0, history.AckReject), invalidRecordState, 0)
			return b.hand(0).attempt(0, permanent).letter(0).reject(0).drain().done()
		}},
		{"never acknowledged", []string{"stalled"}, func(b *builder) history.Source {
			return b.shares(inMemory).share(0).success(0).drain().done()
		}},
		{"never tried and never acknowledged", []string{"stalled"}, func(b *builder) history.Source {
			return b.shares(inMemory).share(0).drain().done()
		}},
		{"what is in backoff is accepted at the stop", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				return b.shares(inMemory).share(0).fails(0, 1).signal("TERM").accept(0).exit(0).drain().done()
			}},
		{"what is in backoff is released at the stop", nil, func(b *builder) history.Source {
			b.shares(inMemory).share(0).fails(0, 1).signal("TERM").release(0).exit(0)
			return b.as(0, 1).up().hand(0).fails(0, 3).letter(0).reject(0).drain().done()
		}},
		{"accepted in the name of a workload that has not heard where it is", nil, func(b *builder) history.Source {
			b.shares(inMemory).handOver(0, 0, 0, 0)
			b.where[0] = place{input, 0, 0}
			b.hand(0).success(0).accept(0).acked(0, 0)
			return b.drain().done()
		}},
		{"accepted too early before the workload has heard where it is", []string{"commit-past-unfinished"},
			func(b *builder) history.Source {
				b.shares(inMemory).handOver(0, 0, 0, 0)
				b.where[0] = place{input, 0, 0}
				b.hand(0).accept(0).acked(0, 0).success(0)
				return b.drain().done()
			}},
	}
}

// shareDeliveryCases: redeliveries by the broker, and their reasons.
func shareDeliveryCases() []testCase {
	return []testCase{
		{"killed before it could accept", nil, func(b *builder) history.Source {
			b.shares(inMemory).share(0).success(0).kill()
			return b.as(0, 1).up().hand(0).success(0).accept(0).drain().done()
		}},
		{"accepted, but the answer is lost and it comes again", nil, func(b *builder) history.Source {
			b.shares(inMemory).share(0).success(0)
			b.answerAck(b.askAck(0, history.AckAccept), notLeader, 0)
			return b.hand(0).success(0).accept(0).drain().done()
		}},
		{"accepted, but in vain, and it does not come again", nil, func(b *builder) history.Source {
			b.shares(inMemory).share(0).success(0)
			return b.answerAck(b.askAck(0, history.AckAccept), notLeader, 0).drain().done()
		}},
		{"accepted in vain by one, and never acknowledged by the next", []string{"stalled"}, func(b *builder) history.Source {
			b.shares(inMemory).share(0).success(0)
			b.answerAck(b.askAck(0, history.AckAccept), notLeader, 0)
			return b.hand(0).success(0).drain().done()
		}},
		{"accepted in vain, and the next never acknowledged", []string{"stalled"}, func(b *builder) history.Source {
			b.shares(inMemory).share(0).success(0)
			b.answerAck(b.askAck(0, history.AckAccept), notLeader, 0)
			return b.share(1).success(1).drain().done()
		}},
		{"given back, and nobody asks for it again", []string{"stalled"}, func(b *builder) history.Source {
			return b.shares(inMemory).share(0).success(0).release(0).drain().done()
		}},
		{"accepted with the broker's consent, and delivered again all the same", nil, func(b *builder) history.Source {
			return b.shares(inMemory).share(0).success(0).accept(0).hand(0).success(0).accept(0).drain().done()
		}},
		{"processed twice in one delivery", []string{"duplicate"}, func(b *builder) history.Source {
			return b.shares(inMemory).share(0).success(0).success(0).accept(0).drain().done()
		}},
		{"processed, given back, and processed again", []string{"duplicate"}, func(b *builder) history.Source {
			return b.shares(inMemory).share(0).success(0).release(0).hand(0).success(0).accept(0).drain().done()
		}},
		{"processed, and given back in vain as its session had ended", nil, func(b *builder) history.Source {
			b.shares(inMemory).share(0).success(0)
			b.answerAck(b.askAck(0, history.AckRelease), invalidRecordState, 0)
			return b.hand(0).success(0).accept(0).drain().done()
		}},
		{"processed, and given back with an answer that a fault withheld", nil, func(b *builder) history.Source {
			b.shares(inMemory).share(0).success(0)
			b.answerAck(b.askAck(0, history.AckRelease), 0, history.Withheld)
			return b.hand(0).success(0).accept(0).drain().done()
		}},
		{"its lock ran out and another member has it too", nil, func(b *builder) history.Source {
			b.shares(inMemory).as(1, 0).up().as(0, 0).share(0).fails(0, 1)
			b.as(1, 0).hand(0).fails(0, 1)
			b.as(0, 0).success(0)
			b.answerAck(b.askAck(0, history.AckAccept), invalidRecordState, 0)
			return b.as(1, 0).wait(60 * ms).success(0).accept(0).drain().done()
		}},
		{"two dead letters of two deliveries", nil, func(b *builder) history.Source {
			b.shares(inMemory).share(0).attempt(0, permanent).letter(0).kill()
			b.tries[0] = 0
			return b.as(0, 1).up().hand(0).attempt(0, permanent).letter(0).reject(0).drain().done()
		}},
		{"two dead letters of one delivery", []string{"dlq-duplicate"}, func(b *builder) history.Source {
			return b.shares(inMemory).share(0).attempt(0, permanent).letter(0).letter(0).reject(0).drain().done()
		}},
		{"its permanent failure is released and it is tried again", []string{"permanent-retried"},
			func(b *builder) history.Source {
				return b.shares(inMemory).share(0).attempt(0, permanent).release(0).hand(0).attempt(0, permanent).letter(0).reject(
					0).drain().done()
			}},
		{"its permanent failure is released at a stop, as its dead letter was not acknowledged", nil,
			func(b *builder) history.Source {
				b.shares(inMemory).share(0).attempt(0, permanent).signal("TERM").release(0).exit(0)
				b.tries[0] = 0
				return b.as(0, 1).up().hand(0).attempt(0, permanent).letter(0).reject(0).drain().done()
			}},
	}
}

// shareCountCases: how attempts are counted.
func shareCountCases() []testCase {
	return []testCase{
		{"one attempt too many in one delivery", []string{"over-retried"}, func(b *builder) history.Source {
			return b.shares(inMemory).share(0).fails(0, 3).wait(305*ms).attempt(0, transient).letter(0).reject(0).drain().done()
		}},
		{"dead-lettered too early in one delivery", []string{"under-retried"}, func(b *builder) history.Source {
			return b.shares(inMemory).share(0).fails(0, 2).letter(0).reject(0).drain().done()
		}},
		{"a new delivery begins a new count", nil, func(b *builder) history.Source {
			b.shares(inMemory).share(0).fails(0, 2).kill()
			b.tries[0] = 0
			return b.as(0, 1).up().hand(0).fails(0, 3).letter(0).reject(0).drain().done()
		}},
		{"the same member has it again while it is still at it", nil, func(b *builder) history.Source {
			b.shares(inMemory).share(0).fails(0, 1).hand(0).attempt(0, transient).attempt(0, transient).wait(200*ms).attempt(0,
				transient)
			b.wait(200*ms).attempt(0, transient).letter(0)
			return b.reject(0).drain().done()
		}},
		{"released until the broker's count is full", nil, func(b *builder) history.Source {
			b.shares(byDelivery).share(0).attempt(0, transient).release(0).hand(0).attempt(0, transient).release(0)
			return b.hand(0).attempt(0, transient).letter(0).reject(0).drain().done()
		}},
		{"released once more than promised", []string{"over-retried"}, func(b *builder) history.Source {
			b.shares(byDelivery).share(0)
			for range 3 {
				b.attempt(0, transient).release(0).hand(0)
			}
			return b.attempt(0, transient).letter(0).reject(0).drain().done()
		}},
		{"a delivery was lost with its member", nil, func(b *builder) history.Source {
			b.shares(byDelivery).share(0).attempt(0, transient).release(0).hand(0).kill().as(0, 1).up().hand(0)
			b.tries[0]++
			return b.attempt(0, transient).letter(0).reject(0).drain().done()
		}},
		{"its member was killed at the last attempt, and it is tried once more", nil, func(b *builder) history.Source {
			b.shares(byDelivery).share(0).attempt(0, transient).release(0).hand(0).attempt(0, transient).release(0).hand(
				0).attempt(0, transient).kill()
			return b.as(0, 1).up().hand(0).attempt(0, transient).letter(0).reject(0).drain().done()
		}},
		{"dead-lettered before the broker's count is full", []string{"under-retried"}, func(b *builder) history.Source {
			b.shares(byDelivery).share(0).attempt(0, transient).release(0).hand(0).attempt(0, transient)
			return b.letter(0).reject(0).drain().done()
		}},
		{"dead-lettered in its last delivery, after which the broker would give it up", nil, func(b *builder) history.Source {
			b.h.Contract().MaxAttempts = 8
			b.shares(inMemory).share(0).fails(0, 1)
			b.deliveries[0], b.tries[0] = 4, 0
			return b.hand(0).attempt(0, transient).letter(0).reject(0).drain().done()
		}},
		{"dead-lettered at its first failure", []string{"premature-dead-letter", "under-retried"},
			func(b *builder) history.Source {
				return b.shares(byDelivery).share(0).attempt(0, transient).letter(0).reject(0).drain().done()
			}},
		{"given up by the broker after deliveries that a fault kept from the tap", nil, func(b *builder) history.Source {
			f := b.fault("network", "brokers", "responses on brokers cut")
			b.shares(inMemory).breaks(f).handOver(0, 0, 0, 0).acked(0, 0)
			return b.heals(f).forget(0).drain().done()
		}},
		{"given up by the broker, the last of its deliveries cut off with its member", nil, func(b *builder) history.Source {
			f := b.fault("subject", "instance 0", "KILL to instance 0")
			b.shares(inMemory).share(0).fails(0, 1)
			b.deliveries[0] = 4
			return b.breaks(f).hand(0).kill().heals(f).as(0, 1).up().forget(0).drain().done()
		}},
		{"given up by the broker after a release whose answer a fault cut off, and deliveries that the tap never saw", nil,
			func(b *builder) history.Source {
				f := b.fault("network", "brokers", "responses on brokers cut")
				b.shares(byDelivery).share(0).attempt(0, transient).breaks(f).askAck(0, history.AckRelease)
				return b.heals(f).forget(0).drain().done()
			}},
		{"passed by the share group without a delivery or a fault", []string{"lost"}, func(b *builder) history.Source {
			return b.shares(inMemory).handOver(0, 0, 0, 0).acked(0, 0).forget(0).drain().done()
		}},
		{"released until the broker gave it up", []string{"lost"}, func(b *builder) history.Source {
			b.h.Contract().MaxAttempts = 5
			b.shares(byDelivery).share(0)
			for range 4 {
				b.attempt(0, transient).release(0).hand(0)
			}
			b.attempt(0, transient).release(0)
			return b.forget(0).drain().done()
		}},
	}
}

// leavesLetters makes the subject a member of a share group whose broker writes the dead letters.
func (b *builder) leavesLetters(counter history.Counter) *builder {
	b.h.Contract().BrokerLetters = true
	return b.shares(counter)
}

// writes notes that the broker has written the record's dead letter, with its count of deliveries.
func (b *builder) writes(number int32) *builder {
	b.inDLQ(number).Claim.Attempts = b.deliveries[number]
	return b
}

// brokerLetterCases: the broker writes the dead letters (KIP-1191).
func brokerLetterCases() []testCase {
	return []testCase{
		{"rejected after its last attempt, and the broker writes its dead letter", nil, func(b *builder) history.Source {
			return b.leavesLetters(inMemory).share(0).fails(0, 3).reject(0).writes(0).drain().done()
		}},
		{"rejected after its last attempt, and the broker writes no dead letter", []string{"lost"},
			func(b *builder) history.Source {
				return b.leavesLetters(inMemory).share(0).fails(0, 3).reject(0).drain().done()
			}},
		{"what failed for good is accepted, so nobody writes a dead letter", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				return b.leavesLetters(inMemory).share(0).fails(0, 3).accept(0).drain().done()
			}},
		{"rejected too early", []string{"under-retried"}, func(b *builder) history.Source {
			return b.leavesLetters(inMemory).share(0).fails(0, 2).reject(0).writes(0).drain().done()
		}},
		{"rejected at its first failure", []string{"premature-dead-letter", "under-retried"},
			func(b *builder) history.Source {
				return b.leavesLetters(inMemory).share(0).fails(0, 1).reject(0).writes(0).drain().done()
			}},
		{"rejected without an attempt", []string{"premature-dead-letter"}, func(b *builder) history.Source {
			return b.leavesLetters(inMemory).share(0).reject(0).writes(0).drain().done()
		}},
		{"a permanent failure is rejected at once", nil, func(b *builder) history.Source {
			return b.leavesLetters(inMemory).share(0).attempt(0, permanent).reject(0).writes(0).drain().done()
		}},
		{"rejected although it was processed", []string{"dual-terminal"}, func(b *builder) history.Source {
			return b.leavesLetters(inMemory).share(0).success(0).reject(0).writes(0).drain().done()
		}},
		{"rejected in vain as its lock had run out, and processed in its next delivery", nil,
			func(b *builder) history.Source {
				b.leavesLetters(inMemory).share(0).attempt(0, permanent)
				b.answerAck(b.askAck(0, history.AckReject), invalidRecordState, 0)
				return b.hand(0).success(0).accept(0).drain().done()
			}},
		{"the broker writes the dead letter twice, as it was not sure of the first", nil, func(b *builder) history.Source {
			return b.leavesLetters(inMemory).share(0).attempt(0, permanent).reject(0).writes(0).writes(0).drain().done()
		}},
		{"the dead letter names a place that the record never was at", []string{"metadata-wrong"},
			func(b *builder) history.Source {
				b.leavesLetters(inMemory).share(0).attempt(0, permanent).reject(0)
				b.inDLQ(0).Claim.Offset = 7
				return b.drain().done()
			}},
		{"released until the broker gives it up and writes its dead letter", nil, func(b *builder) history.Source {
			return b.releasedToTheEnd().writes(0).drain().done()
		}},
		{"released until the broker gives it up and writes none", []string{"lost"}, func(b *builder) history.Source {
			return b.releasedToTheEnd().drain().done()
		}},
		{"rejected at a stop while it had attempts left", []string{"premature-dead-letter", "under-retried"},
			func(b *builder) history.Source {
				return b.leavesLetters(inMemory).share(0).fails(0, 1).signal("TERM").reject(0).exit(0).writes(0).drain().done()
			}},
	}
}

// releasedToTheEnd: each delivery is one attempt, and the broker gives the record up after the last one.
func (b *builder) releasedToTheEnd() *builder {
	b.h.Contract().MaxAttempts = 5
	b.leavesLetters(byDelivery).share(0)
	for range 4 {
		b.attempt(0, transient).release(0).hand(0)
	}
	return b.attempt(0, transient).release(0).forget(0)
}

// TestShareGroupsAreJudged checks that each invariant with a meaning for a share group is judged, and that the others
// state the reason why they are not.
func TestShareGroupsAreJudged(t *testing.T) {
	b := newBuilder()
	b.h.Records = 3
	b.shares(inMemory).share(0).share(1).share(2).success(0).accept(0).fails(1, 3).letter(1).reject(1).success(2).accept(2)
	v := judged(t, b.drain().done())
	if v.Verdict != Pass {
		t.Errorf("the verdict is %s: %v", v.Verdict, v.Reasons)
	}
	without := []string{"halt-on-dlq-failure", "ordering", "isolation", "replay-round-trip", "store-lifecycle",
		"graph-conservation", "service-separation", "effects"}
	v.setApart(catalogue())
	for _, r := range v.Invariants {
		if want := !slices.Contains(without, r.Name); (r.Status == Pass) != want {
			t.Errorf("%s: %s (%s)", r.Name, r.Status, r.Why)
		}
	}
	if v.Ledger.Succeeded != 2 || v.Ledger.DeadLettered != 1 {
		t.Errorf("the ledger is %+v", v.Ledger)
	}
}

// TestWhatTheBrokerWritesIsNotTheSubjects checks that the writing of dead letters is not judged where the broker writes
// them, but their existence and content are.
func TestWhatTheBrokerWritesIsNotTheSubjects(t *testing.T) {
	b := newBuilder()
	b.h.Records = 2
	b.leavesLetters(inMemory).share(0).share(1).success(0).accept(0).fails(1, 3).reject(1).writes(1)
	v := judged(t, b.drain().done())
	if v.Verdict != Pass || v.Ledger.DeadLettered != 1 {
		t.Errorf("the verdict is %s, %v; the ledger %+v", v.Verdict, v.Reasons, v.Ledger)
	}
	for _, name := range []string{"commit-after-dlq", "halt-on-dlq-failure", "dlq-once"} {
		if r := resultOf(t, v, name); r.Status != NotApplicable {
			t.Errorf("%s: %s (%s)", name, r.Status, r.Why)
		}
	}
	for _, name := range []string{"no-loss", "commit-after-outcome", "bounded-retries", "classification", "dlq-fidelity"} {
		if r := resultOf(t, v, name); r.Status != Pass {
			t.Errorf("%s: %s (%s)", name, r.Status, r.Why)
		}
	}
}
