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

// engine holds the SQL that differs between SQLite and PostgreSQL.
type engine struct {
	name string
	// numbered placeholders are $1, $2, …
	numbered bool
	// moment converts a time to its column form; the zero time is NULL.
	moment func(time.Time) any
	// now is the clock in column form. cast wraps an argument that replaces it, plus a clock and a number of seconds to
	// add.
	now  string
	cast [2]string
	plus [3]string
	// appended wraps retry_history and the attempt that is appended to it.
	appended [2]string
	// seconds is the time from creation to resolution.
	seconds string
	// migrationLock makes a second Migrate wait. SQLite's transaction does so by itself.
	migrationLock string
	// prefix are the comparisons that use the index on the pattern.
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
		// statement_timestamp is stable, so that indexes can be searched by it. With SKIP LOCKED, a statement never
		// waits for a lock.
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

// refused translates a database's errors into the store's errors.
func refused(doing string, err error) error {
	if err == nil {
		return nil
	}
	if full(err) {
		return fmt.Errorf("%s: %w: %w", doing, store.ErrFull, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// full reports whether the database lacks space: SQLITE_FULL, or PostgreSQL's class 53 "insufficient resources".
func full(err error) bool {
	if inProcess, ok := errors.AsType[*sqlite.Error](err); ok {
		return inProcess.Code()&0xFF == sqlite3.SQLITE_FULL
	}
	var server *pgconn.PgError
	return errors.As(err, &server) && len(server.Code) == 5 && server.Code[:2] == "53"
}

// again reports whether PostgreSQL asks to retry the transaction: a serialization failure or a deadlock, which changed
// nothing.
func again(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && (server.Code == "40001" || server.Code == "40P01")
}

// missing reports whether a statement named a table or a column that does not exist.
func missing(err error) bool {
	if inProcess, ok := errors.AsType[*sqlite.Error](err); ok {
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

// wild converts a pattern in which * is any text into one for GLOB or LIKE.
func (e *engine) wild(pattern string) string {
	if e.numbered {
		return strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`, "*", "%").Replace(pattern)
	}
	return strings.NewReplacer("[", "[[]", "?", "[?]").Replace(pattern)
}
