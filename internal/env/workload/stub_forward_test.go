package workload

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/internal/samples"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// forwardTo makes a bed whose calls go on to a handler.
func forwardTo(t *testing.T, b *bed, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	to, err := url.Parse(server.URL + "/mocks")
	if err != nil {
		t.Fatal(err)
	}
	b.ForwardTo(to)
	return server
}

// What is planned to fail fails here. Everything else is the other stub's to answer, and its status is the outcome.
func TestCallsGoOnToAnotherStub(t *testing.T) {
	records := []plan.Record{
		{Outcome: history.OutcomeSuccess}, {Outcome: history.OutcomeTransient, Failures: 1},
		{Outcome: history.OutcomePermanent},
	}
	fixed := "fixed"
	b := newCalls(t, &plan.Plan{Records: records}, history.IDText, Calls{
		Answers: map[history.Outcome]Response{history.OutcomeLogical: {Status: 418}},
		Routes: []Route{{Path: "/fixed", Response: Response{Status: 200, Body: &fixed}},
			{Path: "/customers/*", Response: Response{Status: 200}, Forward: true}},
	})
	answer := 201
	var seen []string
	forwardTo(t, b, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = append(seen, r.Method+" "+r.URL.String()+" "+string(body)+r.Header.Get("X-Own")+r.Header.Get("Keep-Alive"))
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Add("Set-Cookie", "b=2")
		w.WriteHeader(answer)
		_, _ = io.WriteString(w, "theirs")
	})
	id := b.ids.Token
	status, header, body := b.call("PUT", "/orders/"+id(0)+"?x=%2F", "paid", "X-Own", "!", "Keep-Alive", "5")
	if status != 201 || body != "theirs" || len(header["Set-Cookie"]) != 2 {
		t.Errorf("a success is answered %d, %q, %v", status, body, header)
	}
	for _, one := range []struct {
		target       string
		theirs, want int
		body         string
	}{
		{"/orders/" + id(1), 200, 503, ""}, {"/orders/" + id(1), 200, 200, "theirs"}, {"/orders/" + id(2), 200, 400, ""},
		{"/token", 403, 403, "theirs"}, {"/fixed", 403, 200, "fixed"}, {"/customers/" + id(0), 404, 404, "theirs"},
		{"/orders/" + id(0), 302, 302, "theirs"}, {"/orders/" + id(0), 418, 418, "theirs"},
		{"/orders/" + id(0), 429, 429, "theirs"}, {"/orders/" + id(0), 500, 500, "theirs"},
		{"/orders/" + id(0), 409, 409, "theirs"},
	} {
		answer = one.theirs
		if status, _, body := b.call("GET", one.target, ""); status != one.want || one.body != "" && body != one.body {
			t.Errorf("GET %s, there %d: answered %d, %q", one.target, one.theirs, status, body)
		}
	}
	if first := "PUT /mocks/orders/" + id(0) + "?x=%2F paid!"; seen[0] != first {
		t.Errorf("the other stub got %q, want %q", seen[0], first)
	}
	var outcomes []history.Outcome
	for _, end := range b.sink.of(history.KindAttemptEnd) {
		outcomes = append(outcomes, end.Outcome)
	}
	if want := []history.Outcome{
		history.OutcomeSuccess, history.OutcomeTransient, history.OutcomeSuccess, history.OutcomePermanent,
		history.OutcomeSuccess, history.OutcomeLogical, history.OutcomeRateLimited, history.OutcomeTransient,
		history.OutcomePermanent,
	}; !reflect.DeepEqual(outcomes, want) {
		t.Errorf("the outcomes are %v, want %v", outcomes, want)
	}
	if count, first := b.Strays(); count != 0 {
		t.Errorf("%d strays: %s", count, first)
	}
}

// A call without an id may be an attempt at a record that no call can name, where the plan has such records.
func TestForwardedCallsWithoutAnIDMayBeAttempts(t *testing.T) {
	for _, c := range []struct {
		record plan.Record
		want   []string
	}{
		{plan.Record{Garbage: true}, []string{"unknown-id 202"}}, {plan.Record{Tombstone: true}, []string{"unknown-id 202"}},
		{plan.Record{Malformed: samples.Truncated}, []string{"unknown-id 202"}},
		{plan.Record{Outcome: history.OutcomeSuccess}, nil},
	} {
		b := newCalls(t, &plan.Plan{Records: []plan.Record{c.record}}, history.IDText,
			Calls{Routes: []Route{{Path: "/token", Forward: true}}})
		forwardTo(t, b, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
		for _, path := range []string{"/orders", "/token"} {
			if status, _, _ := b.call("POST", path, "\x00"); status != http.StatusAccepted {
				t.Errorf("POST %s is answered %d", path, status)
			}
		}
		var ends []string
		for _, end := range b.sink.of(history.KindAttemptEnd) {
			ends = append(ends, fmt.Sprintf("%s %d", end.Outcome, end.Code))
		}
		if !reflect.DeepEqual(ends, c.want) || b.InFlight() != 0 {
			t.Errorf("%+v: attempts ended with %q, want %q", c.record, ends, c.want)
		}
	}
}

// A stub that is gone is told, and the call fails as one that may succeed later.
func TestAnotherStubThatIsGone(t *testing.T) {
	b := newCalls(t, &plan.Plan{Records: []plan.Record{{Outcome: history.OutcomeSuccess}}}, history.IDText, Calls{})
	forwardTo(t, b, func(http.ResponseWriter, *http.Request) {}).Close()
	if status, _, _ := b.call("GET", "/"+b.ids.Token(0), ""); status != http.StatusBadGateway {
		t.Errorf("answered %d", status)
	}
	ends := b.sink.of(history.KindAttemptEnd)
	if count, first := b.Unforwarded(); count != 1 || !strings.Contains(first, "refused") ||
		ends[0].Outcome != history.OutcomeTransient {
		t.Errorf("%d calls were not forwarded, %q, and the outcome is %s", count, first, ends[0].Outcome)
	}
}

// A client that does not wait for the other stub has timed out, whatever that would have answered.
func TestAnotherStubThatIsSlow(t *testing.T) {
	b := newCalls(t, &plan.Plan{Records: []plan.Record{{Outcome: history.OutcomeSuccess}}}, history.IDText, Calls{})
	leave, left := context.WithCancel(t.Context())
	forwardTo(t, b, func(_ http.ResponseWriter, r *http.Request) {
		left()
		<-r.Context().Done()
	})
	request, err := http.NewRequestWithContext(leave, http.MethodGet, "http://"+b.Addr(0)+"/"+b.ids.Token(0), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.client.Do(request); err == nil { //nolint:bodyclose // there is no response
		t.Error("the call was answered")
	}
	wait.Until(t, "the attempt to end", func() bool { return b.InFlight() == 0 })
	ends := b.sink.of(history.KindAttemptEnd)
	if count, first := b.Unforwarded(); count != 0 || len(ends) != 1 || ends[0].Outcome != history.OutcomeTimeout ||
		!ends[0].Flags.Has(history.ClientGone) {
		t.Errorf("the attempt ended with %+v; %d calls were not forwarded: %s", ends, count, first)
	}
}
