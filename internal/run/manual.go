package run

// Manual control of a run: people inject and lift faults while it goes on.
//
// Everything goes through the same nemesis and injectors as planned faults, and the same events. What differs is the
// header. A planned fault stands in it from the start; here a fault gets its index, and the header is written anew with
// it, right before it is injected:
//
//	Enter: index, header on disk ─▶ fault-start ─▶ inject ─▶ … ─▶ Leave: how long ─▶ heal ─▶ fault-end
//
// so that no event is ever recorded of a fault that the header does not know, even if the run is killed. The scenario's
// own faults and those of its script go the same way: the header of such a run has what was injected, in that order,
// and nothing that was never due because the load was ended before.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/scenarios"
)

var (
	// ErrNotOpen says that nothing can be broken yet, or any more.
	ErrNotOpen = errors.New("no fault can be injected now")
	// ErrRefused says that what was asked for can't be, in this run or at all.
	ErrRefused = errors.New("this can't be done")
)

// ManualOptions set what people may do, and who is told of it.
type ManualOptions struct {
	// Spare is how many instances can be added at a time beyond those of the scenario. A graph, or a subject with a
	// dead-letter store, has none.
	Spare int
	// Rerun is the command line that runs a recording, with %s for its file.
	Rerun string
	// Opened, if set, is called when the steady load has begun, with how long ago that was and its length: from then on
	// things can be broken. Times are counted from its beginning, so that who keeps a clock of his own has to set it by
	// that: on a busy machine the call comes late.
	Opened func(since, steady time.Duration)
	// Told, if set, is told what becomes of faults, in order. It must not call the Manual back.
	Told func(FaultNews)
}

// FaultNews is what became of a fault; times are from the start of the steady phase.
type FaultNews struct {
	// Index is its place in the header, Written how a scenario writes it, Planned what was made of that.
	Index   int
	Written catalogue.Spec
	Planned faults.Planned
	// By is what Break was given; nil for the scenario's own faults.
	By    any
	Stage FaultStage
	At    time.Duration
	// Err is why it could not be injected or healed.
	Err error
}

// FaultStage is where a fault is in its life.
type FaultStage string

// The stages: a fault is injected, then it leaves (healing begins) and is healed; or it fails, in one or the other.
const (
	FaultInjected FaultStage = "injected"
	FaultLeaving  FaultStage = "leaving"
	FaultHealed   FaultStage = "healed"
	FaultFailed   FaultStage = "failed"
)

// Manual injects and lifts faults while a run goes on; it is given to one run in its Options. All methods can be called
// from any goroutine at any time.
type Manual struct {
	options ManualOptions
	stop    chan struct{} // closed when the load is to end
	over    chan struct{} // closed when nothing can be broken any more

	group   sync.WaitGroup // what was broken by hand and is not healed
	telling sync.Mutex     // keeps news in order
	// replaying is held while the replay tool runs.
	replaying sync.Mutex

	mu     sync.Mutex
	at     *workplace
	closed bool
	broken []broken
	hand   map[string]byHand // by name, until entered
	failed []error
	// active is how many faults are in force, busy when there last was one, since the steady phase began.
	active int
	busy   time.Duration
	// replayed are the records whose dead letters were put back by hand.
	replayed map[int32]bool
	// stopped is when the load ended, on the run's clock; instances is how many have had a process.
	stopped   time.Duration
	instances int
}

// byHand is a fault that somebody breaks, until the nemesis has entered it.
type byHand struct {
	written catalogue.Spec
	by      any
	began   chan error
}

// workplace is the run while it can be broken.
type workplace struct {
	ctx     context.Context
	run     *run
	nemesis *faults.Nemesis
	steady  time.Duration
	written []catalogue.Spec // those of the plan
}

// broken is one fault that was injected.
type broken struct {
	written catalogue.Spec
	planned faults.Planned
	by      any
	// began gets one value when it is in force, or could not be injected; nil for what was planned.
	began   chan error
	refused error
	from    time.Duration
	// healed: somebody has asked for its healing; cut: it ended before its time by that, or because the load was ended
	// by hand.
	healed, cut bool
}

// NewManual returns the manual control of one run.
func NewManual(options ManualOptions) *Manual {
	return &Manual{options: options, stop: make(chan struct{}), over: make(chan struct{}), hand: map[string]byHand{},
		replayed: map[int32]bool{}}
}

// EndLoad ends the load now: what was not sent is not a part of the run. What is in force is healed, and the run goes
// on to its end.
func (h *Manual) EndLoad() {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.stop:
	default:
		close(h.stop)
	}
}

