package sqlstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/dlqbench/dlqbench/internal/env/postgres"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/sqlstore"
	"github.com/dlqbench/dlqbench/store/storetest"
)

// server is one PostgreSQL for all tests, each of which has a database of its own. absent is the reason if there is
// none.
var (
	server    *postgres.Server
	absent    error
	databases atomic.Int64
)

func TestMain(m *testing.M) {
	flag.Parse()
	settings := map[string]string{"max_connections": "200", "fsync": "off"}
	if flag.Lookup("test.bench").Value.String() != "" {
		// Benchmarks measure writes to disk. Tests do not need data to survive a crash of the machine.
		settings["fsync"], settings["shared_buffers"], settings["max_wal_size"] = "on", "512MB", "2GB"
	}
	server, absent = postgres.Start(context.Background(), settings)
	code := m.Run()
	if server != nil {
		if err := server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// database returns the URL of a new, empty database.
func database(t testing.TB) string {
	t.Helper()
	if errors.Is(absent, postgres.ErrAbsent) {
		t.Skip(absent)
	}
	if absent != nil {
		t.Fatal(absent)
	}
	url := must.Get(server.Create(t.Context(), fmt.Sprintf("test%d", databases.Add(1))))(t)
	return url
}

func openPostgres(t testing.TB, options store.Options) *sqlstore.DB {
	t.Helper()
	db, err := sqlstore.Postgres(t.Context(), database(t), options)
	return migrated(t, db, err)
}

func TestPostgresConforms(t *testing.T) {
	storetest.Conformance(t, func(t *testing.T, options store.Options) store.Store { return openPostgres(t, options) })
}
