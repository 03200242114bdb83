package faults

// Faults in force: those of the schedule, and those that a person injects (manual control). The same code carries
// both, so the history does not distinguish them, and a person can lift both before their time.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

var (
	// ErrNotInForce is returned by Heal for a fault that was never injected or is already lifted.
	ErrNotInForce = errors.New("it is not in force")
	// ErrOver is returned by a Ledger when no more faults may be injected.
	ErrOver = errors.New("the time for faults is over")
)

// inForce is a fault between its injection and the end of its lifting.
type inForce struct {
	// heal is closed when someone asks to lift the fault, done when it is lifted or lifting has failed.
	heal, done chan struct{}
	err        error
}

// Carry injects a fault now, keeps it in force for planned.For, until Heal, until Over, or until ctx ends, and lifts
// it. It returns when the fault is lifted and notifies the Ledger of each step. It returns the error of injecting or
// of lifting.
func (n *Nemesis) Carry(ctx context.Context, planned Planned) error {
	if n.Injectors[planned.Kind] == nil {
		return noInjector(planned)
	}
	return n.carry(ctx, planned, n.Clock.Now()+planned.For)
}

// Heal lifts a fault before its time and returns when it is lifted. It returns the error of lifting, or that of ctx
// if ctx ends first.
func (n *Nemesis) Heal(ctx context.Context, index int) error {
	n.mu.Lock()
	one := n.inForce[index]
	if one != nil {
		one.ask()
	}
	n.mu.Unlock()
	if one == nil {
		return ErrNotInForce
	}
	select {
	case <-one.done:
		return one.err
	case <-ctx.Done():
		return fmt.Errorf("healing goes on: %w", ctx.Err())
	}
}

// ask requests that the fault be lifted; n.mu is held.
func (i *inForce) ask() {
	select {
	case <-i.heal:
	default:
		close(i.heal)
	}
}

func (n *Nemesis) carry(ctx context.Context, planned Planned, until time.Duration) error {
	ledger := n.Ledger
	if ledger == nil {
		ledger = asPlanned{}
	}
	index, err := ledger.Enter(planned)
	if err != nil {
		return fmt.Errorf("injecting fault %s (%s): %w", planned.Name, planned.What, err)
	}
	planned.Index = index
	one := n.keep(index)
	n.note(history.KindFaultStart, planned)
	active := NewActive(planned, n.Sink, n.Clock)
	heal, err := n.Injectors[planned.Kind].Inject(ctx, active)
	if err != nil {
		err = fmt.Errorf("injecting fault %s (%s): %w", planned.Name, planned.What, err)
		if n.Ledger != nil { // the run continues without the fault
			n.note(history.KindFaultEnd, planned)
		}
		n.letGo(index, one, err)
		ledger.Began(index, err)
		return err
	}
	ledger.Began(index, nil)
	if n.wait(ctx, one, until) && n.patientWith(&planned) {
		n.waitMet(ctx, one, active)
	}
	ledger.Leave(index)
	healing, cancel := healingContext(ctx)
	defer cancel()
	if err = heal(healing); err != nil {
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = fmt.Errorf("what it broke was not seen to be back within %s: %w", healLimit, err)
		}
		err = fmt.Errorf("healing fault %s (%s): %w", planned.Name, planned.What, err)
	} else {
		n.note(history.KindFaultEnd, planned)
	}
	n.letGo(index, one, err)
	ledger.Done(index, err)
	return err
}

// asPlanned is the ledger of a run in which every fault has its index from the plan.
type asPlanned struct{}

func (asPlanned) Enter(planned Planned) (int, error) { return planned.Index, nil }
func (asPlanned) Began(int, error)                   {}
func (asPlanned) Leave(int)                          {}
func (asPlanned) Done(int, error)                    {}

// wait returns when the fault is to be lifted: true if its time is over, false if something else ends it.
func (n *Nemesis) wait(ctx context.Context, one *inForce, until time.Duration) bool {
	select {
	case <-time.After(until - n.Clock.Now()):
		return true
	case <-one.heal:
	case <-n.Over: // nil blocks forever
	case <-ctx.Done():
	}
	return false
}

// patientWith reports whether the fault stays in force until it has had an effect.
func (n *Nemesis) patientWith(planned *Planned) bool {
	return n.Closing != nil && planned.Patient && !planned.MayMiss && !planned.Open && planned.For > 0
}

// waitMet keeps a fault that has had no effect by its planned end in force until it has one, and then for the planned
// duration. Its window follows the subject, which may have been waiting for a session to expire or for a runtime to
// start.
func (n *Nemesis) waitMet(ctx context.Context, one *inForce, active Active) {
	select {
	case <-active.met.done:
		return // in time: the planned window stands
	default:
	}
	select {
	case <-active.met.done:
		n.wait(ctx, one, active.met.at+active.For)
	case <-n.Closing:
	case <-one.heal:
	case <-n.Over:
	case <-ctx.Done():
	}
}

// untilOver returns a context that also ends when the time for faults is over.
func (n *Nemesis) untilOver(ctx context.Context) (context.Context, context.CancelFunc) {
	if n.Over == nil {
		return ctx, func() {}
	}
	return until(ctx, n.Over)
}

// until returns a context that also ends when the channel is closed.
func until(ctx context.Context, closed <-chan struct{}) (context.Context, context.CancelFunc) {
	bounded, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-closed:
			cancel()
		case <-bounded.Done():
		}
	}()
	return bounded, func() { cancel(); <-done }
}

func (n *Nemesis) keep(index int) *inForce {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.inForce == nil {
		n.inForce = map[int]*inForce{}
	}
	one := &inForce{heal: make(chan struct{}), done: make(chan struct{})}
	n.inForce[index] = one
	return one
}

func (n *Nemesis) letGo(index int, one *inForce, err error) {
	n.mu.Lock()
	delete(n.inForce, index)
	n.mu.Unlock()
	one.err = err
	close(one.done)
}

func noInjector(planned Planned) error {
	return fmt.Errorf("injecting fault %s: there is no injector for kind %q", planned.Name, planned.Kind)
}
