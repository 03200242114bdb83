package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// bed is a downstream stub with a client in front of it.
type bed struct {
	*Stub
	t      *testing.T
	ids    *history.IDs
	sink   *events
	client *http.Client
}

func newBed(t *testing.T, p *plan.Plan) *bed {
	t.Helper()
	b := &bed{t: t, ids: history.NewIDs("run"), sink: &events{}, client: &http.Client{Transport: &http.Transport{}}}
	stub, err := NewStub(StubConfig{
		AttemptsConfig: AttemptsConfig{
			Plan: p, IDs: b.ids, Instances: 2, Ops: &atomic.Int64{}, Clock: history.NewClock(), Sink: b.sink,
		},
		Topics: []history.Topic{{Name: "orders"}, {Name: "orders.dlq"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Stub = stub
	t.Cleanup(stub.Close)
	t.Cleanup(b.client.CloseIdleConnections)
	return b
}

// attempt posts the record's value to an instance's address; status 0 means no answer.
func (b *bed) attempt(instance int, record int32) (status int, header http.Header, body string, err error) {
	b.t.Helper()
	return b.post(b.t.Context(), instance, fmt.Sprintf(`{"id":"%s"}`, b.ids.Token(record)))
}

func (b *bed) post(ctx context.Context, instance int, value string) (int, http.Header, string, error) {
	b.t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+b.Addr(instance)+"/v1/attempt",
		strings.NewReader(value))
	if err != nil {
		b.t.Fatal(err)
	}
	request.Header.Set("X-Kafka-Topic", "orders.dlq")
	request.Header.Set("X-Kafka-Partition", "4")
	request.Header.Set("X-Kafka-Offset", "12345678901")
	response, err := b.client.Do(request)
	if err != nil {
		return 0, nil, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(body), nil
}

func (b *bed) statuses(record int32, attempts int) (got []int) {
	b.t.Helper()
	for range attempts {
		status, _, _, _ := b.attempt(0, record)
		got = append(got, status)
	}
	return got
}

// Calls that are no attempts of a known record are counted, where they can't be attempts at records that none can name.
func TestCallsElsewhereAreStrays(t *testing.T) {
	good, garbage := plan.Record{Outcome: history.OutcomeSuccess}, plan.Record{Garbage: true}
	for name, one := range map[string]struct {
		records []plan.Record
		method  string
		path    string
		body    string
		first   string
		unmade  bool
	}{
		"another path":              {[]plan.Record{good}, "POST", "/attempt?a=b", "", "POST /attempt", true},
		"another method":            {[]plan.Record{good}, "PUT", "/v1/attempt", "", "PUT /v1/attempt", true},
		"another body":              {[]plan.Record{good}, "POST", "/v1/attempt", "17", "POST /v1/attempt", true},
		"it is healthy":             {[]plan.Record{good}, "GET", "/healthz", "", "", true},
		"an unreadable body":        {[]plan.Record{good, garbage}, "POST", "/v1/attempt", "17", "", true},
		"nothing else to be called": {[]plan.Record{garbage}, "PUT", "/v1/attempt", "17", "PUT /v1/attempt", false},
	} {
		b := newBed(t, &plan.Plan{Records: one.records})
		b.call(one.method, one.path, one.body)
		count, first := b.Strays()
		if first != one.first || count > 1 || (count > 0) != (one.first != "") {
			t.Errorf("%s: %d strays, the first %q", name, count, first)
		}
		if b.Unmade() != one.unmade {
			t.Errorf("%s: unmade is %v", name, b.Unmade())
		}
		if b.attempt(0, 0); b.Unmade() {
			t.Errorf("%s: unmade after an attempt", name)
		}
	}
}

func TestStubAnswersAsPlanned(t *testing.T) {
	tests := []struct {
		name     string
		planned  plan.Record
		replayed bool
		want     []int
	}{
		{"success", plan.Record{Outcome: history.OutcomeSuccess}, false, []int{200, 200}},
		{"transient", plan.Record{Outcome: history.OutcomeTransient, Failures: 2}, false, []int{503, 503, 200, 200}},
		{"rate-limited", plan.Record{Outcome: history.OutcomeRateLimited, Failures: 1}, false, []int{429, 200}},
		{"permanent", plan.Record{Outcome: history.OutcomePermanent}, false, []int{400, 400}},
		{"logical", plan.Record{Outcome: history.OutcomeLogical}, false, []int{422, 422}},
		{"exhausted", plan.Record{Outcome: history.OutcomeExhausted}, false, []int{503, 503, 503, 503}},
		{"reset", plan.Record{Outcome: history.OutcomeReset, Failures: 2}, false, []int{0, 0, 200}},
		{"exhausted, to be healed, not replayed", plan.Record{Outcome: history.OutcomeExhausted, Healed: true}, false,
			[]int{503}},
		{"exhausted, healed", plan.Record{Outcome: history.OutcomeExhausted, Healed: true}, true, []int{200}},
		{"exhausted, not healed", plan.Record{Outcome: history.OutcomeExhausted}, true, []int{503}},
		{"exhausted, fails again", plan.Record{Outcome: history.OutcomeExhausted, Healed: true, FailsAgain: true}, true,
			[]int{503, 503}},
		{"permanent, healed", plan.Record{Outcome: history.OutcomePermanent, Healed: true}, true, []int{200}},
		{"permanent, fails again", plan.Record{Outcome: history.OutcomePermanent, Healed: true, FailsAgain: true}, true,
			[]int{400}},
	}
	p := &plan.Plan{}
	for _, test := range tests {
		p.Records = append(p.Records, test.planned)
	}
	b := newBed(t, p)
	for i, test := range tests {
		if test.replayed {
			b.SetReplayed(int32(i))
		}
		if got := b.statuses(int32(i), len(test.want)); fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%s: answered %v, want %v", test.name, got, test.want)
		}
	}
}

func TestStubNotesEveryAttempt(t *testing.T) {
	b := newBed(t, &plan.Plan{Records: []plan.Record{{}, {Outcome: history.OutcomeTransient, Failures: 1}}})
	b.SetRun(1, 7)
	for range 2 {
		if _, _, _, err := b.attempt(1, 1); err != nil {
			t.Fatal(err)
		}
	}
	starts, ends := b.sink.of(history.KindAttemptStart), b.sink.of(history.KindAttemptEnd)
	if len(starts) != 2 || len(ends) != 2 {
		t.Fatalf("%d starts and %d ends of 2 attempts", len(starts), len(ends))
	}
	for i, end := range ends {
		start := starts[i]
		for _, event := range []history.Event{start, end} {
			if event.Instance != 1 || event.Run != 7 || event.Record != 1 || event.N != int32(i+1) ||
				event.Topic != 1 || event.Partition != 4 || event.Offset != 12345678901 || event.Op != int64(i+1) {
				t.Errorf("attempt %d is noted as %+v", i+1, event)
			}
		}
		if end.Time < start.Time || start.Outcome != history.OutcomeNone || start.Code != 0 {
			t.Errorf("attempt %d: start %+v, end %+v", i+1, start, end)
		}
	}
	if ends[0].Outcome != history.OutcomeTransient || ends[0].Code != 503 ||
		ends[1].Outcome != history.OutcomeSuccess || ends[1].Code != 200 {
		t.Errorf("the answers are noted as %+v", ends)
	}
	if open := b.InFlight(); open != 0 {
		t.Errorf("%d attempts are being answered", open)
	}
}

// The first process's connection remains attributed to it: a request on it after a restart is not the second's.
func TestStubAttributesAConnectionToTheProcessThatOpenedIt(t *testing.T) {
	b := newBed(t, &plan.Plan{Records: make([]plan.Record, 1)})
	b.SetRun(0, 1)
	b.attempt(0, 0)
	b.SetRun(0, 2)
	b.attempt(0, 0)
	b.client.CloseIdleConnections()
	b.attempt(0, 0)
	var runs []uint16
	for _, event := range b.sink.of(history.KindAttemptEnd) {
		runs = append(runs, event.Run)
	}
	if fmt.Sprint(runs) != "[1 1 2]" {
		t.Fatalf("attempts are attributed to runs %v, want [1 1 2]", runs)
	}
}

func TestStubErrorTextsAreValidJSON(t *testing.T) {
	for kind, check := range map[string]func(string) bool{
		"":          func(s string) bool { return s != "" },
		"plain":     func(s string) bool { return s != "" && len(s) < 100 },
		"non-ascii": func(s string) bool { return strings.Contains(s, "在庫") },
		"long":      func(s string) bool { return len(s) == 4096 },
		"hostile": func(s string) bool {
			return strings.Contains(s, "\r\n") && strings.ContainsAny(s, "\x00") && strings.Contains(s, "<script>")
		},
	} {
		t.Run("kind "+kind, func(t *testing.T) {
			b := newBed(t, &plan.Plan{ErrorText: kind, Records: []plan.Record{
				{Outcome: history.OutcomeExhausted}, {Outcome: history.OutcomeRateLimited, Failures: 1},
				{Outcome: history.OutcomePermanent}, {Outcome: history.OutcomeLogical},
			}})
			for i, class := range []string{"transient", "rate-limited", "permanent", "logical"} {
				_, header, body, err := b.attempt(0, int32(i))
				var answer struct{ Error, Class string }
				if err != nil || json.Unmarshal([]byte(body), &answer) != nil || answer.Class != class || !check(answer.Error) {
					t.Errorf("%s is answered %q, %v", class, body, err)
				}
				if header.Get("Content-Type") != "application/json" {
					t.Errorf("content type %q", header.Get("Content-Type"))
				}
			}
		})
	}
	if _, err := NewStub(StubConfig{AttemptsConfig: AttemptsConfig{Plan: &plan.Plan{ErrorText: "rude"}}}); err == nil ||
		!strings.Contains(err.Error(), `"rude"`) {
		t.Errorf("an unknown kind of error text gives %v", err)
	}
}

// A gateway answers for a service that is unavailable or called too often, and for nothing else.
func TestStubAnswersWithTheGatewaysPage(t *testing.T) {
	b := newBed(t, &plan.Plan{ErrorText: "page", RetryAfter: time.Second, Records: []plan.Record{
		{Outcome: history.OutcomeExhausted}, {Outcome: history.OutcomeRateLimited, Failures: 1},
		{Outcome: history.OutcomePermanent}, {Outcome: history.OutcomeLogical}, {},
	}})
	for i, want := range []struct {
		status     int
		page       bool
		retryAfter string
	}{{503, true, ""}, {429, true, "1"}, {400, false, ""}, {422, false, ""}, {200, false, ""}} {
		status, header, body, err := b.attempt(0, int32(i))
		media, page := header.Get("Content-Type"), strings.HasPrefix(body, "<!DOCTYPE html>")
		if err != nil || status != want.status || header.Get("Retry-After") != want.retryAfter || page != want.page ||
			page != (media == "text/html") || page == json.Valid([]byte(body)) {
			t.Errorf("record %d is answered %d, %v, %q, %v", i, status, header, body, err)
		}
	}
}

func TestStubTellsHowLongToWait(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		time.Second: "1", 1500 * time.Millisecond: "2", 200 * time.Millisecond: "1", 0: "0", 3 * time.Second: "3",
	} {
		b := newBed(t, &plan.Plan{RetryAfter: wait,
			Records: []plan.Record{{Outcome: history.OutcomeRateLimited, Failures: 1}}})
		_, header, _, err := b.attempt(0, 0)
		ends := b.sink.of(history.KindAttemptEnd)
		if err != nil || header.Get("Retry-After") != want || fmt.Sprint(ends[0].Aux/int64(time.Second)) != want {
			t.Errorf("a wait of %v is told as %q and noted as %d ns, want %s s", wait, header.Get("Retry-After"),
				ends[0].Aux, want)
		}
	}
}

func TestStubResetIsATrueReset(t *testing.T) {
	b := newBed(t, &plan.Plan{Records: []plan.Record{{Outcome: history.OutcomeReset, Failures: 1}}})
	conn, err := net.Dial("tcp", b.Addr(0))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/attempt HTTP/1.1\r\nHost: stub\r\nContent-Length: %d\r\n\r\n%s", history.IDLen,
		b.ids.Token(0))
	n, err := conn.Read(make([]byte, 100))
	if n != 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("read %d bytes, %v; want a connection reset", n, err)
	}
	if end := b.sink.of(history.KindAttemptEnd)[0]; end.Outcome != history.OutcomeReset || end.Code != 0 ||
		end.Flags != 0 {
		t.Fatalf("noted as %+v", end)
	}
}

