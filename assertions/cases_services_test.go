package assertions

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// The topics of the services in these tests: each has an input and a retry topic, and all share one dead-letter topic.
const (
	inOrders = int16(iota)
	retryOrders
	inBilling
	retryBilling
	sharedDLQ
)

// The services; each has one instance, of the same number.
const (
	orders = iota
	billing
)

// servicesBuilder is a hand-written history of services that share a dead-letter topic. Every topic has one partition.
type servicesBuilder struct {
	h      history.Header
	events []history.Event
	now    time.Duration
	op     int64
	logs   map[int16][]sharedEntry
	home   map[int32]int
	at     map[int32]place // the latest copy of a record
	tries  map[int32]int32
	commit map[int16]int64
}

// sharedEntry is the record that a topic holds at an offset.
type sharedEntry struct {
	record  int32
	service string
	claimed int16
}

func newServicesBuilder() *servicesBuilder {
	s := &servicesBuilder{logs: map[int16][]sharedEntry{}, home: map[int32]int{}, at: map[int32]place{},
		tries: map[int32]int32{}, commit: map[int16]int64{}}
	contract := *newBuilder().h.Contract()
	contract.Envelope = "hexkit"
	s.h = history.Header{
		Format: history.FormatVersion, RunID: "run", Scenario: "test", Records: 8, Instances: 2,
		Replay: true, Expect: history.Expect{DuplicateShare: -1, DrainLimit: time.Second},
	}
	for i, name := range []string{"orders", "billing"} {
		contract.Service = "run." + name
		s.h.Topics = append(s.h.Topics, history.Topic{Name: "run.input." + name, Role: history.RoleInput, Partitions: 1},
			history.Topic{Name: "retry-run." + name, Role: history.RoleInput, Partitions: 1})
		s.h.Consumers = append(s.h.Consumers, history.Consumer{
			Name: name, Group: "run." + name, Input: 2 * int16(i), ReplayTo: "retry-run." + name, First: i, Instances: 1,
			DLQ: sharedDLQ, Contract: contract,
		})
	}
	s.h.Topics = append(s.h.Topics, history.Topic{Name: "run.input.dlq", Role: history.RoleDLQ, Partitions: 1})
	s.phase(history.PhaseSetup)
	for service := range s.h.Consumers {
		instance := int16(service)
		s.put(history.KindInstanceStarting, func(e *history.Event) { e.Instance = instance })
		for topic := range int16(2) {
			s.put(history.KindAssigned, func(e *history.Event) {
				e.Instance, e.Topic, e.Partition, e.N = instance, 2*instance+topic, 0, 1
			})
		}
	}
	return s.phase(history.PhaseWarmup).phase(history.PhaseSteady)
}

func (s *servicesBuilder) put(kind history.Kind, fill func(*history.Event)) {
	s.now += ms
	e := history.New(kind, s.now)
	fill(&e)
	s.events = append(s.events, e)
}

func (s *servicesBuilder) phase(name string) *servicesBuilder {
	s.put(history.KindPhase, func(e *history.Event) { e.Text = name })
	return s
}

func (s *servicesBuilder) store(topic int16, one sharedEntry) place {
	s.logs[topic] = append(s.logs[topic], one)
	at := place{topic, 0, int64(len(s.logs[topic]) - 1)}
	if topic != sharedDLQ {
		s.at[one.record], s.tries[one.record] = at, 0
	}
	return at
}

// send puts a record into the service's input.
func (s *servicesBuilder) send(service int, record int32) *servicesBuilder {
	topic := s.h.Consumers[service].Input
	s.home[record] = service
	s.put(history.KindSend, func(e *history.Event) {
		e.Record, e.Topic, e.Partition, e.Aux, e.N, e.ValueHash, e.Outcome = record, topic, 0, int64(e.Time), record, 7,
			history.OutcomeSuccess
	})
	at := s.store(topic, sharedEntry{record: record})
	s.put(history.KindAcked, func(e *history.Event) {
		e.Record, e.Topic, e.Partition, e.Offset = record, topic, 0, at.offset
	})
	return s
}

