package learn

// What the history of a run shows, without a contract.

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/internal/units"
)

// seen is what was observed of a consumer in one run.
type seen struct {
	header  history.Header
	records []record
	// committed is the group's offset in each partition at the end.
	committed map[place]int64
	stops     []stop
	crashes   []crash
	// commits counts the answered commits, pause is the longest time between two of an instance while it had records.
	commits int
	pause   time.Duration
	// transactional counts dead letters and offsets that were written in a transaction.
	transactional struct{ deadLetters, offsets int }
	shared        bool
	// left counts how often an instance left its group, and was not told to stop.
	left int
	// drained is when the run stopped waiting for the consumer.
	drained time.Duration
	// nameless is the number of calls without an id, lettersUnnamed that of dead letters without one.
	nameless, lettersUnnamed int
	// batch is a call for several records at once, "" if there was none.
	batch string
	// said are the first lines of the log that report an error.
	said []string
	// deadLetters are the dead letters that the audit found, with their records.
	deadLetters []deadLetter
	// copies counts the copies of records that the audit found in each retry topic.
	copies map[string]int
	// unnamedInput are what the audit found in the input topic without an id. again counts records that it found there
	// once more.
	unnamedInput []*kgo.Record
	again        int
	// discovery is what the consumer joined, read, wrote and called.
	discovery *run.Discovery
}

type place struct {
	topic     int16
	partition int32
}

// record is what was planned for a record, and what became of it.
type record struct {
	planned     history.Outcome
	flags       history.Flags
	at          place
	offset      int64
	tries       []try
	deadLetters int
	sent        time.Duration
	// handed is when it was first fetched, 0 if never.
	handed time.Duration
	// original is the record as the audit found it in the input topic, nil if it did not.
	original *kgo.Record
}

// try is one attempt. end is 0 if it was never answered.
type try struct {
	by         process
	begin, end time.Duration
	outcome    history.Outcome
	after      time.Duration
	// text is the statement that began it, "" of a call.
	text string
	// undone: it was a write in a transaction with several records that was aborted, so its answer was not about it.
	undone bool
}

// process is one of an instance.
type process struct {
	instance int16
	run      uint16
}

// deadLetter is a dead letter and the record that it is about.
type deadLetter struct {
	record int32
	found  *kgo.Record
}

// stop is an end that was asked for with TERM; crash one that nobody asked for.
type stop struct {
	took time.Duration
	code int
	text string
}

type crash struct {
	at       time.Duration
	instance int16
	code     int
	text     string
}

// varying matches what differs in lines of a log that say the same: times, numbers and ids.
var varying = regexp.MustCompile(`(?i)\b[0-9a-f]+(?:-[0-9a-f]+){4}\b|[0-9]+`)

// says keeps a line of the log, unless one is kept that says the same.
func (s *seen) says(line string) {
	text := varying.ReplaceAllString(line, "0")
	if len(s.said) < saidKept && !slices.ContainsFunc(s.said, func(kept string) bool {
		return varying.ReplaceAllString(kept, "0") == text
	}) {
		s.said = append(s.said, line)
	}
}

// saidKept bounds the error lines that are kept.
const saidKept = 3

func newSeen() *seen {
	return &seen{committed: map[place]int64{}, copies: map[string]int{}, discovery: &run.Discovery{}}
}

// audited takes one record that an audit found; it is run.Options.Audited.
func (s *seen) audited(topic history.Topic, found *kgo.Record, event history.Event) {
	switch {
	case topic.Role == history.RoleInput:
		if event.Record >= 0 {
			s.input(event.Record, found)
		} else {
			s.unnamedInput = append(s.unnamedInput, found)
		}
	case topic.Role == history.RoleRetry:
		if event.Record >= 0 {
			s.copies[topic.Name]++
		}
	case topic.Role == history.RoleDLQ && event.Record < 0:
		s.lettersUnnamed++
	case topic.Role == history.RoleDLQ:
		s.deadLetters = append(s.deadLetters, deadLetter{event.Record, found})
		s.record(event.Record).deadLetters++
	}
}

// input notes a record of the input topic. Whatever comes there again was written by the consumer.
func (s *seen) input(number int32, found *kgo.Record) {
	switch known := s.record(number).original; {
	case known == nil:
		s.record(number).original = found
	case known.Topic == found.Topic && known.Partition == found.Partition && known.Offset == found.Offset:
	default:
		s.again++
		if found.Timestamp.Before(known.Timestamp) {
			s.record(number).original = found
		}
	}
}

