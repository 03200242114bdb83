package reference

import (
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const roundTrip = "replay-round-trip"

// envelopeSlack is the number of bytes by which the headers of a second dead letter may exceed those of the first, for
// other digits or another error text.
const envelopeSlack = 12 << 10

// returned holds what the events say about the replay of a record.
type returned struct {
	*record
	selected []*history.Event
	writes   []asked
	// copies are the copies that the last audits found besides the original; letters are its dead letters; fresh are
	// those that no earlier audit had found.
	copies, letters, fresh []*history.Event
}

// replays implements "every selected dead letter is republished exactly once to the topic its dialect names, with key,
// value and original headers restored, failure headers removed, and is then processed; one that fails again makes one
// new dead letter whose envelope did not grow".
func (j *judge) replays() {
	if !j.header.Replay || !j.phaseSeen(history.PhaseSeal) {
		return
	}
	for number := range int32(j.header.Records) {
		b := j.back(number)
		if b == nil {
			continue
		}
		j.decide(OfRecord(roundTrip, number))
		if len(b.selected)+len(b.writes) > 0 {
			j.judged(roundTrip)
			j.replayed(b)
		}
	}
}

func (j *judge) phaseSeen(name string) bool {
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		return e.Kind == history.KindPhase && e.Text == name
	})
}

// place returns the position at which the workload wrote the record, or nil if it is unknown or the record's kind is
// skipped.
func (j *judge) place(number int32) *record {
	r := &record{number: number, offset: history.None}
	for i := range j.events {
		e := &j.events[i]
		if e.Record != number {
			continue
		}
		switch e.Kind {
		case history.KindSend:
			if e.Flags.Has(history.Repeated) {
				return nil // it is at two places
			}
			if r.send == nil {
				r.send = e
			}
		case history.KindAcked:
			if e.Code == 0 && r.offset < 0 {
				r.topic, r.partition, r.offset, r.known = e.Topic, e.Partition, e.Offset, e.Time
			}
		}
	}
	if r.send == nil || r.offset < 0 || r.topic != r.send.Topic || r.partition != r.send.Partition {
		return nil
	}
	return r
}

// unique reports whether no request about the record was made or answered twice and no audit found the record twice.
func (j *judge) unique(number int32) bool {
	var own []*history.Event
	for i := range j.events {
		if e := &j.events[i]; e.Record == number {
			own = append(own, e)
		}
	}
	for i, e := range own {
		for _, o := range own[:i] {
			if e.Kind == o.Kind && j.repeats(e, o) {
				return false
			}
		}
	}
	return true
}

// stale reports whether the record was found outside the last audit of a topic, which shows records that no longer
// exist, or whether a dead letter without an id names as its source a second position of the record, or one at which
// another record was found as well.
func (j *judge) stale(number int32) bool {
	r := j.place(number)
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		if e.Kind != history.KindAuditRecord || e.Record < 0 {
			return false
		}
		own := e.Record == number
		return own && j.audit(&e) != j.audits(e.Topic) || r != nil && own != r.at(&e) && j.claimed(&e)
	})
}

// at reports whether the event is at the record's position.
func (r *record) at(e *history.Event) bool {
	return e.Topic == r.topic && e.Partition == r.partition && e.Offset == r.offset
}

func (j *judge) repeats(e, o *history.Event) bool {
	switch e.Kind {
	case history.KindAttemptStart, history.KindAttemptEnd, history.KindProduceRequest, history.KindProduceResponse:
		return e.Op == o.Op
	case history.KindAuditRecord:
		return e.Topic == o.Topic && e.Partition == o.Partition && e.Offset == o.Offset && j.audit(e) == j.audit(o)
	}
	return false
}

// audit numbers the audits of an audit record's topic.
func (j *judge) audit(of *history.Event) int {
	n := 0
	for i := range j.events {
		if e := &j.events[i]; e.Kind == history.KindAuditStart && e.Topic == of.Topic && e.Time <= of.Time {
			n++
		}
	}
	return n
}

// audits is the number of audits of the topic.
func (j *judge) audits(topic int16) int {
	n := 0
	for i := range j.events {
		if e := &j.events[i]; e.Kind == history.KindAuditStart && e.Topic == topic {
			n++
		}
	}
	return n
}

// back gathers the replay of a record, or returns nil if it cannot be decided.
func (j *judge) back(number int32) *returned {
	r := j.place(number)
	if r == nil || r.send.Flags != 0 || !j.unique(number) {
		return nil
	}
	b := &returned{record: r}
	for i := range j.events {
		e := &j.events[i]
		if e.Record != number {
			continue
		}
		switch {
		case e.Kind == history.KindReplaySelected:
			b.selected = append(b.selected, e)
		case e.Kind == history.KindProduceRequest && e.Instance == history.Replayer:
			b.writes = append(b.writes, asked{e, j.reply(e)})
		case e.Kind == history.KindAuditRecord && j.audit(e) == 0:
			return nil // found before its topic was read
		case e.Kind == history.KindAuditRecord && j.audit(e) == j.audits(e.Topic):
			b.find(j, e)
		}
	}
	return b
}

