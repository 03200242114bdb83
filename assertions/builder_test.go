package assertions

// A builder of hand-written histories. Each step advances the clock by a millisecond and records what an observer would
// have recorded. Defaults are those of a correct run: acknowledgements arrive, audits find the written records.

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const (
	input = int16(0)
	dlq   = int16(1)
	retry = int16(2)

	ms = time.Millisecond
)

type builder struct {
	h      history.Header
	events []history.Event
	now    time.Duration
	op     int64

	next     [8]int64 // next offset by partition of the input
	nextDLQ  int64
	where    map[int32]place
	tries    map[int32]int32
	commits  map[int32]int64
	inTopics []history.Event // audit records
	lost     map[int32]bool  // records that the audit will not find in the input
	instance int16
	run      uint16
	sent     int32

	retryCommitted int64
	vanished       map[int64]bool // entries that the audit will not find in the store

	// For share groups: the offsets that the broker has finished, and the deliveries of each record.
	taken      map[int64]bool
	deliveries map[int32]int32
}

func newBuilder() *builder {
	return &builder{
		h: history.Header{
			Format: history.FormatVersion, RunID: "run", Scenario: "test", Rerun: "dlqbench run test --seed 1", Records: 64,
			Instances: 2, Topics: []history.Topic{
				{Name: "in", Role: history.RoleInput, Partitions: 4}, {Name: "in.dlq", Role: history.RoleDLQ, Partitions: 4},
				{Name: "in.retry", Role: history.RoleRetry, Partitions: 4},
			},
			Consumers: []history.Consumer{{Instances: 2, DLQ: 1, Contract: history.Contract{
				MaxAttempts: 3, Counter: history.CounterMemory,
				Backoff: history.Backoff{Initial: 100 * ms, Multiplier: 2, Cap: 300 * ms, Jitter: 20 * ms, Late: 50 * ms},
				Retryable: []history.Outcome{history.OutcomeTransient, history.OutcomeRateLimited, history.OutcomeTimeout,
					history.OutcomeReset},
				Permanent: []history.Outcome{history.OutcomePermanent}, Logical: []history.Outcome{history.OutcomeLogical},
				Ordering: history.OrderingKey, Retry: history.RetryInPlace, Envelope: "plain", KeepsHeaders: true,
				OnFailure: history.OnFailureHalt,
			}}},
			Expect: history.Expect{DuplicateShare: -1, DrainLimit: time.Second},
		},
		where: map[int32]place{}, tries: map[int32]int32{}, commits: map[int32]int64{}, lost: map[int32]bool{},
	}
}

// joining has an instance join its group with the session timeout, in a history whose header says how long nothing may
// move.
func (b *builder) joining(session time.Duration) *builder {
	b.h.Expect.Patience, b.h.Expect.DrainLimit = time.Second, 0
	e := b.event(history.KindJoining)
	e.Instance, e.Aux = 0, int64(session)
	b.put(e)
	return b
}

// unnamed makes an attempt in which the downstream finds no id, at the place that the subject states.
func (b *builder) unnamed(topic int16, partition int32, offset int64) *builder {
	b.op++
	e := b.of(history.KindAttemptStart)
	e.Op, e.Topic, e.Partition, e.Offset = b.op, topic, partition, offset
	b.put(e)
	e.Kind, e.Time, e.Outcome, e.Code = history.KindAttemptEnd, b.tick(), history.OutcomeUnknownID, 404
	b.put(e)
	return b
}

func (b *builder) tick() time.Duration { b.now += ms; return b.now }

func (b *builder) wait(d time.Duration) *builder { b.now += d; return b }

func (b *builder) event(kind history.Kind) history.Event { return history.New(kind, b.tick()) }

func (b *builder) put(e history.Event) *history.Event {
	b.events = append(b.events, e)
	return &b.events[len(b.events)-1]
}

// of returns an event of the current instance.
func (b *builder) of(kind history.Kind) history.Event {
	e := b.event(kind)
	e.Instance, e.Run = b.instance, b.run
	return e
}

func (b *builder) as(instance int16, run uint16) *builder {
	b.instance, b.run = instance, run
	return b
}

func (b *builder) phase(name string) *builder {
	e := b.event(history.KindPhase)
	e.Text = name
	b.put(e)
	return b
}

// begin starts instance 0 and gives it every partition.
func (b *builder) begin() *builder {
	b.phase(history.PhaseSetup).up().assign(0, 1, 2, 3)
	return b.phase(history.PhaseWarmup).phase(history.PhaseSteady)
}

func (b *builder) up() *builder {
	b.put(b.of(history.KindInstanceStarting))
	return b
}

