// Package reference judges small histories by the definitions of the invariants, implemented literally: for each record
// it walks the whole slice of events as often as the sentence requires. It is slow, and shares no code with the
// checkers that it is compared with; it knows only the event model.
//
// It fully decides records that nothing disturbed: one delivery, by one process that owned the partition throughout,
// with every commit of the partition and every attempt answered without error. For those the definitions leave nothing
// open, so the checkers must report exactly the same. For disturbed records it decides what no disruption can excuse,
// and counts where the number of disruptions is known. For partitions, processes and the run it decides what the
// definitions say about them. Everything else it reports as open. In the history of a graph it decides only
// graph-conservation, in one with a dead-letter store only store-lifecycle. docs/decisions/0005-the-proof.md lists the
// definitions that it implements, and why it omits the others.
package reference

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// Subject is what an invariant judges: a record, a partition, or the whole run. The fields that do not apply are None.
type Subject struct {
	Invariant string
	Record    int32
	Topic     int16
	Partition int32
}

// OfRecord is the subject of an invariant that judges a record.
func OfRecord(invariant string, record int32) Subject {
	return Subject{invariant, record, history.None, history.None}
}

// OfPartition is the subject of an invariant that judges a partition, or the run if the partition is None.
func OfPartition(invariant string, topic int16, partition int32) Subject {
	return Subject{invariant, history.None, topic, partition}
}

// Finding is a broken promise.
type Finding struct {
	Subject
	Anomaly string
}

// Opinion is the result of applying the definitions to a history.
type Opinion struct {
	// Found holds the broken promises that could be decided.
	Found map[Finding]bool
	// Decided holds the subjects that could be decided. Open holds single promises of these that remain open, because
	// they depend on something undecided.
	Decided map[Subject]bool
	Open    map[Finding]bool
	// Judged counts, for each invariant, the decided records, partitions and runs to which it applies.
	Judged map[string]int64
}

// Records returns the number of records about which something could be decided.
func (o *Opinion) Records() int64 {
	seen := map[int32]bool{}
	for one := range o.Decided {
		if one.Record >= 0 {
			seen[one.Record] = true
		}
	}
	return int64(len(seen))
}

// Invariants lists the invariants that the package defines.
func Invariants() []string {
	return append(ofRecords(), roundTrip, live, conservation, lifecycle)
}

// ofRecords lists the invariants that judge each record.
func ofRecords() []string {
	return []string{
		"no-loss", "commit-after-dlq", "commit-after-outcome", "dlq-fidelity", "dlq-once", "effects",
	}
}

// judge is the state of judging one history.
type judge struct {
	header  *history.Header
	events  []history.Event
	opinion Opinion
	// calls are those for several records.
	calls []*call
}

// tried is one attempt. end is -1 if it was not answered.
type tried struct {
	start, end time.Duration
	outcome    history.Outcome
	gone       bool // the client had disconnected before the answer, so how it took it is unknown
	instance   int16
	// open: it was in a call for several records that was refused, or got no answer, which says nothing about any of them.
	open bool
}

// written is one produce of a dead letter. acked is -1 if it was not acknowledged to the subject.
type written struct {
	asked, acked time.Duration
	ask          *history.Event
}

// commit is one commit of a partition.
type commit struct {
	asked, answered time.Duration
	offset          int64
}

// record holds what the events say about one undisturbed record.
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
	known     time.Duration // when the workload got the acknowledgement
	disturbed bool
	// again is the number of its further copies that the workload produced.
	again int
}

// Judge applies the definitions to a history. The events must be sorted by time.
func Judge(header *history.Header, events []history.Event) Opinion {
	j := &judge{header: header, events: taken(header, resolved(events)), opinion: Opinion{
		Found: map[Finding]bool{}, Decided: map[Subject]bool{}, Open: map[Finding]bool{}, Judged: map[string]int64{},
	}}
	j.calls = callsOf(j.events)
	switch {
	case header.Graph != nil:
		j.graph()
		return j.opinion
	case header.Store != nil:
		j.stored()
		return j.opinion
	}
	j.partitions()
	if _, placed := j.unreadable(); !placed {
		return j.opinion // what is held is not known
	}
	j.replays()
	if !j.disturbed() {
		j.undisturbed()
		j.producedTwice()
	}
	j.disturbances()
	j.catchesUp()
	j.otherCalls()
	return j.opinion
}

