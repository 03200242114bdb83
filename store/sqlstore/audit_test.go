package sqlstore_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/store"
)

const auditRows = `SELECT operation, COALESCE(old_status, ''), COALESCE(new_status, ''), COALESCE(old_held, ''),
	COALESCE(new_held, ''),
	COALESCE(old_locked_by, ''), COALESCE(new_locked_by, ''), COALESCE(old_version, 0), COALESCE(new_version, 0),
	dlq_retry_count, next_retry_at IS NULL, lease_until IS NULL, COALESCE(resolution_strategy, '')
	FROM dead_letter_audit ORDER BY seq`

// TestAuditSeesEveryChange follows one entry through its life, including a change made to the table without the store.
func TestAuditSeesEveryChange(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		db := p.migrated(t, store.Options{Audit: true, Vocabulary: store.VocabularyManagement})
		before := time.Now().Add(-time.Second)
		must.Get(db.Ingest(t.Context(), []store.Entry{due(1)}))(t)
		claimed := must.Get(db.Claim(t.Context(), "w1", time.Minute, 1))(t)
		lock := store.Lock{ID: claimed[0].ID, Worker: "w1", Version: 2}
		for _, err := range []error{
			db.Renew(t.Context(), lock, time.Hour),
			db.Settle(t.Context(), lock, store.Change{State: store.Manual, Retried: true}),
			db.Alter(t.Context(), lock.ID, 3, store.Change{State: store.Resolved}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		p.exec(t, "UPDATE dead_letter_queue SET status = 'oops'")
		p.exec(t, "UPDATE dead_letter_queue SET status = 'resolved'")
		must.Get(db.Remove(t.Context(), []string{lock.ID}))(t)
		no, yes := "1", "0"
		if strings.HasPrefix(p.address, "postgres") {
			no, yes = "true", "false"
		}
		want := [][]string{
			{"insert", "", "pending", "", "", "", "", "0", "1", "0", yes, no, ""},
			{"update", "pending", "reprocessing", "", "", "", "w1", "1", "2", "0", yes, yes, ""},
			{"update", "reprocessing", "reprocessing", "", "", "w1", "w1", "2", "2", "0", yes, yes, ""},
			{"update", "reprocessing", "pending", "", "manual", "w1", "", "2", "3", "1", no, no, ""},
			{"update", "pending", "resolved", "manual", "", "", "", "3", "4", "1", no, no, "manual_resolution"},
			{"update", "resolved", "oops", "", "", "", "", "4", "4", "1", no, no, "manual_resolution"},
			{"update", "oops", "resolved", "", "", "", "", "4", "4", "1", no, no, "manual_resolution"},
			{"delete", "resolved", "", "", "", "", "", "4", "0", "1", no, no, "manual_resolution"},
		}
		got := p.rows(t, auditRows)
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || fmt.Sprint(got[i]) != fmt.Sprint(want[i]) {
				t.Errorf("row %d\ngot  %q\nwant %q", i, got[min(i, len(got)-1)], want[min(i, len(want)-1)])
			}
		}
		for _, row := range p.rows(t, "SELECT at FROM dead_letter_audit WHERE entry_id = '"+lock.ID+"'") {
			at, err := time.Parse(time.RFC3339Nano, row[0])
			if err != nil || at.Before(before) || at.After(time.Now().Add(time.Second)) {
				t.Errorf("a change is dated %q (%v)", row[0], err)
			}
		}
	})
}

// TestAuditIsReadWhole reads the audit by the query of docs/dead-letter-store.md while transactions of different
// lengths commit out of the order of their seq. No row is repeated or missed, and each entry's changes are in order.
func TestAuditIsReadWhole(t *testing.T) {
	url := database(t)
	p := newPlace(t, url, "pgx", url)
	db := p.migrated(t, store.Options{Audit: true})
	const entries, rounds = 8, 15
	for n := range entries {
		must.Get(db.Ingest(t.Context(), []store.Entry{due(n)}))(t)
	}
	var writers sync.WaitGroup
	for n := range entries {
		writers.Go(func() {
			for round := range rounds {
				tx, err := p.db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Error(err)
					return
				}
				// Each transaction changes its own entry and then a shared one, and holds the rows for a while.
				for _, offset := range []int{n, 0} {
					if _, err := tx.ExecContext(t.Context(),
						"UPDATE dead_letter_queue SET version = version + 1 WHERE source_offset = $1", offset); err != nil {
						t.Error(err)
					}
					if _, err := tx.ExecContext(t.Context(), "SELECT pg_sleep($1)", float64((n+round)%3)/1000); err != nil {
						t.Error(err)
					}
				}
				if err := tx.Commit(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { writers.Wait(); close(ended) }()
	seen, versions, snapshot, last := map[string]bool{}, map[string]int{}, "3:3:", false
	for !last {
		select {
		case <-ended:
			last = true
		default:
		}
		for _, row := range p.rows(t,
			fmt.Sprintf(`SELECT seq, entry_id, new_version, pg_current_snapshot()::text FROM dead_letter_audit
			WHERE transaction_id >= pg_snapshot_xmin('%[1]s') AND NOT pg_visible_in_snapshot(transaction_id, '%[1]s')
			ORDER BY seq`, snapshot)) {
			snapshot = row[3]
			version := must.Get(strconv.Atoi(row[2]))(t)
			if seen[row[0]] || version != versions[row[1]]+1 {
				t.Errorf("row %s of %s: seen %t, version %d after %d", row[0], row[1], seen[row[0]], version, versions[row[1]])
			}
			seen[row[0]], versions[row[1]] = true, version
		}
	}
	if all := p.rows(t, "SELECT count(*) FROM dead_letter_audit")[0][0]; all != strconv.Itoa(len(seen)) ||
		len(seen) != entries+2*entries*rounds {
		t.Errorf("read %d of %s rows", len(seen), all)
	}
}
