package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/dlqbench/dlqbench/store"
)

//go:embed migrations/*/*.sql
var migrationFiles embed.FS

// migration is one schema file: NNNN_name.sql.
type migration struct {
	version        int
	name, checksum string
	text           string
}

// auditMigration is applied only to stores that are observed from outside.
const auditMigration = "0002_dead_letter_audit"

// migrations are an engine's migrations, in the order of their application.
func migrations(engine string) ([]migration, error) {
	names, err := fs.Glob(migrationFiles, "migrations/"+engine+"/*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	all := make([]migration, 0, len(names))
	for _, name := range names {
		text, err := migrationFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		name = strings.TrimSuffix(name[strings.LastIndexByte(name, '/')+1:], ".sql")
		number, _, _ := strings.Cut(name, "_")
		version, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("the migration %s doesn't begin with its number: %w", name, err)
		}
		sum := sha256.Sum256(text)
		all = append(all, migration{version, name, hex.EncodeToString(sum[:]), string(text)})
	}
	return all, nil
}

const bookkeeping = `CREATE TABLE IF NOT EXISTS dead_letter_migration (
	version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS dead_letter_setting (name TEXT PRIMARY KEY, value TEXT NOT NULL)`

// Migrate applies the migrations that the database lacks, in order, each in a transaction that excludes other
// migrations. A migration that fails leaves no changes. made lists the applied ones. The error is ErrNotMigrated, with
// a remedy, for a schema that it cannot bring up to date.
func (db *DB) Migrate(ctx context.Context) (made []string, err error) {
	all, err := migrations(db.engine.name)
	if err != nil {
		return nil, fmt.Errorf("reading the migrations: %w", err)
	}
	if err := db.locked(ctx, func(tx *sql.Tx) error { return db.prepare(ctx, tx, all) }); err != nil {
		return nil, refused("preparing the migration", err)
	}
	for _, one := range all {
		if one.name == auditMigration && !db.options.Audit {
			continue
		}
		done := false
		err := db.locked(ctx, func(tx *sql.Tx) (err error) {
			done, err = db.apply(ctx, tx, one)
			return err
		})
		if err != nil {
			return made, refused("migrating with "+one.name+", of which nothing was kept", err)
		}
		if done {
			made = append(made, one.name)
		}
	}
	if _, err := db.ready(ctx); err != nil {
		return made, err
	}
	if db.engine.numbered {
		if err := db.partitionsAhead(ctx); err != nil {
			return made, err
		}
	}
	return made, nil
}

// locked runs work in a transaction that excludes any other Migrate.
func (db *DB) locked(ctx context.Context, work func(tx *sql.Tx) error) error {
	return db.transaction(ctx, func(tx *sql.Tx) error {
		if db.engine.migrationLock != "" {
			if _, err := tx.ExecContext(ctx, db.engine.migrationLock); err != nil {
				return err
			}
		}
		return work(tx)
	})
}

// prepare creates the tables that record the migrations, and fixes the vocabulary.
func (db *DB) prepare(ctx context.Context, tx *sql.Tx, all []migration) error {
	if _, err := tx.ExecContext(ctx, bookkeeping); err != nil {
		return err
	}
	applied, err := db.appliedMigrations(ctx, tx)
	if err != nil {
		return err
	}
	if err := recognise(all, applied); err != nil {
		return err
	}
	vocabulary, err := store.NamedVocabulary(db.options.Vocabulary)
	if err != nil {
		return err
	}
	s := db.statement("INSERT INTO dead_letter_setting (name, value) VALUES ('vocabulary', ?) ON CONFLICT DO NOTHING",
		vocabulary.Name())
	_, err = tx.ExecContext(ctx, s.text.String(), s.args...)
	return err
}

// apply applies a migration unless it was applied already.
func (db *DB) apply(ctx context.Context, tx *sql.Tx, one migration) (bool, error) {
	applied, err := db.appliedMigrations(ctx, tx)
	if err != nil {
		return false, err
	}
	if _, done := applied[one.version]; done {
		return false, nil
	}
	if _, err := tx.ExecContext(ctx, one.text); err != nil {
		return false, fmt.Errorf("%w: %w (if a table exists already, this migration was begun by hand or by another tool: "+
			"remove what it made, or restore the database, then migrate again)", store.ErrNotMigrated, err)
	}
	s := db.statement("INSERT INTO dead_letter_migration (version, name, checksum, applied_at) VALUES (?, ?, ?, CAST(",
		one.version, one.name, one.checksum)
	s.add("{now} AS TEXT))")
	if _, err := tx.ExecContext(ctx, s.text.String(), s.args...); err != nil {
		return false, err
	}
	return true, nil
}
