package main

// Section 6 measures the dead-letter store: the rate of ingested entries, the rate of cycles of lock, process and
// resolve by its workers, and the time for a page of a list.

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/internal/env/postgres"
	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/sqlstore"
	"github.com/dlqbench/dlqbench/store/storetest"
)

const (
	storeBatch   = 500
	storeIngest  = 10_000
	storeBacklog = 4_000
	storeWorkers = 8
	storeRounds  = 3
	// pageAsked is the number of requests of each list, after one that does not count because it reads data from disk
	// that is not cached yet.
	pageAsked = 30
)

// storeKind is a database in which stores can be opened.
type storeKind struct {
	name string
	// fresh returns the address of a new database, and the driver and the name with which it is opened in parallel to
	// the store.
	fresh func(ctx context.Context) (address, driver, name string, err error)
	open  func(ctx context.Context, address string, options store.Options) (*sqlstore.DB, error)
}

// storeKinds are the databases available on this machine. absent says which are not measured, and why.
func storeKinds(ctx context.Context, o options) (kinds []storeKind, absent string, end func() error, err error) {
	count := 0
	kinds = []storeKind{{"sqlite", func(context.Context) (string, string, string, error) {
		count++
		file := filepath.Join(o.dir, fmt.Sprintf("store-%d.db", count))
		return "sqlite:" + file, "sqlite", file, nil
	}, sqlstore.SQLite}}
	server, err := postgres.Start(ctx, nil)
	if errors.Is(err, postgres.ErrAbsent) {
		return kinds, "postgres is not measured: " + err.Error(), func() error { return nil }, nil
	}
	if err != nil {
		return nil, "", nil, err
	}
	databases := 0
	kinds = append(kinds, storeKind{"postgres", func(ctx context.Context) (string, string, string, error) {
		databases++
		url, err := server.Create(ctx, fmt.Sprintf("bench_%d", databases))
		return url, "pgx", url, err
	}, sqlstore.Postgres})
	return kinds, "", server.Close, nil
}

func measureStore(ctx context.Context, o options) (found section, err error) {
	kinds, absent, end, err := storeKinds(ctx, o)
	if err != nil {
		return section{}, err
	}
	defer func() { err = errors.Join(err, end()) }()
	found = section{
		Title: "The dead-letter store: taking in, working off, listing",
		How: []string{
			fmt.Sprintf(
				"%d rounds in turns: %d entries in batches of %d; %d entries locked 10 at a time and resolved by %d workers.",
				storeRounds, storeIngest, storeBatch, storeBacklog, storeWorkers),
			fmt.Sprintf("Then pages of 100 of %d entries, each list %d times: the median, and the slowest.", o.entries,
				pageAsked),
			"Every commit is on the disk before it is answered (synchronous=FULL, fsync).",
		},
	}
	if absent != "" {
		found.How = append(found.How, absent)
	}
	for _, measure := range []func(context.Context, []storeKind) ([]row, error){ingestRows, cycleRows} {
		rows, err := measure(ctx, kinds)
		if err != nil {
			return found, err
		}
		found.Rows = append(found.Rows, rows...)
	}
	for _, kind := range kinds {
		rows, plans, err := pageRows(ctx, kind, o.entries)
		if err != nil {
			return found, err
		}
		found.Rows, found.After = append(found.Rows, rows...), append(found.After, plans...)
	}
	return found, nil
}

// variants are the kinds with and without an audit table, with their names.
func variants(kinds []storeKind, each func(kind storeKind, options store.Options) (sample, error)) (names []string,
	ways []func() (sample, error)) {
	for _, kind := range kinds {
		for _, audit := range []bool{false, true} {
			name := kind.name
			if audit {
				name += ", audited"
			}
			names = append(names, name)
			ways = append(ways, func() (sample, error) { return each(kind, store.Options{Audit: audit}) })
		}
	}
	return names, ways
}

// withStore opens a new store and calls do to measure in it.
func withStore(ctx context.Context, kind storeKind, options store.Options,
	do func(*sqlstore.DB) (sample, error)) (one sample, err error) {
	address, _, _, err := kind.fresh(ctx)
	if err != nil {
		return sample{}, err
	}
	db, err := kind.open(ctx, address, options)
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.Migrate(ctx); err != nil {
		return sample{}, err
	}
	return do(db)
}

func fill(ctx context.Context, db *sqlstore.DB, entries int, due time.Time) error {
	for from := 0; from < entries; from += storeBatch {
		if _, err := db.Ingest(ctx, storetest.Typicals(from, min(storeBatch, entries-from), due)); err != nil {
			return err
		}
	}
	return nil
}

func ingestRows(ctx context.Context, kinds []storeKind) ([]row, error) {
	names, ways := variants(kinds, func(kind storeKind, options store.Options) (sample, error) {
		return withStore(ctx, kind, options, func(db *sqlstore.DB) (sample, error) {
			return take(storeIngest, func() error { return fill(ctx, db, storeIngest, time.Now()) })
		})
	})
	return storeRows("taken in", "entries/s", "≥ 5,000", names, ways)
}

