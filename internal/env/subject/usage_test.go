//go:build !windows

package subject

import (
	"reflect"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

func TestFamily(t *testing.T) {
	all := map[int]status{
		1:  {parent: 0, group: 1},
		10: {parent: 1, group: 10}, // another instance
		11: {parent: 10, group: 10},
		20: {parent: 1, group: 20}, // the one that was started
		21: {parent: 20, group: 20},
		22: {parent: 21, group: 22}, // in its own group, and its child
		23: {parent: 22, group: 22},
		24: {parent: 1, group: 20},  // its parent has ended
		30: {parent: 31, group: 30}, // read while ids changed hands
		31: {parent: 30, group: 30},
	}
	for first, want := range map[int][]int{20: {20, 21, 22, 23, 24}, 10: {10, 11}, 23: {23}, 99: nil, 0: nil} {
		if got := family(all, first); !reflect.DeepEqual(got, want) {
			t.Errorf("the family of %d is %v, want %v", first, got, want)
		}
	}
}

// The consumer is often below what is started, and sometimes in a process group of its own.
func TestUsageIsThatOfTheWholeFamily(t *testing.T) {
	g, sink := group(t, nil, "obedient", "launching")
	g.up(t, 0)
	g.up(t, 1)
	all := allProcesses()
	used := func(instance int) (cpu time.Duration, rss int64) {
		p := g.process(instance)
		before := len(sink.of(history.KindSample))
		g.noteUsage(p, all, family(all, p.work()))
		for _, event := range sink.of(history.KindSample)[before:] {
			switch {
			case int(event.Instance) != instance: // recorded by the group itself meanwhile
			case event.Text == history.SampleInstanceCPU:
				cpu = time.Duration(event.Aux)
			case event.Text == history.SampleInstanceRSS:
				rss = event.Aux
			}
		}
		return cpu, rss
	}
	cpu, launched := used(1)
	if cpu < hungryTime-20*time.Millisecond || launched < hungryMemory {
		t.Errorf("what was launched used %s and %d bytes", cpu, launched)
	}
	// The usage is that of the launching process, without the hungry one.
	if _, other := used(0); other == 0 || other > launched-hungryMemory {
		t.Errorf("the other instance used %d bytes, what was launched %d", other, launched)
	}
	before := len(sink.of(history.KindSample))
	g.noteUsage(g.process(0), all, nil)
	for _, event := range sink.of(history.KindSample)[before:] {
		if event.Text == history.SampleInstanceRSS && event.Aux == 0 {
			t.Errorf("an instance without processes used %+v", event)
		}
	}
}

func TestUsageIsNotedAsTimeGoesBy(t *testing.T) {
	g, sink := group(t, nil, "obedient")
	g.up(t, 0)
	wait.Until(t, "two readings of an instance", func() bool { return len(sink.of(history.KindSample)) >= 4 })
	for _, event := range sink.of(history.KindSample) {
		if event.Instance != 0 || event.Aux < 0 || event.Text == history.SampleInstanceRSS && event.Aux == 0 {
			t.Errorf("%+v", event)
		}
	}
}