func TestStubHangsUntilTheClientGoes(t *testing.T) {
	b := newBed(t, &plan.Plan{Records: []plan.Record{{Outcome: history.OutcomeTimeout, Failures: 1}}})
	ctx, giveUp := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, _, _, err := b.post(ctx, 0, b.ids.Token(0))
		done <- err
	}()
	wait.Until(t, "the attempt to be open", func() bool { return b.InFlight() == 1 })
	select {
	case err := <-done:
		t.Fatalf("the attempt was answered: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if ends := b.sink.of(history.KindAttemptEnd); len(ends) != 0 {
		t.Fatalf("the attempt has ended while its client waits: %+v", ends)
	}
	giveUp()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	wait.Until(t, "the attempt to end", func() bool { return b.InFlight() == 0 })
	end := b.sink.of(history.KindAttemptEnd)[0]
	if end.Outcome != history.OutcomeTimeout || end.Code != 0 || end.Flags != history.ClientGone {
		t.Fatalf("noted as %+v", end)
	}
	if got := b.statuses(0, 1); got[0] != 200 {
		t.Fatalf("the next attempt is answered %v", got)
	}
}

func TestStubClosesWhileAttemptsHang(t *testing.T) {
	b := newBed(t, &plan.Plan{Records: []plan.Record{{Outcome: history.OutcomeTimeout, Failures: 9}}})
	var waiting sync.WaitGroup
	for range 3 {
		waiting.Go(func() {
			if status, _, _, err := b.attempt(0, 0); err == nil {
				t.Errorf("answered %d", status)
			}
		})
	}
	wait.Until(t, "three open attempts", func() bool { return b.InFlight() == 3 })
	b.Close()
	waiting.Wait()
	ends := b.sink.of(history.KindAttemptEnd)
	if len(ends) != 3 {
		t.Fatalf("%d of 3 attempts have an end", len(ends))
	}
	for _, end := range ends {
		// The harness closed the connection, so nothing is known about the client.
		if end.Flags.Has(history.ClientGone) || end.Outcome != history.OutcomeTimeout {
			t.Errorf("noted as %+v", end)
		}
	}
}

