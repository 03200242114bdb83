package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/store"
)

// Observer is told what happens to entries: metrics and notifications hang on it. Its methods are called by several
// goroutines and must not block for long.
type Observer interface {
	// Ingested: the entries are durable, so many of which are fresh.
	Ingested(entries []store.Entry, fresh int)
	// Settled: the entry, as it was claimed, was settled with the change.
	Settled(entry store.Entry, change store.Change)
}

// Observers are told one after the other.
type Observers []Observer

// Ingested implements Observer.
func (o Observers) Ingested(entries []store.Entry, fresh int) {
	for _, one := range o {
		one.Ingested(entries, fresh)
	}
}

// Settled implements Observer.
func (o Observers) Settled(entry store.Entry, change store.Change) {
	for _, one := range o {
		one.Settled(entry, change)
	}
}

// Settings say how workers work. Intervals are nominal: the strategies' Clock scales them.
type Settings struct {
	// Workers is how many work side by side; each claims batches of its own.
	Workers int
	// PollInterval is the time between two looks for entries that are due; a worker that got a whole batch looks again
	// at once.
	PollInterval time.Duration
	// BatchSize is how many entries are claimed at a time; Concurrency how many of them are tried at a time.
	BatchSize, Concurrency int
	// Lease is how long a lock lasts unless it is renewed, which is done three times as often.
	Lease time.Duration
	// Rate is retries per second, of all workers together, in real time; 0: as fast as it goes.
	Rate float64
	// Grace bounds the orderly stop, in real time.
	Grace time.Duration
}

// DefaultSettings returns those of "Dead Letter Queue Lifecycle": three workers that look every 30 s and take ten
// entries.
func DefaultSettings() Settings {
	return Settings{Workers: 3, PollInterval: 30 * time.Second, BatchSize: 10, Concurrency: 5, Lease: 5 * time.Minute,
		Grace: 5 * time.Second}
}

func (s Settings) validate() error {
	switch {
	case s.Workers < 1 || s.BatchSize < 1 || s.Concurrency < 1:
		return errors.New("workers, batch size and concurrency must be at least 1")
	case s.BatchSize > 1000:
		return errors.New("the batch size must be at most 1000: all of a batch is locked while the first of it is tried")
	case s.PollInterval <= 0 || s.Lease <= 0 || s.Grace <= 0:
		return errors.New("the poll interval, the lease and the stop grace must be more than 0s")
	case s.Rate < 0:
		return errors.New("the rate can't be negative")
	}
	return nil
}

// Config is what a pool of workers needs.
type Config struct {
	Store      Store
	Retrier    Retrier
	Strategies Strategies
	Settings   Settings
	// Unmet says which conditions of conditional retries aren't met, "" if all are; nil unless Strategies.Probed.
	Unmet func(ctx context.Context) string
	// Name of the pool in locks and histories, the same for no two processes; "" makes one of host, process and chance.
	Name string
	// Observer may be nil.
	Observer Observer
	Logger   zerolog.Logger
	// Clock is what the machine's clock shows, in tests one that is wrong; nil: time.Now. It measures how much time has
	// passed: what is due, and whose a lock is, the store's clock decides.
	Clock func() time.Time
}

// ConfigError says that a configuration can't be carried out as it is: nothing was begun.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *ConfigError) Unwrap() error { return e.Err }

// Store is what workers need of a store.
type Store interface {
	store.Locker
	// Get returns an entry as it is now.
	Get(ctx context.Context, id string) (store.Entry, error)
	// Now is the store's clock.
	Now(ctx context.Context) (time.Time, error)
}

func (c Config) validate() error {
	var errs []error
	if c.Store == nil || c.Retrier == nil {
		errs = append(errs, errors.New("workers need a store and a way to retry"))
	}
	if c.Strategies.Probed != (c.Unmet != nil) {
		errs = append(errs, errors.New("conditional retries need a health probe, and the probe needs them"))
	}
	if err := errors.Join(append(errs, c.Settings.validate(), c.Strategies.validate())...); err != nil {
		return &ConfigError{fmt.Errorf("configuring the workers: %w", err)}
	}
	return nil
}

// poolName makes a name that no other process has.
func poolName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), uuid.NewString()[:8])
}

// Declares returns what a pool of workers and its router promise and what they don't, for people and for those who
// judge them.
func Declares() []string {
	return []string{
		"router: at least once out of Kafka, exactly once into the store: an offset is committed after its entry is " +
			"durable, and the store keeps one entry per source coordinate",
		"worker: at least once: one that dies, or loses its store, between a retry and the entry's new status leaves an " +
			"entry that is tried again",
		"worker: a lock lasts as long as its lease; a worker that stalls for longer than that loses its entry to another, " +
			"which may try it while the first still does",
		"republish: resolved means that the broker has acknowledged the record; if it fails again it is a new dead letter " +
			"with retries of its own",
	}
}
