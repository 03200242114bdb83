package workload

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
)

// spanned is a downstream whose attempts have several calls. A look-up begins them, an entry in an audit ends them, and
// each has an answer of its own, as has a reservation.
type spanned interface {
	// makes makes calls for record 0 and returns the statuses of their answers, as of HTTP. A call is a word: look,
	// reserve, pay, enter, undo or token.
	makes(calls string) (statuses []int)
	attempts() string
	InFlight() int64
}

// overHTTP is spanned over HTTP, at records with these plans.
func overHTTP(t *testing.T, records ...plan.Record) *bed {
	t.Helper()
	look, entry := `{"tier":"gold"}`, ""
	return newCalls(t, &plan.Plan{Records: records}, history.IDText, Calls{
		First: &Route{Method: "GET", Path: "/customers/*"}, Last: &Route{Path: "/audit"},
		Routes: []Route{{Path: "/customers/*", Response: Response{Status: 203, Body: &look}},
			{Path: "/audit", Response: Response{Status: 204, Body: &entry}},
			{Path: "/stock/*", Response: Response{Status: 202}, Attempt: true},
			{Path: "/tokens/*", Response: Response{Status: 201}}},
	})
}

func (b *bed) makes(calls string) (statuses []int) {
	id := b.ids.Token(0)
	for word := range strings.FieldsSeq(calls) {
		method, path, body := "PUT", "/payments/"+id, ""
		switch word {
		case "look":
			method, path = "GET", "/customers/"+id
		case "reserve":
			method, path = "POST", "/stock/"+id
		case "enter":
			method, path, body = "POST", "/audit", id
		case "undo":
			method = "DELETE"
		case "token":
			path = "/tokens/" + id
		}
		status, _, _ := b.call(method, path, body)
		statuses = append(statuses, status)
	}
	return statuses
}

// overGRPC is spanned over gRPC.
func overGRPC(t *testing.T, records ...plan.Record) *service {
	t.Helper()
	answer := func(body string) Reply { return Reply{Body: body} }
	return newService(t, history.NewIDs("run"), ServiceConfig{
		First: "/acme.v1.Shop/Look", Last: "/acme.v1.Shop/Enter",
		Answers: map[history.Outcome]Reply{history.OutcomeSuccess: answer(`{"payment": "200"}`)},
		Routes: map[string]ServiceRoute{
			"/acme.v1.Shop/Look": {Reply: answer(`{"token": "203"}`)}, "/acme.v1.Shop/Enter": {},
			"/acme.v1.Shop/Reserve":   {Reply: answer(`{"token": "202"}`), Attempt: true},
			"/acme.v1.Payments/Login": {Reply: answer(`{"token": "201"}`)},
		},
	}, records...)
}

func (s *service) makes(calls string) (statuses []int) {
	id := s.ids.Token(0)
	methods := map[string]string{"look": "Shop/Look", "reserve": "Shop/Reserve", "pay": "Payments/Charge",
		"enter": "Shop/Enter", "undo": "Payments/Refund", "token": "Payments/Login"}
	refusals := map[codes.Code]int{codes.Unavailable: 503, codes.ResourceExhausted: 429}
	for word := range strings.FieldsSeq(calls) {
		request, ctx := `{"order": "`+id+`"}`, s.t.Context()
		if word == "token" {
			request, ctx = "{}", metadata.AppendToOutgoingContext(ctx, "order", id)
		}
		response, err := s.call(ctx, "/acme.v1."+methods[word], request)
		code := refusals[status.Code(err)]
		switch _, told, says := strings.Cut(response, `:"`); {
		case says:
			code, err = strconv.Atoi(strings.TrimSuffix(told, `"}`))
		case response == "{}":
			code = 204
		}
		if code == 0 {
			s.t.Errorf("%s: answered %q, %v", word, response, err)
		}
		statuses = append(statuses, code)
	}
	return statuses
}

func (b *bed) attempts() string { return b.sink.attempts() }

func (s *service) attempts() string { return s.sink.attempts() }

// attempts describes the attempts that were recorded: the outcomes, with ? for one that was given up and … for one that
// has not ended.
func (e *events) attempts() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	ended := map[int64]string{}
	for _, one := range e.all {
		if one.Kind == history.KindAttemptEnd {
			ended[one.Op] = one.Outcome.String()
			if one.Flags.Has(history.ClientGone) {
				ended[one.Op] = "?"
			}
		}
	}
	var all []string
	for _, one := range e.all {
		if one.Kind != history.KindAttemptStart {
			continue
		}
		outcome, over := ended[one.Op]
		if !over {
			outcome = "…"
		}
		all = append(all, fmt.Sprintf("%d %s", one.N, outcome))
	}
	return strings.Join(all, ", ")
}

