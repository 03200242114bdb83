package generate

// This file gathers the facts about each record and partition of a history, so that a corruption can find a place where
// it applies and nothing excuses it.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const none = history.None

// pair holds the indexes of a request and its answer in History.Events. answer is none if it never came.
type pair struct{ ask, answer int }

// facts are the facts of one record.
type facts struct {
	number   int32
	send     int
	acked    int   // none if never
	again    []int // acknowledgements of its second copy
	twice    bool  // it was produced twice
	fetched  int   // the first fetch of its offset, or none
	attempts []pair
	letters  []pair
	copies   []pair // retry copies
	replays  []pair
	calls    []pair // of downstreams that do not decide
	selected []int
	// These are the record's audit records from the last audit of each topic: in the input topic at its offset,
	// elsewhere in the input or retry topics, and in the dead-letter topic.
	inTopic, asCopy, asDeadLetter []int
}

// view is a history and its facts.
type view struct {
	Choices
	*History
	records []*facts
	commits map[spot][]pair
	// trouble reports whether the run had a disturbance that may excuse anything.
	trouble bool
	// aborted: a transaction was, or its process may take it for aborted.
	aborted bool
	// changes counts how often a partition changed owners; refused counts its commits that were not accepted without
	// error.
	changes, refused map[spot]int
	exited           map[int16]bool // before the audit
	// together: a call may have failed others with it: a write to an output topic failed, or calls are for several
	// records.
	together bool
	// also are findings of a corruption about other records.
	also []Finding
}

func look(h *History, c Choices) *view {
	v := &view{Choices: c, History: h, commits: map[spot][]pair{}, changes: map[spot]int{}, refused: map[spot]int{},
		exited: map[int16]bool{}}
	for number := range int32(h.Header.Records) {
		v.records = append(v.records, &facts{number: number, send: none, acked: none, fetched: none})
	}
	auditing := false
	for i := range h.Events {
		e := &h.Events[i]
		auditing = auditing || e.Kind == history.KindPhase && e.Text == history.PhaseAudit
		switch e.Kind {
		case history.KindStall, history.KindInstanceSignal:
			v.trouble = v.trouble || e.Kind == history.KindStall || e.Text == "STOP"
		case history.KindTxnEndRequest:
			v.aborted = v.aborted || !e.InBatch() && !h.committed(i)
			v.trouble = v.trouble || v.aborted
		case history.KindFaultStart:
			v.trouble = v.trouble || h.Header.Faults[e.Op].Target != "dlq"
		case history.KindInstanceExited:
			if !auditing {
				v.exited[e.Instance] = true
			}
		case history.KindAssigned, history.KindRevoked:
			v.changes[spot{e.Topic, e.Partition}]++
		case history.KindUnreadable:
			v.together = true
		case history.KindFetched:
			v.noteFetch(i, e)
		case history.KindCommitRequest, history.KindCommitResponse:
			v.noteCommit(i, e)
		default:
			v.noteRecord(i, e)
		}
	}
	return v
}

// committed reports whether the end of a transaction committed it, and its process heard of it.
func (h *History) committed(end int) bool {
	ask := &h.Events[end]
	return ask.N == 1 && slices.ContainsFunc(h.Events[end:], func(e history.Event) bool {
		return e.Kind == history.KindTxnEndResponse && e.Op == ask.Op && plain(&e)
	})
}

func (v *view) of(record int32) *facts {
	if record < 0 || int(record) >= len(v.records) {
		return nil
	}
	return v.records[record]
}

func (v *view) noteFetch(i int, e *history.Event) {
	for _, f := range v.records {
		if f.acked == none || f.fetched != none {
			continue
		}
		if a := &v.Events[f.acked]; a.Topic == e.Topic && a.Partition == e.Partition && a.Offset >= e.Offset &&
			a.Offset <= e.Aux {
			f.fetched = i
		}
	}
}

