package storetest

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/store"
)

// reach brings a new entry to a state, and returns it in that state.
func reach(t *testing.T, db store.Store, n int, state store.State) store.Entry {
	t.Helper()
	entry := letter(n)
	entry.ID, entry.Priority = newID(), 1000+n
	ingest(t, db, entry)
	if state == store.Pending {
		return get(t, db, entry.ID)
	}
	claimed := claim(t, db, "reach", 1)
	if len(claimed) != 1 || claimed[0].ID != entry.ID {
		t.Fatalf("claimed %s", offsets(claimed))
	}
	switch state {
	case store.Processing:
	case store.Archived:
		must(t, db.Settle(t.Context(), lockOf(claimed[0]), store.Change{State: store.Failed}))
		must(t, db.Alter(t.Context(), entry.ID, 3, store.Change{State: store.Archived}))
	default:
		must(t, db.Settle(t.Context(), lockOf(claimed[0]), store.Change{State: state}))
	}
	return get(t, db, entry.ID)
}

func (s suite) alter(t *testing.T) {
	db, c := s.clocked(t)
	c.advance(time.Hour)
	now := c.now()
	manual := reach(t, db, 1, store.Manual)
	// A manual replay takes the entry by hand and settles it like any other.
	must(t, db.Alter(t.Context(), manual.ID, manual.Version, store.Change{State: store.Processing, Worker: "alice",
		Lease: time.Minute}))
	taken := get(t, db, manual.ID)
	if taken.State != store.Processing || taken.LockedBy != "alice" ||
		!taken.LeaseUntil.Equal(now.Add(time.Minute)) || taken.Version != manual.Version+1 {
		t.Errorf("taken by hand: %s by %q until %s at version %d", taken.State, taken.LockedBy, taken.LeaseUntil,
			taken.Version)
	}
	must(t, db.Settle(t.Context(), store.Lock{ID: manual.ID, Worker: "alice", Version: manual.Version + 1},
		store.Change{State: store.Resolved, Resolution: &store.Resolution{How: store.ManualRetry, By: "alice"}}))
	if done := get(t, db, manual.ID); done.Resolution != (store.Resolution{At: now, How: store.ManualRetry, By: "alice"}) {
		t.Errorf("resolved by hand: %+v", done.Resolution)
	}
	// Replay scheduled.
	pending := reach(t, db, 2, store.Pending)
	must(t, db.Alter(t.Context(), pending.ID, 1, store.Change{State: store.Pending, RetryIn: time.Hour,
		Strategy: store.Scheduled}))
	if got := get(t, db, pending.ID); !got.NextRetryAt.Equal(now.Add(time.Hour)) || got.Strategy != store.Scheduled {
		t.Errorf("scheduled for %s by %s", got.NextRetryAt, got.Strategy)
	}
	// An edit leaves the fields that it does not name unchanged.
	must(t, db.Alter(t.Context(), pending.ID, 2,
		store.Change{State: store.Pending, Value: []byte(`{"pattern":"fixed","n":1}`), Priority: number(9), Notes: "fixed"}))
	got := get(t, db, pending.ID)
	if string(got.Value) != `{"pattern":"fixed","n":1}` || got.Pattern != "fixed" || got.Priority != 9 ||
		got.Resolution.Notes != "fixed" ||
		!got.NextRetryAt.Equal(now.Add(time.Hour)) || got.Version != 3 ||
		!sameJSON(got.OriginalEvent, json.RawMessage(`{"pattern":"fixed","n":1}`)) {
		t.Errorf("edited: %s %s %d %q due %s version %d %s", got.Value, got.Pattern, got.Priority, got.Resolution.Notes,
			got.NextRetryAt, got.Version, got.OriginalEvent)
	}
	// Resolved and discarded by hand.
	must(t, db.Alter(t.Context(), pending.ID, 3,
		store.Change{State: store.Resolved, Resolution: &store.Resolution{How: store.ManualResolution, By: "bob",
			Notes: "paid by phone"}}))
	if got := get(t, db, pending.ID); got.State != store.Resolved ||
		got.Resolution != (store.Resolution{At: now, How: store.ManualResolution, By: "bob",
			Notes: "paid by phone"}) || !got.NextRetryAt.IsZero() {
		t.Errorf("resolved by hand: %s %+v due %s", got.State, got.Resolution, got.NextRetryAt)
	}
	failed := reach(t, db, 3, store.Failed)
	must(t, db.Alter(t.Context(), failed.ID, failed.Version,
		store.Change{State: store.Archived, Resolution: &store.Resolution{How: store.Discard, By: "bob"}}))
	if got := get(t, db, failed.ID); got.State != store.Archived || got.Resolution.How != store.Discard {
		t.Errorf("discarded: %s %+v", got.State, got.Resolution)
	}
}

