package reference

import (
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

// producer is one epoch of a transactional producer.
type producer struct {
	id    int64
	epoch int16
}

// resolved is a history with its transactions resolved: what was written or committed in one counts when it is
// committed, and only then. The answers to the writes, and the commits, are at the request for the end of the
// transaction, and the answers to the commits at the answer to that. What was aborted was refused.
func resolved(events []history.Event) []history.Event {
	if !slices.ContainsFunc(events, func(e history.Event) bool { return e.Kind == history.KindTxnEndRequest }) {
		return events
	}
	all := slices.Clone(events)
	open := map[producer][]int{}
	for i := range all {
		e := &all[i]
		of := producer{e.ProducerID, e.ProducerEpoch}
		part := e.Flags.Has(history.InTransaction) && e.ProducerID >= 0
		switch {
		case part && (e.Kind == history.KindProduceRequest || e.Kind == history.KindCommitRequest):
			open[of] = append(append(open[of], i), answersTo(all, i)...)
		case e.Kind == history.KindTxnEndRequest && resolve(all, open[of], i):
			open[of] = nil
		}
	}
	for _, rest := range open {
		refuse(all, rest)
	}
	all = slices.DeleteFunc(all, func(e history.Event) bool { return e.Kind == undone })
	slices.SortStableFunc(all, func(a, b history.Event) int { return int(a.Time - b.Time) })
	return all
}

// answersTo returns the indices of the answers to a request.
func answersTo(all []history.Event, ask int) (found []int) {
	of := &all[ask]
	for i := range all {
		e := &all[i]
		if e.Op == of.Op && e.Topic == of.Topic && e.Partition == of.Partition &&
			(e.Kind == history.KindProduceResponse || e.Kind == history.KindCommitResponse) {
			found = append(found, i)
		}
	}
	return found
}

// resolve ends a transaction, and reports whether it has ended: a commit that was refused may be requested again.
func resolve(all []history.Event, parts []int, end int) bool {
	ask := &all[end]
	answer := slices.IndexFunc(all, func(e history.Event) bool {
		return e.Kind == history.KindTxnEndResponse && e.Op == ask.Op && e.ProducerID == ask.ProducerID
	})
	switch {
	case ask.N != 1:
		refuse(all, parts)
		return true
	case answer >= 0 && (all[answer].Code != 0 || all[answer].Flags.Has(history.Forged)):
		return false
	}
	last := map[[2]int32]int64{}
	for _, i := range parts {
		if e := &all[i]; e.Kind == history.KindCommitRequest {
			last[[2]int32{int32(e.Topic), e.Partition}] = e.Op
		}
	}
	for _, i := range parts {
		e := &all[i]
		superseded := last[[2]int32{int32(e.Topic), e.Partition}] != e.Op
		switch e.Kind {
		case history.KindProduceResponse:
			e.Time = max(e.Time, ask.Time)
		case history.KindCommitRequest, history.KindCommitResponse:
			refused := e.Kind == history.KindCommitResponse && (superseded || answer < 0)
			if refused {
				e.Flags |= history.Withheld
			}
			if e.Time = ask.Time; e.Kind == history.KindCommitResponse && answer >= 0 {
				e.Time = all[answer].Time
				e.Flags |= all[answer].Flags
			}
		}
	}
	return true
}

// refuse makes the writes of an aborted transaction refused ones, and its commits undone.
func refuse(all []history.Event, parts []int) {
	for _, i := range parts {
		switch e := &all[i]; e.Kind {
		case history.KindProduceResponse:
			e.Code = abortedError
		case history.KindCommitRequest, history.KindCommitResponse:
			e.Kind = undone
		}
	}
}

// committed reports whether a transaction was committed, and its process heard of it.
func (j *judge) committed(end *history.Event) bool {
	answer := j.answer(end, history.KindTxnEndResponse)
	return end.N == 1 && answer != nil && accepted(answer)
}

// aborts returns the number of transactions that were aborted, or perhaps committed without the knowledge of their
// process. After each of them records may be delivered again, and written again.
func (j *judge) aborts() (n int) {
	for i := range j.events {
		if e := &j.events[i]; e.Kind == history.KindTxnEndRequest && !e.InBatch() && !j.committed(e) {
			n++
		}
	}
	return n
}

// abortedError is the error of what was aborted (TRANSACTIONAL_ID_NOT_FOUND; any error does).
const abortedError = 105

// undone is the kind of an event that has no consequences.
const undone history.Kind = 0
