// Package subject breaks the consumer under test itself: it ends, pauses and restarts instances, and adds some or takes
// some away. It knows instances only by their number and through Instances; how processes are kept is not its business.
package subject

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/dlqbench/dlqbench/faults"
)

// Instances are the processes under test.
type Instances interface {
	// End ends an instance with TERM (and, after its grace, KILL) or KILL, waits until it is gone, and returns its exit
	// code, -1 when a signal ended it.
	End(ctx context.Context, instance int, signal syscall.Signal) (code int, err error)
	// Pause stops an instance in its tracks, or lets it go on.
	Pause(ctx context.Context, instance int, on bool) error
	// Revive starts an instance that is not running, and waits until it is ready.
	Revive(ctx context.Context, instance int) error
}

// Subject is the instances, and which of them have a process.
type Subject interface {
	Instances
	// Alive reports whether an instance has a process; one that has ended by itself can't be hit.
	Alive(instance int) bool
}

// Injector makes the faults of kind "subject".
//
// Effects, each with the instance: "process ended" with its exit code, "process started and ready", "process paused"
// and "process continued". Only what the fault itself did counts: bringing back an instance that had ended by itself is
// no effect of it.
type Injector struct {
	subject Subject
	// count instances are there from the start, most at one time.
	count, most int

	mu    sync.Mutex
	added map[int]bool // the further ones that a fault has taken
}

// NewInjector returns an injector for the subject's instances: those numbered from 0 to count-1 run from the start,
// those up to most-1 are there for faults that scale up.
func NewInjector(subject Subject, count, most int) *Injector {
	return &Injector{subject: subject, count: count, most: most, added: map[int]bool{}}
}

// Inject begins the fault and goes on with it, instance after instance (scaling: all at once), until it is done or
// healed. Without an instance in the spec the first one is hit. Healing waits for what has begun, lets paused instances
// go on, starts the ended ones, and waits until every one is ready; what was added it ends, if the fault has a
// duration.
func (i *Injector) Inject(ctx context.Context, active faults.Active) (faults.Heal, error) {
	spec := active.Spec.Subject
	if spec == nil {
		return nil, errors.New("a fault of the kind subject needs its settings")
	}
	r := &round{subject: i.subject, count: i.count, active: active, spec: *spec, done: make(chan struct{}),
		struck: map[int]bool{}}
	switch {
	case spec.ScaleUp > 0:
		return i.scaleUp(ctx, r)
	case spec.ScaleDown > 0:
		return i.scaleDown(ctx, r)
	}
	targets, err := r.targets()
	if err != nil {
		return nil, err
	}
	act, err := r.action()
	if err != nil {
		return nil, err
	}
	return r.begin(ctx, func(running, acting context.Context) { r.run(running, acting, targets, act) }, r.heal), nil
}

// round is one injection. Its work goes on in a goroutine that healing waits for; hit and err are that goroutine's
// until done.
type round struct {
	subject Subject
	count   int
	active  faults.Active
	spec    faults.Subject
	done    chan struct{}
	hit     []int
	err     error

	mu sync.Mutex
	// struck are the instances that the fault has ended, paused or added, and not only wanted to.
	struck map[int]bool
}

// begin lets the work go on by itself. What has begun must come to its end also when the run is interrupted, but must
// not outlast its healing: acting ends when that is over, or calls cut.
func (r *round) begin(
	ctx context.Context, work func(running, acting context.Context),
	heal func(ctx context.Context, cut context.CancelFunc) error,
) faults.Heal {
	acting, cut := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(r.done)
		work(ctx, acting)
	}()
	return func(healing context.Context) error {
		defer cut()
		return heal(healing, cut)
	}
}

// strike reports what was done to an instance.
func (r *round) strike(what string, aux int64, instance int) {
	r.mu.Lock()
	r.struck[instance] = true
	r.mu.Unlock()
	r.active.Effect(what, 1, aux, instance)
}

func (r *round) hasStruck(instance int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.struck[instance]
}

// targets returns the instances to be hit, in order.
func (r *round) targets() (targets []int, err error) {
	switch {
	case r.spec.All:
		for instance := range r.count {
			targets = append(targets, instance)
		}
		return targets, nil
	case r.spec.Instance != nil:
		targets = []int{*r.spec.Instance}
	default:
		targets = []int{0}
	}
	if targets[0] < 0 || targets[0] >= r.count {
		return nil, fmt.Errorf("there is no instance %d: the subject has %d, numbered from 0", targets[0], r.count)
	}
	return targets, nil
}