// attempt is a call of the downstream by the service's instance, for the record's latest copy.
func (s *servicesBuilder) attempt(service int, record int32, outcome history.Outcome) *servicesBuilder {
	s.op++
	s.tries[record]++
	at := s.at[record]
	s.put(history.KindFetched, func(e *history.Event) {
		e.Instance, e.Topic, e.Partition, e.Offset, e.Aux = int16(service), at.topic, 0, at.offset, at.offset
	})
	fill := func(e *history.Event) {
		e.Op, e.Instance, e.Record, e.Topic, e.Partition, e.Offset, e.N = s.op, int16(service), record, at.topic, 0,
			at.offset, s.tries[record]
	}
	s.put(history.KindAttemptStart, fill)
	s.put(history.KindAttemptEnd, func(e *history.Event) { fill(e); e.Outcome = outcome })
	return s
}

// write is a produce with its answer; by is a service or the replay tool.
func (s *servicesBuilder) write(by int, topic int16, one sharedEntry, code int16) *servicesBuilder {
	s.op++
	fill := func(e *history.Event) {
		e.Op, e.Instance, e.Record, e.Topic, e.Partition, e.ValueHash = s.op, int16(by), one.record, topic, 0, 7
	}
	s.put(history.KindProduceRequest, fill)
	offset := int64(history.None)
	if code == 0 {
		offset = s.store(topic, one).offset
	}
	s.put(history.KindProduceResponse, func(e *history.Event) { fill(e); e.Code, e.Offset = code, offset })
	return s
}

// unanswered removes the answer to the latest write.
func (s *servicesBuilder) unanswered() *servicesBuilder {
	s.events = s.events[:len(s.events)-1]
	return s
}

// letter is a correct dead letter of the record by the service.
func (s *servicesBuilder) letter(service int, record int32) *servicesBuilder {
	return s.letterWithName(service, record, s.h.Consumers[service].Contract.Service)
}

func (s *servicesBuilder) letterWithName(service int, record int32, name string) *servicesBuilder {
	return s.write(service, sharedDLQ, sharedEntry{record, name, s.h.Consumers[s.home[record]].Input}, 0)
}

// commits makes the service commit everything in the topics that it reads.
func (s *servicesBuilder) commits(service int) *servicesBuilder {
	for _, topic := range []int16{s.h.Consumers[service].Input, s.h.TopicIndex(s.h.Consumers[service].ReplayTo)} {
		offset := int64(len(s.logs[topic]))
		if offset == s.commit[topic] {
			continue
		}
		s.op++
		fill := func(e *history.Event) {
			e.Op, e.Instance, e.Topic, e.Partition, e.Offset, e.N = s.op, int16(service), topic, 0, offset, 1
		}
		s.put(history.KindCommitRequest, fill)
		s.put(history.KindCommitResponse, fill)
		s.commit[topic] = offset
	}
	return s
}

// succeeds and fails take a record of the service to its end.
func (s *servicesBuilder) succeeds(service int, record int32) *servicesBuilder {
	return s.send(service, record).attempt(service, record, history.OutcomeSuccess).commits(service)
}

func (s *servicesBuilder) permanent(service int, record int32) *servicesBuilder {
	return s.send(service, record).attempt(service, record, history.OutcomePermanent)
}

func (s *servicesBuilder) fails(service int, record int32) *servicesBuilder {
	return s.permanent(service, record).letter(service, record).commits(service)
}

// replayed selects the record's dead letters and writes each of them to the topic.
func (s *servicesBuilder) replayed(record int32, topic int16) *servicesBuilder {
	for offset, one := range s.logs[sharedDLQ] {
		if one.record != record {
			continue
		}
		s.put(history.KindReplaySelected, func(e *history.Event) {
			e.Record, e.Topic, e.Partition, e.Offset = record, sharedDLQ, 0, int64(offset)
		})
		s.write(history.Replayer, topic, sharedEntry{record: record}, 0)
	}
	return s
}

