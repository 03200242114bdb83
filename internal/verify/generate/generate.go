package generate

// This file sets up the simulation: the drawn contract, the queue of tasks, the phases of the run.

import (
	"container/heap"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const (
	ms = time.Millisecond

	inputTopic  = int16(0)
	dlqTopic    = int16(1)
	retryTopic  = int16(2)
	secondInput = int16(3)

	partitions = 3
	// drainLimit is the length of the drain of a generated run; quietLimit is how long the drain may pass without
	// progress.
	drainLimit = 10 * time.Second
	quietLimit = 4 * time.Second
	// eventLimit ends a simulation that would not end by itself.
	eventLimit = 20_000
)

// task is a scheduled action.
type task struct {
	at  time.Duration
	seq int64
	do  func()
}

type tasks []task

func (q tasks) Len() int { return len(q) }
func (q tasks) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q tasks) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *tasks) Push(x any)   { *q = append(*q, x.(task)) }
func (q *tasks) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}

// simulation is one run.
type simulation struct {
	Choices
	h     *History
	queue tasks
	seq   int64
	now   time.Duration
	op    int64
	calm  bool
	// troubled reports whether requests may fail now.
	troubled bool
	// If linkDown is set, requests to the downstream stub and its answers are lost. If dlqDown is set, no dead letter
	// is acknowledged.
	linkDown, dlqDown bool
	// refusal is the error code of refused produces: one that clients retry (19), or one at which they give up at once
	// (29).
	refusal int16
	// manner is how the consumer treats waiting records. If steady is set, all its waits are equal. Of ten waits, tardy
	// are longer than usual.
	manner manner
	steady bool
	tardy  int
	// If unnamed is set, some records have a body that the downstream stub cannot identify. If vague is set, attempts
	// do not name their position either.
	unnamed, vague bool
	// halting is how the consumer halts at a record that it can't read, "" if it does not. falls counts how often it
	// ended.
	halting halting
	falls   int
	// rebalances counts the assignments of partitions.
	rebalances int

	// others are the downstreams that do not decide. calls is the number of calls in an attempt that fails, 0 for one, and
	// made the number that the consumer's client makes.
	others      []*otherDownstream
	calls, made int
	// spanned is the number of calls in an attempt, 0 if each call is one. If resumes is set, the consumer begins the next
	// attempt with the call that was refused.
	spanned int
	resumes bool
	// bulk is how the consumer makes calls for several records, or nil. calling marks the ids of those under way.
	bulk    *bulk
	calling []bool

	// inputs are the topics to which the workload sends, where there are several.
	inputs []int16
	// interval is the time between transactions, or 0 if there are none.
	interval time.Duration
	// If twice is set, the workload produces some records twice. If recognises is set, the consumer commits a record
	// unprocessed whose id has come to its end before.
	twice, recognises bool
	// If refusable is set, the consumer may process or refuse some records.
	refusable bool

	// store is the dead-letter store, or nil.
	store *storeSide

	records   []*planned
	logs      map[spot]*topicLog
	processes []*process
	producer  int64
}

// planned is a record of the workload.
type planned struct {
	topic                  int16 // that of the input to which the workload sends it
	number, partition, key int32
	outcome                history.Outcome
	failures               int // attempts that fail before one succeeds
	tries                  int32
	spent                  int // of the failures, in calls for several records
	// flags are set for a record whose body the downstream stub cannot identify: a tombstone or garbage.
	// Or the consumer may process or refuse it, and refuses it if refused is set.
	flags   history.Flags
	refused bool
	offset  int64
	// twice: the workload produces it twice. over: one of its copies has come to its end.
	twice, over bool
	// nodes holds the record's plan at each node of a graph.
	nodes []*planned
	// elsewhere holds what becomes of its calls at the downstreams that do not decide.
	elsewhere []plannedCalls
}

// Unnamed makes a correct history in which some records have a body that the downstream stub cannot identify. In some
// histories the attempts do not name their record.
func Unnamed(c Choices) *History {
	s := &simulation{Choices: c, h: &History{}, logs: map[spot]*topicLog{}, unnamed: true}
	s.calm, s.vague = !chance(c, 2), chance(c, 8)
	s.h.Header = s.drawHeader()
	return s.run()
}

// Consumer makes a correct history.
func Consumer(c Choices) *History {
	s := &simulation{Choices: c, h: &History{}, logs: map[spot]*topicLog{}}
	s.calm = !chance(c, 2)
	s.h.Header = s.drawHeader()
	return s.run()
}

