package store

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// TestClockFaultsOfOneWorker injects and lifts clock faults of the same worker in several orders. No fault loses its
// locks to another, and the clock is always that of the last fault in force.
func TestClockFaultsOfOneWorker(t *testing.T) {
	effect := func(n int) string {
		return fmt.Sprintf("%d entries locked by a worker whose clock is wrong (%d)", n, history.Worker(1))
	}
	for name, one := range map[string]struct {
		// steps are +N (inject the fault that is N minutes ahead), -N (lift it), and lock.
		steps         string
		done, effects []string
	}{
		"one after the other": {
			"+1 lock -1 lock +2 lock lock -2", []string{"1m0s", "0s", "2m0s", "0s"}, []string{effect(1), effect(2)},
		},
		"the first ends first": {
			"+1 lock +2 lock lock -1 lock -2 lock", []string{"1m0s", "2m0s", "0s"}, []string{effect(1), effect(3)},
		},
		"the second ends first": {
			"+1 +2 lock -2 lock lock -1 lock", []string{"1m0s", "2m0s", "1m0s", "0s"}, []string{effect(1), effect(2)},
		},
		"three, and the middle one ends first": {
			"+1 +2 lock +3 -2 lock lock -3 lock lock lock -1",
			[]string{"1m0s", "2m0s", "3m0s", "1m0s", "0s"}, []string{effect(1), effect(2), effect(3)},
		},
		"the covered one locks nothing": {"+1 +2 lock -1 -2", []string{"1m0s", "2m0s", "0s"}, []string{effect(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &rig{}
			injector, heals := &Injector{Workers: r}, map[byte]faults.Heal{}
			for step := range strings.FieldsSeq(one.steps) {
				switch step[0] {
				case '+':
					ahead := time.Duration(step[1]-'0') * time.Minute
					heals[step[1]] = shift(t, injector, r, Store{Process: "worker 1", ClockAhead: units.Duration(ahead)})
				case '-':
					if err := heals[step[1]](t.Context()); err != nil {
						t.Fatal(err)
					}
				default:
					r.lock(1)
				}
			}
			var done []string
			for _, offset := range one.done {
				done = append(done, "worker 1 "+offset)
			}
			if !reflect.DeepEqual(r.done, done) || !reflect.DeepEqual(r.effects, one.effects) {
				t.Errorf("did %q with the effects %q, want %q with %q", r.done, r.effects, done, one.effects)
			}
		})
	}
}

// TestAClockThatCannotBeSet: a fault that cannot be injected leaves the one before it in force, and its locks count.
func TestAClockThatCannotBeSet(t *testing.T) {
	r := &rig{}
	injector := &Injector{Workers: r}
	heal := shift(t, injector, r, Store{Process: "worker 1", ClockAhead: units.Duration(time.Minute)})
	r.fails = errors.New("wrong")
	second := Store{Process: "worker 1", ClockBehind: units.Duration(time.Minute)}
	if _, err := injector.Inject(t.Context(), active(r, &second)); err == nil {
		t.Fatal("the second fault was injected")
	}
	r.fails = nil
	r.lock(1)
	if err := heal(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	want := []string{"worker 1 1m0s", "worker 1 -1m0s", "worker 1 1m0s", "worker 1 0s"}
	if !reflect.DeepEqual(r.done, want) || len(r.effects) != 1 {
		t.Errorf("did %q with the effects %q, want %q with one effect", r.done, r.effects, want)
	}
}

// shift injects a clock fault.
func shift(t *testing.T, injector *Injector, r *rig, spec Store) faults.Heal {
	t.Helper()
	heal, err := injector.Inject(t.Context(), active(r, &spec))
	if err != nil {
		t.Fatal(err)
	}
	return heal
}

func active(r *rig, spec *Store) faults.Active {
	return faults.NewActive(faults.Planned{Fault: spec}, r, history.NewClock())
}
