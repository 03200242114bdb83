package manage

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/internal/testkit/golden"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/open"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newStore makes a store with entries of the source topic "orders". The i-th has offset i and is modified by change.
func newStore(t *testing.T, count int, change func(i int, entry *store.Entry)) store.Store {
	t.Helper()
	there := must.Get(open.Store(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "letters.db"), store.Options{}))(t)
	t.Cleanup(func() { there.Close() })
	must.Get(there.Migrate(t.Context()))(t)
	entries, due := make([]store.Entry, count), time.Now().Add(time.Hour)
	for i := range entries {
		entries[i] = store.Entry{
			Source: store.Place{Topic: "orders", Offset: int64(i)}, Letter: store.Place{Topic: "orders.dlq", Offset: int64(i)},
			Dialect: "plain",
			Key:     fmt.Appendf(nil, "k%d", i%5), Value: fmt.Appendf(nil, `{"id":"o%d"}`, i),
			Error:       store.Failure{Message: "timeout", Type: "TIMEOUT_ERROR"},
			NextRetryAt: due,
		}
		if change != nil {
			change(i, &entries[i])
		}
	}
	must.Get(there.Ingest(t.Context(), entries))(t)
	return there
}

func all(t *testing.T, there store.Store, states ...store.State) (entries []store.Entry) {
	t.Helper()
	must.Do(t, Each(t.Context(), there, store.Query{States: states}, 0, func(entry store.Entry) error {
		entries = append(entries, entry)
		return nil
	}))
	return entries
}

func TestFiltersAreRead(t *testing.T) {
	now := time.Date(2026, 2, 11, 12, 0, 0, 0, time.UTC)
	filter := NewFilter()
	filter.ErrorTypes, filter.Patterns, filter.Source, filter.Statuses = []string{"NetworkError"}, []string{"payment.*"},
		"payments", []string{"dlq_pending", "discarded", "reprocessing", "failed"}
	filter.Start, filter.End, filter.MaxAge = "2026-02-01", "2026-02-11T11:00:00Z", 24*time.Hour
	filter.MinRetries, filter.MaxRetries, filter.Priority, filter.OrderBy, filter.Direction = 1, 5, 2, "priority", "desc"
	query := must.Get(filter.Query(now))(t)
	if fmt.Sprint(query.States) != "[pending archived processing failed]" || *query.MinRetries != 1 ||
		*query.MaxRetries != 5 || *query.MinPriority != 2 || !query.Descending ||
		query.OrderBy != "priority" || query.Service != "payments" || query.IDs != nil {
		t.Errorf("query %+v", query)
	}
	if !query.CreatedFrom.Equal(now.Add(-24*time.Hour)) || !query.CreatedTo.Equal(now.Add(-time.Hour)) {
		t.Errorf("from %s to %s", query.CreatedFrom, query.CreatedTo)
	}
	if !filter.Narrow() || NewFilter().Narrow() {
		t.Error("Narrow is wrong")
	}
	for name, change := range map[string]func(*Filter){
		"status":    func(f *Filter) { f.Statuses = []string{"penning"} },
		"start":     func(f *Filter) { f.Start = "yesterday" },
		"end":       func(f *Filter) { f.End = "11.2.2026" },
		"order":     func(f *Filter) { f.OrderBy = "id" },
		"direction": func(f *Filter) { f.Direction = "up" },
		"age":       func(f *Filter) { f.MaxAge = -time.Hour },
		"period":    func(f *Filter) { f.Start, f.End = "2026-02-11", "2026-02-10" },
		"retries":   func(f *Filter) { f.MinRetries, f.MaxRetries = 5, 1 },
	} {
		filter := NewFilter()
		change(&filter)
		if _, err := filter.Query(now); err == nil {
			t.Errorf("%s: it is read", name)
		}
	}
}

