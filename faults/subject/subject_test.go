package subject

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fleet plays the instances. Ending one takes 100 ms, starting one 300 ms.
type fleet struct {
	clock history.Clock

	mu            sync.Mutex
	alive, paused map[int]bool
	trace         []string
	// failStarts is the number of starts that fail before one succeeds.
	failStarts int
	endErr     error
	// aliveAtOnce: a started instance has a process before it is ready.
	aliveAtOnce bool
	// busy counts the calls in progress.
	busy int
}

// enter records a call that is in progress until the returned function is called.
func (f *fleet) enter() (leave func()) {
	add := func(n int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.busy += n
	}
	add(1)
	return func() { add(-1) }
}

func newFleet(count int) *fleet {
	f := &fleet{clock: history.NewClock(), alive: map[int]bool{}, paused: map[int]bool{}}
	for instance := range count {
		f.alive[instance] = true
	}
	return f
}

func (f *fleet) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trace = append(f.trace, fmt.Sprintf("%v ", f.clock.Now())+fmt.Sprintf(format, args...))
}

func (f *fleet) set(states map[int]bool, instance int, state bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	states[instance] = state
}

func (f *fleet) Alive(instance int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.alive[instance]
}

func (f *fleet) End(_ context.Context, instance int, signal syscall.Signal) (int, error) {
	defer f.enter()()
	f.note("%v %d", map[syscall.Signal]string{syscall.SIGTERM: "TERM", syscall.SIGKILL: "KILL"}[signal], instance)
	if f.endErr != nil {
		return 0, f.endErr
	}
	time.Sleep(100 * time.Millisecond)
	f.set(f.alive, instance, false)
	return map[syscall.Signal]int{syscall.SIGTERM: 0, syscall.SIGKILL: -1}[signal], nil
}

func (f *fleet) Pause(_ context.Context, instance int, on bool) error {
	f.note("pause %d %v", instance, on)
	f.set(f.paused, instance, on)
	return nil
}

func (f *fleet) Revive(ctx context.Context, instance int) error {
	if f.Alive(instance) {
		return nil
	}
	defer f.enter()()
	f.note("start %d", instance)
	f.mu.Lock()
	fails := f.failStarts > 0
	f.failStarts--
	f.mu.Unlock()
	if fails {
		return errors.New("ended before it was ready")
	}
	f.set(f.alive, instance, f.aliveAtOnce)
	if !pause(ctx, 300*time.Millisecond) {
		return ctx.Err()
	}
	f.set(f.alive, instance, true)
	return nil
}

// trial injects a fault, lifts it after its duration (or when the run is interrupted), and returns its effects.
func trial(t *testing.T, f *fleet, spec Subject, duration,
	interrupted time.Duration) (effects []string, err error) {
	t.Helper()
	sink := &events{}
	planned := faults.Planned{Fault: &spec, PlannedFault: history.PlannedFault{For: duration}}
	injector := NewInjector(f, len(f.alive), len(f.alive))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	heal, err := injector.Inject(ctx, faults.NewActive(planned, sink, f.clock))
	if err != nil {
		return nil, err
	}
	if interrupted > 0 {
		time.Sleep(interrupted)
		cancel()
	} else {
		time.Sleep(duration)
	}
	healing, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	err = heal(healing)
	for _, event := range sink.all {
		effects = append(effects, fmt.Sprintf("%v %s %d (%d)", event.Time, event.Text, event.Instance, event.Aux))
	}
	return effects, err
}

type events struct {
	mu  sync.Mutex
	all []history.Event
}

