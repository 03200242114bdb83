package ferretdb

import (
	"testing"

	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/storetest"
)

// Every store keeps the same promises.
func TestConformance(t *testing.T) {
	servers(t, func(t *testing.T, url string) {
		storetest.Conformance(t, func(t *testing.T, options store.Options) store.Store {
			return migrated(t, database(t, url), options)
		})
	})
}
