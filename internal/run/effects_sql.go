package run

// The effects of records in a database: rows that the user's own statement returns.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlqbench/dlqbench/history"
)

const (
	// rowsLimit bounds the time for reading the effects of records from a database.
	rowsLimit = 60 * time.Second
	// rowsPerRecord bounds the rows that are read, beside rowsLeast.
	rowsPerRecord, rowsLeast = 20, 100_000
)

// auditRows reads the effects of records from the database, past the tap. If that is not possible, the history says
// why, and what needs them is not judged.
func (r *run) auditRows(ctx context.Context) {
	if r.rows == "" {
		return
	}
	at := slices.IndexFunc(r.stubs.list, func(c called) bool { _, is := c.(*database); return is })
	event := history.New(history.KindEffectsRead, r.clock.Now())
	event.Text = "the database"
	found, err := r.readRows(ctx, r.stubs.list[at].(*database).url.String())
	if err != nil {
		event.Code, event.Text = 1, fmt.Sprintf("contract.effects.sql can't be read: %v", err)
		r.options.Log.Warn().Msg("the effects of records are not known: " + event.Text)
	}
	r.live.Record(event)
	for _, number := range slices.Sorted(maps.Keys(found)) {
		one := history.New(history.KindEffect, r.clock.Now())
		one.Record, one.N, one.Text = number, found[number], "the database"
		r.live.Record(one)
	}
}

// readRows returns the number of effects of each record. The first column of a row has a record's id, the second, if
// there is one, the number of its effects. Rows of other ids are none of the run's.
func (r *run) readRows(ctx context.Context, address string) (map[int32]int32, error) {
	ctx, cancel := context.WithTimeout(ctx, rowsLimit)
	defer cancel()
	config, err := pgconn.ParseConfig(address)
	if err != nil {
		return nil, errors.New("the URL of the database is not postgres://USER:PASSWORD@HOST:PORT/NAME")
	}
	config.RuntimeParams["default_transaction_read_only"] = "on"
	config.RuntimeParams["statement_timeout"] = strconv.FormatInt(rowsLimit.Milliseconds(), 10)
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err // it names the user and the host, not the password
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // what was read stands
	// As one statement with parameters, of which there are none, it can't end the transaction that it is read in.
	rows := conn.ExecParams(ctx, r.rows, nil, nil, nil, nil)
	found, err := r.countRows(rows)
	if _, failed := rows.Close(); failed != nil && err == nil {
		err = failed
	}
	return found, err
}

func (r *run) countRows(rows *pgconn.ResultReader) (map[int32]int32, error) {
	found, most := map[int32]int32{}, max(rowsLeast, rowsPerRecord*len(r.plan.Records))
	for n := 0; rows.NextRow(); n++ {
		if n == most {
			return nil, fmt.Errorf("there are more than %d rows, for %d records: group them, and leave out those of earlier "+
				"runs", most, len(r.plan.Records))
		}
		values := rows.Values()
		if len(values) == 0 {
			return nil, fmt.Errorf("row %d has no column, where the record's id belongs", n+1)
		}
		count := int64(1)
		if len(values) > 1 {
			var err error
			if count, err = strconv.ParseInt(strings.TrimSpace(string(values[1])), 10, 32); err != nil || count < 0 {
				return nil, fmt.Errorf("row %d has %q in its second column, where the number of effects of the record in the "+
					"first column belongs", n+1, values[1])
			}
		}
		number, known := r.ids.Find(values[0])
		if known && int(number) < len(r.plan.Records) && count > 0 {
			found[number] = int32(min(int64(found[number])+count, 1<<31-1))
		}
	}
	return found, nil
}
