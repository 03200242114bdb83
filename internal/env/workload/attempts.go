package workload

// What every downstream of a subject does, whatever its protocol: it numbers the attempts of each record, decides their
// outcomes by faults and the plan, and records their starts and ends. The stub (HTTP, gRPC) and other downstreams embed
// it.

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
)

// AttemptsConfig configures the attempts at a downstream.
type AttemptsConfig struct {
	Plan *plan.Plan
	IDs  *history.IDs
	// Other is the number of a downstream that does not decide (history.Header.Downstreams), 0 for the one that does.
	// Its calls are recorded as calls instead of attempts, and succeed unless a fault says otherwise.
	Other int
	// Letters: its calls are dead letters, but for those of routes. One without a record's id is refused, unless there are
	// records that no call can name.
	Letters bool
	// Calls is the largest number of calls in an attempt, where a client repeats calls by itself; 0 stands for 1. A call
	// is a repeat if it begins sooner than Wait, the subject's own first wait, after the end of the one before.
	Calls int
	Wait  time.Duration
	// Spans: an attempt has several calls. A downstream that can tell them begins each with BeginCall.
	Spans bool
	// Instances is the number of subject instances that get a listener. First is the number of the first of them.
	Instances, First int
	// Ops is the run's counter of operations, shared with every other observer that numbers them.
	Ops   *atomic.Int64
	Clock history.Clock
	Sink  history.Sink
}

// Attempts are the attempts at a downstream. It is safe for concurrent use.
type Attempts struct {
	cfg       AttemptsConfig
	records   []recordState
	processes []processState
	// changes are the changes that faults make to answers, nil before the first; replaced under mu.
	changes atomic.Pointer[[]*change]

	// open is the number of attempts being answered, answered that of the others at known records.
	open, answered atomic.Int64
	// anonymous: calls without a record's id may be dead letters of records that no call can name.
	anonymous bool
	// nameless is the number of calls without a record's id, at a downstream that does not decide.
	nameless atomic.Int32
	// named holds the texts of calls that had an id, where others of the same text need none.
	named sync.Map
	// strays are the calls without an id, if calls are told.
	strays strayCalls

	mu sync.Mutex // for replacing changes

	// spans is nil if each call is an attempt.
	spans   *spans
	repeats repeats
	batches batchIDs
}

// recordState is the state of a record: the number of all its attempts, of those that the plan counts, and whether it
// was replayed.
type recordState struct {
	all, planned atomic.Int32
	replayed     atomic.Bool
}

// repeats are the latest attempts of records whose client repeats calls by itself.
type repeats struct {
	mu sync.Mutex
	of map[int32]repeatedAttempt
}

// repeatedAttempt is the number of calls in an attempt, and when the last of them ended.
type repeatedAttempt struct {
	calls int
	ended time.Duration
}

// processState is an instance's current process, and the number of the first process, from 1, from which no call with
// several ids was recorded.
type processState struct {
	run     atomic.Uint32
	batches atomic.Uint32
}

// NewAttempts returns the attempts at a downstream that none has been made at.
func NewAttempts(cfg AttemptsConfig) *Attempts {
	a := &Attempts{cfg: cfg, records: make([]recordState, len(cfg.Plan.Records)),
		processes: make([]processState, cfg.Instances),
		anonymous: cfg.Letters && slices.ContainsFunc(cfg.Plan.Records, plan.Record.Unidentified)}
	if cfg.Spans {
		a.spans = newSpans()
	}
	if cfg.Calls > 1 {
		a.repeats.of = map[int32]repeatedAttempt{}
	}
	return a
}

// SetRun sets the process of an instance that is about to start. Connections accepted from then on belong to it.
func (a *Attempts) SetRun(instance int, run uint16) {
	a.processes[instance-a.cfg.First].run.Store(uint32(run))
	if a.spans != nil {
		a.giveUpEarlier(instance, run)
	}
}

// SetReplayed says that a record's dead letter is about to be replayed. From then on the record succeeds if it is
// planned as healed.
func (a *Attempts) SetReplayed(record int32) {
	if record >= 0 && int(record) < len(a.records) {
		a.records[record].replayed.Store(true)
	}
}

// InFlight returns the number of attempts being answered.
func (a *Attempts) InFlight() int64 { return a.open.Load() }

// Answered returns the number of attempts at known records that were answered.
func (a *Attempts) Answered() int64 { return a.answered.Load() }

