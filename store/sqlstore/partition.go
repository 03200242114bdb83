package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/store"
)

// monthsAhead is the number of partitions created in advance.
const monthsAhead = 2

// partitionsAhead creates the partitions of this month and the next ones.
func (db *DB) partitionsAhead(ctx context.Context) error {
	now, err := db.Now(ctx)
	if err != nil {
		return err
	}
	month := monthOf(now)
	for range monthsAhead + 1 {
		if err := db.partition(ctx, month); err != nil {
			return err
		}
		month = month.AddDate(0, 1, 0)
	}
	return nil
}

// partitionsFor creates the partitions that the entries need, and the next month's.
func (db *DB) partitionsFor(ctx context.Context, entries []store.Entry) error {
	for _, entry := range entries {
		month := monthOf(entry.CreatedAt)
		for _, needed := range []time.Time{month, month.AddDate(0, 1, 0)} {
			if err := db.partition(ctx, needed); err != nil {
				return err
			}
		}
	}
	return nil
}

func (db *DB) forgetPartitions() {
	db.partitions.Lock()
	defer db.partitions.Unlock()
	db.partitions.known = nil
}

// partition creates a month's partition unless it is known to exist. Creating one blocks everyone for a moment, so it
// first checks for it.
func (db *DB) partition(ctx context.Context, month time.Time) error {
	name := "dead_letter_queue_" + month.Format("2006_01")
	db.partitions.Lock()
	defer db.partitions.Unlock()
	if db.partitions.known[name] {
		return nil
	}
	there, err := db.has(ctx, name)
	if err != nil {
		return refused("looking for the partition "+name, err)
	}
	if !there {
		err = db.locked(ctx, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx,
				fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s PARTITION OF dead_letter_queue FOR VALUES FROM ('%s') TO ('%s')",
					name, month.Format(time.DateOnly), month.AddDate(0, 1, 0).Format(time.DateOnly)))
			return err
		})
		if err != nil {
			return refused("making the partition "+name, err)
		}
	}
	if db.partitions.known == nil {
		db.partitions.known = map[string]bool{}
	}
	db.partitions.known[name] = true
	return nil
}

func monthOf(at time.Time) time.Time {
	at = at.UTC()
	return time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
}
