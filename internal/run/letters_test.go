package run

import (
	"reflect"
	"testing"

	"github.com/dlqbench/dlqbench/history"
)

// A call of the downstream that takes the dead letters is a write of one, and is there if it was carried out.
func TestCallsAreWritesOfDeadLetters(t *testing.T) {
	type answer struct {
		outcome history.Outcome
		code    int16
		flags   history.Flags
	}
	for name, one := range map[string]struct {
		answer
		undone bool
		code   int16
		flags  history.Flags
		there  bool
	}{
		"accepted":           {answer: answer{outcome: history.OutcomeSuccess, code: 201}, there: true},
		"refused by a fault": {answer: answer{history.OutcomeTransient, 500, history.Forged}, code: 500, flags: history.Forged},
		"refused":            {answer: answer{outcome: history.OutcomePermanent}, code: 400},
		"refused for a time": {answer: answer{outcome: history.OutcomeTransient}, code: 503},
		"too often":          {answer: answer{outcome: history.OutcomeRateLimited}, code: 429},
		"told by the body":   {answer: answer{outcome: history.OutcomeLogical, code: 200}, code: 422},
		"unanswered": {answer: answer{outcome: history.OutcomeTimeout, flags: history.Forged}, flags: history.Withheld,
			there: true},
		"its client had gone": {answer: answer{outcome: history.OutcomeSuccess, flags: history.ClientGone},
			flags: history.Withheld, there: true},
		"rolled back": {answer: answer{outcome: history.OutcomeTimeout, flags: history.ClientGone}, undone: true,
			flags: history.Withheld},
		"did not reach the database": {answer: answer{outcome: history.OutcomeTimeout, flags: history.Forged}, undone: true,
			flags: history.Withheld},
		"committed, its answer lost": {answer: answer{outcome: history.OutcomeSuccess, flags: history.Withheld}, undone: true,
			flags: history.Withheld, there: true},
	} {
		t.Run(name, func(t *testing.T) {
			sink := &heldEvents{}
			l := newLetters(sink, history.NewClock(), 1, one.undone)
			send(l, 7, "", one.outcome, one.answer.code, one.answer.flags)
			l.audit()
			request, response := sink.all[0], sink.all[1]
			if request.Kind != history.KindProduceRequest || request.Topic != 1 || request.Partition != 0 ||
				request.Record != 7 || request.Offset != history.None || request.Sequence != history.None {
				t.Errorf("the request is %+v", request)
			}
			if response.Kind != history.KindProduceResponse || response.Code != one.code || response.Flags != one.flags ||
				response.Op != request.Op || (response.Offset == 0) != one.there {
				t.Errorf("the response is %+v", response)
			}
			audited := sink.all[2:]
			if audited[0].Kind != history.KindAuditStart || len(audited) > 1 != one.there || one.there &&
				(audited[1].Kind != history.KindAuditRecord || audited[1].Record != 7 || audited[1].Offset != 0) {
				t.Errorf("the audit is %+v", audited)
			}
		})
	}
}

// A PUT replaces what an earlier one wrote, a POST adds to it.
func TestPutReplacesADeadLetter(t *testing.T) {
	sink := &heldEvents{}
	l := newLetters(sink, history.NewClock(), 1, false)
	for _, text := range []string{"PUT /errors/{id}", "PUT /errors/{id}", "POST /errors"} {
		send(l, 7, text, history.OutcomeSuccess, 200, 0)
	}
	if want := []int32{7, 7}; !reflect.DeepEqual(l.found, want) {
		t.Errorf("there are dead letters of %v, want %v", l.found, want)
	}
}

// send lets the downstream get a call for the record.
func send(to history.Sink, record int32, text string, outcome history.Outcome, code int16, flags history.Flags) {
	e := history.New(history.KindCallStart, 0)
	e.Op, e.Record, e.N, e.Sequence, e.Text, e.Offset = 5, record, 2, 1, text, 30
	to.Record(e)
	e.Kind, e.Text, e.Outcome, e.Code, e.Flags = history.KindCallEnd, "", outcome, code, flags
	to.Record(e)
}

type heldEvents struct{ all []history.Event }

func (h *heldEvents) Record(e history.Event) { h.all = append(h.all, e) }
