// Package storetest has the conformance tests of dead-letter stores. It knows stores by their interface alone.
package storetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlqbench/dlqbench/store"
)

// Open returns an empty, migrated store. It closes the store with t.Cleanup.
type Open func(t *testing.T, options store.Options) store.Store

// Conformance runs all tests of the promises of package store. Tests that depend on status words run in both
// vocabularies.
func Conformance(t *testing.T, open Open) {
	for _, vocabulary := range []string{store.VocabularyLifecycle, store.VocabularyManagement} {
		t.Run(vocabulary, func(t *testing.T) {
			s := suite{open: func(t *testing.T, options store.Options) store.Store {
				options.Vocabulary = vocabulary
				return open(t, options)
			}}
			t.Run("Filters", s.filters)
			t.Run("ClaimTakesWhatIsDueByPriorityThenAge", s.claimOrder)
			t.Run("Leases", s.leases)
			t.Run("SettleWritesWhatBecameOfIt", s.settle)
			t.Run("AlterByHand", s.alter)
			t.Run("StaleAndLockedEditsAreRefused", s.refusedEdits)
			t.Run("IllegalTransitionsAreRefused", s.illegal)
			t.Run("WhatIsPutBackIsFailed", s.putBack)
			t.Run("Remove", s.remove)
			t.Run("Stats", s.stats)
			t.Run("NoDoubleLocks", s.race)
			t.Run("AnyLife", s.anyLife)
		})
	}
	s := suite{open}
	t.Run("EveryFieldComesBack", s.everyField)
	t.Run("AwkwardValuesComeBack", s.awkward)
	t.Run("WhatIsMissingIsFilledIn", s.filledIn)
	t.Run("OneEntryPerSource", s.oncePerSource)
	t.Run("IngestIsAllOrNone", s.allOrNone)
	t.Run("Patterns", s.patterns)
	t.Run("PagesInOrder", s.pages)
	t.Run("MigratingAgainMakesNothing", s.migrateAgain)
}

type suite struct{ open Open }

// start is the time at which the clocks of the tests begin, a whole second.
func start() time.Time { return time.Date(2026, 2, 11, 12, 0, 0, 0, time.UTC) }

// clock is a clock that tests set.
type clock struct {
	sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.Lock()
	defer c.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.Lock()
	defer c.Unlock()
	c.at = c.at.Add(d)
}

func (s suite) clocked(t *testing.T) (store.Store, *clock) {
	c := &clock{at: start()}
	return s.open(t, store.Options{Clock: c.now}), c
}

// letter is the n-th dead letter of a topic, due at the start.
func letter(n int) store.Entry {
	return store.Entry{
		Source:  store.Place{Topic: "orders", Partition: 1, Offset: int64(n)},
		Letter:  store.Place{Topic: "orders.dlq", Partition: 0, Offset: int64(100 + n)},
		Dialect: "plain", Value: fmt.Appendf(nil, `{"n":%d}`, n), NextRetryAt: start(),
		CreatedAt: start().Add(time.Duration(n) * time.Second),
	}
}

func letters(n int) []store.Entry {
	all := make([]store.Entry, n)
	for i := range all {
		all[i] = letter(i)
	}
	return all
}

func ingest(t *testing.T, s store.Store, entries ...store.Entry) {
	t.Helper()
	fresh, err := s.Ingest(t.Context(), entries)
	must(t, err)
	if fresh != len(entries) {
		t.Fatalf("%d of %d entries are new", fresh, len(entries))
	}
}

func list(t *testing.T, s store.Store, query store.Query) []store.Entry {
	t.Helper()
	page, _, err := s.List(t.Context(), query)
	must(t, err)
	return page
}

func get(t *testing.T, s store.Store, id string) store.Entry {
	t.Helper()
	entry, err := s.Get(t.Context(), id)
	must(t, err)
	return entry
}

func claim(t *testing.T, s store.Store, worker string, limit int) []store.Entry {
	t.Helper()
	claimed, err := s.Claim(t.Context(), worker, time.Minute, limit)
	must(t, err)
	return claimed
}

func lockOf(entry store.Entry) store.Lock {
	return store.Lock{ID: entry.ID, Worker: entry.LockedBy, Version: entry.Version}
}

func offsets(entries []store.Entry) string {
	out := make([]string, len(entries))
	for i, entry := range entries {
		out[i] = fmt.Sprint(entry.Source.Offset)
	}
	return strings.Join(out, " ")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// equal compares entries. It compares JSON by content.
func equal(t *testing.T, got, want store.Entry) {
	t.Helper()
	for _, pair := range [][2]*json.RawMessage{{&got.OriginalEvent, &want.OriginalEvent},
		{&got.Error.Context, &want.Error.Context}} {
		if !sameJSON(*pair[0], *pair[1]) {
			t.Errorf("got JSON %.300s, want %.300s", *pair[0], *pair[1])
		}
		*pair[0], *pair[1] = nil, nil
	}
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		if !reflect.DeepEqual(g.Field(i).Interface(), w.Field(i).Interface()) {
			t.Errorf("%s: got %.300q, want %.300q", g.Type().Field(i).Name, fmt.Sprint(g.Field(i).Interface()),
				fmt.Sprint(w.Field(i).Interface()))
		}
	}
}

func sameJSON(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	var x, y any
	for _, pair := range []struct {
		text json.RawMessage
		into *any
	}{{a, &x}, {b, &y}} {
		decoder := json.NewDecoder(bytes.NewReader(pair.text))
		if decoder.Decode(pair.into) != nil {
			return false
		}
	}
	return reflect.DeepEqual(x, y)
}

func newID() string { return uuid.NewString() }