// Inputs makes a correct history of a consumer of several input topics. It may have more instances than partitions, so
// that some of them wait for another one's.
func Inputs(c Choices) *History {
	s := &simulation{Choices: c, h: &History{}, logs: map[spot]*topicLog{}, inputs: []int16{inputTopic, secondInput}}
	s.calm = !chance(c, 2)
	s.h.Header = s.drawHeader()
	h := &s.h.Header
	h.Topics = append(h.Topics, history.Topic{Name: "generated.more", Role: history.RoleInput, Partitions: partitions})
	if chance(c, 2) {
		h.Instances = partitions + 1 + c.Intn(2)
		h.Consumers[0].Instances = h.Instances
	}
	s.produceTwice()
	return s.run()
}

// halting is a way to halt at a record that one can't read.
type halting string

const (
	haltPartition halting = "partition" // nothing behind it is begun, and the other partitions go on
	haltProcess   halting = "process"   // nothing in other partitions is begun, either
	haltExit      halting = "exit"      // the process ends, and is started again
)

// Halting makes a correct history of a consumer that halts at records that it can't read.
func Halting(c Choices) *History {
	s := &simulation{Choices: c, h: &History{}, logs: map[spot]*topicLog{}, unnamed: true}
	s.calm = !chance(c, 2)
	s.h.Header = s.drawHeader()
	s.contract().Poison = history.PoisonHalt
	s.halting = pick(c, haltPartition, haltProcess, haltExit)
	s.produceTwice()
	s.recognises = s.twice && s.h.Header.Instances == 2
	return s.run()
}

// Refusable makes a correct history in which the consumer processes or refuses some records, as it may.
func Refusable(c Choices) *History {
	s := &simulation{Choices: c, h: &History{}, logs: map[spot]*topicLog{}, refusable: true}
	s.calm = !chance(c, 2)
	s.h.Header = s.drawHeader()
	s.h.Header.Replay, s.h.Header.Refusable = false, true
	if s.contract().HasDLQ() && chance(c, 4) {
		s.contract().Poison = history.PoisonHalt
		s.halting = pick(c, haltPartition, haltProcess, haltExit)
	}
	return s.run()
}

// run goes through the phases of a run.
func (s *simulation) run() *History {
	s.h.Calm = s.calm && !s.vague && s.halting != haltExit
	s.setUp()
	s.phase(history.PhaseWarmup)
	s.later(5 * ms)
	s.phase(history.PhaseSteady)
	s.troubled = !s.calm
	s.send()
	end := s.now + 200*ms
	if !s.calm {
		end = s.disturb()
	}
	s.runUntil(end)
	s.troubled = false
	s.phase(history.PhaseHeal)
	s.later(5 * ms)
	s.phase(history.PhaseDrain)
	s.drain()
	switch {
	case s.h.Header.Replay && s.graph() != nil:
		s.replayRounds()
	case s.h.Header.Replay:
		s.replay()
	}
	s.phase(history.PhaseAudit)
	s.stopAll()
	if s.store != nil {
		s.store.stop()
	}
	s.audit(s.topics()...)
	s.auditOffsets()
	s.phase(history.PhaseSeal)
	s.h.sampled()
	// Whatever the consumer does with logical failures is right where the contract leaves it open. This is not drawn, so
	// that the seeds that disagreed once still give the same histories.
	s.contract().LogicalEither = len(s.h.Events)%5 == 0
	// In some histories its log counts as not seen, whatever is in it. That is not drawn either.
	s.contract().ProcessUnseen = len(s.h.Events)%7 == 0
	return s.h
}

