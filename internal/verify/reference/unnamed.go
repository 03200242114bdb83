package reference

// Records whose body the downstream can't identify: tombstones and garbage. What is said of one is said of its place.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// owns: the event is about the record, as it says, or, without an id, by the place that it names.
func (r *record) owns(e *history.Event) bool {
	switch {
	case e.Record >= 0:
		return e.Record == r.number
	case e.Kind == history.KindAttemptStart || e.Kind == history.KindAttemptEnd:
		return r.send.Flags != 0 && e.Topic == r.topic && e.Partition == r.partition && e.Offset == r.offset
	}
	c := &e.Claim
	return e.Kind == history.KindAuditRecord && c.Present && c.Topic == r.topic && c.Partition == r.partition &&
		c.Offset == r.offset
}

// skipped: "the contract says such a record is skipped (tombstones, filtered types)".
func (j *judge) skipped(r *record) bool {
	return j.header.Contract().SkipsTombstones && r.send.Flags.Has(history.Tombstone)
}

// mayBeOver: one of its attempts may have been its last by the time, as what the subject makes of an answer to a record
// that the downstream can't identify "is not judged"; but for those after which its dead letter was asked for.
func (s *trace) mayBeOver(by time.Duration) bool {
	asked := time.Duration(-1)
	for i := range s.letters {
		if ask := s.letters[i].ask.Time; ask <= by && (asked < 0 || ask < asked) {
			asked = ask
		}
	}
	return s.send.Flags != 0 && slices.ContainsFunc(s.attempts, func(a tried) bool {
		return a.start >= asked && a.start <= by
	})
}

// unclearPlaces: an attempt or a dead letter that tells neither a record nor the place of one may be of any that the
// downstream can't identify. When a dead letter without an id was written is not seen.
func (j *judge) unclearPlaces(s *trace) {
	unseen := slices.ContainsFunc(s.found, func(e *history.Event) bool { return e.Record < 0 })
	if !unseen && (s.send.Flags == 0 || !slices.ContainsFunc(j.events, func(e history.Event) bool {
		attempt := e.Kind == history.KindAttemptStart && e.Instance >= 0
		letter := e.Kind == history.KindAuditRecord && j.role(e.Topic) == history.RoleDLQ
		return e.Record < 0 && (attempt || letter) && !j.owned(&e)
	})) {
		return
	}
	for _, one := range [][2]string{
		{"no-loss", "lost"}, {"commit-after-dlq", "commit-before-dlq"}, {"commit-after-dlq", "commit-without-dlq"},
		{outcome, "commit-past-unfinished"}, {outcome, "commit-past-end"}, {halting, "commit-advanced-while-dlq-down"},
	} {
		j.open(one[0], one[1], s.record)
	}
}

// owned: the event is about one of the records.
func (j *judge) owned(e *history.Event) bool {
	for number := range int32(j.header.Records) {
		if r := j.place(number); r != nil && r.owns(e) {
			return true
		}
	}
	return false
}

// claimed: a dead letter without an id says that it comes from where the event is.
func (j *judge) claimed(at *history.Event) bool {
	there := record{number: history.None, topic: at.Topic, partition: at.Partition, offset: at.Offset}
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		return e.Kind == history.KindAuditRecord && e.Record < 0 && there.owns(&e)
	})
}

// unansweredUnnamed is how many dead letters without an id were asked for of which the subject does not know whether
// they are there: any record that the downstream can't identify may have been written again for one.
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
