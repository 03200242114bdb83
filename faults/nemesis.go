package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// Planned is one fault of the plan: the scenario's settings and the choices made for it.
type Planned struct {
	// Index is its position in the scenario's list and in Header.Faults.
	Index int
	// Fault is what the injector of its kind injects.
	Fault Fault
	// Written is the whole fault as a scenario would write it, for the plan's file.
	Written any
	// Trigger is the event that the fault waits for, and After the delay from that event. Trigger is nil if the fault
	// starts at a fixed time.
	Trigger *Trigger
	After   time.Duration
	// Patient is Traits.Patient.
	Patient bool
	// Seed is the fault's own seed, for random choices per request.
	Seed uint64
	// Open: no duration was given. For is then the maximum duration.
	Open bool
	history.PlannedFault
}

// Active is a fault that is being injected, and the sink for its effects.
type Active struct {
	Planned
	sink  history.Sink
	clock history.Clock
	met   *met
}

// met signals that a fault has had its first effect.
type met struct {
	once sync.Once
	done chan struct{}
	at   time.Duration
}

// NewActive returns the fault reporting to sink.
func NewActive(planned Planned, sink history.Sink, clock history.Clock) Active {
	return Active{Planned: planned, sink: sink, clock: clock, met: &met{done: make(chan struct{})}}
}

// Failed records that the fault could not do what it should, which is the reason if it had no effect.
func (a Active) Failed(why error) {
	event := history.New(history.KindFaultEffect, a.clock.Now())
	event.Op, event.N, event.Code, event.Text = int64(a.Index), 0, history.FaultFailed, why.Error()
	a.sink.Record(event)
}

// Effect records an effect of the fault: count times what ("connections cut"). aux is a time in ns or a number of
// bytes, as what implies. instance is history.None if the effect cannot be attributed. It is safe for concurrent use.
func (a Active) Effect(what string, count int, aux int64, instance int) {
	event := history.New(history.KindFaultEffect, a.clock.Now())
	event.Op, event.N, event.Aux, event.Instance, event.Text = int64(a.Index), int32(count), aux, int16(instance), what
	a.sink.Record(event)
	if count > 0 {
		a.Met()
	}
}

// Met records that the fault has had an effect, for faults that count effects and report them later. It is safe for
// concurrent use.
func (a Active) Met() {
	if a.met != nil {
		a.met.once.Do(func() { a.met.at = a.clock.Now(); close(a.met.done) })
	}
}

// Heal lifts a fault and returns when the affected component is confirmed to work again.
type Heal func(context.Context) error

// Injector injects the faults of one kind. Inject returns as soon as the fault is in force. From then on it reports
// the fault's effects through active. The returned Heal is called exactly once, even if the run is interrupted.
type Injector interface {
	Inject(ctx context.Context, active Active) (Heal, error)
}

// Ledger is notified of faults while they are carried out.
type Ledger interface {
	// Enter assigns a fault its index, immediately before the injection. If it returns an error, the fault is not
	// injected. ErrOver means that the time for faults has just ended, which is not an error of the schedule.
	Enter(Planned) (index int, err error)
	// Began is called when the fault is in force, or with the reason why it could not be injected. In the second case
	// no call follows.
	Began(index int, err error)
	// Leave is called when the fault's time is over, immediately before it is lifted. Done is called when it is
	// lifted, or with the reason why it could not be.
	Leave(index int)
	Done(index int, err error)
}

// Nemesis carries out the schedule.
type Nemesis struct {
	// Injectors are the injectors by kind: network, kafka, broker, subject, downstream.
	Injectors map[string]Injector
	Sink      history.Sink
	Clock     history.Clock
	// Triggers reports the events that faults wait for (Planned.Trigger). It may be nil if no fault waits.
	Triggers Triggers
	// Steady is the length of the steady phase. An event after its end starts no fault, unless Closing is set.
	Steady time.Duration
	// Closing, if set, is closed when no further events can occur. Until then the nemesis waits for events, and a
	// fault without an effect stays in force.
	Closing <-chan struct{}
	// Observe, if set, is called with true when a fault starts, and with false when it has been lifted or was not
	// injected after all.
	Observe func(Planned, bool)
	// Ledger, if set, assigns the indices under which faults are recorded, in place of the plan's. Faults that are
	// not in the plan get their index this way.
	Ledger Ledger
	// Over, if set, is closed when the time for faults ends early. No further fault is injected, and the faults in
	// force are lifted.
	Over <-chan struct{}

	mu      sync.Mutex
	inForce map[int]*inForce
	// over has a channel for each fault of the schedule that is or will be in force. It is closed when the fault is
	// lifted or left out. A fault with a trigger has a channel only from its injection on, because its event may
	// never occur.
	over map[int]chan struct{}
}

const (
	// healLimit is the maximum time to lift one fault. Brokers that were killed together recover their logs one after
	// another, each with the remaining capacity of the machine. A user's command that starts a broker has one minute,
	// and the broker then has half a minute to answer.
	healLimit = 100 * time.Second
	// interruptedLimit is the time left to lift a fault after an interruption of the run.
	interruptedLimit = 4 * time.Second
)

// Run injects every fault at its time, or at a delay after the event that it waits for, and lifts it after its
// duration. Times count from steady on the run's clock. Run returns when all faults are lifted. When ctx ends, it
// lifts the faults in force immediately. A fault whose event does not occur in the steady phase, or before Closing,
// is left out, and the history shows that it was never injected. A fault whose event occurs late may last beyond the
// steady phase.
//
// The order of the schedule is kept: a fault that starts after another's planned end waits for the actual end of the
// other if that is late. The other may be late because the process that it ended had to become ready first, or because
// it had no effect by its planned end (see wait). The errors of all faults are joined.
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

// due waits until a fault is to be injected and returns that time. due is false if the run is interrupted before, or
// if the fault's event does not occur in time.
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
	// A fault without a delay must not lose time to a timer: a KILL targets what the instance does within
	// milliseconds.
	return start, planned.After == 0 || SleepUntil(ctx, n.Clock, start), nil
}

// lateStart is how late a fault may start because of timer noise and still end at its planned time.
const lateStart = 100 * time.Millisecond

// expect records that other faults of the schedule must wait for this one until passed is called.
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

// passed records that a fault is lifted or left out.
func (n *Nemesis) passed(index int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if over := n.over[index]; over != nil {
		delete(n.over, index)
		close(over)
	}
}

// afterOthers waits for the end of faults that should have ended before this fault's time and have not. It returns
// false if ctx ends first.
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

// untilClosing returns a context that also ends when no further events can occur: with Closing, or else at the time.
func (n *Nemesis) untilClosing(ctx context.Context, at time.Duration) (context.Context, context.CancelFunc) {
	if n.Closing == nil {
		return context.WithTimeout(ctx, at-n.Clock.Now())
	}
	return until(ctx, n.Closing)
}

// healingContext limits the time to lift a fault. Faults are also lifted when the run is interrupted, so the context
// outlives the interruption, but not by much.
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

// SleepUntil waits until the clock shows at. It returns false if ctx ends first.
func SleepUntil(ctx context.Context, clock history.Clock, at time.Duration) bool {
	select {
	case <-time.After(at - clock.Now()):
		return true
	case <-ctx.Done():
		return false
	}
}
