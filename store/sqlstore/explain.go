package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dlqbench/dlqbench/store"
)

// Explain returns the engine's plan for a list, in the engine's format: how the table is read, and by which index.
func (db *DB) Explain(ctx context.Context, query store.Query) (string, error) {
	vocabulary, err := db.ready(ctx)
	if err != nil {
		return "", err
	}
	crowded, err := db.crowded(ctx, query, vocabulary)
	if err != nil {
		return "", refused("explaining a list", err)
	}
	s, _, err := db.listing(query, vocabulary, crowded)
	if err != nil {
		return "", fmt.Errorf("explaining a list: %w", err)
	}
	return db.plan(ctx, s)
}

func (db *DB) plan(ctx context.Context, s *statement) (text string, err error) {
	explain, plan := "EXPLAIN QUERY PLAN ", []string(nil)
	if db.engine.numbered {
		explain = "EXPLAIN "
	}
	rows, err := db.read.QueryContext(ctx, explain+s.text.String(), s.args...)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var line string
		into := []any{&line}
		if !db.engine.numbered {
			into = []any{new(int), new(int), new(int), &line}
		}
		if err := rows.Scan(into...); err != nil {
			return "", err
		}
		plan = append(plan, line)
	}
	return strings.Join(plan, "\n"), rows.Err()
}
