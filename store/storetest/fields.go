package storetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/store"
)

// whole is an entry with a value in every field.
func whole() store.Entry {
	at := start()
	return store.Entry{
		ID: newID(), Source: store.Place{Topic: "orders", Partition: 7, Offset: 1 << 40},
		Letter:  store.Place{Topic: "orders.dlq", Partition: 3, Offset: 9},
		Dialect: "spring", EventID: "evt-1", SubscriberID: "billing", Pattern: "payment.created",
		Key: []byte("k\x00\xff"), Value: []byte(`{"pattern": "payment.created", "amount": 99.99}`),
		Headers: []store.Header{{Key: "trace", Value: []byte("a")}, {Key: "trace", Value: []byte{0, 0xff}},
			{Key: "", Value: nil}, {Key: "empty", Value: []byte{}}},
		OriginalEvent: json.RawMessage(`{"pattern": "payment.created", "amount": 99.99}`),
		Error: store.Failure{Message: "timed out", Type: "NetworkError", Code: "CONNECTION_TIMEOUT",
			Stack: "Error\n\tat x", Context: json.RawMessage(`{"timeoutMs": 5000}`)},
		RetryHistory: []store.Attempt{
			{At: at, Worker: "w1", Strategy: store.Immediate, Result: "failed", Error: "no \"way\"",
				Took: 1500 * time.Microsecond},
			{At: at.Add(time.Second), Worker: "w2", Strategy: store.Scheduled, Result: "succeeded", Took: time.Second},
		},
		RetryCount: 3, MaxRetries: 4, DLQRetryCount: 2, FirstFailedAt: at.Add(-time.Hour),
		LastFailedAt: at.Add(-time.Minute + 7*time.Millisecond),
		Strategy:     store.Conditional, NextRetryAt: at.Add(time.Minute), Priority: -5, Service: "payment-service",
		Tags: []string{"payment", "critical"}, CreatedAt: at, UpdatedAt: at.Add(time.Millisecond),
	}
}

func (s suite) everyField(t *testing.T) {
	db := s.open(t, store.Options{})
	entry := whole()
	ingest(t, db, entry)
	want := entry
	want.State, want.Version = store.Pending, 1
	equal(t, get(t, db, entry.ID), want)
	page := list(t, db, store.Query{})
	if len(page) != 1 {
		t.Fatalf("%d entries are listed", len(page))
	}
	equal(t, page[0], want)
}

func (s suite) awkward(t *testing.T) {
	db := s.open(t, store.Options{})
	long := strings.Repeat("at frame é\n", 1<<20)
	cases := map[string]func(e *store.Entry){
		"null key and value":  func(e *store.Entry) { e.Key, e.Value = nil, nil },
		"empty key and value": func(e *store.Entry) { e.Key, e.Value = []byte{}, []byte{} },
		"10 MB stack":         func(e *store.Entry) { e.Error.Stack = long },
		"10 MB value":         func(e *store.Entry) { e.Value = []byte(long) },
		"NUL in texts":        func(e *store.Entry) { e.Error.Message, e.Service, e.EventID = "a\x00b", "\x00", "\x00\x00" },
		"bytes that are no UTF-8": func(e *store.Entry) {
			e.Error.Message, e.Error.Type, e.Error.Stack, e.Tags = "\xff\xfe", "T\x80", "\xc3", []string{"\xf0\x28"}
			e.Headers = []store.Header{{Key: "\xffh", Value: []byte("\xff")}}
			e.RetryHistory = []store.Attempt{{At: start(), Worker: "\xff", Result: "failed", Error: "\x00\xfe"}}
		},
		"unicode": func(e *store.Entry) {
			e.Error.Message, e.SubscriberID = "日本 𝄞 \u2028 \U0010F0FF", "Ünïcödé 🚀"
		},
		"value is JSON that isn't an object": func(e *store.Entry) { e.Value = []byte(` [1, "two", null] `) },
		"value is a number":                  func(e *store.Entry) { e.Value = []byte(`12345678901234`) },
		"JSON with NUL and a lone surrogate": func(e *store.Entry) {
			e.Value = []byte(`{"a":"x\u0000y","b":"\ud800","c":"\ud834\udd1e","d":"\\u0000"}`)
		},
		"JSON nested very deep": func(e *store.Entry) {
			e.Value = []byte(strings.Repeat("[", 9000) + strings.Repeat("]", 9000))
		},
		"JSON with an endless number": func(e *store.Entry) { e.Value = []byte(`{"n":1e999999}`) },
		"JSON with a huge pattern": func(e *store.Entry) {
			e.Value = []byte(`{"pattern":"` + strings.Repeat("p", 20000) + `"}`)
		},
		"quotes and escapes": func(e *store.Entry) {
			e.Error.Message = `'; DROP TABLE dead_letter_queue; -- \ " ? $1 {now}`
		},
		"a value that looks like SQL": func(e *store.Entry) { e.Value = []byte(`{"q":"? $1 {now} '"}`) },
	}
	n := 0
	for name, change := range cases {
		n++
		entry := letter(n)
		entry.ID = newID()
		change(&entry)
		t.Run(name, func(t *testing.T) {
			ingest(t, db, entry)
			got := get(t, db, entry.ID)
			if !json.Valid(got.OriginalEvent) {
				t.Errorf("the original event is no JSON: %.100q", got.OriginalEvent)
			}
			if (got.Value == nil) != (entry.Value == nil) || !bytes.Equal(got.Value, entry.Value) ||
				(got.Key == nil) != (entry.Key == nil) {
				t.Errorf("key or value: got %.40q (nil: %t), want %.40q (nil: %t)", got.Value, got.Value == nil, entry.Value,
					entry.Value == nil)
			}
			want := entry
			want.State, want.Version, want.OriginalEvent, want.UpdatedAt = store.Pending, 1, got.OriginalEvent, entry.CreatedAt
			equal(t, got, want)
		})
	}
}

