package store

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// rig is a store that records the calls made to it.
type rig struct {
	done        []string
	connections int
	locked      int // entries that the worker locks meanwhile
	written     int
	outOfOrder  int
	fails       error
	effects     []string
	watched     map[int]func() // by worker, as in a run
}

func (r *rig) Record(event history.Event) {
	if event.Kind == history.KindFaultEffect {
		r.effects = append(r.effects, fmt.Sprintf("%d %s (%d)", event.N, event.Text, event.Instance))
	}
}

func (r *rig) Stop(context.Context) (int, error) {
	r.done = append(r.done, "stop")
	return r.connections, r.fails
}

func (r *rig) Crash(context.Context) (int, error) {
	r.done = append(r.done, "crash")
	return r.connections, r.fails
}

func (r *rig) Resume(ctx context.Context) error {
	r.done = append(r.done, "resume")
	return ctx.Err()
}

func (r *rig) SetClock(_ context.Context, worker int, offset time.Duration) error {
	r.done = append(r.done, fmt.Sprintf("worker %d %s", worker, offset))
	return r.fails
}

func (r *rig) WatchLocks(worker int, locked func()) func() {
	for range r.locked {
		locked()
	}
	if r.watched == nil {
		r.watched = map[int]func(){}
	}
	r.watched[worker] = locked
	return func() { r.watched[worker] = nil }
}

// lock is the worker locking an entry.
func (r *rig) lock(worker int) {
	if locked := r.watched[worker]; locked != nil {
		locked()
	}
}

func (r *rig) Repeat(_ context.Context, share float64, seed uint64) (int, int, error) {
	r.done = append(r.done, fmt.Sprintf("repeat %g with %d", share, seed))
	return r.written, r.outOfOrder, r.fails
}

func (r *rig) Unhealthy(_ context.Context, how string, answered func()) (func(), error) {
	r.done = append(r.done, "unhealthy "+how)
	for range r.written {
		answered()
	}
	return func() { r.done = append(r.done, "healthy") }, r.fails
}

// inject injects the fault and lifts it.
func inject(ctx context.Context, r *rig, spec Store, database Database) error {
	planned := faults.Planned{Fault: &spec, Seed: 7}
	heal, err := (&Injector{Database: database, Workers: r, Letters: r, Health: r}).Inject(ctx,
		faults.NewActive(planned, r, history.NewClock()))
	if err != nil {
		return err
	}
	r.done = append(r.done, "in force")
	return heal(context.WithoutCancel(ctx))
}

func TestWhatIsDone(t *testing.T) {
	minute := units.Duration(time.Minute)
	for name, one := range map[string]struct {
		spec          Store
		rig           rig
		done, effects []string
	}{
		"restart": {
			Store{Restart: true}, rig{connections: 3}, []string{"stop", "resume", "in force"},
			[]string{"3 connections to the database ended (-1)", "1 database stopped (-1)", "1 database started (-1)"},
		},
		"crash": {
			Store{Crash: true}, rig{connections: 1}, []string{"crash", "in force", "resume"},
			[]string{"1 connections to the database ended (-1)", "1 database crashed (-1)", "1 database started (-1)"},
		},
		"a database that nobody uses": {Store{Crash: true}, rig{}, []string{"crash", "in force", "resume"}, nil},
		"ahead": {Store{Process: "worker 2", ClockAhead: minute}, rig{locked: 5},
			[]string{"worker 2 1m0s", "in force", "worker 2 0s"},
			[]string{"5 entries locked by a worker whose clock is wrong (" + fmt.Sprint(history.Worker(2)) + ")"}},
		"behind, and nothing was done": {Store{Process: "worker 0", ClockBehind: minute}, rig{},
			[]string{"worker 0 -1m0s", "in force", "worker 0 0s"}, nil},
		"letters": {Store{RepeatLetters: 0.5}, rig{written: 8, outOfOrder: 5},
			[]string{"repeat 0.5 with 7", "in force"}, []string{"8 dead letters written again (-1)",
				"5 dead letters written after one that was younger (-1)"}},
		"unhealthy": {Store{Unhealthy: "cpu"}, rig{written: 3},
			[]string{"unhealthy cpu", "in force", "healthy"}, []string{"3 health probes answered with what is wrong (-1)"}},
		"unhealthy, and nobody asked": {Store{Unhealthy: "cpu"}, rig{},
			[]string{"unhealthy cpu", "in force", "healthy"}, nil},
		"no dead letters": {Store{RepeatLetters: 0.5}, rig{}, []string{"repeat 0.5 with 7", "in force"},
			nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := one.rig
			if err := inject(t.Context(), &r, one.spec, &r); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(r.done, one.done) || !reflect.DeepEqual(r.effects, one.effects) {
				t.Errorf("did %q with the effects %q, want %q with %q", r.done, r.effects, one.done, one.effects)
			}
		})
	}
}

