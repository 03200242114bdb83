package cost

// This file measures the dead-letter store. Every commit is on the disk before it is answered (synchronous=FULL,
// fsync).

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/internal/env/postgres"
	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/sqlstore"
	"github.com/dlqbench/dlqbench/store/storetest"
)

// storeKind is a database in which stores can be opened.
type storeKind struct {
	name string
	// fresh returns the address of a new database, and the driver and the name with which it is opened in parallel to
	// the store.
	fresh func(b *testing.B) (address, driver, name string)
	open  func(ctx context.Context, address string, options store.Options) (*sqlstore.DB, error)
}

// storeKinds are the databases available on this machine.
func storeKinds(b *testing.B) []storeKind {
	kinds := []storeKind{{"sqlite", func(b *testing.B) (string, string, string) {
		file := filepath.Join(b.TempDir(), "store.db")
		return "sqlite:" + file, "sqlite", file
	}, sqlstore.SQLite}}
	server, err := postgres.Start(b.Context(), nil)
	if errors.Is(err, postgres.ErrAbsent) {
		b.Logf("postgres is not measured: %v", err)
		return kinds
	}
	done(b, err)
	b.Cleanup(func() { done(b, server.Close()) })
	databases := 0
	return append(kinds, storeKind{"postgres", func(b *testing.B) (string, string, string) {
		databases++
		url := must(server.Create(b.Context(), fmt.Sprintf("bench_%d", databases)))(b)
		return url, "pgx", url
	}, sqlstore.Postgres})
}

// newStore opens a store in a new database, and returns how that is opened beside the store.
func newStore(b *testing.B, kind storeKind, options store.Options) (db *sqlstore.DB, driver, name string) {
	address, driver, name := kind.fresh(b)
	db = must(kind.open(b.Context(), address, options))(b)
	b.Cleanup(func() { done(b, db.Close()) })
	must(db.Migrate(b.Context()))(b)
	return db, driver, name
}

// BenchmarkStore measures ingesting dead letters in batches of 500, and cycles of lock, process and resolve by workers
// that lock ten at a time, with and without an audit table.
func BenchmarkStore(b *testing.B) {
	const ingested, backlog = 10_000, 4_000
	for _, kind := range storeKinds(b) {
		for _, audit := range []bool{false, true} {
			name := fmt.Sprintf("db=%s/audit=%t", kind.name, audit)
			b.Run("do=ingest/"+name, func(b *testing.B) {
				var m meter
				for b.Loop() {
					db, _, _ := newStore(b, kind, store.Options{Audit: audit})
					m.take(b, ingested, func() error { return fill(b.Context(), db, ingested, time.Now()) })
				}
				m.report(b, "dead-letter")
			})
			b.Run("do=cycle/"+name, func(b *testing.B) {
				var m meter
				for b.Loop() {
					db, _, _ := newStore(b, kind, store.Options{Audit: audit})
					done(b, fill(b.Context(), db, backlog, time.Now().Add(-time.Hour)))
					m.take(b, backlog, func() error { return workOff(b.Context(), db, backlog) })
				}
				m.report(b, "cycle")
			})
		}
	}
}

func fill(ctx context.Context, db *sqlstore.DB, entries int, due time.Time) error {
	const batch = 500
	for from := 0; from < entries; from += batch {
		if _, err := db.Ingest(ctx, storetest.Typicals(from, min(batch, entries-from), due)); err != nil {
			return err
		}
	}
	return nil
}

// workOff resolves all due entries, with eight workers.
func workOff(ctx context.Context, db *sqlstore.DB, due int) error {
	const workers = 8
	resolved, errs := make([]int, workers), make([]error, workers)
	var all sync.WaitGroup
	for w := range workers {
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
	if sum != due {
		return fmt.Errorf("resolved %d entries of %d", sum, due)
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

// BenchmarkList measures a page of 100 entries of each list that has an index, in a store like one that was in use for
// 90 days. With -v, it prints the plans of the lists.
func BenchmarkList(b *testing.B) {
	start := time.Now().Add(-90 * 24 * time.Hour)
	lists := storetest.Lists(start)
	for _, kind := range storeKinds(b) {
		db := spreadStore(b, kind, start)
		for _, name := range slices.Sorted(maps.Keys(lists)) {
			if testing.Verbose() {
				b.Logf("plan, %s: %s\n%s", kind.name, name, must(db.Explain(b.Context(), lists[name].Query))(b))
			}
			page := func(b *testing.B) {
				_, _, err := db.List(b.Context(), lists[name].Query)
				done(b, err)
			}
			page(b) // the first request reads data from disk that is not cached yet
			b.Run("db="+kind.name+"/list="+name, func(b *testing.B) {
				for b.Loop() {
					for range 30 {
						page(b)
					}
				}
				b.ReportMetric(b.Elapsed().Seconds()*1e3/30/float64(b.N), "ms/page")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func spreadStore(b *testing.B, kind storeKind, start time.Time) *sqlstore.DB {
	const batch = 1000
	db, driver, name := newStore(b, kind, store.Options{})
	for from := 0; from < *entries; from += batch {
		must(db.Ingest(b.Context(), storetest.Spread(from, min(batch, *entries-from), start)))(b)
	}
	past := must(sql.Open(driver, name))(b)
	defer func() { done(b, past.Close()) }()
	ripen := storetest.Ripen()
	if driver == "pgx" { // PostgreSQL gathers statistics by itself after a while; SQLite has none
		ripen = append(ripen, "VACUUM ANALYZE")
	}
	for _, statement := range ripen {
		must(past.ExecContext(b.Context(), statement))(b)
	}
	return db
}
