package run

// Manual control of a run: people inject and lift faults during the run.
//
// Manual faults use the same nemesis, injectors and events as planned faults. Only the header differs. A planned
// fault is in it from the start. A manual fault gets its index, and the header is rewritten with it, right before
// the fault is injected:
//
//	Enter: index, header on disk ─▶ fault-start ─▶ inject ─▶ … ─▶ Leave: how long ─▶ heal ─▶ fault-end
//
// Thus no event is ever recorded of a fault that the header does not know, even if the run is killed. The scenario's
// own faults and those of its script take the same path. The header of such a run has the injected faults, in the
// order of injection, and none that was never due because the load ended before.

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
	// ErrNotOpen says that faults cannot be injected yet, or not any longer.
	ErrNotOpen = errors.New("no fault can be injected now")
	// ErrRefused says that a request cannot be carried out, in this run or at all.
	ErrRefused = errors.New("this can't be done")
)

// ManualOptions set what people may do, and the callbacks that report it.
type ManualOptions struct {
	// Spare is the number of instances that can be added at a time beyond those of the scenario. A graph, or a subject
	// with a dead-letter store, has none.
	Spare int
	// Rerun is the command line that runs a recording, with %s for the recording's file.
	Rerun string
	// Unattended: usually nobody injects anything. Then there is no recording, and the run is repeated by its own command.
	Unattended bool
	// Opened, if set, is called when the steady load has begun and faults can be injected. since is the time since that
	// beginning, steady the length of the phase. All times count from the beginning of the phase. On a busy machine the
	// call comes late, so a caller that keeps a clock of its own must set it by since.
	Opened func(since, steady time.Duration)
	// Told, if set, is called with the news of each fault, in order. It must not call the Manual.
	Told func(FaultNews)
}

// FaultNews is a change in the state of a fault. Times are from the start of the steady phase.
type FaultNews struct {
	// Index is the fault's place in the header, Written the form in which a scenario writes it, Planned the plan made
	// from that form.
	Index   int
	Written catalogue.Spec
	Planned faults.Planned
	// By is the value passed to Break; nil for the scenario's own faults.
	By    fmt.Stringer
	Stage FaultStage
	At    time.Duration
	// Err is the reason why the fault could not be injected or lifted.
	Err error
}

// FaultStage is a stage in the life of a fault.
type FaultStage string

// The stages of a fault: it is injected, it leaves (healing begins), and it is healed. It can fail on injection or
// on healing.
const (
	FaultInjected FaultStage = "injected"
	FaultLeaving  FaultStage = "leaving"
	FaultHealed   FaultStage = "healed"
	FaultFailed   FaultStage = "failed"
)

// Manual injects and lifts faults during a run. It is given to one run in its Options. All methods can be called
// from any goroutine at any time.
type Manual struct {
	options ManualOptions
	stop    chan struct{} // closed when the load is to end
	over    chan struct{} // closed when no fault can be injected any more

	group   sync.WaitGroup // manual faults that are not healed yet
	telling sync.Mutex     // keeps news in order
	// replaying is held while the replay tool runs.
	replaying sync.Mutex

	mu     sync.Mutex
	at     *workplace
	closed bool
	broken []broken
	hand   map[string]byHand // by name, until entered
	failed []error
	// active is the number of faults in force. busy is the last time, since the steady phase began, at which there was
	// one.
	active int
	busy   time.Duration
	// replayed are the records whose dead letters were replayed manually.
	replayed map[int32]bool
	// stopped is when the load ended, on the run's clock. instances is the number of instances that have had a process.
	stopped   time.Duration
	instances int
}

// byHand is a manual fault until the nemesis has entered it.
type byHand struct {
	written catalogue.Spec
	by      fmt.Stringer
	began   chan error
}

// workplace is the run while faults can be injected into it.
type workplace struct {
	ctx     context.Context
	run     *run
	nemesis *faults.Nemesis
	steady  time.Duration
	written []catalogue.Spec // the plan's faults
}

// broken is one fault that was injected.
type broken struct {
	written catalogue.Spec
	planned faults.Planned
	by      fmt.Stringer
	// began gets one value when the fault is in force or could not be injected; nil for planned faults.
	began   chan error
	refused error
	from    time.Duration
	// healed says that somebody asked to lift the fault. cut says that it ended before its time because of that, or
	// because the load was ended manually.
	healed, cut bool
}

// NewManual returns the manual control of one run.
func NewManual(options ManualOptions) *Manual {
	return &Manual{options: options, stop: make(chan struct{}), over: make(chan struct{}), hand: map[string]byHand{},
		replayed: map[int32]bool{}}
}

// EndLoad ends the load now. Records that were not sent are not part of the run. Faults in force are healed, and the
// run continues to its end.
func (h *Manual) EndLoad() {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.stop:
	default:
		close(h.stop)
	}
}

// Break injects a fault now and returns when it is in force. written has no At, When and After. Without For, the
// fault stays until it is lifted, at the latest until the load ends. by is who injects it, as the history names them.
// ErrRefused and ErrNotOpen mean that nothing was done. If ctx ends first, the fault may still come into force later.
func (h *Manual) Break(ctx context.Context, written catalogue.Spec, by fmt.Stringer) (faults.Planned, error) {
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

// Heal lifts a fault by its index and returns when it is healed.
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

// take checks a fault and reserves its name. From then on group counts the fault.
func (h *Manual) take(written catalogue.Spec, by fmt.Stringer) (*workplace, faults.Planned, <-chan error, error) {
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
	// A fault that does not end by itself stays until somebody lifts it.
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

// notOpen returns the reason why no fault can be injected; h.mu is held.
func (h *Manual) notOpen() error {
	if h.closed || h.at != nil {
		return fmt.Errorf("%w: the load has ended", ErrNotOpen)
	}
	return fmt.Errorf("%w: the load has not begun yet", ErrNotOpen)
}

// name returns the fault's own name or its default name, with a number if that name is taken; h.mu is held.
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

// check applies to a fault the checks of a scenario that contains it; h.mu is held.
func (h *Manual) check(at *workplace, written catalogue.Spec) error {
	if written.Broker != nil {
		if err := at.run.options.Cluster.canBreak(written.Broker.Action()); err != nil {
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

// written returns the injected faults as a scenario writes them; h.mu is held.
func (h *Manual) written() []catalogue.Spec {
	var all []catalogue.Spec
	for _, one := range h.broken {
		if one.refused == nil {
			all = append(all, one.written)
		}
	}
	return all
}

// named returns the entered fault with the name.
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

// forget is called when a manual fault is over. A fault that was never entered leaves no trace.
func (h *Manual) forget(name string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if one, waits := h.hand[name]; waits {
		delete(h.hand, name)
		one.began <- err
	}
}

// milliseconds rounds d to whole milliseconds, so that the recording stays readable.
func milliseconds(d time.Duration) units.Duration {
	return units.Duration(d.Truncate(time.Millisecond))
}

// now returns the time since the steady phase began.
func (w *workplace) now() time.Duration { return w.run.clock.Now() - w.steady }
