package worker

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/internal/env/postgres"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/open"
)

// fast scales a minute to 1 ms.
func fast() Strategies {
	strategies := DefaultStrategies()
	strategies.Clock.Scale = 60000
	return strategies
}

// fastSettings go with fast. The leases are long, because these tests are not about leases.
func fastSettings() Settings {
	settings := DefaultSettings()
	settings.Lease = 1000 * time.Hour
	return settings
}

func TestFromTheTopicToItsEnd(t *testing.T) { throughLife(newBench(t, 2)) }

func TestFromTheTopicToItsEndOnPostgreSQL(t *testing.T) {
	server, err := postgres.Start(t.Context(), map[string]string{"fsync": "off"})
	if errors.Is(err, postgres.ErrAbsent) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	b := newBench(t, 2)
	address := must.Get(server.Create(t.Context(), "letters"))(t)
	if b.store, err = open.Store(t.Context(), address, store.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.store.Close() })
	must.Get(b.store.Migrate(t.Context()))(t)
	throughLife(b)
}

// throughLife ingests dead letters into the store and retries them until all are resolved.
func throughLife(b *bench) {
	t := b.T
	var seen sync.Map
	url := downstream(t, func(w http.ResponseWriter, r *http.Request) {
		value, _ := io.ReadAll(r.Body)
		if _, again := seen.LoadOrStore(string(value), true); !again {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	for i := range 20 {
		b.produce(letter(int32(i%2), i, "connection timed out"))
	}
	router := b.routerConfig()
	router.Strategies = fast()
	b.route(router)
	b.eventually("all dead letters are in the store", func() bool { return b.count() == 20 })
	b.eventually("the offsets are committed", func() bool { return b.committed(0) == 10 && b.committed(1) == 10 })

	call := must.Get(NewCall(url, time.Second))(t)
	config := Config{Store: b.store, Retrier: call, Strategies: fast(), Settings: fastSettings(),
		Logger: zerolog.New(b.log)}
	b.background(func(ctx context.Context) error { return Run(ctx, config) })
	b.eventually("all are resolved", func() bool { return b.count(store.Resolved) == 20 })
	for _, entry := range b.entries(store.Query{}) {
		if entry.Resolution.How != store.AutomaticRetry || entry.LockedBy != "" || entry.DLQRetryCount != 2 ||
			len(entry.RetryHistory) != 2 {
			t.Errorf("entry %+v", entry)
		}
	}
}
