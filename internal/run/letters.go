package run

// A downstream that takes the dead letters in the place of a topic: a ticket service, an error store, a table.

import (
	"strings"
	"sync"

	"github.com/dlqbench/dlqbench/history"
)

// letters takes the calls of the downstream that takes the dead letters, and records them as writes to its place in
// the header (history.Topic.Downstream). A call is a dead letter if it is carried out: if it succeeds, or if its answer
// does not reach the subject.
type letters struct {
	next  history.Sink
	clock history.Clock
	topic int16
	// undone: a call that gets no answer was not carried out unless it succeeded, as a transaction is rolled back then.
	undone bool

	mu sync.Mutex
	// replaces are the operations under way that replace an earlier dead letter of their record, as PUT does.
	replaces map[int64]bool
	// found are the records of the dead letters, in their order.
	found []int32
	known map[int32]bool
}

func newLetters(next history.Sink, clock history.Clock, topic int16, undone bool) *letters {
	return &letters{next: next, clock: clock, topic: topic, undone: undone, replaces: map[int64]bool{},
		known: map[int32]bool{}}
}

// Record implements history.Sink.
func (l *letters) Record(e history.Event) {
	switch e.Kind {
	case history.KindCallStart:
		e.Kind, e.Offset = history.KindProduceRequest, history.None
		l.begin(&e)
	case history.KindCallEnd:
		e.Kind, e.Offset = history.KindProduceResponse, history.None
		l.end(&e)
	case history.KindUnreadable:
		e.Topic, e.N = l.topic, history.None
		l.next.Record(e)
		return
	}
	e.Topic, e.Partition = l.topic, 0
	e.N, e.Sequence, e.Aux, e.Outcome = history.None, history.None, history.None, history.OutcomeNone
	l.next.Record(e)
}

func (l *letters) begin(e *history.Event) {
	if strings.HasPrefix(e.Text, "PUT ") {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.replaces[e.Op] = true
	}
}

// end turns the answer to a call into that to a write, and keeps the dead letter.
func (l *letters) end(e *history.Event) {
	gone := e.Flags.Has(history.ClientGone)
	lost := e.Flags.Has(history.Withheld) || e.Outcome == history.OutcomeTimeout || e.Outcome == history.OutcomeReset
	e.Flags &= history.Forged
	l.mu.Lock()
	defer l.mu.Unlock()
	replaces := l.replaces[e.Op]
	delete(l.replaces, e.Op)
	switch {
	case gone || lost:
		e.Code, e.Flags = 0, history.Withheld
		if l.undone && e.Outcome != history.OutcomeSuccess {
			return
		}
	case e.Outcome != history.OutcomeSuccess:
		e.Code = refusal(e)
		return
	default:
		e.Code = 0
	}
	if replaces && e.Record >= 0 && l.known[e.Record] {
		return
	}
	e.Offset = int64(len(l.found))
	l.found = append(l.found, e.Record)
	l.known[e.Record] = true
}

// refusal is the status of a call that is refused: its own, if it tells the failure, or the one that stands for its
// outcome.
func refusal(e *history.Event) int16 {
	switch {
	case history.IsStatus(e.Code):
		return e.Code
	case e.Outcome == history.OutcomeTransient:
		return 503
	case e.Outcome == history.OutcomeRateLimited:
		return 429
	case e.Outcome == history.OutcomeLogical:
		return 422
	}
	return 400
}

// audit records the dead letters that are there.
func (l *letters) audit() {
	l.mu.Lock()
	defer l.mu.Unlock()
	event := history.New(history.KindAuditStart, l.clock.Now())
	event.Topic = l.topic
	l.next.Record(event)
	for offset, record := range l.found {
		event := history.New(history.KindAuditRecord, l.clock.Now())
		event.Topic, event.Partition, event.Offset, event.Record = l.topic, 0, int64(offset), record
		l.next.Record(event)
	}
}

// count returns the number of dead letters.
func (l *letters) count() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.found))
}

// lettersAt returns the name of the downstream that takes the subject's dead letters, "" if a topic does.
func (r *run) lettersAt() string {
	if r.options.Subject == nil {
		return ""
	}
	return r.options.Subject.Letters()
}

// dlqTopic returns the name of a dead-letter topic, "" if a downstream takes the dead letters.
func (r *run) dlqTopic(index int16) string {
	if topic := r.header.Topics[index]; !topic.Downstream {
		return topic.Name
	}
	return ""
}