// audit reads every topic to its end, as before a replay.
func (s *servicesBuilder) audit() *servicesBuilder {
	for topic := range int16(len(s.h.Topics)) {
		s.put(history.KindAuditStart, func(e *history.Event) { e.Topic = topic })
		for offset, one := range s.logs[topic] {
			s.put(history.KindAuditRecord, func(e *history.Event) {
				e.Topic, e.Partition, e.Offset, e.Record, e.ValueHash, e.Text = topic, 0, int64(offset), one.record, 7, one.service
				if topic == sharedDLQ {
					e.Claim = &history.Claim{Topic: one.claimed, Partition: history.None, Offset: history.None,
						Attempts: history.None}
				}
			})
		}
	}
	return s
}

// judged ends the history and judges it.
func (s *servicesBuilder) judged(t *testing.T) *Verdict {
	t.Helper()
	s.phase(history.PhaseDrain)
	s.now += s.h.Expect.DrainLimit
	s.phase(history.PhaseAudit).audit()
	for topic := range int16(len(s.h.Topics)) {
		s.put(history.KindAuditOffsets, func(e *history.Event) {
			e.Topic, e.Partition, e.Offset, e.Aux = topic, 0, int64(len(s.logs[topic])), history.None
			if committed, known := s.commit[topic]; known {
				e.Aux = committed
			}
		})
	}
	s.phase(history.PhaseSeal)
	verdict, _, err := Judge(history.FromEvents(s.h, s.events))
	if err != nil {
		t.Fatal(err)
	}
	return verdict
}

// anomaliesOf returns "service/invariant: anomaly" for each finding, sorted.
func anomaliesOf(v *Verdict) []string {
	var found []string
	for _, result := range v.Invariants {
		for _, anomaly := range result.Anomalies {
			found = append(found, result.Name+": "+anomaly.Name)
		}
	}
	slices.Sort(found)
	return found
}

// servicesCase is a history of services with the expected anomalies.
type servicesCase struct {
	name string
	tell func(*servicesBuilder)
	want []string
}

func servicesCases() []servicesCase {
	return append(servicesAlone(), servicesCrossing()...)
}

// servicesAlone are histories in which each service processes only its own records.
func servicesAlone() []servicesCase {
	return []servicesCase{
		{"both succeed and dead-letter", func(s *servicesBuilder) {
			s.succeeds(orders, 0).succeeds(billing, 1).fails(orders, 2).fails(billing, 3)
		}, nil},
		{"dead letters that were refused are written again", func(s *servicesBuilder) {
			s.permanent(orders, 0).write(orders, sharedDLQ, sharedEntry{record: 0}, 19).letter(orders, 0).commits(orders).fails(
				billing, 1)
		}, nil},
		{"each dead letter goes back to its own service", func(s *servicesBuilder) {
			s.fails(orders, 0).fails(billing, 1).audit().phase(history.PhaseReplay).replayed(0, retryOrders).replayed(1,
				retryBilling)
			s.attempt(orders, 0, history.OutcomeSuccess).commits(orders).attempt(billing, 1, history.OutcomeSuccess).commits(
				billing)
		}, nil},
		{"one that fails again makes one new dead letter", func(s *servicesBuilder) {
			s.fails(billing, 0).succeeds(orders, 1).audit().phase(history.PhaseReplay).replayed(0, retryBilling)
			s.attempt(billing, 0, history.OutcomePermanent).letter(billing, 0).commits(billing)
		}, nil},
		{"a dead letter names the other service", func(s *servicesBuilder) {
			s.fails(orders, 0).permanent(billing, 1).letterWithName(billing, 1, "run.orders").commits(billing)
		}, []string{"billing/dlq-fidelity: metadata-wrong"}},
		{"a dead letter says that it came from the other's topic", func(s *servicesBuilder) {
			s.succeeds(orders, 0).permanent(billing, 1).write(billing, sharedDLQ, sharedEntry{1, "run.billing", inOrders},
				0).commits(billing)
		}, []string{"billing/dlq-fidelity: metadata-wrong"}},
		{"one commits before its dead letter, while the other's is acknowledged", func(s *servicesBuilder) {
			s.permanent(orders, 0).permanent(billing, 1).letter(billing, 1).commits(orders).letter(orders, 0).commits(billing)
		}, []string{"orders/commit-after-dlq: commit-before-dlq"}},
		{"one loses a record", func(s *servicesBuilder) {
			s.fails(orders, 0).permanent(billing, 1).commits(billing)
		}, []string{"billing/commit-after-outcome: commit-past-unfinished", "billing/no-loss: lost"}},
		{"one dead-letters twice", func(s *servicesBuilder) {
			s.permanent(orders, 0).letter(orders, 0).letter(orders, 0).commits(orders).fails(billing, 1)
		}, []string{"orders/dlq-once: dlq-duplicate"}},
		{"a dead letter that was selected is not put back", func(s *servicesBuilder) {
			s.fails(orders, 0).fails(billing, 1).audit().phase(history.PhaseReplay).replayed(0, retryOrders)
			s.put(history.KindReplaySelected, func(e *history.Event) {
				e.Record, e.Topic, e.Partition, e.Offset = 1, sharedDLQ, 0, 1
			})
			s.attempt(orders, 0, history.OutcomeSuccess).commits(orders)
		}, []string{"billing/replay-round-trip: replay-lost"}},
		{"a dead letter that was not selected is put back", func(s *servicesBuilder) {
			s.fails(orders, 0).fails(billing, 1).audit().phase(history.PhaseReplay).replayed(0, retryOrders)
			s.attempt(orders, 0, history.OutcomeSuccess).commits(orders)
			s.write(history.Replayer, retryBilling, sharedEntry{record: 1}, 0).attempt(billing, 1,
				history.OutcomeSuccess).commits(billing)
		}, []string{"billing/replay-round-trip: selected-wrong"}},
	}
}

