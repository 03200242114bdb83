package agreement

import (
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

// TestRecordsGivenUpAgree checks consumers that give up what they promise to try until it succeeds, after its own
// attempts or a call for several records. They are seldom drawn, so some seeds of each are given.
func TestRecordsGivenUpAgree(t *testing.T) {
	all, given := NewReport(), []uint64{27, 29, 47, 105, 528, 1024, 1191, 1940}
	for seed := *first; seed < *first+seeds()/4; seed++ {
		given = append(given, seed)
	}
	for _, seed := range given {
		err := all.other("records given up", generate.BulkWithoutLetters, generate.GivenUpCorruptions(),
			generate.NewSeeded(seed))
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	if len(all.Corrupted) < 2 {
		t.Errorf("corrupted: %v", all.Corrupted)
	}
}