func (b *builder) assign(partitions ...int32) *builder {
	return b.partitions(history.KindAssigned, "", partitions)
}

func (b *builder) revoke(partitions ...int32) *builder {
	return b.partitions(history.KindRevoked, "rebalance", partitions)
}

func (b *builder) partitions(kind history.Kind, why string, partitions []int32) *builder {
	for _, partition := range partitions {
		e := b.of(kind)
		e.Topic, e.Partition, e.N, e.Text = input, partition, 1, why
		b.put(e)
	}
	return b
}

func (b *builder) signal(name string) *builder {
	e := b.of(history.KindInstanceSignal)
	e.Text = name
	b.put(e)
	return b
}

func (b *builder) exit(code int16) *builder {
	e := b.of(history.KindInstanceExited)
	e.Code, e.Flags = code, history.Expected
	b.put(e)
	return b
}

// exitedBefore is an end that is reported with the delay.
func (b *builder) exitedBefore(late time.Duration) *builder {
	e := b.of(history.KindInstanceExited)
	e.Flags, e.Aux = history.Expected, int64(late)
	b.put(e)
	return b
}

func (b *builder) kill() *builder { return b.signal("KILL").exit(-1) }

func (b *builder) logError() *builder {
	e := b.of(history.KindSubjectError)
	e.Text = "ERROR dead letter refused"
	b.put(e)
	return b
}

// says writes a line to the log of the process that names a Kafka error, without an error level.
func (b *builder) says(line string, code int16) *builder {
	e := b.of(history.KindSubjectError)
	e.Text, e.Code = line, code
	b.put(e)
	return b
}

// health reports a change of the instance's health URL.
func (b *builder) health(healthy int32) *builder {
	e := b.of(history.KindSubjectHealth)
	e.N, e.Code, e.Text = healthy, 503, "it answers 503"
	b.put(e)
	return b
}

// wrote ends the log of the process, with its number of lines and the number of those that state a level.
func (b *builder) wrote(lines int32, stated int64) *builder {
	e := b.of(history.KindSubjectLog)
	e.N, e.Aux = lines, stated
	b.put(e)
	return b
}

func (b *builder) stall(instance int16, length time.Duration) *builder {
	e := b.event(history.KindStall)
	e.Instance, e.Aux = instance, int64(length)
	b.put(e)
	return b
}

// fault plans a fault and returns its number.
func (b *builder) fault(kind, target, what string) int64 {
	b.h.Faults = append(b.h.Faults, history.PlannedFault{
		Name: kind, Kind: kind, Target: target, What: what, Idle: idle(kind, target),
		StopsDeadLetters: target == "dlq" && !strings.Contains(what, "delayed"),
	})
	return int64(len(b.h.Faults) - 1)
}

// idle returns what a kind of fault would say of a fault without effect.
func idle(kind, target string) history.Idle {
	one := history.Idle{Needs: history.NeedRecord, Why: "nothing came in " + history.InForce}
	switch {
	case kind == "broker" || kind == "subject":
		one.Needs = history.NeedNothing
	case kind == "store":
		one.Needs = history.NeedMember
	case target == "dlq":
		one.Needs = history.NeedDeadLetter
	case target == "downstream":
		one.Needs = history.NeedAttempt
	}
	if kind == "kafka" {
		one.Passed = "none of those that came in " + history.InForce + " was picked"
	}
	return one
}

// starts injects a fault that has no effect.
func (b *builder) starts(fault int64) *builder {
	e := b.event(history.KindFaultStart)
	e.Op = fault
	b.put(e)
	return b
}

func (b *builder) breaks(fault int64) *builder {
	b.starts(fault)
	effect := b.event(history.KindFaultEffect)
	effect.Op, effect.N, effect.Text = fault, 1, "requests answered"
	b.put(effect)
	return b
}

func (b *builder) heals(fault int64) *builder {
	e := b.event(history.KindFaultEnd)
	e.Op = fault
	b.put(e)
	return b
}

// send sends a record to partition 0 with key 0 and has it acknowledged and fetched.
func (b *builder) send(number int32) *builder { return b.sendTo(number, 0, 0) }

func (b *builder) sendTo(number, partition, key int32) *builder {
	b.handOver(number, partition, key, 0)
	return b.acked(number, partition).fetch(number)
}

func (b *builder) handOver(number, partition, key int32, flags history.Flags) *builder {
	e := b.event(history.KindSend)
	e.Record, e.Topic, e.Partition, e.N, e.Flags = number, input, partition, key, flags
	e.KeyHash, e.ValueHash, e.HeadersHash, e.Outcome = 10+uint64(key), 1000+uint64(number), 77, history.OutcomeSuccess
	e.Aux = int64(e.Time)
	b.put(e)
	b.sent++
	return b
}

