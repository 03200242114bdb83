package run

import (
	"net/http/httptest"
	"slices"
	"testing"

	faultstore "github.com/dlqbench/dlqbench/faults/store"
	"github.com/dlqbench/dlqbench/history"
)

// ignoring is a sink that keeps nothing.
type ignoring struct{}

func (ignoring) Record(history.Event) {}

// TestFaultsOfTheProbeOverlap: the fault that began last determines the answer and is credited with it. When it is
// lifted, the fault before it determines the answer again.
func TestFaultsOfTheProbeOverlap(t *testing.T) {
	var answered [2]int
	probe := &healthProbe{clock: history.NewClock(), sink: ignoring{}}
	begin := func(i int, how string) (end func()) {
		end, err := probe.Unhealthy(t.Context(), how, func() { answered[i]++ })
		if err != nil {
			t.Fatal(err)
		}
		return end
	}
	ask := func() int {
		w := httptest.NewRecorder()
		probe.answer(w, 0)
		return w.Code
	}
	var codes []int
	first := begin(0, faultstore.UnhealthyProbe)
	codes = append(codes, ask())
	second := begin(1, faultstore.UnhealthyCPU)
	codes = append(codes, ask())
	second()
	codes = append(codes, ask())
	second = begin(1, faultstore.UnhealthyCPU)
	first()
	codes = append(codes, ask())
	second()
	codes = append(codes, ask())
	if want := []int{503, 200, 503, 200, 200}; !slices.Equal(codes, want) || answered != [2]int{2, 2} {
		t.Errorf("answers %v, %v of them by fault, want %v, 2 by each", codes, answered, want)
	}
}
