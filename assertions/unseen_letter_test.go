package assertions

import (
	"slices"
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
