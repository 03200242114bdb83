package histories

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// Scramble returns a copy with a few random edits: events left out, repeated, moved in time, or changed in a field. What it shows is not known.
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

// telling are the kinds that say something of a record.
func telling(kind history.Kind) bool {
	switch kind {
	case history.KindAttemptStart, history.KindAttemptEnd, history.KindProduceRequest, history.KindProduceResponse, history.KindCommitRequest,
		history.KindCommitResponse, history.KindAuditRecord, history.KindFetched:
		return true
	}
	return false
}

func scrambleOnce(h *History, c Choices) {
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
		// By an odd amount, so that it meets nothing at one time.
		e.Time = max(e.Time+time.Duration(c.Intn(200)-100)*ms+time.Duration(1+c.Intn(900))*brief, 0)
	case 3, 4:
		changeField(e, c)
	case 5:
		h.removeOperation(e)
	}
}

// removeOperation takes out a request and its answers.
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
		e.Outcome = pick(c, history.OutcomeSuccess, history.OutcomeTransient, history.OutcomePermanent, history.OutcomeLogical)
		e.Flags = 0
	case history.KindAuditRecord:
		switch c.Intn(7) {
		case 0:
			e.ValueHash++
		case 1:
			e.KeyHash++
		case 2:
			e.HeadersHash++
		case 3:
			e.Claim.Attempts++
		case 4:
			e.Claim.Offset++
		case 5:
			e.Flags ^= history.FailureHeaders
		case 6:
			e.HeaderCount += 5
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
