package reference

import (
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const roundTrip = "replay-round-trip"

// envelopeSlack is how many bytes of headers a second dead letter may have more than the first: other digits, another
// error text.
const envelopeSlack = 12 << 10

// returned is what the events say of a record's way back.
type returned struct {
	*record
	selected []*history.Event
	writes   []asked
	// copies are those that the last audits found beside the original; letters the dead letters, fresh those that no
	// earlier audit had found.
	copies, letters, fresh []*history.Event
}

// replays: "every selected dead letter is republished exactly once to the topic its dialect names, with key, value and
// original headers restored, failure headers removed, and is then processed; one that fails again makes one new dead
// letter whose envelope did not grow".
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

// place finds where the workload put the record, nil if that is not known, or it is of a kind that is skipped.
func (j *judge) place(number int32) *record {
	r := &record{number: number, offset: history.None}
	for i := range j.events {
		e := &j.events[i]
		if e.Record != number {
			continue
		}
		switch e.Kind {
		case history.KindSend:
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

// unique: nothing about the record was asked or answered twice, nor found twice in one audit.
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

// stale: it was found outside the last audit of a topic, which tells of what is no more; or at a second place, of which
// a dead letter without an id says that it comes from there.
func (j *judge) stale(number int32) bool {
	r := j.place(number)
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		return e.Kind == history.KindAuditRecord && e.Record == number &&
			(j.audit(&e) != j.audits(e.Topic) || r != nil && e.Offset != r.offset && j.claimed(&e))
	})
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

// audits is how many audits of the topic there were.
func (j *judge) audits(topic int16) int {
	n := 0
	for i := range j.events {
		if e := &j.events[i]; e.Kind == history.KindAuditStart && e.Topic == topic {
			n++
		}
	}
	return n
}

// back gathers what concerns a record's way back, nil where that can't be decided.
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
		case e.Kind == history.KindAuditRecord && j.audit(e) == j.audits(e.Topic):
			b.find(j, e)
		}
	}
	return b
}

// reply is the answer to a write, nil where none came.
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
		if e.Topic != b.topic || e.Partition != b.partition || e.Offset != b.offset {
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

// first is the dead letter that was selected, as the last audit found it.
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
	if l := b.first(); l != nil && l.Claim.Present && l.Claim.Topic >= 0 {
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
	case len(there) > wanted+unsure:
		j.saw(roundTrip, "replay-duplicated", b.record)
	}
	for _, e := range there {
		if e.ValueHash != b.send.ValueHash || e.KeyHash != b.send.KeyHash || e.Flags.Has(history.FailureHeaders) ||
			j.header.Contract().KeepsHeaders && e.HeadersHash != b.send.HeadersHash {
			j.saw(roundTrip, "replay-altered", b.record)
		}
	}
	j.processedAgain(b)
	c := j.header.Contract()
	// "of a dialect": a replay takes off what its envelope names.
	if first := b.first(); first != nil && c.Envelope != "" && !strings.HasPrefix(c.Envelope, "headers:") {
		for _, l := range b.fresh {
			if l.HeaderCount > first.HeaderCount || l.HeaderBytes > first.HeaderBytes+envelopeSlack {
				j.saw(roundTrip, "envelope-grew", b.record)
			}
		}
	}
}

// processedAgain: "and is then processed": after the last time that it was written back, or handed on from there, an
// attempt that began after it succeeded, or a dead letter that was asked for after it was acknowledged, or is there.
func (j *judge) processedAgain(b *returned) {
	from := b.writes[len(b.writes)-1].ask.Time
	on := from
	for i := range j.events {
		e := &j.events[i]
		if e.Kind == history.KindProduceRequest && e.Record == b.number && e.Time > from &&
			j.role(e.Topic) == history.RoleRetry {
			if reply := j.reply(e); reply == nil || !accepted(reply) {
				j.open(roundTrip, "replay-lost", b.record)
			}
			on = e.Time
		}
	}
	if len(b.fresh) > 0 || j.endedSince(b.number, from, on) {
		return
	}
	// Only one that had its whole time is at fault.
	if !j.wholeTime() {
		j.open(roundTrip, "replay-lost", b.record)
	}
	j.saw(roundTrip, "replay-lost", b.record)
}

// endedSince: what was asked for after from came to a terminal end after on.
func (j *judge) endedSince(number int32, from, on time.Duration) bool {
	c := j.header.Contract()
	for i := range j.events {
		e := &j.events[i]
		if e.Record != number || e.Time <= on {
			continue
		}
		ends := e.Kind == history.KindAttemptEnd && !e.Flags.Has(history.ClientGone) &&
			(e.Outcome == history.OutcomeSuccess || j.is(c.Logical, e.Outcome) && !c.LogicalDeadLetters)
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

// wholeTime: after the last time that the subject was given time nothing moved for as long as proves that nothing would
// have ("standing still is proven"), and nothing stood still meanwhile.
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
			return from >= 0 && e.Time-from >= patience && !j.stoodStillIn(from, e.Time)
		}
	}
	return false
}

// moves: an attempt, a dead letter or a retry copy that is acknowledged, a commit that goes further than all before of
// its partition, a record of a share group that is done, an entry of the store that changes.
func (j *judge) moves(at int) bool {
	e := &j.events[at]
	switch e.Kind {
	case history.KindAttemptStart, history.KindAttemptEnd:
		return j.header.Contract().Progress(e.N)
	case history.KindProduceResponse:
		return e.Instance >= 0 && accepted(e)
	case history.KindTxnEndResponse:
		return e.Code == 0
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
