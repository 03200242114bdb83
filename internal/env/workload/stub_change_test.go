package workload

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// always is a rule that gives every attempt the same outcome.
func always(outcome history.Outcome) func(int32, int32) (history.Outcome, time.Duration) {
	return func(int32, int32) (history.Outcome, time.Duration) { return outcome, 0 }
}

// never is longer than any test may take: a test that waits this long waits for another event.
const never = time.Hour

func (b *bed) lastEnd() history.Event {
	b.t.Helper()
	ends := b.sink.of(history.KindAttemptEnd)
	if len(ends) == 0 {
		b.t.Fatal("no attempt has ended")
	}
	return ends[len(ends)-1]
}

// inBackground makes an attempt whose status (0 for none) arrives on the channel, and waits until the stub has
// received it.
func (b *bed) inBackground(ctx context.Context, record int32) <-chan int {
	b.t.Helper()
	before := len(b.sink.of(history.KindAttemptStart))
	status := make(chan int, 1)
	go func() {
		got, _, _, _ := b.post(ctx, 0, b.ids.Token(record))
		status <- got
	}()
	wait.Until(b.t, "the attempt to start", func() bool { return len(b.sink.of(history.KindAttemptStart)) > before })
	return status
}

func TestStubAnswersAsRulesSay(t *testing.T) {
	for outcome, want := range map[history.Outcome]int{
		history.OutcomeTransient: 503, history.OutcomePermanent: 400, history.OutcomeLogical: 422, history.OutcomeReset: 0,
		history.OutcomeSuccess: 200,
	} {
		t.Run(outcome.String(), func(t *testing.T) {
			b := newBed(t, &plan.Plan{Records: []plan.Record{{}, {Outcome: history.OutcomeExhausted}}})
			end := b.Answer(always(outcome))
			got := append(b.statuses(0, 1), b.statuses(1, 1)...)
			for _, event := range b.sink.of(history.KindAttemptEnd) {
				if event.Outcome != outcome || int(event.Code) != want || event.Flags != 0 {
					t.Errorf("answered %d and noted as %+v", want, event)
				}
			}
			end()
			got = append(append(got, b.statuses(0, 1)...), b.statuses(1, 1)...)
			if fmt.Sprint(got) != fmt.Sprint([]int{want, want, 200, 503}) {
				t.Errorf("answered %v, want two times %d and then as planned", got, want)
			}
		})
	}
}

func TestStubRulesUseUpNoPlannedFailure(t *testing.T) {
	b := newBed(t, &plan.Plan{Records: []plan.Record{{Outcome: history.OutcomeTransient, Failures: 1},
		{Outcome: history.OutcomeReset, Failures: 1}}})
	end := b.Answer(always(history.OutcomeTransient))
	during := append(b.statuses(0, 3), b.statuses(1, 1)...)
	end()
	after := append(b.statuses(0, 2), b.statuses(1, 2)...)
	if fmt.Sprint(during) != "[503 503 503 503]" || fmt.Sprint(after) != "[503 200 0 200]" {
		t.Fatalf("answered %v in the outage and %v after it", during, after)
	}
	ends := b.sink.of(history.KindAttemptEnd)
	if last := ends[4]; last.N != 4 || last.Record != 0 {
		t.Errorf("the fourth attempt of the record is noted as %+v", last)
	}
}

