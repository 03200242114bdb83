package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
)

// querier is a transaction, or a connection that commits each statement separately.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// writer combines the changes that wait for SQLite's single writer into one transaction, because a commit costs one
// disk write, whatever its size.
type writer struct {
	sync.Mutex
	leading bool
	waiting []*change
}

// change is one caller's work in a transaction that may be shared with others.
type change struct {
	ctx  context.Context
	work func(ctx context.Context, on querier) error
	err  error
	// lead is closed when its caller must commit for the waiting ones, done when the change is finished.
	lead, done chan struct{}
}

// maxShared is the maximum number of changes in one transaction. A caller waits for at most two such transactions.
const maxShared = 64

// change runs one statement or, for SQLite, any work that must be atomic. It returns when that is durable. The work may
// run twice, but takes effect once.
func (db *DB) change(ctx context.Context, work func(ctx context.Context, on querier) error) error {
	if db.engine.numbered {
		err := work(ctx, db.write)
		for attempt := 1; attempt < maxAttempts && again(err); attempt++ {
			err = work(ctx, db.write)
		}
		return err
	}
	mine := &change{ctx: ctx, work: work, lead: make(chan struct{}), done: make(chan struct{})}
	db.writer.Lock()
	db.writer.waiting = append(db.writer.waiting, mine)
	follows := db.writer.leading
	db.writer.leading = true
	db.writer.Unlock()
	if follows {
		// The caller waits even if its context ends, because it must know the outcome of its change, and no commit
		// waits longer than busyTimeout.
		select {
		case <-mine.done:
			return mine.err
		case <-mine.lead:
		}
	}
	db.writer.Lock()
	n := min(maxShared, len(db.writer.waiting))
	shared := db.writer.waiting[:n:n]
	db.writer.waiting = db.writer.waiting[n:]
	db.writer.Unlock()
	db.commit(shared)
	db.writer.Lock()
	if db.writer.leading = len(db.writer.waiting) > 0; db.writer.leading {
		close(db.writer.waiting[0].lead)
	}
	db.writer.Unlock()
	return mine.err
}

// commit makes the changes in one transaction, each within a savepoint, so that a failing one does not affect the
// others. After some errors (a full disk), SQLite rolls the whole transaction back. Then each change gets a transaction
// of its own.
func (db *DB) commit(shared []*change) {
	err := db.transaction(context.Background(), func(tx *sql.Tx) error {
		for _, one := range shared {
			if err := one.within(tx); err != nil {
				return err
			}
		}
		return nil
	})
	for _, one := range shared {
		switch {
		case err == nil:
		case len(shared) == 1:
			one.err = err
		default:
			if alone := db.transaction(context.Background(), one.within); alone != nil {
				one.err = alone
			}
		}
		close(one.done)
	}
}

// within makes a change as part of a transaction. If within itself fails, the transaction is broken. The context is
// checked only before, because interrupting a statement rolls the transaction back.
func (one *change) within(tx *sql.Tx) error {
	if one.abandoned() {
		return nil
	}
	if _, err := tx.Exec("SAVEPOINT change"); err != nil {
		return fmt.Errorf("beginning a change: %w", err)
	}
	if one.err = one.work(context.WithoutCancel(one.ctx), tx); one.err != nil {
		if _, err := tx.Exec("ROLLBACK TO change"); err != nil {
			return one.err
		}
	}
	if _, err := tx.Exec("RELEASE change"); err != nil {
		return fmt.Errorf("ending a change: %w", err)
	}
	return nil
}

// abandoned reports whether the caller gave up before its change was begun.
func (one *change) abandoned() bool {
	one.err = one.ctx.Err()
	return one.err != nil
}

// transaction runs work in a transaction. In SQLite it begins as a writer, so that it cannot fail halfway because of
// another writer.
func (db *DB) transaction(ctx context.Context, work func(tx *sql.Tx) error) error {
	tx, err := db.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("beginning a transaction: %w", err)
	}
	if err := work(tx); err != nil {
		// If the rollback fails, the transaction or the connection is gone already.
		_ = tx.Rollback()
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	return nil
}

// exec runs one statement and returns the number of changed rows.
func (db *DB) exec(ctx context.Context, s *statement) (changed int64, err error) {
	err = db.change(ctx, func(ctx context.Context, on querier) error {
		result, err := on.ExecContext(ctx, s.text.String(), s.args...)
		if err != nil {
			return err
		}
		changed, err = result.RowsAffected()
		return err
	})
	return changed, err
}
