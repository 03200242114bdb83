package manage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/worker"
)

// ErrUnhealthy means that a dependency of the replay is unhealthy. Nothing was replayed.
var ErrUnhealthy = errors.New("the system isn't healthy; nothing was replayed")

// Publisher writes the records of a batch atomically: all or none.
type Publisher interface {
	// Recall fences off the previous publisher of the same name, and returns the ids of the last batch that was
	// committed.
	Recall(ctx context.Context) (published map[string]bool, err error)
	// Publish writes the records and their ids in one transaction. refused holds, by id, the records that the brokers
	// do not accept; those are not written, the others are. After any other error it is unknown whether the batch was
	// published, and Recall finds out.
	Publish(ctx context.Context, batch []Outgoing) (refused map[string]error, err error)
}

// Outgoing is a record to publish, and its entry.
type Outgoing struct {
	ID     string
	Record *kgo.Record
}

// Replay writes entries back to their topics, at a person's request.
//
// A replay can be killed at any moment and restarted without replaying anything twice. It locks an entry under the
// replay's name before it publishes it, publishes a batch and its ids in one transaction, and then resolves the
// entries. A restarted replay finds the entries that its predecessor left locked. It fences that one off and finds out
// which batch was published last: it resolves the entries of that batch, and restores all others to their previous
// state.
type Replay struct {
	Store     store.Store
	Publisher Publisher
	Query     store.Query
	// Name identifies a replay, so that a restart after a kill uses the same name. Of two concurrent replays with one
	// name, the later one takes over.
	Name string
	// To is the target topic. With "", each record goes to the topic that its dialect names.
	To string
	By string
	// BatchSize is the number of entries published at a time, 1 to MaxBatch. Concurrency is the number locked or
	// resolved at a time.
	BatchSize, Concurrency int
	Pace                   *deadletter.Pace
	// Unmet, if set, returns the unmet conditions, before anything is replayed.
	Unmet func(ctx context.Context) string
	// DryRun only calls OnEntry.
	DryRun bool
	// OnEntry, if set, is called with each selected entry, Progress with the number of finished ones and the total.
	OnEntry  func(store.Entry)
	Progress func(done, all int64)
}

const (
	// DefaultBatch is the number of entries that a replay publishes at a time, as in "Dead Letter Queue Lifecycle".
	DefaultBatch = 100
	// MaxBatch is the number of ids that fit in the metadata of a transaction.
	MaxBatch = 150
	// replayLease is the lease of a replay's locks. A restart within that time decides about the entries of a killed
	// replay; after that, workers recover them.
	replayLease = 5 * time.Minute
	// publishLimit bounds the publication of one batch, and is well below the lease. finishLimit bounds the work after
	// an interruption.
	publishLimit = 30 * time.Second
	finishLimit  = 10 * time.Second
)

// ReplayReport is what a replay did.
type ReplayReport struct {
	Report
	// Recalled entries were found locked by a replay that had been killed: Confirmed ones of those had been published
	// and are resolved now.
	Recalled  int64 `json:"recalled"`
	Confirmed int64 `json:"confirmed"`
}

// Validate returns an error for settings that cannot be carried out.
func (r Replay) Validate() error {
	switch {
	case r.BatchSize < 1 || r.BatchSize > MaxBatch:
		return fmt.Errorf("a batch of %d: 1 to %d dead letters go into one transaction", r.BatchSize, MaxBatch)
	case r.Concurrency < 1:
		return errors.New("the concurrency must be at least 1")
	case r.Name == "" || strings.ContainsAny(r.Name, ": \t\n"):
		return fmt.Errorf("%q is no name of a replay: write a word without colons", r.Name)
	}
	return nil
}

// run is the state of one replay.
type run struct {
	Replay
	mu     sync.Mutex
	report ReplayReport
	all    int64
	// refused holds entries that were released. In the order of updatedAt they come up again.
	refused map[string]bool
}

