package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// ledger records its calls and numbers faults from 10.
type ledger struct {
	*diary
	closed error

	entered int
}

func (l *ledger) Enter(planned Planned) (int, error) {
	if l.closed != nil {
		return 0, l.closed
	}
	l.mu.Lock()
	l.entered++
	index := 9 + l.entered
	l.mu.Unlock()
	l.note("enter %s", planned.Name)
	return index, nil
}

func (l *ledger) Began(index int, err error) { l.note("%d began %v", index, err) }
func (l *ledger) Leave(index int)            { l.note("%d leaves", index) }
func (l *ledger) Done(index int, err error)  { l.note("%d done %v", index, err) }

func (d *diary) all() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.entries, ", ")
}

// refusing rejects every injection.
type refusing struct{ *diary }

func (r refusing) Inject(context.Context, Active) (Heal, error) { return nil, errors.New("no") }

// TestCarry checks what the ledger, the history and the injector see of a manually injected fault, in which order,
// and what ends it.
func TestCarry(t *testing.T) {
	const whole = "1s enter one, 1s fault-start, 1s inject one, 1s 10 began <nil>, %[1]s 10 leaves, %[1]s heal one, " +
		"%[1]s fault-end, %[1]s 10 done <nil>"
	for name, test := range map[string]struct {
		length time.Duration
		heal   time.Duration // when someone asks to lift it
		over   time.Duration // when the time for faults is over
		ends   time.Duration // when the run is interrupted
		want   string
	}{
		"its time is over":        {3 * time.Second, 0, 0, 0, fmt.Sprintf(whole, "4s")},
		"healed by hand":          {time.Hour, 2 * time.Second, 0, 0, fmt.Sprintf(whole, "2s")},
		"the time for faults":     {time.Hour, 0, 2 * time.Second, 0, fmt.Sprintf(whole, "2s")},
		"the run is interrupted":  {time.Hour, 0, 0, 2 * time.Second, fmt.Sprintf(whole, "2s")},
		"healed when it was over": {time.Second, 3 * time.Second, 0, 0, fmt.Sprintf(whole, "2s")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &diary{Clock: history.NewClock()}
				over := make(chan struct{})
				n := &Nemesis{Injectors: map[string]Injector{"kafka": d}, Sink: d, Clock: d.Clock, Ledger: &ledger{diary: d},
					Over: over}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.Sleep(time.Second)
				var group sync.WaitGroup
				after := func(at time.Duration, do func()) {
					if at > 0 {
						group.Go(func() { time.Sleep(at - d.Now()); do() })
					}
				}
				after(test.heal, func() {
					err := n.Heal(t.Context(), 10)
					if healed := test.heal < time.Second+test.length; healed != (err == nil) ||
						!healed && !errors.Is(err, ErrNotInForce) {
						t.Errorf("healing by hand: %v", err)
					}
				})
				after(test.over, func() { close(over) })
				after(test.ends, cancel)
				planned := Planned{Index: -1, PlannedFault: history.PlannedFault{Name: "one", Kind: "kafka", For: test.length}}
				if err := n.Carry(ctx, planned); err != nil {
					t.Error(err)
				}
				group.Wait()
				if got := d.all(); got != test.want {
					t.Errorf("%s\nwant\n%s", got, test.want)
				}
			})
		})
	}
}

// TestCarryRefused: a fault that cannot be injected also ends in the history, and the ledger gets the reason.
func TestCarryRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{Clock: history.NewClock()}
		n := &Nemesis{Injectors: map[string]Injector{"kafka": refusing{d}}, Sink: d, Clock: d.Clock,
			Ledger: &ledger{diary: d}}
		planned := Planned{PlannedFault: history.PlannedFault{Name: "one", What: "what", Kind: "kafka", For: time.Hour}}
		if err := n.Carry(t.Context(), planned); err == nil || !strings.Contains(err.Error(), "no") {
			t.Errorf("%v", err)
		}
		want := "0s enter one, 0s fault-start, 0s fault-end, 0s 10 began injecting fault one (what): no"
		if got := d.all(); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
		if err := n.Heal(t.Context(), 10); !errors.Is(err, ErrNotInForce) {
			t.Errorf("healing what never was: %v", err)
		}
		if err := n.Carry(t.Context(), Planned{PlannedFault: history.PlannedFault{Name: "two", Kind: "broker"}}); err == nil {
			t.Error("a kind without an injector is carried")
		}
	})
}

// TestHealTakesLong: a caller that waits for Heal may give up; the lifting of the fault continues.
func TestHealTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{Clock: history.NewClock(), heals: 5 * time.Second}
		n := &Nemesis{Injectors: map[string]Injector{"kafka": d}, Sink: d, Clock: d.Clock}
		var group sync.WaitGroup
		group.Go(func() {
			if err := n.Carry(t.Context(),
				Planned{Index: 3, PlannedFault: history.PlannedFault{Name: "one", Kind: "kafka", For: time.Hour}}); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.Heal(short, 3); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if err := n.Heal(t.Context(), 3); err != nil {
			t.Errorf("the second one who heals: %v", err)
		}
		group.Wait()
		if want := "0s fault-start, 0s inject one, 5s heal one, 5s fault-end"; d.all() != want {
			t.Errorf("%s, want %s", d.all(), want)
		}
	})
}

// TestScheduleOver: when the time for faults ends early, faults in force are lifted with their full time limit, and
// faults that are not yet due are left out. Neither is an error, not even at the very moment of an injection.
func TestScheduleOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{Clock: history.NewClock(), heals: 10 * time.Second}
		over := make(chan struct{})
		n := &Nemesis{Injectors: map[string]Injector{"kafka": d}, Sink: d, Clock: d.Clock, Over: over,
			Ledger: &ledger{diary: d}}
		time.AfterFunc(2*time.Second, func() { close(over) })
		fault := func(name string, at time.Duration) Planned {
			return Planned{PlannedFault: history.PlannedFault{Name: name, Kind: "kafka", At: at, For: time.Hour}}
		}
		if err := n.Run(t.Context(), 0, []Planned{fault("one", time.Second), fault("two", 3*time.Second)}); err != nil {
			t.Error(err)
		}
		want := "1s enter one, 1s fault-start, 1s inject one, 1s 10 began <nil>, 2s 10 leaves, 12s heal one, 12s " +
			"fault-end, 12s 10 done <nil>"
		if got := d.all(); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
		n.Ledger = &ledger{diary: d, closed: ErrOver}
		n.Over = nil
		if err := n.Run(t.Context(), d.Now(), []Planned{fault("three", 0)}); err != nil {
			t.Errorf("a fault that was due as the load ended: %v", err)
		}
	})
}