func TestStubFirstRuleThatWantsToAnswers(t *testing.T) {
	b := newBed(t, &plan.Plan{Records: make([]plan.Record, 2)})
	var asked []string
	endFirst := b.Answer(func(record, attempt int32) (history.Outcome, time.Duration) {
		asked = append(asked, fmt.Sprintf("%d/%d", record, attempt))
		if record == 1 {
			return history.OutcomePermanent, 0
		}
		return history.OutcomeNone, 0
	})
	endSecond := b.Answer(always(history.OutcomeTransient))
	got := append(b.statuses(0, 2), b.statuses(1, 1)...)
	if fmt.Sprint(got) != "[503 503 400]" || fmt.Sprint(asked) != "[0/1 0/2 1/1]" {
		t.Errorf("answered %v, the first rule was asked about %v", got, asked)
	}
	endFirst()
	if got := b.statuses(1, 1); got[0] != 503 {
		t.Errorf("after the first rule ended: %v", got)
	}
	endSecond()
	if got := b.statuses(1, 1); got[0] != 200 || len(b.inForce()) > 0 {
		t.Errorf("after both ended: %v, changes %v", got, b.inForce())
	}
}

func TestStubRateLimitTellsTheFaultsWait(t *testing.T) {
	b := newBed(t, &plan.Plan{RetryAfter: 7 * time.Second,
		Records: []plan.Record{{Outcome: history.OutcomeRateLimited, Failures: 1}}})
	end := b.Answer(func(int32, int32) (history.Outcome, time.Duration) {
		return history.OutcomeRateLimited, 1500 * time.Millisecond
	})
	for _, want := range []string{"2", "7"} {
		status, header, _, err := b.attempt(0, 0)
		noted := b.lastEnd()
		if err != nil || status != 429 || header.Get("Retry-After") != want ||
			fmt.Sprint(noted.Aux/int64(time.Second)) != want || noted.Code != 429 {
			t.Errorf("answered %d with %q, %v, noted %d ns; want %s s", status, header.Get("Retry-After"), err, noted.Aux, want)
		}
		end()
		end = func() {}
	}
}

func TestStubSlowAnswersAsPlannedAfterAllWaits(t *testing.T) {
	b := newBed(t, &plan.Plan{Records: []plan.Record{{Outcome: history.OutcomeTransient, Failures: 1}}})
	var seen atomic.Int32
	for range 2 {
		defer b.Slow(15*time.Millisecond, func() { seen.Add(1) })()
	}
	for _, want := range []int{503, 200} {
		if got := b.statuses(0, 1); got[0] != want {
			t.Errorf("answered %v, want %d", got, want)
		}
		starts := b.sink.of(history.KindAttemptStart)
		if took := b.lastEnd().Time - starts[len(starts)-1].Time; took < 30*time.Millisecond {
			t.Errorf("the end is noted %v after the start, two waits of 15 ms must lie between", took)
		}
	}
	if seen.Load() != 4 {
		t.Errorf("%d waits were seen, want 4", seen.Load())
	}
}

// An outage that begins or ends while an attempt waits is judged by the time of the answer.
func TestStubSlowDecidesAfterTheWait(t *testing.T) {
	b := newBed(t, &plan.Plan{Records: make([]plan.Record, 1)})
	endSlow := b.Slow(never, func() {})
	status := b.inBackground(t.Context(), 0)
	endOutage := b.Answer(always(history.OutcomeTransient))
	endSlow()
	if got := <-status; got != 503 {
		t.Errorf("answered %d", got)
	}
	endOutage()
}

func TestStubSlowLetsGoWhenItEnds(t *testing.T) {
	b := newBed(t, &plan.Plan{Records: make([]plan.Record, 1)})
	end := b.Slow(never, func() {})
	status := b.inBackground(t.Context(), 0)
	end()
	if got := <-status; got != 200 || b.lastEnd().Flags != 0 {
		t.Errorf("answered %d and noted as %+v", got, b.lastEnd())
	}
	// The same connection remains usable: the wait left no deadline behind.
	if got := b.statuses(0, 3); fmt.Sprint(got) != "[200 200 200]" {
		t.Errorf("then answered %v", got)
	}
}

