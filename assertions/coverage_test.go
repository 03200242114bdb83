package assertions

import (
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
)

// A verdict states its own extent: inapplicable invariants do not count as promises, promises that were not judged are
// named with the reason, and promises that were mostly left open are marked.
func TestCoverage(t *testing.T) {
	v := &Verdict{Invariants: []Result{
		{Name: "no-loss", Status: Pass, Judged: 353, Open: 2740, Of: "records",
			NotJudged: map[string]int64{"outcome not observable": 2739, "no audit": 1}},
		{Name: "dlq-once", Status: Pass, Judged: 90, Open: 10, Of: "dead-lettered records"},
		{Name: "duplicates", Status: Fail, Judged: 5},
		{Name: "ordering", Status: NotApplicable, Unjudged: Unpromised, Why: "the contract promises no order"},
		{Name: "halt-on-dlq-failure", Status: NotApplicable, Unjudged: Unexercised, Why: "no dead-letter write failed"},
		{Name: "backoff", Status: NotApplicable, Unjudged: Unseen, Why: "attempts are not seen"},
		{Name: "classification", Status: NotApplicable, Unjudged: Unseen, Why: "attempts are not seen"},
		{Name: "liveness", Status: Inconclusive, Why: "the drain ended"},
		{Name: "store-lifecycle", Status: NotApplicable, Unjudged: Inapplicable, Why: "the run has no dead-letter store"},
	}}
	want := "3 of 8 promises judged; in part: no-loss (353 of 3,093 records; the others mostly not: outcome not " +
		"observable); not judged: ordering (the contract promises no order); halt-on-dlq-failure (no dead-letter write " +
		"failed); backoff, classification (attempts are not seen); liveness (inconclusive: the drain ended)"
	if have := v.Coverage().String(); have != want {
		t.Errorf("have %s\nwant %s", have, want)
	}
	if have := (&Verdict{Invariants: v.Invariants[2:3]}).Coverage().String(); have != "1 of 1 promise judged" {
		t.Error(have)
	}
}

// If the contract rules out that a promise is judged, the outlook and every run agree.
func TestOutlookIsWhatRunsSay(t *testing.T) {
	contract := history.Contract{Ordering: history.OrderingNone, Envelope: "plain", MaxAttempts: 3}
	for _, wire := range []bool{false, true} {
		contract.WireOnly = wire
		header := history.Header{Format: history.FormatVersion, RunID: "r", Replay: true, Records: 1, Instances: 1,
			Consumers: []history.Consumer{{Instances: 1, Contract: contract}}}
		verdict, _, err := Judge(history.FromEvents(header, nil))
		if err != nil {
			t.Fatal(err)
		}
		for i, expected := range Outlook(header) {
			if got := verdict.Invariants[i]; got.Name != expected.Name ||
				expected.Unjudged != "" && got.Unjudged != expected.Unjudged {
				t.Errorf("wire %v: %s is expected to be %q, and is %q", wire, expected.Name, expected.Unjudged, got.Unjudged)
			}
		}
	}
}

// What the plan wants to fail are answers of the downstream stub. A consumer that does not call it owes no dead letter.
func TestNoDeadLetterIsOwedWithoutCalls(t *testing.T) {
	t.Parallel()
	for wire, want := range map[bool]Status{false: Inconclusive, true: NotApplicable} {
		b := newBuilder()
		b.h.Contract().WireOnly = wire
		verdict, _, err := Judge(b.begin().send(0).plan(history.OutcomePermanent).commit(1).drain().done())
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range verdict.Invariants {
			switch one.Name {
			case "commit-after-dlq", "dlq-fidelity", "dlq-once":
				if one.Status != want {
					t.Errorf("wire %v: %s is %s (%s), want %s", wire, one.Name, one.Status, one.Why, want)
				}
			}
		}
	}
}

// A record that was counted before it turned out that it cannot be judged is not among the judged.
func TestWithdrawnIsNotJudged(t *testing.T) {
	r := newReport(newState(&newBuilder().h), "no-loss", "records")
	r.result.Judged = 2
	r.withdraw("outcome not observable")
	r.remark("a detail")
	if got := r.judgedOrNot(Inconclusive, ""); got.Judged != 1 || got.Open != 1 || got.Status != Pass || !got.Partial() {
		t.Errorf("%+v", got)
	}
	r.withdraw("outcome not observable")
	if got := r.judgedOrNot(NotApplicable, "nothing came"); got.Unjudged != Unseen || got.Why != "none of 2 records "+
		"could be judged: outcome not observable" {
		t.Errorf("%+v", got)
	}
}

// Where a contract promises dead letters of what can't be read, the reason why none is judged does not say that none
// was due, or that none was written.
func TestWhyNoDeadLetterIsJudged(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		tell func(*builder)
		want string
	}{
		"none is due":      {func(*builder) {}, "nothing of the plan had to be"},
		"none was written": {func(b *builder) { b.garbage(1).commit(2) }, "although the contract promises it"},
		"they name no record": {func(b *builder) {
			one := b.garbage(1).commit(2).inDLQ(1)
			one.Record, one.Claim, one.KeyHash = none, nil, 1
		}, "whose it is"},
	} {
		b := newBuilder()
		b.wireLetters()
		b.begin().send(0).commit(1)
		of.tell(b)
		verdict, _, err := Judge(b.drain().done())
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range verdict.Invariants {
			if one.Name == "commit-after-dlq" && (one.Status != NotApplicable || !strings.Contains(one.Why, of.want)) {
				t.Errorf("%s: %s, %s", name, one.Status, one.Why)
			}
		}
	}
}