func (v *view) noteCommit(i int, e *history.Event) {
	at := spot{e.Topic, e.Partition}
	if e.Kind == history.KindCommitRequest {
		v.commits[at] = append(v.commits[at], pair{i, none})
		v.refused[at]++
		return
	}
	for n := range v.commits[at] {
		if one := &v.commits[at][n]; one.answer == none && v.Events[one.ask].Op == e.Op {
			one.answer = i
			if plain(e) {
				v.refused[at]--
			}
		}
	}
}

func (v *view) noteRecord(i int, e *history.Event) {
	f := v.of(e.Record)
	if f == nil {
		return
	}
	switch e.Kind {
	case history.KindSend:
		if f.twice = e.Flags.Has(history.Repeated); !f.twice {
			f.send = i
		}
	case history.KindAcked:
		switch {
		case e.Code != 0:
		case e.Flags.Has(history.Repeated):
			f.again = append(f.again, i)
		default:
			f.acked = i
		}
	case history.KindAttemptStart:
		f.attempts = append(f.attempts, pair{i, none})
	case history.KindAttemptEnd:
		v.answer(f.attempts, i, e.Op)
	case history.KindCallStart, history.KindCallEnd:
		if e.N > 0 { // those of an attempt say nothing that the attempt does not
			v.noteCall(i, e, f)
		}
	case history.KindProduceRequest:
		*f.writes(v, e) = append(*f.writes(v, e), pair{i, none})
	case history.KindProduceResponse:
		v.answer(*f.writes(v, e), i, e.Op)
	case history.KindReplaySelected:
		f.selected = append(f.selected, i)
	case history.KindAuditRecord:
		v.noteAudit(i, e, f)
	}
}

func (v *view) noteCall(i int, e *history.Event, f *facts) {
	if e.Kind == history.KindCallStart {
		f.calls = append(f.calls, pair{i, none})
		return
	}
	v.answer(f.calls, i, e.Op)
	v.together = v.together || v.Header.Downstreams[e.N].Topic && e.Outcome != history.OutcomeSuccess
}

func (f *facts) writes(v *view, e *history.Event) *[]pair {
	switch {
	case e.Instance == history.Replayer:
		return &f.replays
	case v.role(e.Topic) == history.RoleDLQ:
		return &f.letters
	}
	return &f.copies
}

func (v *view) answer(list []pair, i int, op int64) {
	for n := range list {
		if v.Events[list[n].ask].Op == op && list[n].answer == none {
			list[n].answer = i
		}
	}
}

func (v *view) noteAudit(i int, e *history.Event, f *facts) {
	list := &f.asCopy
	switch {
	case v.role(e.Topic) == history.RoleDLQ:
		list = &f.asDeadLetter
	case f.acked != none && v.home(f) == (spot{e.Topic, e.Partition}) && v.offset(f) == e.Offset:
		list = &f.inTopic
	}
	// A later audit of the topic replaces the earlier ones.
	*list = slices.DeleteFunc(*list, func(old int) bool {
		o := &v.Events[old]
		return o.Topic == e.Topic && o.Partition == e.Partition && o.Offset == e.Offset
	})
	*list = append(*list, i)
}

// plain reports whether the answer is a success and reached the requester.
func plain(e *history.Event) bool {
	return e.Code == 0 && !e.Flags.Has(history.Forged) && !e.Flags.Has(history.Withheld)
}

func (v *view) time(i int) time.Duration { return v.Events[i].Time }

// home is the record's partition.
func (v *view) home(f *facts) spot {
	e := &v.Events[f.acked]
	return spot{e.Topic, e.Partition}
}

func (v *view) offset(f *facts) int64 { return v.Events[f.acked].Offset }

// quiet reports whether the record was delivered once, every request about it succeeded, each of its attempts says
// something about it, and the run had no disturbance that may excuse anything.
func (v *view) quiet(f *facts) bool { return !v.opened(f) && v.undisturbed(f) }

