package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/sr"
	"google.golang.org/protobuf/proto"

	"example.com/ledger/ledgerpb"
)

//go:embed schema.sql
var schema string

// bookingTimeout bounds the time for booking a transfer.
const bookingTimeout = 500 * time.Millisecond

// ledger keeps the entries of all accounts.
type ledger struct{ pool *pgxpool.Pool }

// openLedger connects to the database and makes the table. The lock keeps instances that start together apart.
func openLedger(ctx context.Context, url string) (*ledger, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, err
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(20260302)"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, schema)
		return err
	})
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("making the table: %w", err)
	}
	return &ledger{pool}, nil
}

const insert = `INSERT INTO entries (transfer_id, account, cents, currency, booked_for, reference)
	VALUES ($1, $2, $3, $4, $5, $6)`

// book writes both entries of a transfer, or none. A booking that has begun is carried through.
func (l *ledger) book(t *ledgerpb.Transfer) error {
	ctx, cancel := context.WithTimeout(context.Background(), bookingTimeout)
	defer cancel()
	return pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		var entries pgx.Batch
		entries.Queue(insert, t.TransferId, t.Debtor, -t.Cents, t.Currency, t.ExecutedAt.AsTime(), t.Reference)
		entries.Queue(insert, t.TransferId, t.Creditor, t.Cents, t.Currency, t.ExecutedAt.AsTime(), t.Reference)
		return tx.SendBatch(ctx, &entries).Close()
	})
}

// verdict is what an error of the database means for a transfer.
type verdict int

const (
	tryAgain verdict = iota
	booked
	blocked
	impossible
)

// judge tells what an error of book means.
func judge(err error) verdict {
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return booked
	case !errors.As(err, &refused):
		return tryAgain // there was no answer, or no connection
	case refused.Code == "23505":
		return booked // before, and the answer was lost, or the transfer came again
	case refused.Code == "P0001":
		return blocked // a trigger of the bank's says so
	case slices.Contains([]string{"08", "40", "53", "55", "57", "58"}, refused.Code[:2]):
		return tryAgain
	}
	return impossible
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// decode reads a transfer in the wire format of the schema registry's serializers.
func decode(value []byte) (*ledgerpb.Transfer, error) {
	var header sr.ConfluentHeader
	_, rest, err := header.DecodeID(value)
	if err != nil {
		return nil, fmt.Errorf("reading the schema's id: %w", err)
	}
	index, rest, err := header.DecodeIndex(rest, 8)
	if err != nil || len(index) != 1 || index[0] != 0 {
		return nil, errors.New("reading the message's index: this is not a transfer")
	}
	var t ledgerpb.Transfer
	if err := proto.Unmarshal(rest, &t); err != nil {
		return nil, fmt.Errorf("reading the transfer: %w", err)
	}
	switch {
	case !uuid.MatchString(t.TransferId):
		return nil, fmt.Errorf("reading the transfer: %.60q is not its id", t.TransferId)
	case t.Debtor == "" || t.Creditor == "" || t.Debtor == t.Creditor || t.Cents <= 0 || len(t.Currency) != 3:
		return nil, fmt.Errorf("reading the transfer %s: it moves nothing", t.TransferId)
	case !t.ExecutedAt.IsValid():
		return nil, fmt.Errorf("reading the transfer %s: it has no time", t.TransferId)
	}
	return &t, nil
}
