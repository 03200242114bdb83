package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/dlqbench/dlqbench/store"
)

// appliedMigrations are the database's applied migrations, by version.
func (db *DB) appliedMigrations(ctx context.Context, on querier) (map[int]migration, error) {
	applied := map[int]migration{}
	s := db.statement("SELECT version, name, checksum FROM dead_letter_migration")
	return applied, each(ctx, on, s, func(row scanner) error {
		var one migration
		err := row.Scan(&one.version, &one.name, &one.checksum)
		applied[one.version] = one
		return err
	})
}

// recognise returns an error for a schema that this program does not know.
func recognise(known []migration, applied map[int]migration) error {
	seen := 0
	for _, one := range known {
		there, is := applied[one.version]
		if !is {
			continue
		}
		seen++
		if there.checksum != one.checksum {
			return fmt.Errorf(
				"%w: it was migrated with another %s than this program has: use the program that made it, or restore the database",
				store.ErrNotMigrated, one.name)
		}
	}
	if seen == len(applied) {
		return nil
	}
	newest := migration{}
	for version, one := range applied {
		if version > newest.version {
			newest = one
		}
	}
	return fmt.Errorf(
		"%w: the database is newer than this program, which doesn't know its migration %s: use a newer dlqbench",
		store.ErrNotMigrated, newest.name)
}

// ready returns the vocabulary of a database whose schema is the expected one.
func (db *DB) ready(ctx context.Context) (store.Vocabulary, error) {
	if known := db.vocabulary.Load(); known != nil {
		return *known, nil
	}
	all, err := migrations(db.engine.name)
	if err != nil {
		return store.Vocabulary{}, fmt.Errorf("reading the migrations: %w", err)
	}
	if err := db.complete(ctx, all); err != nil {
		return store.Vocabulary{}, err
	}
	vocabulary, err := db.spoken(ctx)
	if err != nil {
		return store.Vocabulary{}, err
	}
	db.vocabulary.Store(&vocabulary)
	return vocabulary, nil
}

// complete checks that every migration was applied and that its tables and views exist.
func (db *DB) complete(ctx context.Context, all []migration) error {
	if there, err := db.has(ctx, "dead_letter_migration"); err != nil || !there {
		if err != nil {
			return refused("looking at the schema", err)
		}
		return fmt.Errorf("%w: the database has none: migrate it first (dlqbench dlq migrate)", store.ErrNotMigrated)
	}
	applied, err := db.appliedMigrations(ctx, db.read)
	if err != nil {
		return refused("looking at the schema", err)
	}
	if err := recognise(all, applied); err != nil {
		return err
	}
	for _, one := range all {
		if _, done := applied[one.version]; done || one.name == auditMigration && !db.options.Audit {
			continue
		}
		return fmt.Errorf("%w: it lacks %s: migrate it (dlqbench dlq migrate)", store.ErrNotMigrated, one.name)
	}
	rows, err := db.read.QueryContext(ctx, "SELECT "+columns+" FROM dead_letter_queue WHERE 1 = 0")
	if err == nil {
		err = errors.Join(rows.Err(), rows.Close())
	}
	if err != nil {
		if !missing(err) {
			return refused("looking at the schema", err)
		}
		return fmt.Errorf("%w: it is half migrated, for all its migrations are marked as made but: %w; restore the "+
			"database, or make by hand what is missing", store.ErrNotMigrated, err)
	}
	return nil
}

// has reports whether there is a table or view of this name.
func (db *DB) has(ctx context.Context, table string) (bool, error) {
	ask := "SELECT to_regclass(?) IS NOT NULL"
	if !db.engine.numbered {
		ask = "SELECT count(*) > 0 FROM sqlite_schema WHERE name = ?"
	}
	s, there := db.statement(ask, table), false
	err := db.read.QueryRowContext(ctx, s.text.String(), s.args...).Scan(&there)
	return there, err
}

// spoken is the vocabulary of the database, which must be the requested one.
func (db *DB) spoken(ctx context.Context) (store.Vocabulary, error) {
	var name string
	err := db.read.QueryRowContext(ctx, "SELECT value FROM dead_letter_setting WHERE name = 'vocabulary'").Scan(&name)
	if errors.Is(err, sql.ErrNoRows) {
		return store.Vocabulary{}, fmt.Errorf("%w: the database doesn't say which status words it speaks: migrate it "+
			"(dlqbench dlq migrate)", store.ErrNotMigrated)
	}
	if err != nil {
		return store.Vocabulary{}, refused("looking at the schema", err)
	}
	if db.options.Vocabulary != "" && db.options.Vocabulary != name {
		return store.Vocabulary{}, fmt.Errorf("the store speaks the vocabulary %s, not %s: open it as what it is", name,
			db.options.Vocabulary)
	}
	return store.NamedVocabulary(name)
}
