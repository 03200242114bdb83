package agreement

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/proof/histories"
)

func TestDump(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	if err != nil {
		t.Skip()
	}
	c := histories.NewSeeded(seed)
	h := histories.Generate(c)
	if os.Getenv("SCR") != "" {
		_ = NewReport().corrupt(h, c)
		h = histories.Scramble(h, c)
	}
	fmt.Printf("%+v\n", h.Header.Contract)
	for _, e := range h.Events {
		fmt.Printf("%v k=%d i=%d.%d t=%d-%d off=%d aux=%d rec=%d op=%d n=%d code=%d fl=%d out=%d %s\n", e.Time, e.Kind, e.Instance, e.Run, e.Topic, e.Partition, e.Offset, e.Aux, e.Record, e.Op, e.N, e.Code, e.Flags, e.Outcome, e.Text)
	}
	_ = history.None
}
