package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"
)

// books are what the service keeps of an order, beside the calls: a row, and a result in a topic. Both are optional.
type books struct {
	pool    *pgxpool.Pool
	client  *kgo.Client
	results string
	bug     string
}

// open connects to the database and makes the table. An advisory lock keeps instances that start together apart.
func (b *books) open(ctx context.Context, url string) error {
	if url == "" {
		return nil
	}
	var err error
	if b.pool, err = pgxpool.New(ctx, url); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(4712)"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "CREATE TABLE IF NOT EXISTS orders (id uuid PRIMARY KEY, document jsonb NOT NULL)")
		return err
	})
}

func (b *books) close() {
	if b.pool != nil {
		b.pool.Close()
	}
}

// enter writes the order's row. One that is there already came before.
func (b *books) enter(ctx context.Context, record *kgo.Record) error {
	if b.pool == nil {
		return nil
	}
	var order struct {
		ID string `json:"orderId"`
	}
	if err := json.Unmarshal(record.Value, &order); err != nil {
		return err
	}
	_, err := b.pool.Exec(ctx, "INSERT INTO orders (id, document) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING", order.ID,
		record.Value)
	if err != nil && b.bug == "row-error-ignored" {
		slog.Error("unable to write the order", "err", err)
		return nil
	}
	return err
}

// report tells the topic of results of the order.
func (b *books) report(ctx context.Context, record *kgo.Record) error {
	if b.results == "" {
		return nil
	}
	err := b.client.ProduceSync(ctx, &kgo.Record{Topic: b.results, Key: record.Key, Value: record.Value}).FirstErr()
	if err != nil && b.bug == "result-error-ignored" {
		slog.Error("unable to write the result", "err", err)
		return nil
	}
	return err
}

// later reports whether the database or the topic may take the order later: those that gave no answer may, too.
func later(err error) bool {
	var state *pgconn.PgError
	if errors.As(err, &state) {
		return slices.Contains([]string{"08", "40", "53", "55", "57", "58"}, state.Code[:2])
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return !errors.As(err, &syntax) && !errors.As(err, &kind)
}
