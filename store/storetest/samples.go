package storetest

// This file has sample entries and queries, for tests of plans and for benchmarks.

import (
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/store"
)

// Typical is an entry of typical size: a value of 300 bytes, a stack trace of 800.
func Typical(n int, due time.Time) store.Entry {
	stack := "Error: Failed to connect\n"
	for i := range 10 {
		stack += fmt.Sprintf("    at PaymentConnector.processPayment%d (/src/services/payment.ts:%d:23)\n", i, i)
	}
	return store.Entry{
		Source:  store.Place{Topic: "payments", Partition: int32(n % 12), Offset: int64(n)},
		Letter:  store.Place{Topic: "payments.dlq", Offset: int64(n)},
		Dialect: "plain", EventID: fmt.Sprintf("evt-%d", n), SubscriberID: fmt.Sprintf("subscriber-%d", n%20),
		Key: fmt.Appendf(nil, "customer-%d", n%1000),
		Value: fmt.Appendf(nil,
			`{"eventId":"evt-%d","pattern":"%s","payload":{"amount":%d,"currency":"EUR","note":"%0200d"}}`, n,
			[]string{"payment.created", "payment.failed", "order.created", "invoice.created"}[n%4], n, n),
		Headers: []store.Header{{Key: "trace", Value: []byte("abc")}},
		Error: store.Failure{Message: "connection timed out", Type: []string{"NetworkError", "RateLimitError",
			"ValidationError"}[n%3], Code: "CONNECTION_TIMEOUT", Stack: stack},
		RetryCount: 3, MaxRetries: 3, Priority: n % 3, Service: "payment-service", NextRetryAt: due, FirstFailedAt: due,
		LastFailedAt: due,
	}
}

// Typicals returns n typical entries, numbered from from.
func Typicals(from, n int, due time.Time) []store.Entry {
	all := make([]store.Entry, n)
	for i := range all {
		all[i] = Typical(from+i, due)
	}
	return all
}

// Lists returns queries with a filter or an order that has an index, and words that a plan contains if it uses the
// index.
func Lists(start time.Time) map[string]List {
	from := start.Add(24 * time.Hour)
	return map[string]List{
		"newest":                {store.Query{Descending: true}, "created_at"},
		"pending, oldest first": {store.Query{States: []store.State{store.Pending}}, "status"},
		"failed, newest first":  {store.Query{States: []store.State{store.Failed}, Descending: true}, "status"},
		"error type":            {store.Query{ErrorTypes: []string{"NetworkError"}}, "error_type"},
		"rare error type":       {store.Query{ErrorTypes: []string{"RareError"}}, "error_type"},
		"two error types, failed": {store.Query{ErrorTypes: []string{"RareError", "NetworkError"},
			States: []store.State{store.Failed}}, "_idx"},
		"event":              {store.Query{EventID: "evt-4711"}, "event_id"},
		"subscriber":         {store.Query{SubscriberID: "subscriber-7"}, "_idx"},
		"rare subscriber":    {store.Query{SubscriberID: "nobody"}, "subscriber_id"},
		"created in a day":   {store.Query{CreatedFrom: from, CreatedTo: from.Add(24 * time.Hour)}, "created_at"},
		"updated before":     {store.Query{UpdatedBefore: from, OrderBy: "updatedAt"}, "updated_at"},
		"by update, newest":  {store.Query{OrderBy: "updatedAt", Descending: true}, "updated_at"},
		"by priority":        {store.Query{OrderBy: "priority", Descending: true}, "priority"},
		"pattern":            {store.Query{Patterns: []string{"payment.*"}}, "_idx"},
		"rare pattern":       {store.Query{Patterns: []string{"refund.*"}}, "pattern"},
		"exact rare pattern": {store.Query{Patterns: []string{"refund.late"}}, "pattern"},
	}
}

// List is a query, and the words of a plan that uses its index.
type List struct {
	Query store.Query
	Uses  string
}

// Spread returns entries over 90 days, with a few of rare kinds.
func Spread(from, n int, start time.Time) []store.Entry {
	all := Typicals(from, n, start)
	for i := range all {
		all[i].CreatedAt = start.Add(time.Duration(from+i) * 7 * time.Second)
		all[i].Error.Stack = "Error: x"
		all[i].Value = fmt.Appendf(nil, `{"pattern":"%s","n":%d}`, []string{"payment.created", "payment.failed",
			"order.created", "invoice.created"}[i%4], from+i)
		if (from+i)%20000 == 19999 {
			all[i].Error.Type, all[i].SubscriberID, all[i].Value = "RareError", "somebody", []byte(`{"pattern":"refund.late"}`)
		}
	}
	return all
}

// Ripen returns statements that give spread entries (in the lifecycle vocabulary) the states of a store in use: 8 of 10
// are resolved, one in a hundred is failed, the others are pending.
func Ripen() []string {
	return []string{
		"UPDATE dead_letter_queue SET status = 'dlq_resolved', next_retry_at = NULL, resolution_strategy = " +
			"'automatic_retry', resolution_timestamp = updated_at WHERE source_offset % 10 < 8",
		"UPDATE dead_letter_queue SET status = 'dlq_failed', next_retry_at = NULL WHERE source_offset % 100 = 99",
	}
}