// Unmade reports whether no attempt at any record was seen, although calls can name records. Dead letters are such only
// if some were sent.
func (a *Attempts) Unmade() bool {
	nameable := false
	for i := range a.records {
		if a.records[i].all.Load() > 0 {
			return false
		}
		nameable = nameable || !a.cfg.Plan.Records[i].Unidentified()
	}
	return nameable && (a.cfg.Other == 0 || a.cfg.Letters && a.nameless.Load() > 0)
}

// Strays returns the number of calls that were neither attempts of a known record nor those of a route, and the first
// of them. They are not counted where they may be attempts at records that no call can name.
func (a *Attempts) Strays() (count int64, first string) {
	a.strays.mu.Lock()
	defer a.strays.mu.Unlock()
	for _, one := range a.strays.list {
		if _, named := a.named.Load(one.text); !named {
			count, first = count+one.count, cmp.Or(first, one.text)
		}
	}
	return count, first
}

// strayCalls counts calls by their text, in the order of the first of each.
type strayCalls struct {
	mu   sync.Mutex
	list []strayCall
}

type strayCall struct {
	text  string
	count int64
}

// straysLimit is the largest number of texts that are told apart. Calls with further texts count as the last one.
const straysLimit = 64

// Process returns the current process of an instance, to which a connection that is accepted now belongs.
func (a *Attempts) Process(instance int) uint16 {
	return uint16(a.processes[instance-a.cfg.First].run.Load())
}

// Begin numbers an attempt and records its start. The event has the instance, the process, and what else is known; seq
// is the record, if its id was found. End must follow.
func (a *Attempts) Begin(event *history.Event, seq int32, found bool) {
	a.open.Add(1)
	event.Kind, event.Op = history.KindAttemptStart, a.cfg.Ops.Add(1)
	if found && int(seq) < len(a.records) {
		event.Record, event.N = seq, a.records[seq].all.Add(1)
	}
	if a.cfg.Other > 0 {
		event.Kind, event.N, event.Sequence = history.KindCallStart, int32(a.cfg.Other), event.N
		if event.Record == history.None {
			event.Sequence = a.nameless.Add(1)
		}
	}
	a.record(event)
}

// record records an attempt or a call. It leaves out calls without a record at a downstream that does not decide,
// unless they may be dead letters.
func (a *Attempts) record(event *history.Event) {
	if a.cfg.Other == 0 || a.anonymous || event.Record != history.None {
		a.cfg.Sink.Record(*event)
	}
}

// number returns the number of an attempt or a call among those of its record, from 1.
func (a *Attempts) number(event *history.Event) int32 {
	if a.cfg.Other > 0 {
		return event.Sequence
	}
	return event.N
}

// End records the end of an attempt with the outcome that the event has. gone says that its client left before.
func (a *Attempts) End(event *history.Event, gone bool) {
	if gone {
		event.Flags |= history.ClientGone
	}
	event.Time = a.cfg.Clock.Now()
	switch {
	case event.Kind == history.KindCallStart && a.cfg.Other == 0:
		a.endCall(event)
	case a.cfg.Other > 0:
		event.Kind = history.KindCallEnd
		a.record(event)
	default:
		event.Kind = history.KindAttemptEnd
		a.record(event)
	}
	if event.Outcome != history.OutcomeUnknownID {
		a.answered.Add(1)
	}
	a.endRepeated(event)
	a.open.Add(-1)
}

// Stray counts a call that is not an attempt at a known record, with a text that describes it.
func (a *Attempts) Stray(text string) {
	s := &a.strays
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.list, func(one strayCall) bool { return one.text == text })
	switch n := len(s.list); {
	case i >= 0:
	case n < straysLimit:
		i, s.list = n, append(s.list, strayCall{text: text})
	default:
		i = n - 1
	}
	s.list[i].count++
}

// Named notes that a call with this text was an attempt at a known record, so that one without an id may be an attempt
// at a record that no call can name.
func (a *Attempts) Named(text string) {
	if _, known := a.named.Load(text); !known {
		a.named.Store(text, true)
	}
}

