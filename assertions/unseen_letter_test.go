package assertions

import (
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
)

// A dead letter that has lost key and value has lost the record's id, too, so its write was not observed: it may have
// been acknowledged before the commit. The anomaly is its content. (A subject that writes no dead letter at all has
// lost the record: see the tests of losses.)
func TestALetterWithoutItsIDIsNoLetterThatCameTooLate(t *testing.T) {
	t.Parallel()
	b := newBuilder().begin().send(0).fails(0, 3)
	b.inDLQ(0)
	letter := &b.inTopics[len(b.inTopics)-1]
	letter.Record, letter.KeyHash, letter.ValueHash = history.None, 1, 1
	v := judged(t, b.commit(1).drain().done())
	got := named(v)
	if slices.Contains(got, "commit-past-unfinished") || !slices.Contains(got, "payload-changed") {
		t.Errorf("anomalies %v\n%s", got, show(v))
	}
	if r := resultOf(t, v, "commit-after-outcome"); len(r.NotJudged) == 0 {
		t.Errorf("it does not say what it could not judge: %+v", r)
	}
}

// Without a promise about what a dead letter contains, only a marker's is found to be wrong, and no pass is claimed.
func TestDeadLettersOfWhichNothingIsPromised(t *testing.T) {
	t.Parallel()
	const name = "dlq-fidelity"
	for _, one := range []struct {
		name    string
		promise func(c *history.Contract)
		flags   history.Flags
		want    Status
	}{
		{"nothing", func(*history.Contract) {}, 0, NotApplicable},
		{"nothing, and a marker was dead-lettered", func(*history.Contract) {}, history.Marker, Fail},
		{"the key", func(c *history.Contract) { c.ChangesKey = false }, 0, Pass},
		{"the value", func(c *history.Contract) { c.ChangesValue = false }, 0, Pass},
		{"the headers", func(c *history.Contract) { c.KeepsHeaders = true }, 0, Pass},
		{"the partition", func(c *history.Contract) { c.SamePartition = true }, 0, Pass},
		{"an envelope", func(c *history.Contract) { c.Envelope = "plain" }, 0, Pass},
		{"no dead letters at all", func(c *history.Contract) { c.DeadLetters = false }, history.Marker, NotApplicable},
	} {
		b := newBuilder()
		c := b.h.Contract()
		c.DeadLetters, c.ChangesKey, c.ChangesValue, c.KeepsHeaders, c.Envelope = true, true, true, false, ""
		one.promise(c)
		r := resultOf(t, judged(t, b.letterOfNone(one.flags).drain().done()), name)
		if r.Status != one.want || (r.Status == NotApplicable) != (r.Unjudged == Unpromised) ||
			(r.Status == NotApplicable) != (r.Judged == 0) {
			t.Errorf("promised is %s: %+v, want %s", one.name, r, one.want)
		}
		known := one.want == NotApplicable || one.flags != 0
		for _, told := range Outlook(history.Header{Consumers: []history.Consumer{{Contract: *c}}}) {
			if told.Name == name && told.ByContract() != known {
				t.Errorf("promised is %s: before a run it is %+v", one.name, told)
			}
		}
	}
}

// If dead letters can't be told at the downstream that takes them, nothing is held against the subject.
func TestDeadLettersAtADownstreamThatCannotBeTold(t *testing.T) {
	t.Parallel()
	for text, why := range map[string]string{
		"no call of errors had a record's id\nhave each carry it": "no call of errors had a record's id",
		"POST /errors": "the subject sent several dead letters with one call (POST /errors), and dlqbench takes a call for one",
	} {
		b := newBuilder().begin().send(0).fails(0, 3)
		letters := slices.IndexFunc(b.h.Topics, func(topic history.Topic) bool { return topic.Role == history.RoleDLQ })
		b.h.Topics[letters].Downstream = true
		e := b.event(history.KindUnreadable)
		e.Code, e.Topic, e.Text = history.None, int16(letters), text
		if text == "POST /errors" {
			e.Instance, e.Run = 0, 0
		}
		b.put(e)
		v := judged(t, b.commit(1).drain().done())
		if v.Verdict != Inconclusive || !slices.ContainsFunc(v.Open, func(one Open) bool { return one.Why == why }) {
			t.Errorf("%s: %s, %v, %+v", text, v.Verdict, named(v), v.Open)
		}
		if told := resultOf(t, v, "no-loss").Why; strings.HasPrefix(text, "no call") &&
			!strings.HasPrefix(told, "no dead letter of the subject can be told") {
			t.Errorf("no-loss is not judged, as %s", told)
		}
	}
}

// What a service says of a call decides whether it is worth another: a status from 400 to 499 says that it is not.
func TestStatusesThatAreFinal(t *testing.T) {
	t.Parallel()
	for code, want := range map[int16]bool{400: true, 403: true, 422: true, 408: false, 425: false, 429: false, 500: false,
		503: false} {
		if final(code) != want {
			t.Errorf("%d is final: %v", code, !want)
		}
	}
}