// Of two lower bounds, the later one applies, whichever it is.
func TestTheYoungerBoundCounts(t *testing.T) {
	now := time.Date(2026, 2, 11, 12, 0, 0, 0, time.UTC)
	for age, want := range map[time.Duration]time.Time{time.Hour: now.Add(-time.Hour),
		48 * time.Hour: now.Add(-12 * time.Hour)} {
		filter := NewFilter()
		filter.Start, filter.MaxAge = "2026-02-11", age
		if query, err := filter.Query(now); err != nil || !query.CreatedFrom.Equal(want) {
			t.Errorf("max age %s: from %s, %v", age, query.CreatedFrom, err)
		}
	}
}

func TestFiltersSelect(t *testing.T) {
	there := newStore(t, 12, func(i int, entry *store.Entry) {
		entry.Error.Type = []string{"NetworkError", "ValidationError"}[i%2]
		entry.Service = []string{"payments", "stock", "mail"}[i%3]
		entry.Value = fmt.Appendf(nil, `{"pattern":"%s.created"}`, []string{"payment", "order"}[i%2])
		entry.Priority = i
		entry.CreatedAt = time.Now().Add(-time.Duration(i) * time.Hour)
	})
	for name, one := range map[string]struct {
		change func(*Filter)
		want   int
	}{
		"everything": {func(*Filter) {}, 12},
		"error type": {func(f *Filter) { f.ErrorTypes = []string{"NetworkError"} }, 6},
		"two types":  {func(f *Filter) { f.ErrorTypes = []string{"NetworkError", "ValidationError"} }, 12},
		"no type":    {func(f *Filter) { f.ErrorTypes = []string{"networkerror"} }, 0},
		"source":     {func(f *Filter) { f.Source = "stock" }, 4},
		"pattern":    {func(f *Filter) { f.Patterns = []string{"payment.*"} }, 6},
		"both":       {func(f *Filter) { f.Patterns, f.Source = []string{"payment.*"}, "stock" }, 2},
		"age":        {func(f *Filter) { f.MaxAge = 210 * time.Minute }, 4},
		"priority":   {func(f *Filter) { f.Priority = 9 }, 3},
		"untried":    {func(f *Filter) { f.MaxRetries = 0 }, 12},
		"tried":      {func(f *Filter) { f.MinRetries = 1 }, 0},
		"failed":     {func(f *Filter) { f.Statuses = []string{"failed"} }, 0},
	} {
		filter := NewFilter()
		one.change(&filter)
		query := must.Get(filter.Query(time.Now()))(t)
		got := 0
		must.Do(t, Each(t.Context(), there, query, 0, func(store.Entry) error { got++; return nil }))
		if got != one.want {
			t.Errorf("%s selects %d, want %d", name, got, one.want)
		}
	}
}

func TestDecisionsAreKept(t *testing.T) {
	for state, how := range map[store.State]string{store.Archived: "discard", store.Resolved: "manual_resolution"} {
		there := newStore(t, 4, nil)
		ids := all(t, there)
		locked, err := there.Claim(t.Context(), "somebody", time.Minute, 1) // no entry is due
		if err != nil || len(locked) != 0 {
			t.Fatal(locked, err)
		}
		must.Do(t, there.Alter(t.Context(), ids[3].ID, ids[3].Version,
			store.Change{State: store.Processing, Worker: "somebody", Lease: time.Minute}))
		decision := Decision{State: state, By: "anna", Notes: "paid by hand", DryRun: true}
		report, err := Decide(t.Context(), there, store.Query{}, decision)
		if err != nil || report.Selected != 4 || report.Done != 0 || len(all(t, there, store.Pending)) != 3 {
			t.Errorf("a dry run: %+v, %v", report, err)
		}
		decision.DryRun = false
		report, err = Decide(t.Context(), there, store.Query{}, decision)
		if err != nil || report.Selected != 4 || report.Done != 3 || report.Skipped != 1 ||
			!strings.Contains(report.Failures[0], "somebody has it since") {
			t.Errorf("%+v, %v", report, err)
		}
		for _, entry := range all(t, there, state) {
			if entry.Resolution.How != how || entry.Resolution.By != "anna" ||
				entry.Resolution.Notes != "paid by hand" || entry.Resolution.At.IsZero() {
				t.Errorf("%+v", entry.Resolution)
			}
		}
		if len(all(t, there, state)) != 3 {
			t.Errorf("%d are %s", len(all(t, there, state)), state)
		}
	}
}