func TestStubRefusesWhatIsNoAttempt(t *testing.T) {
	b := newBed(t, &plan.Plan{Records: make([]plan.Record, 1)})
	get := func(method, path, body string) (int, http.Header) {
		request, _ := http.NewRequestWithContext(t.Context(), method, "http://"+b.Addr(0)+path, strings.NewReader(body))
		response, err := b.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		io.Copy(io.Discard, response.Body)
		return response.StatusCode, response.Header
	}
	if status, _ := get(http.MethodGet, "/healthz", ""); status != 200 {
		t.Errorf("health is answered %d", status)
	}
	if status, header := get(http.MethodGet, "/v1/attempt", ""); status != 405 || header.Get("Allow") != "POST" {
		t.Errorf("GET is answered %d, allow %q", status, header.Get("Allow"))
	}
	if status, _ := get(http.MethodPost, "/v2/attempt", b.ids.Token(0)); status != 404 {
		t.Errorf("another path is answered %d", status)
	}
	if got := len(b.sink.of(history.KindAttemptStart)); got != 0 {
		t.Errorf("%d attempts were noted", got)
	}
	for what, body := range map[string]string{
		"no id": "{}", "empty": "", "another run's id": history.NewIDs("other").Token(0),
		"an id beyond the plan": b.ids.Token(1),
	} {
		if status, _ := get(http.MethodPost, "/v1/attempt", body); status != 404 {
			t.Errorf("%s is answered %d, want 404", what, status)
		}
	}
	for _, end := range b.sink.of(history.KindAttemptEnd) {
		if end.Outcome != history.OutcomeUnknownID || end.Record != history.None || end.N != history.None || end.Code != 404 {
			t.Errorf("noted as %+v", end)
		}
	}
}

