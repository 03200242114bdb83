package run

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/reports"
)

// The verdict on a real run's history is the same to the byte each time it is judged: again from the files, from
// memory, and with events of equal time in another order, as the observers' goroutines may have recorded them.
func TestVerdictDoesNotDependOnChance(t *testing.T) {
	t.Parallel()
	outcome, err := Run(t.Context(), small(t))
	if err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(outcome.Dir, "verdict.json"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		again, err := LoadRun(outcome.Dir)
		if err != nil {
			t.Fatal(err)
		}
		requireSame(t, "judged again from the files", asJSON(t, again), written)
	}
	reader, err := history.Open(filepath.Join(outcome.Dir, dirHistory))
	if err != nil {
		t.Fatal(err)
	}
	var events []history.Event
	if err := reader.Each(func(e *history.Event) error { events = append(events, *e); return nil }); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(20) {
		if seed > 0 { // the first time in the recorded order
			if moved := shuffleWithinTimes(events, rand.New(rand.NewPCG(seed, 0))); moved < 10 {
				t.Fatalf("of %d events only %d could be moved: that shows nothing", len(events), moved)
			}
		}
		judged := reports.Run{Header: reader.Header(), Dir: shortest(outcome.Dir)}
		if judged.Verdict, judged.Measurements,
			err = assertions.Judge(history.FromEvents(reader.Header(), events)); err != nil {
			t.Fatal(err)
		}
		requireSame(t, "judged from memory, shuffled", asJSON(t, judged), written)
	}
}

func asJSON(t *testing.T, run reports.Run) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := reports.JSON(&out, run); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func requireSame(t *testing.T, what string, have, want []byte) {
	t.Helper()
	if bytes.Equal(have, want) {
		return
	}
	a, b := bytes.Split(have, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range min(len(a), len(b)) {
		if !bytes.Equal(a[i], b[i]) {
			t.Fatalf("%s the verdict is another; line %d is\n%s\nand was\n%s", what, i+1, a[i], b[i])
		}
	}
	t.Fatalf("%s the verdict has %d lines and had %d", what, len(a), len(b))
}

// shuffleWithinTimes shuffles the events of each time and returns how many events share their time with another.
func shuffleWithinTimes(events []history.Event, random *rand.Rand) (moved int) {
	for from := 0; from < len(events); {
		to := from + 1
		for to < len(events) && events[to].Time == events[from].Time {
			to++
		}
		if same := events[from:to]; len(same) > 1 {
			random.Shuffle(len(same), func(i, j int) { same[i], same[j] = same[j], same[i] })
			moved += len(same)
		}
		from = to
	}
	return moved
}
