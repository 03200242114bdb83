package storewatch

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"
)

// database is an SQL database, read only.
type database struct {
	db       *sql.DB
	layout   Layout
	postgres bool
	// The position in the audit table up to which it was read: sequences up to seq; in PostgreSQL the transactions
	// before xmin.
	seq  int64
	xmin string
	// told are the sequences that were read, for as long as a database that was away may return them again (see
	// reread). away says that the last query failed.
	told map[int64]bool
	away bool
	// rows are those of the last look, for polling.
	rows map[string]*row
}

// connectSQL opens sqlite:PATH or postgres://….
func connectSQL(address string, layout Layout) (*database, error) {
	if err := layout.check(name); err != nil {
		return nil, err
	}
	d := &database{layout: layout, xmin: "0", told: map[int64]bool{}, rows: map[string]*row{}}
	scheme, path, _ := strings.Cut(address, ":")
	var err error
	switch scheme {
	case "sqlite":
		path, _, _ = strings.Cut(strings.TrimPrefix(path, "//"), "?")
		// Not read-only: after the last writer has closed the database, SQLite may have to move its log into the file
		// before it can be read.
		d.db, err = sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+
			"?_pragma=busy_timeout(5000)&_pragma=query_only(1)")
	case "postgres", "postgresql":
		d.postgres = true
		d.db, err = sql.Open("pgx", address)
	default:
		return nil, fmt.Errorf("a store has the address sqlite:PATH, postgres://… or mongodb://…, not %q", scheme+":")
	}
	if err != nil {
		return nil, err
	}
	d.db.SetMaxOpenConns(2)
	return d, nil
}

func (d *database) close() error { return d.db.Close() }

// clock returns the database's time.
func (d *database) clock(ctx context.Context) (time.Time, error) {
	ask := "SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
	if d.postgres {
		ask = "SELECT clock_timestamp()"
	}
	var now any
	if err := d.db.QueryRowContext(ctx, ask).Scan(&now); err != nil {
		return time.Time{}, err
	}
	return moment(now), nil
}

// changes returns the changes since the last call, in the order in which each entry changed.
func (d *database) changes(ctx context.Context) (all []change, err error) {
	defer func() { d.away = err != nil }()
	if d.layout.Audited {
		return d.audited(ctx)
	}
	return d.compared(ctx)
}

// rereadTransactions is how far back the audit table is read again after PostgreSQL was away. A transaction that was
// rolled back need not be in its log, so that after a crash PostgreSQL may give its number to another one. That number
// is below the last xmin, where nothing is read any more. Such a loss is limited to changes from the 200 ms between two
// writes of the log.
const rereadTransactions = 10_000

// reread returns the transaction from which the table is read: the last xmin or, after the database was away,
// rereadTransactions before it.
func (d *database) reread() string {
	from, err := strconv.ParseUint(d.xmin, 10, 64)
	if !d.away || err != nil {
		return d.xmin
	}
	return strconv.FormatUint(from-min(from, rereadTransactions), 10)
}

// auditColumns are the columns of the audit table, in the order in which they are selected.
const auditColumns = "seq, at, entry_id, old_status, old_held, new_status, new_held, new_locked_by, new_version, " +
	"dlq_retry_count, next_retry_at, lease_until, resolution_strategy, retry_strategy"

// audited reads the audit table. In SQLite there is one writer at a time, so the sequence is the order of the
// commits. In PostgreSQL a lower sequence may be committed later. So audited reads the transactions that are over
// for all sessions, each once. A row's lock orders its changes, and so their sequences.
func (d *database) audited(ctx context.Context) ([]change, error) {
	ask, args := "SELECT "+auditColumns+" FROM dead_letter_audit WHERE seq > ? ORDER BY seq", []any{d.seq}
	xmin := d.xmin
	if d.postgres {
		if err := d.db.QueryRowContext(ctx, "SELECT pg_snapshot_xmin(pg_current_snapshot())::text").Scan(&xmin); err != nil {
			return nil, err
		}
		ask = "SELECT " + auditColumns +
			" FROM dead_letter_audit WHERE transaction_id >= $1::text::xid8 AND transaction_id < $2::text::xid8 ORDER BY seq"
		args = []any{d.reread(), xmin}
	}
	var all []change
	var read []int64
	err := d.each(ctx, 14, func(v []any) {
		seq := number(v[0])
		if d.postgres && d.told[seq] {
			return
		}
		read = append(read, seq)
		all = append(all, change{at: moment(v[1]), oldStatus: text(v[3]), oldHeld: text(v[4]), now: &row{
			id: text(v[2]), status: text(v[5]), held: text(v[6]), lockedBy: text(v[7]), version: number(v[8]),
			retries: number(v[9]), next: moment(v[10]), lease: moment(v[11]), resolution: text(v[12]), strategy: text(v[13]),
		}})
	}, ask, args...)
	if err != nil {
		return nil, err
	}
	d.xmin = xmin
	for _, seq := range read {
		if d.seq = max(d.seq, seq); d.postgres {
			d.told[seq] = true
		}
	}
	return all, nil
}

// compared reads the whole table and compares it with its previous content.
func (d *database) compared(ctx context.Context) ([]change, error) {
	found := map[string]*row{}
	if err := d.table(ctx, func(now *row) { found[now.id] = now }); err != nil {
		return nil, err
	}
	all := compare(d.rows, found)
	d.rows = found
	return all, nil
}

// table calls see for each existing entry.
func (d *database) table(ctx context.Context, see func(*row)) error {
	return d.each(ctx, len(d.layout.Columns.list()), func(values []any) { see(scanned(values)) }, d.selected())
}

// selected is the query for the entries, in the order of Columns.list, with NULL for missing columns.
func (d *database) selected() string {
	names := d.layout.Columns.list()
	for i, name := range names {
		names[i] = cmp.Or(name, "NULL")
	}
	return "SELECT " + strings.Join(names, ", ") + " FROM " + d.layout.Table
}

// details returns the entry in its present state, nil if it does not exist.
func (d *database) details(ctx context.Context, id string) (*row, error) {
	var found *row
	ask := d.selected() + " WHERE " + d.layout.Columns.ID + " = "
	if d.postgres {
		ask += "$1"
	} else {
		ask += "?"
	}
	err := d.each(ctx, len(d.layout.Columns.list()), func(values []any) { found = scanned(values) }, ask, id)
	return found, err
}

// each calls see with the values of each row of the result.
func (d *database) each(ctx context.Context, columns int, see func([]any), ask string, args ...any) error {
	rows, err := d.db.QueryContext(ctx, ask, args...)
	if err != nil {
		return err
	}
	for rows.Next() {
		values, at := make([]any, columns), make([]any, columns)
		for i := range values {
			at[i] = &values[i]
		}
		if err := rows.Scan(at...); err != nil {
			return errors.Join(err, rows.Close())
		}
		see(values)
	}
	return errors.Join(rows.Err(), rows.Close())
}