// lateRig has its first lock and its first answer to a health probe after a time.
type lateRig struct {
	*rig
	after time.Duration
	ended time.Duration
}

func (r *lateRig) Record(event history.Event) {
	if event.Kind == history.KindFaultEnd {
		r.ended = event.Time
	}
}

func (r *lateRig) WatchLocks(_ int, locked func()) func() {
	timer := time.AfterFunc(r.after, locked)
	return func() { timer.Stop() }
}

func (r *lateRig) Unhealthy(_ context.Context, _ string, answered func()) (func(), error) {
	timer := time.AfterFunc(r.after, answered)
	return func() { timer.Stop() }, nil
}

// Faults on workers that have met nothing when their time is over stay in force until they have, and then for their
// duration, although they report their effects at their end.
func TestFaultsOnWorkersArePatient(t *testing.T) {
	for name, spec := range map[string]Store{
		"clock":     {Process: "worker 1", ClockAhead: units.Duration(time.Minute)},
		"unhealthy": {Unhealthy: UnhealthyCPU},
	} {
		for after, want := range map[time.Duration]time.Duration{
			time.Second: 2 * time.Second, 5 * time.Second: 7 * time.Second,
		} {
			t.Run(fmt.Sprint(name, " ", after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := &lateRig{rig: &rig{}, after: after}
					nemesis := &faults.Nemesis{Injectors: map[string]faults.Injector{"store": &Injector{Workers: r, Health: r}},
						Sink: r, Clock: history.NewClock(), Closing: make(chan struct{})}
					planned := faults.Planned{Fault: &spec, Patient: spec.Traits().Patient,
						PlannedFault: history.PlannedFault{Kind: "store", For: 2 * time.Second}}
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					if err := nemesis.Carry(ctx, planned); err != nil {
						t.Fatal(err)
					}
					if got := r.ended.Round(time.Millisecond); got != want {
						t.Errorf("it met something after %s and ended after %s, want %s", after, got, want)
					}
				})
			})
		}
	}
}

// A restart in progress is completed even if the run is interrupted.
func TestAnInterruptedRestart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := &rig{connections: 1}
	if err := inject(ctx, r, Store{Restart: true}, r); err != nil {
		t.Errorf("the database did not come back: %v", err)
	}
}

func TestWhatCannotBeDone(t *testing.T) {
	wrong := errors.New("wrong")
	for name, one := range map[string]struct {
		spec Store
		rig  rig
		done []string
	}{
		"no database": {Store{Crash: true}, rig{}, nil},
		"a clock that can't be set": {Store{Process: "worker 1", ClockAhead: 1}, rig{fails: wrong},
			[]string{"worker 1 1ns", "worker 1 0s"}},
		"dead letters that can't be written": {Store{RepeatLetters: 1}, rig{fails: wrong}, []string{"repeat 1 with 7"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := one.rig
			if err := inject(t.Context(), &r, one.spec, nil); err == nil ||
				!reflect.DeepEqual(r.done, one.done) || len(r.effects) > 0 {
				t.Errorf("did %q with the effects %q and the error %v", r.done, r.effects, err)
			}
		})
	}
}
