package learn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/testkit/golden"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/scenarios"
)

// habits are how a simulated consumer of two partitions behaves. It takes one record after the other.
type habits struct {
	// promised is what its file says already.
	promised string
	attempts int
	first    time.Duration
	grows    float64
	// retries are the outcomes that it tries again; deadLetters those that it dead-letters when it gives up.
	retries, deadLetters map[history.Outcome]bool
	honours              bool
	// seal makes a dead letter; nil for the dialect plain.
	seal func(*kgo.Record, deadletter.Failure) *kgo.Record
	// skips says that values that can't be read, and tombstones, are committed without an attempt.
	skips bool
	// calls is how often it calls the downstream for each of them nevertheless, without an id.
	calls int
	// nameless says that it then writes a dead letter without the headers of the record, so without an id.
	nameless bool
	// anonymous says that no dead letter has an id of its record.
	anonymous bool
	// halts says that nothing of a partition is done from the first value on that can't be read, haltsAtNothing from the
	// first record without a value.
	halts, haltsAtNothing bool
	// falls says that its process ends at a record without a value, or one that can't be read, which auto-commit has
	// committed. sleeps says that its loop ends there, and the process stays.
	falls, sleeps bool
	// reads says that it takes each value for text, so that a dead letter has other bytes than a value that is none.
	reads bool
	// dies says that its process ends at each record without a value, before it commits anything behind it.
	dies bool
	// ignoresTERM says that it has to be killed in the end.
	ignoresTERM bool
	// overtakes says that a record that fails waits while those behind it, of its key too, are processed.
	overtakes bool
	// dawdles makes a third of the waits five seconds longer.
	dawdles bool
	// irregular gives every other record one more attempt.
	irregular bool
	// client is how often its client calls in an attempt, waiting for between before each repeat; 0 and 1 mean once.
	client  int
	between time.Duration
}

func outcomes(all ...history.Outcome) map[history.Outcome]bool {
	set := map[history.Outcome]bool{}
	for _, one := range all {
		set[one] = true
	}
	return set
}

func usual() habits {
	return habits{
		attempts: 4, first: 100 * time.Millisecond, grows: 2, honours: true,
		retries: outcomes(history.OutcomeTransient, history.OutcomeRateLimited, history.OutcomeTimeout,
			history.OutcomeReset),
		deadLetters: outcomes(history.OutcomeTransient, history.OutcomePermanent, history.OutcomeUnknownID),
	}
}

// simulation writes the history of a consumer with these habits.
type simulation struct {
	habits
	seen   *seen
	events []history.Event
	now    time.Duration
	op     int64
	by     int16 // the instance
	next   [2]int64
	halted [2]bool
	// committed are the committed offsets.
	committed [2]int64
	// overtakers are how many records overtook another; written counts dead letters, and audits are what an audit finds.
	overtakers int32
	written    int64
	audits     []func(*history.Event)
}

const retryAfter = 2 * time.Second

func (s *simulation) event(kind history.Kind, change func(*history.Event)) {
	e := history.New(kind, s.now)
	e.Instance, e.Topic = s.by, 0
	change(&e)
	s.events = append(s.events, e)
	s.now += 100 * time.Microsecond
}

// plan returns the outcome of an attempt at a record that was planned so.
func plan(planned history.Outcome, number int) history.Outcome {
	switch {
	case planned == history.OutcomeExhausted:
		return history.OutcomeTransient
	case planned == history.OutcomePermanent || planned == history.OutcomeLogical || number == 1:
		return planned
	}
	return history.OutcomeSuccess
}

func (s *simulation) take(number int32, planned history.Outcome, flags history.Flags) {
	partition := number % 2
	offset := s.next[partition]
	s.next[partition]++
	place := func(e *history.Event) { e.Record, e.Partition, e.Offset = number, partition, offset }
	s.event(history.KindSend, func(e *history.Event) {
		place(e)
		e.Instance, e.Offset, e.Outcome, e.Flags, e.N, e.KeyHash, e.Aux = history.None, history.None, planned, flags, 1, 7,
			int64(s.now)
	})
	s.event(history.KindAcked, func(e *history.Event) { place(e); e.Instance = history.None })
	s.audits = append(s.audits, func(e *history.Event) { place(e); e.Instance, e.Topic, e.KeyHash = history.None, 0, 7 })
	s.event(history.KindFetched, func(e *history.Event) { place(e); e.Record, e.Aux = history.None, offset })
	if s.dies && flags.Has(history.Tombstone) {
		s.event(history.KindInstanceExited, func(e *history.Event) { e.Code = 1 })
		s.halted = [2]bool{true, true}
	}
	if s.halts && flags.Has(history.Garbage) || s.haltsAtNothing && flags.Has(history.Tombstone) {
		s.halted[partition] = true
	}
	if s.halted[partition] {
		return
	}
	s.committed[partition] = offset + 1
	last := history.OutcomeSuccess
	unreadable := flags&(history.Garbage|history.Tombstone) != 0
	if !s.skips || !unreadable {
		last = s.tries(number, planned, unreadable, place)
	} else {
		s.unnamed()
		s.halted[partition] = s.sleeps
		if s.falls {
			s.event(history.KindInstanceExited, func(e *history.Event) { e.Code = 1 })
		}
	}
	original := &kgo.Record{Topic: "in", Partition: partition, Offset: offset, Key: []byte("k"), Value: []byte("v"),
		Headers: []kgo.RecordHeader{{Key: "own", Value: []byte("1")}}, Timestamp: time.UnixMilli(1)}
	if flags.Has(history.Garbage) {
		original.Value = []byte("\xff")
	}
	s.seen.audited(s.seen.header.Topics[0], original, history.Event{Record: number})
	if s.deadLetters[last] {
		s.deadLetter(number)
		failure := deadletter.Failure{Reason: "it failed", Attempts: int32(s.attempts), Topic: "in", Partition: partition,
			Offset: offset, Epoch: 1, Time: time.UnixMilli(5)}
		seal := s.seal
		if seal == nil {
			seal = deadletter.Plain{}.Seal
		}
		event := history.Event{Record: number}
		if s.anonymous {
			event.Record = history.None
		}
		taken := *original
		if s.reads {
			taken.Value = bytes.ToValidUTF8(taken.Value, []byte("\ufffd"))
		}
		s.seen.audited(s.seen.header.Topics[1], seal(&taken, failure), event)
	}
	for _, kind := range []history.Kind{history.KindCommitRequest, history.KindCommitResponse} {
		s.event(kind, func(e *history.Event) { place(e); e.Record, e.Offset, e.Op = history.None, offset+1, s.op })
	}
	s.op++
}

// unnamed is what becomes of a record that can't be read, where nothing names it.
func (s *simulation) unnamed() {
	for range s.calls {
		s.event(history.KindAttemptStart, func(e *history.Event) { e.Record, e.Op = history.None, s.op })
		s.op++
	}
	if s.nameless {
		s.seen.audited(s.seen.header.Topics[1], &kgo.Record{Topic: "dead"}, history.Event{Record: history.None})
	}
}

