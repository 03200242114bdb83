package storetest

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/store"
)

// anyLife drives a store with random sequences of calls and compares it, after each call, with a model in memory: an
// independent implementation of the state machine, the locks and leases, the order of claims, and due times.
func (s suite) anyLife(t *testing.T) {
	few(t)
	db, c := s.clocked(t)
	offset := 0
	rapid.Check(t, func(r *rapid.T) {
		if err := emptied(t, db); err != nil {
			r.Fatal(err)
		}
		m := &model{t: t, db: db, clock: c, offset: &offset, entries: map[string]*modelEntry{}}
		r.Repeat(map[string]func(*rapid.T){
			"ingest": m.ingest, "claim": m.claim, "settle": m.settle, "renew": m.renew, "alter": m.alter, "recover": m.recover,
			"remove": m.remove, "wait": m.wait, "": m.compare,
		})
	})
}

// few limits the number of sequences, because each call goes to a database.
func few(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	if before != checks.DefValue {
		return // a larger number was requested
	}
	if err := checks.Value.Set("15"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := checks.Value.Set(before); err != nil {
			t.Error(err)
		}
	})
}

// emptied removes the entries of the previous sequence, locked or not.
func emptied(t *testing.T, db store.Store) error {
	page, _, err := db.List(t.Context(), store.Query{Limit: 1000})
	if err != nil {
		return err
	}
	var ids []string
	for _, entry := range page {
		if entry.State == store.Processing {
			if err := db.Settle(t.Context(), lockOf(entry), store.Change{State: store.Resolved}); err != nil {
				return err
			}
		}
		ids = append(ids, entry.ID)
	}
	removed, err := db.Remove(t.Context(), ids)
	if err == nil && removed != len(ids) {
		err = fmt.Errorf("%d of %d entries could be removed", removed, len(ids))
	}
	return err
}

type model struct {
	t       *testing.T
	db      store.Store
	clock   *clock
	offset  *int
	entries map[string]*modelEntry
	// locks holds all locks ever granted.
	locks []store.Lock
}

type modelEntry struct {
	id                    string
	state                 store.State
	version               int64
	priority, retries     int
	created, next, leased time.Time
	worker                string
}

func (e *modelEntry) String() string {
	return fmt.Sprintf("%s v%d p%d r%d next %s lease %s by %q", e.state, e.version, e.priority, e.retries, e.next.UTC(),
		e.leased.UTC(), e.worker)
}

func (m *model) sorted() []*modelEntry {
	all := make([]*modelEntry, 0, len(m.entries))
	for _, entry := range m.entries {
		all = append(all, entry)
	}
	slices.SortFunc(all, func(a, b *modelEntry) int { return strings.Compare(a.id, b.id) })
	return all
}

func (m *model) any(r *rapid.T) *modelEntry {
	if len(m.entries) == 0 {
		r.Skip("there is none")
	}
	return rapid.SampledFrom(m.sorted()).Draw(r, "entry")
}

func (m *model) ingest(r *rapid.T) {
	*m.offset++
	entry := letter(*m.offset)
	entry.ID, entry.CreatedAt = newID(), m.clock.now().Add(time.Duration(-rapid.IntRange(0, 5).Draw(r, "age"))*time.Second)
	entry.Priority = rapid.IntRange(-1, 1).Draw(r, "priority")
	entry.NextRetryAt = rapid.SampledFrom([]time.Time{{}, m.clock.now(), m.clock.now().Add(time.Minute)}).Draw(r, "next")
	if fresh, err := m.db.Ingest(m.t.Context(), []store.Entry{entry}); err != nil || fresh != 1 {
		r.Fatalf("ingested %d: %v", fresh, err)
	}
	m.entries[entry.ID] = &modelEntry{id: entry.ID, state: store.Pending, version: 1, priority: entry.Priority,
		created: entry.CreatedAt, next: entry.NextRetryAt}
}

func (m *model) claim(r *rapid.T) {
	limit, lease := rapid.IntRange(1, 3).Draw(r, "limit"),
		time.Duration(rapid.IntRange(1, 90).Draw(r, "lease"))*time.Second
	worker := rapid.SampledFrom([]string{"w1", "w2"}).Draw(r, "worker")
	now := m.clock.now()
	var due []*modelEntry
	for _, entry := range m.sorted() {
		if entry.state == store.Pending && !entry.next.IsZero() && !entry.next.After(now) {
			due = append(due, entry)
		}
	}
	slices.SortStableFunc(due, func(a, b *modelEntry) int {
		if a.priority != b.priority {
			return b.priority - a.priority
		}
		return a.created.Compare(b.created)
	})
	due = due[:min(limit, len(due))]
	claimed, err := m.db.Claim(m.t.Context(), worker, lease, limit)
	if err != nil {
		r.Fatal(err)
	}
	var got, want []string
	for _, entry := range claimed {
		got = append(got, entry.ID)
	}
	for _, entry := range due {
		want = append(want, entry.id)
		entry.state, entry.worker, entry.leased, entry.version = store.Processing, worker, now.Add(lease), entry.version+1
		m.locks = append(m.locks, store.Lock{ID: entry.id, Worker: worker, Version: entry.version})
	}
	if !slices.Equal(got, want) {
		r.Fatalf("claimed %v, want %v", got, want)
	}
}

// holds returns the entry if its worker still holds the lock.
func (m *model) holds(lock store.Lock) *modelEntry {
	entry := m.entries[lock.ID]
	if entry == nil || entry.state != store.Processing || entry.version != lock.Version || entry.worker != lock.Worker {
		return nil
	}
	return entry
}