func (e *events) Record(event history.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

func ms(n int) units.Duration { return units.Duration(time.Duration(n) * time.Millisecond) }

func TestSubjectFaults(t *testing.T) {
	one, zero := 1, 0
	tests := []struct {
		name        string
		spec        Subject
		duration    time.Duration
		interrupted time.Duration
		effects     string
	}{
		{"KILL, back at heal", Subject{Instance: &one, Signal: "KILL"}, time.Second, 0,
			"100ms process ended 1 (-1), 1.3s process started and ready 1 (0)"},
		{"KILL, back after a while", Subject{Instance: &one, Signal: "KILL", RestartAfter: ms(500)},
			5 * time.Second, 0, "100ms process ended 1 (-1), 900ms process started and ready 1 (0)"},
		{"TERM as an instant waits for its restart", Subject{Instance: &zero, Signal: "TERM", RestartAfter: ms(500)},
			0, 0, "100ms process ended 0 (0), 900ms process started and ready 0 (0)"},
		{"TERM as an instant", Subject{Signal: "TERM"}, 0, 0,
			"100ms process ended 0 (0), 400ms process started and ready 0 (0)"},
		{"STOP", Subject{Instance: &one, Signal: "STOP"}, 2 * time.Second, 0,
			"0s process paused 1 (0), 2s process continued 1 (0)"},
		{"restart", Subject{Instance: &one, Restart: true}, 0, 0,
			"100ms process ended 1 (0), 400ms process started and ready 1 (0)"},
		{"rolling restart, apart", Subject{All: true, Every: ms(1000), Restart: true}, 3 * time.Second, 0,
			"100ms process ended 0 (0), 400ms process started and ready 0 (0), " +
				"1.1s process ended 1 (0), 1.4s process started and ready 1 (0), " +
				"2.1s process ended 2 (0), 2.4s process started and ready 2 (0)"},
		{"rolling restart, never two at a time", Subject{All: true, Every: ms(10), Restart: true}, 0, 0,
			"100ms process ended 0 (0), 400ms process started and ready 0 (0), " +
				"500ms process ended 1 (0), 800ms process started and ready 1 (0), " +
				"900ms process ended 2 (0), 1.2s process started and ready 2 (0)"},
		{"all killed, back at heal", Subject{All: true, Signal: "KILL"}, time.Second, 0,
			"100ms process ended 0 (-1), 200ms process ended 1 (-1), 300ms process ended 2 (-1), " +
				"1.3s process started and ready 0 (0), 1.6s process started and ready 1 (0), 1.9s process started and ready 2 (0)"},
		{"interrupted while it waits for its restart", Subject{Signal: "KILL", RestartAfter: ms(60_000)}, time.Minute,
			time.Second, "100ms process ended 0 (-1), 1.3s process started and ready 0 (0)"},
		{"interrupted rolling restart hits no further one", Subject{All: true, Every: ms(1000), Restart: true},
			time.Minute, 1200 * time.Millisecond,
			"100ms process ended 0 (0), 400ms process started and ready 0 (0), 1.1s process ended 1 (0), 1.4s process started " +
				"and ready 1 (0)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(3)
				effects, err := trial(t, f, test.spec, test.duration, test.interrupted)
				if got := strings.Join(effects, ", "); err != nil || got != test.effects {
					t.Errorf("%v, effects\n%s, want\n%s", err, got, test.effects)
				}
				for instance := range 3 {
					if !f.alive[instance] || f.paused[instance] {
						t.Errorf("instance %d was not brought back", instance)
					}
				}
			})
		})
	}
}

// scaling is trial with a fleet of count instances and a maximum of most.
func scaling(t *testing.T, f *fleet, spec Subject, duration,
	healAfter time.Duration) (effects []string, err error) {
	t.Helper()
	sink := &events{}
	injector := NewInjector(f, len(f.alive), len(f.alive)+2)
	planned := faults.Planned{Fault: &spec, PlannedFault: history.PlannedFault{For: duration}}
	heal, err := injector.Inject(t.Context(), faults.NewActive(planned, sink, f.clock))
	if err != nil {
		return nil, err
	}
	time.Sleep(healAfter)
	healing, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	err = heal(healing)
	for _, event := range sink.all {
		effects = append(effects, fmt.Sprintf("%v %s %d", event.Time, event.Text, event.Instance))
	}
	slices.Sort(effects) // simultaneous effects come in any order
	return effects, err
}

func TestScaling(t *testing.T) {
	for _, test := range []struct {
		name                string
		spec                Subject
		duration, healAfter time.Duration
		effects             string
		aliveAfter          string
	}{
		{"up for a while", Subject{ScaleUp: 2}, time.Second, time.Second,
			"1.1s process ended 2, 1.1s process ended 3, 300ms process started and ready 2, 300ms process started and ready 3",
			"1100"},
		{"up for good", Subject{ScaleUp: 1}, 0, 0, "300ms process started and ready 2", "1110"},
		{"up, interrupted before they are ready", Subject{ScaleUp: 2}, time.Second, 100 * time.Millisecond, "",
			"1100"},
		{"down", Subject{ScaleDown: 2}, time.Second, time.Second,
			"1.3s process started and ready 0, 1.3s process started and ready 1, 100ms process ended 0, 100ms process ended 1",
			"1100"},
		{"down by one is the last", Subject{ScaleDown: 1}, time.Second, time.Second,
			"1.3s process started and ready 1, 100ms process ended 1", "1100"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(2)
				effects, err := scaling(t, f, test.spec, test.duration, test.healAfter)
				if got := strings.Join(effects, ", "); err != nil || got != test.effects {
					t.Errorf("%v, effects\n%s, want\n%s", err, got, test.effects)
				}
				alive := ""
				for instance := range 4 {
					alive += map[bool]string{true: "1", false: "0"}[f.Alive(instance)]
				}
				if alive != test.aliveAfter || f.busy != 0 {
					t.Errorf("then %s are alive, want %s; %d calls go on", alive, test.aliveAfter, f.busy)
				}
			})
		})
	}
}

