package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/sqlstore"
	"github.com/dlqbench/dlqbench/store/storetest"
)

// TestFull fills a database with a page limit. It reports that it is full, keeps its entries, and accepts more once
// there is space.
func TestFull(t *testing.T) {
	address := "sqlite:" + filepath.Join(t.TempDir(), "small.db") + "?_pragma=max_page_count(150)"
	db := must.Get(sqlstore.SQLite(t.Context(), address, store.Options{}))(t)
	defer db.Close()
	must.Get(db.Migrate(t.Context()))(t)
	kept := 0
	for n := 0; ; n += 10 {
		if n > 10000 {
			t.Fatal("it never was full")
		}
		fresh, err := db.Ingest(t.Context(), storetest.Typicals(n, 10, time.Now()))
		if err != nil {
			if !errors.Is(err, store.ErrFull) || fresh != 0 {
				t.Errorf("full: %d were kept, %v", fresh, err)
			}
			break
		}
		kept += fresh
	}
	n, err := db.Count(t.Context(), store.Query{})
	if err != nil || int(n) != kept || kept == 0 {
		t.Errorf("%d are there, %d were kept (%v)", n, kept, err)
	}
	// In a shared transaction, a change that does not fit must not affect the others.
	var all sync.WaitGroup
	var failed, done int
	var mu sync.Mutex
	page, _, err := db.List(t.Context(), store.Query{Limit: 5})
	if err != nil {
		t.Fatal(err)
	}
	huge := storetest.Typical(1<<20, time.Now())
	huge.Error.Stack = strings.Repeat("at frame\n", 1<<17)
	for i := range 10 {
		all.Go(func() {
			var err error
			if i%2 == 0 {
				_, err = db.Ingest(t.Context(), []store.Entry{huge})
			} else {
				err = db.Alter(t.Context(), page[i/2].ID, 1, store.Change{State: store.Archived})
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case i%2 == 0 && errors.Is(err, store.ErrFull):
				failed++
			case i%2 == 1 && err == nil:
				done++
			default:
				t.Errorf("change %d: %v", i, err)
			}
		})
	}
	all.Wait()
	archived, err := db.Count(t.Context(), store.Query{States: []store.State{store.Archived}})
	if failed != 5 || done != 5 || archived != 5 || err != nil {
		t.Errorf("%d huge ones were refused, %d were archived, %d are (%v)", failed, done, archived, err)
	}
	ids := make([]string, len(page))
	for i, entry := range page {
		ids[i] = entry.ID
	}
	must.Get(db.Remove(t.Context(), ids))(t)
	if _, err := db.Ingest(t.Context(), storetest.Typicals(20000, 1, time.Now())); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// TestFullServer checks that PostgreSQL's class of insufficient resources counts as a full store.
func TestFullServer(t *testing.T) {
	url := database(t)
	p := newPlace(t, url, "pgx", url)
	db := p.migrated(t, store.Options{})
	p.exec(t, "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'could not extend "+
		"file: No space left on device' USING ERRCODE = '53100'; END $$")
	p.exec(t, "CREATE TRIGGER no_room BEFORE INSERT ON dead_letter_queue FOR EACH ROW WHEN (NEW.source_offset = 3) "+
		"EXECUTE FUNCTION no_room()")
	if fresh, err := db.Ingest(t.Context(), []store.Entry{due(1), due(2), due(3)}); !errors.Is(err,
		store.ErrFull) || fresh != 0 {
		t.Errorf("%d were kept: %v", fresh, err)
	}
	if n, err := db.Count(t.Context(), store.Query{}); n != 0 || err != nil {
		t.Errorf("%d are there (%v)", n, err)
	}
	// The coordinates of entries that were not stored stay free.
	if fresh, err := db.Ingest(t.Context(), []store.Entry{due(1), due(2)}); err != nil || fresh != 2 {
		t.Errorf("%d were kept: %v", fresh, err)
	}
}

// TestChangesThatShareATransaction checks that, in SQLite, several callers' changes go into one commit. A change that
// fails, or whose caller has gone, does not affect the others.
func TestChangesThatShareATransaction(t *testing.T) {
	db := openSQLite(t, store.Options{})
	const n = 60
	must.Get(db.Ingest(t.Context(), storetest.Typicals(0, n, time.Now())))(t)
	page, _, err := db.List(t.Context(), store.Query{Limit: n})
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	clash := storetest.Typicals(1000, 2, time.Now())
	clash[1].ID = page[0].ID // the first is inserted before the second fails
	var all sync.WaitGroup
	for i, entry := range page {
		all.Go(func() {
			switch i % 3 {
			case 0:
				if err := db.Alter(t.Context(), entry.ID, 1, store.Change{State: store.Archived}); err != nil {
					t.Error(err)
				}
			case 1:
				if _, err := db.Ingest(t.Context(), clash); err == nil {
					t.Error("an id was given twice")
				}
			case 2:
				if err := db.Alter(gone, entry.ID, 1, store.Change{State: store.Archived}); !errors.Is(err, context.Canceled) {
					t.Errorf("a change whose caller has gone: %v", err)
				}
			}
		})
	}
	all.Wait()
	whole := must.Get(db.Count(t.Context(), store.Query{}))(t)
	archived, err := db.Count(t.Context(), store.Query{States: []store.State{store.Archived}})
	if err != nil || whole != n || archived != n/3 {
		t.Errorf("%d entries, %d archived, want %d and %d (%v)", whole, archived, n, n/3, err)
	}
}

// TestTwoProgramsOneFile checks that workers of several programs (each with connections of its own) share one SQLite
// file, and that no entry has two holders. SQLite's writers wait without an order, so that on a slow disk the eight of
// them may block one for longer than busyTimeout. That worker tries again at its next poll, here as in production.
func TestTwoProgramsOneFile(t *testing.T) {
	file := "sqlite:" + filepath.Join(t.TempDir(), "shared.db")
	p := place{address: file}
	const entries = 200
	must.Get(p.migrated(t, store.Options{}).Ingest(t.Context(),
		storetest.Typicals(0, entries, time.Now().Add(-time.Hour))))(t)
	var mu sync.Mutex
	holder := map[string]string{}
	var all sync.WaitGroup
	for w := range 8 {
		db := p.open(t, store.Options{})
		all.Go(func() {
			for {
				claimed, err := db.Claim(t.Context(), fmt.Sprint(w), time.Minute, 3)
				if err != nil && strings.Contains(err.Error(), "SQLITE_BUSY") {
					continue
				}
				if err != nil {
					t.Error(err)
				}
				if len(claimed) == 0 {
					return
				}
				mu.Lock()
				for _, entry := range claimed {
					if other, taken := holder[entry.ID]; taken {
						t.Errorf("%s and %d have %s", other, w, entry.ID)
					}
					holder[entry.ID] = fmt.Sprint(w)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(holder) != entries {
		t.Errorf("%d of %d were claimed", len(holder), entries)
	}
}

// TestPartitions checks that each month with entries has a partition, that those of the next months are created in
// advance, and that a dropped one is created again.
func TestPartitions(t *testing.T) {
	url := database(t)
	p := newPlace(t, url, "pgx", url)
	now := time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC)
	db := p.migrated(t, store.Options{Clock: func() time.Time { return now }})
	partitions := func() string {
		var names []string
		for _, row := range p.rows(t, "SELECT substr(relname, 19) FROM pg_class JOIN pg_inherits ON inhrelid = oid WHERE "+
			"inhparent = 'dead_letter_queue'::regclass ORDER BY 1") {
			names = append(names, row[0])
		}
		return strings.Join(names, " ")
	}
	if got := partitions(); got != "2026_12 2027_01 2027_02" {
		t.Errorf("after migrating: %s", got)
	}
	old := due(1)
	old.CreatedAt = time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	must.Get(db.Ingest(t.Context(), []store.Entry{old, due(2)}))(t)
	if got := partitions(); got != "2024_02 2024_03 2026_12 2027_01 2027_02" {
		t.Errorf("after an old entry: %s", got)
	}
	p.exec(t, "DROP TABLE dead_letter_queue_2026_12")
	if fresh, err := db.Ingest(t.Context(), []store.Entry{due(3)}); err != nil || fresh != 1 {
		t.Errorf("after a partition was dropped: %d (%v)", fresh, err)
	}
	// A source is the same in another month.
	again := due(1)
	again.CreatedAt = now
	if fresh, err := db.Ingest(t.Context(), []store.Entry{again}); err != nil || fresh != 0 {
		t.Errorf("one source in two months: %d new (%v)", fresh, err)
	}
	if got := p.rows(t, "SELECT tableoid::regclass, source_offset FROM dead_letter_queue ORDER BY 2"); fmt.Sprint(got) !=
		"[[dead_letter_queue_2024_02 1] [dead_letter_queue_2026_12 3]]" {
		t.Errorf("the entries are in %v", got)
	}
}

// TestTheManagementSchema compares the table in PostgreSQL with the document: columns, types and the names of the
// indexes.
func TestTheManagementSchema(t *testing.T) {
	url := database(t)
	p := newPlace(t, url, "pgx", url)
	p.migrated(t, store.Options{})
	document := `id uuid, event_id character varying(255), subscriber_id character varying(255), original_event jsonb,
		error_message text,
		error_type character varying(100), error_code character varying(100), error_stack_trace text, error_context jsonb,
		retry_history jsonb, retry_count integer,
		max_retries integer, status character varying(50), resolution_timestamp timestamp without time zone,
		resolution_strategy character varying(50),
		resolved_by character varying(255), resolution_notes text, created_at timestamp without time zone,
		updated_at timestamp without time zone`
	var want, got []string
	for column := range strings.SplitSeq(document, ",") {
		want = append(want, strings.TrimSpace(column))
	}
	for _, row := range p.rows(t, "SELECT attname || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute WHERE "+
		"attrelid = 'dead_letter_queue'::regclass AND attnum > 0 ORDER BY attnum LIMIT 19") {
		got = append(got, row[0])
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for name, on := range map[string]string{
		"event_id": "(event_id)", "subscriber_id": "(subscriber_id)", "status": "(status)", "error_type": "(error_type)",
		"created_at": "(created_at)",
		"updated_at": "(updated_at)", "original_event_pattern": "((original_event ->> 'pattern'::text)",
	} {
		rows := p.rows(t, "SELECT indexdef FROM pg_indexes WHERE indexname = 'dead_letter_queue_"+name+"_idx'")
		if len(rows) != 1 || !strings.Contains(rows[0][0], on) {
			t.Errorf("the index on %s: %v", name, rows)
		}
	}
	if got := p.rows(t, "SELECT pg_get_partkeydef('dead_letter_queue'::regclass)"); got[0][0] != "RANGE (created_at)" {
		t.Errorf("partitioned by %v", got)
	}
}

// TestSurvivesARestart checks that ingested entries survive a crash of the server.
func TestSurvivesARestart(t *testing.T) {
	url := database(t)
	p := newPlace(t, url, "pgx", url)
	db := p.migrated(t, store.Options{})
	must.Get(db.Ingest(t.Context(), []store.Entry{due(1)}))(t)
	must.Do(t, server.Crash())
	if _, err := db.Claim(t.Context(), "w", time.Minute, 1); err == nil {
		t.Error("a server that is gone let an entry be claimed")
	}
	must.Do(t, server.Resume(t.Context()))
	claimed, err := db.Claim(t.Context(), "w", time.Minute, 1)
	if err != nil || len(claimed) != 1 {
		t.Errorf("claimed %d on the same store after the restart (%v)", len(claimed), err)
	}
}