// reply is the answer to a produce, or nil if none came.
func (j *judge) reply(ask *history.Event) *history.Event {
	for i := range j.events {
		if e := &j.events[i]; e.Kind == history.KindProduceResponse && e.Op == ask.Op &&
			e.Record == ask.Record && e.Time >= ask.Time {
			return e
		}
	}
	return nil
}

func (b *returned) find(j *judge, e *history.Event) {
	if j.role(e.Topic) != history.RoleDLQ {
		if (e.Topic != b.topic || e.Partition != b.partition || e.Offset != b.offset) && !j.handedOn(e) {
			b.copies = append(b.copies, e)
		}
		return
	}
	b.letters = append(b.letters, e)
	earlier := slices.ContainsFunc(j.events, func(o history.Event) bool {
		return o.Kind == history.KindAuditRecord && o.Topic == e.Topic && o.Partition == e.Partition &&
			o.Offset == e.Offset && j.audit(&o) < j.audit(e)
	})
	if !earlier {
		b.fresh = append(b.fresh, e)
	}
}

// handedOn reports whether an audit found what the subject wrote to be tried again.
func (j *judge) handedOn(found *history.Event) bool {
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		return e.Kind == history.KindProduceResponse && e.Instance >= 0 && e.Record == found.Record && e.Code == 0 &&
			!e.Flags.Has(history.Forged) && e.Topic == found.Topic && e.Partition == found.Partition && e.Offset == found.Offset
	})
}

// perhapsHandedOn reports whether a copy in the topic may be one that the subject wrote to be tried again, as no answer
// told where it lies.
func (j *judge) perhapsHandedOn(number int32, topic int16) bool {
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		if e.Kind != history.KindProduceRequest || e.Instance < 0 || e.Record != number || e.Topic != topic {
			return false
		}
		reply := j.reply(&e)
		return reply == nil || (reply.Code != 0 || reply.Offset < 0) && !reply.Flags.Has(history.Forged)
	})
}

// first is the selected dead letter, as the last audit found it.
func (b *returned) first() *history.Event {
	for _, l := range b.letters {
		if s := b.selected[0]; l.Topic == s.Topic && l.Partition == s.Partition && l.Offset == s.Offset {
			return l
		}
	}
	return nil
}

func (j *judge) replayed(b *returned) {
	if len(b.selected) == 0 {
		j.saw(roundTrip, "selected-wrong", b.record)
		return
	}
	target := b.topic
	if l := b.first(); l != nil && l.Claim != nil && l.Claim.Topic >= 0 {
		target = l.Claim.Topic
	}
	if to := j.header.Consumers[0].ReplayTo; to != "" {
		target = j.header.TopicIndex(to)
	}
	unsure := 0
	for i := range b.writes {
		if w := &b.writes[i]; w.ask.Topic != target {
			j.saw(roundTrip, "replay-wrong-topic", b.record)
			return
		} else if !w.told() {
			unsure++
		}
	}
	var there []*history.Event
	for _, e := range b.copies {
		if e.Topic == target {
			there = append(there, e)
		}
	}
	wanted := len(b.selected)
	switch {
	case len(b.writes) < wanted || len(there) < wanted:
		j.saw(roundTrip, "replay-lost", b.record)
		return
	case len(there) > wanted+unsure && j.perhapsHandedOn(b.number, target):
		j.open(roundTrip, "replay-duplicated", b.record)
	case len(there) > wanted+unsure:
		j.saw(roundTrip, "replay-duplicated", b.record)
	}
	for _, e := range there {
		if e.ValueHash != b.send.ValueHash || e.KeyHash != b.send.KeyHash || e.Flags.Has(history.FailureHeaders) ||
			j.header.Contract().KeepsHeaders && e.HeadersHash != b.send.HeadersHash {
			j.saw(roundTrip, "replay-altered", b.record)
		}
	}
	j.processedAgain(b, there)
	c := j.header.Contract()
	// "of a dialect": a replay removes the headers that its envelope names.
	if first := b.first(); first != nil && c.Envelope != "" && !strings.HasPrefix(c.Envelope, "headers:") {
		for _, l := range b.fresh {
			if l.HeaderCount > first.HeaderCount || l.HeaderBytes > first.HeaderBytes+envelopeSlack {
				j.saw(roundTrip, "envelope-grew", b.record)
			}
		}
	}
}

// processedAgain implements "and is then processed": after the record was last replayed, or handed on from there, there
// must be a success of an attempt that began later, or a dead letter that was requested later and acknowledged or
// found.
func (j *judge) processedAgain(b *returned, copies []*history.Event) {
	from := b.writes[len(b.writes)-1].ask.Time
	on := from
	for i := range j.events {
		e := &j.events[i]
		if e.Kind == history.KindProduceRequest && e.Record == b.number && e.Time > from &&
			e.Instance >= 0 && j.takesRetries(e.Topic) {
			if reply := j.reply(e); reply != nil && accepted(reply) {
				copies = append(copies, reply)
			} else {
				j.open(roundTrip, "replay-lost", b.record)
			}
			on = e.Time
		}
	}
	held := 0
	for _, e := range copies {
		if j.heldBack(e) {
			held++
		}
	}
	if held == len(copies) || len(b.fresh) > 0 || j.endedSince(b.number, from, on) {
		return
	}
	// Only a record that was given the whole time is at fault. Of several copies it is open which one was to be processed.
	if held > 0 || !j.wholeTime() {
		j.open(roundTrip, "replay-lost", b.record)
	}
	j.saw(roundTrip, "replay-lost", b.record)
}

