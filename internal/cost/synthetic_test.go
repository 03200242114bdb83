package cost

// This file generates a synthetic history of a correct run, for measuring the cost of a history. It has any number of
// records, with times, hashes and numbers scattered as in a real one, so that it compresses like a real one.

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/scenarios"
)

const (
	inputIndex, dlqIndex = int16(0), int16(1)
	// syntheticBatch is the number of records handled together.
	syntheticBatch = 64
	// syntheticStep is the mean time between two events: 20,000 records/s with four to five events each.
	syntheticStep = 10 * time.Microsecond
	// syntheticKeys is the number of keys. Each key has its records in one partition.
	syntheticKeys = 3 * syntheticBatch * partitions
	// syntheticSlip is the maximum delay with which a record is sent.
	syntheticSlip = 500 * time.Microsecond
)

// synthetic is a run of the reference consumer. Every record succeeds at the last of its attempts, except one in fifty,
// which fails for good and is dead-lettered. synthetic implements history.Source and generates its events on the fly.
type synthetic struct{ records, attempts int }

// Header implements history.Source.
func (s synthetic) Header() history.Header {
	settings := consumer.DefaultSettings()
	settings.MaxRetries = s.attempts
	settings.RetryBackoffMS = 0 // the history has no waits
	return history.Header{
		Format: history.FormatVersion, RunID: "bench", Scenario: "bench", Rerun: "bench", Subject: "reference", Instances: 1,
		Records: s.records, Topics: topics(),
		Consumers: []history.Consumer{{Group: "bench", Instances: 1, DLQ: 1,
			Contract: scenarios.ReferenceContract(scenarios.Reference{Settings: settings})}},
		Expect: history.Expect{DuplicateShare: -1, DrainLimit: time.Minute, MaxSlip: time.Second},
	}
}

// Each implements history.Source.
func (s synthetic) Each(see func(*history.Event) error) error {
	t := &teller{see: see, random: rand.New(rand.NewPCG(1, 2))}
	t.tell(s)
	return t.err
}

func (s synthetic) events() []history.Event {
	var all []history.Event
	_ = s.Each(func(e *history.Event) error { all = append(all, *e); return nil })
	return all
}

// teller emits the events of a synthetic run.
type teller struct {
	see    func(*history.Event) error
	err    error
	random *rand.Rand
	event  history.Event
	now    time.Duration
	op     int64
	// next holds the next offset of each input partition, nextDLQ that of each partition of the dead-letter topic.
	next, nextDLQ [partitions]int64
}

func (t *teller) put(kind history.Kind, set func(*history.Event)) {
	t.now += syntheticStep/2 + time.Duration(t.random.Int64N(int64(syntheticStep)))
	t.event = history.New(kind, t.now)
	set(&t.event)
	if t.err == nil {
		t.err = t.see(&t.event)
	}
}

func (t *teller) phase(name string) {
	t.put(history.KindPhase, func(e *history.Event) { e.Text = name })
}

func (t *teller) tell(s synthetic) {
	t.put(history.KindInstanceStarting, func(e *history.Event) { e.Instance = 0 })
	for p := range int32(partitions) {
		t.put(history.KindAssigned, func(e *history.Event) { e.Instance, e.Topic, e.Partition = 0, inputIndex, p })
	}
	t.phase(history.PhaseSteady)
	for first := 0; first < s.records; first += syntheticBatch {
		t.batch(s, int32(first), int32(min(first+syntheticBatch, s.records)))
	}
	for _, name := range []string{history.PhaseHeal, history.PhaseDrain, history.PhaseAudit} {
		t.phase(name)
	}
	t.put(history.KindInstanceExited, func(e *history.Event) { e.Instance, e.Flags = 0, history.Expected })
	t.audit(s)
	t.phase(history.PhaseSeal)
}

// partitionOf is the partition of a record. All records of a batch are in one partition.
func partitionOf(record int32) int32 { return record / syntheticBatch % partitions }

// original sets the fields that a record has wherever it is found.
func original(e *history.Event, record int32) {
	e.Record, e.KeyHash, e.ValueHash, e.HeadersHash = record, scatter(uint64(record%syntheticKeys)),
		scatter(uint64(record)+syntheticKeys), scatter(uint64(record))
	e.HeaderCount = 2
}

