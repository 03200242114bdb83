package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"example.com/ledger/ledgerpb"
)

func transfer() *ledgerpb.Transfer {
	return &ledgerpb.Transfer{TransferId: "6f1d2c3b-4a59-4e68-8776-95a4b3c2d1e0", Debtor: "DE1", Creditor: "DE2",
		Cents: 4200, Currency: "EUR", ExecutedAt: timestamppb.New(time.Unix(1772442845, 0))}
}

func encode(t *testing.T, change func(*ledgerpb.Transfer)) []byte {
	t.Helper()
	one := transfer()
	change(one)
	value, err := proto.Marshal(one)
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte{0, 0, 0, 0, 7, 0}, value...) // of the schema 7, its first message
}

func TestDecode(t *testing.T) {
	got, err := decode(encode(t, func(*ledgerpb.Transfer) {}))
	if err != nil || !proto.Equal(got, transfer()) {
		t.Errorf("%v, %v", got, err)
	}
	for name, value := range map[string][]byte{
		"nothing": nil, "text": []byte(`{"transferId":1}`), "another message": {0, 0, 0, 0, 7, 2, 2},
		"cut off": encode(t, func(*ledgerpb.Transfer) {})[:20],
		"no id":   encode(t, func(t *ledgerpb.Transfer) { t.TransferId = "" }),
		"to self": encode(t, func(t *ledgerpb.Transfer) { t.Creditor = t.Debtor }),
		"no time": encode(t, func(t *ledgerpb.Transfer) { t.ExecutedAt = nil }),
		"no sum":  encode(t, func(t *ledgerpb.Transfer) { t.Cents = 0 }),
	} {
		if got, err := decode(value); err == nil {
			t.Errorf("%s is the transfer %v", name, got)
		}
	}
}

func TestJudge(t *testing.T) {
	for code, want := range map[string]verdict{
		"23505": booked, "P0001": blocked, "40001": tryAgain, "40P01": tryAgain, "53300": tryAgain, "57P01": tryAgain,
		"22P02": impossible, "23514": impossible, "42P01": impossible,
	} {
		if got := judge(fmt.Errorf("booking: %w", &pgconn.PgError{Code: code})); got != want {
			t.Errorf("%s means %d, want %d", code, got, want)
		}
	}
	if got := judge(errors.New("connection reset")); got != tryAgain {
		t.Errorf("no answer means %d", got)
	}
}

// TestBook needs a database: TEST_DATABASE_URL=postgres://… go test ./...
func TestBook(t *testing.T) {
	url := os.Getenv("TEST_DATABASE_URL")
	if url == "" {
		t.Skip("TEST_DATABASE_URL names no database")
	}
	ctx := context.Background()
	books, err := openLedger(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer books.pool.Close()
	if _, err := books.pool.Exec(ctx, "TRUNCATE entries"); err != nil {
		t.Fatal(err)
	}
	if err := books.book(transfer()); err != nil {
		t.Fatal(err)
	}
	if err := books.book(transfer()); judge(err) != booked {
		t.Errorf("booking a transfer again: %v", err)
	}
	if err := books.book(&ledgerpb.Transfer{TransferId: "no id"}); judge(err) != impossible {
		t.Errorf("booking something else: %v", err)
	}
	var count, sum int
	if err := books.pool.QueryRow(ctx, "SELECT count(*), sum(cents) FROM entries").Scan(&count, &sum); err != nil {
		t.Fatal(err)
	}
	if count != 2 || sum != 0 {
		t.Errorf("%d entries of %d cents", count, sum)
	}
}
