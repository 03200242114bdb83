package sqlstore_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/dlqbench/dlqbench/deadletter/store"
	"github.com/dlqbench/dlqbench/deadletter/store/sqlstore"
)

// indexed are queries of which each has a filter or an order that an index is for, and words of the plans that show it is used.
func indexed(start time.Time) map[string]indexedQuery {
	from := start.Add(24 * time.Hour)
	return map[string]indexedQuery{
		"newest":                  {store.Query{Descending: true}, "created_at"},
		"pending, oldest first":   {store.Query{States: []store.State{store.Pending}}, "status"},
		"failed, newest first":    {store.Query{States: []store.State{store.Failed}, Descending: true}, "status"},
		"error type":              {store.Query{ErrorTypes: []string{"NetworkError"}}, "error_type"},
		"rare error type":         {store.Query{ErrorTypes: []string{"RareError"}}, "error_type"},
		"two error types, failed": {store.Query{ErrorTypes: []string{"RareError", "NetworkError"}, States: []store.State{store.Failed}}, "_idx"},
		"event":                   {store.Query{EventID: "evt-4711"}, "event_id"},
		"subscriber":              {store.Query{SubscriberID: "subscriber-7"}, "_idx"},
		"rare subscriber":         {store.Query{SubscriberID: "nobody"}, "subscriber_id"},
		"created in a day":        {store.Query{CreatedFrom: from, CreatedTo: from.Add(24 * time.Hour)}, "created_at"},
		"updated before":          {store.Query{UpdatedBefore: from, OrderBy: "updatedAt"}, "updated_at"},
		"by update, newest":       {store.Query{OrderBy: "updatedAt", Descending: true}, "updated_at"},
		"by priority":             {store.Query{OrderBy: "priority", Descending: true}, "priority"},
		"pattern":                 {store.Query{Patterns: []string{"payment.*"}}, "_idx"},
		"rare pattern":            {store.Query{Patterns: []string{"refund.*"}}, "pattern"},
		"exact rare pattern":      {store.Query{Patterns: []string{"refund.late"}}, "pattern"},
	}
}

type indexedQuery struct {
	query store.Query
	uses  string
}

// spread are entries over 90 days, with a few of rare kinds.
func spread(from, n int, start time.Time) []store.Entry {
	all := typicals(from, n, start)
	for i := range all {
		all[i].CreatedAt = start.Add(time.Duration(from+i) * 7 * time.Second)
		all[i].Error.Stack = "Error: x"
		all[i].Value = fmt.Appendf(nil, `{"pattern":"%s","n":%d}`, []string{"payment.created", "payment.failed", "order.created", "invoice.created"}[i%4], from+i)
		if (from+i)%20000 == 19999 {
			all[i].Error.Type, all[i].SubscriberID, all[i].Value = "RareError", "somebody", []byte(`{"pattern":"refund.late"}`)
		}
	}
	return all
}

