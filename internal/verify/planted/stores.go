package planted

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/worker"
)

// stores are bugs of the dead-letter store's service: of its router and of its workers.
func stores() []Bug { return slices.Concat(serviceBugs(), brokenStoreBugs()) }

func working(name, what, anomaly, scenario string, plant func(address string, config *worker.Config)) Bug {
	return Bug{Name: name, What: what, Anomaly: anomaly, Invariant: "store-lifecycle", Scenario: scenario,
		Worker: plant}
}

// routing is a bug in how a router passes its dead letters to the store.
func routing(scenario, name, what, anomaly string, ingest func(worker.RouterStore) func(context.Context,
	[]store.Entry) (int, error)) Bug {
	return Bug{
		Name: name, What: what, Anomaly: anomaly, Invariant: "store-lifecycle", Scenario: scenario,
		Router: func(config *worker.RouterConfig) { config.Store = ingester{config.Store, ingest(config.Store)} },
	}
}

func serviceBugs() []Bug {
	return []Bug{
		routing("store", "store-commit-before-durable",
			"the router commits what it has handed over, and the rows are written in the background", "committed-before-stored",
			lateIngest),
		routing("store", "store-drops-letters", "the router leaves out one dead letter in ten", "lost-in-store",
			droppingIngest),
		routing("store", "store-two-rows", "the router writes every dead letter twice, as if it came from two places",
			"doubled-in-store", doublingIngest),
		working("store-takes-what-is-locked", "a worker also takes what others have locked", "double-lock", "store-slow",
			func(_ string, config *worker.Config) {
				config.Store = greedyStore{config.Store}
			}),
		working("store-no-recovery", "nobody looks for locks whose lease is over", "orphaned-lock", "store-kill",
			func(_ string, config *worker.Config) {
				config.Store = forgetfulStore{config.Store}
			}),
		working("store-resolves-first", "an entry is resolved before its retry has succeeded", "resolved-without-success",
			"store", func(_ string, config *worker.Config) {
				config.Retrier = hastyRetrier{config.Retrier}
			}),
		working("store-one-retry-too-many", "an entry is tried once more than promised", "over-retried-in-store", "store",
			func(_ string, config *worker.Config) {
				config.Strategies.MaxRetries++
			}),
		working("store-backoff-ignored", "an entry that failed is due again at once", "retry-early", "store",
			func(_ string, config *worker.Config) {
				config.Store = impatientStore{config.Store, time.Millisecond}
			}),
		working("store-off-peak-ignored", "scheduled entries are tried at any hour", "retry-early", "store-off-peak",
			func(_ string, config *worker.Config) {
				config.Strategies.OffPeak.Hours = nil
				for hour := range 24 {
					config.Strategies.OffPeak.Hours = append(config.Strategies.OffPeak.Hours, hour)
				}
				config.Store = impatientStore{config.Store, config.Strategies.Clock.Real(8 * time.Hour)}
			}),
		working("store-polls-seldom", "a worker looks for entries sixty times more seldom than promised", "retry-late",
			"store", func(_ string, config *worker.Config) {
				config.Settings.PollInterval *= 60
			}),
		working("store-removes-resolved", "an entry is removed as soon as it is resolved", "retention-early", "store",
			func(_ string, config *worker.Config) {
				config.Store = tidyStore{config.Store}
			}),
		{
			Name: "store-keeps-for-ever", What: "resolved entries are kept for ten times as long as promised",
			Anomaly: "retention-late", Invariant: "store-lifecycle",
			Scenario: "store-retention", Keeper: map[string]string{"keep-resolved": "7200h"},
		},
		{
			Name: "store-archives-early", What: "failed entries are archived after 30 days in place of 90",
			Anomaly: "retention-early", Invariant: "store-lifecycle",
			Scenario: "store-retention", Keeper: map[string]string{"keep-failed": "720h"},
		},
		{
			Name: "store-republishes-twice", What: "a worker writes every record back twice", Anomaly: "replay-duplicated",
			Invariant: "replay-round-trip", Scenario: "store-republish",
			Worker: func(_ string, config *worker.Config) { config.Retrier = eagerRetrier{config.Retrier} },
		},
		working("store-revives-resolved", "one resolved entry in five is pending again", "illegal-transition", "store",
			func(address string, config *worker.Config) {
				config.Store = &revivingStore{Store: config.Store, address: address}
			}),
	}
}

