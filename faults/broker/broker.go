// Package broker breaks brokers as the schedule says: it stops, kills, pauses and restarts them, and moves what they
// lead and coordinate. It owns the order of breaking and mending and what is reported of them; how it is done is the
// business of the cluster it is given, and the package knows nothing of clusters.
package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
)

// Stopper takes brokers off the net and brings them back. StopBroker and KillBroker return once the broker's port is
// confirmed to refuse connections, with what that changed for clients, counted; StartBroker once it is confirmed to
// accept them.
type Stopper interface {
	StopBroker(ctx context.Context, id int32) (changed map[string]int, err error)
	KillBroker(ctx context.Context, id int32) (changed map[string]int, err error)
	StartBroker(ctx context.Context, id int32) error
}

// Pauser lets brokers stand still with their connections open; ResumeBroker returns what was held back, counted.
type Pauser interface {
	PauseBroker(ctx context.Context, id int32) error
	ResumeBroker(ctx context.Context, id int32) (changed map[string]int, err error)
}

// Mover moves what brokers lead and coordinate; it returns what was moved, counted.
type Mover interface {
	MoveLeaders(ctx context.Context, id int32) (changed map[string]int, err error)
	ReturnLeaders(ctx context.Context, id int32) (changed map[string]int, err error)
	MoveCoordinator(ctx context.Context, group string) (from, to int32, err error)
}

// Brokers is a cluster whose brokers can be broken.
type Brokers interface {
	Stopper
	Pauser
	Mover
}

// Injector makes broker faults. It implements faults.Injector.
//
// Effects: what the cluster says that it changed for clients ("connections closed", "leaders moved", "requests held").
// A broker that nobody had to do with has none, however well it was stopped. With any, also "broker stopped" or "broker
// killed", and "broker started", each with the time that it took until confirmed, in ns.
type Injector struct {
	brokers Brokers
	group   string
}

// NewInjector returns an injector for the brokers of a cluster; group is the subject's consumer group, whose
// coordinator can be moved.
func NewInjector(brokers Brokers, group string) *Injector {
	return &Injector{brokers: brokers, group: group}
}

// startLimit bounds how long starting a broker again may take in Inject, where it must also happen when the run is
// interrupted.
const startLimit = 45 * time.Second

// Inject breaks a broker. Heal starts a stopped or killed one again, lets a paused one go on, and gives it back the
// leaders that were moved, if the fault has a duration. A restart is over before Inject returns; a coordinator stays
// where it was moved.
func (i *Injector) Inject(ctx context.Context, active faults.Active) (faults.Heal, error) {
	spec := active.Spec.Broker
	if spec == nil {
		return nil, errors.New("breaking a broker: the fault has no broker part")
	}
	act, err := i.action(spec)
	if err != nil {
		return nil, fmt.Errorf("breaking broker %d: %w", spec.Broker, err)
	}
	return act(ctx, active, int32(spec.Broker))
}

// act breaks a broker, and returns what heals it.
type act func(ctx context.Context, active faults.Active, id int32) (faults.Heal, error)

func (i *Injector) action(spec *faults.Broker) (act, error) {
	var chosen []act
	for _, one := range []struct {
		asked bool
		act   act
	}{
		{spec.Stop, i.stop("broker stopped", i.brokers.StopBroker)},
		{spec.Kill, i.stop("broker killed", i.brokers.KillBroker)}, {spec.Restart, i.restart},
		{spec.Pause, i.pause}, {spec.MoveLeaders, i.moveLeaders}, {spec.MoveCoordinator, i.moveCoordinator},
	} {
		if one.asked {
			chosen = append(chosen, one.act)
		}
	}
	if len(chosen) != 1 {
		return nil, errors.New("exactly one of stop, kill, pause, restart, move_leaders and move_coordinator must be given")
	}
	return chosen[0], nil
}

// stop takes a broker off the net until it is healed.
func (i *Injector) stop(what string, down func(context.Context, int32) (map[string]int, error)) act {
	return func(ctx context.Context, active faults.Active, id int32) (faults.Heal, error) {
		start := time.Now()
		changed, err := down(ctx, id)
		if err != nil {
			return nil, err
		}
		if len(changed) > 0 {
			active.Effect(what, 1, time.Since(start).Nanoseconds(), history.None)
		}
		report(active, changed)
		return func(ctx context.Context) error {
			start := time.Now()
			if err := i.brokers.StartBroker(ctx, id); err != nil {
				return err
			}
			if len(changed) > 0 {
				active.Effect("broker started", 1, time.Since(start).Nanoseconds(), history.None)
			}
			return nil
		}, nil
	}
}

func (i *Injector) restart(ctx context.Context, active faults.Active, id int32) (faults.Heal, error) {
	start, err := i.stop("broker stopped", i.brokers.StopBroker)(ctx, active, id)
	if err != nil {
		return nil, err
	}
	starting, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	if err := start(starting); err != nil {
		return nil, err
	}
	return stays, nil
}

// pause reports what was held back when it is over: until then nobody knows.
func (i *Injector) pause(ctx context.Context, active faults.Active, id int32) (faults.Heal, error) {
	if err := i.brokers.PauseBroker(ctx, id); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		held, err := i.brokers.ResumeBroker(ctx, id)
		report(active, held)
		return err
	}, nil
}

func (i *Injector) moveLeaders(ctx context.Context, active faults.Active, id int32) (faults.Heal, error) {
	moved, err := i.brokers.MoveLeaders(ctx, id)
	if err != nil {
		return nil, err
	}
	report(active, moved)
	if active.Spec.For == 0 {
		return stays, nil
	}
	return func(ctx context.Context) error {
		// That they come back is a change like the first, and counts with it, but only what a broker gave away can come
		// back.
		returned, err := i.brokers.ReturnLeaders(ctx, id)
		if len(moved) > 0 {
			report(active, returned)
		}
		return err
	}, nil
}

func (i *Injector) moveCoordinator(ctx context.Context, active faults.Active, _ int32) (faults.Heal, error) {
	from, to, err := i.brokers.MoveCoordinator(ctx, i.group)
	if err != nil {
		return nil, err
	}
	active.Effect(fmt.Sprintf("coordinator moved from broker %d to broker %d", from, to), 1, 0, history.None)
	return stays, nil
}

// stays heals what needs no healing.
func stays(context.Context) error { return nil }

// report notes what changed, in the same order every time.
func report(active faults.Active, changed map[string]int) {
	for _, what := range slices.Sorted(maps.Keys(changed)) {
		active.Effect(what, changed[what], 0, history.None)
	}
}