// filled is a store of so many entries: 8 of 10 are resolved, one in a hundred is failed, the others are pending.
func filled(t testing.TB, db *sqlstore.DB, past *sql.DB, entries int, start time.Time) {
	t.Helper()
	for from := 0; from < entries; from += 1000 {
		if _, err := db.Ingest(t.Context(), spread(from, min(1000, entries-from), start)); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{
		"UPDATE dead_letter_queue SET status = 'dlq_resolved', next_retry_at = NULL, resolution_strategy = 'automatic_retry', resolution_timestamp = updated_at WHERE source_offset % 10 < 8",
		"UPDATE dead_letter_queue SET status = 'dlq_failed', next_retry_at = NULL WHERE source_offset % 100 = 99",
	} {
		if _, err := past.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	// PostgreSQL gathers statistics by itself after a while. SQLite has none unless somebody asks for them, and has to do without.
	if _, isPostgres := past.Driver().(*stdlib.Driver); isPostgres {
		if _, err := past.ExecContext(t.Context(), "VACUUM ANALYZE"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestListsUseTheIndexes looks at the plans: no list that an index is for reads the whole table. PostgreSQL, which reads a small table whole whatever there
// is, is told not to.
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
		for name, q := range indexed(start) {
			plan, err := db.Explain(t.Context(), q.query)
			if err != nil {
				t.Fatal(err)
			}
			used := slices.ContainsFunc(strings.Split(plan, "\n"), func(line string) bool {
				return strings.Contains(line, q.uses) && (isSQLite && strings.Contains(line, "USING INDEX") || !isSQLite && strings.Contains(line, "Index"))
			})
			if !used || strings.Contains(plan, "Seq Scan") {
				t.Errorf("%s: %s", name, plan)
			}
		}
	})
}

// TestCrowdedFilters: where a filter fits more entries than SQLite can sort in time, it goes through them in the order of the list, and finds the same.
func TestCrowdedFilters(t *testing.T) {
	file := filepath.Join(t.TempDir(), "crowded.db")
	p := newPlace(t, "sqlite:"+file, "sqlite", file)
	db := p.migrated(t, store.Options{})
	const entries = 11000
	for from := 0; from < entries; from += 1000 {
		some := spread(from, 1000, time.Unix(1_700_000_000, 0))
		for i := range some {
			some[i].SubscriberID = []string{"crm", "erp"}[i%2]
		}
		if _, err := db.Ingest(t.Context(), some); err != nil {
			t.Fatal(err)
		}
	}
	for name, query := range map[string]store.Query{"pattern": {Patterns: []string{"payment.*"}}, "subscriber": {SubscriberID: "crm"}, "state": {States: []store.State{store.Pending}, OrderBy: "priority"}} {
		plan, err := db.Explain(t.Context(), query)
		if err != nil || strings.Contains(plan, "ORDER BY") && !strings.Contains(plan, "LAST") || !strings.Contains(plan, "SCAN") {
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
			fits := strings.HasPrefix(entry.Pattern, "payment.") && name == "pattern" || entry.SubscriberID == "crm" && name == "subscriber" || name == "state"
			if !fits || i > 0 && query.OrderBy == "" && entry.CreatedAt.Before(page[i-1].CreatedAt) {
				t.Errorf("%s: entry %d has pattern %s, subscriber %s, created %s", name, i, entry.Pattern, entry.SubscriberID, entry.CreatedAt)
			}
		}
	}
}

// BenchmarkList asks for pages of 100 of 1,000,000 entries; the promise is 50 ms for each filter that has an index. The plans are printed.
func BenchmarkList(b *testing.B) {
	const entries = 1_000_000
	start := time.Now().Add(-90 * 24 * time.Hour)
	file := filepath.Join(b.TempDir(), "million.db")
	places := map[string]func(b *testing.B) (string, string, string){
		"sqlite":   func(*testing.B) (string, string, string) { return "sqlite:" + file, "sqlite", file },
		"postgres": func(b *testing.B) (string, string, string) { url := database(b); return url, "pgx", url },
	}
	for engine, where := range places {
		b.Run(engine, func(b *testing.B) {
			address, driver, name := where(b)
			past, err := sql.Open(driver, name)
			if err != nil {
				b.Fatal(err)
			}
			defer past.Close()
			connect := sqlstore.SQLite
			if driver == "pgx" {
				connect = sqlstore.Postgres
			}
			db, err := connect(b.Context(), address, store.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			if _, err := db.Migrate(b.Context()); err != nil {
				b.Fatal(err)
			}
			filled(b, db, past, entries, start)
			benchmarkPages(b, db, start)
		})
	}
}

func benchmarkPages(b *testing.B, db *sqlstore.DB, start time.Time) {
	for name, q := range indexed(start) {
		b.Run(strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if _, _, err := db.List(b.Context(), q.query); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			b.ReportMetric(float64(slices.Max(took).Microseconds())/1000, "max-ms")
			plan, err := db.Explain(b.Context(), q.query)
			if err != nil {
				b.Fatal(err)
			}
			b.Logf("%s:\n%s", name, plan)
		})
	}
}