// deadLetter writes a dead letter into the history.
func (s *simulation) deadLetter(number int32) {
	s.op++
	at := s.written
	s.written++
	for _, kind := range []history.Kind{history.KindProduceRequest, history.KindProduceResponse} {
		s.event(kind, func(e *history.Event) {
			e.Topic, e.Partition, e.Record, e.Op, e.KeyHash, e.ValueHash = 1, 0, number, s.op, 7, 0
			if kind == history.KindProduceResponse {
				e.Offset = at
			}
		})
	}
	s.audits = append(s.audits, func(e *history.Event) {
		e.Instance, e.Topic, e.Partition, e.Offset, e.Record, e.KeyHash = history.None, 1, 0, at, number, 7
	})
}

func (s *simulation) tries(number int32, planned history.Outcome, unreadable bool, place func(*history.Event)) history.Outcome {
	most := s.attempts
	if s.irregular && number%4 < 2 {
		most++
	}
	wait := s.first
	calls := max(s.client, 1)
	most *= calls
	for k := 1; ; k++ {
		outcome := plan(planned, k)
		if unreadable {
			outcome = history.OutcomeUnknownID
		}
		s.op++
		op := s.op
		attempt := func(e *history.Event) { place(e); e.Op, e.N = op, int32(k) }
		s.event(history.KindAttemptStart, attempt)
		s.now += time.Millisecond
		s.event(history.KindAttemptEnd, func(e *history.Event) {
			attempt(e)
			e.Outcome = outcome
			if e.Aux = 0; outcome == history.OutcomeRateLimited {
				e.Aux = int64(retryAfter)
			}
		})
		if outcome == history.OutcomeSuccess || k >= most || !s.retries[outcome] {
			return outcome
		}
		if k%calls != 0 {
			s.now += s.between
			continue
		}
		if s.overtakes {
			s.now += wait / 2
			s.other(place)
		}
		if s.now += wait; outcome == history.OutcomeRateLimited && s.honours {
			s.now += retryAfter
		}
		if s.dawdles && number%3 == 0 {
			s.now += 5 * time.Second
		}
		wait = time.Duration(float64(wait) * s.grows)
	}
}

// other is a success of the record behind, which was sent meanwhile.
func (s *simulation) other(place func(*history.Event)) {
	at := history.Event{}
	place(&at)
	s.overtakers++
	behind := 1000 + s.overtakers
	offset := s.next[at.Partition]
	s.next[at.Partition]++
	where := func(e *history.Event) { e.Record, e.Partition, e.Offset = behind, at.Partition, offset }
	s.event(history.KindSend, func(e *history.Event) {
		where(e)
		e.Instance, e.Offset, e.Outcome, e.N, e.KeyHash = history.None, history.None, history.OutcomeSuccess, 1, 7
	})
	s.event(history.KindAcked, func(e *history.Event) { where(e); e.Instance = history.None })
	s.audits = append(s.audits, func(e *history.Event) { where(e); e.Instance, e.Topic, e.KeyHash = history.None, 0, 7 })
	s.op++
	op := s.op
	s.event(history.KindAttemptStart, func(e *history.Event) { where(e); e.Op, e.N = op, 1 })
	s.event(history.KindAttemptEnd, func(e *history.Event) { where(e); e.Op, e.N, e.Outcome = op, 1, history.OutcomeSuccess })
}

// watch returns what is proposed for a consumer with these habits.
func watch(t *testing.T, how habits) *learned {
	t.Helper()
	var subject *scenarios.SubjectFile
	var text []byte
	w := must.Get(watchTwice(func(sets ...string) (s *seen, source history.Source, _ error) {
		s, source, subject, text = simulate(t, how, sets...)
		return s, source, nil
	}))(t)
	l := propose(w, subject, nil)
	l.path, l.text = "subject.yaml", text
	must.Do(t, l.strengthen(w.source))
	l.arrange()
	return l
}

// only is what was seen, with records that can't be read or without.
func only(s *seen) watching { return watching{seen: s, unread: s, nulls: s} }

// leavesOut are the settings that leave out records of a kind.
var leavesOut = map[history.Flags]string{history.Garbage: no("garbage"), history.Tombstone: no("tombstones")}

// simulate returns what is seen of a consumer with these habits, without the kinds of records that sets leave out.
func simulate(t *testing.T, how habits, sets ...string) (*seen, history.Source, *scenarios.SubjectFile, []byte) {
	t.Helper()
	text := []byte("name: it\nkind: process\ncommand: [it]\ncontract: {" + how.promised + "}\n")
	subject := must.Get(scenarios.ParseSubject("subject.yaml", text))(t)
	contract := must.Get(subject.HistoryContract())(t)
	sim := &simulation{habits: how, seen: newSeen()}
	sim.seen.shared = contract.GroupType == history.GroupShare
	sim.seen.header = history.Header{
		Format: history.FormatVersion, RunID: "r", Records: 4000, Instances: 1,
		Topics: []history.Topic{{Name: "in", Role: history.RoleInput, Partitions: 2},
			{Name: "dead", Role: history.RoleDLQ, Partitions: 1}},
		Consumers: []history.Consumer{{Group: "g", Instances: 1, DLQ: 1, Contract: contract}},
	}
	number := int32(0)
	for range 6 {
		for _, planned := range []history.Outcome{
			history.OutcomeSuccess, history.OutcomeTransient, history.OutcomeExhausted, history.OutcomePermanent,
			history.OutcomeLogical, history.OutcomeRateLimited, history.OutcomeTimeout, history.OutcomeReset,
		} {
			sim.take(number, planned, 0)
			number++
		}
		kinds := []history.Flags{history.Garbage, history.Tombstone}
		if how.dies { // before it comes to the others
			slices.Reverse(kinds)
		}
		for _, kind := range kinds {
			if !slices.Contains(sets, leavesOut[kind]) {
				sim.take(number, history.OutcomeSuccess, kind)
				number++
			}
		}
	}
	sim.now += time.Minute
	sim.event(history.KindPhase, func(e *history.Event) { e.Instance, e.Text = history.None, history.PhaseAudit })
	sim.event(history.KindInstanceSignal, func(e *history.Event) { e.Code, e.Text = 15, "TERM" })
	took, code, signal := 40*time.Millisecond, int16(0), ""
	if how.ignoresTERM {
		took, code, signal = 31*time.Second, -1, "KILL"
	}
	sim.now += took
	sim.event(history.KindInstanceExited, func(e *history.Event) {
		e.Code, e.Text, e.Flags, e.Aux = code, signal, history.Expected, 0
	})
	for topic := range int16(2) {
		sim.event(history.KindAuditStart, func(e *history.Event) { e.Topic, e.Instance = topic, history.None })
	}
	for _, one := range sim.audits {
		sim.event(history.KindAuditRecord, one)
	}
	for partition := range int32(2) {
		sim.event(history.KindAuditOffsets, func(e *history.Event) {
			e.Partition, e.Offset, e.Aux = partition, sim.next[partition], sim.committed[partition]
		})
	}
	if subject.Contract.Effects != nil { // of which there are none
		sim.event(history.KindEffectsRead, func(e *history.Event) { e.Instance, e.Text = history.None, "topic results" })
	}
	source := history.FromEvents(sim.seen.header, sim.events)
	must.Do(t, sim.seen.read(source))
	must.Do(t, sim.seen.nothing(subject))
	return sim.seen, source, subject, text
}

