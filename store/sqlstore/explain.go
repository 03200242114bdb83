package sqlstore

import (
	"context"
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

func (db *DB) plan(ctx context.Context, s *statement) (string, error) {
	var line string
	explain, into := "EXPLAIN QUERY PLAN ", []any{new(int), new(int), new(int), &line}
	if db.engine.numbered {
		explain, into = "EXPLAIN ", []any{&line}
	}
	explained := &statement{args: s.args}
	explained.text.WriteString(explain + s.text.String())
	var plan []string
	err := each(ctx, db.read, explained, func(row scanner) error {
		err := row.Scan(into...)
		plan = append(plan, line)
		return err
	})
	return strings.Join(plan, "\n"), err
}