// Several records that a process makes calls for several records at once, so that its attempts cannot be told. The text
// describes the call. It is recorded once for each process.
func (a *Attempts) Several(instance int16, process uint16, text func() string) {
	told, next := &a.processes[int(instance)-a.cfg.First].batches, uint32(process)+1
	if before := told.Load(); before >= next || !told.CompareAndSwap(before, next) {
		return
	}
	event := history.New(history.KindUnreadable, a.cfg.Clock.Now())
	if a.cfg.Other > 0 {
		event.N = int32(a.cfg.Other)
	}
	event.Instance, event.Run, event.Code, event.Text = instance, process, history.None, text()
	a.cfg.Sink.Record(event)
}

// Caller waits for the answer to its attempt. Wait waits for limit (0 for no limit), until ctx ends, or until the
// caller leaves. Over reports whether the caller is known to have left.
type Caller interface {
	Wait(ctx context.Context, limit time.Duration) Waited
	Over() bool
}

// Decide waits for the attempt's planned time, and returns its answer and how the wait ended. A caller that leaves
// before its answer gets none, and neither does one whose connection was closed here. Both have OutcomeTimeout,
// whatever the outcome would have been.
func (a *Attempts) Decide(caller Caller, event *history.Event) (Ruling, Waited) {
	ruling, ended := a.Rule(caller, event)
	if ruling.Outcome == history.OutcomeTimeout && ended == Elapsed && !a.unnamed(event) {
		ended = ruling.Hang(caller)
	}
	if ended == Elapsed && caller.Over() {
		ended = Gone
	}
	return ruling, ended
}

// Rule is Decide without the wait of an attempt that is left unanswered.
func (a *Attempts) Rule(caller Caller, event *history.Event) (Ruling, Waited) {
	if a.unnamed(event) {
		return Ruling{Outcome: history.OutcomeUnknownID}, Elapsed
	}
	if ended := a.delay(caller); ended != Elapsed {
		return Ruling{Outcome: history.OutcomeTimeout}, ended
	}
	if event.Kind == history.KindCallStart && a.cfg.Other == 0 {
		return a.ruleCall(event), Elapsed
	}
	ruling := a.rule(event.Record, a.number(event))
	if a.cfg.Other > 0 && ruling.Outcome != history.OutcomeSuccess {
		event.Flags |= history.Forged
	}
	return ruling, Elapsed
}

// unnamed reports whether the plan can't say what becomes of an attempt, because it has no record's id.
func (a *Attempts) unnamed(event *history.Event) bool {
	return event.Record == history.None && (a.cfg.Other == 0 || a.cfg.Letters && !a.anonymous)
}

// Together decides the answer to attempts at several records that all get the same one. It is that of the first attempt
// that is to fail, which is returned with it; otherwise it is success. The events are those of the attempts' starts.
func (a *Attempts) Together(events []history.Event) (ruling Ruling, of int) {
	foreseen := a.foresee(events)
	for i, one := range foreseen {
		if one.fails() {
			a.refuse(events, foreseen, i)
			return one.Ruling, i
		}
	}
	for i, one := range foreseen {
		a.use(&events[i], one)
	}
	return plannedRuling(history.OutcomeSuccess), 0
}

// apart decides the answers to attempts at several records in one call whose answer has a part for each. What strikes
// the call as a whole can't be in it: no answer, and a failure by a fault. Then there is only that answer, and the
// attempt that it is about is returned with it, otherwise -1.
func (a *Attempts) apart(events []history.Event) (rulings []Ruling, of int) {
	foreseen := a.foresee(events)
	for i, one := range foreseen {
		unanswered := one.Outcome == history.OutcomeTimeout || one.Outcome == history.OutcomeReset
		if unanswered || one.fails() && !one.planned {
			a.refuse(events, foreseen, i)
			return []Ruling{one.Ruling}, i
		}
	}
	for i, one := range foreseen {
		a.use(&events[i], one)
		rulings = append(rulings, one.Ruling)
	}
	return rulings, -1
}

// foreseen is the answer that an attempt would have alone, and whether it is the planned one.
type foreseen struct {
	Ruling
	planned bool
}

func (f foreseen) fails() bool {
	return f.Outcome != history.OutcomeSuccess && f.Outcome != history.OutcomeUnknownID
}

// passes reports whether it is a planned failure that does not occur at each attempt.
func (f foreseen) passes() bool {
	return f.planned && f.fails() && f.Outcome != history.OutcomePermanent && f.Outcome != history.OutcomeLogical
}

