package sqlstore

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/dlqbench/dlqbench/store"
)

// engine is what SQLite and PostgreSQL say differently.
type engine struct {
	name string
	// numbered placeholders are $1, $2, …
	numbered bool
	// moment is a time as a column takes it; NULL for the zero time.
	moment func(time.Time) any
	// now is the clock as a column has it; cast wraps an argument that replaces it, plus a clock and a number of
	// seconds to add.
	now  string
	cast [2]string
	plus [3]string
	// appended wraps retry_history and the attempt that is added to it.
	appended [2]string
	// seconds is the time from creation to resolution.
	seconds string
	// migrationLock keeps a second Migrate waiting; SQLite's transaction does so by itself.
	migrationLock string
	// prefix are the comparisons by which the index on the pattern is used.
	prefix [2]string
	like   string
}

func sqliteEngine() *engine {
	return &engine{
		name: "sqlite", moment: momentText,
		now:      `strftime('%Y-%m-%dT%H:%M:%fZ', 'now')`,
		cast:     [2]string{"", ""},
		plus:     [3]string{`strftime('%Y-%m-%dT%H:%M:%fZ', `, ", ", ` || ' seconds')`},
		appended: [2]string{"json_insert(retry_history, '$[#]', json(", "))"},
		seconds:  "(julianday(resolution_timestamp) - julianday(created_at)) * 86400",
		prefix:   [2]string{">=", "<"},
		like:     "GLOB",
	}
}

func postgresEngine() *engine {
	return &engine{
		name: "postgres", numbered: true, moment: momentValue,
		// statement_timestamp is stable, so that indexes can be searched by it; a lock is never waited for with SKIP
		// LOCKED.
		now:           `date_trunc('milliseconds', statement_timestamp() AT TIME ZONE 'UTC')`,
		cast:          [2]string{"CAST(", " AS TIMESTAMP)"},
		plus:          [3]string{"(", " + CAST(", " AS INTERVAL SECOND))"},
		appended:      [2]string{"retry_history || CAST(", " AS JSONB)"},
		seconds:       "EXTRACT(EPOCH FROM resolution_timestamp - created_at)",
		migrationLock: `SELECT pg_advisory_xact_lock(7381926450)`,
		prefix:        [2]string{"~>=~", "~<~"},
		like:          "LIKE",
	}
}

// refused translates what a database says into the store's errors.
func refused(doing string, err error) error {
	if err == nil {
		return nil
	}
	if full(err) {
		return fmt.Errorf("%s: %w: %w", doing, store.ErrFull, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// full reports whether the database lacks room: SQLITE_FULL, or PostgreSQL's class 53 "insufficient resources".
func full(err error) bool {
	var inProcess *sqlite.Error
	if errors.As(err, &inProcess) {
		return inProcess.Code()&0xFF == sqlite3.SQLITE_FULL
	}
	var server *pgconn.PgError
	return errors.As(err, &server) && len(server.Code) == 5 && server.Code[:2] == "53"
}

// again reports whether PostgreSQL asks for the transaction to be tried once more: a serialization failure or a
// deadlock, which left nothing behind.
func again(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && (server.Code == "40001" || server.Code == "40P01")
}

// missing reports whether a statement named a table or a column that isn't there.
func missing(err error) bool {
	var inProcess *sqlite.Error
	if errors.As(err, &inProcess) {
		return inProcess.Code() == sqlite3.SQLITE_ERROR
	}
	var server *pgconn.PgError
	return errors.As(err, &server) && (server.Code == "42703" || server.Code == "42P01")
}

// noPartition reports whether PostgreSQL found no partition for a row.
func noPartition(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.Code == "23514" && server.ConstraintName == ""
}

// wild turns a pattern in which * is any text into one of GLOB, or of LIKE.
func (e *engine) wild(pattern string) string {
	if e.numbered {
		return strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`, "*", "%").Replace(pattern)
	}
	return strings.NewReplacer("[", "[[]", "?", "[?]").Replace(pattern)
}