func TestAttemptsOfSeveralCalls(t *testing.T) {
	transient := func(failures uint8) plan.Record {
		return plan.Record{Outcome: history.OutcomeTransient, Failures: failures}
	}
	success := plan.Record{Outcome: history.OutcomeSuccess}
	for name, one := range map[string]struct {
		record plan.Record
		calls  string
		want   []int
		as     string
	}{
		"all succeed":               {success, "look pay enter", []int{203, 200, 204}, "1 success"},
		"a fixed answer is no call": {success, "token look token pay enter", []int{201, 203, 201, 200, 204}, "1 success"},
		"the last is not made":      {success, "look pay", []int{203, 200}, "1 …"},
		"the first is made again":   {success, "look pay look pay enter", []int{203, 200, 203, 200, 204}, "1 ?, 2 success"},
		"nothing follows the last":  {success, "look pay enter undo", []int{203, 200, 204, 200}, "1 success"},
		"only the last is made":     {success, "enter", []int{204}, "1 success"},
		"the last is made again":    {success, "look pay enter enter", []int{203, 200, 204, 204}, "1 success, 2 success"},
		"a middle one begins none":  {success, "pay pay look pay enter", []int{200, 200, 203, 200, 204}, "1 success"},
		"each can be the one to fail": {transient(3), "look look pay look pay enter look pay enter",
			[]int{503, 203, 503, 203, 200, 503, 203, 200, 204}, "1 transient, 2 transient, 3 transient, 4 success"},
		"the refused one goes on": {transient(3), "look look pay pay enter enter",
			[]int{503, 203, 503, 200, 503, 204}, "1 transient, 2 transient, 3 transient, 4 success"},
		"a fixed answer may be one to attempts": {transient(2), "look look reserve reserve pay enter",
			[]int{503, 203, 503, 202, 200, 204}, "1 transient, 2 transient, 3 success"},
		"what is undone is no attempt": {transient(2), "look look pay undo look pay enter",
			[]int{503, 203, 503, 200, 203, 200, 204}, "1 transient, 2 transient, 3 success"},
		"one that is given up uses up no failure": {transient(2), "look look look pay look pay enter",
			[]int{503, 203, 203, 503, 203, 200, 204}, "1 transient, 2 ?, 3 transient, 4 success"},
	} {
		for over, b := range map[string]spanned{"HTTP": overHTTP(t, one.record), "gRPC": overGRPC(t, one.record)} {
			if got := b.makes(one.calls); !slices.Equal(got, one.want) {
				t.Errorf("%s over %s: answered %v, want %v", name, over, got, one.want)
			}
			if got := b.attempts(); got != one.as {
				t.Errorf("%s over %s: recorded %q, want %q", name, over, got, one.as)
			}
			if open := b.InFlight(); open != 0 {
				t.Errorf("%s over %s: %d calls are being answered", name, over, open)
			}
		}
	}
}

// A client that repeats failed calls by itself, up to three times, meets one planned failure with all of them: here in
// the first call of the first attempt, and in the second one of the second.
func TestPlannedFailuresOfSeveralCallsAreThoseOfAttempts(t *testing.T) {
	for name, test := range map[string]struct {
		calls string // each F, A or L by its role, after 10 ms, or after 100 ms where a space is before it
		fail  string // whether it fails
	}{
		"repeats all":  {"FFF FAAA FAL", "xxx-xxx---"},
		"repeats some": {"FF FAA FAL", "xx-xx---"},
		"repeats none": {"F FA FAL", "x-x---"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := NewAttempts(AttemptsConfig{Calls: 3, Wait: 100 * time.Millisecond, Clock: history.NewClock(),
					Sink: discard{}, Instances: 1, Ops: new(atomic.Int64), Spans: true,
					Plan: &plan.Plan{Records: []plan.Record{{Outcome: history.OutcomeTransient, Failures: 2}}}})
				failed := ""
				for _, role := range test.calls {
					if time.Sleep(10 * time.Millisecond); role == ' ' {
						time.Sleep(80 * time.Millisecond)
						continue
					}
					event := history.New(history.KindAttemptStart, 0)
					event.Instance, event.Text = 0, string(role)
					a.BeginCall(&event, 0, true, map[rune]CallRole{'F': CallFirst, 'A': CallAmong, 'L': CallLast}[role])
					event.Outcome = a.ruleCall(&event).Outcome
					failed += map[bool]string{false: "-", true: "x"}[event.Outcome == history.OutcomeTransient]
					a.End(&event, false)
				}
				if failed != test.fail {
					t.Errorf("%s fail: %s, want %s", test.calls, failed, test.fail)
				}
			})
		})
	}
}

