package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/store"
)

func (s suite) claimOrder(t *testing.T) {
	db, c := s.clocked(t)
	all := letters(8)
	all[2].Priority, all[5].Priority, all[6].Priority = 5, 5, -1
	all[0].NextRetryAt = start().Add(time.Minute)
	all[1].NextRetryAt = time.Time{}
	ingest(t, db, all...)
	first := claim(t, db, "w1", 3)
	if offsets(first) != "2 5 3" {
		t.Errorf("claimed %q, want the highest priority first, then the oldest: 2 5 3", offsets(first))
	}
	for _, entry := range first {
		if entry.State != store.Processing || entry.LockedBy != "w1" || entry.Version != 2 ||
			!entry.LockedAt.Equal(start()) || !entry.LeaseUntil.Equal(start().Add(time.Minute)) {
			t.Errorf("a claimed entry is %s, locked by %q at version %d from %s until %s", entry.State, entry.LockedBy,
				entry.Version, entry.LockedAt, entry.LeaseUntil)
		}
		equal(t, get(t, db, entry.ID), entry)
	}
	if rest := claim(t, db, "w2", 10); offsets(rest) != "4 7 6" {
		t.Errorf("the rest that is due: %q, want 4 7 6", offsets(rest))
	}
	c.advance(time.Minute)
	if late := claim(t, db, "w2", 10); offsets(late) != "0" {
		t.Errorf("what became due: %q, want 0 (1 is never due of its own accord)", offsets(late))
	}
	for _, wrong := range []func() ([]store.Entry, error){
		func() ([]store.Entry, error) { return db.Claim(t.Context(), "", time.Minute, 1) },
		func() ([]store.Entry, error) { return db.Claim(t.Context(), "w", 0, 1) },
		func() ([]store.Entry, error) { return db.Claim(t.Context(), "w", time.Minute, 0) },
	} {
		if _, err := wrong(); err == nil {
			t.Error("a claim without a worker, a lease or a limit was made")
		}
	}
}

func (s suite) leases(t *testing.T) {
	db, c := s.clocked(t)
	ingest(t, db, letters(2)...)
	claimed := claim(t, db, "w1", 2)
	c.advance(59 * time.Second)
	recovered := func(want int) {
		t.Helper()
		if n, err := db.Recover(t.Context()); err != nil || n != want {
			t.Fatalf("recovered %d, want %d (%v)", n, want, err)
		}
	}
	recovered(0)
	must(t, db.Renew(t.Context(), lockOf(claimed[0]), time.Minute))
	if renewed := get(t, db, claimed[0].ID); renewed.Version != claimed[0].Version ||
		!renewed.LeaseUntil.Equal(start().Add(119*time.Second)) {
		t.Errorf("renewed: version %d, until %s", renewed.Version, renewed.LeaseUntil)
	}
	c.advance(time.Second)
	recovered(1)
	back := get(t, db, claimed[1].ID)
	if back.State != store.Pending || back.LockedBy != "" || !back.LeaseUntil.IsZero() ||
		!back.NextRetryAt.Equal(c.now()) || back.DLQRetryCount != 0 || back.Version != 3 {
		t.Errorf("recovered: %s, locked by %q, due %s, %d retries, version %d", back.State, back.LockedBy, back.NextRetryAt,
			back.DLQRetryCount, back.Version)
	}
	stale := lockOf(claimed[1])
	for name, use := range map[string]func() error{
		"renewed": func() error { return db.Renew(t.Context(), stale, time.Minute) },
		"settled": func() error { return db.Settle(t.Context(), stale, store.Change{State: store.Resolved}) },
	} {
		if err := use(); !errors.Is(err, store.ErrLockLost) {
			t.Errorf("a lock that was recovered was %s: %v", name, err)
		}
	}
	// Even for the same worker, the old lock is void.
	again := claim(t, db, "w1", 2)
	if len(again) != 1 || again[0].ID != stale.ID {
		t.Fatalf("claimed %s again", offsets(again))
	}
	if err := db.Renew(t.Context(), stale, time.Minute); !errors.Is(err, store.ErrLockLost) {
		t.Errorf("renewed with the lock of an earlier claim: %v", err)
	}
	if err := db.Settle(t.Context(), stale, store.Change{State: store.Resolved}); !errors.Is(err, store.ErrLockLost) {
		t.Errorf("settled with the lock of an earlier claim: %v", err)
	}
	impostor := lockOf(again[0])
	impostor.Worker = "w2"
	if err := db.Settle(t.Context(), impostor, store.Change{State: store.Resolved}); !errors.Is(err, store.ErrLockLost) {
		t.Errorf("settled under another's name: %v", err)
	}
	// After its lease has expired, and as long as no other worker has had the entry, its worker may still settle it.
	c.advance(time.Hour)
	must(t, db.Settle(t.Context(), lockOf(again[0]), store.Change{State: store.Resolved}))
	if err := db.Settle(t.Context(), lockOf(again[0]), store.Change{State: store.Resolved}); !errors.Is(err,
		store.ErrLockLost) {
		t.Errorf("settled twice: %v", err)
	}
	if err := db.Renew(t.Context(), store.Lock{ID: newID(), Worker: "w", Version: 1}, time.Minute); !errors.Is(err,
		store.ErrLockLost) {
		t.Errorf("renewed a lock of nothing: %v", err)
	}
}

