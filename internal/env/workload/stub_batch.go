package workload

// A call that is an attempt at each of several records, such as a bulk insert. The history has it as a transaction of
// the downstream. A call that is refused takes effect for none of its records, and does not say because of which: the
// transaction is aborted. Otherwise it is committed. All attempts in it have succeeded then, or each has its own outcome
// if the answer has an item for each record.
//
//	read ── start a, start b … ── decide ── end a, end b … ── commit, or abort ── write

import (
	"cmp"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"sync"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/samples"
)

// batchIDs are the producer ids of the calls under way: the lowest that are free, so that the judge has few of them.
type batchIDs struct {
	mu   sync.Mutex
	used []bool
}

func (b *batchIDs) take() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.Index(b.used, false)
	if at < 0 {
		at, b.used = len(b.used), append(b.used, false)
	}
	b.used[at] = true
	return history.FirstBatch + int64(at)
}

func (b *batchIDs) free(id int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used[id-history.FirstBatch] = false
}

// batch returns the part of a call's body that has the ids of its records, nil if it is not there.
func (c *Calls) batch(r *call) []byte {
	body := r.form()
	if body == nil {
		body = r.body
	}
	if c.At.IsZero() {
		return body
	}
	part, err := c.At.Part(body)
	if err != nil {
		return nil
	}
	return part
}

// element matches the number of an element of a list in a path.
var element = regexp.MustCompile(`\[\d+\]`)

// inBatch returns the records whose ids a body has, in their order. If the first is in a list of JSON, elements without
// an id are among them as None. If it is in no list, there may be one such record that nothing shows (hidden).
func (s *Stub) inBatch(body []byte) (records []int32, hidden bool) {
	records = s.cfg.IDs.All(body)
	if !s.unidentified || len(records) == 0 {
		return records, false
	}
	leaves, _ := samples.Leaves(body)
	for _, leaf := range leaves {
		if at := element.FindStringIndex(leaf.At); at != nil && names(s.cfg.IDs, leaf.Text, records[0]) {
			list, place := []json.RawMessage{}, samples.Place{}
			if path := leaf.At[:at[0]]; path != "$" {
				place, _ = samples.ParsePlace(path) // it comes from there
			}
			part, err := place.Part(body)
			if err == nil && json.Unmarshal(part, &list) == nil {
				return s.elements(list, records), false
			}
		}
	}
	return records, true
}

// elements are the records of a list's elements, and then those of the others that are elsewhere in the body.
func (s *Stub) elements(list []json.RawMessage, others []int32) (records []int32) {
	for _, one := range list {
		record, found := s.cfg.IDs.Find(one)
		if !found {
			record = history.None
		}
		if !found || !slices.Contains(records, record) {
			records = append(records, record)
		}
	}
	for _, one := range others {
		if !slices.Contains(records, one) {
			records = append(records, one)
		}
	}
	return records
}

// together answers a call that is an attempt at each of these records, and at one more that has no id if there is a
// hidden one.
func (s *Stub) together(w http.ResponseWriter, r *call, route *Route, conn *Conn, records []int32, hidden bool) {
	id := s.batches.take()
	defer s.batches.free(id)
	shown := len(records)
	if hidden {
		records = append(records, history.None)
	}
	events := make([]history.Event, len(records))
	began, text := s.cfg.Clock.Now(), s.told(r, 0, false)
	for i, record := range records {
		e := &events[i]
		*e = conn.Attempt(began)
		e.Flags, e.ProducerID, e.ProducerEpoch, e.Text = history.InTransaction, id, 0, text
		s.Begin(e, record, record != history.None)
		s.tell(e)
		e.Text = ""
	}
	caller := waiting{r.Context(), s}
	rulings, of, ended := s.DecideTogether(caller, events, s.calls.Items != nil)
	if of < 0 {
		failures, kind := s.endEach(events, rulings, ended), s.cfg.Plan.ErrorText
		if failures > 0 {
			kind = s.textKind()
		}
		body := s.items.body(s.cfg.IDs, events[:shown], failures, kind)
		respond(w, cmp.Or(s.calls.Items.Status, http.StatusOK), s.calls.Items.Headers, body)
		return
	}
	ruling := rulings[0]
	answer := s.answerTo(caller, &ruling, &ended, s.well(r, route))
	for i := range events {
		e := &events[i]
		e.Outcome, e.Code, e.Aux = ruling.Outcome, int16(answer.status), int64(answer.waits)
		if e.Record == history.None {
			e.Outcome = history.OutcomeUnknownID
		}
		s.End(e, ended == Gone)
	}
	s.endBatch(&events[0], ruling.Outcome == history.OutcomeSuccess)
	s.give(w, r, route, conn, &events[of], &answer)
}

// endEach records the ends of attempts in a call whose answer has an item for each, and returns how many failed.
func (s *Stub) endEach(events []history.Event, rulings []Ruling, ended Waited) (failures int) {
	for i := range events {
		e := &events[i]
		e.Outcome, e.Code = rulings[i].Outcome, int16(s.answers[s.cfg.Plan.ErrorText][rulings[i].Outcome].status)
		if s.End(e, ended == Gone); e.Outcome != history.OutcomeSuccess {
			failures++
		}
	}
	s.endBatch(&events[0], true)
	return failures
}

// endBatch records the end of the transaction that a call for several records is.
func (s *Stub) endBatch(of *history.Event, success bool) {
	e := history.New(history.KindTxnEndRequest, s.cfg.Clock.Now())
	e.Op, e.Instance, e.Run, e.N = s.cfg.Ops.Add(1), of.Instance, of.Run, 0
	e.ProducerID, e.ProducerEpoch = of.ProducerID, of.ProducerEpoch
	if success {
		e.N = 1
	}
	s.cfg.Sink.Record(e)
	e.Kind, e.Time = history.KindTxnEndResponse, s.cfg.Clock.Now()
	s.cfg.Sink.Record(e)
}