// A value that stands in a member of the dead letter is not a surprise.
func TestValuesInAMember(t *testing.T) {
	t.Parallel()
	result := assertions.Result{Name: "dlq-fidelity", Status: assertions.Fail,
		Anomalies: []assertions.Anomaly{{Name: "payload-changed", Count: 1}, {Name: "key-changed", Count: 1}}}
	for value, want := range map[string]int{`{"error":"late","value":{"id":1}}`: 1, `{"error":"late"}`: 2} {
		s := newSeen()
		s.record(0).original = &kgo.Record{Value: []byte(`{"id":1}`)}
		s.deadLetters = []deadLetter{{0, &kgo.Record{Value: []byte(value)}}}
		if got := broken(s.opened(result)); len(got) != want || len(result.Anomalies) != 2 {
			t.Errorf("%s: %q, want %d", value, got, want)
		}
	}
}

// A count that goes on after a restart is kept in a store. One that begins anew is not, and too few attempts without a
// restart stay a surprise.
func TestAttemptsAreCountedAcrossRestarts(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		before, after int // attempts before and after the restart
		stored, under bool
	}{{1, 3, true, true}, {1, 4, false, false}, {0, 3, false, true}} {
		sim, source, subject, text := simulate(t, usual(), readable()...)
		l := propose(only(sim), subject, nil)
		l.path, l.text = "subject.yaml", text
		restarted := &simulation{habits: usual(), seen: newSeen()}
		restarted.seen.header = source.Header()
		restarted.restart(0, one.before, one.after)
		contract := must.Get(l.file())(t)
		header := restarted.seen.header
		header.Instances, header.Consumers[0].Instances = 2, 2
		header.Consumers[0].Contract = must.Get(contract.HistoryContract())(t)
		history := history.FromEvents(header, restarted.events)
		verdict, _, err := assertions.Judge(history)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(verdict.Invariants, func(r assertions.Result) bool { return r.Name == "bounded-retries" })
		if under := verdict.Invariants[at].Status == assertions.Fail; under != one.under {
			t.Errorf("%d and %d attempts: %+v", one.before, one.after, verdict.Invariants[at])
		}
		if stored, err := l.stored(history, verdict); err != nil || stored != one.stored ||
			strings.Contains(Contract(l.lines), "counter: store") != one.stored {
			t.Errorf("%d and %d attempts: %v, %v\n%s", one.before, one.after, stored, err, Contract(l.lines))
		}
	}
}

// restart is a record that fails before its process is killed, fails in another, and is then dead-lettered.
func (s *simulation) restart(number int32, before, after int) {
	place := func(e *history.Event) { e.Record, e.Partition, e.Offset = number, 0, 0 }
	fetch := func() {
		s.event(history.KindFetched, func(e *history.Event) { place(e); e.Record, e.Aux = history.None, 0 })
	}
	fail := func(times int) {
		for k := range times {
			s.op++
			s.event(history.KindAttemptStart, func(e *history.Event) { place(e); e.Op, e.N = s.op, int32(k+1) })
			s.now += time.Millisecond
			s.event(history.KindAttemptEnd, func(e *history.Event) {
				place(e)
				e.Op, e.N, e.Outcome = s.op, int32(k+1), history.OutcomeTransient
			})
			s.now += time.Second
		}
	}
	s.event(history.KindSend, func(e *history.Event) {
		place(e)
		e.Instance, e.Offset, e.Outcome, e.N, e.KeyHash = history.None, history.None, history.OutcomeExhausted, 1, 7
	})
	s.event(history.KindAcked, func(e *history.Event) { place(e); e.Instance = history.None })
	fetch()
	fail(before)
	s.event(history.KindInstanceSignal, func(e *history.Event) { e.Code, e.Text = 9, "KILL" })
	s.event(history.KindInstanceExited, func(e *history.Event) { e.Code, e.Text, e.Flags = -1, "KILL", history.Expected })
	s.by = 1
	fetch()
	fail(after)
	s.deadLetter(number)
	s.op++
	for _, kind := range []history.Kind{history.KindCommitRequest, history.KindCommitResponse} {
		s.event(kind, func(e *history.Event) { place(e); e.Record, e.Offset, e.Op = history.None, 1, s.op })
	}
}

// What became of a record at which its process ended tells nothing of the answer, and one that was committed without an
// attempt nothing of the number of attempts.
func TestRecordsThatTellNothing(t *testing.T) {
	t.Parallel()
	subject := must.Get(scenarios.ParseSubject("subject.yaml", []byte("{name: it, kind: process, command: [it]}")))(t)
	for _, one := range []struct {
		crashes []crash
		want    []string
	}{{nil, []string{"classes"}}, {[]crash{{at: 4, instance: 1}, {at: 2}}, []string{"classes"}},
		{[]crash{{at: 4}}, nil}} {
		s := newSeen()
		*s.record(0) = record{planned: history.OutcomeExhausted}
		s.committed[place{}] = 1
		*s.record(1) = record{planned: history.OutcomeTimeout, offset: 1,
			tries: []try{{begin: 3, end: 3, outcome: history.OutcomeTimeout}}}
		s.crashes = one.crashes
		l := &learned{watching: only(s), subject: subject}
		l.attempts()
		l.classes()
		var keys []string
		for _, line := range l.lines {
			keys = append(keys, line.Key)
		}
		if !slices.Equal(keys, one.want) {
			t.Errorf("%v: %v, want %v", one.crashes, l.lines, one.want)
		}
	}
}

// Records that were tried again and again, without an end, make attempts without a limit a question. A consumer that is
// stuck at them is no reason to ask.
func TestAttemptsWithoutAnEnd(t *testing.T) {
	t.Parallel()
	fails := []try{{outcome: history.OutcomeTransient}, {outcome: history.OutcomeTransient}}
	for name, one := range map[string]struct {
		contract string
		tries    []try
		asks     bool
	}{
		"tried again":             {"{}", fails, true},
		"tried once":              {"{}", fails[:1], false},
		"not tried":               {"{}", nil, false},
		"the process ends":        {"{dlq: {enabled: false}, on_exhausted: exit}", fails, false},
		"copied to a retry topic": {"{retry: topics, retry_topics: a}", fails, false},
	} {
		text := "{name: it, kind: process, command: [it], contract: " + one.contract + "}"
		s := newSeen()
		*s.record(0) = record{planned: history.OutcomeExhausted, tries: one.tries}
		l := &learned{watching: only(s), subject: must.Get(scenarios.ParseSubject("subject.yaml", []byte(text)))(t)}
		l.attempts()
		asks := len(l.lines) == 1 && l.lines[0].Open && strings.HasPrefix(l.lines[0].Value, "{max: unlimited,")
		if asks != one.asks || asks == (len(l.odd) > 0) {
			t.Errorf("%s: %+v, odd %q", name, l.lines, l.odd)
		}
	}
}

