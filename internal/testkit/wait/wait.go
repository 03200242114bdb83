// Package wait waits in tests for a condition, where no event tells when it holds.
package wait

import (
	"testing"
	"time"
)

// patience is longer than any condition takes on a machine that is busy with other tests.
const patience = time.Minute

// Until waits until the condition holds. It ends the test after a minute and says what it waited for.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s in vain: %s", patience, what)
		}
	}
}
