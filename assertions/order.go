package assertions

// The order in which a history is judged. Events come sorted by time. At equal stamps the true order is unknown, and
// the recorded order is that of the observers' goroutines, so it is ignored: events with one time get a defined order,
// the same however they were recorded. This order favours the subject: its answers come before its requests.
//
//	1 the run and its surroundings: phases, sent records, processes, faults, assignments, fetches
//	2 answers to earlier requests
//	3 requests made and answered at this very time, stage by stage: attempts, writes, commits, ends of transactions
//	4 requests that are not answered yet

import (
	"cmp"
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

// batchEvents is the usual number of events that are passed on together: enough that handing them to another goroutine
// costs nothing, and few enough that they stay in the processor's cache.
const batchEvents = 512

// inOrder passes events on in batches, and sorts those with equal times, which are always in one batch.
type inOrder struct {
	batch []history.Event
	// tied is the position of the first event that has the time of the last one.
	tied int
	sort sorter
}

// ordered is a source that returns events with equal times in the defined order.
type ordered struct{ history.Source }

// Each implements history.Source.
func (o ordered) Each(fn func(*history.Event) error) error {
	return o.batches(func(batch []history.Event) ([]history.Event, error) {
		for i := range batch {
			if err := fn(&batch[i]); err != nil {
				return nil, err
			}
		}
		return batch[:0], nil
	})
}

// batches passes all events on. The function keeps the batch, and returns an empty one to fill. If it returns an error,
// batches returns that error.
func (o ordered) batches(fn func([]history.Event) ([]history.Event, error)) error {
	order := inOrder{batch: make([]history.Event, 0, batchEvents)}
	stopped := false
	pass := func(batch []history.Event) ([]history.Event, error) {
		next, err := fn(batch)
		stopped = stopped || err != nil
		return next, err
	}
	err := o.Source.Each(func(e *history.Event) error { return order.take(e, pass) })
	if stopped {
		return err
	}
	// Events before the damage are passed on too.
	return cmp.Or(order.flush(pass), err)
}

func (o *inOrder) take(e *history.Event, pass func([]history.Event) ([]history.Event, error)) error {
	if n := len(o.batch); n > 0 && o.batch[n-1].Time != e.Time {
		if o.untie(); n >= batchEvents {
			if err := o.flush(pass); err != nil {
				return err
			}
		}
	}
	o.batch = append(o.batch, *e)
	return nil
}

// untie sorts the last events, which have one time.
func (o *inOrder) untie() {
	if len(o.batch)-o.tied > 1 {
		o.sort.put(o.batch[o.tied:])
	}
	o.tied = len(o.batch)
}

func (o *inOrder) flush(pass func([]history.Event) ([]history.Event, error)) (err error) {
	o.untie()
	o.tied = 0
	o.batch, err = pass(o.batch)
	return err
}

// sorter sorts events with equal times.
type sorter struct {
	asked map[int64]bool // operations requested at this time
	both  map[int64]bool // operations requested and answered at this time
}

func (s *sorter) put(events []history.Event) {
	s.asked, s.both = map[int64]bool{}, map[int64]bool{}
	for i := range events {
		if stageOf(events[i].Kind) > 0 && !isAnswer(events[i].Kind) {
			s.asked[events[i].Op] = true
		}
	}
	for i := range events {
		if isAnswer(events[i].Kind) && s.asked[events[i].Op] {
			s.both[events[i].Op] = true
		}
	}
	slices.SortFunc(events, func(a, b history.Event) int { return s.compare(&a, &b) })
}

func (s *sorter) compare(a, b *history.Event) int {
	if c := cmp.Compare(s.rank(a), s.rank(b)); c != 0 {
		return c
	}
	if stage := stageOf(a.Kind); stage > 0 {
		// A request precedes its own answer.
		if c := cmp.Or(cmp.Compare(stage, stageOf(b.Kind)), cmp.Compare(a.Op, b.Op), cmp.Compare(a.Kind, b.Kind)); c != 0 {
			return c
		}
	}
	return compareFields(a, b)
}

// The ranks of events that are neither requests nor answers lie around the ranks of those that are.
const (
	rankPhase = iota
	rankSend
	rankAcked
	rankProcess
	rankFault
	rankRevoked
	rankAssigned
	rankFetched
	rankAuditStart
	rankAudit
	rankSelected
	rankAnswer
	rankBoth
	rankAsked
)

func (s *sorter) rank(e *history.Event) int {
	switch e.Kind {
	case history.KindPhase:
		return rankPhase
	case history.KindSend:
		return rankSend
	case history.KindAcked:
		return rankAcked
	case history.KindInstanceStarting, history.KindInstanceReady, history.KindInstanceSignal, history.KindInstanceExited:
		return rankProcess
	case history.KindRevoked:
		return rankRevoked
	case history.KindAssigned:
		return rankAssigned
	case history.KindFetched, history.KindFetching, history.KindShareAcquired:
		return rankFetched
	case history.KindAuditStart:
		return rankAuditStart
	case history.KindAuditRecord, history.KindAuditOffsets:
		return rankAudit
	case history.KindReplaySelected:
		return rankSelected
	}
	switch {
	case stageOf(e.Kind) == 0:
		return rankFault
	case s.both[e.Op]:
		return rankBoth
	case isAnswer(e.Kind):
		return rankAnswer
	}
	return rankAsked
}

// stageOf returns the stage of a request or answer in a record's path, or 0 for other events.
func stageOf(kind history.Kind) int {
	switch kind {
	case history.KindAttemptStart, history.KindAttemptEnd, history.KindCallStart, history.KindCallEnd:
		return 1
	case history.KindProduceRequest, history.KindProduceResponse:
		return 2
	case history.KindCommitRequest, history.KindCommitResponse, history.KindShareAckRequest, history.KindShareAckResponse:
		return 3
	case history.KindTxnEndRequest, history.KindTxnEndResponse:
		return 4
	}
	return 0
}

func isAnswer(kind history.Kind) bool {
	switch kind {
	case history.KindAttemptEnd, history.KindCallEnd, history.KindProduceResponse, history.KindCommitResponse,
		history.KindTxnEndResponse,
		history.KindShareAckResponse:
		return true
	}
	return false
}

// compareFields orders events by all their fields, so that two that compare as equal are equal. Two starts of processes
// are ordered by run. Of an end and a start in one run, the start comes first.
func compareFields(a, b *history.Event) int {
	return cmp.Or(
		cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Run, b.Run), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Topic, b.Topic),
		cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Record, b.Record), cmp.Compare(a.Offset, b.Offset),
		cmp.Compare(a.Op, b.Op),
		cmp.Compare(a.N, b.N), cmp.Compare(a.Text, b.Text), cmp.Compare(a.Aux, b.Aux), cmp.Compare(a.Code, b.Code),
		cmp.Compare(a.Flags, b.Flags), cmp.Compare(a.Outcome, b.Outcome), cmp.Compare(a.KeyHash, b.KeyHash),
		cmp.Compare(a.ValueHash, b.ValueHash), cmp.Compare(a.HeadersHash, b.HeadersHash),
		cmp.Compare(a.HeaderCount, b.HeaderCount),
		cmp.Compare(a.HeaderBytes, b.HeaderBytes), cmp.Compare(a.ProducerID, b.ProducerID),
		cmp.Compare(a.ProducerEpoch, b.ProducerEpoch),
		cmp.Compare(a.Sequence, b.Sequence), compareClaims(a.Stated(), b.Stated()),
	)
}

func compareClaims(a, b history.Claim) int {
	return cmp.Or(
		cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset),
		cmp.Compare(a.Attempts, b.Attempts), cmp.Compare(a.Missing, b.Missing),
	)
}