// headers returns the names of the headers that records had before they were consumed.
func (s *seen) headers() map[string]bool {
	names := map[string]bool{}
	note := func(found *kgo.Record) {
		for _, header := range found.Headers {
			names[header.Key] = true
		}
	}
	for _, found := range s.unnamedInput {
		note(found)
	}
	for i := range s.records {
		if original := s.records[i].original; original != nil {
			note(original)
		}
	}
	return names
}

func (s *seen) record(number int32) *record {
	for len(s.records) <= int(number) {
		s.records = append(s.records, record{offset: history.None})
	}
	return &s.records[number]
}

// read walks through the history.
func (s *seen) read(source history.Source) error {
	s.header = source.Header()
	walk := walker{seen: s, open: map[int64]int32{}, asked: map[int16]time.Duration{}, busy: map[int16]time.Duration{},
		within: map[int64]*transaction{}}
	err := source.Each(func(e *history.Event) error {
		walk.take(e)
		return nil
	})
	for i := range s.records {
		s.records[i].tries = slices.DeleteFunc(s.records[i].tries, func(one try) bool { return one.undone })
	}
	return err
}

// walker holds what is under way at one point of a history.
type walker struct {
	*seen
	// open are the records whose attempts are under way, by operation; asked the times of TERM; busy since when an
	// instance has records that it has not committed.
	open  map[int64]int32
	asked map[int16]time.Duration
	busy  map[int16]time.Duration
	// within holds the open transactions by producer.
	within map[int64]*transaction
}

// transaction holds the records that are in a transaction, and the indices of their attempts there.
type transaction struct {
	records map[int32]bool
	tries   map[int32][]int
}

// join adds what is known of the record to the transaction that the event is in.
func (w *walker) join(e *history.Event) {
	if !e.Flags.Has(history.InTransaction) || e.ProducerID < 0 {
		return
	}
	t := w.within[e.ProducerID]
	if t == nil {
		t = &transaction{records: map[int32]bool{}, tries: map[int32][]int{}}
		w.within[e.ProducerID] = t
	}
	t.records[e.Record] = true
	if e.Kind == history.KindAttemptStart {
		t.tries[e.Record] = append(t.tries[e.Record], len(w.record(e.Record).tries)-1)
	}
}

// end ends a transaction. Of one with several records that is aborted, nobody can tell which of them was refused.
func (w *walker) end(e *history.Event) {
	t := w.within[e.ProducerID]
	delete(w.within, e.ProducerID)
	if t == nil || e.N == 1 || len(t.records) == 1 {
		return
	}
	for number, indices := range t.tries {
		for _, i := range indices {
			w.record(number).tries[i].undone = true
		}
	}
}

func (w *walker) take(e *history.Event) {
	switch e.Kind {
	case history.KindSend:
		r := w.record(e.Record)
		r.planned, r.flags, r.sent = e.Outcome, e.Flags, e.Time
	case history.KindAcked:
		if e.Code == 0 {
			r := w.record(e.Record)
			r.at, r.offset = place{e.Topic, e.Partition}, e.Offset
		}
	case history.KindAttemptStart, history.KindAttemptEnd:
		w.attempt(e)
	case history.KindCommitRequest, history.KindCommitResponse, history.KindFetched, history.KindProduceRequest:
		w.traffic(e)
	case history.KindTxnEndRequest:
		w.end(e)
	case history.KindShareAcquired:
		w.shared = true
	case history.KindInstanceSignal, history.KindInstanceExited:
		w.process(e)
	case history.KindSubjectError:
		w.says(e.Text)
	case history.KindUnreadable:
		if e.Code == history.None && e.Instance >= 0 {
			w.batch = e.Text
		}
	case history.KindMembership:
		if _, told := w.asked[e.Instance]; e.N == 0 && e.Text != "seeks" && !told {
			w.left++
		}
	case history.KindPhase:
		if e.Text == history.PhaseAudit {
			w.drained = e.Time
		}
	case history.KindAuditOffsets:
		w.committed[place{e.Topic, e.Partition}] = e.Aux
	}
}

func (w *walker) attempt(e *history.Event) {
	if e.Record < 0 || e.Instance < 0 {
		if e.Kind == history.KindAttemptStart && e.Instance >= 0 {
			w.nameless++
		}
		return
	}
	r := w.record(e.Record)
	if e.Kind == history.KindAttemptStart {
		r.tries = append(r.tries, try{by: process{e.Instance, e.Run}, begin: e.Time, text: e.Text})
		w.open[e.Op] = int32(len(r.tries) - 1)
		w.join(e)
		return
	}
	if i, found := w.open[e.Op]; found && int(i) < len(r.tries) {
		r.tries[i].end, r.tries[i].outcome, r.tries[i].after = e.Time, e.Outcome, time.Duration(e.Aux)
		delete(w.open, e.Op)
	}
}

