package sqlstore_test

import (
	"path/filepath"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/sqlstore"
	"github.com/dlqbench/dlqbench/store/storetest"
)

func openSQLite(t testing.TB, options store.Options) *sqlstore.DB {
	t.Helper()
	db, err := sqlstore.SQLite(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "dead letters#%.db"), options)
	return migrated(t, db, err)
}

// migrated migrates an opened store and closes it at the end of the test.
func migrated(t testing.TB, db *sqlstore.DB, err error) *sqlstore.DB {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	must.Get(db.Migrate(t.Context()))(t)
	return db
}

func TestSQLiteConforms(t *testing.T) {
	storetest.Conformance(t, func(t *testing.T, options store.Options) store.Store { return openSQLite(t, options) })
}