func TestEditsReplaceTheValue(t *testing.T) {
	there := newStore(t, 2, func(_ int, entry *store.Entry) {
		entry.Value = []byte(`{"pattern":"payment.created","amount":-1}`)
	})
	entries := all(t, there)
	must.Do(t, Edit(t.Context(), there, entries[0], []byte(`{"amount":1}`), "sign"))
	after := must.Get(there.Get(t.Context(), entries[0].ID))(t)
	if string(after.Value) != `{"amount":1}` || after.State != store.Pending ||
		after.Pattern != "payment.created" || !after.NextRetryAt.Equal(entries[0].NextRetryAt) ||
		!strings.Contains(string(after.OriginalEvent), `"amount":1`) {
		t.Errorf("%+v %s", after, after.OriginalEvent)
	}
	if err := Edit(t.Context(), there, entries[0], []byte(`x`), ""); !errors.Is(err, store.ErrStale) ||
		!strings.Contains(err.Error(), "look at it again") {
		t.Errorf("an edit of what was changed: %v", err)
	}
	must.Do(t, there.Alter(t.Context(), entries[1].ID, entries[1].Version,
		store.Change{State: store.Processing, Worker: "node-2", Lease: time.Minute}))
	if err := Edit(t.Context(), there, entries[1], []byte(`x`), ""); !errors.Is(err, store.ErrLocked) ||
		!strings.Contains(err.Error(), "node-2 has it since") {
		t.Errorf("an edit of what is locked: %v", err)
	}
}

func TestEachEndsAtTheLimit(t *testing.T) {
	there := newStore(t, 5, nil)
	for limit, want := range []int{5, 1, 2, 3, 4, 5, 5} {
		seen := 0
		if err := Each(t.Context(), there, store.Query{}, limit, func(store.Entry) error {
			seen++
			return nil
		}); err != nil || seen != want {
			t.Errorf("limit %d: %d entries, %v", limit, seen, err)
		}
	}
}

func TestPurgesRemove(t *testing.T) {
	there := newStore(t, 1200, nil)
	entries := all(t, there)
	must.Do(t, there.Alter(t.Context(), entries[7].ID, entries[7].Version,
		store.Change{State: store.Processing, Worker: "node-2", Lease: time.Minute}))
	report, err := Purge(t.Context(), there, store.Query{}, true, nil)
	if err != nil || report.Selected != 1200 || report.Done != 0 || len(all(t, there)) != 1200 {
		t.Errorf("a dry run: %+v, %v", report, err)
	}
	report, err = Purge(t.Context(), there, store.Query{}, false, nil)
	if err != nil || report.Done != 1199 || report.Skipped != 1 || len(all(t, there)) != 1 {
		t.Errorf("%+v, %v, %d left", report, err, len(all(t, there)))
	}
}