func (w *walker) traffic(e *history.Event) {
	if e.Instance < 0 {
		return
	}
	switch e.Kind {
	case history.KindFetched:
		w.hand(e)
		if _, busy := w.busy[e.Instance]; !busy {
			w.busy[e.Instance] = e.Time
		}
	case history.KindCommitRequest:
		if e.Flags.Has(history.InTransaction) {
			w.transactional.offsets++
		}
	case history.KindCommitResponse:
		if e.Code != 0 {
			return
		}
		w.commits++
		if since, busy := w.busy[e.Instance]; busy {
			w.pause = max(w.pause, e.Time-since)
			delete(w.busy, e.Instance)
		}
	case history.KindProduceRequest:
		if w.header.Topics[max(e.Topic, 0)].Role == history.RoleDLQ && e.Flags.Has(history.InTransaction) {
			w.transactional.deadLetters++
			w.join(e)
		}
	}
}

// hand notes which unreadable records, and records without a value, an instance fetched.
func (w *walker) hand(e *history.Event) {
	for i := range w.records {
		r := &w.records[i]
		odd := r.flags&(history.Garbage|history.Tombstone) != 0
		if odd && r.handed == 0 && r.at == (place{e.Topic, e.Partition}) && r.offset >= 0 &&
			r.offset <= max(e.Offset, e.Aux) {
			r.handed = e.Time
		}
	}
}

func (w *walker) process(e *history.Event) {
	if e.Kind == history.KindInstanceSignal {
		if e.Text == "TERM" {
			w.asked[e.Instance] = e.Time
		}
		return
	}
	asked, term := w.asked[e.Instance]
	switch delete(w.asked, e.Instance); {
	case term:
		w.stops = append(w.stops, stop{took: e.Time - time.Duration(max(e.Aux, 0)) - asked, code: int(e.Code), text: e.Text})
	case !e.Flags.Has(history.Expected):
		w.crashes = append(w.crashes, crash{at: e.Time, instance: e.Instance, code: int(e.Code), text: e.Text})
	}
}

// firstUnreadable returns when the first record that can't be read was sent.
func (s *seen) firstUnreadable() (at time.Duration, sent bool) {
	for _, r := range s.marked(history.Garbage) {
		if !sent || r.sent < at {
			at, sent = r.sent, true
		}
	}
	return at, sent
}

// finished reports whether the group has committed past the record.
func (s *seen) finished(r *record) bool {
	return r.offset >= 0 && s.committed[r.at] > r.offset
}

// fellAt reports whether the record was committed, and the consumer may not have survived it: a process ended by itself
// before anything behind it in its partition was tried, or nothing was. Auto-commit commits such records. Where nothing
// shows attempts, it is not known.
func (s *seen) fellAt(r *record) bool {
	if !slices.ContainsFunc(s.records, func(one record) bool { return len(one.tries) > 0 }) {
		return false
	}
	next, behind := time.Duration(0), false
	for i := range s.records {
		one := &s.records[i]
		if one.at != r.at || one.offset <= r.offset || one.flags&(history.Garbage|history.Tombstone) != 0 {
			continue
		}
		behind = true
		for _, try := range one.tries {
			if next == 0 || try.begin < next {
				next = try.begin
			}
		}
	}
	return s.finished(r) && behind && (next == 0 || slices.ContainsFunc(s.crashes, func(c crash) bool {
		return c.at >= r.handed && c.at < next
	}))
}

// stillness is how long a record must be left alone to count as one at which the consumer halts. It is more than most
// consumers wait between two attempts.
const stillness = 30 * time.Second

// halted reports whether the consumer was handed the record, and left it and what is behind it alone until the end.
func (s *seen) halted(r *record) bool {
	return r.handed > 0 && r.deadLetters == 0 && len(r.tries) == 0 && !s.finished(r) && s.drained-r.handed >= stillness
}

// haltsAtUnreadable reports whether the consumer halted at each unreadable record that it was handed, and at one at
// least.
func (s *seen) haltsAtUnreadable() bool { return s.haltsAt(history.Garbage) }

// haltsAtNull is the same of records without a value. Of a consumer that halts at unreadable ones, it may only say that
// those without a value wait behind them.
func (s *seen) haltsAtNull() bool { return s.haltsAt(history.Tombstone) }