func (s suite) settle(t *testing.T) {
	db, c := s.clocked(t)
	ingest(t, db, letters(5)...)
	claimed := claim(t, db, "w1", 5)
	c.advance(10 * time.Second)
	now := c.now()
	attempt := store.Attempt{At: now, Worker: "w1", Strategy: store.Immediate, Result: "failed", Error: "still\x00down",
		Took: 3 * time.Millisecond}
	failure := store.Failure{Message: "again", Type: "TIMEOUT_ERROR", Code: "T1", Stack: "s", Context: []byte(`{"a":1}`)}
	changes := []store.Change{
		{State: store.Pending, Strategy: store.Immediate, RetryIn: 5 * time.Minute, Retried: true, Attempt: &attempt,
			Failure: &failure},
		{State: store.Pending, RetryAt: now.Add(7 * time.Hour), Strategy: store.Scheduled},
		{State: store.Resolved, Attempt: &store.Attempt{At: now, Worker: "w1", Result: "succeeded"}},
		{State: store.Failed, Retried: true, Attempt: &attempt},
		{State: store.Manual, Strategy: store.ByHand, Notes: "look at this"},
	}
	for i, change := range changes {
		must(t, db.Settle(t.Context(), lockOf(claimed[i]), change))
		want := claimed[i]
		want.State, want.Version, want.UpdatedAt, want.LockedBy, want.LockedAt, want.LeaseUntil = change.State, 3, now, "",
			time.Time{}, time.Time{}
		want.NextRetryAt, want.Strategy = time.Time{}, change.Strategy
		switch i {
		case 0:
			want.NextRetryAt, want.DLQRetryCount, want.RetryHistory, want.Error, want.LastFailedAt = now.Add(5*time.Minute), 1,
				[]store.Attempt{attempt}, failure, now
		case 1:
			want.NextRetryAt = now.Add(7 * time.Hour)
		case 2:
			want.RetryHistory, want.Resolution = []store.Attempt{*change.Attempt},
				store.Resolution{At: now, How: store.AutomaticRetry}
		case 3:
			want.DLQRetryCount, want.RetryHistory = 1, []store.Attempt{attempt}
		case 4:
			want.Resolution.Notes = "look at this"
		}
		equal(t, get(t, db, want.ID), want)
	}
	c.advance(5 * time.Minute)
	next := claim(t, db, "w2", 5)
	if offsets(next) != "0" {
		t.Fatalf("due after five minutes: %q", offsets(next))
	}
	must(t, db.Settle(t.Context(), lockOf(next[0]), store.Change{State: store.Pending, Retried: true, Attempt: &attempt}))
	twice := get(t, db, next[0].ID)
	if twice.DLQRetryCount != 2 || len(twice.RetryHistory) != 2 || !twice.NextRetryAt.IsZero() ||
		twice.Strategy != store.Immediate {
		t.Errorf("after two retries: count %d, %d in the history, due %s, %s", twice.DLQRetryCount, len(twice.RetryHistory),
			twice.NextRetryAt, twice.Strategy)
	}
}

// race lets eight workers claim, settle and lose locks concurrently, and checks that every version of every entry
// belonged to one worker.
func (s suite) race(t *testing.T) {
	db := s.open(t, store.Options{})
	const workers, entries, cycles = 8, 40, 6
	all := letters(entries)
	ingest(t, db, all...)
	var mu sync.Mutex
	holders := map[string]string{}
	settled := map[string]int{}
	work := func(worker string) error {
		for {
			claimed, err := db.Claim(t.Context(), worker, time.Minute, 3)
			if err != nil || len(claimed) == 0 {
				return err
			}
			for _, entry := range claimed {
				mu.Lock()
				lock := fmt.Sprintf("%s at version %d", entry.ID, entry.Version)
				if other, taken := holders[lock]; taken {
					mu.Unlock()
					return fmt.Errorf("%s and %s both locked %s", other, worker, lock)
				}
				holders[lock] = worker
				settled[entry.ID]++
				change := store.Change{State: store.Pending, RetryAt: start(), Retried: true}
				if settled[entry.ID] >= cycles {
					change = store.Change{State: store.Resolved}
				}
				mu.Unlock()
				if err := db.Settle(t.Context(), lockOf(entry), change); err != nil {
					return err
				}
			}
		}
	}
	ended := make(chan error, workers)
	for i := range workers {
		go func() { ended <- work(fmt.Sprintf("w%d", i)) }()
	}
	for range workers {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	// A worker ends when it finds nothing, although others may still return entries. The last ones are taken here.
	must(t, work("w-last"))
	if len(holders) != entries*cycles {
		t.Errorf("%d locks were given, want %d", len(holders), entries*cycles)
	}
	n, err := db.Count(t.Context(), store.Query{States: []store.State{store.Resolved}})
	must(t, err)
	if n != entries {
		t.Errorf("%d of %d are resolved", n, entries)
	}
	for _, entry := range list(t, db, store.Query{}) {
		if entry.DLQRetryCount != cycles-1 || entry.Version != 1+2*cycles {
			t.Errorf("an entry has %d retries and version %d, want %d and %d", entry.DLQRetryCount, entry.Version, cycles-1,
				1+2*cycles)
		}
	}
}
