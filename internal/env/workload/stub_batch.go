package workload

// A call that is an attempt at each of several records, such as a bulk insert. It has one answer, and takes effect for
// all of them or for none. So the history has it as a transaction of the downstream: as in one, a refusal does not say
// because of which record.
//
//	read ── start a, start b … ── decide ── end a, end b … ── commit, or abort ── write

import (
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

// inBatch returns the records whose ids a body has, and the number of others in it, which have none: the other elements
// of the list of JSON in which the first is. If it is in no list, there may be one.
func (s *Stub) inBatch(body []byte) (records []int32, others int) {
	records = s.cfg.IDs.All(body)
	if !s.unidentified || len(records) == 0 {
		return records, 0
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
				return records, max(len(list)-len(records), 0)
			}
		}
	}
	return records, 1
}

// together answers a call that is an attempt at each of these records, and at others that have no id.
func (s *Stub) together(w http.ResponseWriter, r *call, route *Route, conn *Conn, records []int32, others int) {
	id := s.batches.take()
	defer s.batches.free(id)
	events := make([]history.Event, len(records)+others)
	began, text := s.cfg.Clock.Now(), s.told(r, 0, false)
	for i := range events {
		e := &events[i]
		*e = conn.Attempt(began)
		e.Flags, e.ProducerID, e.ProducerEpoch, e.Text = history.InTransaction, id, 0, text
		if i < len(records) {
			s.Begin(e, records[i], true)
		} else {
			s.Begin(e, 0, false)
		}
		s.tell(e)
		e.Text = ""
	}
	caller := waiting{r.Context(), s}
	ruling, of, ended := s.DecideTogether(caller, events)
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
