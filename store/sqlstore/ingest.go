package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/dlqbench/dlqbench/store"
)

// maxAttempts is the maximum number of attempts at a transaction that PostgreSQL asks to retry.
const maxAttempts = 5

// Ingest implements store.Ingester.
func (db *DB) Ingest(ctx context.Context, entries []store.Entry) (fresh int, err error) {
	vocabulary, err := db.ready(ctx)
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	now, err := db.Now(ctx)
	if err != nil {
		return 0, err
	}
	complete, err := completed(entries, now)
	if err != nil {
		return 0, fmt.Errorf("taking dead letters in: %w", err)
	}
	rows := make([][]any, len(complete))
	for i, entry := range complete {
		rows[i] = db.row(entry, vocabulary)
	}
	if db.engine.numbered {
		fresh, err = db.ingestPostgres(ctx, complete, rows)
	} else {
		fresh, err = db.ingestSQLite(ctx, rows)
	}
	if err != nil {
		return 0, refused("taking dead letters in", err)
	}
	return fresh, nil
}

// completed returns the entries as they are stored, sorted by source, so that two routers with the same dead letters
// cannot deadlock.
func completed(entries []store.Entry, now time.Time) ([]store.Entry, error) {
	all := make([]store.Entry, len(entries))
	for i, entry := range entries {
		var err error
		if all[i], err = store.Complete(entry, now); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(all, func(a, b store.Entry) int {
		return cmp.Or(cmp.Compare(a.Source.Topic, b.Source.Topic), cmp.Compare(a.Source.Partition, b.Source.Partition),
			cmp.Compare(a.Source.Offset, b.Source.Offset))
	})
	return all, nil
}

func (db *DB) ingestSQLite(ctx context.Context, rows [][]any) (fresh int, err error) {
	err = db.change(ctx, func(ctx context.Context, on querier) (err error) {
		fresh = 0
		insert, err := on.PrepareContext(ctx, "INSERT INTO dead_letter_queue ("+columns+") VALUES ("+placeholders+
			") ON CONFLICT (source_topic, source_partition, source_offset) DO NOTHING")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, insert.Close()) }()
		for _, row := range rows {
			result, err := insert.ExecContext(ctx, row...)
			if err != nil {
				return err
			}
			added, err := result.RowsAffected()
			if err != nil {
				return err
			}
			fresh += int(added)
		}
		return nil
	})
	return fresh, err
}

// ingestPostgres sends all rows in one batch, each with its source in one statement. A concurrent ingest waits for the
// first to commit, and then adds nothing.
func (db *DB) ingestPostgres(ctx context.Context, entries []store.Entry, rows [][]any) (fresh int, err error) {
	if err := db.partitionsFor(ctx, entries); err != nil {
		return 0, err
	}
	insert := db.insertPostgres()
	for attempt := 1; ; attempt++ {
		fresh = 0
		err = db.raw(ctx, func(conn *pgx.Conn) error {
			return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
				var batch pgx.Batch
				for i, row := range rows {
					source := entries[i].Source
					batch.Queue(insert, append([]any{store.EncodeText(source.Topic), source.Partition, source.Offset, entries[i].ID},
						row...)...).
						Exec(func(tag pgconn.CommandTag) error { fresh += int(tag.RowsAffected()); return nil })
				}
				return tx.SendBatch(ctx, &batch).Close()
			})
		})
		switch {
		case err == nil || attempt == maxAttempts:
			return fresh, err
		case again(err):
		case noPartition(err):
			// An existing partition was dropped meanwhile.
			db.forgetPartitions()
			if err := db.partitionsFor(ctx, entries); err != nil {
				return 0, err
			}
		default:
			return 0, err
		}
	}
}

// insertPostgres adds a row unless its source exists.
func (db *DB) insertPostgres() string {
	s := db.statement(`WITH source AS (
		INSERT INTO dead_letter_source (source_topic, source_partition, source_offset, entry_id) VALUES (?, ?, ?, ?)
		ON CONFLICT (source_topic, source_partition, source_offset) DO NOTHING RETURNING entry_id)
	INSERT INTO dead_letter_queue (`+columns+`) SELECT `, make([]any, 4)...)
	s.add(placeholders, make([]any, columnCount)...).add(" FROM source")
	return s.text.String()
}

// raw runs work on a connection of PostgreSQL's own driver.
func (db *DB) raw(ctx context.Context, work func(conn *pgx.Conn) error) error {
	conn, err := db.write.Conn(ctx)
	if err != nil {
		return err
	}
	err = conn.Raw(func(driver any) error { return work(driver.(*stdlib.Conn).Conn()) })
	return errors.Join(err, conn.Close())
}
