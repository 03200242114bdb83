// Package reference judges small histories by the definitions of the invariants, written down as they are read: for
// each record the whole slice of events is walked as often as the sentence needs it. It is slow, and shares no code
// with the checkers that it is compared with; all it knows is the event model.
//
// What it decides in full are records that nothing disturbed: one delivery, by one process that had the partition all
// along, every commit of the partition and every attempt plainly answered. There the definitions leave nothing open, so
// the checkers must say exactly the same. Of records that were disturbed it decides what no disruption can excuse, and
// what is counted where it is clear how many disruptions there were; of partitions, processes and the run what the
// definitions say of those. Of anything else it says that it is open. Of a history of a graph it decides
// graph-conservation alone, and of one with a dead-letter store store-lifecycle. Which definitions it holds, and why no
// others, is in docs/decisions/0005-the-proof.md.
package reference

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// Subject is what an invariant is judged of: a record, or else a partition, or else the whole run. What it is not has
// the value None.
type Subject struct {
	Invariant string
	Record    int32
	Topic     int16
	Partition int32
}

// OfRecord is the subject of what an invariant says of a record.
func OfRecord(invariant string, record int32) Subject {
	return Subject{invariant, record, history.None, history.None}
}

// OfPartition is the subject of what an invariant says of a partition; of the run, if that is None.
func OfPartition(invariant string, topic int16, partition int32) Subject {
	return Subject{invariant, history.None, topic, partition}
}

// Finding is a broken promise.
type Finding struct {
	Subject
	Anomaly string
}

// Opinion is what the definitions say of a history.
type Opinion struct {
	// Found are the broken promises that could be decided.
	Found map[Finding]bool
	// Decided is of what they could be. Open are single promises of that which can't: they depend on something that
	// could not be decided.
	Decided map[Subject]bool
	Open    map[Finding]bool
	// Judged counts the decided records, partitions and runs that each invariant has something to say about.
	Judged map[string]int64
}

// Records returns how many records something could be decided of.
func (o *Opinion) Records() int64 {
	seen := map[int32]bool{}
	for one := range o.Decided {
		if one.Record >= 0 {
			seen[one.Record] = true
		}
	}
	return int64(len(seen))
}

// Invariants lists the invariants that have a definition here.
func Invariants() []string {
	return append(ofRecords(), roundTrip, halting, live, conservation, lifecycle)
}

// ofRecords lists those that are judged of each record.
func ofRecords() []string {
	return []string{
		"no-loss", "commit-after-dlq", "commit-after-outcome", "bounded-retries", "classification", "backoff", "dlq-fidelity",
		"dlq-once", "duplicates", "ordering",
	}
}

// judge is one judging.
type judge struct {
	header  *history.Header
	events  []history.Event
	opinion Opinion
	// allKnown: every record that was attempted twice is decided; firstEarly: of one of them the first wait was too
	// short.
	allKnown, firstEarly bool
}

// tried is one attempt; end is -1 while it is not answered.
type tried struct {
	start, end time.Duration
	outcome    history.Outcome
	told       time.Duration
	gone       bool // the client had gone before it was answered, so what it made of it is not known
	instance   int16
}

// written is one write of a dead letter; acked is -1 where it was not acknowledged to the subject.
type written struct {
	asked, acked time.Duration
	ask          *history.Event
}

// commit is one commit of a partition.
type commit struct {
	asked, answered time.Duration
	offset          int64
}

// record is what the events say of one record, as far as it is undisturbed.
type record struct {
	number    int32
	send      *history.Event
	topic     int16
	partition int32
	offset    int64
	attempts  []tried
	letters   []written
	commits   []commit
	found     []*history.Event // dead letters
	inTopic   bool
	known     time.Duration // when the workload was told that it is there
	disturbed bool
}

