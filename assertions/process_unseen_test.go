package assertions

import (
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// refusedUnseen is a history in which a dead letter is refused for long. Nothing reports it in the log.
func refusedUnseen(tell func(*builder)) history.Source {
	b := newBuilder()
	b.h.Contract().ProcessUnseen = true
	b.begin().send(0).fails(0, 3)
	for range 12 {
		b.answerLetter(b.askLetter(0), 29, history.Forged).wait(400 * time.Millisecond)
	}
	tell(b)
	return b.letter(0).commit(1).drain().done()
}

// TestProcessUnseen: what depends on the log, the exit code or the end of a process is not judged where these are not
// seen. What is seen of the same subject is.
func TestProcessUnseen(t *testing.T) {
	nothing := func(*builder) {}
	for _, one := range []struct {
		name, invariant string
		tell            func(*builder)
		status          Status
		unjudged        Unjudged
		why             string
	}{
		{"its ends", "stays-up", nothing, NotApplicable, Unseen, "dlqbench does not start this consumer"},
		{"an end that would be a crash", "stays-up", func(b *builder) { b.falls(1, "").as(0, 1).up().assign(0, 1, 2, 3) },
			NotApplicable, Unseen, "dlqbench does not start this consumer"},
		{"its stops", "graceful-stop", nothing, NotApplicable, Unseen, "dlqbench does not start this consumer"},
		{"its log", "halt-on-dlq-failure", nothing, Inconclusive, "", "its log is not seen"},
		{"its health that turns bad", "halt-on-dlq-failure", func(b *builder) { b.health(0) }, Pass, "", ""},
		{"a commit past the dead letter", "halt-on-dlq-failure", func(b *builder) {
			b.commit(1).answerLetter(b.askLetter(0), 29, history.Forged)
		}, Fail, "", ""},
	} {
		verdict, _, err := Judge(refusedUnseen(one.tell))
		if err != nil {
			t.Fatal(err)
		}
		for _, result := range verdict.Invariants {
			if result.Name == one.invariant && (result.Status != one.status || result.Unjudged != one.unjudged ||
				!strings.Contains(result.Why, one.why)) {
				t.Errorf("%s: %+v", one.name, result)
			}
		}
	}
}
