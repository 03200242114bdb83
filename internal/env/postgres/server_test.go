package postgres_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dlqbench/dlqbench/internal/env/postgres"
)

// TestKeepsWhatWasCommitted stops, crashes and resumes a server, and checks that committed data is present each
// time, at the same address.
func TestKeepsWhatWasCommitted(t *testing.T) {
	server, err := postgres.Start(t.Context(), map[string]string{"max_connections": "7"})
	if errors.Is(err, postgres.ErrAbsent) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if _, err := pgx.Connect(t.Context(), server.URL("postgres")); err == nil {
			t.Error("a closed server answers")
		}
	}()
	url, err := server.Create(t.Context(), "a b")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(sql string) (answer string) {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if err := conn.QueryRow(t.Context(), sql).Scan(&answer); err != nil {
			t.Fatal(err)
		}
		return answer
	}
	if got := ask("SHOW max_connections"); got != "7" {
		t.Errorf("max_connections is %s", got)
	}
	ask("SELECT (lo_create(4711))::text")
	for name, end := range map[string]func() error{"stopped": server.Stop, "crashed": server.Crash} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if _, err := pgx.Connect(t.Context(), url); err == nil {
			t.Errorf("a server that is %s answers", name)
		}
		if err := server.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := ask("SELECT count(*)::text FROM pg_largeobject_metadata WHERE oid = 4711"); got != "1" {
			t.Errorf("%s: %s objects are there", name, got)
		}
	}
}
