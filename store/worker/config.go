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

// Observer is called with the changes of entries, for metrics and notifications. Its methods are called by several
// goroutines and must not block for long.
type Observer interface {
	// Ingested is called when the entries are durable. fresh is the number of new ones.
	Ingested(entries []store.Entry, fresh int)
	// Settled is called when an entry was settled with the change. entry has its content when it was claimed.
	Settled(entry store.Entry, change store.Change)
}

// Observers calls several observers, one after another.
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

// Settings configure the workers. Intervals are nominal: the strategies' Clock scales them.
type Settings struct {
	// Workers is the number of concurrent workers. Each claims batches of its own.
	Workers int
	// PollInterval is the time between two polls for due entries. A worker that got a full batch polls again at once.
	PollInterval time.Duration
	// BatchSize is the number of entries claimed at a time, Concurrency the number of them tried at a time.
	BatchSize, Concurrency int
	// Lease is the duration of a lock. Locks are renewed three times per lease.
	Lease time.Duration
	// Rate is the maximum number of retries per second, of all workers together, in real time. 0 means unlimited.
	Rate float64
	// Grace bounds the orderly stop, in real time.
	Grace time.Duration
}

// DefaultSettings returns the settings of "Dead Letter Queue Lifecycle": three workers that poll every 30 s for ten
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

// Config configures a pool of workers.
type Config struct {
	Store      Store
	Retrier    Retrier
	Strategies Strategies
	Settings   Settings
	// Unmet returns the unmet conditions of conditional retries, or "". It is nil unless Strategies.Probed is set.
	Unmet func(ctx context.Context) string
	// Name of the pool in locks and histories, unique to the process. "" generates one from host, process id and a
	// random number.
	Name string
	// Observer may be nil.
	Observer Observer
	Logger   zerolog.Logger
	// Clock is the machine's clock, which tests may set wrong; nil means time.Now. It only measures elapsed time: the
	// store's clock decides which entries are due and who holds a lock.
	Clock func() time.Time
}

// ConfigError means that a configuration is invalid. Nothing was started.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ConfigError) Unwrap() error { return e.Err }

// Store is the part of a store that workers need.
type Store interface {
	store.Locker
	// Get returns the present content of an entry.
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

// poolName makes a unique name.
func poolName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), uuid.NewString()[:8])
}

// Declares returns what a pool of workers and its router promise, and what they do not, for people and for judging.
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