// scatter is splitmix64's finalizer. Its results are as random as hashes.
func scatter(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// batch emits the events of the records from first up to, but excluding, last: sent, acknowledged, fetched, processed,
// committed.
func (t *teller) batch(s synthetic, first, last int32) {
	p := partitionOf(first)
	from := t.next[p]
	for record := first; record < last; record++ {
		t.put(history.KindSend, func(e *history.Event) {
			original(e, record)
			e.Topic, e.Partition, e.N, e.Outcome = inputIndex, p, record%syntheticKeys, history.OutcomeSuccess
			e.Aux = max(0, int64(t.now)-t.random.Int64N(int64(syntheticSlip)))
			if isDeadLettered(record) {
				e.Outcome = history.OutcomePermanent
			}
		})
	}
	for record := first; record < last; record++ {
		t.put(history.KindAcked, func(e *history.Event) {
			e.Record, e.Topic, e.Partition, e.Offset = record, inputIndex, p, t.next[p]
		})
		t.next[p]++
	}
	t.put(history.KindFetched, func(e *history.Event) {
		e.Instance, e.Topic, e.Partition, e.Offset, e.Aux = 0, inputIndex, p, from, t.next[p]-1
	})
	for record := first; record < last; record++ {
		t.process(s, record, from+int64(record-first))
	}
	t.op++
	for _, kind := range []history.Kind{history.KindCommitRequest, history.KindCommitResponse} {
		t.put(kind, func(e *history.Event) {
			e.Instance, e.Op, e.Topic, e.Partition, e.Offset = 0, t.op, inputIndex, p, t.next[p]
		})
	}
}

func isDeadLettered(record int32) bool { return record%50 == 0 }

func (t *teller) process(s synthetic, record int32, offset int64) {
	for k := int32(1); ; k++ {
		outcome, code := history.OutcomeTransient, int16(503)
		switch {
		case isDeadLettered(record):
			outcome, code = history.OutcomePermanent, 400
		case k == int32(s.attempts):
			outcome, code = history.OutcomeSuccess, 200
		}
		t.op++
		for _, kind := range []history.Kind{history.KindAttemptStart, history.KindAttemptEnd} {
			t.put(kind, func(e *history.Event) {
				e.Instance, e.Op, e.Record, e.N, e.Topic, e.Partition, e.Offset = 0, t.op, record, k, inputIndex,
					partitionOf(record), offset
				if kind == history.KindAttemptEnd {
					e.Outcome, e.Code = outcome, code
				}
			})
		}
		if outcome != history.OutcomeTransient {
			break
		}
	}
	if isDeadLettered(record) {
		t.deadLetter(record)
	}
}

func (t *teller) deadLetter(record int32) {
	p := partitionOf(record)
	t.op++
	for _, kind := range []history.Kind{history.KindProduceRequest, history.KindProduceResponse} {
		t.put(kind, func(e *history.Event) {
			original(e, record)
			e.Instance, e.Op, e.Topic, e.Partition, e.HeadersHash, e.HeaderCount = 0, t.op, dlqIndex, p, 0, 0
			e.ProducerID, e.ProducerEpoch, e.Sequence = 1, 0, int32(t.nextDLQ[p])
			if kind == history.KindProduceResponse {
				e.Offset = t.nextDLQ[p]
			}
		})
	}
	t.nextDLQ[p]++
}

// audit emits the contents of the topics, which are the written records.
func (t *teller) audit(s synthetic) {
	t.put(history.KindAuditStart, func(e *history.Event) { e.Topic = inputIndex })
	var offset, letter [partitions]int64
	offsets := make([]int64, s.records)
	for record := range int32(s.records) {
		p := partitionOf(record)
		offsets[record] = offset[p]
		t.put(history.KindAuditRecord, func(e *history.Event) {
			original(e, record)
			e.Topic, e.Partition, e.Offset, e.HeaderBytes = inputIndex, p, offset[p], 60
			e.Aux = 1_700_000_000_000 + int64(record/20)
		})
		offset[p]++
	}
	t.put(history.KindAuditStart, func(e *history.Event) { e.Topic = dlqIndex })
	for record := int32(0); record < int32(s.records); record += 50 {
		p := partitionOf(record)
		t.put(history.KindAuditRecord, func(e *history.Event) {
			original(e, record)
			e.Topic, e.Partition, e.Offset = dlqIndex, p, letter[p]
			e.Claim = &history.Claim{Topic: inputIndex, Partition: p, Offset: offsets[record], Attempts: 1}
		})
		letter[p]++
	}
	for p := range int32(partitions) {
		t.put(history.KindAuditOffsets, func(e *history.Event) {
			e.Topic, e.Partition, e.Offset, e.Aux = inputIndex, p, t.next[p], t.next[p]
		})
		t.put(history.KindAuditOffsets, func(e *history.Event) { e.Topic, e.Partition, e.Offset = dlqIndex, p, t.nextDLQ[p] })
	}
}

// Figures from a history on which judging ends early, or finds anomalies, are meaningless.
func TestSyntheticRunIsACorrectRunInWhichEverythingIsJudged(t *testing.T) {
	for _, s := range []synthetic{{records: 3000, attempts: 1}, {records: 2000, attempts: 23}} {
		verdict, _, err := assertions.Judge(s)
		if err != nil || verdict.Verdict != assertions.Pass {
			t.Fatalf("%+v is judged %v: %v", s, verdict, err)
		}
		judged := map[string]int64{}
		for _, result := range verdict.Invariants {
			judged[result.Name] = result.Judged
		}
		want := map[string]int64{
			"no-loss": int64(s.records), "bounded-retries": int64(s.records), "dlq-fidelity": int64(s.records / 50),
			"dlq-once":   int64(s.records / 50),
			"duplicates": int64(s.records - s.records/50), "ordering": int64(s.records - syntheticKeys),
		}
		for name, count := range want {
			if judged[name] != count {
				t.Errorf("%+v: %s judged %d of %d", s, name, judged[name], count)
			}
		}
	}
}

func TestSyntheticRunIsSortedByTime(t *testing.T) {
	events := synthetic{records: 1000, attempts: 2}.events()
	if !slices.IsSortedFunc(events, func(a, b history.Event) int { return int(a.Time - b.Time) }) {
		t.Error("the events are not sorted by time")
	}
}
