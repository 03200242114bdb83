package reference

// This file judges records whose body the downstream stub cannot identify: tombstones and garbage. A statement about
// such a record is a statement about its position.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// owns reports whether the event is about the record, by its id or, without an id, by the position that it names.
func (r *record) owns(e *history.Event) bool {
	switch {
	case e.Record >= 0:
		return e.Record == r.number
	case e.Kind == history.KindAttemptStart || e.Kind == history.KindAttemptEnd:
		return r.send.Flags != 0 && r.at(e)
	}
	c := e.Claim
	return e.Kind == history.KindAuditRecord && c != nil && c.Topic == r.topic && c.Partition == r.partition &&
		c.Offset == r.offset
}

// taken is a history in which the records that the subject may process or refuse are ordinary ones, if a process of the
// subject attempted or called anything for them, and else ones that it can't read. Where no attempt can be seen, they
// are ordinary.
func taken(header *history.Header, events []history.Event) []history.Event {
	all := slices.Clone(events)
	for i := range all {
		if all[i].Kind != history.KindSend || all[i].Flags&history.Refusable == 0 {
			continue
		}
		all[i].Flags &^= history.Refusable
		if !header.Contract().WireOnly && !slices.ContainsFunc(events, func(e history.Event) bool {
			return e.Record == all[i].Record && e.Instance >= 0 &&
				(e.Kind == history.KindAttemptStart || e.Kind == history.KindCallStart)
		}) {
			all[i].Flags |= history.Garbage
		}
	}
	return all
}

// skipped implements "the contract says such a record is skipped (tombstones, filtered types)".
func (j *judge) skipped(r *record) bool {
	return j.header.Contract().Skips(r.send.Flags)
}

// mayBeOver reports whether one of its attempts may have been its last by the time, because the subject's reaction to
// an answer about a record that the downstream stub cannot identify "is not judged". Attempts before a request for its
// dead letter do not count. If the contract says that the record is dead-lettered, none does.
func (j *judge) mayBeOver(s *trace, by time.Duration) bool {
	asked := time.Duration(-1)
	for i := range s.letters {
		if ask := s.letters[i].ask.Time; ask <= by && (asked < 0 || ask < asked) {
			asked = ask
		}
	}
	if s.send.Flags == 0 || j.header.Contract().NoAttemptEnds(s.send.Flags) {
		return false
	}
	return slices.ContainsFunc(s.attempts, func(a tried) bool { return a.start >= asked && a.start <= by })
}

// unclearPlaces handles attempts and dead letters that name neither a record nor its position: they may belong to any
// record that the downstream stub cannot identify. The time at which a dead letter without an id was written is not
// observed.
func (j *judge) unclearPlaces(s *trace) {
	unseen := slices.ContainsFunc(s.found, func(e *history.Event) bool { return e.Record < 0 })
	if !unseen && (s.send.Flags == 0 || !slices.ContainsFunc(j.events, func(e history.Event) bool {
		attempt := e.Kind == history.KindAttemptStart && e.Instance >= 0 &&
			!j.header.Contract().NoAttemptEnds(s.send.Flags)
		letter := e.Kind == history.KindAuditRecord && j.role(e.Topic) == history.RoleDLQ
		return e.Record < 0 && (attempt || letter) && !j.owned(&e)
	})) {
		return
	}
	for _, one := range [][2]string{
		{"no-loss", "lost"}, {"commit-after-dlq", "commit-before-dlq"}, {"commit-after-dlq", "commit-without-dlq"},
		{outcome, "commit-past-unfinished"}, {outcome, "commit-past-end"},
	} {
		j.open(one[0], one[1], s.record)
	}
}

// owned reports whether the event is about one of the records.
func (j *judge) owned(e *history.Event) bool {
	for number := range int32(j.header.Records) {
		if r := j.place(number); r != nil && r.owns(e) {
			return true
		}
	}
	return false
}

// claimed reports whether a dead letter without an id names the event's position as its source.
func (j *judge) claimed(at *history.Event) bool {
	there := record{number: history.None, topic: at.Topic, partition: at.Partition, offset: at.Offset}
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		return e.Kind == history.KindAuditRecord && e.Record < 0 && there.owns(&e)
	})
}

// unansweredUnnamed is the number of requested dead letters without an id whose fate the subject does not know. Any
// record that the downstream stub cannot identify may have been written again for one of them.
func (j *judge) unansweredUnnamed() int {
	n := 0
	for i := range j.events {
		ask := &j.events[i]
		if ask.Kind != history.KindProduceRequest || ask.Record >= 0 || j.role(ask.Topic) != history.RoleDLQ {
			continue
		}
		if !slices.ContainsFunc(j.events[i:], func(e history.Event) bool {
			return e.Kind == history.KindProduceResponse && e.Op == ask.Op && e.Record < 0 && e.Code == 0 &&
				e.Flags&(history.Forged|history.Withheld) == 0 && e.Time-ask.Time < time.Second
		}) {
			n++
		}
	}
	return n
}
