package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// Planned is one fault of the plan: what the scenario wrote, and the choices made for it.
type Planned struct {
	// Index is its place in the scenario's list and in Header.Faults.
	Index int
	// Fault is what the injector of its kind makes.
	Fault Fault
	// Written is all of it as a scenario would write it, for the plan's file.
	Written any
	// Trigger is the event that the fault waits for, nil if it follows the clock; it starts After that.
	Trigger *Trigger
	After   time.Duration
	// Patient is Traits.Patient.
	Patient bool
	// Seed is the fault's own, for what is drawn per request.
	Seed uint64
	// Open: nobody said how long it lasts; For is the longest it can.
	Open bool
	history.PlannedFault
}

// Active is a fault that is being injected: what it is, and where it reports what it does.
type Active struct {
	Planned
	sink  history.Sink
	clock history.Clock
	met   *met
}

// met tells when a fault has done something for the first time.
type met struct {
	once sync.Once
	done chan struct{}
	at   time.Duration
}

// NewActive returns the fault reporting to sink.
func NewActive(planned Planned, sink history.Sink, clock history.Clock) Active {
	return Active{Planned: planned, sink: sink, clock: clock, met: &met{done: make(chan struct{})}}
}

// Effect notes what the fault did: count times what ("connections cut"); aux is a time in ns or a number of bytes, as
// what says; instance is history.None where it can't be attributed. It is safe for concurrent use.
func (a Active) Effect(what string, count int, aux int64, instance int) {
	event := history.New(history.KindFaultEffect, a.clock.Now())
	event.Op, event.N, event.Aux, event.Instance, event.Text = int64(a.Index), int32(count), aux, int16(instance), what
	a.sink.Record(event)
	if count > 0 {
		a.Met()
	}
}

// Met notes that the fault does something, where its effect is counted and reported later. It is safe for concurrent
// use.
func (a Active) Met() {
	if a.met != nil {
		a.met.once.Do(func() { a.met.at = a.clock.Now(); close(a.met.done) })
	}
}

// Heal removes a fault and returns when what it broke is confirmed back.
type Heal func(context.Context) error

// Injector makes the faults of one kind. Inject returns as soon as the fault is in force; it reports through active
// what the fault does from then on. The returned Heal is called exactly once, also when the run is interrupted.
type Injector interface {
	Inject(ctx context.Context, active Active) (Heal, error)
}

// Ledger is told of faults while they are carried out.
type Ledger interface {
	// Enter gives a fault its index, right before it is injected; with an error it is not injected. It is ErrOver when
	// the time for faults has just come to its end: no error of the schedule.
	Enter(Planned) (index int, err error)
	// Began is called when it is in force, or with why it could not be injected; then nothing else follows.
	Began(index int, err error)
	// Leave is called when it has lasted long enough, right before it is healed, and Done when it is healed, or could
	// not be.
	Leave(index int)
	Done(index int, err error)
}

// Nemesis carries out the schedule.
type Nemesis struct {
	// Injectors by kind: network, kafka, broker, subject, downstream.
	Injectors map[string]Injector
	Sink      history.Sink
	Clock     history.Clock
	// Triggers tells when the events happen that faults wait for (Planned.Trigger); it may be nil when none does.
	Triggers Triggers
	// Steady is how long the steady phase lasts: an event that has not come by its end starts nothing any more, unless
	// Closing is set.
	Steady time.Duration
	// Closing, if set, is closed when nothing further can come: until then events are waited for, and a fault that has
	// met nothing stays in force.
	Closing <-chan struct{}
	// Observe, if set, is told when a fault starts (true) and when it has been healed, or was not injected after all
	// (false).
	Observe func(Planned, bool)
	// Ledger, if set, is where faults get the index under which they are recorded, in place of the plan's: this is how a
	// fault that nobody planned gets one.
	Ledger Ledger
	// Over, if set, is closed when the time for faults is over before its planned end: no further one is injected, and
	// what is in force is healed.
	Over <-chan struct{}

	mu      sync.Mutex
	inForce map[int]*inForce
	// over has a channel for each fault of the schedule that is in force or will be, closed when it is healed or left
	// out. What waits for an event has one from its injection on: the event may never come.
	over map[int]chan struct{}
}

const (
	// healLimit bounds how long healing one fault may take: brokers that were killed together recover their logs one
	// after another, each on what the machine has left for it; and a command of the user's that starts one has a
	// minute, and then half a minute for the broker to answer.
	healLimit = 100 * time.Second
	// interruptedLimit is what is left of that when the run is interrupted, counted from the interruption.
	interruptedLimit = 4 * time.Second
)