// A process that ended by itself halted at an unreadable record only if everything before that came to an end.
func TestEndsAtAnotherRecord(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		before  history.Outcome
		crashes []crash
		halts   bool
		reached int
	}{{history.OutcomeTimeout, nil, true, 1}, {history.OutcomeTimeout, []crash{{}}, false, 0},
		{history.OutcomeSuccess, []crash{{}}, true, 1}} {
		s := newSeen()
		*s.record(0) = record{tries: []try{{outcome: one.before}}}
		*s.record(1) = record{flags: history.Garbage, offset: 1, handed: 1}
		s.crashes, s.drained = one.crashes, time.Minute
		if s.haltsAtUnreadable() != one.halts || len(s.reached(history.Garbage)) != one.reached {
			t.Errorf("%v: %t, of %d", one, s.haltsAtUnreadable(), len(s.reached(history.Garbage)))
		}
	}
}

// Where nothing shows attempts, records that can't be read and are committed do not show that the consumer fell.
func TestFallsAreSeenByAttempts(t *testing.T) {
	t.Parallel()
	for tries, fell := range map[int]bool{0: false, 1: true} {
		s := newSeen()
		*s.record(0) = record{tries: make([]try, tries)}
		*s.record(1) = record{flags: history.Tombstone, offset: 1}
		*s.record(2) = record{offset: 2}
		s.committed[place{}] = 2
		if s.fellAt(s.record(1)) != fell {
			t.Errorf("%d attempts: want %t", tries, fell)
		}
	}
}

// Dead letters of which none has an id are promised, too, where no call shows which records failed.
func TestDeadLettersWithoutACall(t *testing.T) {
	t.Parallel()
	subject, err := scenarios.ParseSubject("subject.yaml", []byte("{name: it, kind: process, command: [it], observe: wire}"))
	if err != nil {
		t.Fatal(err)
	}
	for letters, promised := range map[int]bool{0: false, 2: true} {
		s := newSeen()
		*s.record(0) = record{flags: history.Garbage}
		*s.record(1) = record{flags: history.Garbage, offset: 1}
		s.lettersUnnamed = letters
		l := &learned{watching: only(s), subject: subject}
		l.deadLetters()
		if len(l.lines) != 1 || l.lines[0].Open == promised {
			t.Errorf("%d dead letters: %+v", letters, l.lines)
		}
	}
}

// Calls without an id that end in dead letters of unreadable records say that records without a value are not called
// for, as with Benthos and FastStream.
func TestRecordsWithoutAValueAreSkippedBesideUnreadableOnes(t *testing.T) {
	t.Parallel()
	subject := must.Get(scenarios.ParseSubject("subject.yaml", []byte("{name: it, kind: process, command: [it]}")))(t)
	for name, one := range map[string]struct {
		calls, letters, ended int
		skips                 bool
	}{
		"no calls":                                  {0, 0, 0, true},
		"one call for each unreadable record":       {3, 0, 3, true},
		"three calls for each":                      {9, 0, 3, true},
		"as many calls as records without a value":  {4, 0, 3, false},
		"an unreadable record has no dead letter":   {3, 0, 2, false},
		"dead letters that may be about any record": {3, 1, 3, false},
	} {
		s := newSeen()
		for i := range 7 {
			flags, at := history.Tombstone, int64(i)
			if i < 3 {
				flags = history.Garbage
			}
			*s.record(int32(i)) = record{flags: flags, offset: at}
			if i < one.ended {
				s.record(int32(i)).deadLetters = 1
			}
		}
		s.committed[place{}], s.nameless, s.lettersUnnamed = 7, one.calls, one.letters
		l := &learned{watching: only(s), subject: subject}
		l.poison()
		if slices.ContainsFunc(l.lines, func(line Line) bool { return line.Key == "skips" && !line.Open }) != one.skips {
			t.Errorf("%s: %+v", name, l.lines)
		}
	}
}

// Effects that were seen in the first look, and lack records in the watched run, are a question. Those of the file's
// author are a promise, and the consumer breaks it.
func TestEffectsThatAreNotThere(t *testing.T) {
	t.Parallel()
	for _, found := range []map[string]string{nil, {"contract.effects": "Seen."}} {
		how := usual()
		how.promised = "effects: {topic: results}"
		s, source, subject, text := simulate(t, how)
		l := propose(only(s), subject, found)
		l.path, l.text = "subject.yaml", text
		must.Do(t, l.strengthen(source))
		at := slices.IndexFunc(l.lines, func(line Line) bool { return line.Key == "effects" })
		odd := slices.ContainsFunc(l.odd, func(text string) bool { return strings.Contains(text, "effect") })
		if guess := found != nil; at < 0 || l.lines[at].Open != guess || odd == guess {
			t.Errorf("found %v: %+v, odd %q", found, l.lines, l.odd)
		}
	}
}

