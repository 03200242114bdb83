package assertions

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
)

// A witness says between whom each of its events was, in words that its actors have, so that it can be drawn.
func TestWitnessesSayBetweenWhom(t *testing.T) {
	b := newBuilder()
	f := b.fault("kafka", "dlq", "Produce to dlq answered NOT_ENOUGH_REPLICAS")
	b.begin().send(1).fails(1, 3).breaks(f)
	b.answerLetter(b.askLetter(1), 19, history.Forged).logError().commit(2).heals(f).letter(1)
	v := judged(t, b.drain().done())
	a := resultOf(t, v, "commit-after-dlq").Anomalies[0]
	w := a.Witnesses[0]
	var actors, lines []string
	for _, one := range w.Actors {
		actors = append(actors, one.Name+"/"+string(one.Role))
	}
	if got, want := strings.Join(actors, " "), "workload/workload in/input instance 0/instance oracle/oracle in.dlq/dlq"; got != want {
		t.Errorf("the actors are %s, want %s", got, want)
	}
	for _, line := range w.Biography {
		lines = append(lines, fmt.Sprintf("%s>%s %s%s", line.From, line.To, line.Label, map[bool]string{true: "!"}[line.Failed]))
	}
	want := []string{
		"workload>in send", "in>workload offset 0", "in>instance 0 fetch 0", "instance 0>oracle attempt 1", "oracle>instance 0 transient!",
		"instance 0>oracle attempt 2", "oracle>instance 0 transient!", "instance 0>oracle attempt 3", "oracle>instance 0 transient!", "> ",
		"instance 0>in.dlq produce", "in.dlq>instance 0 NOT_ENOUGH_REPLICAS!", "instance 0> logs an error!", "instance 0>in commit 2", "in>instance 0 ok",
		"instance 0>in.dlq produce", "in.dlq>instance 0 ok, offset 0",
	}
	if got := strings.Join(lines, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the events are\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	var commit Line
	for _, line := range w.Biography {
		if line.Kind == "commit-request" {
			commit = line
		}
	}
	if a.First == nil || a.First.At != commit.Time || a.First.Record != 1 || a.First.Phase != history.PhaseSteady && a.First.Phase != history.PhaseFault {
		t.Errorf("first violated at %+v, want with the commit at %v", a.First, commit.Time)
	}
}

// What is violated by something that never came has no moment, but its place is kept.
func TestOccurrencesWithoutAMoment(t *testing.T) {
	b := newBuilder()
	b.begin().send(1).fetch(1)
	b.start(1)
	v := judged(t, b.drain().done())
	a := resultOf(t, v, "no-loss").Anomalies[0]
	if a.Name != "stalled" || a.First != nil || len(a.Records) != 1 || a.Records[0].At != none || a.Records[0].Key == "" || a.Records[0].Record != 1 {
		t.Errorf("%s: first %+v, places %+v", a.Name, a.First, a.Records)
	}
}

// Every kind of event that a biography may have is between participants whose roles have a place, and has a word.
func TestEveryEventHasItsWay(t *testing.T) {
	h := history.Header{Topics: []history.Topic{{Name: "in", Role: history.RoleInput, Partitions: 1}}}
	w := newWorld(&h)
	for _, kind := range []history.Kind{
		history.KindSend, history.KindAcked, history.KindAttemptStart, history.KindAttemptEnd, history.KindProduceRequest, history.KindProduceResponse,
		history.KindAuditRecord, history.KindReplaySelected, history.KindFetched, history.KindCommitRequest, history.KindCommitResponse, history.KindAssigned,
		history.KindRevoked, history.KindShareAcquired, history.KindShareAckRequest, history.KindShareAckResponse, history.KindTxnEndRequest, history.KindTxnEndResponse,
		history.KindStoreChange, history.KindStoreEntry, history.KindInstanceStarting, history.KindInstanceSignal, history.KindInstanceExited, history.KindSubjectError,
	} {
		e := history.New(kind, 0)
		e.Instance, e.Topic, e.Partition, e.Outcome, e.Text = 0, 0, 0, history.OutcomeSuccess, "x"
		if way := w.wayOf(&e); way.from.Name == "" || label(&e) == "" {
			t.Errorf("%s is between %+v, with the word %q", kind, way, label(&e))
		}
	}
}