func TestStubNotesThatTheClientWentWhileItWaited(t *testing.T) {
	tests := map[string]func(*Stub) func(){
		"slow": func(o *Stub) func() { return o.Slow(never, func() {}) },
		"hang": func(o *Stub) func() { return o.Answer(always(history.OutcomeTimeout)) },
		"both": func(o *Stub) func() {
			endSlow, endHang := o.Slow(time.Millisecond, func() {}), o.Answer(always(history.OutcomeTimeout))
			return func() { endSlow(); endHang() }
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, &plan.Plan{Records: []plan.Record{{Outcome: history.OutcomeTransient, Failures: 1}}})
			end := change(b.Stub)
			defer end()
			ctx, giveUp := context.WithCancel(t.Context())
			status := b.inBackground(ctx, 0)
			giveUp()
			<-status
			wait.Until(t, "the attempt to end", func() bool { return b.InFlight() == 0 })
			if noted := b.lastEnd(); noted.Outcome != history.OutcomeTimeout || noted.Code != 0 ||
				noted.Flags != history.ClientGone {
				t.Errorf("noted as %+v", noted)
			}
			end()
			if got := b.statuses(0, 2); fmt.Sprint(got) != "[503 200]" {
				t.Errorf("an attempt that got no answer used up a planned failure: then answered %v", got)
			}
		})
	}
}

func TestStubHangLetsGoWithoutAnAnswerWhenItEnds(t *testing.T) {
	b := newBed(t, &plan.Plan{Records: make([]plan.Record, 1)})
	end := b.Answer(always(history.OutcomeTimeout))
	conn, err := net.Dial("tcp", b.Addr(0))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/attempt HTTP/1.1\r\nHost: stub\r\nContent-Length: %d\r\n\r\n%s", history.IDLen,
		b.ids.Token(0))
	wait.Until(t, "the attempt to be open", func() bool { return b.InFlight() == 1 })
	conn.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	if n, err := conn.Read(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v; want silence", n, err)
	}
	conn.SetReadDeadline(time.Time{})
	end()
	if n, err := conn.Read(make([]byte, 10)); n != 0 || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read %d bytes, %v; want the end", n, err)
	}
	if noted := b.lastEnd(); noted.Outcome != history.OutcomeTimeout || noted.Code != 0 || noted.Flags != 0 {
		t.Errorf("noted as %+v", noted)
	}
}

func TestStubClosesWhileFaultsHoldAttempts(t *testing.T) {
	for name, change := range map[string]func(*Stub) func(){
		"slow": func(o *Stub) func() { return o.Slow(never, func() {}) },
		"hang": func(o *Stub) func() { return o.Answer(always(history.OutcomeTimeout)) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, &plan.Plan{Records: make([]plan.Record, 1)})
			defer change(b.Stub)()
			status := b.inBackground(t.Context(), 0)
			b.Close()
			if got := <-status; got != 0 {
				t.Errorf("answered %d", got)
			}
			if noted := b.lastEnd(); noted.Outcome != history.OutcomeTimeout || noted.Flags != 0 {
				t.Errorf("noted as %+v", noted)
			}
		})
	}
}