// Break injects a fault now and returns when it is in force. written has no At, When and After; without For it stays
// until it is healed by hand, at the latest until the load ends. by is for the news of it. The error is ErrRefused or
// ErrNotOpen where nothing was done. When ctx ends first the fault may come into force later.
func (h *Manual) Break(ctx context.Context, written catalogue.Spec, by any) (faults.Planned, error) {
	at, planned, began, err := h.take(written, by)
	if err != nil {
		return planned, err
	}
	go func() {
		defer h.group.Done()
		err := at.nemesis.Carry(at.ctx, planned)
		h.forget(planned.Name, err)
	}()
	select {
	case err := <-began:
		if errors.Is(err, faults.ErrOver) {
			return planned, fmt.Errorf("%w: the load has ended", ErrNotOpen)
		}
		if err != nil {
			return planned, fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return h.named(planned.Name), nil
	case <-ctx.Done():
		return planned, fmt.Errorf("injecting fault %s goes on: %w", planned.Name, ctx.Err())
	}
}

// Heal heals a fault by its index and returns when it is healed.
func (h *Manual) Heal(ctx context.Context, index int) error {
	h.mu.Lock()
	at := h.at
	if index >= 0 && index < len(h.broken) {
		h.broken[index].healed = true
	}
	h.mu.Unlock()
	if at == nil {
		return fmt.Errorf("%w: with the end of the load everything is healed", ErrNotOpen)
	}
	err := at.nemesis.Heal(ctx, index)
	if errors.Is(err, faults.ErrNotInForce) {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}

// Alive reports whether an instance has a process; false also before the load begins.
func (h *Manual) Alive(instance int) bool {
	h.mu.Lock()
	at := h.at
	h.mu.Unlock()
	return at != nil && instance >= 0 && instance < at.run.header.Instances && at.run.subject.Alive(instance)
}

// take checks a fault and reserves its name; group counts it from then on.
func (h *Manual) take(written catalogue.Spec, by any) (*workplace, faults.Planned, <-chan error, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.at
	if at == nil || h.closed {
		return nil, faults.Planned{}, nil, h.notOpen()
	}
	if written.At != 0 || written.When != "" || written.After != 0 {
		return nil, faults.Planned{}, nil,
			fmt.Errorf("%w: a fault injected by hand starts at once: leave out at, when and after", ErrRefused)
	}
	written.At = milliseconds(at.now())
	left := at.run.plan.Steady - written.At.D()
	if left <= 0 {
		return nil, faults.Planned{}, nil, h.notOpen()
	}
	// One that does not end by itself stays until somebody lifts it.
	open := written.For == 0 && written.Traits().EndsItself == ""
	if open {
		written.For = units.Duration(left)
	}
	written.Name, written.MayMiss = h.name(at, written), true
	if err := h.check(at, written); err != nil {
		return nil, faults.Planned{}, nil, err
	}
	planned := plan.Fault(at.run.scenario, at.run.plan.Seed, history.None, written.Name, written)
	planned.Open = open
	began := make(chan error, 1)
	h.hand[written.Name] = byHand{written, by, began}
	h.group.Add(1)
	return at, planned, began, nil
}

// notOpen says why nothing can be broken; h.mu is held.
func (h *Manual) notOpen() error {
	if h.closed || h.at != nil {
		return fmt.Errorf("%w: the load has ended", ErrNotOpen)
	}
	return fmt.Errorf("%w: the load has not begun yet", ErrNotOpen)
}

// name is the fault's own name, or what it is called by default, numbered where that is taken; h.mu is held.
func (h *Manual) name(at *workplace, written catalogue.Spec) string {
	all := append([]catalogue.Spec{}, at.written...)
	for i := range all {
		all[i].Name = at.run.plan.Faults[i].Name
	}
	for _, one := range h.broken {
		all = append(all, one.written)
	}
	for _, one := range h.hand {
		all = append(all, one.written)
	}
	names := plan.FaultNames(append(all, written))
	return names[len(names)-1]
}

// check holds a fault to what a scenario with it would be held to; h.mu is held.
func (h *Manual) check(at *workplace, written catalogue.Spec) error {
	if written.Broker != nil && at.run.options.Cluster.Provider == ClusterExternal {
		if err := at.run.options.Cluster.External.CanBreak(written.Broker.Action()); err != nil {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
	}
	err := scenarios.CheckRecording(at.run.options.Source, scenarios.Recording{
		Seed: at.run.plan.Seed, Steady: at.run.plan.Steady, Faults: append(h.written(), written),
		Subject: at.run.options.SubjectFile,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return nil
}

// written are the faults that were injected, as a scenario writes them; h.mu is held.
func (h *Manual) written() []catalogue.Spec {
	var all []catalogue.Spec
	for _, one := range h.broken {
		if one.refused == nil {
			all = append(all, one.written)
		}
	}
	return all
}

// named returns the fault as it was entered.
func (h *Manual) named(name string) faults.Planned {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.broken {
		if h.broken[i].written.Name == name {
			return h.broken[i].planned
		}
	}
	return faults.Planned{}
}

// forget is called when a fault by hand is over; one that was never entered is gone without a trace.
func (h *Manual) forget(name string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if one, waits := h.hand[name]; waits {
		delete(h.hand, name)
		one.began <- err
	}
}

// milliseconds is d in whole ones, so that what is recorded stays readable.
func milliseconds(d time.Duration) units.Duration {
	return units.Duration(d.Truncate(time.Millisecond))
}

// now is the time since the steady phase began.
func (w *workplace) now() time.Duration { return w.run.clock.Now() - w.steady }
