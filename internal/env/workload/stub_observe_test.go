package workload

import (
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
)

// toldCalls is what a stub tells of calls.
type toldCalls struct {
	mu  sync.Mutex
	all []Called
	// untimed: a call was told without its time.
	untimed bool
}

func (o *toldCalls) see(call Called) (string, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.untimed = o.untimed || call.At <= 0
	call.At = 0
	o.all = append(o.all, call)
	return `{"token": "t"}`, true
}

// A call is told with every place of the record's id; one without an id gets the answer of who observes, except on
// routes, and for health.
func TestCallsAreObserved(t *testing.T) {
	b := newCalls(t, &plan.Plan{Records: make([]plan.Record, 10)}, history.IDUUID, Calls{Routes: []Route{
		{Method: http.MethodGet, Path: "/rates", Response: Response{Status: http.StatusAccepted}}}})
	seen := &toldCalls{}
	b.cfg.Observe = seen.see
	id := b.ids.Token(3)
	for _, one := range []struct {
		name, method, target, body string
		headers                    []string
		status                     int
		want                       Called
	}{
		{"a path and a header", http.MethodPut, "/payments/" + id, `{"amount": 3}`,
			[]string{"Idempotency-Key", id, "Content-Type", "application/json; charset=utf-8"}, http.StatusOK,
			Called{Method: http.MethodPut, Path: "/payments/{id}", Media: "application/json", Record: 3,
				Where: []CallPlace{{In: InPath}, {In: InHeader, Name: "Idempotency-Key"}}}},
		{"a query", http.MethodGet, "/find?order=" + id, "", nil, http.StatusOK,
			Called{Method: http.MethodGet, Path: "/find", Record: 3, Where: []CallPlace{{In: InQuery, Name: "order"}}}},
		{"two places in a body", http.MethodPost, "/v2/charges",
			`{"order": {"id": "` + id + `"}, "refs": ["x", "` + id + `"]}`,
			nil, http.StatusOK, Called{Method: http.MethodPost, Path: "/v2/charges", Record: 3,
				Where: []CallPlace{{In: InBody, At: "$.order.id"}, {In: InBody, At: "$.refs[1]"}}}},
		{"a form", http.MethodPost, "/form", "order_id=" + id + "&n=1",
			[]string{"Content-Type", "application/x-www-form-urlencoded"}, http.StatusOK,
			Called{Method: http.MethodPost, Path: "/form", Media: "application/x-www-form-urlencoded", Record: 3,
				Where: []CallPlace{{In: InBody, At: "$.order_id"}}}},
		{"a body that is not JSON", http.MethodPost, "/text", "order " + id, nil, http.StatusOK,
			Called{Method: http.MethodPost, Path: "/text", Record: 3, Where: []CallPlace{{In: InBody}}}},
		{"no id", http.MethodPost, "/oauth/token?x=1", "grant_type=client_credentials", nil, http.StatusOK,
			Called{Method: http.MethodPost, Path: "/oauth/token", Record: history.None,
				Text: "/oauth/token?x=1 grant_type=client_credentials"}},
		{"a route", http.MethodGet, "/rates", "", nil, http.StatusAccepted,
			Called{Method: http.MethodGet, Path: "/rates", Record: history.None, Text: "/rates "}},
	} {
		status, _, body := b.call(one.method, one.target, one.body, one.headers...)
		if status != one.status || (one.name == "no id") != (body == `{"token": "t"}`) {
			t.Errorf("%s: answered %d %q", one.name, status, body)
		}
		if last := seen.all[len(seen.all)-1]; !reflect.DeepEqual(last, one.want) {
			t.Errorf("%s: told %+v, want %+v", one.name, last, one.want)
		}
	}
	if seen.untimed {
		t.Error("a call is told without its time")
	}
	before := len(seen.all)
	if b.call(http.MethodGet, healthPath, ""); len(seen.all) != before {
		t.Error("a check of the stub's health is told")
	}
}

// So is a call over gRPC: by its method, with the places in the request's JSON form.
func TestCallsOverGRPCAreObserved(t *testing.T) {
	ids := history.NewIDs("run")
	s := newService(t, ids, ServiceConfig{}, plan.Record{Outcome: history.OutcomeSuccess})
	seen := &toldCalls{}
	s.Stub.cfg.Observe = seen.see
	request := func(id string) string { return `{"order": "` + id + `"}` }
	for _, one := range []struct {
		id   string
		want Called
	}{
		{ids.Token(0), Called{Path: charge, Media: MediaGRPC, Where: []CallPlace{{In: InBody, At: "$.order"}}}},
		{"x", Called{Path: charge, Media: MediaGRPC, Record: history.None, Text: `{"order":"x"}`}},
	} {
		if _, err := s.call(t.Context(), charge, request(one.id)); err != nil {
			t.Errorf("%q: %v", one.id, err)
		}
		last := seen.all[len(seen.all)-1]
		last.Text = strings.ReplaceAll(last.Text, " ", "") // protojson adds spaces at random
		if !reflect.DeepEqual(last, one.want) {
			t.Errorf("told %+v, want %+v", last, one.want)
		}
	}
}