// What is proposed for consumers with different habits. testdata has the contracts.
func TestContractsFitHabits(t *testing.T) {
	for name, change := range map[string]func(*habits){
		"usual":         func(*habits) {},
		"never-retries": func(h *habits) { h.retries = nil },
		"retries-all": func(h *habits) {
			for _, outcome := range failures() {
				h.retries[outcome], h.deadLetters[outcome] = true, true
			}
		},
		"no-dead-letter": func(h *habits) { h.deadLetters = nil },
		"business-dead-lettered": func(h *habits) {
			h.deadLetters[history.OutcomeLogical] = true
		},
		"seeks-back": func(h *habits) { h.promised = "retry: redelivery" },
		"shares": func(h *habits) {
			h.first, h.promised = 0, "group_type: share, retry: redelivery, attempts: {counter: delivery}"
		},
		"shares-in-place":         func(h *habits) { h.first, h.promised = 0, "group_type: share, retry: in-place" },
		"at-once":                 func(h *habits) { h.first = 0 },
		"ignores-the-429":         func(h *habits) { h.honours = false },
		"skips-what-is-odd":       func(h *habits) { h.skips = true },
		"falls-at-what-is-odd":    func(h *habits) { h.skips, h.falls = true, true },
		"sleeps-at-what-is-odd":   func(h *habits) { h.skips, h.sleeps = true, true },
		"takes-404-for-success":   func(h *habits) { h.skips, h.calls = true, 1 }, // as Micronaut's client
		"drops-headers":           func(h *habits) { h.skips, h.calls, h.nameless = true, 3, true },
		"dead-letters-without-id": func(h *habits) { h.anonymous = true },
		"dead-letters-only-what-is-odd": func(h *habits) { // and logs what else fails
			h.deadLetters, h.skips, h.nameless = nil, true, true
		},
		"retries-without-id": func(h *habits) { h.skips, h.calls = true, 3 },
		"halts":              func(h *habits) { h.halts = true },
		"halts-at-nothing":   func(h *habits) { h.haltsAtNothing = true },
		"dies-at-nothing":    func(h *habits) { h.dies, h.skips = true, true },
		"reads-text":         func(h *habits) { h.reads = true },
		"ignores-TERM":       func(h *habits) { h.ignoresTERM = true },
		"overtakes":          func(h *habits) { h.overtakes = true },
		"dawdles":            func(h *habits) { h.dawdles = true },
		"irregular":          func(h *habits) { h.irregular = true },
		"client-repeats":     func(h *habits) { h.client, h.between, h.grows = 3, 10*time.Millisecond, 1 },
		"client-repeats-slowly": func(h *habits) {
			h.client, h.between, h.first = 2, 60*time.Millisecond, 100*time.Millisecond
		},
		"client-repeats-once": func(h *habits) { h.client, h.between, h.attempts = 3, 10*time.Millisecond, 1 },
		"headers-of-its-own": func(h *habits) {
			h.seal = func(r *kgo.Record, f deadletter.Failure) *kgo.Record {
				return &kgo.Record{Key: r.Key, Value: r.Value, Headers: append(r.Headers[:1:1],
					kgo.RecordHeader{Key: "from", Value: []byte(f.Topic)},
					kgo.RecordHeader{Key: "at", Value: fmt.Append(nil, f.Offset)},
					kgo.RecordHeader{Key: "why-error", Value: []byte(f.Reason)})}
			}
		},
		"headers-that-tell-little": func(h *habits) { // as Benthos writes its metadata
			h.seal = func(r *kgo.Record, f deadletter.Failure) *kgo.Record {
				full := &kgo.Record{Key: r.Key, Value: r.Value, Headers: r.Headers[:1:1]}
				for _, one := range [][2]string{
					{"a_message_code", "503"}, {"fallback_error", f.Reason}, {"kafka_tombstone_message", "false"},
					{"kafka_topic", f.Topic},
				} {
					full.Headers = append(full.Headers, kgo.RecordHeader{Key: one[0], Value: []byte(one[1])})
				}
				return full
			}
		},
		"headers-with-a-class": func(h *habits) { // as Spring Cloud Stream's binder writes them
			h.seal = func(r *kgo.Record, f deadletter.Failure) *kgo.Record {
				full := &kgo.Record{Key: r.Key, Value: r.Value, Headers: r.Headers[:1:1]}
				for _, one := range [][2]string{
					{"app-name", "shop.orders"}, {"x-exception-fqcn", "org.springframework.messaging.MessageHandlingException"},
					{"x-exception-message", f.Reason}, {"x-exception-stacktrace", "java.lang.Error: x\n\tat a.B.c(B.java:1)"},
					{"x-original-timestamp-type", "CREATE_TIME"}, {"x-original-topic", f.Topic},
				} {
					full.Headers = append(full.Headers, kgo.RecordHeader{Key: one[0], Value: []byte(one[1])})
				}
				return full
			}
		},
		"headers-like-smallrye": func(h *habits) {
			h.seal = func(r *kgo.Record, f deadletter.Failure) *kgo.Record {
				dialect, _ := deadletter.Named(deadletter.SmallRyeName) // it exists
				full := dialect.Seal(r, f)
				full.Headers = slices.DeleteFunc(full.Headers, func(h kgo.RecordHeader) bool {
					return h.Key == "dead-letter-exception-class-name"
				})
				return full
			}
		},
		"in-json": func(h *habits) {
			h.seal = func(r *kgo.Record, f deadletter.Failure) *kgo.Record {
				value, _ := json.Marshal(map[string]any{"original": string(r.Value), "error": map[string]any{"message": f.Reason,
					"kind": "Timeout", "trace": "at error"}, "retries": f.Attempts,
					"source": fmt.Sprintf("%s-%d", f.Topic, f.Partition)})
				return &kgo.Record{Key: r.Key, Value: value}
			}
		},
		"wrapped": func(h *habits) {
			h.seal = func(r *kgo.Record, _ deadletter.Failure) *kgo.Record {
				return &kgo.Record{Key: r.Key, Value: append([]byte("wrapped:"), r.Value...)}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			how := usual()
			change(&how)
			l := watch(t, how)
			got := Contract(l.lines)
			for _, one := range l.odd {
				got += "# odd: " + one + "\n"
			}
			golden.Check(t, filepath.Join("testdata", name+".golden"), got)
			if _, err := l.file(); err != nil {
				t.Errorf("the subject file with it is refused: %v", err)
			}
		})
	}
}

// A consumer of which nothing was seen is told what to do.
// Nothing is learned of instances that all read the same partitions, as a consumer without a group may.
func TestInstancesThatReadTogether(t *testing.T) {
	other := assertions.Open{What: "backoff", Why: "none of 8 gaps could be judged"}
	if err := together(&assertions.Verdict{Open: []assertions.Open{other}}); err != nil {
		t.Errorf("another question: %v", err)
	}
	shared := assertions.Open{What: assertions.OpenDeliveries, Why: "several instances read input-0 at the same time"}
	err := together(&assertions.Verdict{Open: []assertions.Open{other, shared}})
	if !errors.Is(err, ErrNothingSeen) || !strings.Contains(err.Error(), shared.Why) ||
		!strings.Contains(err.Error(), "{{.Instance}}") {
		t.Errorf("instances that read together: %v", err)
	}
}

// A line that a loop logs again and again hides no other.
func TestLinesOfTheLogAreKeptOnce(t *testing.T) {
	t.Parallel()
	s := newSeen()
	for _, line := range []string{
		"2026-11-28T18:57:54.53Z ERROR order 0198c5a0-0000-7000-8000-00000000000a: no table", "2026-11-28T18:57:54.73Z ERROR " +
			"order 0198c5a0-0000-7000-8000-0000000000fb: no table", "ERROR no such host",
	} {
		s.says(line)
	}
	if len(s.said) != 2 || s.said[1] != "ERROR no such host" {
		t.Errorf("%q", s.said)
	}
}