func (b *builder) acked(number, partition int32) *builder {
	e := b.event(history.KindAcked)
	e.Record, e.Topic, e.Partition, e.Offset = number, input, partition, b.next[partition]
	b.put(e)
	b.inInput(number, partition)
	return b
}

// inInput puts the record into the input topic.
func (b *builder) inInput(number, partition int32) {
	b.where[number] = place{input, partition, b.next[partition]}
	audit := history.New(history.KindAuditRecord, 0)
	audit.Record, audit.Topic, audit.Partition, audit.Offset = number, input, partition, b.next[partition]
	audit.ValueHash, audit.HeadersHash = 1000+uint64(number), 77
	b.next[partition]++
	b.inTopics = append(b.inTopics, audit)
}

func (b *builder) fetch(number int32) *builder {
	at := b.where[number]
	e := b.of(history.KindFetched)
	e.Topic, e.Partition, e.Offset, e.Aux = at.topic, at.partition, at.offset, at.offset
	b.put(e)
	return b
}

// start and end are the two halves of an attempt.
func (b *builder) start(number int32) int64 {
	b.op++
	b.tries[number]++
	e := b.of(history.KindAttemptStart)
	e.Op, e.Record, e.N = b.op, number, b.tries[number]
	if at, known := b.where[number]; known && b.h.Contract().Retry == history.RetryTopics {
		e.Topic, e.Partition, e.Offset = at.topic, at.partition, at.offset
	}
	b.put(e)
	return b.op
}

func (b *builder) end(op int64, number int32, outcome history.Outcome) *history.Event {
	e := b.of(history.KindAttemptEnd)
	e.Op, e.Record, e.N, e.Outcome = op, number, b.tries[number], outcome
	return b.put(e)
}

func (b *builder) attempt(number int32, outcome history.Outcome) *builder {
	b.end(b.start(number), number, outcome)
	return b
}

// fails makes count transient attempts, each after the promised wait, the first immediately.
func (b *builder) fails(number int32, count int) *builder {
	for k := range count {
		if k > 0 {
			b.wait(b.h.Contract().Backoff.Wait(k) + 5*ms)
		}
		b.attempt(number, history.OutcomeTransient)
	}
	return b
}

func (b *builder) success(number int32) *builder { return b.attempt(number, history.OutcomeSuccess) }

// askLetter and answerLetter are the two halves of writing a dead letter.
func (b *builder) askLetter(number int32) history.Event {
	b.op++
	e := b.of(history.KindProduceRequest)
	e.Op, e.Record, e.Topic, e.Partition = b.op, number, dlq, b.where[number].partition
	e.ProducerID, e.Sequence = 1, int32(b.op)
	return *b.put(e)
}

func (b *builder) answerLetter(asked history.Event, code int16, flags history.Flags) *builder {
	e := asked
	e.Kind, e.Time, e.Code, e.Flags = history.KindProduceResponse, b.tick(), code, flags
	stored := code == 0 && flags&(history.Forged|history.Unreplicated) == 0
	if stored {
		e.Offset = b.nextDLQ
	}
	b.put(e)
	if stored {
		b.inDLQ(e.Record)
	}
	return b
}

// refuseLetters adds writes of the record's dead letter that a fault refuses. They leave no copy.
func (b *builder) refuseLetters(number int32, times int) *builder {
	for range times {
		b.answerLetter(b.askLetter(number), 29, history.Forged)
	}
	return b
}

// inDLQ adds a correct dead letter to the topic.
func (b *builder) inDLQ(number int32) *history.Event {
	at := b.where[number]
	audit := history.New(history.KindAuditRecord, 0)
	audit.Record, audit.Topic, audit.Partition, audit.Offset = number, dlq, at.partition, b.nextDLQ
	audit.ValueHash, audit.HeadersHash, audit.HeaderCount, audit.HeaderBytes = 1000+uint64(number), 77, 8, 200
	audit.Flags = history.FailureHeaders
	audit.Claim = &history.Claim{Topic: at.topic, Partition: at.partition, Offset: at.offset,
		Attempts: b.tries[number]}
	b.nextDLQ++
	b.inTopics = append(b.inTopics, audit)
	return &b.inTopics[len(b.inTopics)-1]
}

func (b *builder) letter(number int32) *builder { return b.answerLetter(b.askLetter(number), 0, 0) }