// An added instance that never got ready is ended as well, but had no effect on anything.
func TestScalingUpWithoutEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(1)
		f.aliveAtOnce = true
		effects, err := scaling(t, f, Subject{ScaleUp: 1}, time.Second, 100*time.Millisecond)
		if err != nil || len(effects) > 0 || f.Alive(1) {
			t.Errorf("%v, effects %q, still there: %v", err, effects, f.Alive(1))
		}
	})
}

// An instance that has ended by itself does not count as scaled down, and lifting the fault does not restart it.
func TestScalingDownTakesTheLastThatRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(3)
		f.alive[2] = false
		effects, err := scaling(t, f, Subject{ScaleDown: 1}, time.Second, time.Second)
		if got := strings.Join(effects, ", "); err != nil ||
			got != "1.3s process started and ready 1, 100ms process ended 1" || f.alive[2] {
			t.Errorf("%v, effects %s", err, got)
		}
	})
}

// Faults that scale up at the same time get separate instances, and a number is used again when its fault is over.
func TestScalingUpTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink := newFleet(1), &events{}
		injector := NewInjector(f, 1, 3)
		inject := func(count int) (faults.Heal, error) {
			planned := faults.Planned{Fault: &Subject{ScaleUp: count}, PlannedFault: history.PlannedFault{For: time.Second}}
			heal, err := injector.Inject(t.Context(), faults.NewActive(planned, sink, f.clock))
			time.Sleep(time.Second)
			return heal, err
		}
		first, err := inject(1)
		if err != nil {
			t.Fatal(err)
		}
		second, err := inject(1)
		if err != nil || !f.Alive(1) || !f.Alive(2) {
			t.Fatalf("%v, alive %v", err, f.alive)
		}
		if _, err := inject(1); err == nil || !strings.Contains(err.Error(), "room for 3") {
			t.Errorf("a third: %v", err)
		}
		if err := errors.Join(first(t.Context()), second(t.Context())); err != nil {
			t.Error(err)
		}
		again, err := inject(2)
		if err != nil {
			t.Fatal(err)
		}
		if err := again(t.Context()); err != nil || f.Alive(1) || f.Alive(2) {
			t.Errorf("%v, alive %v", err, f.alive)
		}
	})
}

func TestAnEndedInstanceCannotBeHitButComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(1)
		f.alive[0] = false
		effects, err := trial(t, f, Subject{Signal: "KILL"}, time.Second, 0)
		if err != nil || len(effects) > 0 || !f.alive[0] {
			t.Errorf("%v, effects %q of a fault that hit nothing, alive again: %v", err, effects, f.alive[0])
		}
	})
}

func TestAnInstanceThatDoesNotStartIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(1)
		f.failStarts = 2
		effects, err := trial(t, f, Subject{Signal: "KILL"}, time.Second, 0)
		if err != nil || len(effects) != 2 || !f.alive[0] {
			t.Errorf("%v, effects %v", err, effects)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(1)
		f.failStarts = 1000
		if _, err := trial(t, f, Subject{Restart: true}, time.Second, 0); err == nil ||
			!strings.Contains(err.Error(), "before it was ready") {
			t.Errorf("got %v", err)
		}
	})
}

func TestSubjectFaultErrors(t *testing.T) {
	seven := 7
	for want, spec := range map[string]Subject{
		"no instance 7":      {Instance: &seven, Signal: "KILL"},
		`"HUP" is no signal`: {Signal: "HUP"},
		"only 2 instances":   {ScaleDown: 3},
		"room for 2":         {ScaleUp: 1},
	} {
		if _, err := trial(t, newFleet(2), spec, 0, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
	injector := NewInjector(newFleet(1), 1, 1)
	if _, err := injector.Inject(t.Context(), faults.NewActive(faults.Planned{}, &events{}, history.NewClock())); err ==
		nil {
		t.Error("a fault without settings was injected")
	}
	f := newFleet(1)
	f.endErr = errors.New("stuck in the kernel")
	if _, err := trial(t, f, Subject{Signal: "KILL"}, 0, 0); !errors.Is(err, f.endErr) {
		t.Errorf("got %v, want the process's error", err)
	}
}

// If the time to lift a fault runs out, Heal cuts the work short and leaves no goroutine behind.
func TestHealingEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(1)
		injector := NewInjector(f, 1, 1)
		planned := faults.Planned{Fault: &Subject{Restart: true}}
		heal, err := injector.Inject(t.Context(), faults.NewActive(planned, &events{}, f.clock))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if err := heal(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if f.busy != 0 {
			t.Error("healing has returned and the fault goes on")
		}
	})
}