// An id is found in any form that consumers give to a value. This test covers chunked and large bodies; base64 is a
// matter of history.IDs.
func TestStubReadsWholeBodies(t *testing.T) {
	b := newBed(t, &plan.Plan{Records: make([]plan.Record, 3)})
	large := strings.Repeat("x", 1<<20) + b.ids.Token(1)
	if status, _, _, err := b.post(t.Context(), 0, large); err != nil || status != 200 {
		t.Errorf("a body of 1 MiB is answered %d, %v", status, err)
	}
	chunked, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+b.Addr(0)+"/v1/attempt",
		io.MultiReader(strings.NewReader("first "), bytes.NewReader([]byte(b.ids.Token(2)))))
	response, err := b.client.Do(chunked)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("a chunked body is answered %d", response.StatusCode)
	}
}

func TestStubNumbersConcurrentAttemptsOnce(t *testing.T) {
	b := newBed(t, &plan.Plan{Records: []plan.Record{{Outcome: history.OutcomeTransient, Failures: 20}}})
	var statuses [2]atomic.Int64
	var posting sync.WaitGroup
	for range 8 {
		posting.Go(func() {
			for range 5 {
				if status, _, _, _ := b.attempt(0, 0); status == 200 {
					statuses[0].Add(1)
				} else if status == 503 {
					statuses[1].Add(1)
				}
			}
		})
	}
	posting.Wait()
	if statuses[0].Load() != 20 || statuses[1].Load() != 20 {
		t.Fatalf("%d successes and %d failures, want 20 of each", statuses[0].Load(), statuses[1].Load())
	}
	seen, ops := map[int32]bool{}, map[int64]bool{}
	for _, event := range b.sink.of(history.KindAttemptEnd) {
		seen[event.N], ops[event.Op] = true, true
	}
	if len(seen) != 40 || !seen[1] || !seen[40] || len(ops) != 40 {
		t.Fatalf("40 attempts have %d numbers and %d operations", len(seen), len(ops))
	}
}
