package workload

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
)

// newOther returns a downstream that does not decide, number 2 of the run. Every record is planned to fail.
func newOther(t *testing.T) *bed {
	t.Helper()
	b := newCalls(t, &plan.Plan{}, history.IDText, Calls{})
	b.Close()
	route := "look-up"
	stub, err := NewStub(StubConfig{
		AttemptsConfig: AttemptsConfig{
			Plan: &plan.Plan{Records: []plan.Record{{Outcome: history.OutcomePermanent}}}, IDs: b.ids, Instances: 1,
			Ops: &atomic.Int64{}, Clock: history.NewClock(), Sink: b.sink, Other: 2,
		},
		Calls: &Calls{Told: true, Routes: []Route{{Path: "/customers/*", Response: Response{Status: 203, Body: &route}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Stub = stub
	t.Cleanup(stub.Close)
	return b
}

// A downstream that does not decide answers every call well, and records those with a record's id as calls.
func TestOthersAnswerWell(t *testing.T) {
	b := newOther(t)
	for _, one := range []struct {
		path string
		want int
	}{
		{"/entries/" + b.ids.Token(0), 200}, {"/entries/" + b.ids.Token(0), 200}, {"/customers/7", 203}, {"/anything", 200},
		{"/healthz", 200},
	} {
		if status, _, _ := b.call("GET", one.path, ""); status != one.want {
			t.Errorf("%s is answered %d, want %d", one.path, status, one.want)
		}
	}
	starts, ends := b.sink.of(history.KindCallStart), b.sink.of(history.KindCallEnd)
	if len(starts) != 2 || len(ends) != 2 || len(b.sink.all) != 4 {
		t.Fatalf("recorded %+v", b.sink.all)
	}
	for i := range starts {
		s, e := starts[i], ends[i]
		if s.N != 2 || s.Sequence != int32(i+1) || s.Record != 0 || s.Text != "GET /entries/{id}" || s.Op != e.Op ||
			e.N != 2 || e.Sequence != s.Sequence || e.Outcome != history.OutcomeSuccess || e.Code != 200 || e.Flags != 0 {
			t.Errorf("call %d is %+v to %+v", i+1, s, e)
		}
	}
	if open := b.InFlight(); open != 0 {
		t.Errorf("%d calls are being answered", open)
	}
}

// A fault breaks every call of it but its health, with or without an id, and its answers are told from its own.
func TestFaultsBreakOthers(t *testing.T) {
	b := newOther(t)
	var asked []int32
	end := b.Answer(func(record, attempt int32) (history.Outcome, time.Duration) {
		asked = append(asked, record, attempt)
		return history.OutcomeTransient, 0
	})
	for path, want := range map[string]int{"/healthz": 200} {
		if status, _, _ := b.call("GET", path, ""); status != want {
			t.Errorf("%s is answered %d, want %d", path, status, want)
		}
	}
	for _, path := range []string{"/entries/" + b.ids.Token(0), "/customers/7", "/anything"} {
		if status, _, _ := b.call("GET", path, ""); status != 503 {
			t.Errorf("%s is answered %d", path, status)
		}
	}
	end()
	if status, _, _ := b.call("GET", "/customers/7", ""); status != 203 {
		t.Errorf("a look-up is answered %d after the fault", status)
	}
	ends := b.sink.of(history.KindCallEnd)
	if len(ends) != 1 || ends[0].Outcome != history.OutcomeTransient || !ends[0].Flags.Has(history.Forged) {
		t.Errorf("recorded %+v", ends)
	}
	if len(asked) != 6 || asked[0] != 0 || asked[1] != 1 || asked[2] != history.None || asked[3] != 1 || asked[5] != 2 {
		t.Errorf("the rule was asked for %v", asked)
	}
}

// Where a client repeats calls by itself, a planned failure is that of all its calls in an attempt: those that begin
// sooner than the subject's wait after the last one, up to the number of calls.
func TestPlannedFailuresAreThoseOfAttempts(t *testing.T) {
	for name, test := range map[string]struct {
		waits []time.Duration // before each call that fails
	}{
		"repeats all":   {[]time.Duration{0, 10, 10, 100, 10, 10}},
		"repeats none":  {[]time.Duration{0, 100}},
		"repeats some":  {[]time.Duration{0, 99, 100}},
		"has no waits":  {[]time.Duration{0, 0, 0, 0, 0, 0}},
		"repeats later": {[]time.Duration{0, 150}},
		"repeats more":  {[]time.Duration{0, 10, 100, 10, 10}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := NewAttempts(AttemptsConfig{Calls: 3, Wait: 100 * time.Millisecond, Clock: history.NewClock(),
					Sink: discard{}, Instances: 1, Ops: new(atomic.Int64),
					Plan: &plan.Plan{Records: []plan.Record{{Outcome: history.OutcomeTransient, Failures: 2}}}})
				for i, wait := range append(test.waits, 100) {
					time.Sleep(wait * time.Millisecond)
					event := history.New(history.KindAttemptStart, 0)
					event.Instance = 0
					a.Begin(&event, 0, true)
					event.Outcome = a.rule(0, event.N).Outcome
					if fails := event.Outcome == history.OutcomeTransient; fails != (i < len(test.waits)) {
						t.Errorf("call %d fails: %v", i+1, fails)
					}
					a.End(&event, false)
				}
			})
		})
	}
}

// Dead letters are calls with a record's id that match no route. One without an id is refused, unless the plan has
// records that no call can name.
func TestCallsOfTheOneThatTakesDeadLetters(t *testing.T) {
	for _, anonymous := range []bool{false, true} {
		b := newOther(t)
		b.Close()
		records := []plan.Record{{Outcome: history.OutcomePermanent}}
		if anonymous {
			records = append(records, plan.Record{Garbage: true})
		}
		body, config := "look-up", b.cfg
		config.Plan, config.Letters = &plan.Plan{Records: records}, true
		config.Calls = &Calls{Told: true, Routes: []Route{{Method: "GET", Path: "/errors/*",
			Response: Response{Status: 203, Body: &body}}}}
		stub, err := NewStub(config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stub.Close)
		b.Stub = stub
		refused, recorded := 404, 2
		if anonymous {
			refused, recorded = 200, 4
		}
		if status, _, _ := b.call("POST", "/errors", "no id"); status != refused || !b.Unmade() {
			t.Errorf("one without an id is answered %d, want %d", status, refused)
		}
		if status, _, _ := b.call("GET", "/errors/"+b.ids.Token(0), ""); status != 203 {
			t.Errorf("a call of a route is answered %d", status)
		}
		if status, _, _ := b.call("POST", "/errors", b.ids.Token(0)); status != 200 || b.Unmade() {
			t.Errorf("a dead letter is answered %d", status)
		}
		if len(b.sink.all) != recorded {
			t.Errorf("recorded %+v", b.sink.all)
		}
	}
}