// heldBack reports whether a copy that was written back lies where the subject has halted, and is not committed.
func (j *judge) heldBack(e *history.Event) bool {
	return j.held(e.Topic, e.Partition, e.Offset) && !slices.ContainsFunc(j.events, func(o history.Event) bool {
		return o.Kind == history.KindAuditOffsets && o.Topic == e.Topic && o.Partition == e.Partition && o.Aux > e.Offset
	})
}

// endedSince reports whether something requested after from became terminal after on.
func (j *judge) endedSince(number int32, from, on time.Duration) bool {
	c := j.header.Contract()
	for i := range j.events {
		e := &j.events[i]
		if e.Record != number || e.Time <= on {
			continue
		}
		ends := e.Kind == history.KindAttemptEnd && !e.Flags.Has(history.ClientGone) &&
			(e.Outcome == history.OutcomeSuccess || j.is(c.Logical, e.Outcome) && c.LogicalEnds())
		ends = ends || e.Kind == history.KindProduceResponse && e.Instance != history.Replayer &&
			j.role(e.Topic) == history.RoleDLQ && accepted(e)
		if !ends {
			continue
		}
		if slices.ContainsFunc(j.events, func(a history.Event) bool {
			return a.Op == e.Op && a.Record == number && a.Time > from && a.Time <= e.Time &&
				(a.Kind == history.KindAttemptStart || a.Kind == history.KindProduceRequest)
		}) {
			return true
		}
	}
	return false
}

// wholeTime reports whether, after the subject was last given time, nothing moved for long enough to prove that nothing
// would ("standing still is proven"), and nothing stood still meanwhile.
func (j *judge) wholeTime() bool {
	patience := j.header.Expect.Patience
	for i := range j.events {
		if e := &j.events[i]; e.Kind == history.KindJoining && patience > 0 {
			patience = max(patience, j.header.Expect.Patience+time.Duration(e.Aux))
		}
	}
	if patience == 0 {
		patience = j.header.Expect.DrainLimit
	}
	from := time.Duration(-1)
	for i := range j.events {
		e := &j.events[i]
		drains := e.Kind == history.KindPhase && (e.Text == history.PhaseDrain || e.Text == history.PhaseReplay)
		if drains || from >= 0 && (e.Kind == history.KindProduceRequest && e.Instance == history.Replayer || j.moves(i)) {
			from = e.Time
		}
		if e.Kind == history.KindPhase && e.Text == history.PhaseAudit {
			return from >= 0 && (j.allDied(e.Time) || e.Time-from >= patience && !j.stoodStillIn(from, e.Time))
		}
	}
	return false
}

// allDied reports whether, at the time, the last process of each instance was over by itself. A consumer of which that
// is not allowed is never started again then.
func (j *judge) allDied(at time.Duration) bool {
	last := map[int16]*history.Event{}
	for i := range j.events {
		e := &j.events[i]
		if e.Instance >= 0 && e.Time <= at && (e.Kind == history.KindInstanceStarting ||
			e.Kind == history.KindInstanceExited) {
			last[e.Instance] = e
		}
	}
	for _, e := range last {
		if e.Kind == history.KindInstanceStarting || e.Flags.Has(history.Expected) {
			return false
		}
	}
	return len(last) > 0 && !j.header.Contract().MayCrash()
}

// moves reports whether the event is progress: an attempt that is not endless, an acknowledged dead letter or retry
// copy of a record that is not attempted endlessly, a commit past all earlier ones of its partition, a finished record
// of a share group, or a changed entry of the store.
func (j *judge) moves(at int) bool {
	e := &j.events[at]
	switch e.Kind {
	case history.KindAttemptStart, history.KindAttemptEnd:
		return j.header.Contract().Progress(e.N)
	case history.KindProduceResponse:
		return e.Instance >= 0 && accepted(e) && !slices.ContainsFunc(j.events[:at], func(b history.Event) bool {
			return b.Kind == history.KindAttemptStart && b.Record == e.Record && !j.header.Contract().Progress(b.N)
		})
	case history.KindTxnEndResponse:
		return e.Code == 0 && e.N == 1
	case history.KindStoreChange:
		return true
	case history.KindShareAckResponse:
		return e.Code == 0 && (e.N == history.AckAccept || e.N == history.AckReject)
	case history.KindCommitResponse:
		return accepted(e) && !slices.ContainsFunc(j.events[:at], func(b history.Event) bool {
			return b.Kind == history.KindCommitResponse && accepted(&b) && b.Topic == e.Topic &&
				b.Partition == e.Partition && b.Offset >= e.Offset
		})
	}
	return false
}