func TestStubErrorTextsChangeAndChangeBack(t *testing.T) {
	b := newBed(t, &plan.Plan{Records: []plan.Record{{Outcome: history.OutcomeExhausted}, {}}})
	plain := func() string {
		_, _, body, _ := b.attempt(0, 0)
		return body
	}
	before := plain()
	var seen atomic.Int32
	end, err := b.ErrorText("non-ascii", func() { seen.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	endOutage := b.Answer(always(history.OutcomePermanent))
	if during := plain(); !strings.Contains(during, "在庫") || !strings.Contains(during, "permanent") {
		t.Errorf("answered %q", during)
	}
	endOutage()
	if got := b.statuses(1, 1); got[0] != 200 || seen.Load() != 1 {
		t.Errorf("a success is answered %v; %d changes seen, want 1", got, seen.Load())
	}
	end()
	if after := plain(); after != before {
		t.Errorf("afterwards answered %q", after)
	}
	if _, err := b.ErrorText("rude", nil); err == nil || !strings.Contains(err.Error(), `"rude"`) {
		t.Errorf("an unknown kind gives %v", err)
	}
}

// A request without an id gets the harness's own answer, which no fault changes.
func TestStubChangesNoUnknownID(t *testing.T) {
	b := newBed(t, &plan.Plan{Records: make([]plan.Record, 1)})
	defer b.Slow(never, func() {})()
	defer b.Answer(always(history.OutcomeTimeout))()
	if status, _, _, err := b.post(t.Context(), 0, "{}"); err != nil || status != http.StatusNotFound {
		t.Errorf("answered %d, %v", status, err)
	}
}

// A client may send its next request while it waits for an answer. A slow answer must not lose that request.
func TestStubSlowKeepsWhatAPipeliningClientSends(t *testing.T) {
	b := newBed(t, &plan.Plan{Records: make([]plan.Record, 2)})
	end := b.Slow(never, func() {})
	conn, err := net.Dial("tcp", b.Addr(0))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	request := func(record int32) string {
		return fmt.Sprintf("POST /v1/attempt HTTP/1.1\r\nHost: stub\r\nContent-Length: %d\r\n\r\n%s", history.IDLen,
			b.ids.Token(record))
	}
	io.WriteString(conn, request(0))
	wait.Until(t, "the attempt to be open", func() bool { return b.InFlight() == 1 })
	next := request(1)
	io.WriteString(conn, next[:20])
	time.Sleep(10 * time.Millisecond) // time for the wait to read it; without it the test is weaker, never wrong
	end()
	answers := bufio.NewReader(conn)
	for i := range 2 {
		response, err := http.ReadResponse(answers, nil)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("answer %d: %v, %v", i, response, err)
		}
		io.Copy(io.Discard, response.Body)
		if i == 0 {
			io.WriteString(conn, next[20:])
		}
	}
	if noted := b.lastEnd(); noted.Record != 1 {
		t.Errorf("the second attempt is noted as %+v", noted)
	}
}

// connected returns a client's connection and the stub's side of it.
func connected(t *testing.T) (net.Conn, *Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn := &Conn{socket: accepted.(*net.TCPConn)}
	t.Cleanup(func() { client.Close(); conn.Close() })
	return client, conn
}

// The limit is the stub's own: the client did not leave.
func TestWaitTellsTheLimitFromTheClient(t *testing.T) {
	client, conn := connected(t)
	if _, err := client.Write([]byte("pipelined")); err != nil {
		t.Fatal(err)
	}
	if got := conn.Wait(t.Context(), 5*time.Millisecond); got != Elapsed {
		t.Errorf("a wait for a client that stays ended as %d", got)
	}
	called, callOff := context.WithCancel(t.Context())
	callOff()
	if got := conn.Wait(called, 0); got != Elapsed {
		t.Errorf("a wait that was called off ended as %d", got)
	}
	read := make([]byte, 4)
	if n, err := conn.Read(read); err != nil || string(read[:n]) != "pipe" {
		t.Errorf("read %q, %v, want what came early", read[:n], err)
	}
	client.Close()
	if got := conn.Wait(t.Context(), 0); got != Gone {
		t.Errorf("a wait for a client that went ended as %d", got)
	}
	conn.Close()
	if got := conn.Wait(t.Context(), time.Second); got != Unusable {
		t.Errorf("a wait on a connection that was closed here ended as %d", got)
	}
}

// A wait that is cancelled just as it ends by itself must not leave its deadline on the connection.
func TestWaitLeavesNoDeadlineBehind(t *testing.T) {
	client, conn := connected(t)
	for range 1000 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Microsecond)
		if got := conn.Wait(ctx, 50*time.Microsecond); got != Elapsed {
			t.Fatalf("ended as %d", got)
		}
		cancel()
		time.AfterFunc(20*time.Microsecond, func() { _, _ = client.Write([]byte("x")) })
		if n, err := conn.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Fatalf("read %d bytes, %v", n, err)
		}
	}
}
