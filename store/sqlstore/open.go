package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/dlqbench/dlqbench/store"
)

// These are the numbers of connections. SQLite has one writer, so one connection writes to it.
const (
	sqliteReaders       = 4
	postgresConnections = 16
	// busyTimeout is the time that SQLite waits for a writer of another process.
	busyTimeout = 10 * time.Second
)

// DB is a dead-letter store in an SQL database.
type DB struct {
	engine      *engine
	options     store.Options
	write, read *sql.DB
	writer      writer
	// vocabulary is set once the schema was found to be up to date.
	vocabulary atomic.Pointer[store.Vocabulary]
	// partitions are the months for which PostgreSQL has a partition.
	partitions struct {
		sync.Mutex
		known map[string]bool
	}
}

var _ store.Store = (*DB)(nil)

// private creates the file of a new database, which SQLite would make readable for everyone. SQLite's auxiliary files
// get the same mode. An existing file keeps its mode.
func private(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil // SQLite reports the problem, if there is one
	}
	if err != nil {
		return err
	}
	return file.Close()
}

// SQLite opens the database in a file, which is created if necessary. The address is sqlite:PATH. Parameters of the
// driver may follow, such as ?_pragma=max_page_count(1000). Every commit is on disk when it returns (WAL,
// synchronous=FULL).
func SQLite(ctx context.Context, address string, options store.Options) (*DB, error) {
	path, parameters, _ := strings.Cut(strings.TrimPrefix(address, "sqlite:"), "?")
	path = strings.TrimPrefix(path, "//")
	if path == "" || path == ":memory:" {
		return nil, errors.New("opening a dead-letter store: sqlite: needs the path of a file (sqlite:dead-letters.db)")
	}
	pragmas := fmt.Sprintf(
		"_pragma=busy_timeout(%d)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=cache_size(-32000)",
		busyTimeout.Milliseconds())
	name := "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + pragmas
	if parameters != "" {
		name += "&" + parameters
	}
	if err := private(path); err != nil {
		return nil, fmt.Errorf("opening the dead-letter store %s: %w", path, err)
	}
	db := &DB{engine: sqliteEngine(), options: options}
	var err error
	if db.write, err = sql.Open("sqlite", name+"&_txlock=immediate"); err != nil {
		return nil, fmt.Errorf("opening the dead-letter store %s: %w", path, err)
	}
	db.write.SetMaxOpenConns(1)
	if db.read, err = sql.Open("sqlite", name+"&_pragma=query_only(1)"); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the dead-letter store %s: %w", path, err), db.write.Close())
	}
	db.read.SetMaxOpenConns(sqliteReaders)
	db.read.SetMaxIdleConns(sqliteReaders)
	if err := db.write.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the dead-letter store %s: %w (does the folder exist, and is the file "+
			"an SQLite database that may be written to?)", path, err), db.Close())
	}
	return db, nil
}

// Postgres connects to a server (postgres://user:password@host:port/database).
func Postgres(ctx context.Context, address string, options store.Options) (*DB, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("opening a dead-letter store: %w", err)
	}
	db := &DB{engine: postgresEngine(), options: options, write: stdlib.OpenDB(*config)}
	db.read = db.write
	db.write.SetMaxOpenConns(postgresConnections)
	db.write.SetMaxIdleConns(postgresConnections)
	if err := db.write.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the dead-letter store on %s: %w", config.Host, err), db.write.Close())
	}
	return db, nil
}

// Close ends the connections.
func (db *DB) Close() error {
	if db.read == db.write {
		return db.write.Close()
	}
	// The readers are closed first: SQLite merges its log into the file with the last connection, which must be one
	// that may write.
	return errors.Join(db.read.Close(), db.write.Close())
}

// Now is the store's clock.
func (db *DB) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	s := db.statement("SELECT {now}")
	if err := db.read.QueryRowContext(ctx, s.text.String(), s.args...).Scan(moment{&now}); err != nil {
		return now, refused("asking the store for the time", err)
	}
	return now, nil
}
