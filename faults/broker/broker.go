// Package broker stops and starts brokers as the schedule says. It owns the order of the two and what is reported of them; how
// a broker is stopped is the business of the cluster it is given, and the package knows nothing of clusters.
package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
)

// Brokers is a cluster whose brokers can be stopped. StopBroker returns once the broker's port is confirmed to refuse connections,
// StartBroker once it is confirmed to accept them.
type Brokers interface {
	StopBroker(ctx context.Context, id int32) error
	StartBroker(ctx context.Context, id int32) error
}

// Injector makes broker faults. It implements faults.Injector.
//
// Effects: "broker stopped" and "broker started", each with the time that it took until confirmed, in ns.
type Injector struct{ brokers Brokers }

// NewInjector returns an injector for the brokers of a cluster.
func NewInjector(brokers Brokers) *Injector { return &Injector{brokers: brokers} }

// startLimit bounds how long starting a broker again may take in Inject, where it must also happen when the run is interrupted.
const startLimit = 20 * time.Second

// Inject stops a broker. With Stop, Heal starts it again; with Restart it is started before Inject returns, and Heal does nothing.
func (i *Injector) Inject(ctx context.Context, active faults.Active) (faults.Heal, error) {
	spec := active.Spec.Broker
	switch {
	case spec == nil:
		return nil, errors.New("stopping a broker: the fault has no broker part")
	case spec.Stop == spec.Restart:
		return nil, fmt.Errorf("stopping broker %d: exactly one of stop and restart must be given", spec.Broker)
	}
	id := int32(spec.Broker)
	if err := timed(ctx, active, "broker stopped", id, i.brokers.StopBroker); err != nil {
		return nil, err
	}
	start := func(ctx context.Context) error {
		return timed(ctx, active, "broker started", id, i.brokers.StartBroker)
	}
	if spec.Stop {
		return start, nil
	}
	starting, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	if err := start(starting); err != nil {
		return nil, err
	}
	return func(context.Context) error { return nil }, nil
}

// timed does something to a broker, and reports it if it was done.
func timed(ctx context.Context, active faults.Active, what string, id int32, act func(context.Context, int32) error) error {
	start := time.Now()
	if err := act(ctx, id); err != nil {
		return err
	}
	active.Effect(what, 1, time.Since(start).Nanoseconds(), history.None)
	return nil
}