func TestNothingSeen(t *testing.T) {
	subject := must.Get(scenarios.ParseSubject("subject.yaml", []byte("{name: it, kind: process, command: [it]}")))(t)
	s := newSeen()
	s.header.Consumers = []history.Consumer{{Group: "g"}}
	s.said = []string{"ERROR no such host"}
	if err := s.nothing(subject); err == nil || !strings.Contains(err.Error(), "saw no call") ||
		!strings.Contains(err.Error(), "no such host") || !strings.Contains(err.Error(), "no offset was committed") {
		t.Errorf("without a call: %v", err)
	}
	stores := must.Get(scenarios.ParseSubject("subject.yaml", []byte("{name: it, kind: process, command: [it], "+
		"downstreams: [{postgres: {}}]}")))(t)
	if err := s.nothing(stores); err == nil || !strings.Contains(err.Error(), "{{.DatabaseURL}}") {
		t.Errorf("without a transaction: %v", err)
	}
	subject.Env = map[string]string{"REGISTRY": "{{.SchemaRegistryURL}}"}
	if err := s.nothing(subject); err == nil || !strings.Contains(err.Error(), "schema registry (REGISTRY)") {
		t.Errorf("without a schema: %v", err)
	}
	s.record(0).tries = []try{{}}
	if err := s.nothing(subject); err == nil || !strings.Contains(err.Error(), "contract.group") {
		t.Errorf("without a commit: %v", err)
	}
	s.record(0).tries = slices.Repeat([]try{{end: 1, outcome: history.OutcomeTransient}}, 500)
	if err := s.nothing(subject); err == nil || !strings.Contains(err.Error(), "tried record 0 500 times") ||
		strings.Contains(err.Error(), "contract.group") {
		t.Errorf("without an end: %v", err)
	}
	s.record(1).tries = []try{{end: 1, outcome: history.OutcomeSuccess}}
	if err := s.nothing(subject); err == nil || !strings.Contains(err.Error(), "contract.group") {
		t.Errorf("without a commit of what succeeded: %v", err)
	}
	s.batch = "POST /bulk"
	if err := s.nothing(subject); err == nil || !strings.Contains(err.Error(), "observe: wire") {
		t.Errorf("with calls for several records: %v", err)
	}
	subject.Downstreams = []scenarios.Downstream{{HTTP: &scenarios.HTTPDownstream{}}}
	if err := s.nothing(subject); err == nil || !strings.Contains(err.Error(), "write batch: true") ||
		!strings.Contains(err.Error(), "Else write observe: wire") {
		t.Errorf("with calls over HTTP for several records: %v", err)
	}
	s.batch, s.shared = "", true
	if err := s.nothing(subject); err == nil || !strings.Contains(err.Error(), "group_type: share") {
		t.Errorf("in a share group: %v", err)
	}
	s.shared, s.commits = false, 1
	if err := s.nothing(subject); err != nil {
		t.Error(err)
	}
}

// A record that fails once, whose partition then gets another process, was seen with a wait of 36 ms though each process
// waits 50 ms: the other one does not know of the failure.
func TestAWaitIsThatOfOneProcess(t *testing.T) {
	t.Parallel()
	ms := time.Millisecond
	failed := func(by process, begin time.Duration) try {
		return try{by: by, begin: begin, end: begin + ms, outcome: history.OutcomeTransient}
	}
	one, other, again := process{0, 0}, process{1, 0}, process{0, 1}
	s := newSeen()
	for i, tries := range [][]try{
		{failed(one, 0), failed(one, 51*ms), failed(other, 80*ms)},
		{failed(one, 0), failed(other, 37*ms), failed(other, 88*ms)},
		{failed(one, 0), failed(again, 20*ms)},
	} {
		r := s.record(int32(i))
		r.planned, r.offset, r.tries = history.OutcomeExhausted, int64(i), tries
	}
	if got := s.gaps(); len(got) == 0 || !slices.Equal(got[0], []time.Duration{50 * ms}) || len(slices.Concat(got...)) != 1 {
		t.Errorf("waits of one process: %v", got)
	}
	s.header.Topics = []history.Topic{{Name: "retry", Role: history.RoleRetry}}
	if got := s.gaps(); len(got) != 2 || len(got[0]) != 3 || len(got[1]) != 2 {
		t.Errorf("waits before copies: %v", got)
	}
}

func TestFitFindsWhatPeopleWrite(t *testing.T) {
	ms := func(all ...int) [][]time.Duration {
		var gaps [][]time.Duration
		for _, one := range all {
			d := time.Duration(one) * time.Millisecond
			gaps = append(gaps, []time.Duration{d, d + time.Millisecond, d + 3*time.Millisecond})
		}
		return gaps
	}
	for _, one := range []struct {
		gaps [][]time.Duration
		want backoff
	}{
		{ms(100), backoff{initial: 100 * time.Millisecond, multiplier: 1}},
		{ms(101, 202, 401), backoff{initial: 100 * time.Millisecond, multiplier: 2}},
		{ms(1000, 1003, 1001, 1002), backoff{initial: time.Second, multiplier: 1}},
		{ms(100, 200, 400, 500, 501, 500), backoff{initial: 100 * time.Millisecond, multiplier: 2,
			cap: 500 * time.Millisecond}},
		{ms(100, 300, 900), backoff{initial: 100 * time.Millisecond, multiplier: 3}},
		{ms(100, 200, 300, 400), backoff{initial: 100 * time.Millisecond, multiplier: 1}}, // linear: no multiplier fits
		// A consumer that fetches a record again for each attempt: 50 and 100 ms, and up to a fetch's wait on top.
		{[][]time.Duration{spread(51, 60, 110, 300, 420), spread(150, 171, 240, 330, 400, 520)},
			backoff{initial: 50 * time.Millisecond, multiplier: 1}},
		{[][]time.Duration{spread(51, 52, 110, 300, 420), spread(101, 103, 105, 110, 107, 120)},
			backoff{initial: 50 * time.Millisecond, multiplier: 2}},
		// A busy machine made one wait long.
		{[][]time.Duration{spread(51, 55, 58, 60, 63, 66, 223), spread(104, 107, 111, 115, 147), spread(205, 211, 246)},
			backoff{initial: 50 * time.Millisecond, multiplier: 2}},
		// A machine that was busy all the time: the later waits say what the first one is.
		{[][]time.Duration{slices.Repeat(spread(108, 150, 180, 260, 270, 290, 310, 530), 3), spread(209, 214, 220, 260, 517),
			spread(413, 418, 430, 470, 628)}, backoff{initial: 100 * time.Millisecond, multiplier: 2}},
		// The same, and each wait is a few milliseconds longer than it was meant, so that those of the last step are close
		// together and none is near 400 ms.
		{[][]time.Duration{spread(107, 107, 108, 115, 126, 135, 141, 148, 266, 287, 342, 424, 493, 501, 555, 569),
			spread(207, 207, 209, 218, 224, 365, 464, 503, 656, 701),
			spread(411, 411, 412, 412, 412, 413, 413, 414, 418, 480, 503, 627)},
			backoff{initial: 100 * time.Millisecond, multiplier: 2}},
		// A cap is found all the same.
		{[][]time.Duration{spread(107, 107, 108, 126, 148, 287, 501), spread(207, 207, 224, 464), spread(307, 308, 309, 480),
			spread(308, 308, 309)}, backoff{initial: 100 * time.Millisecond, multiplier: 2, cap: 300 * time.Millisecond}},
		// Timers of .NET, which end early by a few milliseconds.
		{[][]time.Duration{spread(97, 99, 100, 104, 132), spread(197, 199, 202)},
			backoff{initial: 100 * time.Millisecond, multiplier: 2}},
		{ms(300, 200, 100), backoff{initial: 100 * time.Millisecond, multiplier: 1}},
	} {
		if got, ok := fit(one.gaps); !ok || got != one.want {
			t.Errorf("fit(%v) = %+v, %v, want %+v", one.gaps, got, ok, one.want)
		}
	}
	for _, gaps := range [][][]time.Duration{nil, {{time.Second}}, ms(0), ms(1)} {
		if got, ok := fit(gaps); ok {
			t.Errorf("fit(%v) = %+v", gaps, got)
		}
	}
}

