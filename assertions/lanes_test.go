package assertions

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// A counterexample names the sender and the receiver of each event, with names listed among its actors, so that it can
// be drawn.
func TestCounterexamplesSayBetweenWhom(t *testing.T) {
	b := newBuilder()
	f := b.fault("kafka", "dlq", "Produce to dlq answered NOT_ENOUGH_REPLICAS")
	b.begin().send(1).fails(1, 3).breaks(f)
	b.answerLetter(b.askLetter(1), 19, history.Forged).logError().commit(2).heals(f).letter(1)
	v := judged(t, b.drain().done())
	a := resultOf(t, v, "commit-after-dlq").Anomalies[0]
	w := a.Counterexamples[0]
	var actors, lines []string
	for _, one := range w.Actors {
		actors = append(actors, one.Name+"/"+string(one.Role))
	}
	if got, want := strings.Join(actors, " "),
		"workload/workload in/input instance 0/instance downstream/downstream in.dlq/dlq"; got != want {
		t.Errorf("the actors are %s, want %s", got, want)
	}
	for _, line := range w.Trace {
		lines = append(lines, fmt.Sprintf("%s>%s %s%s", line.From, line.To, line.Label,
			map[bool]string{true: "!"}[line.Failed]))
	}
	want := []string{
		"workload>in send", "in>workload offset 0", "in>instance 0 fetch 0", "instance 0>downstream attempt 1",
		"downstream>instance 0 transient!",
		"instance 0>downstream attempt 2", "downstream>instance 0 transient!", "instance 0>downstream attempt 3",
		"downstream>instance 0 transient!", "> ",
		"instance 0>in.dlq produce", "in.dlq>instance 0 NOT_ENOUGH_REPLICAS!", "instance 0> logs an error!",
		"instance 0>in commit 2", "in>instance 0 ok", "instance 0>in.dlq produce", "in.dlq>instance 0 ok, offset 0",
	}
	if got := strings.Join(lines, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the events are\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	var commit Line
	for _, line := range w.Trace {
		if line.Kind == "commit-request" {
			commit = line
		}
	}
	if a.First == nil || a.First.At != commit.Time || a.First.Record != 1 ||
		a.First.Phase != history.PhaseSteady && a.First.Phase != history.PhaseFault {
		t.Errorf("first violated at %+v, want with the commit at %v", a.First, commit.Time)
	}
}

// An event that never came violates from when it is certain not to come, and the verdict says why it is certain.
func TestWhatNeverCameIsMissingSince(t *testing.T) {
	auditBegins := func(e *history.Event) bool { return e.Kind == history.KindPhase && e.Text == history.PhaseAudit }
	commit := func(e *history.Event) bool { return e.Kind == history.KindCommitRequest }
	audit := func(e *history.Event) bool {
		return e.Kind == history.KindAuditOffsets && e.Topic == input && e.Partition == 0
	}
	for name, one := range map[string]struct {
		invariant string
		how       Missing
		phase     string
		since     func(*history.Event) bool // the last such event
		tell      func(*builder)
	}{
		"nobody takes it up": {"no-loss", MissingDrained, history.PhaseDrain, auditBegins, func(b *builder) {
			b.fetch(1).start(1)
		}},
		"its partition is not committed": {"liveness", MissingDrained, history.PhaseDrain, auditBegins, func(b *builder) {
			b.fetch(1).start(1)
		}},
		"a commit passes it": {"no-loss", MissingCommitted, history.PhaseSteady, commit, func(b *builder) {
			b.fails(1, 1).commit(2)
		}},
		"a commit passes it, and its answer is not seen": {"no-loss", MissingAudited, history.PhaseAudit, audit,
			func(b *builder) {
				b.fails(1, 1).askCommit(0, 2)
				b.commits[0] = 2
			}},
		"the broker lost it": {"no-loss", MissingAudited, history.PhaseAudit, audit, func(b *builder) {
			b.success(1).commit(2).lost[1] = true
		}},
	} {
		b := newBuilder()
		one.tell(b.begin().send(0).success(0).commit(1).send(1))
		a := resultOf(t, judged(t, b.drain().done()), one.invariant).Anomalies[0]
		var want time.Duration
		for i := range b.events {
			if one.since(&b.events[i]) {
				want = b.events[i].Time
			}
		}
		if a.First == nil || a.First.At != want || a.First.Missing != one.how || a.First.Phase != one.phase {
			t.Errorf("%s: %s: first %+v, want %s at %v in the phase %s", name, a.Name, a.First, one.how, want, one.phase)
			continue
		}
		if marked := slices.ContainsFunc(a.Counterexamples[0].Trace, func(line Line) bool {
			return line.Marked && line.Time == want
		}); marked != (one.how == MissingCommitted) {
			t.Errorf("%s: the commit that passed it is marked: %v", name, marked)
		}
		if place := a.Records[0]; len(a.Records) != 1 || place.At != want || place.Missing != one.how ||
			place.Record != 1 || place.Key == "" {
			t.Errorf("%s: places %+v", name, a.Records)
		}
	}
}

// An anomaly of all waits together has no moment.
func TestWhatARunShowsAsAWholeHasNoMoment(t *testing.T) {
	b := newBuilder()
	b.h.Records = 400
	b.begin()
	for n := range int32(250) {
		b.sendTo(n, 0, n).attempt(n, history.OutcomeTransient).wait(99 * ms).success(n)
	}
	a := resultOf(t, judged(t, b.commitAll().drain().done()), "backoff").Anomalies[0]
	if a.Name != "no-jitter" || a.First != nil || a.Records[0].At != none || a.Records[0].Missing != "" {
		t.Errorf("%s: first %+v, places %+v", a.Name, a.First, a.Records)
	}
}

// Every kind of event that a trace may contain has participants with known roles, and a label.
func TestEveryEventHasItsWay(t *testing.T) {
	h := history.Header{Topics: []history.Topic{{Name: "in", Role: history.RoleInput, Partitions: 1}},
		Consumers: make([]history.Consumer, 1)}
	w := newState(&h)
	for _, kind := range []history.Kind{
		history.KindSend, history.KindAcked, history.KindAttemptStart, history.KindAttemptEnd, history.KindProduceRequest,
		history.KindProduceResponse,
		history.KindAuditRecord, history.KindReplaySelected, history.KindFetched, history.KindCommitRequest,
		history.KindCommitResponse, history.KindAssigned,
		history.KindRevoked, history.KindShareAcquired, history.KindShareAckRequest, history.KindShareAckResponse,
		history.KindTxnEndRequest, history.KindTxnEndResponse,
		history.KindStoreChange, history.KindStoreEntry, history.KindInstanceStarting, history.KindInstanceSignal,
		history.KindInstanceExited, history.KindSubjectError,
	} {
		e := history.New(kind, 0)
		e.Instance, e.Topic, e.Partition, e.Outcome, e.Text = 0, 0, 0, history.OutcomeSuccess, "x"
		if way := w.wayOf(&e); way.from.Name == "" || label(&e) == "" {
			t.Errorf("%s is between %+v, with the word %q", kind, way, label(&e))
		}
	}
}