// act does to an instance what the fault does. Acting ends when healing has no more time, running already when the run
// is interrupted.
type act func(running, acting context.Context, instance int) error

func (r *round) action() (act, error) {
	end := func(signal syscall.Signal) act {
		return func(running, acting context.Context, instance int) error {
			return r.end(running, acting, instance, signal)
		}
	}
	switch {
	case r.spec.Restart, r.spec.Signal == "TERM":
		return end(syscall.SIGTERM), nil
	case r.spec.Signal == "KILL":
		return end(syscall.SIGKILL), nil
	case r.spec.Signal == "STOP":
		return r.stop, nil
	}
	return nil, fmt.Errorf("%q is no signal for the subject: TERM, KILL or STOP", r.spec.Signal)
}

// run hits the targets one after another, Every apart but never two at a time. When the run is interrupted no further
// one is hit.
func (r *round) run(running, acting context.Context, targets []int, act act) {
	var next time.Time
	for n, target := range targets {
		// The first is hit at once: what waits for an event aims at milliseconds.
		if n > 0 && !pause(running, time.Until(next)) || acting.Err() != nil {
			return
		}
		next = time.Now().Add(r.spec.Every.D())
		r.hit = append(r.hit, target)
		// An instance that has ended by itself, perhaps just now, can't be hit: the fault has no effect there, and
		// reports none.
		if !r.subject.Alive(target) {
			continue
		}
		if err := act(running, acting, target); err != nil && r.subject.Alive(target) {
			r.err = errors.Join(r.err, err)
		}
	}
}

func (r *round) stop(_, acting context.Context, instance int) error {
	if err := r.subject.Pause(acting, instance, true); err != nil {
		return err
	}
	r.strike("process paused", 0, instance)
	return nil
}

// end ends an instance, and brings it back in time if the fault says so. The effect's aux is the exit code.
func (r *round) end(running, acting context.Context, instance int, signal syscall.Signal) error {
	code, err := r.subject.End(acting, instance, signal)
	if err != nil {
		return err
	}
	r.strike("process ended", int64(code), instance)
	if r.spec.Restart || r.spec.RestartAfter > 0 && pause(running, r.spec.RestartAfter.D()) {
		// If it does not come back now, perhaps because another fault is in force, healing tries again and has the last
		// word.
		_ = r.revive(acting, instance)
	}
	return nil
}

// heal waits for the round, or cuts it short when its own time is over, and brings back every instance that was to be
// hit.
func (r *round) heal(ctx context.Context, cut context.CancelFunc) error {
	r.wait(ctx, cut)
	errs := []error{r.err}
	for _, instance := range r.hit {
		errs = append(errs, r.bringBack(ctx, instance))
	}
	return errors.Join(errs...)
}

// wait returns when the round is over; when ctx ends it is cut short.
func (r *round) wait(ctx context.Context, cut context.CancelFunc) {
	select {
	case <-r.done:
	case <-ctx.Done():
		cut()
		<-r.done
	}
}

func (r *round) bringBack(ctx context.Context, instance int) error {
	if r.spec.Signal == "STOP" && r.hasStruck(instance) && r.subject.Alive(instance) {
		if err := r.subject.Pause(ctx, instance, false); err != nil && r.subject.Alive(instance) {
			return err
		}
		r.active.Effect("process continued", 1, 0, instance)
	}
	return r.revive(ctx, instance)
}

// reviveTries is how often an instance is started that ends again at once; the pauses between double from reviveRest.
const (
	reviveTries = 5
	reviveRest  = 250 * time.Millisecond
)

// revive brings an instance back and waits until it is ready. One that ends again before it is ready is started again,
// a few times, as any supervisor would: while a broker is down some consumers can't start.
func (r *round) revive(ctx context.Context, instance int) error {
	wasAlive := r.subject.Alive(instance)
	var err error
	for try, rest := 0, reviveRest; try < reviveTries; try, rest = try+1, 2*rest {
		if err = r.subject.Revive(ctx, instance); err == nil {
			if !wasAlive && r.hasStruck(instance) {
				r.active.Effect("process started and ready", 1, 0, instance)
			}
			return nil
		}
		if !pause(ctx, rest) {
			break
		}
	}
	return err
}

// pause waits; it reports false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
