package reports

import (
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
)

// Where only the wire is observed, a committed record is not said to be skipped: nothing shows what became of it.
func TestTheLedgerSaysOnlyWhatIsKnown(t *testing.T) {
	t.Parallel()
	for unseen, want := range map[bool]string{false: "skipped by contract", true: "committed (whether processed is not seen)"} {
		text := conservation(&assertions.Verdict{Conservation: measure.Conservation{Planned: 3, Unseen: unseen,
			Entries: []measure.Entry{{Name: measure.EntryCommitted, Count: 3}}}})
		if !strings.HasSuffix(text, "3 planned = 3 "+want) {
			t.Errorf("unseen %v: %q", unseen, text)
		}
	}
}