func (s *simulation) drawHeader() history.Header {
	c := history.Contract{
		MaxAttempts: 1 + s.Intn(4), Counter: history.CounterMemory, Retry: history.RetryInPlace,
		Retryable: []history.Outcome{history.OutcomeTransient, history.OutcomeRateLimited, history.OutcomeTimeout,
			history.OutcomeReset},
		Permanent: []history.Outcome{history.OutcomePermanent}, Logical: []history.Outcome{history.OutcomeLogical},
		LogicalDeadLetters: chance(s, 3), Ordering: pick(s, history.OrderingNone, history.OrderingKey,
			history.OrderingPartition),
		Envelope: "plain", KeepsHeaders: !chance(s, 4), SamePartition: chance(s, 3),
		OnFailure: pick(s, history.OnFailureRetry, history.OnFailureHalt),
		StopGrace: 10 * time.Second, SkipsTombstones: chance(s, 3),
		Backoff: history.Backoff{
			Initial: pick(s, 40*ms, 100*ms), Multiplier: pick(s, 2.0, 1, 3), Cap: pick(s, 0, 150*ms, 300*ms),
			Jitter: pick(s, 20*ms, 0), Late: 50 * ms,
		},
	}
	if chance(s, 3) {
		c.Backoff.Late, c.Backoff.Usual = time.Second, 20*ms // applies if the contract leaves late open
	}
	if chance(s, 8) {
		c.Backoff = history.Backoff{}
	}
	c.IgnoresRetryAfter = chance(s, 4)
	c.SurfacedWithin = pick(s, 0, 3*time.Second, 4*time.Second)
	s.refusal = pick[int16](s, 19, 29)
	switch s.Intn(9) {
	case 5:
		c.DeadLetters, c.Envelope = true, "" // no metadata is promised
	case 6:
		c.Envelope = "other" // a dialect whose dead letters name the topic alone
	case 7:
		c.Envelope = ""
	}
	if chance(s, 5) && c.HasDLQ() {
		c.Retry, c.Counter, c.Ordering = history.RetryTopics, history.CounterHeader, history.OrderingNone
	}
	records, instances := 4+s.Intn(9), 1+s.Intn(3)
	if c.HasDLQ() { // not drawn, so that the seeds that disagreed once still give the same histories
		c.Poison = []history.Poison{"", history.PoisonDeadLetter, history.PoisonSkip}[records%3]
	}
	return history.Header{
		Format: history.FormatVersion, RunID: "generated", Scenario: "generated", Rerun: "dlqbench prove",
		Records: records, Instances: instances, Replay: c.HasDLQ() && chance(s, 5),
		Consumers: []history.Consumer{{Input: inputTopic, DLQ: dlqTopic, Instances: instances, Contract: c}},
		Topics: []history.Topic{
			{Name: "generated.in", Role: history.RoleInput, Partitions: partitions},
			{Name: "generated.dlq", Role: history.RoleDLQ, Partitions: partitions},
			{Name: "generated.retry", Role: history.RoleRetry, Partitions: partitions},
		},
		Expect: history.Expect{DuplicateShare: -1, Patience: quietLimit},
	}
}

func (s *simulation) contract() *history.Contract { return s.h.Header.Contract() }

// at schedules an action for the given time, or for the earliest possible time after it.
func (s *simulation) at(when time.Duration, do func()) {
	s.seq++
	heap.Push(&s.queue, task{when, s.seq, do})
}

func (s *simulation) after(wait time.Duration, do func()) { s.at(s.now+wait, do) }

// lag is the latency of a message, which may be zero.
func (s *simulation) lag() time.Duration { return time.Duration(s.Intn(4)) * ms }

func (s *simulation) runUntil(end time.Duration) {
	for len(s.queue) > 0 && s.queue[0].at <= end && len(s.h.Events) < eventLimit {
		next := heap.Pop(&s.queue).(task)
		s.now = max(s.now, next.at)
		next.do()
	}
	s.now = max(s.now, end)
}

func (s *simulation) later(wait time.Duration) { s.runUntil(s.now + wait) }

// instant advances the clock by a minimal step, so that related actions never share a time, such as those of a process
// before and after it loses a partition.
func (s *simulation) instant() { s.now += brief }

// event returns an event with the current time.
func (s *simulation) event(kind history.Kind) history.Event { return history.New(kind, s.now) }

func (s *simulation) put(e history.Event) { s.h.Events = append(s.h.Events, e) }

func (s *simulation) nextOp() int64 {
	s.op++
	return s.op
}

func (s *simulation) phase(name string) {
	e := s.event(history.KindPhase)
	e.Text = name
	s.put(e)
}

func (s *simulation) setUp() {
	// Not drawn, so that the seeds that disagreed once still give the same histories.
	s.h.Header.Topics[inputTopic].Retries = s.contract().Retry == history.RetryTopics && s.h.Header.Records%4 == 0
	s.phase(history.PhaseSetup)
	for topic := range s.h.Header.Topics {
		for p := range int32(partitions) {
			s.logs[spot{int16(topic), p}] = newTopicLog()
		}
	}
	for i := range s.h.Header.Instances {
		p := &process{simulation: s, instance: int16(i), node: s.nodeOf(i), owned: map[spot]*assignment{}, dead: true}
		s.processes = append(s.processes, p)
		p.start()
		s.later(ms)
	}
	for _, at := range s.consumed() {
		readers := s.readers(at)
		s.give(readers[int(at.partition)%len(readers)], at)
	}
}

