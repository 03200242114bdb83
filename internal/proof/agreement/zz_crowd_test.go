package agreement

import (
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/internal/proof/histories"
)

func TestZZCrowd(t *testing.T) {
	r := NewReport()
	at := time.Now()
	for seed := range uint64(40) {
		if err := r.crowd(histories.NewSeeded(seed)); err != nil {
			t.Errorf("%d: %.1500v", seed, err)
		}
	}
	t.Log(r.Histories, r.Events, r.Corrupted, r.Decided, r.Records, time.Since(at), r.Correct, r.Compared)
}