func cycleRows(ctx context.Context, kinds []storeKind) ([]row, error) {
	names, ways := variants(kinds, func(kind storeKind, options store.Options) (sample, error) {
		return withStore(ctx, kind, options, func(db *sqlstore.DB) (sample, error) {
			if err := fill(ctx, db, storeBacklog, time.Now().Add(-time.Hour)); err != nil {
				return sample{}, err
			}
			return take(storeBacklog, func() error { return workOff(ctx, db) })
		})
	})
	return storeRows("locked, processed, resolved", "cycles/s", "≥ 2,000", names, ways)
}

func storeRows(what, unit, goal string, names []string, ways []func() (sample, error)) ([]row, error) {
	all, err := inTurns(storeRounds, ways)
	if err != nil {
		return nil, err
	}
	var rows []row
	for i, samples := range all {
		one := summary(what+", "+names[i], unit, each(samples, sample.perSecond))
		one.Goal = goal
		rows = append(rows, one)
	}
	return rows, nil
}

// workOff resolves all due entries, with all workers concurrently.
func workOff(ctx context.Context, db *sqlstore.DB) error {
	resolved, errs := make([]int, storeWorkers), make([]error, storeWorkers)
	var all sync.WaitGroup
	for w := range storeWorkers {
		all.Go(func() { resolved[w], errs[w] = resolveDue(ctx, db, fmt.Sprintf("worker-%d", w)) })
	}
	all.Wait()
	sum := 0
	for _, n := range resolved {
		sum += n
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if sum != storeBacklog {
		return fmt.Errorf("resolved %d entries of %d", sum, storeBacklog)
	}
	return nil
}

func resolveDue(ctx context.Context, db *sqlstore.DB, name string) (resolved int, err error) {
	for {
		claimed, err := db.Claim(ctx, name, time.Minute, 10)
		if err != nil || len(claimed) == 0 {
			return resolved, err
		}
		for _, entry := range claimed {
			attempt := store.Attempt{At: entry.LockedAt, Worker: name, Strategy: store.Immediate, Result: "succeeded"}
			lock := store.Lock{ID: entry.ID, Worker: name, Version: entry.Version}
			if err := db.Settle(ctx, lock, store.Change{State: store.Resolved, Attempt: &attempt}); err != nil {
				return resolved, err
			}
			resolved++
		}
	}
}

// pageRows measures every list that has an index, and returns the plans of all lists.
func pageRows(ctx context.Context, kind storeKind, entries int) (rows []row, plans []string, err error) {
	start := time.Now().Add(-90 * 24 * time.Hour)
	db, err := spreadStore(ctx, kind, entries, start)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	lists := storetest.Lists(start)
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		var millis []float64
		for asked := range pageAsked + 1 {
			one, err := timed(func() error { _, _, err := db.List(ctx, lists[name].Query); return err })
			if err != nil {
				return rows, plans, err
			}
			if asked > 0 {
				millis = append(millis, one.Seconds()*1e3)
			}
		}
		one := summary("list, "+kind.name+": "+name, "ms", millis)
		one.Goal = "≤ 50 ms"
		rows = append(rows, one)
		plan, err := db.Explain(ctx, lists[name].Query)
		if err != nil {
			return rows, plans, err
		}
		plans = append(plans, fmt.Sprintf("plan, %s: %s", kind.name, name))
		for line := range strings.SplitSeq(plan, "\n") {
			plans = append(plans, "  "+line)
		}
	}
	return rows, plans, nil
}

func timed(do func() error) (time.Duration, error) {
	began := time.Now()
	err := do()
	return time.Since(began), err
}

// spreadStore is a store like one that was in use for 90 days.
func spreadStore(ctx context.Context, kind storeKind, entries int, start time.Time) (*sqlstore.DB, error) {
	address, driver, name, err := kind.fresh(ctx)
	if err != nil {
		return nil, err
	}
	db, err := kind.open(ctx, address, store.Options{})
	if err != nil {
		return nil, err
	}
	if err := spreadIn(ctx, db, driver, name, entries, start); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func spreadIn(ctx context.Context, db *sqlstore.DB, driver, name string, entries int, start time.Time) error {
	if _, err := db.Migrate(ctx); err != nil {
		return err
	}
	const batch = 1000
	for from := 0; from < entries; from += batch {
		if _, err := db.Ingest(ctx, storetest.Spread(from, min(batch, entries-from), start)); err != nil {
			return err
		}
	}
	past, err := sql.Open(driver, name)
	if err != nil {
		return err
	}
	ripen := storetest.Ripen()
	if driver == "pgx" { // PostgreSQL gathers statistics by itself after a while; SQLite has none
		ripen = append(ripen, "VACUUM ANALYZE")
	}
	for _, statement := range ripen {
		if _, err := past.ExecContext(ctx, statement); err != nil {
			return errors.Join(err, past.Close())
		}
	}
	return past.Close()
}
