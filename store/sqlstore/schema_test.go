package sqlstore_test

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/sqlstore"
	"github.com/dlqbench/dlqbench/store/storetest"
)

// place is an empty database of either engine, with direct access that bypasses the store.
type place struct {
	address string
	db      *sql.DB
}

// everywhere runs a test on each engine.
func everywhere(t *testing.T, test func(t *testing.T, p place)) {
	t.Run("sqlite", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "store.db")
		test(t, newPlace(t, "sqlite:"+file, "sqlite", file))
	})
	t.Run("postgres", func(t *testing.T) {
		url := database(t)
		test(t, newPlace(t, url, "pgx", url))
	})
}

func newPlace(t *testing.T, address, driver, name string) place {
	db := must.Get(sql.Open(driver, name))(t)
	t.Cleanup(func() { db.Close() })
	return place{address, db}
}

func (p place) open(t *testing.T, options store.Options) *sqlstore.DB {
	t.Helper()
	connect := sqlstore.Postgres
	if strings.HasPrefix(p.address, "sqlite:") {
		connect = sqlstore.SQLite
	}
	db := must.Get(connect(t.Context(), p.address, options))(t)
	t.Cleanup(func() { db.Close() })
	return db
}

func (p place) migrated(t *testing.T, options store.Options) *sqlstore.DB {
	t.Helper()
	db := p.open(t, options)
	must.Get(db.Migrate(t.Context()))(t)
	return db
}

// exec runs SQL directly.
func (p place) exec(t *testing.T, text string) {
	t.Helper()
	if _, err := p.db.ExecContext(t.Context(), text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// rows returns the result of a direct query, as text by row and column.
func (p place) rows(t *testing.T, text string) [][]string {
	t.Helper()
	rows, err := p.db.QueryContext(t.Context(), text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer rows.Close()
	columns := must.Get(rows.Columns())(t)
	var all [][]string
	for rows.Next() {
		fields, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range fields {
			into[i] = &fields[i]
		}
		must.Do(t, rows.Scan(into...))
		row := make([]string, len(columns))
		for i, field := range fields {
			row[i] = field.String
		}
		all = append(all, row)
	}
	must.Do(t, rows.Err())
	return all
}

// migrations are the database's migrations, including that of an observed store.
func (p place) migrations() []string {
	all := []string{"0001_dead_letter_queue", "0002_dead_letter_audit"}
	if strings.HasPrefix(p.address, "sqlite:") {
		all = append(all, "0003_subscriber_pages")
	}
	return all
}

func due(n int) store.Entry {
	return storetest.Typical(n, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
}

func TestNothingWorksBeforeMigration(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		db := p.open(t, store.Options{Audit: true})
		calls := map[string]func() error{
			"Ingest":  func() error { _, err := db.Ingest(t.Context(), []store.Entry{due(1)}); return err },
			"Claim":   func() error { _, err := db.Claim(t.Context(), "w", time.Minute, 1); return err },
			"Renew":   func() error { return db.Renew(t.Context(), store.Lock{}, time.Minute) },
			"Settle":  func() error { return db.Settle(t.Context(), store.Lock{}, store.Change{State: store.Resolved}) },
			"Recover": func() error { _, err := db.Recover(t.Context()); return err },
			"Get":     func() error { _, err := db.Get(t.Context(), "x"); return err },
			"List":    func() error { _, _, err := db.List(t.Context(), store.Query{}); return err },
			"Count":   func() error { _, err := db.Count(t.Context(), store.Query{}); return err },
			"Stats":   func() error { _, err := db.Stats(t.Context()); return err },
			"Alter":   func() error { return db.Alter(t.Context(), "x", 1, store.Change{}) },
			"Remove":  func() error { _, err := db.Remove(t.Context(), nil); return err },
		}
		for name, call := range calls {
			if err := call(); !errors.Is(err, store.ErrNotMigrated) || !strings.Contains(err.Error(), "dlqbench dlq migrate") {
				t.Errorf("%s on an empty database: %v", name, err)
			}
		}
		if _, err := db.Now(t.Context()); err != nil {
			t.Error(err)
		}
		made, err := db.Migrate(t.Context())
		if err != nil || !slices.Equal(made, p.migrations()) {
			t.Errorf("made %v (%v)", made, err)
		}
		for name, call := range calls {
			if err := call(); errors.Is(err, store.ErrNotMigrated) {
				t.Errorf("%s on a migrated database: %v", name, err)
			}
		}
	})
}

func TestSchemasThatAreNotWhatTheyShouldBe(t *testing.T) {
	cases := map[string]struct {
		damage   string
		says     string
		migrates bool
	}{
		"a migration is missing": {"DROP TABLE dead_letter_audit; DELETE FROM dead_letter_migration WHERE version = " +
			"2; DROP_TRIGGERS", "lacks 0002_dead_letter_audit", true},
		"the mark of one is missing": {"DELETE FROM dead_letter_migration WHERE version = 2",
			"lacks 0002_dead_letter_audit", false},
		"made by a newer program": {"INSERT INTO dead_letter_migration VALUES (9, '0009_later', 'x', 'now')",
			"doesn't know its migration 0009_later", false},
		"made by another program": {"UPDATE dead_letter_migration SET checksum = 'x' WHERE version = 1",
			"another 0001_dead_letter_queue", false},
		"a column is missing":          {"ALTER TABLE dead_letter_queue DROP COLUMN service", "half migrated", false},
		"the table is missing":         {"DROP TABLE dead_letter_queue", "half migrated", false},
		"it doesn't say how it speaks": {"DELETE FROM dead_letter_setting", "status words", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, p place) {
				p.migrated(t, store.Options{Audit: true})
				p.exec(t, strings.ReplaceAll(c.damage, "DROP_TRIGGERS", dropTriggers(p)))
				db := p.open(t, store.Options{Audit: true})
				_, _, err := db.List(t.Context(), store.Query{})
				if !errors.Is(err, store.ErrNotMigrated) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("listing: %v", err)
				}
				_, err = db.Migrate(t.Context())
				if c.migrates != (err == nil) || err != nil && !errors.Is(err, store.ErrNotMigrated) {
					t.Errorf("migrating: %v", err)
				}
				if _, _, err := db.List(t.Context(), store.Query{}); c.migrates != (err == nil) {
					t.Errorf("listing after that: %v", err)
				}
			})
		})
	}
}