func (b *builder) askCommit(partition int32, offset int64) history.Event {
	b.op++
	e := b.of(history.KindCommitRequest)
	e.Op, e.Topic, e.Partition, e.Offset = b.op, input, partition, offset
	return *b.put(e)
}

func (b *builder) answerCommit(asked history.Event, code int16, flags history.Flags) *builder {
	e := asked
	e.Kind, e.Time, e.Code, e.Flags = history.KindCommitResponse, b.tick(), code, flags
	b.put(e)
	if code == 0 && !flags.Has(history.Forged) {
		b.commits[asked.Partition] = asked.Offset
	}
	return b
}

func (b *builder) commit(offset int64) *builder { return b.answerCommit(b.askCommit(0, offset), 0, 0) }

func (b *builder) commitAll() *builder {
	for partition, end := range b.next {
		if end > 0 && b.commits[int32(partition)] != end {
			b.answerCommit(b.askCommit(int32(partition), end), 0, 0)
		}
	}
	return b
}

// audit reads a topic to its end.
func (b *builder) audit(topic int16) *builder {
	start := b.event(history.KindAuditStart)
	start.Topic = topic
	b.put(start)
	for _, one := range b.inTopics {
		if one.Topic != topic || topic == input && b.lost[one.Record] {
			continue
		}
		one.Time = b.tick()
		if one.KeyHash == 0 {
			one.KeyHash = b.keyHash(one.Record)
		}
		b.put(one)
	}
	return b
}

func (b *builder) keyHash(number int32) uint64 {
	for i := range b.events {
		if b.events[i].Kind == history.KindSend && b.events[i].Record == number {
			return b.events[i].KeyHash
		}
	}
	return 0
}

func (b *builder) drain() *builder {
	b.phase(history.PhaseHeal).phase(history.PhaseDrain)
	return b.wait(max(b.h.Expect.DrainLimit, b.h.Expect.Patience))
}

// done lets the subject stop, audits everything, and seals.
func (b *builder) done() history.Source {
	b.phase(history.PhaseAudit)
	for instance, run := range b.alive() {
		b.as(instance, run).signal("TERM").exit(0)
	}
	return b.sealed()
}

func (b *builder) sealed() history.Source {
	for topic := range b.h.Topics {
		b.audit(int16(topic))
	}
	for topic := range b.h.Topics {
		for partition := range int32(b.h.Topics[topic].Partitions) {
			e := b.event(history.KindAuditOffsets)
			e.Topic, e.Partition, e.Offset, e.Aux = int16(topic), partition, b.nextDLQ, history.None
			if topic == int(input) {
				e.Offset = b.next[partition]
				if offset, known := b.commits[partition]; known {
					e.Aux = offset
				}
			}
			if topic == int(retry) {
				e.Offset = 0
				if partition == 0 {
					e.Offset, e.Aux = b.next[7], b.retryCommitted
				}
			}
			b.put(e)
		}
	}
	b.phase(history.PhaseSeal)
	return b.source()
}

func (b *builder) source() history.Source { return history.FromEvents(b.h, b.events) }

func (b *builder) alive() map[int16]uint16 {
	alive := map[int16]uint16{}
	for i := range b.events {
		switch e := &b.events[i]; e.Kind {
		case history.KindInstanceStarting:
			alive[e.Instance] = e.Run
		case history.KindInstanceExited:
			delete(alive, e.Instance)
		}
	}
	return alive
}

// decisive is the catalogue without experimental flags.
func decisive() []Invariant {
	all := catalogue()
	for i := range all {
		all[i].Experimental = false
	}
	return all
}

// judged judges a history. In these tests and simulations, experimental invariants decide, too.
func judged(t testing.TB, source history.Source) *Verdict {
	t.Helper()
	verdict, _, err := judgeBy(decisive(), source)
	if err != nil {
		t.Fatal(err)
	}
	return verdict
}

// named returns the names of a verdict's anomalies.
func named(v *Verdict) []string {
	found := []string{}
	for _, r := range v.Invariants {
		for _, a := range r.Anomalies {
			found = append(found, a.Name)
		}
	}
	slices.Sort(found)
	return slices.Compact(found) // some names belong to several invariants
}

func resultOf(t testing.TB, v *Verdict, name string) Result {
	t.Helper()
	for _, r := range v.Invariants {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("the verdict has no invariant %s", name)
	return Result{}
}

func show(v *Verdict) string {
	data, err := json.MarshalIndent(struct {
		Verdict    Status
		Reasons    []string
		Invariants []Result
	}{v.Verdict, v.Reasons, v.Invariants}, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(data)
}
