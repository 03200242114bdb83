package assertions

// State: the dead-letter store and its service. Routers and workers are not instances of the subject. Their actions are
// kept here and hidden from the rest of the state, except for the records they write back, which count as replays.
//
// A change of an entry is seen later than it was made. The table dates the change by the database's clock;
// storeState.blur bounds the difference between that clock and the run's. Times of one clock are compared directly: two
// changes, or a change and the time that the entry promised. Times of different clocks are compared with the blur in
// the service's favour.

import (
	"cmp"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// storeState is the state of the store as the history shows it.
type storeState struct {
	entries   map[int64]*storeEntry
	processes map[int16]*storeProcess
	// attempts and republished hold, by record, the attempts and writes on the store's behalf.
	attempts    map[int32][]storeAttempt
	republished map[int32][]republish
	open        map[int64]int // attempts and writes that have no answer yet: their index in the lists
	commits     []routerCommit
	probes      map[int16][]probeAnswer // answers of the health probe, by worker
	// tries holds open attempts that workers of the subject's own store may have made, healed the records that
	// succeeded in one.
	tries  map[int64]struct{}
	healed map[int32]struct{}
	asked  map[commitKey]routerCommit
	blur   time.Duration
	// lost holds the intervals in which the table was not observed.
	lost      []span
	begun     time.Duration // never, if the observation never began
	until     time.Duration // the last observation of the table
	polled    bool
	audited   bool
	auditedAt time.Duration // by the database's clock
}

// storeEntry is one entry, with all its observed changes.
type storeEntry struct {
	number  int64
	record  int32
	letter  place
	source  place // none if the entry does not name it
	changes []storeChange
	there   bool // at the audit of the store
}

// storeChange is one change; made is never if the table does not date it.
type storeChange struct {
	history.StoreChange
	seen, made time.Duration
	by         int16
	retries    int32
	polled     bool
}

// madeBefore is the latest time, on the run's clock, at which the change can have been made.
func (s *storeState) madeBefore(c *storeChange) time.Duration {
	if c.made == never {
		return c.seen
	}
	return min(c.seen, c.made+s.blur)
}

// storeProcess is a router or a worker, with the times when it ran and when it was stopped.
type storeProcess struct {
	instance int16
	alive    []span
	still    []span
	stopped  time.Duration
}

// storeAttempt is an attempt of a worker; to is endless until it ends.
type storeAttempt struct {
	by       holder
	from, to time.Duration
	outcome  history.Outcome
	gone     bool
}

// republish is a record that was written back on the store's behalf.
type republish struct {
	by            holder
	topic         int16
	at, answered  time.Duration
	stored, known bool
}

type routerCommit struct {
	by       int16
	at       time.Duration
	place    place // everything below its offset is done
	accepted bool
}

func newStoreState() *storeState {
	return &storeState{
		entries: map[int64]*storeEntry{}, processes: map[int16]*storeProcess{}, attempts: map[int32][]storeAttempt{},
		tries: map[int64]struct{}{}, healed: map[int32]struct{}{}, republished: map[int32][]republish{},
		probes: map[int16][]probeAnswer{}, open: map[int64]int{}, asked: map[commitKey]routerCommit{}, begun: never,
		until: never,
	}
}

// takeStore applies an event that concerns the store, and reports whether no other part of the state needs the event.
func (w *state) takeStore(e *history.Event) bool {
	s := w.store
	switch e.Kind {
	case history.KindStoreChange, history.KindStoreEntry:
		s.change(e)
	case history.KindStoreClock:
		s.blur = max(s.blur, time.Duration(e.Aux))
	case history.KindStoreWatch:
		s.watch(e)
	case history.KindStoreAudited:
		s.audited, s.auditedAt, s.until = true, timeOr(e.Aux), e.Time
	default:
		if w.onStoresBehalf(e) {
			return true
		}
		if !ofService(e) {
			return false
		}
		w.serve(e)
	}
	return true
}

// ofService reports whether a router or a worker caused the event. A fault's effect on one is attributed to the fault.
func ofService(e *history.Event) bool {
	fault := e.Kind == history.KindFaultStart || e.Kind == history.KindFaultEffect || e.Kind == history.KindFaultEnd
	return history.OfStore(e.Instance) && !fault
}

// serve applies an action of a router or a worker.
func (w *state) serve(e *history.Event) {
	s := w.store
	switch e.Kind {
	case history.KindInstanceStarting, history.KindInstanceSignal, history.KindInstanceExited:
		s.lifecycle(e)
	case history.KindStall:
		one := s.process(e.Instance)
		lasted := time.Duration(e.Aux)
		one.still = append(one.still, span{from: e.Time - lasted - sampling, to: e.Time, lasted: lasted})
	case history.KindAttemptStart:
		s.open[e.Op] = len(s.attempts[e.Record])
		s.attempts[e.Record] = append(s.attempts[e.Record], storeAttempt{by: holder{e.Instance, e.Run}, from: e.Time,
			to: endless})
	case history.KindAttemptEnd:
		if at, known := s.open[e.Op]; known && at < len(s.attempts[e.Record]) {
			one := &s.attempts[e.Record][at]
			one.to, one.outcome, one.gone = e.Time, e.Outcome, e.Flags.Has(history.ClientGone)
			delete(s.open, e.Op)
		}
	case history.KindProduceRequest:
		s.askRepublish(e)
		w.askReplay(e)
	case history.KindProduceResponse:
		s.answerRepublish(e)
		w.answerWrite(e)
	case history.KindCommitRequest, history.KindCommitResponse:
		s.routerCommits(e)
	case history.KindStoreProbe:
		s.probes[e.Instance] = append(s.probes[e.Instance], probeAnswer{e.Time, e.Text})
	}
}

// timeOr returns a time that an event may not carry.
func timeOr(aux int64) time.Duration {
	if aux == history.None {
		return never
	}
	return time.Duration(aux)
}

func (s *storeState) change(e *history.Event) {
	said, err := history.ParseStoreChange(e.Text)
	if err != nil {
		return // written by a later version
	}
	one := s.entries[e.Op]
	if one == nil {
		one = &storeEntry{number: e.Op, record: none, letter: place{none, none, none}, source: place{none, none, none}}
		s.entries[e.Op] = one
	}
	if e.Record >= 0 {
		one.record = e.Record
	}
	if e.Offset >= 0 {
		one.letter = place{e.Topic, e.Partition, e.Offset}
	}
	if e.Claim != nil && e.Claim.Offset >= 0 {
		one.source = place{e.Claim.Topic, e.Claim.Partition, e.Claim.Offset}
	}
	s.until = max(s.until, e.Time)
	polled := e.Flags.Has(history.Polled)
	s.polled = s.polled || polled
	if e.Kind == history.KindStoreEntry {
		one.there = true
		return
	}
	one.changes = append(one.changes, storeChange{
		StoreChange: said, seen: e.Time, made: timeOr(e.Aux), by: e.Instance, retries: e.N, polled: polled,
	})
}

func (s *storeState) watch(e *history.Event) {
	switch e.Text {
	case history.WatchBegins:
		s.begun = e.Time
	case history.WatchLost:
		s.lost = append(s.lost, span{from: e.Time, to: endless})
	case history.WatchResumed:
		if n := len(s.lost); n > 0 {
			s.lost[n-1].to = e.Time
		}
	}
	s.until = max(s.until, e.Time)
}

func (s *storeState) process(instance int16) *storeProcess {
	one := s.processes[instance]
	if one == nil {
		one = &storeProcess{instance: instance, stopped: never}
		s.processes[instance] = one
	}
	return one
}

func (s *storeState) lifecycle(e *history.Event) {
	one := s.process(e.Instance)
	switch {
	case e.Kind == history.KindInstanceStarting:
		one.alive = append(one.alive, span{from: e.Time, to: endless})
	case e.Kind == history.KindInstanceExited:
		if n := len(one.alive); n > 0 && one.alive[n-1].to == endless {
			one.alive[n-1].to = e.Time
		}
		one.resume(e.Time)
	case e.Text == "STOP" && one.stopped == never:
		one.stopped = e.Time
	case e.Text == "CONT":
		one.resume(e.Time)
	}
}

func (p *storeProcess) resume(at time.Duration) {
	if p.stopped != never {
		p.still = append(p.still, span{from: p.stopped, to: at, lasted: at - p.stopped, stopped: true})
		p.stopped = never
	}
}

// diedBetween returns when the process that ran at from ended, if it ended before to.
func (p *storeProcess) diedBetween(from, to time.Duration) (at time.Duration, died bool) {
	for _, one := range p.alive {
		if one.from <= from && from <= one.to {
			return one.to, one.to < to
		}
	}
	return never, false
}

func (s *storeState) askRepublish(e *history.Event) {
	s.open[e.Op] = len(s.republished[e.Record])
	s.republished[e.Record] = append(s.republished[e.Record], republish{by: holder{e.Instance, e.Run}, topic: e.Topic,
		at: e.Time, answered: endless})
}

func (s *storeState) answerRepublish(e *history.Event) {
	at, open := s.open[e.Op]
	if !open || at >= len(s.republished[e.Record]) {
		return
	}
	one := &s.republished[e.Record][at]
	one.answered = e.Time
	one.stored = e.Code == 0 && !e.Flags.Has(history.Forged)
	one.known = !e.Flags.Has(history.Withheld)
	delete(s.open, e.Op)
}

func (s *storeState) routerCommits(e *history.Event) {
	key := commitKey{e.Op, e.Topic, e.Partition}
	if e.Kind == history.KindCommitRequest {
		s.asked[key] = routerCommit{by: e.Instance, at: e.Time, place: place{e.Topic, e.Partition, e.Offset}}
		return
	}
	one, asked := s.asked[key]
	if !asked {
		return
	}
	delete(s.asked, key)
	one.accepted = e.Code == 0 && !e.Flags.Has(history.Forged)
	if one.accepted {
		s.commits = append(s.commits, one)
	}
}

// probeAnswer is the health probe's answer to a worker; unmet is "" if all conditions were met.
type probeAnswer struct {
	at    time.Duration
	unmet string
}

// list returns the entries in the order in which they were first seen.
func (s *storeState) list() []*storeEntry {
	all := make([]*storeEntry, 0, len(s.entries))
	for _, one := range s.entries {
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b *storeEntry) int { return int(a.number - b.number) })
	return all
}

// quiet reports whether there is an interval of at least need, between from and to, that no span overlaps. Stalls do
// not end the interval, but shorten it by twice their duration (catchUpShare).
func quiet(busy []span, from, to, need time.Duration) bool {
	slices.SortFunc(busy, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var stalls []span // the stalls that overlap the interval since from
	free := func(until time.Duration) bool {
		for _, one := range stalls {
			until -= catchUpShare * one.lasted
		}
		return until-from >= need
	}
	for _, one := range busy {
		switch {
		case free(min(one.from, to)):
			return true
		case one.to <= from:
		case one.lasted > 0 && !one.stopped:
			stalls = append(stalls, one)
		default:
			from = one.to
			stalls = slices.DeleteFunc(stalls, func(stall span) bool { return stall.to <= from })
		}
	}
	return free(to)
}
