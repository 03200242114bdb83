package reference

// This file implements "the subject halts at a record that it can't read": nothing ends such a record, and what the
// subject does not commit because it has halted is held.

import (
	"math"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// halts reports whether the contract says that the subject halts at the record.
func (j *judge) halts(r *record) bool { return j.header.Contract().Halts(r.send.Flags) }

// unreadable returns the records at which the subject halts. placed is false if the place of one is not known.
func (j *judge) unreadable() (all []*record, placed bool) {
	placed = true
	for i := range j.events {
		e := &j.events[i]
		if e.Kind != history.KindSend || !j.header.Contract().Halts(e.Flags) {
			continue
		}
		if r := j.place(e.Record); r != nil {
			all = append(all, r)
		} else {
			placed = false
		}
	}
	return all, placed
}

// haltsAt implements "a partition halts at its first unreadable record that a process was handed". It is the largest
// offset if there is none.
func (j *judge) haltsAt(topic int16, partition int32) int64 {
	first := int64(math.MaxInt64)
	all, _ := j.unreadable()
	for _, r := range all {
		if r.topic == topic && r.partition == partition {
			first = min(first, r.offset)
		}
	}
	if !slices.ContainsFunc(j.events, func(e history.Event) bool {
		return e.Kind == history.KindFetched && e.Topic == topic && e.Partition == partition && max(e.Offset, e.Aux) >= first
	}) {
		return math.MaxInt64
	}
	return first
}

// met implements "a process that has met such a record": it was handed the record, or its partition has one at an
// offset that nobody knew. known says whether what happened at that very time counts; a fetch does not.
func (j *judge) met(of *history.Event, until time.Duration, known bool, counts func(*record) bool) bool {
	before := func(at time.Duration) bool { return at < until || known && at == until }
	all, _ := j.unreadable()
	for i := range j.events {
		e := &j.events[i]
		if e.Kind != history.KindFetched || !by(e, of) || e.Time >= until {
			continue
		}
		for _, r := range all {
			if counts(r) && r.topic == e.Topic && r.partition == e.Partition && before(r.send.Time) &&
				(r.offset <= max(e.Offset, e.Aux) || !before(r.known)) {
				return true
			}
		}
	}
	return false
}

// brokenOff implements "such a process ended by itself, or left its group".
func (j *judge) brokenOff() bool {
	for i := range j.events {
		e := &j.events[i]
		ended := e.Kind == history.KindInstanceExited && !e.Flags.Has(history.Expected)
		told := slices.ContainsFunc(j.events[:i], func(o history.Event) bool {
			return by(&o, e) && o.Kind == history.KindInstanceSignal && o.Text != "STOP" && o.Text != "CONT"
		})
		left := e.Kind == history.KindMembership && e.N == 0 && !told
		over := slices.ContainsFunc(j.events[:i], func(o history.Event) bool {
			return by(&o, e) && o.Kind == history.KindInstanceExited
		})
		if e.Instance >= 0 && (ended || left) && !over && j.met(e, e.Time, true, func(*record) bool { return true }) {
			return true
		}
	}
	return false
}

// stopped implements "the process that has met one owes nothing of its other partitions".
func (j *judge) stopped(topic int16, partition int32) bool {
	var holder *history.Event
	has, stopped := false, false
	for i := range j.events {
		e := &j.events[i]
		switch here := e.Topic == topic && e.Partition == partition; {
		case e.Kind == history.KindPhase && e.Text == history.PhaseAudit:
			stopped = holder != nil && j.met(holder, e.Time, false, func(r *record) bool {
				return r.topic != topic || r.partition != partition
			})
		case here && e.Kind == history.KindAssigned:
			holder, has = e, true
		case here && e.Kind == history.KindRevoked && same(e, holder):
			has = false
		case here && e.Kind == history.KindFetched && has && holder.Instance == e.Instance && holder.Run < e.Run:
			holder = e
		}
	}
	return stopped
}

// held implements "what is left uncommitted because the subject has halted is held".
func (j *judge) held(topic int16, partition int32, offset int64) bool {
	return j.header.Contract().Poison == history.PoisonHalt &&
		(offset >= j.haltsAt(topic, partition) || j.brokenOff() || j.stopped(topic, partition))
}

// rewinds is how often the holders of a partition were handed records again. A process that has met an unreadable
// record may begin again as often as it meets it.
func (j *judge) rewinds(r *record) int {
	n := 0
	for i := range j.events {
		e := &j.events[i]
		if e.Kind == history.KindFetched && e.Topic == r.topic && e.Partition == r.partition &&
			slices.ContainsFunc(j.events[:i], func(o history.Event) bool {
				return o.Kind == e.Kind && o.Topic == e.Topic && o.Partition == e.Partition && by(&o, e) &&
					max(o.Offset, o.Aux) >= e.Offset
			}) {
			n++
		}
	}
	return n
}