// brokenStoreBugs are bugs that show when the store, or a dependency of its workers, fails.
func brokenStoreBugs() []Bug {
	return []Bug{
		working("store-lease-by-own-clock", "a worker takes back locks whose lease is over by its own machine's clock",
			"double-lock", "store-clock", func(address string, config *worker.Config) {
				config.Store = ownClockStore{config.Store, address, config.Clock}
			}),
		routing("store-repeats", "store-inserts-every-letter", "the router inserts every dead letter as it comes, by the "+
			"place where it lies, without asking whether its record is there already", "doubled-in-store", everyDeadLetter),
		{
			Name: "store-error-is-done", What: "the router takes an answer that never came for a yes", Anomaly: "lost-in-store",
			Invariant: "store-lifecycle", Scenario: "store-restart",
			Router: func(config *worker.RouterConfig) { config.Store = deafStore{config.Store} },
		},
		working("store-probe-ignored", "a worker asks its health probe and tries conditional entries whatever that says",
			"retry-while-unhealthy", "store-probe", func(_ string, config *worker.Config) {
				ask := config.Unmet
				config.Unmet = func(ctx context.Context) string { ask(ctx); return "" }
			}),
	}
}

// ingester is a router's store with its Ingest replaced.
type ingester struct {
	worker.RouterStore
	ingest func(context.Context, []store.Entry) (int, error)
}

func (i ingester) Ingest(ctx context.Context, entries []store.Entry) (int, error) {
	return i.ingest(ctx, entries)
}

func lateIngest(next worker.RouterStore) func(context.Context, []store.Entry) (int, error) {
	return func(ctx context.Context, entries []store.Entry) (int, error) {
		time.AfterFunc(300*time.Millisecond, func() {
			_, _ = next.Ingest(context.WithoutCancel(ctx), entries) // the result is ignored
		})
		return len(entries), nil
	}
}

func droppingIngest(next worker.RouterStore) func(context.Context, []store.Entry) (int, error) {
	var letters atomic.Int64
	return func(ctx context.Context, entries []store.Entry) (int, error) {
		var kept []store.Entry
		for _, entry := range entries {
			if letters.Add(1)%10 != 0 {
				kept = append(kept, entry)
			}
		}
		if len(kept) == 0 {
			return len(entries), nil
		}
		_, err := next.Ingest(ctx, kept)
		return len(entries), err
	}
}

func doublingIngest(next worker.RouterStore) func(context.Context, []store.Entry) (int, error) {
	return func(ctx context.Context, entries []store.Entry) (int, error) {
		fresh, err := next.Ingest(ctx, entries)
		if err != nil {
			return fresh, err
		}
		again := append([]store.Entry{}, entries...)
		for i := range again {
			again[i].Source.Topic += ".again"
			again[i].ID = ""
		}
		_, err = next.Ingest(ctx, again)
		return fresh, err
	}
}

// everyDeadLetter makes an entry of each dead letter. The store's unique key is the position of the dead letter.
func everyDeadLetter(next worker.RouterStore) func(context.Context, []store.Entry) (int, error) {
	return func(ctx context.Context, entries []store.Entry) (int, error) {
		inserted := append([]store.Entry{}, entries...)
		for i := range inserted {
			inserted[i].Source = inserted[i].Letter
		}
		return next.Ingest(ctx, inserted)
	}
}

// deafStore reports success regardless of the store's answer.
type deafStore struct{ worker.RouterStore }

func (s deafStore) Ingest(ctx context.Context, entries []store.Entry) (int, error) {
	if fresh, err := s.RouterStore.Ingest(ctx, entries); err == nil {
		return fresh, nil
	}
	return len(entries), nil
}

func (s deafStore) Now(ctx context.Context) (time.Time, error) {
	if now, err := s.RouterStore.Now(ctx); err == nil {
		return now, nil
	}
	return time.Now(), nil
}

