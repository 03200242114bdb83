package generate

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// Scramble returns a copy with a few random edits: events removed, repeated, moved in time, or changed in a field. The
// anomalies of the result are not known.
func Scramble(h *History, c Choices) *History {
	damaged := h.Clone()
	for range 1 + c.Intn(4) {
		if len(damaged.Events) == 0 {
			break
		}
		scrambleOnce(damaged, c)
	}
	damaged.sort()
	return damaged
}

// telling reports whether events of the kind carry information about a record.
func telling(kind history.Kind) bool {
	switch kind {
	case history.KindAttemptStart, history.KindAttemptEnd, history.KindProduceRequest, history.KindProduceResponse,
		history.KindCommitRequest, history.KindCommitResponse, history.KindAuditRecord, history.KindFetched:
		return true
	}
	return false
}

func scrambleOnce(h *History, c Choices) {
	switch {
	case h.Header.Graph != nil && chance(c, 3):
		h.reroute(c)
		return
	case h.Header.Store != nil && !chance(c, 3):
		h.rewrite(c)
		return
	}
	at := c.Intn(len(h.Events))
	if kind := h.Events[at].Kind; kind == history.KindAuditOffsets || kind == history.KindInstanceExited {
		changeField(&h.Events[at], c)
		return
	}
	for range len(h.Events) {
		if telling(h.Events[at].Kind) {
			break
		}
		at = (at + 1) % len(h.Events)
	}
	e := &h.Events[at]
	switch c.Intn(6) {
	case 0:
		h.Events = slices.Delete(h.Events, at, at+1)
	case 1:
		again := *e
		again.Time += time.Duration(c.Intn(3)) * ms
		again.Offset += int64(c.Intn(2))
		h.Events = append(h.Events, again)
	case 2:
		// The odd amount avoids equal times.
		e.Time = max(e.Time+time.Duration(c.Intn(200)-100)*ms+time.Duration(1+c.Intn(900))*brief, 0)
	case 3, 4:
		changeField(e, c)
	case 5:
		h.removeOperation(e)
	}
}

// removeOperation removes a request and its answers.
func (h *History) removeOperation(of *history.Event) {
	op, record := of.Op, of.Record
	if op == 0 {
		return
	}
	h.Events = slices.DeleteFunc(h.Events, func(e history.Event) bool {
		return e.Op == op && e.Record == record && telling(e.Kind)
	})
}

func changeField(e *history.Event, c Choices) {
	switch e.Kind {
	case history.KindAttemptEnd:
		e.Outcome = pick(c, history.OutcomeSuccess, history.OutcomeTransient, history.OutcomePermanent,
			history.OutcomeLogical)
		e.Flags = 0
	case history.KindAuditRecord:
		switch c.Intn(8) {
		case 0:
			e.ValueHash++
		case 1:
			e.KeyHash++
		case 2:
			e.HeadersHash++
		case 3:
			claimOf(e).Attempts++
		case 4:
			claimOf(e).Offset++
		case 5:
			e.Flags ^= history.FailureHeaders
		case 6:
			e.HeaderCount += 5
		case 7:
			retell(e, c)
		}
	case history.KindCommitRequest:
		e.Offset += int64(c.Intn(4) - 1)
		e.Instance = max(e.Instance-int16(c.Intn(2)), 0)
	case history.KindProduceResponse, history.KindCommitResponse:
		e.Code = int16(c.Intn(2) * 19)
		e.Flags ^= pick(c, 0, history.Withheld, history.Forged)
	case history.KindProduceRequest:
		if e.Instance == history.Replayer {
			e.Topic = pick(c, inputTopic, retryTopic)
		}
	case history.KindAuditOffsets:
		e.Aux -= int64(c.Intn(3))
	case history.KindInstanceExited:
		e.Time += time.Duration(c.Intn(2)) * (drainLimit + 251*ms)
		e.Aux = int64(time.Duration(c.Intn(3)) * drainLimit)
	}
}