// Of waits that are spread widely, only what is certain is promised, and nothing if they may be none. Here they are
// spread evenly over a width.
func TestWaitsThatAreSpreadWidely(t *testing.T) {
	t.Parallel()
	subject := must.Get(scenarios.ParseSubject("subject.yaml", []byte("{name: it, kind: process, command: [it]}")))(t)
	for name, one := range map[string]struct {
		least, width time.Duration
		question     bool
		want         string
	}{
		"from zero on, as full jitter":  {4 * time.Millisecond, 100 * time.Millisecond, true, "{initial: 4ms}"},
		"copies in a topic, at once":    {5 * time.Millisecond, 300 * time.Millisecond, true, "{initial: 5ms}"},
		"half of it random":             {50 * time.Millisecond, 50 * time.Millisecond, false, "{initial: 50ms}"},
		"short, on a machine with time": {5 * time.Millisecond, 2 * time.Millisecond, false, "{initial: 5ms}"},
		"long, on a busy machine":       {200 * time.Millisecond, 150 * time.Millisecond, false, "{initial: 200ms}"},
		"with fetches under way":        {130 * time.Millisecond, 600 * time.Millisecond, false, "{initial: 50ms}"},
	} {
		s := newSeen()
		for i := range int32(25) {
			wait := one.least + one.width*time.Duration(i)/25
			*s.record(i) = record{planned: history.OutcomeTransient, tries: []try{
				{begin: time.Second, end: time.Second, outcome: history.OutcomeTransient},
				{begin: time.Second + wait, end: time.Second + wait, outcome: history.OutcomeSuccess}}}
		}
		l := &learned{watching: only(s), subject: subject}
		l.backoff()
		if len(l.lines) != 1 || l.lines[0].Key != "backoff" || l.lines[0].Open != one.question ||
			l.lines[0].Value != one.want {
			t.Errorf("%s: %+v", name, l.lines)
		}
	}
}

func spread(all ...int) []time.Duration {
	var gaps []time.Duration
	for _, one := range all {
		gaps = append(gaps, time.Duration(one)*time.Millisecond)
	}
	return gaps
}

// What is promised never forbids a wait that was seen, but for what a timer may be early, and exact waits are found
// again.
func TestFitIsNeverLongerThanTheWaits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		meant := backoff{
			initial: time.Duration(rapid.SampledFrom(mantissas()).Draw(t, "initial") *
				rapid.SampledFrom([]float64{1e7, 1e8, 1e9}).Draw(t, "unit, ns")),
			multiplier: rapid.SampledFrom([]float64{1, 1.5, 2, 3, 4}).Draw(t, "multiplier"),
		}
		jitter := rapid.SampledFrom([]float64{0, 0, 0.1, 0.5}).Draw(t, "jitter")
		waits := rapid.IntRange(1, 8).Draw(t, "waits")
		if limit := rapid.IntRange(0, 8).Draw(t, "cap"); limit > 0 && meant.multiplier > 1 {
			meant.cap = roundDown(meant.wait(limit))
		}
		var gaps [][]time.Duration
		for k := range waits {
			var of []time.Duration
			for range rapid.IntRange(leastGaps, 20).Draw(t, "records") {
				of = append(of, time.Duration(float64(meant.wait(k+1))*(1+jitter*rapid.Float64Range(0, 1).Draw(t, "jittered"))))
			}
			gaps = append(gaps, of)
		}
		b, ok := fit(gaps)
		if !ok {
			t.Fatal("nothing fits")
		}
		for k, of := range gaps {
			if wait := b.wait(k + 1); wait > slices.Min(of)+earlyIn(slices.Min(of)) || jitter == 0 && wait < slices.Min(of)*7/10 {
				t.Fatalf("%+v promises %v, and the shortest of %v was %v; meant was %+v", b, wait, of, slices.Min(of), meant)
			}
		}
	})
}

// What was found besides the contract is shown with its comments: the contract is of no use without it.
func TestChanged(t *testing.T) {
	t.Parallel()
	before := "name: a\n\n# How?\nenv:\n  A: b\ndownstreams:\n- http: {}\ncontract:\n  logical: terminal\n"
	after := "name: a\n\n# Its topic.\ntopics: [b]\n# How?\nenv:\n  A: b\n\n# Look.\n\n# Seen.\n# Twice.\ninput:\n" +
		"  samples: a.jsonl\n  # A guess.\n  id: {at: $.id}\ndownstreams:\n- http: {id: {in: path}}\ncontract:\n  x: y\n"
	want := "# Its topic.\ntopics: [b]\n# Seen.\n# Twice.\ninput:\n  samples: a.jsonl\n  # A guess.\n  id: {at: $.id}\n" +
		"downstreams:\n- http: {id: {in: path}}\n"
	if got := changed([]byte(before), []byte(after)); got != want {
		t.Errorf("%q\nwant\n%q", got, want)
	}
	if got := changed([]byte(after), []byte(after)); got != "" {
		t.Errorf("%q", got)
	}
}

func TestSplice(t *testing.T) {
	const contract = "contract:\n  a: 1\n"
	for _, one := range []struct{ file, want string }{
		{"name: x\n", "name: x\n" + contract},
		{"name: x", "name: x\n" + contract},
		{"name: x\ncontract:\n  b: 2\n\n  # why\n  c: {d: 3}\nenv: {E: f}\n", "name: x\n" + contract + "env: {E: f}\n"},
		{"contract:\n  b: 2\n# old\n  c: 3\n\n# How it goes back.\nreplay: {}\n", contract + "\n# How it goes back.\nreplay: {}\n"},
		{"contract:\n  b: 2\n\n# the end\n", contract + "# the end\n"},
		{"contract: {b: 2}\nname: x\n", contract + "name: x\n"},
		{"contract: {b: 2,\n           c: 3}\n", contract},
		{"contract:\n  b: 2", contract},
	} {
		if got := string(Splice([]byte(one.file), contract)); got != one.want {
			t.Errorf("Splice(%q) = %q, want %q", one.file, got, one.want)
		}
	}
}

// A consumer that somebody else starts can't be killed, and nothing is started for it.
func TestAConsumerThatIsStartedByHand(t *testing.T) {
	_, err := Learn(t.Context(), Config{File: "subject.yaml",
		Text: []byte("{name: it, kind: external, external: {kafka: 19092, downstream: 18080}}")})
	if !errors.Is(err, ErrNothingSeen) || !strings.Contains(err.Error(), "kind: external") {
		t.Errorf("it says %v", err)
	}
}