// consumed lists the partitions that the group reads.
func (s *simulation) consumed() []spot {
	var topics []int16
	for _, one := range s.nodes() {
		topics = append(topics, one.Input)
	}
	if len(s.inputs) > 1 {
		topics = append(topics, s.inputs[1:]...)
	}
	if s.contract().Retry == history.RetryTopics {
		topics = append(topics, retryTopic)
	}
	var all []spot
	for _, topic := range topics {
		for p := range int32(partitions) {
			all = append(all, spot{topic, p})
		}
	}
	return all
}

// send has the workload send its records at drawn times.
func (s *simulation) send() {
	outcomes := []history.Outcome{
		history.OutcomeSuccess, history.OutcomeTransient, history.OutcomeExhausted, history.OutcomePermanent,
		history.OutcomeLogical,
		history.OutcomeSuccess, history.OutcomeTimeout, history.OutcomeReset, history.OutcomeRateLimited,
	}
	at := s.now
	for number := range int32(s.h.Header.Records) {
		r := &planned{
			number: number, partition: int32(s.Intn(partitions)), key: int32(s.Intn(3)) - 1, outcome: pick(s, outcomes...),
			failures: 1 + s.Intn(2),
		}
		switch {
		case s.unnamed && chance(s, 3):
			r.flags, r.outcome = pick(s, history.Garbage, history.Tombstone), history.OutcomeUnknownID
		case !s.unnamed && s.contract().SkipsTombstones && chance(s, 6):
			r.flags = history.Tombstone
		case s.refusable && chance(s, 2):
			r.flags, r.refused = history.Refusable, s.contract().HasDLQ() && chance(s, 2)
		}
		r.twice = s.twice && r.flags == 0 && chance(s, 3)
		if len(s.inputs) > 1 {
			r.topic = pick(s, s.inputs...)
		}
		s.planNodes(r, outcomes)
		s.planOthers(r)
		s.records = append(s.records, r)
		at += time.Duration(s.Intn(12)) * ms
		s.at(at, func() { s.sendOne(r) })
	}
	s.runUntil(at)
}

func (s *simulation) sendOne(r *planned) {
	e := s.event(history.KindSend)
	e.Record, e.Topic, e.Partition, e.N, e.Outcome, e.Aux = r.number, r.topic, r.partition, r.key, r.outcome,
		int64(s.now)
	e.KeyHash, e.ValueHash, e.HeadersHash, e.HeaderCount = r.keyHash(), r.valueHash(), headersHash, 2
	e.Flags = r.flags
	s.put(e)
	r.offset = s.arrive(r, 0)
	if r.twice {
		e.Flags |= history.Repeated
		s.put(e)
		s.arrive(r, history.Repeated)
	}
}

// arrive writes a record to the input and has it acknowledged.
func (s *simulation) arrive(r *planned, flags history.Flags) int64 {
	at := spot{r.topic, r.partition}
	offset := int64(len(s.logs[at].entries))
	s.append(at, entry{record: r.number, origin: offset})
	s.after(s.lag(), func() {
		e := s.event(history.KindAcked)
		e.Record, e.Topic, e.Partition, e.Offset, e.Flags = r.number, r.topic, r.partition, offset, flags
		if !s.calm && chance(s, 20) {
			e.Code, e.Offset = 7, history.None
		}
		s.put(e)
	})
	return offset
}

// kind is the kind of a record, as the consumer takes it.
func (r *planned) kind() history.Flags {
	switch {
	case r.refused:
		return history.Garbage
	case r.flags.Has(history.Refusable):
		return 0
	}
	return r.flags
}

const headersHash = uint64(77)

func (r *planned) keyHash() uint64 {
	if r.key < 0 {
		return 0
	}
	return 10 + uint64(r.key)
}

func (r *planned) valueHash() uint64 {
	if r.flags.Has(history.Tombstone) {
		return 0
	}
	return 1000 + uint64(r.number)
}

// drain lets the consumer finish and always takes the full time.
func (s *simulation) drain() {
	start := s.now
	for len(s.queue) > 0 && len(s.h.Events) < eventLimit {
		s.runUntil(s.queue[0].at)
	}
	s.runUntil(max(s.now, start+drainLimit))
}
