package reference

// This file judges records that the workload produced twice. An id then stands for two records, and an attempt does not
// say of which one it is. So only what both owe together is decided.

import (
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

// producedTwice decides about the undisturbed records that were produced twice.
func (j *judge) producedTwice() {
	for number := range int32(j.header.Records) {
		r, second := j.twoPlaces(number)
		if r == nil || j.stale(number) || !j.steady(r) || !j.allAttempts(r) || !j.addDeadLetters(r) {
			continue
		}
		one, two := false, false
		for i := range j.events {
			e := &j.events[i]
			switch {
			case e.Kind != history.KindAuditRecord || e.Record != number:
			case j.role(e.Topic) == history.RoleDLQ:
				r.found = append(r.found, e)
			case e.Topic == r.topic && e.Partition == r.partition:
				one, two = one || e.Offset == r.offset, two || e.Offset == second
			}
		}
		if !one || !two || r.acked() >= 0 && len(r.found) == 0 {
			j.decide(OfRecord("no-loss", number))
			j.saw("no-loss", "dropped-by-ack", r)
			continue
		}
		if j.unacknowledged(r) {
			continue
		}
		j.oncePerCopy(r)
		j.decide(OfRecord("effects", number))
		j.effects(r)
		j.neitherLost(r, second)
	}
}

// twoPlaces returns the record at the first of its two offsets, and the second one; nil if it was not produced twice,
// or not acknowledged twice.
func (j *judge) twoPlaces(number int32) (first *record, second int64) {
	r := &record{number: number, again: 1}
	var sent, acked []*history.Event
	for i := range j.events {
		e := &j.events[i]
		switch {
		case e.Record != number:
		case e.Kind == history.KindSend:
			sent = append(sent, e)
		case e.Kind == history.KindAcked:
			acked = append(acked, e)
		}
	}
	if len(sent) != 2 || !sent[1].Flags.Has(history.Repeated) || sent[0].Flags != 0 || len(acked) != 2 ||
		acked[0].Code != 0 || acked[1].Code != 0 || acked[0].Partition != acked[1].Partition ||
		acked[0].Flags == acked[1].Flags {
		return nil, history.None
	}
	slices.SortFunc(acked, func(a, b *history.Event) int { return int(a.Offset - b.Offset) })
	r.send, r.known = sent[0], max(acked[0].Time, acked[1].Time)
	r.topic, r.partition, r.offset = acked[0].Topic, acked[0].Partition, acked[0].Offset
	return r, acked[1].Offset
}

// allAttempts gathers the attempts of both copies, which may be made at the same time.
func (j *judge) allAttempts(r *record) bool {
	for i := range j.events {
		ask := &j.events[i]
		switch {
		case ask.Record != r.number:
		case ask.Kind == history.KindAttemptEnd && !j.begun(ask, history.KindAttemptStart):
			return false
		case ask.Kind == history.KindAttemptStart:
			end := j.answer(ask, history.KindAttemptEnd)
			if end == nil || end.Record != r.number || ask.Time < r.send.Time {
				return false
			}
			r.attempts = append(r.attempts, tried{ask.Time, end.Time, end.Outcome, end.Flags.Has(history.ClientGone),
				ask.Instance, false})
		}
	}
	return true
}

// unacknowledged reports whether a dead letter of the record was not acknowledged, which justifies another one.
func (j *judge) unacknowledged(r *record) bool {
	return slices.ContainsFunc(r.letters, func(l written) bool { return l.acked < 0 })
}

// oncePerCopy implements "the dead-letter topic holds at most one copy for each of its two offsets".
func (j *judge) oncePerCopy(r *record) {
	if !j.header.Contract().HasDLQ() {
		return
	}
	j.decide(OfRecord("dlq-once", r.number))
	j.judged("dlq-once")
	named := map[int64]int{}
	for _, e := range r.found {
		if !j.header.Contract().ChangesValue && e.ValueHash != r.found[0].ValueHash {
			j.saw("dlq-once", "two-payloads-one-source", r)
		}
		if e.Claim != nil && e.Claim.Partition >= 0 && e.Claim.Offset >= 0 {
			named[e.Claim.Offset]++
		}
	}
	twice := false
	for _, n := range named {
		twice = twice || n > 1
	}
	if len(r.found) > 2 || twice {
		j.saw("dlq-once", "dlq-duplicate", r)
	}
}

// neitherLost decides no-loss where nothing says that a copy came to its end, or where a success does.
func (j *judge) neitherLost(r *record, second int64) {
	succeeded := slices.ContainsFunc(r.attempts, func(a tried) bool {
		return a.outcome == history.OutcomeSuccess && !a.gone
	})
	if !succeeded && len(r.attempts)+len(r.letters)+len(r.found) > 0 {
		return
	}
	j.decide(OfRecord("no-loss", r.number))
	j.judged("no-loss")
	for i := range j.events {
		if e := &j.events[i]; e.Kind == history.KindAuditOffsets && e.Topic == r.topic && e.Partition == r.partition {
			switch {
			case succeeded, e.Aux <= second && j.held(r.topic, r.partition, second):
			case e.Aux <= second:
				j.saw("no-loss", "stalled", r)
			default:
				j.saw("no-loss", "lost", r)
			}
			return
		}
	}
}