// Each call is recorded with its number in the attempt, and an attempt lies around its calls.
func TestCallsOfAnAttemptAreRecorded(t *testing.T) {
	b := overHTTP(t, plan.Record{Outcome: history.OutcomeSuccess})
	b.makes("look pay enter undo")
	var got []string
	for _, e := range b.sink.all {
		got = append(got, fmt.Sprintf("%s %d %d %d %s", e.Kind, e.N, e.Sequence, max(e.Aux, 0), e.Text))
	}
	want := []string{
		"attempt-start 1 -1 0 GET /customers/{id}", "call-start 0 1 1 GET /customers/{id}", "call-end 0 1 1 ",
		"call-start 0 2 1 PUT /payments/{id}", "call-end 0 2 1 ", "call-start 0 3 1 POST /audit", "call-end 0 3 1 ",
		"attempt-end 1 -1 0 ", "call-start 0 0 0 DELETE /payments/{id}", "call-end 0 0 0 ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("recorded\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	starts, ends := b.sink.of(history.KindCallStart), b.sink.of(history.KindCallEnd)
	start, end := b.sink.of(history.KindAttemptStart)[0], b.sink.of(history.KindAttemptEnd)[0]
	if start.Time != starts[0].Time || end.Time != ends[2].Time || end.Code != 204 || end.Op != start.Op {
		t.Errorf("the attempt is %+v to %+v", start, end)
	}
}

// Over gRPC, calls are told by their methods, and a call without a record's id has the fixed answer of its method.
func TestCallsOfAnAttemptOverGRPC(t *testing.T) {
	s := overGRPC(t, plan.Record{Outcome: history.OutcomeSuccess})
	if text, err := s.call(t.Context(), "/acme.v1.Shop/Look", `{"order": "7"}`); text != `{"token":"203"}` {
		t.Errorf("without an id: answered %q, %v", text, err)
	}
	s.makes("look pay")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	end := s.Answer(func(int32, int32) (history.Outcome, time.Duration) { return history.OutcomeTimeout, 0 })
	_, err := s.call(ctx, "/acme.v1.Shop/Enter", `{"order": "`+s.ids.Token(0)+`"}`)
	end()
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a call that is not answered ends with %v", err)
	}
	s.Close() // whichever ends the attempt: that its deadline is noticed here, too, or this
	var got []string
	for _, e := range s.sink.of(history.KindCallStart) {
		got = append(got, fmt.Sprintf("%d %s", e.Sequence, e.Text))
	}
	want := []string{"1 /acme.v1.Shop/Look", "2 /acme.v1.Payments/Charge", "3 /acme.v1.Shop/Enter"}
	if !slices.Equal(got, want) || s.attempts() != "1 ?" && s.attempts() != "1 timeout" {
		t.Errorf("recorded %q and %s, want %q", got, s.attempts(), want)
	}
	if count, first := s.Strays(); count != 0 {
		t.Errorf("%d strays, the first %q", count, first)
	}
}

// The attempts of a process end with it, and its successor goes on with none of them.
func TestAttemptsOfSeveralCallsEndWithTheProcess(t *testing.T) {
	b := overHTTP(t, plan.Record{Outcome: history.OutcomeSuccess})
	b.makes("look pay")
	b.SetRun(0, 1)
	b.client.CloseIdleConnections()
	if got := b.attempts(); got != "1 ?" {
		t.Errorf("after the process: %s", got)
	}
	b.makes("pay enter")
	if got := b.attempts(); got != "1 ?, 2 success" {
		t.Errorf("after its successor: %s", got)
	}
	if first, last := b.Missing(); first || last {
		t.Errorf("missing: %v, %v", first, last)
	}
}

// A fault answers the calls of attempts alone, and an answer of a fault ends the attempt.
func TestFaultsStrikeTheCallsOfAttempts(t *testing.T) {
	b := overHTTP(t, plan.Record{Outcome: history.OutcomeSuccess})
	b.makes("look")
	end := b.Answer(func(int32, int32) (history.Outcome, time.Duration) { return history.OutcomeRateLimited, 0 })
	if got, want := b.makes("pay undo token enter"), []int{429, 200, 201, 429}; !slices.Equal(got, want) {
		t.Errorf("answered %v, want %v", got, want)
	}
	end()
	if got := b.attempts(); got != "1 rate-limited, 2 rate-limited" {
		t.Errorf("recorded %s", got)
	}
}

func TestMissingCallsOfAttempts(t *testing.T) {
	b := overHTTP(t, plan.Record{Outcome: history.OutcomeSuccess})
	b.makes("token")
	if first, last := b.Missing(); first || last {
		t.Errorf("without a call, missing: %v, %v", first, last)
	}
	b.makes("pay")
	if first, last := b.Missing(); !first || !last {
		t.Errorf("with a middle call, missing: %v, %v", first, last)
	}
}