func (s suite) refusedEdits(t *testing.T) {
	db, _ := s.clocked(t)
	pending := reach(t, db, 1, store.Pending)
	must(t, db.Alter(t.Context(), pending.ID, 1, store.Change{State: store.Pending, Priority: number(1)}))
	if err := db.Alter(t.Context(), pending.ID, 1, store.Change{State: store.Pending, Priority: number(2)}); !errors.Is(
		err, store.ErrStale) {
		t.Errorf("an edit of what was read before another edit: %v", err)
	}
	locked := reach(t, db, 2, store.Processing)
	for _, state := range []store.State{store.Pending, store.Archived, store.Resolved, store.Processing} {
		if err := db.Alter(t.Context(), locked.ID, locked.Version, store.Change{State: state}); !errors.Is(err,
			store.ErrLocked) {
			t.Errorf("an edit to %s while a worker has the entry: %v", state, err)
		}
	}
	equal(t, get(t, db, locked.ID), locked)
	for _, id := range []string{newID(), "not an id", ""} {
		if err := db.Alter(t.Context(), id, 1, store.Change{State: store.Archived}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("an edit of %q: %v", id, err)
		}
		if _, err := db.Get(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("reading %q: %v", id, err)
		}
	}
	again := get(t, db, pending.ID)
	wrong := map[string]store.Change{
		"no worker":                    {State: store.Processing, Lease: time.Minute},
		"no lease":                     {State: store.Processing, Worker: "w"},
		"a worker of an edit":          {State: store.Pending, Worker: "w", Lease: time.Minute},
		"an unknown way":               {State: store.Resolved, Resolution: &store.Resolution{How: "magic"}},
		"resolved by discard":          {State: store.Resolved, Resolution: &store.Resolution{How: store.Discard}},
		"archived by retry":            {State: store.Archived, Resolution: &store.Resolution{How: store.ManualRetry}},
		"a resolution of what goes on": {State: store.Pending, Resolution: &store.Resolution{How: store.ManualRetry}},
	}
	for name, change := range wrong {
		if err := db.Alter(t.Context(), again.ID, again.Version, change); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	equal(t, get(t, db, pending.ID), again)
}

// illegal tries every conceivable change of state. A change that the state machine lacks is refused and has no effect.
func (s suite) illegal(t *testing.T) {
	db, _ := s.clocked(t)
	n := 0
	for _, from := range store.States() {
		for _, to := range append(store.States(), store.Gone, store.New, "nonsense") {
			n++
			entry := reach(t, db, n, from)
			change := store.Change{State: to}
			if to == store.Processing {
				change.Worker, change.Lease = "w", time.Minute
			}
			legal := to != store.Gone && slices.ContainsFunc(store.Transitions(), func(tr store.Transition) bool {
				return tr.From == from && tr.To == to
			})
			var err error
			if from == store.Processing {
				change.Worker, change.Lease = "", 0
				err = db.Settle(t.Context(), lockOf(entry), change)
			} else {
				err = db.Alter(t.Context(), entry.ID, entry.Version, change)
			}
			var illegal *store.IllegalTransition
			if legal {
				must(t, err)
			} else if !errors.As(err, &illegal) || illegal.From != from || illegal.To != to {
				t.Errorf("%s to %s: %v", from, to, err)
			}
			got := get(t, db, entry.ID)
			if legal && got.State != to || !legal && (got.State != from || got.Version != entry.Version) {
				t.Errorf("after %s to %s (legal: %t) it is %s at version %d", from, to, legal, got.State, got.Version)
			}
			if got.State == store.Processing {
				must(t, db.Settle(t.Context(), lockOf(got), store.Change{State: store.Resolved}))
			}
		}
	}
}

// putBack checks that a restored entry is failed from the first moment on, whatever it was, and that its versions
// continue.
func (s suite) putBack(t *testing.T) {
	db, c := s.clocked(t)
	kept := letter(1)
	kept.ID, kept.State, kept.Version, kept.NextRetryAt, kept.DLQRetryCount = newID(), store.Failed, 7,
		start().Add(-time.Hour), 3
	kept.LockedBy, kept.LeaseUntil = "w", start().Add(-time.Minute)
	kept.Resolution = store.Resolution{How: store.Discard, By: "bob", At: start(), Notes: "restored"}
	ingest(t, db, kept)
	got := get(t, db, kept.ID)
	if got.State != store.Failed || got.Version != 7 || !got.NextRetryAt.IsZero() ||
		got.DLQRetryCount != 3 || got.LockedBy != "" || !got.LeaseUntil.IsZero() ||
		got.Resolution != (store.Resolution{Notes: "restored"}) {
		t.Errorf("put back: %s at version %d, due %s, %d retries, locked by %q until %s, %+v", got.State, got.Version,
			got.NextRetryAt, got.DLQRetryCount, got.LockedBy, got.LeaseUntil, got.Resolution)
	}
	c.advance(24 * time.Hour)
	recovered, err := db.Recover(t.Context())
	must(t, err)
	if claimed := claim(t, db, "w", 10); recovered > 0 || len(claimed) > 0 {
		t.Errorf("of what was put back %d were recovered and %d claimed", recovered, len(claimed))
	}
	if fresh, err := db.Ingest(t.Context(), []store.Entry{kept}); err != nil || fresh != 0 {
		t.Errorf("put back again: %d fresh, %v", fresh, err)
	}
	equal(t, get(t, db, kept.ID), got)
	for i, state := range []store.State{store.Processing, store.Resolved, store.Manual, store.Archived, store.Gone,
		"nonsense"} {
		entry := letter(10 + i)
		entry.State = state
		var illegal *store.IllegalTransition
		if _, err := db.Ingest(t.Context(), []store.Entry{entry}); !errors.As(err, &illegal) {
			t.Errorf("a new entry that is %s: %v", state, err)
		}
	}
}

func (s suite) remove(t *testing.T) {
	db, _ := s.clocked(t)
	var ids []string
	for i, state := range []store.State{store.Processing, store.Pending, store.Resolved, store.Failed, store.Manual,
		store.Archived} {
		ids = append(ids, reach(t, db, i, state).ID)
	}
	removed, err := db.Remove(t.Context(), append(ids, newID(), "no id", ids[1]))
	if err != nil || removed != 5 {
		t.Errorf("removed %d, want all but the one that is locked (%v)", removed, err)
	}
	left := list(t, db, store.Query{})
	if len(left) != 1 || left[0].State != store.Processing {
		t.Errorf("%d are left", len(left))
	}
	// Its source is free again.
	ingest(t, db, letter(1))
	if fresh, err := db.Ingest(t.Context(), []store.Entry{letter(0)}); err != nil || fresh != 0 {
		t.Errorf("the source of what is still there: %d new (%v)", fresh, err)
	}
	if removed, err := db.Remove(t.Context(), nil); err != nil || removed != 0 {
		t.Errorf("removing nothing: %d (%v)", removed, err)
	}
}
