package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/postgres"
	"github.com/dlqbench/dlqbench/internal/plan"
)

// The user's statement is read, and only read: rows are counted by the record whose id they have, and what can't be
// counted is told.
func TestEffectsAreReadFromADatabase(t *testing.T) {
	server, err := postgres.Start(t.Context(), map[string]string{"fsync": "off"})
	if errors.Is(err, postgres.ErrAbsent) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	address, err := server.Create(t.Context(), "effects")
	if err != nil {
		t.Fatal(err)
	}
	r := &run{plan: &plan.Plan{Records: make([]plan.Record, 3)}, ids: history.NewIDsAs("run", history.IDUUID, 3)}
	execute(t, address, fmt.Sprintf("CREATE TABLE orders (id uuid, line int); INSERT INTO orders VALUES "+
		"('%s', 1), ('%s', 2), ('%s', 1), ('%s', 1)", r.ids.Token(0), r.ids.Token(0), r.ids.Token(2),
		history.NewIDsAs("other", history.IDUUID, 3).Token(1)))
	for sql, want := range map[string]string{
		"select id from orders":                                        "map[0:2 2:1]",
		"select id, count(*) from orders group by 1;":                  "map[0:2 2:1]",
		"select id::text, sum(line) from orders group by 1":            "map[0:3 2:1]",
		"select id, 0 from orders":                                     "map[]",
		"select null::text, count(*) from orders":                      "map[]",
		"select id, 'many' from orders":                                `row 1 has "many" in its second column`,
		"select id, null from orders":                                  `row 1 has "" in its second column`,
		"selekt id from orders":                                        "syntax error",
		"select id from order_items":                                   "does not exist",
		"with d as (delete from orders returning id) select id from d": "read-only transaction",
		"select id from orders; commit; delete from orders":            "multiple commands",
		"select id from orders, generate_series(1, 200000)":            "there are more than 100000 rows, for 3 records",
		"select from orders":                                           "row 1 has no column",
	} {
		r.rows = sql
		found, err := r.readRows(t.Context(), address)
		if got := fmt.Sprint(found); want != "" && got != want && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s\nfound %s, %v, want %s", sql, got, err, want)
		}
	}
	r.rows = "select id from orders"
	if found, err := r.readRows(t.Context(), address); err != nil || len(found) != 2 {
		t.Errorf("afterwards there are %v, %v", found, err)
	}
	if _, err := r.readRows(t.Context(), "postgres://me:secret1@127.0.0.1:1/orders"); err == nil ||
		strings.Contains(err.Error(), "secret1") {
		t.Errorf("a database that is not there: %v", err)
	}
}

func execute(t *testing.T, address, sql string) {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatal(err)
	}
}
