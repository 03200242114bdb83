package workload

// A call that is an attempt at each of several records, such as a bulk insert. The history has it as a transaction of
// the downstream. A call that is refused takes effect for none of its records, and does not say because of which: the
// transaction is aborted. Otherwise it is committed. All attempts in it have succeeded then, or each has its own
// outcome if the answer has an item for each record.
//
//	read ── start a, start b … ── decide ── end a, end b … ── commit, or abort ── write

import (
	"cmp"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/samples"
)

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

// batch is what a call for several records has in its body: the records, each once and None for each that has no id,
// and of which of them each of its elements is. hidden: there may be one more record without an id, which nothing
// shows.
type batch struct {
	records  []int32
	elements []int
	hidden   bool
}

// inBatch returns what a body has, as far as something depends on it: its elements if the answer has an item for each,
// and otherwise if records without an id may be among them.
func (s *Stub) inBatch(body []byte) (b batch) {
	b.records = s.cfg.IDs.All(body)
	if len(b.records) == 0 || !s.unidentified && s.calls.Items == nil {
		return b
	}
	list := s.list(body, b.records[0])
	if list == nil && s.calls.Items != nil {
		list = s.calls.Items.pieces(body)
	}
	if list == nil {
		b.hidden = true
		return b
	}
	elsewhere := b.records
	b.records = nil
	for _, one := range list {
		record, found := s.cfg.IDs.Find(one)
		if !found {
			record = history.None
		}
		at := slices.Index(b.records, record)
		if !found || at < 0 {
			at, b.records = len(b.records), append(b.records, record)
		}
		b.elements = append(b.elements, at)
	}
	for _, one := range elsewhere {
		if !slices.Contains(b.records, one) {
			b.records = append(b.records, one)
		}
	}
	return b
}

// list returns the elements of the list of JSON in which the record's id is, nil if it is in none.
func (s *Stub) list(body []byte, record int32) (list []json.RawMessage) {
	leaves, _ := samples.Leaves(body)
	for _, leaf := range leaves {
		if at := element.FindStringIndex(leaf.At); at != nil && names(s.cfg.IDs, leaf.Text, record) {
			place := samples.Place{}
			if path := leaf.At[:at[0]]; path != "$" {
				place, _ = samples.ParsePlace(path) // it comes from there
			}
			part, err := place.Part(body)
			if err == nil && json.Unmarshal(part, &list) == nil {
				return list
			}
		}
	}
	return nil
}

// together answers a call that is an attempt at each record of a batch.
func (s *Stub) together(w http.ResponseWriter, r *call, route *Route, conn *Conn, b batch) {
	id := s.BeginBatch()
	if b.hidden {
		b.records = append(b.records, history.None)
	}
	events := make([]history.Event, len(b.records))
	began, text := s.cfg.Clock.Now(), s.told(r, 0, false)
	for i, record := range b.records {
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
		s.endEach(events, rulings, ended)
		answer := s.calls.Items
		respond(w, cmp.Or(answer.Status, http.StatusOK), answer.Headers, s.itemised(events, b.elements))
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
	s.EndBatch(&events[0], ruling.Outcome == history.OutcomeSuccess)
	s.give(w, r, route, conn, &events[of], &answer)
}

// endEach records the ends of attempts in a call whose answer has an item for each.
func (s *Stub) endEach(events []history.Event, rulings []Ruling, ended Waited) {
	for i := range events {
		e := &events[i]
		e.Outcome, e.Code = rulings[i].Outcome, int16(s.answers[s.cfg.Plan.ErrorText][rulings[i].Outcome].status)
		s.End(e, ended == Gone)
	}
	s.EndBatch(&events[0], true)
}