func (m *model) lock(r *rapid.T) store.Lock {
	if len(m.locks) == 0 {
		r.Skip("no lock was given yet")
	}
	return rapid.SampledFrom(m.locks).Draw(r, "lock")
}

func (m *model) settle(r *rapid.T) {
	lock, change := m.lock(r), m.change(r)
	change.Worker, change.Lease = "", 0
	err := m.db.Settle(m.t.Context(), lock, change)
	entry := m.holds(lock)
	switch {
	case store.Check(store.Processing, change.State) != nil:
		if _, ok := errors.AsType[*store.IllegalTransition](err); !ok {
			r.Fatalf("settled as %s: %v", change.State, err)
		}
	case entry == nil:
		if !errors.Is(err, store.ErrLockLost) {
			r.Fatalf("settled with a lock that is lost: %v", err)
		}
	case err != nil:
		r.Fatal(err)
	default:
		m.apply(entry, change)
	}
}

// change draws a change to any state.
func (m *model) change(r *rapid.T) store.Change {
	change := store.Change{State: rapid.SampledFrom(store.States()).Draw(r, "state"),
		Retried: rapid.Bool().Draw(r, "retried")}
	switch rapid.IntRange(0, 2).Draw(r, "when") {
	case 1:
		change.RetryIn = time.Duration(rapid.IntRange(1, 100).Draw(r, "in")) * time.Second
	case 2:
		change.RetryAt = m.clock.now()
	}
	if change.State == store.Processing {
		change.Worker, change.Lease = "hand", time.Minute
	}
	return change
}

// apply applies a legal change to an entry.
func (m *model) apply(entry *modelEntry, change store.Change) {
	now := m.clock.now()
	switch {
	case change.State == store.Pending && change.RetryIn > 0:
		entry.next = now.Add(change.RetryIn)
	case change.State == store.Pending && !change.RetryAt.IsZero():
		entry.next = change.RetryAt
	case change.State != entry.state && change.State != store.Processing:
		entry.next = time.Time{}
	}
	entry.state, entry.version, entry.worker, entry.leased = change.State, entry.version+1, "", time.Time{}
	if change.Retried {
		entry.retries++
	}
	if change.State == store.Processing {
		entry.worker, entry.leased = change.Worker, now.Add(change.Lease)
		m.locks = append(m.locks, store.Lock{ID: entry.id, Worker: change.Worker, Version: entry.version})
	}
}

func (m *model) renew(r *rapid.T) {
	lock := m.lock(r)
	err := m.db.Renew(m.t.Context(), lock, time.Minute)
	entry := m.holds(lock)
	if (entry == nil) != errors.Is(err, store.ErrLockLost) || entry != nil && err != nil {
		r.Fatalf("renewed %v: %v", entry, err)
	}
	if entry != nil {
		entry.leased = m.clock.now().Add(time.Minute)
	}
}

func (m *model) alter(r *rapid.T) {
	entry, change := m.any(r), m.change(r)
	version := entry.version - int64(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(r, "behind"))
	err := m.db.Alter(m.t.Context(), entry.id, version, change)
	switch {
	case entry.state == store.Processing:
		if !errors.Is(err, store.ErrLocked) {
			r.Fatalf("changed what %s has: %v", entry.worker, err)
		}
	case version != entry.version:
		if !errors.Is(err, store.ErrStale) {
			r.Fatalf("changed what was changed meanwhile: %v", err)
		}
	case store.Check(entry.state, change.State) != nil:
		if _, ok := errors.AsType[*store.IllegalTransition](err); !ok {
			r.Fatalf("changed from %s to %s: %v", entry.state, change.State, err)
		}
	case err != nil:
		r.Fatal(err)
	default:
		m.apply(entry, change)
	}
}

func (m *model) recover(r *rapid.T) {
	want := 0
	for _, entry := range m.entries {
		if entry.state == store.Processing && !entry.leased.After(m.clock.now()) {
			want++
			entry.state, entry.worker, entry.leased, entry.next, entry.version = store.Pending, "", time.Time{}, m.clock.now(),
				entry.version+1
		}
	}
	if n, err := m.db.Recover(m.t.Context()); err != nil || n != want {
		r.Fatalf("recovered %d, want %d (%v)", n, want, err)
	}
}

func (m *model) remove(r *rapid.T) {
	entry := m.any(r)
	want := 0
	if entry.state != store.Processing {
		want = 1
		delete(m.entries, entry.id)
	}
	if n, err := m.db.Remove(m.t.Context(), []string{entry.id}); err != nil || n != want {
		r.Fatalf("removed %d, want %d (%v)", n, want, err)
	}
}

func (m *model) wait(r *rapid.T) {
	m.clock.advance(time.Duration(rapid.IntRange(1, 60).Draw(r, "seconds")) * time.Second)
}

func (m *model) compare(r *rapid.T) {
	page, _, err := m.db.List(m.t.Context(), store.Query{Limit: 1000})
	if err != nil {
		r.Fatal(err)
	}
	if len(page) != len(m.entries) {
		r.Fatalf("%d entries are there, want %d", len(page), len(m.entries))
	}
	for _, entry := range page {
		got := &modelEntry{
			id: entry.ID, state: entry.State, version: entry.Version, priority: entry.Priority, retries: entry.DLQRetryCount,
			next: entry.NextRetryAt, leased: entry.LeaseUntil, worker: entry.LockedBy,
		}
		if want := m.entries[entry.ID]; want == nil || got.String() != want.String() {
			r.Fatalf("%s:\ngot  %s\nwant %v", entry.ID, got, want)
		}
	}
}
