package workload

import (
	"net/http"
	"slices"
	"testing"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
)

// A call for several records is an attempt at each of them. All have the answer of the first that is to fail, and the
// failure is used up for that one alone. In the history they are a transaction, which is aborted then.
func TestCallsForSeveralRecords(t *testing.T) {
	failing := func(outcome history.Outcome, failures uint8) plan.Record {
		return plan.Record{Outcome: outcome, Failures: failures}
	}
	succeeding := failing(history.OutcomeSuccess, 0)
	records := &plan.Plan{Records: []plan.Record{
		succeeding, failing(history.OutcomeTransient, 1), failing(history.OutcomePermanent, 0), succeeding,
	}}
	b := newCalls(t, records, history.IDText, Calls{In: InBody, Batch: true, Answers: map[history.Outcome]Response{
		history.OutcomePermanent: {Status: 400, Body: new(`{"failed": "{{.ID}}"}`)},
	}})
	ids := b.ids
	body := func(records ...int32) string {
		text := "{}"
		for _, one := range records {
			text += "\n" + ids.Token(one)
		}
		return text
	}
	for _, call := range []struct {
		records []int32
		status  int
	}{
		{[]int32{0, 1, 2}, http.StatusServiceUnavailable}, // record 1
		{[]int32{0, 1, 2}, http.StatusBadRequest},         // record 2: record 1 has failed as often as it is to
		{[]int32{0, 1, 0}, http.StatusOK},
		{[]int32{2}, http.StatusBadRequest},
		{[]int32{3}, http.StatusOK},
	} {
		status, _, answer := b.call("POST", "/bulk", body(call.records...))
		if status != call.status {
			t.Errorf("%v: status %d, want %d", call.records, status, call.status)
		}
		if status == http.StatusBadRequest && answer != `{"failed": "`+ids.Token(2)+`"}` {
			t.Errorf("%v: the answer is %s", call.records, answer)
		}
	}
	type seen struct {
		kind   history.Kind
		record int32
		n      int32
		joined bool
	}
	const start, end, asked, answered = history.KindAttemptStart, history.KindAttemptEnd, history.KindTxnEndRequest,
		history.KindTxnEndResponse
	want := []seen{
		{start, 0, 1, true}, {start, 1, 1, true}, {start, 2, 1, true},
		{end, 0, 1, true}, {end, 1, 1, true}, {end, 2, 1, true}, {asked, -1, 0, false}, {answered, -1, 0, false},
		{start, 0, 2, true}, {start, 1, 2, true}, {start, 2, 2, true},
		{end, 0, 2, true}, {end, 1, 2, true}, {end, 2, 2, true}, {asked, -1, 0, false}, {answered, -1, 0, false},
		{start, 0, 3, true}, {start, 1, 3, true}, {end, 0, 3, true}, {end, 1, 3, true},
		{asked, -1, 1, false}, {answered, -1, 1, false},
		{start, 2, 3, false}, {end, 2, 3, false}, {start, 3, 1, false}, {end, 3, 1, false},
	}
	var got []seen
	for _, e := range b.sink.all {
		got = append(got, seen{e.Kind, e.Record, e.N, e.Flags.Has(history.InTransaction)})
		if batch := e.ProducerID >= 0; batch != (e.ProducerID == history.FirstBatch) {
			t.Errorf("%+v", e)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// A call that is refused uses up a failure that passes of each of its records: a consumer that repeats calls as they
// are needs as many as one record does, and not as many as all of them together.
func TestARefusalCountsForEachRecord(t *testing.T) {
	b := newCalls(t, &plan.Plan{Records: []plan.Record{
		{Outcome: history.OutcomeTransient, Failures: 2}, {Outcome: history.OutcomeRateLimited, Failures: 1},
		{Outcome: history.OutcomeTransient, Failures: 2}, {Outcome: history.OutcomePermanent},
	}}, history.IDText, Calls{In: InBody, Batch: true})
	for i, one := range []struct {
		records []int32
		status  int
	}{
		{[]int32{0, 1, 2}, 503},
		{[]int32{3, 1, 2}, 400}, // uses up nothing
		{[]int32{0, 1, 2}, 503},
		{[]int32{0, 1, 2}, 200},
	} {
		body := ""
		for _, record := range one.records {
			body += b.ids.Token(record) + "\n"
		}
		if status, _, _ := b.call("POST", "/bulk", body); status != one.status {
			t.Errorf("call %d is answered %d, want %d", i, status, one.status)
		}
	}
}

// Where records have no id, such as values that can't be read, the other elements of a list are attempts without one.
func TestCallsForRecordsWithoutAnID(t *testing.T) {
	ids := history.NewIDsAs("run", history.IDText, 10)
	a, b := `{"order": {"id": "`+ids.Token(1)+`"}}`, `{"order": {"id": "`+ids.Token(2)+`"}}`
	for name, one := range map[string]struct {
		at, body string
		want     int // attempts without an id
	}{
		"all have one":        {"", "[" + a + "," + b + "]", 0},
		"one has none":        {"", "[" + a + `, {"order": {}}, ` + b + "]", 1},
		"only one has one":    {"", "[null, " + a + ", null]", 2},
		"in a list inside":    {"", `{"orders": [` + a + `, 17], "tags": [1, 2, 3]}`, 1},
		"at a place":          {"$.orders", `{"orders": [` + a + `, 17], "tags": [1, 2, 3]}`, 1},
		"one for each line":   {"", a + "\n" + b, 1},
		"none of all has one": {"", "[17]", 1},
	} {
		calls := Calls{In: InBody, Batch: true}
		if one.at != "" {
			calls.At = at(t, one.at)
		}
		bed := newCalls(t, &plan.Plan{Records: []plan.Record{{Tombstone: true}, {}, {}}}, history.IDText, calls)
		bed.call("POST", "/bulk", one.body)
		unnamed, named := 0, 0
		for _, e := range bed.sink.of(history.KindAttemptEnd) {
			switch {
			case e.Record != history.None:
				named++
			case e.Outcome == history.OutcomeUnknownID:
				unnamed++
			}
		}
		joined := len(bed.sink.of(history.KindTxnEndRequest))
		if unnamed != one.want || joined != min(named, 1)*min(named+unnamed-1, 1) {
			t.Errorf("%s: %d attempts without an id, %d with one, %d calls for several", name, unnamed, named, joined)
		}
	}
}

// Calls under way at the same time are transactions of their own. The ids of those that ended are used again.
func TestBatchIDs(t *testing.T) {
	var ids batchIDs
	a, b := ids.take(), ids.take()
	ids.free(a)
	if again, further := ids.take(), ids.take(); a == b || again != a || further == a || further == b {
		t.Errorf("%d, %d, then %d, %d", a, b, again, further)
	}
}

// With a place, only the ids there count.
func TestBatchAtAPlace(t *testing.T) {
	calls := Calls{In: InBody, Batch: true, At: at(t, "$.orders")}
	b := newCalls(t, &plan.Plan{Records: make([]plan.Record, 4)}, history.IDUUID, calls)
	ids := b.ids
	b.call("POST", "/bulk", `{"trace": "`+ids.Token(0)+`", "orders": [{"id": "`+ids.Token(2)+`"}, {"id": "`+ids.Token(1)+
		`"}], "last": "`+ids.Token(3)+`"}`)
	b.call("POST", "/bulk", `{"trace": "`+ids.Token(0)+`"}`)
	var got []int32
	for _, e := range b.sink.of(history.KindAttemptStart) {
		got = append(got, e.Record)
	}
	if !slices.Equal(got, []int32{2, 1, history.None}) {
		t.Errorf("attempts at %v", got)
	}
}