// servicesCrossing are histories in which a service obtains a record of the other.
func servicesCrossing() []servicesCase {
	return []servicesCase{
		{"a dead letter goes back to the other service, which processes it", func(s *servicesBuilder) {
			s.fails(orders, 0).succeeds(billing, 1).audit().phase(history.PhaseReplay).replayed(0, retryBilling)
			s.attempt(billing, 0, history.OutcomeSuccess).commits(billing)
		}, []string{"orders/replay-round-trip: replay-wrong-topic"}},
		{"a dead letter goes back to the other service, which dead-letters it in its own name", func(s *servicesBuilder) {
			s.fails(orders, 0).succeeds(billing, 1).audit().phase(history.PhaseReplay).replayed(0, retryBilling)
			s.attempt(billing, 0, history.OutcomePermanent).letter(billing, 0).commits(billing)
		}, []string{"orders/replay-round-trip: replay-wrong-topic"}},
		{"a dead letter goes back to the other service, which dead-letters it twice", func(s *servicesBuilder) {
			s.fails(orders, 0).succeeds(billing, 1).audit().phase(history.PhaseReplay).replayed(0, retryBilling)
			s.attempt(billing, 0, history.OutcomePermanent).letter(billing, 0).letter(billing, 0).commits(billing)
		}, []string{"orders/replay-round-trip: replay-wrong-topic"}},
		{"a dead letter goes back to the other service, which processes it twice", func(s *servicesBuilder) {
			s.fails(orders, 0).succeeds(billing, 1).audit().phase(history.PhaseReplay).replayed(0, retryBilling)
			s.attempt(billing, 0, history.OutcomeSuccess).attempt(billing, 0, history.OutcomeSuccess).commits(billing)
		}, []string{"orders/replay-round-trip: replay-wrong-topic"}},
		{"goes back to the other service, whose own dead letter of it is not answered", func(s *servicesBuilder) {
			s.fails(orders, 0).succeeds(billing, 1).audit().phase(history.PhaseReplay).replayed(0, retryBilling)
			s.attempt(billing, 0, history.OutcomePermanent).letter(billing, 0).unanswered().commits(billing)
		}, []string{"orders/replay-round-trip: replay-wrong-topic"}},
		{"a dead letter names the other service, and goes back to it", func(s *servicesBuilder) {
			s.permanent(orders, 0).letterWithName(orders, 0, "run.billing").commits(orders).succeeds(billing, 1).audit()
			s.phase(history.PhaseReplay).replayed(0, retryBilling).attempt(billing, 0, history.OutcomeSuccess).commits(billing)
		}, []string{"orders/dlq-fidelity: metadata-wrong", "orders/replay-round-trip: replay-wrong-topic"}},
		{"a service takes what was put back to the other", func(s *servicesBuilder) {
			s.fails(orders, 0).succeeds(billing, 1).audit().phase(history.PhaseReplay).replayed(0, retryOrders)
			s.attempt(billing, 0, history.OutcomeSuccess).attempt(orders, 0, history.OutcomeSuccess).commits(orders)
		}, []string{"service-separation: another-services-record"}},
		{"a service dead-letters a record of the other, which dead-letters it, too", func(s *servicesBuilder) {
			s.permanent(orders, 0).letter(orders, 0).commits(orders).letter(billing, 0).succeeds(billing, 1)
		}, []string{"service-separation: another-services-record"}},
		{"a service processes the records of the other", func(s *servicesBuilder) {
			s.send(orders, 0).attempt(billing, 0, history.OutcomeSuccess).attempt(orders, 0, history.OutcomeSuccess).commits(
				orders).succeeds(billing, 1)
		}, []string{"service-separation: another-services-record"}},
		{"a dead letter of the other's does not stand for a dead letter of its own", func(s *servicesBuilder) {
			s.permanent(orders, 0).letter(billing, 0).commits(orders).succeeds(billing, 1)
		}, []string{"orders/commit-after-outcome: commit-past-unfinished", "orders/no-loss: lost",
			"service-separation: another-services-record"}},
	}
}