func (a *Attempts) foresee(events []history.Event) []foreseen {
	all := make([]foreseen, len(events))
	for i := range events {
		e := &events[i]
		if e.Record == history.None {
			all[i].Outcome = history.OutcomeUnknownID
			continue
		}
		if ruling, changed := a.ruleChanged(e.Record, a.number(e)); changed {
			all[i].Ruling = ruling
			continue
		}
		state, outcome := &a.records[e.Record], history.OutcomeSuccess
		if a.cfg.Other == 0 {
			outcome = a.decide(e.Record, state.planned.Load()+1, state.replayed.Load())
		}
		all[i] = foreseen{plannedRuling(outcome), true}
	}
	return all
}

// refuse uses up what a call does that is refused because of attempt of. If that is a planned failure that passes, it
// is one such failure of each record: otherwise a call might have to be repeated as often as it has records.
func (a *Attempts) refuse(events []history.Event, all []foreseen, of int) {
	if !all[of].passes() {
		a.use(&events[of], all[of])
		return
	}
	for i, one := range all {
		if one.passes() {
			a.use(&events[i], one)
		}
	}
}

// use counts an attempt that has its planned answer.
func (a *Attempts) use(e *history.Event, one foreseen) {
	if one.planned {
		a.records[e.Record].planned.Add(1)
	}
}

// RuleTogether is Rule for a call that is an attempt at each of several records. They have one answer, and the one that
// it is about is returned with it.
func (a *Attempts) RuleTogether(caller Caller, events []history.Event) (ruling Ruling, of int, ended Waited) {
	if ended := a.delay(caller); ended != Elapsed {
		return Ruling{Outcome: history.OutcomeTimeout}, 0, ended
	}
	ruling, of = a.Together(events)
	return ruling, of, Elapsed
}

// DecideTogether is Decide for a call that is an attempt at each of several records. They have one answer, and the one
// that it is about is returned with it. If the answer can have a part for each (apart), it may have one, and of is -1.
func (a *Attempts) DecideTogether(caller Caller, events []history.Event, apart bool) (
	rulings []Ruling, of int, ended Waited) {
	if apart {
		if ended := a.delay(caller); ended != Elapsed {
			return []Ruling{{Outcome: history.OutcomeTimeout}}, 0, ended
		}
		rulings, of = a.apart(events)
	} else {
		rulings = make([]Ruling, 1)
		if rulings[0], of, ended = a.RuleTogether(caller, events); ended != Elapsed {
			return rulings, of, ended
		}
	}
	if of >= 0 && rulings[0].Outcome == history.OutcomeTimeout {
		ended = rulings[0].Hang(caller)
	}
	if ended == Elapsed && caller.Over() {
		ended = Gone
	}
	return rulings, of, ended
}

// decide returns the planned outcome of the k-th attempt at a record, k from 1.
func (a *Attempts) decide(record, k int32, replayed bool) history.Outcome {
	return decide(&a.cfg.Plan.Records[record], k, replayed)
}

// count counts a call that the plan decides, and returns the number of its attempt, from 1. A call that the client
// repeats by itself belongs to the attempt of the one before.
func (a *Attempts) count(record int32) int32 {
	planned := &a.records[record].planned
	if a.repeats.of == nil {
		return planned.Add(1)
	}
	a.repeats.mu.Lock()
	defer a.repeats.mu.Unlock()
	one := a.repeats.of[record]
	if !a.goesOn(one) {
		one.calls = 0
		planned.Add(1)
	}
	one.calls++
	a.repeats.of[record] = one
	return planned.Load()
}

// repeated reports whether a call of the record that begins now is one that the client repeats by itself.
func (a *Attempts) repeated(record int32) bool {
	a.repeats.mu.Lock()
	defer a.repeats.mu.Unlock()
	return a.goesOn(a.repeats.of[record])
}

// goesOn reports whether a call that begins now belongs to the attempt.
func (a *Attempts) goesOn(one repeatedAttempt) bool {
	return one.calls > 0 && one.calls < a.cfg.Calls && a.cfg.Clock.Now()-one.ended < a.cfg.Wait
}

// endRepeated notes the end of a call that the client may repeat: one that failed.
func (a *Attempts) endRepeated(event *history.Event) {
	if a.repeats.of == nil || event.Record < 0 || event.Outcome == history.OutcomeSuccess {
		return
	}
	a.repeats.mu.Lock()
	defer a.repeats.mu.Unlock()
	one := a.repeats.of[event.Record]
	one.ended = event.Time
	a.repeats.of[event.Record] = one
}