// Run injects every fault at its time, counted from steady on the run's clock, or a while after the event that it waits
// for, and heals it after its duration. It returns when all are healed; when ctx ends it heals at once what is in
// force. A fault whose event does not come in the steady phase, or until Closing, is left out: the history shows that
// it was never injected. One whose event comes late may last beyond the steady phase.
//
// What the schedule puts one after another stays so: a fault whose time comes after another's end waits for that end if
// it is late, because what the other ended had to get ready first, or because it had met nothing by its planned end
// (see wait). The errors of all faults are joined.
func (n *Nemesis) Run(ctx context.Context, steady time.Duration, schedule []Planned) error {
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		errs  []error
	)
	for _, planned := range schedule {
		if planned.Trigger == nil {
			n.expect(planned.Index)
		}
	}
	for _, planned := range schedule {
		group.Go(func() {
			defer n.passed(planned.Index)
			if err := n.carryOut(ctx, steady, planned, schedule); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (n *Nemesis) carryOut(ctx context.Context, steady time.Duration, planned Planned, schedule []Planned) error {
	if n.Injectors[planned.Kind] == nil {
		return noInjector(planned)
	}
	waiting, cancel := n.untilOver(ctx)
	defer cancel()
	start, due, err := n.due(waiting, steady, planned, schedule)
	if err != nil {
		return fmt.Errorf("injecting fault %s: %w", planned.Name, err)
	}
	if !due {
		return nil
	}
	n.expect(planned.Index)
	if err := n.carry(ctx, planned, start+planned.For); !errors.Is(err, ErrOver) {
		return err
	}
	return nil
}

// due waits until a fault is to be injected, and returns when that is; due is false when the run is interrupted before,
// or what the fault waits for does not come in time.
func (n *Nemesis) due(ctx context.Context, steady time.Duration, planned Planned,
	schedule []Planned) (start time.Duration, due bool, err error) {
	if planned.Trigger != nil && n.Triggers == nil {
		return 0, false, fmt.Errorf("trigger %q is not available in this run", planned.When)
	}
	start = steady + planned.At
	if !SleepUntil(ctx, n.Clock, start) || !n.afterOthers(ctx, planned, schedule) {
		return start, false, nil
	}
	if now := n.Clock.Now(); now > start+lateStart {
		start = now
	}
	if planned.Trigger == nil {
		return start, true, nil
	}
	waiting, cancel := n.untilClosing(ctx, steady+n.Steady)
	defer cancel()
	if !n.Triggers.Await(waiting, *planned.Trigger) {
		return 0, false, nil
	}
	start = n.Clock.Now() + planned.After
	// What follows at once must not lose time to a timer: a KILL aims at what the instance does within milliseconds.
	return start, planned.After == 0 || SleepUntil(ctx, n.Clock, start), nil
}

// lateStart is by how much a fault may begin late, for the noise of timers, and still end at its planned time.
const lateStart = 100 * time.Millisecond

// expect notes that others of the schedule have to wait for a fault until passed is called.
func (n *Nemesis) expect(index int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over == nil {
		n.over = map[int]chan struct{}{}
	}
	if n.over[index] == nil {
		n.over[index] = make(chan struct{})
	}
}

// passed notes that a fault is healed, or left out.
func (n *Nemesis) passed(index int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if over := n.over[index]; over != nil {
		delete(n.over, index)
		close(over)
	}
}

// afterOthers waits for the end of what should have ended before the fault's time and has not. It reports false when
// ctx ends first.
func (n *Nemesis) afterOthers(ctx context.Context, planned Planned, schedule []Planned) bool {
	if n.Closing == nil {
		return ctx.Err() == nil
	}
	for _, other := range schedule {
		if other.Index == planned.Index || other.At == planned.At || other.At+other.For > planned.At {
			continue
		}
		n.mu.Lock()
		over := n.over[other.Index]
		n.mu.Unlock()
		if over == nil {
			continue
		}
		select {
		case <-over:
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// untilClosing returns a context that also ends when nothing further can come: with Closing, or else at the time.
func (n *Nemesis) untilClosing(ctx context.Context, at time.Duration) (context.Context, context.CancelFunc) {
	if n.Closing == nil {
		return context.WithTimeout(ctx, at-n.Clock.Now())
	}
	return until(ctx, n.Closing)
}

// healingContext bounds healing. It must also happen when the run is interrupted, so it outlives that, but not by much.
func healingContext(ctx context.Context) (context.Context, context.CancelFunc) {
	healing, cancel := context.WithTimeout(context.WithoutCancel(ctx), healLimit)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(interruptedLimit, cancel) })
	return healing, func() { stop(); cancel() }
}

func (n *Nemesis) note(kind history.Kind, planned Planned) {
	event := history.New(kind, n.Clock.Now())
	event.Op, event.Text = int64(planned.Index), planned.What
	n.Sink.Record(event)
	if n.Observe != nil {
		n.Observe(planned, kind == history.KindFaultStart)
	}
}

// SleepUntil waits until the clock shows at; it reports false when ctx ended first.
func SleepUntil(ctx context.Context, clock history.Clock, at time.Duration) bool {
	timer := time.NewTimer(at - clock.Now())
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