// undisturbed decides everything about the records that nothing disturbed.
func (j *judge) undisturbed() {
	for number := range int32(j.header.Records) {
		r := j.gather(number)
		if r == nil {
			continue
		}
		for _, invariant := range ofRecords() {
			j.decide(OfRecord(invariant, number))
		}
		j.record(r)
	}
}

func (j *judge) decide(one Subject) { j.opinion.Decided[one] = true }

func (j *judge) saw(invariant, anomaly string, r *record) {
	j.opinion.Found[Finding{OfRecord(invariant, r.number), anomaly}] = true
}

// open marks one promise about an otherwise decided record as open.
func (j *judge) open(invariant, anomaly string, r *record) {
	j.opinion.Open[Finding{OfRecord(invariant, r.number), anomaly}] = true
}

func (j *judge) judged(invariant string) { j.opinion.Judged[invariant]++ }

// disturbed reports whether the run had a disturbance that may concern every record.
func (j *judge) disturbed() bool {
	return j.header.Replay || j.header.Contract().Retry == history.RetryTopics || len(j.header.Faults) > 0 || j.frozen()
}

// gather returns what the events say about a record, or nil if it cannot be decided.
func (j *judge) gather(number int32) *record {
	r := j.place(number)
	if r == nil || r.send.Flags != 0 || !j.steady(r) {
		return nil
	}
	if !j.addAttempts(r) || !j.addDeadLetters(r) || j.stale(number) {
		return nil
	}
	for i := range j.events {
		e := &j.events[i]
		if e.Kind == history.KindAuditStart && j.role(e.Topic) == history.RoleDLQ {
			r.found = nil // a later audit of a topic replaces the earlier one
		}
		if e.Kind == history.KindAuditStart && e.Topic == r.topic {
			r.inTopic = false
		}
		if e.Kind == history.KindAuditRecord && r.owns(e) {
			switch j.role(e.Topic) {
			case history.RoleDLQ:
				r.found = append(r.found, e)
			case history.RoleInput:
				r.inTopic = r.inTopic || r.at(e)
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

func (j *judge) takesRetries(topic int16) bool {
	return j.role(topic) != "" && j.header.Topics[topic].TakesRetries()
}

func accepted(e *history.Event) bool {
	return e.Code == 0 && !e.Flags.Has(history.Forged) && !e.Flags.Has(history.Withheld)
}

// steady reports whether one process owned the record's partition throughout, and each of its commits was accepted
// without error, in the order of the requests.
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
		case e.Kind == history.KindTxnEndRequest && !e.InBatch() && same(e, holder) && !j.committed(e):
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
		answer := j.answer(ask, history.KindCommitResponse)
		if answer == nil || !accepted(answer) {
			return false
		}
		r.commits = append(r.commits, commit{ask.Time, answer.Time, ask.Offset})
	}
	return true
}

// answer returns the answer to a request. It returns nil unless the request was made once and answered once.
func (j *judge) answer(ask *history.Event, answers history.Kind) *history.Event {
	var found *history.Event
	asked := 0
	for i := range j.events {
		e := &j.events[i]
		if e.Op != ask.Op || e.Kind != ask.Kind && e.Kind != answers {
			continue
		}
		if e.Kind == ask.Kind {
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
		end := j.answer(ask, history.KindAttemptEnd)
		if end == nil || end.Record != r.number ||
			end.Flags.Has(history.ClientGone) && end.Outcome != history.OutcomeTimeout {
			return false
		}
		if n := len(r.attempts); ask.Time < r.send.Time || n > 0 && r.attempts[n-1].end > ask.Time {
			return false // attempted before it was sent, or two attempts at once
		}
		one := tried{ask.Time, end.Time, end.Outcome, end.Flags.Has(history.ClientGone), ask.Instance, false}
		if !j.inCall(&one, ask) {
			return false
		}
		r.attempts = append(r.attempts, one)
	}
	return true
}

// begun reports whether the answered request exists.
func (j *judge) begun(answer *history.Event, asks history.Kind) bool {
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		return e.Kind == asks && e.Op == answer.Op && e.Time <= answer.Time
	})
}

// addDeadLetters adds the dead letters. A dead letter that was never answered is decided, too, because it was not
// acknowledged; a refused one, whatever refused it, may be written again.
func (j *judge) addDeadLetters(r *record) bool {
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