// Run replays the entries. When ctx ends, Run finishes the current batch and returns ctx's error.
func (r Replay) Run(ctx context.Context) (ReplayReport, error) {
	x := &run{Replay: r, refused: map[string]bool{}}
	began := time.Now()
	err := x.run(ctx)
	x.report.end(began)
	return x.report, err
}

func (x *run) run(ctx context.Context) error {
	if x.Unmet != nil {
		if why := x.Unmet(ctx); why != "" {
			return fmt.Errorf("%w: %s", ErrUnhealthy, why)
		}
	}
	if !x.DryRun {
		if err := x.recall(ctx); err != nil {
			return err
		}
	}
	var err error
	if x.all, err = x.Store.Count(ctx, x.Query); err != nil {
		return fmt.Errorf("counting the dead letters to replay: %w", err)
	}
	var batch []store.Entry
	err = Each(ctx, x.Store, x.Query, 0, func(entry store.Entry) error {
		if x.refused[entry.ID] {
			return nil
		}
		x.report.Selected++
		if x.OnEntry != nil {
			x.OnEntry(entry)
		}
		if x.DryRun {
			return nil
		}
		if batch = append(batch, entry); len(batch) < x.batchSize() {
			return nil
		}
		full := batch
		batch = nil
		return x.replay(ctx, full)
	})
	if err == nil && len(batch) > 0 {
		err = x.replay(ctx, batch)
	}
	return err
}

// batchSize is smaller if, at the given rate, a batch would outlast its transaction.
func (x *run) batchSize() int {
	if x.Pace == nil || x.Pace.Rate == 0 {
		return x.BatchSize
	}
	return max(1, min(x.BatchSize, int(x.Pace.Rate*publishLimit.Seconds()/3)))
}

// lockName contains the owner of the lock and the entry's previous state.
func (x *run) lockName(state store.State) string { return x.prefix() + string(state) }
func (x *run) prefix() string                    { return "replay:" + x.Name + ":" }

// recall finishes the entries that an earlier run under this name left locked.
func (x *run) recall(ctx context.Context) error {
	published, err := x.Publisher.Recall(ctx)
	if err != nil {
		return fmt.Errorf("asking what an earlier replay has published: %w", err)
	}
	return Each(ctx, x.Store, store.Query{States: []store.State{store.Processing}}, 0, func(entry store.Entry) error {
		before, ours := strings.CutPrefix(entry.LockedBy, x.prefix())
		if !ours {
			return nil
		}
		x.report.Recalled++
		each := taken{entry: entry, lock: store.Lock{ID: entry.ID, Worker: entry.LockedBy, Version: entry.Version}}
		each.entry.State = store.State(before)
		if published[entry.ID] {
			x.report.Confirmed++
			return x.resolve(ctx, each)
		}
		return x.release(ctx, each, nil)
	})
}

// taken is a locked entry; entry is its previous content.
type taken struct {
	entry store.Entry
	lock  store.Lock
}

// replay locks a batch, publishes it and settles it.
func (x *run) replay(ctx context.Context, entries []store.Entry) error {
	batch, err := x.take(ctx, entries)
	// Locked entries are finished even after an interruption.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishLimit+finishLimit)
	defer cancel()
	if err != nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err(), x.each(batch, func(one taken) error { return x.release(ending, one, nil) }))
	}
	var outgoing []Outgoing
	refused := map[string]error{}
	for _, one := range batch {
		record, err := x.prepare(one.entry)
		if err != nil {
			refused[one.entry.ID] = err
			continue
		}
		outgoing = append(outgoing, Outgoing{one.entry.ID, record})
	}
	if len(outgoing) > 0 {
		publishing, cancel := context.WithTimeout(ending, publishLimit)
		more, err := x.Publisher.Publish(publishing, outgoing)
		cancel()
		if err != nil {
			return fmt.Errorf("publishing a batch of %d dead letters (they stay locked; the same command finds out whether "+
				"they were published, and goes on): %w", len(outgoing), err)
		}
		maps.Copy(refused, more)
	}
	err = x.each(batch, func(one taken) error {
		if why := refused[one.entry.ID]; why != nil {
			return x.release(ending, one, why)
		}
		return x.resolve(ending, one)
	})
	return errors.Join(err, ctx.Err())
}

