package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/store"
)

func number(n int) *int { return &n }

// mixed is a store of 12 entries whose fields depend on the offset. 9 to 11 are processing, failed and manual.
func (s suite) mixed(t *testing.T) store.Store {
	db, c := s.clocked(t)
	c.advance(time.Hour)
	all := letters(12)
	for i := range all {
		all[i].Error.Type = []string{"TIMEOUT_ERROR", "RATE_LIMIT_ERROR", ""}[i%3]
		all[i].DLQRetryCount, all[i].Priority = i%5, i%4
		all[i].Service = []string{"billing", "shipping"}[i%2]
		all[i].NextRetryAt, all[i].EventID, all[i].SubscriberID = time.Time{}, fmt.Sprintf("evt-%d", i),
			[]string{"crm", "erp", ""}[i%3]
		if i >= 9 {
			all[i].NextRetryAt, all[i].Priority = start(), 100-i
		}
	}
	ingest(t, db, all...)
	claimed := claim(t, db, "w", 3)
	if offsets(claimed) != "9 10 11" {
		t.Fatalf("claimed %s", offsets(claimed))
	}
	must(t, db.Settle(t.Context(), lockOf(claimed[1]), store.Change{State: store.Failed}))
	must(t, db.Settle(t.Context(), lockOf(claimed[2]), store.Change{State: store.Manual}))
	return db
}

func (s suite) filters(t *testing.T) {
	db := s.mixed(t)
	all := list(t, db, store.Query{})
	cases := map[string]struct {
		query store.Query
		want  string
	}{
		"all":               {store.Query{}, "0 1 2 3 4 5 6 7 8 9 10 11"},
		"pending":           {store.Query{States: []store.State{store.Pending}}, "0 1 2 3 4 5 6 7 8"},
		"processing":        {store.Query{States: []store.State{store.Processing}}, "9"},
		"failed and manual": {store.Query{States: []store.State{store.Failed, store.Manual}}, "10 11"},
		"archived":          {store.Query{States: []store.State{store.Archived}}, ""},
		"error type":        {store.Query{ErrorTypes: []string{"TIMEOUT_ERROR"}}, "0 3 6 9"},
		"error types":       {store.Query{ErrorTypes: []string{"TIMEOUT_ERROR", "RATE_LIMIT_ERROR"}}, "0 1 3 4 6 7 9 10"},
		"service":           {store.Query{Service: "shipping"}, "1 3 5 7 9 11"},
		"event":             {store.Query{EventID: "evt-4"}, "4"},
		"subscriber":        {store.Query{SubscriberID: "erp"}, "1 4 7 10"},
		"created from":      {store.Query{CreatedFrom: start().Add(9 * time.Second)}, "9 10 11"},
		"created to":        {store.Query{CreatedTo: start().Add(2 * time.Second)}, "0 1"},
		"created between": {store.Query{CreatedFrom: start().Add(3 * time.Second), CreatedTo: start().Add(5 * time.Second)},
			"3 4"},
		"updated before":  {store.Query{UpdatedBefore: start().Add(30 * time.Minute)}, "0 1 2 3 4 5 6 7 8"},
		"min retries":     {store.Query{MinRetries: number(4)}, "4 9"},
		"max retries":     {store.Query{MaxRetries: number(0)}, "0 5 10"},
		"retries between": {store.Query{MinRetries: number(1), MaxRetries: number(2)}, "1 2 6 7 11"},
		"min priority":    {store.Query{MinPriority: number(3)}, "3 7 9 10 11"},
		"ids":             {store.Query{IDs: []string{all[3].ID, all[5].ID, newID(), "no id"}}, "3 5"},
		"no ids":          {store.Query{IDs: []string{"no id"}}, ""},
		"several together": {store.Query{States: []store.State{store.Pending}, ErrorTypes: []string{"TIMEOUT_ERROR"},
			Service: "billing", MaxRetries: number(1)}, "0 6"},
		"nothing fits both": {store.Query{States: []store.State{store.Failed}, Service: "shipping"}, ""},
		"limited":           {store.Query{Limit: 2}, "0 1"},
		"the other way":     {store.Query{Limit: 2, Descending: true}, "11 10"},
		"by update":         {store.Query{OrderBy: "updatedAt", Limit: 3}, "0 1 2"},
		"by priority":       {store.Query{OrderBy: "priority", States: []store.State{store.Pending}}, "0 4 8 1 5 2 6 3 7"},
		"by priority, down": {store.Query{OrderBy: "priority", Descending: true, Limit: 5}, "9 10 11 7 3"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := offsets(list(t, db, c.query)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			c.query.Limit = 0
			n, err := db.Count(t.Context(), c.query)
			must(t, err)
			if whole := len(list(t, db, c.query)); int(n) != whole {
				t.Errorf("counted %d, listed %d", n, whole)
			}
			sameAsFits(t, db, c.query)
		})
	}
	for name, query := range map[string]store.Query{"order": {OrderBy: "colour"}, "limit": {Limit: 1001},
		"negative limit": {Limit: -1}, "cursor": {After: "!"}} {
		if _, _, err := db.List(t.Context(), query); err == nil {
			t.Errorf("a list with a wrong %s was given", name)
		}
	}
}