// retell changes the fields of a dead letter other than its position.
func retell(e *history.Event, c Choices) {
	if e.Claim == nil {
		return
	}
	more := e.Claim.Beside()
	switch c.Intn(4) {
	case 0:
		more.Twice = []string{"x-reason"}
	case 1:
		if more.Epoch != nil {
			*more.Epoch += int32(c.Intn(9) - 4)
		}
	case 2:
		for name := range more.Times {
			more.Times[name] += time.Duration(c.Intn(10)-5) * 20 * time.Second
		}
	case 3:
		more.Quotes = []history.Outcome{pick(c, history.OutcomeTransient, history.OutcomePermanent, history.OutcomeLogical)}
	}
	claimOf(e).More = more.Encode()
}

// reroute moves a produce of a graph to another topic.
func (h *History) reroute(c Choices) {
	var writes []history.Event
	for _, e := range h.Events {
		if e.Kind == history.KindProduceResponse && e.Offset >= 0 {
			writes = append(writes, e)
		}
	}
	if len(writes) == 0 {
		return
	}
	one, to, offset := writes[c.Intn(len(writes))], int16(c.Intn(len(h.Header.Topics))), int64(2000+c.Intn(1000))
	found := history.Event{Kind: history.KindUnknown}
	for i := range h.Events {
		switch e := &h.Events[i]; {
		case e.Op == one.Op && (e.Kind == history.KindProduceRequest || e.Kind == history.KindProduceResponse):
			e.Topic = to
			if e.Kind == history.KindProduceResponse {
				e.Offset = offset
			}
		case e.Kind == history.KindAuditRecord && e.Topic == one.Topic && e.Partition == one.Partition &&
			e.Offset == one.Offset:
			found = *e
			e.Kind, e.Record = history.KindUnknown, history.None
		case e.Kind == history.KindAuditStart && e.Topic == to && found.Kind != history.KindUnknown:
			found.Time = e.Time + brief
		}
	}
	if found.Kind != history.KindUnknown {
		found.Topic, found.Offset = to, offset
		h.Events = append(h.Events, found)
	}
	h.Events = slices.DeleteFunc(h.Events, func(e history.Event) bool { return e.Kind == history.KindUnknown })
}

// rewrite changes something about an entry of a dead-letter store, a worker's attempt, or a router's commit.
func (h *History) rewrite(c Choices) {
	var places []int
	for i := range h.Events {
		if e := &h.Events[i]; e.Kind == history.KindStoreChange || history.OfStore(e.Instance) && telling(e.Kind) {
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return
	}
	at := places[c.Intn(len(places))]
	e := &h.Events[at]
	shift := time.Duration(c.Intn(400)-200)*ms + time.Duration(1+c.Intn(900))*brief
	switch choice := c.Intn(6); {
	// nothing happens before the run begins
	case e.Time+shift <= 0 || e.Kind == history.KindStoreChange && e.Aux+int64(shift) <= 0:
	case choice == 0:
		h.Events = slices.Delete(h.Events, at, at+1)
	case choice == 1 && e.Kind != history.KindStoreChange:
		h.removeOperation(e)
	case e.Kind != history.KindStoreChange && choice < 4:
		e.Time += shift
	case e.Kind != history.KindStoreChange:
		changeField(e, c)
	case choice < 4:
		e.Time, e.Aux = e.Time+shift, e.Aux+int64(shift)
	default:
		h.misspell(e, c)
	}
}

// misspell changes the content of an entry's change.
func (h *History) misspell(e *history.Event, c Choices) {
	change, err := history.ParseStoreChange(e.Text)
	if err != nil {
		return
	}
	switch c.Intn(4) {
	case 0:
		change.To = pick(c, history.StorePending, history.StoreProcessing, history.StoreResolved, history.StoreFailed,
			history.StoreManual, history.StoreArchived, history.StoreAbsent)
	case 1:
		if change.Next != history.None {
			change.Next += time.Duration(c.Intn(300)-100) * ms
		}
	case 2:
		e.N++
	case 3:
		if change.Lease != history.None {
			change.Lease += time.Duration(c.Intn(600)-300) * ms
		}
	}
	e.Text = change.String()
	last := true
	for i := range h.Events {
		o := &h.Events[i]
		last = last && (o.Kind != history.KindStoreChange || o.Op != e.Op || o.Time <= e.Time)
	}
	for i := range h.Events {
		if o := &h.Events[i]; last && o.Kind == history.KindStoreEntry && o.Op == e.Op {
			change.From = history.StoreAbsent
			o.Text = change.String()
		}
	}
}
