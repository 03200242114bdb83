package sqlstore_test

import (
	"path/filepath"
	"testing"

	"github.com/dlqbench/dlqbench/deadletter/store"
	"github.com/dlqbench/dlqbench/deadletter/store/sqlstore"
	"github.com/dlqbench/dlqbench/deadletter/store/storetest"
)

func openSQLite(t testing.TB, options store.Options) *sqlstore.DB {
	t.Helper()
	db, err := sqlstore.SQLite(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "dead letters#%.db"), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

func TestSQLiteConforms(t *testing.T) {
	storetest.Conformance(t, func(t *testing.T, options store.Options) store.Store { return openSQLite(t, options) })
}