func TestCasesOfServices(t *testing.T) {
	for _, one := range servicesCases() {
		t.Run(one.name, func(t *testing.T) {
			s := newServicesBuilder()
			one.tell(s)
			verdict := s.judged(t)
			if found := anomaliesOf(verdict); !slices.Equal(found, one.want) {
				t.Errorf("found %q, want %q\n%s", found, one.want, show(verdict))
			}
			for _, r := range verdict.Invariants {
				checkCounterexamples(t, &r)
			}
		})
	}
}

// Every service is judged by its own contract, and something is judged for each.
func TestEachServiceIsJudgedByItsOwnContract(t *testing.T) {
	s := newServicesBuilder()
	s.h.Consumers[billing].Contract.MaxAttempts = 1
	s.fails(orders, 0).send(billing, 1).attempt(billing, 1, history.OutcomeTransient).letter(billing, 1).commits(billing)
	s.send(orders, 2).attempt(orders, 2, history.OutcomeTransient).letter(orders, 2).commits(orders)
	verdict := s.judged(t)
	if found, want := anomaliesOf(verdict), []string{"orders/bounded-retries: under-retried",
		"orders/classification: premature-dead-letter"}; !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
	for _, name := range []string{serviceSeparation, "orders/no-loss", "billing/no-loss", "orders/dlq-fidelity",
		"billing/dlq-fidelity", "billing/commit-after-dlq"} {
		if one := resultOf(t, verdict, name); one.Judged == 0 {
			t.Errorf("%s judged nothing: %+v", name, one)
		}
	}
	if slices.ContainsFunc(verdict.Invariants, func(r Result) bool { return r.Status == NotApplicable }) {
		t.Error("what does not apply to a service is told of it")
	}
}

// If a scenario requires only some invariants, the services are held to these.
func TestServicesAreHeldToWhatIsExpected(t *testing.T) {
	for _, test := range []struct{ expected, judged []string }{
		{[]string{"no-loss"}, []string{"orders/no-loss", "billing/no-loss"}},
		{[]string{serviceSeparation}, []string{serviceSeparation}},
	} {
		s := newServicesBuilder()
		s.h.Expect.Invariants = test.expected
		var have []string
		for _, one := range s.succeeds(orders, 0).succeeds(billing, 1).judged(t).Invariants {
			have = append(have, one.Name)
		}
		if !reflect.DeepEqual(have, test.judged) {
			t.Errorf("%v: judged are %v", test.expected, have)
		}
	}
}

