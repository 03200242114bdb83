package workload

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
)

// itemised are calls whose answers have an item for each record.
func itemised() Calls {
	return Calls{In: InBody, Batch: true, Items: &Items{
		Response: Response{Status: 207, Headers: map[string]string{"X-Bulk": "1"}, Body: new(
			`{"errors": {{.AnyFailed}}, "count": {{.FailedCount}}, "items": [{{.Items}}], ` +
				`"good": [{{.Succeeded}}], "bad": [{{.Failed}}]}`)},
		Each: map[history.Outcome]string{
			history.OutcomeSuccess:   `"{{.Index}} {{.ID}} good"`,
			history.OutcomeTransient: `"{{.Index}} {{.ID}} {{.Error}}"`,
			history.OutcomePermanent: `"{{.Index}} {{.ID}} no"`,
		},
	}}
}

// itemsAnswer is the answer to calls of itemised.
type itemsAnswer struct {
	Errors bool     `json:"errors"`
	Count  int      `json:"count"`
	Items  []string `json:"items"`
	Good   []string `json:"good"`
	Bad    []string `json:"bad"`
}

// bulk calls with a list of these records, and returns the status, 0 if there was no answer, and if it is 207, the
// answer. None stands for a value without an id.
func (b *bed) bulk(records ...int32) (status int, answer itemsAnswer) {
	b.t.Helper()
	list := []string{}
	for _, one := range records {
		if one == history.None {
			list = append(list, "")
			continue
		}
		list = append(list, b.ids.Token(one))
	}
	body, _ := json.Marshal(list)
	status, header, text, err := b.post(b.t.Context(), 0, string(body))
	if err != nil {
		return 0, answer
	}
	if status != 207 {
		return status, answer
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || header.Get("X-Bulk") != "1" {
		b.t.Fatalf("%s: %v, headers %v", text, err, header)
	}
	return status, answer
}

// An answer has an item for each record of the call, which says what was planned for it. In the history, the call is a
// transaction that is committed, in which attempts have failed.
func TestAnswersWithItems(t *testing.T) {
	b := newCalls(t, &plan.Plan{Records: []plan.Record{
		{Outcome: history.OutcomeSuccess}, {Outcome: history.OutcomeTransient, Failures: 1},
		{Outcome: history.OutcomeLogical}, {Tombstone: true}, {Outcome: history.OutcomeRateLimited, Failures: 1},
	}}, history.IDText, itemised())
	id := b.ids.Token
	status, got := b.bulk(0, 1, history.None, 2)
	transient := failures()[history.OutcomeTransient].text
	want := []string{"0 " + id(0) + " good", "1 " + id(1) + " " + transient, "2  no", "3 " + id(2) + " no"}
	if status != 207 || !got.Errors || got.Count != 3 || !slices.Equal(got.Items, want) ||
		!slices.Equal(got.Good, want[:1]) || !slices.Equal(got.Bad, want[1:]) {
		t.Errorf("status %d, %+v; want %q", status, got, want)
	}
	// One alone is answered in the same way.
	status, got = b.bulk(1)
	if want := []string{"0 " + id(1) + " good"}; status != 207 || got.Errors || got.Count != 0 ||
		!slices.Equal(got.Items, want) || len(got.Bad) > 0 {
		t.Errorf("status %d, %+v; want %q", status, got, want)
	}
	// A failure without an item of its own has that of another one, with its own text.
	_, got = b.bulk(4)
	if want := []string{"0 " + id(4) + " " + failures()[history.OutcomeRateLimited].text}; !slices.Equal(got.Bad, want) {
		t.Errorf("%+v; want %q", got, want)
	}
	ends, outcomes, codes := b.sink.of(history.KindAttemptEnd), []history.Outcome{}, []int16{}
	for _, e := range ends {
		outcomes, codes = append(outcomes, e.Outcome), append(codes, e.Code)
	}
	if want := []history.Outcome{history.OutcomeSuccess, history.OutcomeTransient, history.OutcomeUnknownID,
		history.OutcomeLogical, history.OutcomeSuccess, history.OutcomeRateLimited}; !slices.Equal(outcomes, want) {
		t.Errorf("the outcomes are %v, want %v", outcomes, want)
	}
	if want := []int16{200, 503, 404, 422, 200, 429}; !slices.Equal(codes, want) {
		t.Errorf("the statuses are %v, want %v", codes, want)
	}
	requests := b.sink.of(history.KindTxnEndRequest)
	if len(requests) != 3 || requests[0].N != 1 || requests[1].N != 1 {
		t.Errorf("the ends of the calls are %+v", requests)
	}
}

// What no item can say strikes the call as a whole: planned resets, and faults.
func TestCallsWithItemsThatAreRefusedAsAWhole(t *testing.T) {
	b := newCalls(t, &plan.Plan{Records: []plan.Record{
		{Outcome: history.OutcomeTransient, Failures: 2}, {Outcome: history.OutcomeReset, Failures: 1},
		{Outcome: history.OutcomeReset, Failures: 1}, {Outcome: history.OutcomePermanent},
	}}, history.IDText, itemised())
	if status, _ := b.bulk(0, 1, 2, 3); status != 0 {
		t.Errorf("the call is answered %d; it is to be reset", status)
	}
	end := b.Answer(func(int32, int32) (history.Outcome, time.Duration) { return history.OutcomeTransient, 0 })
	if status, _ := b.bulk(0, 1); status != http.StatusServiceUnavailable {
		t.Errorf("in an outage, the call is answered %d", status)
	}
	end()
	// The reset has used up a failure of each record that has one, and the outage none.
	for _, want := range [][]bool{{false, true, true, false}, {true, true, true, false}} {
		status, got := b.bulk(0, 1, 2, 3)
		for i, item := range got.Items {
			if good := strings.HasSuffix(item, "good"); good != want[i] {
				t.Errorf("item %d is %s, to be good is %t", i, item, want[i])
			}
		}
		if status != 207 || len(got.Items) != len(want) {
			t.Errorf("status %d, items %q", status, got.Items)
		}
	}
	ends := b.sink.of(history.KindTxnEndRequest)
	if len(ends) != 4 || ends[0].N != 0 || ends[1].N != 0 || ends[2].N != 1 || ends[3].N != 1 {
		t.Errorf("the ends of the calls are %+v", ends)
	}
}

// An answer has an item for each element of a call, whatever is in it: one without an id, and one that is there twice,
// as a record is that was produced twice. It is one attempt at that record.
func TestElementsOfCalls(t *testing.T) {
	ids := history.NewIDsAs("run", history.IDText, 10)
	a, b := ids.Token(0), ids.Token(1)
	for name, one := range map[string]struct {
		lines int
		body  string
	}{
		"a list": {0, `{"of": "x", "list": [{"id": "` + a + `", "again": "` + a + `"}, {}, "` + b + `", {"id": "` + a +
			`"}]}`},
		"a document in each":  {1, a + "\n{}\n\n" + b + "\n" + a},
		"an action before it": {2, "{" + a + "}\n" + a + "\n{}\n{}\n{}\n" + b + "\n{" + a + "}\n" + a + "\n"},
		"the last is cut off": {2, a + "\n" + a + "\nx\ny\n" + b + "\n" + b + "\n" + a},
	} {
		calls := itemised()
		calls.Items.Lines = one.lines
		bed := newCalls(t, &plan.Plan{Records: []plan.Record{{}, {Outcome: history.OutcomePermanent}}}, history.IDText, calls)
		_, _, text := bed.call("POST", "/bulk", one.body)
		var got itemsAnswer
		err := json.Unmarshal([]byte(text), &got)
		if want := []string{"0 " + a + " good", "1  no", "2 " + b + " no", "3 " + a + " good"}; err != nil ||
			!slices.Equal(got.Items, want) || got.Count != 2 {
			t.Errorf("%s: the answer is %s, %v; want %q", name, text, err, want)
		}
		if starts := bed.sink.of(history.KindAttemptStart); len(starts) != 3 {
			t.Errorf("%s: attempts %+v", name, starts)
		}
	}
}