// Judge says what the definitions say of a history. The events are sorted by time.
func Judge(header *history.Header, events []history.Event) Opinion {
	j := &judge{header: header, events: events, opinion: Opinion{
		Found: map[Finding]bool{}, Decided: map[Subject]bool{}, Open: map[Finding]bool{}, Judged: map[string]int64{},
	}}
	switch {
	case header.Graph != nil:
		j.graph()
		return j.opinion
	case header.Store != nil:
		j.stored()
		return j.opinion
	}
	j.partitions()
	j.replays()
	if !j.disturbed() {
		j.undisturbed()
	}
	j.disturbances()
	j.catchesUp()
	return j.opinion
}

// undisturbed decides about everything there is to say of the records that nothing disturbed.
func (j *judge) undisturbed() {
	records := map[int32]*record{}
	for number := range int32(j.header.Records) {
		if r := j.gather(number); r != nil {
			records[number] = r
			for _, invariant := range ofRecords() {
				j.decide(OfRecord(invariant, number))
			}
		}
	}
	j.allKnown = true
	for number := range int32(j.header.Records) {
		r := records[number]
		j.allKnown = j.allKnown && (r != nil || j.count(history.KindAttemptStart, number) < 2)
		j.firstEarly = j.firstEarly || r != nil && j.firstGapEarly(r)
	}
	for number := range int32(j.header.Records) {
		if r := records[number]; r != nil {
			j.record(r)
			j.ordering(r, records)
		}
	}
}

func (j *judge) decide(one Subject) { j.opinion.Decided[one] = true }

func (j *judge) saw(invariant, anomaly string, r *record) {
	j.opinion.Found[Finding{OfRecord(invariant, r.number), anomaly}] = true
}

// open: of a record that is decided otherwise, this is not.
func (j *judge) open(invariant, anomaly string, r *record) {
	j.opinion.Open[Finding{OfRecord(invariant, r.number), anomaly}] = true
}

// count returns how many events of the kind there are about a record.
func (j *judge) count(kind history.Kind, number int32) int {
	n := 0
	for i := range j.events {
		if e := &j.events[i]; e.Kind == kind && e.Record == number {
			n++
		}
	}
	return n
}

func (j *judge) judged(invariant string) { j.opinion.Judged[invariant]++ }

// disturbed: something befell the run that may concern every record.
func (j *judge) disturbed() bool {
	return j.header.Replay || j.header.Contract().Retry == history.RetryTopics || len(j.header.Faults) > 0 || j.frozen()
}

// gather returns what the events say of a record, nil if it is not one that can be decided.
func (j *judge) gather(number int32) *record {
	r := j.place(number)
	if r == nil || r.send.Flags != 0 || !j.steady(r) {
		return nil
	}
	if !j.addAttempts(r) || !j.addLetters(r) || j.stale(number) {
		return nil
	}
	for i := range j.events {
		e := &j.events[i]
		if e.Kind == history.KindAuditStart && j.role(e.Topic) == history.RoleDLQ {
			r.found = nil // a later audit of a topic begins anew
		}
		if e.Kind == history.KindAuditStart && e.Topic == r.topic {
			r.inTopic = false
		}
		if e.Kind == history.KindAuditRecord && r.owns(e) {
			switch j.role(e.Topic) {
			case history.RoleDLQ:
				r.found = append(r.found, e)
			case history.RoleInput:
				r.inTopic = r.inTopic || e.Topic == r.topic && e.Partition == r.partition && e.Offset == r.offset
			}
		}
	}
	return r
}

func (j *judge) role(topic int16) history.Role {
	if topic < 0 || int(topic) >= len(j.header.Topics) {
		return ""
	}
	return j.header.Topics[topic].Role
}

func accepted(e *history.Event) bool {
	return e.Code == 0 && !e.Flags.Has(history.Forged) && !e.Flags.Has(history.Withheld)
}