// A header with dangling references is rejected.
func TestServicesThatAreNotThere(t *testing.T) {
	for _, spoil := range []func(*history.Consumer){
		func(s *history.Consumer) {
			s.Input = 9
		}, func(s *history.Consumer) { s.ReplayTo = "nowhere" }, func(s *history.Consumer) { s.First = -1 },
		func(s *history.Consumer) { s.Instances = -1 },
	} {
		s := newServicesBuilder()
		spoil(&s.h.Consumers[billing])
		if _, _, err := Judge(history.FromEvents(s.h, s.events)); err == nil {
			t.Errorf("services %+v are judged", s.h.Consumers)
		}
	}
}

// amidst adds another service to the history of one consumer. The other service is correct and writes to the same
// dead-letter topic.
func amidst(source history.Source) history.Source {
	h := source.Header()
	first, number := int16(len(h.Topics)), int32(h.Records)
	one := h.Consumers[0]
	one.Name, one.Instances = "orders", 2
	if one.ReplayTo == "" {
		one.ReplayTo = h.Topics[input].Name
	}
	h.Topics = append(slices.Clone(h.Topics), history.Topic{Name: "in.billing", Role: history.RoleInput, Partitions: 1},
		history.Topic{Name: "retry-billing", Role: history.RoleInput, Partitions: 1})
	h.Consumers = []history.Consumer{one, {Name: "billing", Group: "billing", First: 2, Instances: 1, DLQ: one.DLQ,
		Contract: one.Contract, Input: first, ReplayTo: "retry-billing"}}
	h.Records, h.Instances = h.Records+1, 3
	var events []history.Event
	_ = source.Each(func(e *history.Event) error { // it is in memory
		events = append(events, *e)
		switch {
		case e.Kind == history.KindPhase && e.Text == history.PhaseSteady:
			events = append(events, neighbour(e.Time, first, number)...)
		case e.Kind == history.KindPhase && e.Text == history.PhaseSeal:
			events = append(events[:len(events)-1], append(neighbourAudit(e.Time-ms/2, first, number), *e)...)
		}
		return nil
	})
	return history.FromEvents(h, events)
}

// neighbour returns the events of the other service: it fails a record for good, dead-letters it and commits, with a
// microsecond per step.
func neighbour(at time.Duration, topic int16, number int32) []history.Event {
	const op = 1 << 20
	step := func(kind history.Kind, fill func(*history.Event)) history.Event {
		at += time.Microsecond
		e := history.New(kind, at)
		e.Topic, e.Partition, e.Record = topic, 0, number
		fill(&e)
		return e
	}
	instance := func(fill func(*history.Event)) func(*history.Event) {
		return func(e *history.Event) { e.Instance = 2; fill(e) }
	}
	letter := instance(func(e *history.Event) { e.Op, e.Topic, e.Offset, e.ValueHash = op+1, dlq, 1000, 7 })
	commit := instance(func(e *history.Event) { e.Op, e.Record, e.Offset, e.N = op+2, history.None, 1, 1 })
	return []history.Event{
		step(history.KindInstanceStarting, instance(func(e *history.Event) {
			e.Topic, e.Record = history.None, history.None
		})),
		step(history.KindAssigned, instance(func(e *history.Event) { e.N, e.Record = 1, history.None })),
		step(history.KindSend, func(e *history.Event) {
			e.Aux, e.N, e.ValueHash, e.Outcome = int64(e.Time), 0, 7, history.OutcomePermanent
		}),
		step(history.KindAcked, func(e *history.Event) { e.Offset = 0 }),
		step(history.KindFetched, instance(func(e *history.Event) { e.Offset, e.Aux, e.Record = 0, 0, history.None })),
		step(history.KindAttemptStart, instance(func(e *history.Event) { e.Op, e.Offset, e.N = op, 0, 1 })),
		step(history.KindAttemptEnd, instance(func(e *history.Event) {
			e.Op, e.Offset, e.N, e.Outcome = op, 0, 1, history.OutcomePermanent
		})),
		step(history.KindProduceRequest, letter), step(history.KindProduceResponse, letter),
		step(history.KindCommitRequest, commit), step(history.KindCommitResponse, commit),
		step(history.KindInstanceSignal, instance(func(e *history.Event) {
			e.Topic, e.Record, e.Text = history.None, history.None, "TERM"
		})),
		step(history.KindInstanceExited, instance(func(e *history.Event) {
			e.Topic, e.Record, e.Flags = history.None, history.None, history.Expected
		})),
	}
}