func dropTriggers(p place) string {
	if strings.HasPrefix(p.address, "sqlite:") {
		return "DROP TRIGGER dead_letter_queue_audit_insert; DROP TRIGGER dead_letter_queue_audit_update; DROP TRIGGER " +
			"dead_letter_queue_audit_delete"
	}
	return "DROP TRIGGER dead_letter_queue_audit ON dead_letter_queue; DROP FUNCTION dead_letter_queue_audit()"
}

// TestHalfAMigrationIsNoMigration begins a migration by hand. Migrate undoes its own part and reports the problem.
func TestHalfAMigrationIsNoMigration(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		p.migrated(t, store.Options{})
		// The table exists, but its triggers and its mark do not.
		p.exec(t, "CREATE INDEX dead_letter_audit_entry_id_idx ON dead_letter_queue (event_id)")
		_, err := p.open(t, store.Options{Audit: true}).Migrate(t.Context())
		if !errors.Is(err, store.ErrNotMigrated) || !strings.Contains(err.Error(), "0002_dead_letter_audit, of which "+
			"nothing was kept") {
			t.Errorf("migrating: %v", err)
		}
		if err := tableThere(t, p, "dead_letter_audit"); err == nil {
			t.Error("the table that the migration made before it failed is still there")
		}
		if _, _, err := p.open(t, store.Options{}).List(t.Context(), store.Query{}); err != nil {
			t.Errorf("a store that doesn't need that migration: %v", err)
		}
		p.exec(t, "DROP INDEX dead_letter_audit_entry_id_idx")
		if made, err := p.open(t, store.Options{Audit: true}).Migrate(t.Context()); err != nil || len(made) != 1 {
			t.Errorf("migrating once that is out of the way: %v (%v)", made, err)
		}
	})
}

func tableThere(t *testing.T, p place, table string) error {
	_, err := p.db.ExecContext(t.Context(), "SELECT 1 FROM "+table)
	return err
}

func TestManyMigrateAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		var all sync.WaitGroup
		made := make(chan string, 100)
		for range 6 {
			db := p.open(t, store.Options{Audit: true})
			all.Go(func() {
				names, err := db.Migrate(t.Context())
				if err != nil {
					t.Error(err)
				}
				for _, name := range names {
					made <- name
				}
			})
		}
		all.Wait()
		close(made)
		count := map[string]int{}
		for name := range made {
			count[name]++
		}
		once := map[string]int{}
		for _, name := range p.migrations() {
			once[name] = 1
		}
		if !maps.Equal(count, once) {
			t.Errorf("made: %v", count)
		}
	})
}

func TestVocabularyIsTheDatabases(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		p.migrated(t, store.Options{Vocabulary: store.VocabularyManagement})
		db := p.open(t, store.Options{})
		must.Get(db.Ingest(t.Context(), []store.Entry{due(1)}))(t)
		if got := p.rows(t, "SELECT status, held FROM dead_letter_queue"); fmt.Sprint(got) != "[[pending ]]" {
			t.Errorf("the table has %q", got)
		}
		_, err := p.open(t, store.Options{Vocabulary: store.VocabularyLifecycle}).Count(t.Context(), store.Query{})
		if err == nil || !strings.Contains(err.Error(), "speaks the vocabulary management") {
			t.Errorf("opened as lifecycle: %v", err)
		}
	})
}

// TestUnknownStatus checks that an entry with an unknown status is shown, and never claimed, changed or removed.
func TestUnknownStatus(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		db := p.migrated(t, store.Options{})
		must.Get(db.Ingest(t.Context(), []store.Entry{due(1), due(2)}))(t)
		p.exec(t, "UPDATE dead_letter_queue SET status = 'on_holiday' WHERE source_offset = 1")
		page, _, err := db.List(t.Context(), store.Query{States: []store.State{"on_holiday"}})
		if err != nil || len(page) != 1 || page[0].State != "on_holiday" ||
			!errors.Is(page[0].Problem(), store.ErrUnknownStatus) {
			t.Fatalf("listed: %v (%v)", page, err)
		}
		id := page[0].ID
		claimed, err := db.Claim(t.Context(), "w", time.Minute, 10)
		if err != nil || len(claimed) != 1 || claimed[0].ID == id {
			t.Errorf("claimed %d (%v)", len(claimed), err)
		}
		if err := db.Alter(t.Context(), id, 1, store.Change{State: store.Archived}); !errors.Is(err, store.ErrUnknownStatus) {
			t.Errorf("changed: %v", err)
		}
		if n, err := db.Remove(t.Context(), []string{id}); err != nil || n != 0 {
			t.Errorf("removed: %d (%v)", n, err)
		}
		if n, err := db.Recover(t.Context()); err != nil || n != 0 {
			t.Errorf("recovered: %d (%v)", n, err)
		}
		stats, err := db.Stats(t.Context())
		if err != nil || stats.ByState["on_holiday"] != 1 {
			t.Errorf("counted: %v (%v)", stats.ByState, err)
		}
	})
}