// steady: one process had the record's partition all along, and each of its commits was plainly accepted, in the order
// in which it was asked for.
func (j *judge) steady(r *record) bool {
	var holder *history.Event
	auditing := false
	for i := range j.events {
		e := &j.events[i]
		auditing = auditing || e.Kind == history.KindPhase && e.Text == history.PhaseAudit
		switch here := e.Topic == r.topic && e.Partition == r.partition; {
		case here && e.Kind == history.KindRevoked, here && e.Kind == history.KindAssigned && holder != nil:
			return false
		case here && e.Kind == history.KindAssigned:
			holder = e
		case here && e.Kind == history.KindFetched && !same(e, holder):
			return false
		case holder != nil && e.Kind == history.KindInstanceExited && e.Instance == holder.Instance && !auditing:
			return false
		case here && e.Kind == history.KindCommitRequest && !same(e, holder):
			return false
		}
		if e.Record == r.number && (e.Kind == history.KindAttemptStart || e.Kind == history.KindProduceRequest) && !same(e,
			holder) {
			return false
		}
	}
	return holder != nil && j.addCommits(r)
}

func same(e, holder *history.Event) bool {
	return holder != nil && by(e, holder)
}

func (j *judge) addCommits(r *record) bool {
	for i := range j.events {
		ask := &j.events[i]
		if ask.Kind != history.KindCommitRequest || ask.Topic != r.topic || ask.Partition != r.partition {
			continue
		}
		answer := j.answer(ask, history.KindCommitRequest, history.KindCommitResponse)
		if answer == nil || !accepted(answer) {
			return false
		}
		r.commits = append(r.commits, commit{ask.Time, answer.Time, ask.Offset})
	}
	return true
}

// answer returns the one answer to a request that was made once, nil where that is not so.
func (j *judge) answer(ask *history.Event, asks, answers history.Kind) *history.Event {
	var found *history.Event
	asked := 0
	for i := range j.events {
		e := &j.events[i]
		if e.Op != ask.Op || e.Kind != asks && e.Kind != answers {
			continue
		}
		if e.Kind == asks {
			asked++
			continue
		}
		if found != nil || e.Time < ask.Time {
			return nil
		}
		found = e
	}
	if asked != 1 {
		return nil
	}
	return found
}

func (j *judge) addAttempts(r *record) bool {
	for i := range j.events {
		ask := &j.events[i]
		if ask.Kind == history.KindAttemptEnd && ask.Record == r.number && !j.begun(ask, history.KindAttemptStart) {
			return false
		}
		if ask.Kind != history.KindAttemptStart || ask.Record != r.number {
			continue
		}
		end := j.answer(ask, history.KindAttemptStart, history.KindAttemptEnd)
		if end == nil || end.Record != r.number ||
			end.Flags.Has(history.ClientGone) && end.Outcome != history.OutcomeTimeout {
			return false
		}
		if n := len(r.attempts); ask.Time < r.send.Time || n > 0 && r.attempts[n-1].end > ask.Time {
			return false // attempted before it was sent, or two at once
		}
		r.attempts = append(r.attempts, tried{ask.Time, end.Time, end.Outcome, time.Duration(end.Aux),
			end.Flags.Has(history.ClientGone), ask.Instance})
	}
	return true
}

// begun: what is answered was asked for.
func (j *judge) begun(answer *history.Event, asks history.Kind) bool {
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		return e.Kind == asks && e.Op == answer.Op && e.Time <= answer.Time
	})
}

// addLetters: a letter that was never answered is decided too, as it was not acknowledged; one that was refused, by
// anyone, may be written again.
func (j *judge) addLetters(r *record) bool {
	silent := 0
	for i := range j.events {
		ask := &j.events[i]
		if ask.Kind != history.KindProduceRequest || ask.Record != r.number {
			continue
		}
		answers := 0
		one := written{ask.Time, -1, ask}
		for k := range j.events {
			if e := &j.events[k]; e.Kind == history.KindProduceResponse && e.Op == ask.Op {
				answers++
				if !accepted(e) || e.Time < ask.Time || e.Time-ask.Time >= time.Second {
					return false
				}
				one.acked = e.Time
			}
		}
		if answers == 0 {
			silent++
		}
		if answers > 1 {
			return false
		}
		r.letters = append(r.letters, one)
	}
	return silent == 0 || silent == 1 && len(r.letters) == 1
}