// What can't be learned is kept from the file.
func TestPromisesThatCannotBeLearnedAreKept(t *testing.T) {
	text := []byte(`name: it
kind: process
command: [it]
contract:
  group: orders
  isolation: 50%
  health: "http://127.0.0.1:{{.Port}}/health"
  backoff: {initial: 1s, jitter: 20ms, late: 300ms}
  dlq: {topic: parked, partition: same, surfaced_within: 10s}
  stop: {codes: [3, 4]}
  effects: {sql: "select id, count(*) from orders where state <> 'new' group by 1", repeats: never, atomic: true}
downstreams:
  - http: {id: {in: path}}
  - postgres: {}
`)
	subject := must.Get(scenarios.ParseSubject("subject.yaml", text))(t)
	l := watch(t, usual())
	again := propose(only(l.seen), subject, nil)
	again.path, again.text = "subject.yaml", text
	learned := must.Get(again.file())(t)
	was, is := subject.Contract, learned.Contract
	if is.Group != was.Group || is.Isolation != was.Isolation || is.Health != was.Health ||
		is.Backoff.Jitter != was.Backoff.Jitter || is.Backoff.Late != was.Backoff.Late || is.DLQ.Topic != was.DLQ.Topic ||
		is.DLQ.Partition != was.DLQ.Partition || is.DLQ.SurfacedWithin != was.DLQ.SurfacedWithin ||
		!slices.Equal(is.Stop.Codes, was.Stop.Codes) || !reflect.DeepEqual(is.Effects, was.Effects) {
		t.Errorf("of %s\nis kept\n%s", text, Contract(again.lines))
	}
	if is.Attempts.Max != 4 || is.Backoff.Initial.D() != 100*time.Millisecond {
		t.Errorf("it is not learned beside that:\n%s", Contract(again.lines))
	}
}

// A process that ends by itself while dead letters are refused promises to crash. One that ended before, or was killed,
// does not.
func TestAnEndWhileDeadLettersAreRefused(t *testing.T) {
	verdict := &assertions.Verdict{Faults: []assertions.FaultResult{
		{PlannedFault: history.PlannedFault{Kind: "subject"}, Observed: assertions.FaultSeen{FaultWindow: assertions.FaultWindow{From: 1}}},
		{PlannedFault: history.PlannedFault{Kind: "kafka", API: "Produce"},
			Observed: assertions.FaultSeen{FaultWindow: assertions.FaultWindow{From: 10 * time.Second}}},
	}}
	for name, one := range map[string]struct {
		crash crash
		want  string
	}{
		"refused":  {crash{at: 11 * time.Second, code: 1}, "crash"},
		"before":   {crash{at: 9 * time.Second, code: 1}, "halt"},
		"killed":   {crash{at: 11 * time.Second, code: -1, text: "KILL"}, "halt"},
		"in quiet": {crash{at: 11 * time.Second, code: 0}, "halt"},
	} {
		l := &learned{lines: []Line{{Key: "dlq", Value: "{envelope: plain, on_failure: halt}"}}}
		l.onFailure(&seen{crashes: []crash{one.crash}}, verdict)
		if want := "{envelope: plain, on_failure: " + one.want + "}"; l.lines[0].Value != want {
			t.Errorf("%s: it is %s, want %s", name, l.lines[0].Value, want)
		}
	}
}

// If the run with faults fails, or if the user ends it, what was seen without them is kept.
func TestAContractThatWasNotTested(t *testing.T) {
	t.Parallel()
	slow, report := errors.New("instance 0 was not ready after 30s"), &Report{}
	if err := report.untested(t.Context(), slow); err != nil || len(report.Notes) != 1 ||
		!strings.Contains(report.Notes[0], slow.Error()) {
		t.Errorf("%v, notes %q", err, report.Notes)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := report.untested(ended, slow); !errors.Is(err, slow) || len(report.Notes) != 2 ||
		!strings.Contains(report.Notes[1], "was interrupted, so") {
		t.Errorf("it was ended, and goes on: %v, notes %q", err, report.Notes)
	}
}

// Both scenarios are valid, and what can't be followed without a header can be left out.
func TestScenarios(t *testing.T) {
	for name, text := range map[string][]byte{"watch.yaml": watchScenario, "break.yaml": breakScenario} {
		scenario, _, err := scenarios.ParseWith(name, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		if scenario.InstanceCount() != 2 {
			t.Errorf("%s has %d instances", name, scenario.InstanceCount())
		}
		scenario, _, err = scenarios.ParseWith(name, text, readable())
		if err != nil {
			t.Fatal(err)
		}
		if load := scenario.Workload; load.Garbage > 0 || load.Tombstones > 0 || load.Malformed != nil && load.Malformed.Share > 0 {
			t.Errorf("%s: %+v", name, load)
		}
	}
}

// Of attempts in a transaction that is aborted, those of several records say nothing, and that of one alone does.
func TestAttemptsOfAnAbortedTransaction(t *testing.T) {
	header := history.Header{Topics: []history.Topic{{Name: "in", Role: history.RoleInput}}}
	var events []history.Event
	put := func(kind history.Kind, record, n int32) {
		e := history.New(kind, time.Duration(len(events))*time.Millisecond)
		e.Instance, e.Record, e.N, e.Op = 0, record, n, int64(record)
		e.Flags, e.ProducerID, e.ProducerEpoch, e.Outcome = history.InTransaction, 7, 0, history.OutcomePermanent
		events = append(events, e)
	}
	attempt := func(records ...int32) {
		for _, record := range records {
			put(history.KindAttemptStart, record, 1)
		}
		for _, record := range records {
			put(history.KindAttemptEnd, record, 1)
		}
	}
	attempt(0, 1)
	put(history.KindTxnEndRequest, -1, 0)
	attempt(0)
	put(history.KindTxnEndRequest, -1, 0)
	attempt(1, 2)
	put(history.KindTxnEndRequest, -1, 1)
	s := newSeen()
	must.Do(t, s.read(history.FromEvents(header, events)))
	for number := range s.records {
		if tries := s.records[number].tries; len(tries) != 1 || tries[0].outcome != history.OutcomePermanent {
			t.Errorf("record %d: %+v", number, tries)
		}
	}
}

// A consumer at fixed ports has one instance, and every scenario of learning is one that it can have.
func TestScenariosForOneInstance(t *testing.T) {
	t.Parallel()
	subject := must.Get(scenarios.ParseSubject("subject.yaml", []byte("{name: it, kind: process, command: [it], listen: "+
		"{kafka: 9092}, input: {header: false}}")))(t)
	c := &Config{File: "subject.yaml"}
	for name, text := range map[string][]byte{"look": lookScenario, "watch": watchScenario, breakName: breakScenario} {
		options, err := c.options(name, text, subject)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if options.Scenario.InstanceCount() != 1 {
			t.Errorf("%s has %d instances", name, options.Scenario.InstanceCount())
		}
	}
}