func (x *run) prepare(entry store.Entry) (*kgo.Record, error) {
	record, err := worker.Prepare(entry)
	if x.To != "" {
		record.Topic, err = x.To, nil
	}
	return record, err
}

// take locks the entries, except those that others have locked or changed. A fatal error concerns the store.
func (x *run) take(ctx context.Context, entries []store.Entry) (batch []taken, fatal error) {
	fatal = inParallel(x.Concurrency, entries, func(entry store.Entry) error {
		if x.Pace != nil && x.Pace.Wait(ctx) != nil {
			return nil
		}
		if ctx.Err() != nil {
			return nil
		}
		name := x.lockName(entry.State)
		err := x.Store.Alter(ctx, entry.ID, entry.Version, store.Change{State: store.Processing, Worker: name,
			Lease: replayLease})
		if err != nil {
			err = Explain(ctx, x.Store, entry.ID, err)
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		if err == nil {
			batch = append(batch, taken{entry, store.Lock{ID: entry.ID, Worker: name, Version: entry.Version + 1}})
			return nil
		}
		defer x.progress()
		return x.report.count(entry.ID, err)
	})
	return batch, fatal
}

// resolve settles an entry that was published.
func (x *run) resolve(ctx context.Context, one taken) error {
	now, err := x.Store.Now(ctx)
	if err != nil {
		return fmt.Errorf("asking the store for the time: %w", err)
	}
	attempt := store.Attempt{At: now, Worker: one.lock.Worker, Strategy: store.ByHand, Result: worker.Succeeded}
	err = x.Store.Settle(ctx, one.lock, store.Change{
		State: store.Resolved, Strategy: one.entry.Strategy, Attempt: &attempt,
		Resolution: &store.Resolution{At: now, How: store.ManualRetry, By: x.By},
	})
	if err != nil {
		err = fmt.Errorf("it was published, but could not be resolved: %w", err)
	}
	return x.settled(one, err)
}

// release restores an entry to its previous state, with the reason if it was refused.
func (x *run) release(ctx context.Context, one taken, why error) error {
	change := store.Change{State: one.entry.State, Strategy: one.entry.Strategy, RetryAt: one.entry.NextRetryAt}
	if why != nil {
		now, err := x.Store.Now(ctx)
		if err != nil {
			return fmt.Errorf("asking the store for the time: %w", err)
		}
		change.Attempt = &store.Attempt{At: now, Worker: one.lock.Worker, Strategy: store.ByHand, Result: worker.FailedAgain,
			Error: why.Error()}
	}
	err := x.Store.Settle(ctx, one.lock, change)
	switch {
	case err != nil:
		return x.settled(one, fmt.Errorf("it was not published, and could not be given back: %w", err))
	case why == nil:
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.refused[one.entry.ID] = true
	x.report.Failed++
	x.report.tell(one.entry.ID, why)
	x.progress()
	return nil
}

func (x *run) settled(one taken, err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	defer x.progress()
	if err == nil {
		x.report.Done++
		return nil
	}
	x.report.Failed++
	x.report.tell(one.entry.ID, err)
	if errors.Is(err, store.ErrLockLost) { // this entry was decided by another; the others go on
		return nil
	}
	return err
}

// progress must be called with mu held.
func (x *run) progress() {
	if x.Progress != nil {
		x.Progress(x.report.Done+x.report.Failed+x.report.Skipped, x.all)
	}
}

func (x *run) each(batch []taken, do func(taken) error) error {
	return inParallel(x.Concurrency, batch, do)
}

// inParallel calls do for each element, up to concurrency at a time, and returns the errors.
func inParallel[T any](concurrency int, all []T, do func(T) error) error {
	queue := make(chan T)
	errs := make([]error, max(concurrency, 1))
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() {
			for one := range queue {
				errs[i] = errors.Join(errs[i], do(one))
			}
		})
	}
	for _, one := range all {
		queue <- one
	}
	close(queue)
	group.Wait()
	return errors.Join(errs...)
}