func (s suite) filledIn(t *testing.T) {
	db, c := s.clocked(t)
	c.advance(time.Hour)
	ingest(t, db, store.Entry{Letter: store.Place{Topic: "dlq", Partition: 2, Offset: 5}, Value: []byte("not JSON \xff"),
		Pattern: "a.b", EventID: "e1"},
		store.Entry{Letter: store.Place{Topic: "dlq", Partition: 2, Offset: 6},
			Source:  store.Place{Topic: strings.Repeat("x", 5000)},
			EventID: strings.Repeat("é", 300), Error: store.Failure{Type: strings.Repeat("T", 200)},
			Value: []byte(`{"pattern":"c.d"}`)})
	page := list(t, db, store.Query{})
	if len(page) != 2 {
		t.Fatalf("%d entries", len(page))
	}
	for i, entry := range page {
		if entry.Source != entry.Letter || entry.Source.Offset != int64(5+i) {
			t.Errorf("a dead letter that doesn't say where its record was has its own place as source, not %v", entry.Source)
		}
		if entry.ID == "" || !entry.CreatedAt.Equal(start().Add(time.Hour)) ||
			!entry.UpdatedAt.Equal(entry.CreatedAt) || entry.State != store.Pending {
			t.Errorf("filled in: id %q, created %s, updated %s, %s", entry.ID, entry.CreatedAt, entry.UpdatedAt, entry.State)
		}
	}
	if page[0].Pattern != "a.b" || page[1].Pattern != "c.d" {
		t.Errorf("patterns %q and %q", page[0].Pattern, page[1].Pattern)
	}
	var event struct{ EventID, Pattern, PayloadBase64 string }
	must(t, json.Unmarshal(page[0].OriginalEvent, &event))
	if event.EventID != "e1" || event.Pattern != "a.b" || event.PayloadBase64 != "bm90IEpTT04g/w==" {
		t.Errorf("the event of a value that is no JSON is %s", page[0].OriginalEvent)
	}
	if page[1].EventID != strings.Repeat("é", 255) || page[1].Error.Type != strings.Repeat("T", 100) {
		t.Errorf("cut to the columns: %d, %d characters", len([]rune(page[1].EventID)), len(page[1].Error.Type))
	}
}

func (s suite) oncePerSource(t *testing.T) {
	db := s.open(t, store.Options{})
	const routers, rounds, batch = 4, 5, 20
	fresh := make(chan int, routers*rounds)
	failed := make(chan error, routers*rounds)
	for router := range routers {
		go func() {
			for round := range rounds {
				some := letters((round + 1) * batch)[round*batch:]
				if router%2 == 1 {
					for i, j := 0, len(some)-1; i < j; i, j = i+1, j-1 {
						some[i], some[j] = some[j], some[i]
					}
				}
				n, err := db.Ingest(t.Context(), append(some, some[0]))
				fresh <- n
				failed <- err
			}
		}()
	}
	sum := 0
	for range routers * rounds {
		sum += <-fresh
		must(t, <-failed)
	}
	n, err := db.Count(t.Context(), store.Query{})
	must(t, err)
	if sum != rounds*batch || n != rounds*batch {
		t.Errorf("%d routers brought the same %d dead letters: %d were new, %d are there", routers, rounds*batch, sum, n)
	}
}

func (s suite) allOrNone(t *testing.T) {
	db := s.open(t, store.Options{})
	bad := letter(1)
	bad.State = store.Resolved
	var illegal *store.IllegalTransition
	if _, err := db.Ingest(t.Context(), []store.Entry{letter(0), bad}); !errors.As(err, &illegal) {
		t.Errorf("a new entry that is resolved: %v", err)
	}
	same := []store.Entry{letter(2), letter(3)}
	same[0].ID = newID()
	same[1].ID = same[0].ID
	if _, err := db.Ingest(t.Context(), same); err == nil {
		t.Error("two entries got the same id")
	}
	if _, err := db.Ingest(t.Context(), []store.Entry{letter(4), {Value: []byte("from nowhere")}}); err == nil {
		t.Error("an entry without any place was taken")
	}
	if n, err := db.Count(t.Context(), store.Query{}); err != nil || n != 0 {
		t.Errorf("%d entries are there of batches that failed (%v)", n, err)
	}
}

func (s suite) migrateAgain(t *testing.T) {
	db := s.open(t, store.Options{})
	made, err := db.Migrate(t.Context())
	if err != nil || len(made) != 0 {
		t.Errorf("migrating again made %v (%v)", made, err)
	}
}