// sameAsFits checks that the database selects the entries for which the query's Fits is true.
func sameAsFits(t *testing.T, db store.Store, query store.Query) {
	t.Helper()
	listed := map[string]bool{}
	for _, entry := range list(t, db, query) {
		listed[entry.ID] = true
	}
	for _, entry := range list(t, db, store.Query{}) {
		if query.Fits(entry) != listed[entry.ID] {
			t.Errorf("entry %d: listed %t, and fits %t", entry.Source.Offset, listed[entry.ID], query.Fits(entry))
		}
	}
}

func (s suite) patterns(t *testing.T) {
	db := s.open(t, store.Options{})
	names := []string{"payment.created", "payment.failed", "payments.created", "order.created", "pay%ment_1",
		"Payment.created", "a[b]?c", "", "payment", "日本.created", "x-1"}
	all := letters(len(names))
	for i := range all {
		all[i].Pattern = names[i]
	}
	ingest(t, db, all...)
	cases := map[string]struct {
		patterns []string
		want     string
	}{
		"exact":              {[]string{"payment.created"}, "0"},
		"prefix":             {[]string{"payment.*"}, "0 1"},
		"shorter prefix":     {[]string{"payment*"}, "0 1 2 8"},
		"suffix":             {[]string{"*.created"}, "0 2 3 5 9"},
		"middle":             {[]string{"p*.created"}, "0 2"},
		"two stars":          {[]string{"*ment*.*"}, "0 1 2 5"},
		"several":            {[]string{"payment.*", "order.created"}, "0 1 3"},
		"percent is percent": {[]string{"pay%*"}, "4"},
		"underscore":         {[]string{"*_1"}, "4"},
		"glob signs":         {[]string{"a[b]?*"}, "6"},
		"glob signs, exact":  {[]string{"a[b]?c"}, "6"},
		"unicode":            {[]string{"日*"}, "9"},
		"nothing":            {[]string{"nothing.*"}, ""},
		"case matters":       {[]string{"Pay*"}, "5"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := offsets(list(t, db, store.Query{Patterns: c.patterns})); got != c.want {
				t.Errorf("%q: got %q, want %q", c.patterns, got, c.want)
			}
			sameAsFits(t, db, store.Query{Patterns: c.patterns})
		})
	}
}

func (s suite) pages(t *testing.T) {
	db := s.open(t, store.Options{})
	all := letters(57)
	for i := range all {
		// Many entries share one time, and the order must still be total.
		all[i].CreatedAt, all[i].Priority = start().Add(time.Duration(i/20)*time.Second), i%3
	}
	ingest(t, db, all...)
	for _, order := range []string{"", "createdAt", "updatedAt", "priority"} {
		for _, down := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s down %t", order, down), func(t *testing.T) {
				want := list(t, db, store.Query{OrderBy: order, Descending: down, Limit: 1000})
				var got []store.Entry
				query := store.Query{OrderBy: order, Descending: down, Limit: 10}
				for round := 0; round == 0 || query.After != ""; round++ {
					page, after, err := db.List(t.Context(), query)
					must(t, err)
					if round > 6 || len(page) > 10 {
						t.Fatalf("page %d has %d entries", round, len(page))
					}
					got, query.After = append(got, page...), after
				}
				if len(want) != 57 || offsets(got) != offsets(want) {
					t.Errorf("page by page %s\nat once %s", offsets(got), offsets(want))
				}
			})
		}
	}
	_, after, err := db.List(t.Context(), store.Query{Limit: 10})
	must(t, err)
	if _, _, err := db.List(t.Context(), store.Query{Limit: 10, After: after, OrderBy: "priority"}); err == nil {
		t.Error("a cursor of one order was taken in another")
	}
	if _, after, err := db.List(t.Context(), store.Query{Limit: 57}); err != nil || after != "" {
		t.Errorf("the last page, which is full, has the cursor %q (%v)", after, err)
	}
}

func (s suite) stats(t *testing.T) {
	db, c := s.clocked(t)
	all := letters(6)
	for i := range all {
		all[i].Error.Type = []string{"A", "B"}[i%2]
	}
	ingest(t, db, all...)
	for i, took := range []time.Duration{10 * time.Second, 20 * time.Second} {
		c.advance(took)
		claimed := claim(t, db, "w", 1)
		how := []string{store.AutomaticRetry, store.ManualRetry}[i]
		must(t, db.Settle(t.Context(), lockOf(claimed[0]),
			store.Change{State: store.Resolved, Resolution: &store.Resolution{How: how}}))
	}
	claimed := claim(t, db, "w", 2)
	must(t, db.Settle(t.Context(), lockOf(claimed[0]), store.Change{State: store.Manual}))
	stats, err := db.Stats(t.Context())
	must(t, err)
	got := fmt.Sprint(stats.ByState, stats.ByErrorType, stats.Resolutions, stats.MeanInDLQ, stats.Oldest.UTC())
	want := fmt.Sprint(map[store.State]int64{store.Resolved: 2, store.Manual: 1, store.Processing: 1, store.Pending: 2},
		map[string]int64{"A": 3, "B": 3},
		// The first entry was created at 0 s and resolved at 10 s, the second at 1 s and 30 s.
		map[string]int64{store.AutomaticRetry: 1, store.ManualRetry: 1}, 19500*time.Millisecond, start().Add(4*time.Second))
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
