package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/store"
)

// Claim implements store.Locker. One statement finds the due entries and locks them. SQLite has one writer at a time.
// PostgreSQL skips rows that another worker is locking, and rechecks the condition for a row that was locked meanwhile.
func (db *DB) Claim(ctx context.Context, worker string, lease time.Duration, limit int) ([]store.Entry, error) {
	if worker == "" || lease <= 0 || limit < 1 {
		return nil, fmt.Errorf("claiming dead letters: a worker (%q), a lease (%s) and a limit (%d) of at least 1 are needed",
			worker, lease, limit)
	}
	vocabulary, err := db.ready(ctx)
	if err != nil {
		return nil, err
	}
	pending, none := vocabulary.Write(store.Pending)
	processing, held := vocabulary.Write(store.Processing)
	const due = ` FROM dead_letter_queue WHERE status = ? AND held = ? AND locked_by IS NULL
		AND next_retry_at IS NOT NULL AND next_retry_at <= {now}
		ORDER BY priority DESC, created_at, id LIMIT ?`
	const lock = "UPDATE dead_letter_queue SET status = ?, held = ?, version = version + 1, updated_at = {now}, " +
		"locked_by = ?, locked_at = {now}, lease_until = {after}"
	s := db.statement("")
	if db.engine.numbered {
		// The CTE is materialized: a plan that evaluated it twice would skip the rows that it had locked itself, and
		// lock more than the limit. It selects by id alone: with created_at, PostgreSQL would use the index on that, in
		// which all rows of a batch have one value.
		s.add("WITH due AS MATERIALIZED (SELECT id AS due_id"+due+" FOR UPDATE SKIP LOCKED) ", pending, none, limit)
		s.add(lock+" FROM due WHERE id = due_id", processing, held, store.Cut(worker, 255), lease)
	} else {
		s.add(lock, processing, held, store.Cut(worker, 255), lease)
		s.add(" WHERE id IN (SELECT id"+due+")", pending, none, limit)
	}
	s.add(" RETURNING " + columns)
	var claimed []store.Entry
	err = db.change(ctx, func(ctx context.Context, on querier) (err error) {
		claimed, err = entries(ctx, on, s, vocabulary)
		return err
	})
	if err != nil {
		return nil, refused("claiming dead letters", err)
	}
	store.SortDue(claimed)
	return claimed, nil
}

// entries reads the entries that a statement returns.
func entries(ctx context.Context, on querier, s *statement,
	vocabulary store.Vocabulary) (all []store.Entry, err error) {
	err = each(ctx, on, s, func(row scanner) error {
		entry, err := scan(row, vocabulary)
		all = append(all, entry)
		return err
	})
	return all, err
}

// Renew implements store.Locker.
func (db *DB) Renew(ctx context.Context, lock store.Lock, lease time.Duration) error {
	if _, err := db.ready(ctx); err != nil {
		return err
	}
	id, err := store.ReadID(lock.ID)
	if err != nil {
		return err
	}
	s := db.statement("UPDATE dead_letter_queue SET lease_until = {after} WHERE id = ? AND locked_by = ? AND version = ?",
		lease, id, store.Cut(lock.Worker, 255), lock.Version)
	changed, err := db.exec(ctx, s)
	if err != nil {
		return refused("renewing a lease", err)
	}
	if changed == 0 {
		return db.lockLost(ctx, lock)
	}
	return nil
}

// lockLost returns why a lock was invalid.
func (db *DB) lockLost(ctx context.Context, lock store.Lock) error {
	entry, err := db.Get(ctx, lock.ID)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%w: %s is gone: it was removed", store.ErrLockLost, lock.ID)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrLockLost, err)
	}
	holder := "nobody"
	if entry.LockedBy != "" {
		holder = entry.LockedBy
	}
	return fmt.Errorf("%w: %s had %s at version %d; it is %s at version %d now, and %s has it", store.ErrLockLost,
		lock.Worker, lock.ID, lock.Version, entry.State, entry.Version, holder)
}

// Recover implements store.Locker.
func (db *DB) Recover(ctx context.Context) (int, error) {
	vocabulary, err := db.ready(ctx)
	if err != nil {
		return 0, err
	}
	processing, _ := vocabulary.Write(store.Processing)
	pending, held := vocabulary.Write(store.Pending)
	s := db.statement(`UPDATE dead_letter_queue SET status = ?, held = ?, version = version + 1, updated_at = {now},
		next_retry_at = {now}, locked_by = NULL, locked_at = NULL, lease_until = NULL
		WHERE status = ? AND (lease_until IS NULL OR lease_until <= {now})`, pending, held, processing)
	changed, err := db.exec(ctx, s)
	return int(changed), refused("recovering dead letters whose lease is over", err)
}