// ownClockStore compares leases with the clock of the worker's machine.
type ownClockStore struct {
	worker.Store
	address string
	clock   func() time.Time
}

func (s ownClockStore) Recover(ctx context.Context) (int, error) {
	recovered, err := s.Store.Recover(ctx)
	if err != nil {
		return recovered, err
	}
	err = inTable(ctx, s.address, "UPDATE dead_letter_queue SET status = 'dlq_pending', locked_by = NULL, locked_at = "+
		"NULL, lease_until = NULL, next_retry_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), version = version + 1 WHERE "+
		"status = 'dlq_processing' AND lease_until < ?", s.clock().UTC().Format("2006-01-02T15:04:05.000Z"))
	return recovered, err
}

// greedyStore also hands out locked entries.
type greedyStore struct{ worker.Store }

func (s greedyStore) Claim(ctx context.Context, name string, lease time.Duration, limit int) ([]store.Entry, error) {
	claimed, err := s.Store.Claim(ctx, name, lease, limit)
	reader, can := s.Store.(store.Reader)
	if err != nil || !can {
		return claimed, err
	}
	others, _, err := reader.List(ctx, store.Query{States: []store.State{store.Processing}, Limit: limit})
	for _, entry := range others {
		if entry.LockedBy != name {
			claimed = append(claimed, entry)
		}
	}
	return claimed, err
}

// forgetfulStore never recovers entries.
type forgetfulStore struct{ worker.Store }

func (forgetfulStore) Recover(context.Context) (int, error) { return 0, nil }

// hastyRetrier reports success and then tries.
type hastyRetrier struct{ worker.Retrier }

func (r hastyRetrier) Retry(ctx context.Context, entry store.Entry) error {
	time.AfterFunc(200*time.Millisecond, func() {
		_ = r.Retrier.Retry(context.WithoutCancel(ctx), entry) // the result is ignored
	})
	return nil
}

// eagerRetrier tries twice.
type eagerRetrier struct{ worker.Retrier }

func (r eagerRetrier) Retry(ctx context.Context, entry store.Entry) error {
	if err := r.Retrier.Retry(ctx, entry); err != nil {
		return err
	}
	return r.Retrier.Retry(ctx, entry)
}

// impatientStore makes an entry due after a fixed time, regardless of its strategy.
type impatientStore struct {
	worker.Store
	wait time.Duration
}

func (s impatientStore) Settle(ctx context.Context, lock store.Lock, change store.Change) error {
	if change.State == store.Pending {
		change.RetryIn, change.RetryAt = s.wait, time.Time{}
	}
	return s.Store.Settle(ctx, lock, change)
}

// tidyStore deletes resolved entries.
type tidyStore struct{ worker.Store }

func (s tidyStore) Settle(ctx context.Context, lock store.Lock, change store.Change) error {
	err := s.Store.Settle(ctx, lock, change)
	if keeper, can := s.Store.(store.Keeper); can && err == nil && change.State == store.Resolved {
		_, err = keeper.Remove(ctx, []string{lock.ID})
	}
	return err
}

// revivingStore writes to the table directly.
type revivingStore struct {
	worker.Store
	address string
	count   atomic.Int64
}

func (s *revivingStore) Settle(ctx context.Context, lock store.Lock, change store.Change) error {
	err := s.Store.Settle(ctx, lock, change)
	if err != nil || change.State != store.Resolved || s.count.Add(1)%5 != 0 {
		return err
	}
	return inTable(ctx, s.address,
		"UPDATE dead_letter_queue SET status = 'dlq_pending', version = version + 1 WHERE id = ?", lock.ID)
}

// inTable changes the table without going through the store.
func inTable(ctx context.Context, address, statement string, args ...any) error {
	path, _, _ := strings.Cut(strings.TrimPrefix(address, "sqlite:"), "?")
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return fmt.Errorf("opening the table: %w", err)
	}
	_, err = db.ExecContext(ctx, statement, args...)
	return errors.Join(err, db.Close())
}
