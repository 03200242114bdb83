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
