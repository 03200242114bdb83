// Package store breaks the dead-letter store that a run brings: its database, its workers' clocks, and what comes to
// its routers. It owns the order of breaking and mending and what is reported of them; how it is done is the business
// of whoever runs the store.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
)

// Database is the store's server. Stop ends it in order, Crash without a goodbye; both return when it is gone, with the
// number of connections that ended with it. Resume starts it again on its data and returns when it answers.
type Database interface {
	Stop(ctx context.Context) (connections int, err error)
	Crash(ctx context.Context) (connections int, err error)
	Resume(ctx context.Context) error
}

// Workers are those of the store, by number.
type Workers interface {
	// SetClock starts a worker again with its clock ahead by offset (negative: behind; 0: right), and returns when it
	// is ready.
	SetClock(ctx context.Context, worker int, offset time.Duration) error
	// Locks is how many entries the worker was seen to lock so far.
	Locks(worker int) int
}

// Letters are the dead letters in their topic. Repeat writes a share of those that are there once more, shuffled, and
// returns when they are acknowledged: how many there are, and how many of them come behind one that was first written
// after them.
type Letters interface {
	Repeat(ctx context.Context, share float64, seed uint64) (written, outOfOrder int, err error)
}

// Health is what the workers' health probe answers. Unhealthy lets it say what is wrong, until end is called, which
// returns how often it said so.
type Health interface {
	Unhealthy(ctx context.Context, how string) (end func() (answered int), err error)
}

// Injector makes faults of the kind store. It implements faults.Injector.
//
// Effects: "connections to the database ended", and only with some of these "database stopped" (or "database crashed")
// and "database started", each with the time that it took, in ns; "entries locked by a worker whose clock is wrong",
// with the worker; "health probes answered with what is wrong"; "dead letters written again" and "dead letters written
// after one that was younger".
type Injector struct {
	Database Database // nil: it can't be stopped
	Workers  Workers
	Letters  Letters
	Health   Health // nil: workers ask nobody
}

// startLimit bounds how long starting the database may take in Inject, where it must also happen when the run is
// interrupted.
const startLimit = 45 * time.Second

// Inject breaks the store. Heal starts a crashed database again and sets a clock right. A restart, and writing letters
// again, are over before Inject returns.
func (i *Injector) Inject(ctx context.Context, active faults.Active) (faults.Heal, error) {
	spec := active.Spec.Store
	switch {
	case spec == nil:
		return nil, errors.New("breaking the dead-letter store: the fault has no store part")
	case spec.RepeatLetters > 0:
		return stays, i.repeat(ctx, active)
	case spec.Offset() != 0:
		return i.clock(ctx, active)
	case spec.Unhealthy != "":
		return i.unhealthy(ctx, active)
	case i.Database == nil:
		return nil, errors.New("breaking the dead-letter store: its database is no server of the run's own")
	case spec.Crash:
		return i.stop(ctx, active, "database crashed", i.Database.Crash)
	}
	start, err := i.stop(ctx, active, "database stopped", i.Database.Stop)
	if err != nil {
		return nil, err
	}
	starting, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	return stays, start(starting)
}

func (i *Injector) stop(ctx context.Context, active faults.Active, what string,
	down func(context.Context) (int, error)) (faults.Heal, error) {
	began := time.Now()
	connections, err := down(ctx)
	if err != nil {
		return nil, err
	}
	// A database with which nobody had to do is missed by nobody.
	if connections > 0 {
		active.Effect("connections to the database ended", connections, 0, history.None)
		active.Effect(what, 1, time.Since(began).Nanoseconds(), history.None)
	}
	return func(ctx context.Context) error {
		began := time.Now()
		if err := i.Database.Resume(ctx); err != nil {
			return err
		}
		if connections > 0 {
			active.Effect("database started", 1, time.Since(began).Nanoseconds(), history.None)
		}
		return nil
	}, nil
}

// clock reports what the worker locked meanwhile when it is over: one that took nothing did nothing by its clock.
func (i *Injector) clock(ctx context.Context, active faults.Active) (faults.Heal, error) {
	worker, err := active.Spec.Store.Worker()
	if err != nil {
		return nil, err
	}
	right := func(ctx context.Context) error { return i.Workers.SetClock(ctx, worker, 0) }
	if err := i.Workers.SetClock(ctx, worker, active.Spec.Store.Offset()); err != nil {
		return nil, errors.Join(err, right(context.WithoutCancel(ctx)))
	}
	before := i.Workers.Locks(worker)
	return func(ctx context.Context) error {
		if locked := i.Workers.Locks(worker) - before; locked > 0 {
			active.Effect("entries locked by a worker whose clock is wrong", locked, active.Spec.Store.Offset().Nanoseconds(),
				int(history.Worker(worker)))
		}
		return right(ctx)
	}, nil
}

func (i *Injector) unhealthy(ctx context.Context, active faults.Active) (faults.Heal, error) {
	if i.Health == nil {
		return nil, errors.New("breaking the dead-letter store: its workers ask no health probe")
	}
	end, err := i.Health.Unhealthy(ctx, active.Spec.Store.Unhealthy)
	if err != nil {
		return nil, err
	}
	return func(context.Context) error {
		if answered := end(); answered > 0 {
			active.Effect("health probes answered with what is wrong", answered, 0, history.None)
		}
		return nil
	}, nil
}

func (i *Injector) repeat(ctx context.Context, active faults.Active) error {
	written, outOfOrder, err := i.Letters.Repeat(ctx, active.Spec.Store.RepeatLetters.Share(), active.Seed)
	if err != nil {
		return fmt.Errorf("writing dead letters again: %w", err)
	}
	if written > 0 {
		active.Effect("dead letters written again", written, 0, history.None)
	}
	if outOfOrder > 0 {
		active.Effect("dead letters written after one that was younger", outOfOrder, 0, history.None)
	}
	return nil
}

// stays heals what needs no healing.
func stays(context.Context) error { return nil }