// undisturbed is quiet for a record whose calls for several records may have been refused.
func (v *view) undisturbed(f *facts) bool {
	if f.acked == none || f.fetched == none || v.trouble || len(f.replays)+len(f.selected) > 0 {
		return false
	}
	if v.Header.Contract().Retry == history.RetryTopics && !v.Calm {
		return false
	}
	at := v.home(f)
	if v.changes[at] != 1 || v.refused[at] > 0 || v.exited[v.Events[f.fetched].Instance] || v.down() {
		return false
	}
	for _, list := range [][]pair{f.letters, f.copies} {
		for _, one := range list {
			if one.answer == none || !plain(&v.Events[one.answer]) {
				return false
			}
		}
	}
	if slices.ContainsFunc(f.attempts, func(one pair) bool { return one.answer == none }) {
		return false
	}
	if c := v.Header.Contract(); c.Calls > 1 && !c.HasDLQ() && slices.ContainsFunc(f.attempts, v.failed) {
		return false // which of its calls was the last one of its last attempt is not certain
	}
	return v.wellElsewhere(f)
}

func (v *view) failed(attempt pair) bool { return retryable(v.outcome(attempt)) }

// wellElsewhere reports whether the record's calls of other downstreams succeeded, and no failure there may have failed
// them in the memory of a client.
func (v *view) wellElsewhere(f *facts) bool {
	return !v.together && !slices.ContainsFunc(f.calls, func(one pair) bool {
		return one.answer == none || v.outcome(one) != history.OutcomeSuccess || v.Events[one.answer].Flags != 0
	})
}

// down reports whether dead letters could not be written for a while.
func (v *view) down() bool {
	return slices.ContainsFunc(v.Header.Faults, func(f history.PlannedFault) bool { return f.StopsDeadLetters })
}

// alone reports whether no order is promised between the record and a later one.
func (v *view) alone(f *facts) bool {
	ordering := v.Header.Contract().Ordering
	if ordering == history.OrderingNone {
		return true
	}
	mine := &v.Events[f.send]
	for _, other := range v.records[f.number+1:] {
		e := &v.Events[other.send]
		if e.Topic == mine.Topic && e.Partition == mine.Partition &&
			(ordering == history.OrderingPartition || e.N == mine.N && mine.N >= 0) {
			return false
		}
	}
	return true
}

// covering returns the first accepted commit past the record, if there are both.
func (v *view) covering(f *facts) (one pair, found bool) {
	if f == nil || f.acked == none {
		return pair{}, false
	}
	for _, one := range v.commits[v.home(f)] {
		if v.Events[one.ask].Offset > v.offset(f) && one.answer != none && plain(&v.Events[one.answer]) {
			return one, true
		}
	}
	return pair{}, false
}

// ended returns the time at which the record's obligation was first met in its own partition, and whether it was met.
func (v *view) ended(f *facts) (time.Duration, bool) {
	for _, one := range f.attempts {
		if one.answer == none || v.unheard(one) {
			continue
		}
		e := &v.Events[one.answer]
		if e.Outcome == history.OutcomeSuccess ||
			e.Outcome == history.OutcomeLogical && v.Header.Contract().LogicalEnds() {
			return e.Time, true
		}
	}
	for _, list := range [][]pair{f.copies, f.letters} {
		for _, one := range list {
			if one.answer != none && plain(&v.Events[one.answer]) {
				return v.time(one.answer), true
			}
		}
	}
	return 0, false
}

// chosen draws one of the records for which the condition holds, or returns nil. It leaves out those that were produced
// twice.
func (v *view) chosen(holds func(*facts) bool) *facts { return v.draw(false, holds) }

// chosenTwice draws one of those that were produced twice.
func (v *view) chosenTwice(holds func(*facts) bool) *facts { return v.draw(true, holds) }

func (v *view) draw(twice bool, holds func(*facts) bool) *facts {
	var all []*facts
	for _, f := range v.records {
		if f.send != none && f.twice == twice && holds(f) {
			all = append(all, f)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[v.Intn(len(all))]
}

// lone returns the only record for which the condition holds, or nil if there is none or several.
func (v *view) lone(holds func(*facts) bool) *facts {
	var one *facts
	for _, f := range v.records {
		if f.send == none || !holds(f) {
			continue
		}
		if one != nil || f.twice {
			return nil
		}
		one = f
	}
	return one
}
