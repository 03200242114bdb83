package sqlstore_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/deadletter/store"
	"github.com/dlqbench/dlqbench/deadletter/store/sqlstore"
)

// backends opens each store for a benchmark.
func backends(b *testing.B, run func(b *testing.B, open func(b *testing.B, options store.Options) *sqlstore.DB)) {
	b.Run("sqlite", func(b *testing.B) {
		run(b, func(b *testing.B, options store.Options) *sqlstore.DB { return openSQLite(b, options) })
	})
	b.Run("postgres", func(b *testing.B) {
		run(b, func(b *testing.B, options store.Options) *sqlstore.DB { return openPostgres(b, options) })
	})
}

// typical is an entry of an ordinary size: a value of 300 bytes, a stack trace of 800.
func typical(n int, due time.Time) store.Entry {
	stack := "Error: Failed to connect\n"
	for i := range 10 {
		stack += fmt.Sprintf("    at PaymentConnector.processPayment%d (/src/services/payment.ts:%d:23)\n", i, i)
	}
	return store.Entry{
		Source: store.Place{Topic: "payments", Partition: int32(n % 12), Offset: int64(n)}, Letter: store.Place{Topic: "payments.dlq", Offset: int64(n)},
		Dialect: "plain", EventID: fmt.Sprintf("evt-%d", n), SubscriberID: fmt.Sprintf("subscriber-%d", n%20), Key: fmt.Appendf(nil, "customer-%d", n%1000),
		Value: fmt.Appendf(nil, `{"eventId":"evt-%d","pattern":"%s","payload":{"amount":%d,"currency":"EUR","note":"%0200d"}}`, n,
			[]string{"payment.created", "payment.failed", "order.created", "invoice.created"}[n%4], n, n),
		Headers:    []store.Header{{Key: "trace", Value: []byte("abc")}},
		Error:      store.Failure{Message: "connection timed out", Type: []string{"NetworkError", "RateLimitError", "ValidationError"}[n%3], Code: "CONNECTION_TIMEOUT", Stack: stack},
		RetryCount: 3, MaxRetries: 3, Priority: n % 3, Service: "payment-service", NextRetryAt: due, FirstFailedAt: due, LastFailedAt: due,
	}
}

func typicals(from, n int, due time.Time) []store.Entry {
	all := make([]store.Entry, n)
	for i := range all {
		all[i] = typical(from+i, due)
	}
	return all
}

// BenchmarkIngest takes in batches of 500; the promise is 5,000 entries a second.
func BenchmarkIngest(b *testing.B) {
	const batch = 500
	for _, audit := range []bool{false, true} {
		b.Run(fmt.Sprintf("audit=%t", audit), func(b *testing.B) {
			backends(b, func(b *testing.B, open func(*testing.B, store.Options) *sqlstore.DB) {
				db := open(b, store.Options{Audit: audit})
				now := time.Now()
				n := 0
				for b.Loop() {
					if _, err := db.Ingest(b.Context(), typicals(n, batch, now)); err != nil {
						b.Fatal(err)
					}
					n += batch
				}
				b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "entries/s")
			})
		})
	}
}

// BenchmarkCycles locks, processes (for no time) and resolves with 8 workers that claim 10 at a time; the promise is 2,000 a second.
func BenchmarkCycles(b *testing.B) {
	const workers, backlog = 8, 20000
	for _, audit := range []bool{false, true} {
		b.Run(fmt.Sprintf("audit=%t", audit), func(b *testing.B) {
			backends(b, func(b *testing.B, open func(*testing.B, store.Options) *sqlstore.DB) {
				db := open(b, store.Options{Audit: audit})
				due := time.Now().Add(-time.Hour)
				for from := 0; from < backlog; from += 500 {
					if _, err := db.Ingest(b.Context(), typicals(from, 500, due)); err != nil {
						b.Fatal(err)
					}
				}
				b.ResetTimer()
				for range b.N {
					resolveAll(b, db, workers, backlog)
				}
				b.ReportMetric(backlog/b.Elapsed().Seconds(), "cycles/s")
			})
		})
	}
}

func resolveAll(b *testing.B, db *sqlstore.DB, workers, backlog int) {
	var done atomic.Int64
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for {
				claimed, err := db.Claim(b.Context(), fmt.Sprintf("w%d", w), time.Minute, 10)
				if err != nil {
					b.Error(err)
					return
				}
				if len(claimed) == 0 {
					return
				}
				for _, entry := range claimed {
					attempt := store.Attempt{At: entry.LockedAt, Worker: entry.LockedBy, Strategy: store.Immediate, Result: "succeeded"}
					if err := db.Settle(b.Context(), store.Lock{ID: entry.ID, Worker: entry.LockedBy, Version: entry.Version}, store.Change{State: store.Resolved, Attempt: &attempt}); err != nil {
						b.Error(err)
						return
					}
					done.Add(1)
				}
			}
		})
	}
	all.Wait()
	if done.Load() != int64(backlog) {
		b.Errorf("resolved %d of %d", done.Load(), backlog)
	}
}