// neighbourAudit returns the audit's findings of the other service's records.
func neighbourAudit(at time.Duration, topic int16, number int32) []history.Event {
	start, record, offsets := history.New(history.KindAuditStart, at), history.New(history.KindAuditRecord, at+1),
		history.New(history.KindAuditOffsets, at+2)
	start.Topic, record.Topic, offsets.Topic = topic, topic, topic
	record.Partition, record.Offset, record.Record, record.ValueHash = 0, 0, number, 7
	offsets.Partition, offsets.Offset, offsets.Aux = 0, 1, 1
	letter := record
	letter.Topic, letter.Offset, letter.Flags = dlq, 1000, history.FailureHeaders
	letter.Claim = &history.Claim{Topic: topic, Partition: 0, Offset: 0, Attempts: 1}
	return []history.Event{start, record, letter, offsets}
}

// All findings about a consumer that runs alone remain, for it only, if another service shares its dead-letter topic.
func TestAServiceIsJudgedAsIfItWereAlone(t *testing.T) {
	for _, one := range slices.Concat(
		plainCases(), commitCases(), lossCases(), haltCases(), retryCases(), rewindCases(), givenUpCases(),
		classCases(), backoffCases(),
		letterCases(), repeatCases(), orderCases(), replayCases(),
		memberCases(), aloneCases(), hiddenCases(), stopCases(), livenessCases(), metadataCases(), placeCases(),
	) {
		t.Run(one.name, func(t *testing.T) {
			source := one.tell(newBuilder())
			if source.Header().Consumers[0].Contract.Retry == history.RetryTopics {
				return // services have none: a scenario with both is rejected
			}
			alone, beside := judged(t, source), judged(t, amidst(source))
			want := anomaliesOf(alone)
			for i := range want {
				want[i] = "orders/" + want[i]
			}
			if have := anomaliesOf(beside); !slices.Equal(have, want) {
				t.Errorf("found %q, want %q\n%s", have, want, show(beside))
			}
			for _, one := range alone.Invariants {
				if one.Status == NotApplicable {
					continue
				}
				if own := resultOf(t, beside, "orders/"+one.Name); own.Status != one.Status || own.Judged != one.Judged {
					t.Errorf("%s: %s of %d, and alone %s of %d", own.Name, own.Status, own.Judged, one.Status, one.Judged)
				}
			}
		})
	}
}

// A dead letter is wrong since an audit found it first, so that its replay follows from it, although a later audit
// found it again.
func TestAWrongDeadLetterIsOlderThanItsReplay(t *testing.T) {
	s := newServicesBuilder()
	s.permanent(orders, 0).letterWithName(orders, 0, "run.billing").commits(orders).succeeds(billing, 1).audit()
	s.now += time.Second // farther apart than stamps may be wrong
	s.phase(history.PhaseReplay).replayed(0, retryBilling).attempt(billing, 0, history.OutcomeSuccess).commits(billing)
	want := []string{"orders/dlq-fidelity: metadata-wrong <- orders/replay-round-trip: replay-wrong-topic"}
	if got := outline(s.judged(t).Roots); !slices.Equal(got, want) {
		t.Errorf("the roots are %q, want %q", got, want)
	}
}
