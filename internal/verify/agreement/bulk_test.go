package agreement

import (
	"slices"
	"testing"

	"github.com/dlqbench/dlqbench/internal/verify/generate"
)

// TestSeedsOfCallsForSeveralRecordsAgree guards against regressions with seeds of such histories that once disagreed.
func TestSeedsOfCallsForSeveralRecordsAgree(t *testing.T) {
	for seed, what := range map[uint64]string{
		200249: "two calls for the copies of one record get no answer, and there is no dead-letter topic",
		212880: "a record succeeds in a call while another copy of it is written back",
	} {
		if err := NewReport().other(what, generate.Bulk, generate.BulkCorruptions(), generate.NewSeeded(seed)); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// TestCallsForSeveralRecordsAgree checks consumers whose calls are for several records.
func TestCallsForSeveralRecordsAgree(t *testing.T) {
	all := NewReport()
	for seed := *first; seed < *first+seeds()/4; seed++ {
		c := generate.NewSeeded(seed)
		err := all.other("calls for several records", generate.Bulk, generate.BulkCorruptions(), c)
		if seed%4 == 0 && err == nil {
			err = all.other("such calls with effects", generate.BulkEffects, generate.EffectsCorruptions(), c)
		}
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	for _, name := range []string{"bounded-retries", "classification", "backoff", "duplicates", "ordering", "effects"} {
		if all.Correct[name] == 0 {
			t.Errorf("%s was judged in no history", name)
		}
	}
	t.Logf("%d of %d decided; judged %v, compared %v, %v", all.Decided, all.Records, all.Correct, all.Compared,
		all.Corrupted)
}

// TestRecordsGivenUpAfterRefusedCalls checks consumers that give up after a call for several records what they promise
// to try until it succeeds. It is hardly ever drawn, so these are seeds of histories that show nothing else.
func TestRecordsGivenUpAfterRefusedCalls(t *testing.T) {
	all := NewReport()
	for _, seed := range []uint64{528, 1024, 1191, 1940} {
		only := slices.DeleteFunc(generate.BulkCorruptions(), func(one generate.Corruption) bool {
			return one.Name != generate.GivenUpAfterRefusedCall
		})
		if err := all.other("records given up", generate.BulkWithoutLetters, only, generate.NewSeeded(seed)); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		if all.Corrupted[generate.GivenUpAfterRefusedCall] == 0 {
			t.Errorf("seed %d: not applied", seed)
		}
	}
}