func TestEntriesAreShown(t *testing.T) {
	at := time.Date(2026, 2, 11, 12, 0, 7, 123e6, time.UTC)
	entry := store.Entry{
		ID: "0198f3c2-8d1e-7b7a-9c55-0f3c2a9d1e77", Version: 4, Source: store.Place{Topic: "orders", Partition: 2,
			Offset: 77}, Letter: store.Place{Topic: "orders.dlq", Partition: 2, Offset: 5},
		Dialect: "plain", EventID: "msg_1707658080_abc123", SubscriberID: "s", Pattern: "payment.created", Key: []byte("k"),
		Value:         []byte("{\n  \"amount\": 99.99\n}\n\x1b[31m"),
		Headers:       []store.Header{{Key: "trace", Value: []byte{0xff, 0xfe}}},
		OriginalEvent: json.RawMessage(`{"amount":99.99}`),
		Error: store.Failure{Message: "External API timeout\r\nafter 5000ms \x1b[31m", Type: "TIMEOUT_ERROR",
			Code: "E1", Stack: "Error: timeout\n  at processPayment", Context: json.RawMessage(`{"a":1}`)},
		RetryHistory: []store.Attempt{{At: at, Worker: "worker_node_2", Strategy: store.Immediate, Result: "failed",
			Error: "again", Took: 12 * time.Millisecond}},
		RetryCount: 3, MaxRetries: 3, DLQRetryCount: 1, FirstFailedAt: at, LastFailedAt: at, State: store.Processing,
		Strategy: store.Immediate, NextRetryAt: at, Priority: 1,
		LockedBy: "worker_node_2", LockedAt: at, LeaseUntil: at.Add(time.Minute), Service: "payment-service",
		Tags:       []string{"payment"},
		Resolution: store.Resolution{At: at, How: "manual_resolution", By: "anna", Notes: "paid"}, CreatedAt: at,
		UpdatedAt: at,
	}
	var out strings.Builder
	must.Do(t, Table(&out,
		[]store.Entry{entry, {ID: "x", State: "odd", Error: store.Failure{Message: strings.Repeat("é", 100)}}}))
	out.WriteString("---\n")
	must.Do(t, Show(&out, entry))
	out.WriteString("---\n")
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	must.Do(t, encoder.Encode(NewView(entry)))
	golden.Check(t, filepath.Join("testdata", "shown.golden"), out.String())
	if strings.Contains(out.String()[:strings.LastIndex(out.String(), "---")], "\x1b") {
		t.Error("control characters reach the terminal")
	}
}

// The view of an entry shows why it was dead-lettered, even if retries have failed with other errors since.
func TestTheFirstErrorIsShown(t *testing.T) {
	entry := store.Entry{Error: store.Failure{
		Message: "answered 429", Type: "rate_limited",
		Context: json.RawMessage(
			`{"firstError":{"message":"timed out","type":"NetworkError","code":"E1","stackTrace":"at payment.ts:42"}}`),
	}}
	var out strings.Builder
	must.Do(t, Show(&out, entry))
	for _, wanted := range []string{"first error   NetworkError E1\n", "first reason  timed out\n",
		"error         rate_limited\n", "reason        answered 429\n", "stack\n  at payment.ts:42\n"} {
		if !strings.Contains(out.String(), wanted) {
			t.Errorf("it doesn't show %q:\n%s", wanted, out.String())
		}
	}
}

// An unknown status, written into the table by hand, is shown and counted, and no operation changes the entry.
func TestUnknownStatusesAreShownAndLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "letters.db")
	there := must.Get(open.Store(t.Context(), "sqlite:"+path, store.Options{}))(t)
	t.Cleanup(func() { there.Close() })
	must.Get(there.Migrate(t.Context()))(t)
	must.Get(there.Ingest(t.Context(),
		[]store.Entry{{Source: store.Place{Topic: "orders"}, Dialect: "plain", NextRetryAt: time.Now()}}))(t)
	table := must.Get(sql.Open("sqlite", path))(t)
	defer table.Close()
	must.Get(table.ExecContext(t.Context(), "UPDATE dead_letter_queue SET status = 'parked'"))(t)
	entries := all(t, there)
	if len(entries) != 1 || entries[0].State != "parked" {
		t.Fatalf("%+v", entries)
	}
	report, err := Decide(t.Context(), there, store.Query{}, Decision{State: store.Archived})
	if err != nil || report.Skipped != 1 || !strings.Contains(report.Failures[0], "set it right in the table") {
		t.Errorf("%+v, %v", report, err)
	}
	replay := newReplay(there, newPublisher(t, newKafka(t), "default"))
	replay.Query = store.Query{}
	if report, err := replay.Run(t.Context()); err != nil || report.Skipped != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	if claimed, err := there.Claim(t.Context(), "w", time.Minute, 10); err != nil || len(claimed) != 0 {
		t.Errorf("%v, %v", claimed, err)
	}
	if report, err := Purge(t.Context(), there, store.Query{}, false, nil); err != nil || report.Skipped != 1 {
		t.Errorf("%+v, %v", report, err)
	}
}
