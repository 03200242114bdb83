package assertions

import (
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// TestSurfacingInALogThatCannotBeRead: if no line of the log states a level, it is unknown whether the failure was
// reported.
func TestSurfacingInALogThatCannotBeRead(t *testing.T) {
	b := newBuilder()
	b.begin().send(0).fails(0, 3)
	for range 12 {
		b.answerLetter(b.askLetter(0), 29, history.Forged).wait(400 * time.Millisecond)
	}
	b.letter(0).commit(1).drain()
	verdict, _, err := Judge(b.wrote(20, 0).done())
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range verdict.Invariants {
		if result.Name == "halt-on-dlq-failure" {
			if result.Status != Inconclusive || len(result.Anomalies) > 0 || result.Why == "" {
				t.Fatalf("%+v", result)
			}
			return
		}
	}
	t.Fatal("halt-on-dlq-failure was not judged")
}
