package sqlstore_test

import (
	"database/sql"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/sqlstore"
	"github.com/dlqbench/dlqbench/store/storetest"
)

// filled is a store with a number of entries in the states of a store in use.
func filled(t testing.TB, db *sqlstore.DB, past *sql.DB, entries int, start time.Time) {
	t.Helper()
	for from := 0; from < entries; from += 1000 {
		must.Get(db.Ingest(t.Context(), storetest.Spread(from, min(1000, entries-from), start)))(t)
	}
	for _, text := range storetest.Ripen() {
		must.Get(past.ExecContext(t.Context(), text))(t)
	}
	// PostgreSQL gathers statistics by itself after a while. SQLite has none unless requested, and must work without.
	if _, isPostgres := past.Driver().(*stdlib.Driver); isPostgres {
		must.Get(past.ExecContext(t.Context(), "VACUUM ANALYZE"))(t)
	}
}

// TestListsUseTheIndexes checks the plans: no list that has an index reads the whole table. PostgreSQL, which reads any
// small table whole, is told not to.
func TestListsUseTheIndexes(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		db := p.migrated(t, store.Options{})
		start := time.Now().Add(-90 * 24 * time.Hour)
		filled(t, db, p.db, 2000, start)
		isSQLite := strings.HasPrefix(p.address, "sqlite:")
		if !isSQLite {
			p.address += "&options=-c%20enable_seqscan%3Doff"
			db = p.open(t, store.Options{})
		}
		for name, q := range storetest.Lists(start) {
			plan := must.Get(db.Explain(t.Context(), q.Query))(t)
			used := slices.ContainsFunc(strings.Split(plan, "\n"), func(line string) bool {
				return strings.Contains(line, q.Uses) && (isSQLite && strings.Contains(line, "USING INDEX") ||
					!isSQLite && strings.Contains(line, "Index"))
			})
			if !used || strings.Contains(plan, "Seq Scan") {
				t.Errorf("%s: %s", name, plan)
			}
		}
	})
}

// TestPagesOfASubscriber checks that the page of a subscriber is read from the index in the order of time, without
// sorting, however many entries the subscriber has.
func TestPagesOfASubscriber(t *testing.T) {
	file := filepath.Join(t.TempDir(), "subscribers.db")
	p := newPlace(t, "sqlite:"+file, "sqlite", file)
	db := p.migrated(t, store.Options{})
	filled(t, db, p.db, 2000, time.Unix(1_700_000_000, 0))
	for _, query := range []store.Query{{SubscriberID: "subscriber-7"}, {SubscriberID: "subscriber-7", Descending: true},
		{SubscriberID: "nobody"}} {
		plan, err := db.Explain(t.Context(), query)
		if err != nil || !strings.Contains(plan,
			"SEARCH dead_letter_queue USING INDEX dead_letter_queue_subscriber_id_idx") || strings.Contains(plan, "ORDER BY") {
			t.Errorf("%+v: %s (%v)", query, plan, err)
		}
	}
	page, _, err := db.List(t.Context(), store.Query{SubscriberID: "subscriber-7", Limit: 10})
	if err != nil || len(page) != 10 || page[0].EventID != "evt-7" || page[9].EventID != "evt-187" {
		t.Errorf("a page of %d (%v)", len(page), err)
	}
}

// TestCrowdedFilters checks that, if a filter matches more entries than SQLite can sort in time, the list is read in
// its order and finds the same.
func TestCrowdedFilters(t *testing.T) {
	file := filepath.Join(t.TempDir(), "crowded.db")
	p := newPlace(t, "sqlite:"+file, "sqlite", file)
	db := p.migrated(t, store.Options{})
	const entries = 11000
	for from := 0; from < entries; from += 1000 {
		some := storetest.Spread(from, 1000, time.Unix(1_700_000_000, 0))
		for i := range some {
			some[i].SubscriberID = []string{"crm", "erp"}[i%2]
		}
		must.Get(db.Ingest(t.Context(), some))(t)
	}
	for name, query := range map[string]store.Query{"pattern": {Patterns: []string{"payment.*"}},
		"subscriber": {SubscriberID: "crm", OrderBy: "updatedAt"}, "state": {States: []store.State{store.Pending},
			OrderBy: "priority"}} {
		plan, err := db.Explain(t.Context(), query)
		if err != nil || strings.Contains(plan, "ORDER BY") && !strings.Contains(plan, "LAST") ||
			!strings.Contains(plan, "SCAN") {
			t.Errorf("%s: %s (%v)", name, plan, err)
		}
		n, err := db.Count(t.Context(), query)
		if err != nil || n != map[bool]int64{true: entries, false: entries / 2}[name == "state"] {
			t.Errorf("%s: %d entries (%v)", name, n, err)
		}
		page, _, err := db.List(t.Context(), query)
		if err != nil || len(page) != 100 {
			t.Fatalf("%s: a page of %d (%v)", name, len(page), err)
		}
		for i, entry := range page {
			fits := strings.HasPrefix(entry.Pattern, "payment.") && name == "pattern" ||
				entry.SubscriberID == "crm" && name == "subscriber" || name == "state"
			if !fits || i > 0 && query.OrderBy == "" && entry.CreatedAt.Before(page[i-1].CreatedAt) {
				t.Errorf("%s: entry %d has pattern %s, subscriber %s, created %s", name, i, entry.Pattern, entry.SubscriberID,
					entry.CreatedAt)
			}
		}
	}
}
