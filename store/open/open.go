// Package open chooses the dead-letter store for an address. It knows nothing about the stores except their addresses.
package open

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/mongo"
	"github.com/dlqbench/dlqbench/store/sqlstore"
)

// ErrAddress means that no store supports the address.
var ErrAddress = errors.New("the address of a dead-letter store is sqlite:PATH, postgres://… or mongodb://…")

// Store opens the store at an address: sqlite:PATH, postgres://… or mongodb://…. It does not migrate the store.
func Store(ctx context.Context, address string, options store.Options) (store.Store, error) {
	scheme, _, _ := strings.Cut(address, ":")
	switch scheme {
	case "sqlite":
		return opened(sqlstore.SQLite(ctx, address, options))
	case "postgres", "postgresql":
		return opened(sqlstore.Postgres(ctx, address, options))
	case "mongodb", "mongodb+srv":
		return opened(mongo.Open(ctx, address, options))
	}
	return nil, fmt.Errorf("%w, not %q and so on", ErrAddress, scheme+":") // the rest may contain a password
}

// opened converts the result, so that a nil pointer does not become a non-nil store.
func opened[S store.Store](there S, err error) (store.Store, error) {
	if err != nil {
		return nil, err
	}
	return there, nil
}