// haltsAt reports whether the consumer halted at each record of this kind that it was handed. If its processes ended by
// themselves, that may have been at another record: so one of these must be the first that was left in its partition.
func (s *seen) haltsAt(flag history.Flags) bool {
	halted, first := 0, len(s.crashes) == 0
	for _, r := range s.marked(flag) {
		switch {
		case s.halted(r):
			halted++
			first = first || s.firstLeft(r)
		case r.handed > 0:
			return false
		}
	}
	return halted > 0 && first && !s.shared
}

// reached returns the records of this kind without those that only waited behind another one when the processes had
// ended by themselves.
func (s *seen) reached(flag history.Flags) []*record {
	return slices.DeleteFunc(s.marked(flag), func(r *record) bool {
		return len(s.crashes) > 0 && s.halted(r) && !s.firstLeft(r)
	})
}

// firstLeft reports whether everything before the record in its partition came to an end.
func (s *seen) firstLeft(r *record) bool {
	return !slices.ContainsFunc(s.records, func(before record) bool {
		return before.at == r.at && before.offset >= 0 && before.offset < r.offset && !s.finished(&before) &&
			before.deadLetters == 0 &&
			!slices.ContainsFunc(before.tries, func(t try) bool { return t.outcome == history.OutcomeSuccess })
	})
}

// of returns the records that were planned so and have a readable value.
func (s *seen) of(planned ...history.Outcome) []*record {
	var all []*record
	for i := range s.records {
		r := &s.records[i]
		for _, one := range planned {
			if r.planned == one && r.flags&(history.Tombstone|history.Garbage) == 0 && r.offset >= 0 {
				all = append(all, r)
			}
		}
	}
	return all
}

// follows reports whether the k-th of a record's tries (from 1) began after a wait. A process that takes over a
// partition does not wait for what another one has tried, unless it reads a copy in a retry topic, or is in a share
// group.
func (s *seen) follows(tries []try, k int) bool {
	return tries[k].by == tries[k-1].by || s.shared ||
		slices.ContainsFunc(s.header.Topics, history.Topic.TakesRetries)
}

// called reports whether each record without an id, of those that came to an end without a dead letter, stands for a
// call without one. The stub answers it with 404, which some clients take for a success.
func (s *seen) called() bool {
	ended := 0
	for _, r := range slices.Concat(s.marked(history.Tombstone), s.marked(history.Garbage)) {
		if r.deadLetters == 0 && len(r.tries) == 0 && s.finished(r) {
			ended++
		}
	}
	return ended > 0 && s.nameless == ended && s.lettersUnnamed == 0
}

// unnamed reports whether calls or dead letters without an id may be about records that can't be read. A consumer that
// drops the headers of such a record leaves nothing that names it.
func (s *seen) unnamed() bool { return s.nameless > 0 || s.lettersUnnamed > 0 }

// nullsUnnamed reports whether calls or dead letters without an id may be about records without a value, none of which
// was dead-lettered. Calls are not if all unreadable records were dead-lettered, and at least one of these after a call
// without an id: the stub answers all such calls alike.
func (s *seen) nullsUnnamed() bool {
	nulls, unreadable := s.marked(history.Tombstone), s.marked(history.Garbage)
	ended := !slices.ContainsFunc(unreadable, func(r *record) bool { return r.deadLetters == 0 })
	return s.unnamed() && (s.lettersUnnamed > 0 || !ended || s.nameless%len(nulls) == 0)
}

// anonymous reports whether no dead letter has an id of its record, though there are more of them than of records that
// can't be read or have no value.
func (s *seen) anonymous() bool {
	return len(s.deadLetters) == 0 &&
		s.lettersUnnamed > len(s.marked(history.Garbage))+len(s.marked(history.Tombstone))
}

// unnamedText counts the calls and dead letters without an id.
func (s *seen) unnamedText() string {
	var parts []string
	if s.nameless > 0 {
		parts = append(parts, units.Plural(int64(s.nameless), "call", "calls"))
	}
	if s.lettersUnnamed > 0 {
		parts = append(parts, units.Plural(int64(s.lettersUnnamed), "dead letter", "dead letters"))
	}
	return strings.Join(parts, " and ")
}

// marked returns the records that carry the flag (Tombstone, Garbage).
func (s *seen) marked(flag history.Flags) []*record {
	var all []*record
	for i := range s.records {
		if s.records[i].flags.Has(flag) && s.records[i].offset >= 0 {
			all = append(all, &s.records[i])
		}
	}
	return all
}
