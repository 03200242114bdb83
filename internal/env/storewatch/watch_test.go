package storewatch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// scripted is a store whose answers a test sets.
type scripted struct {
	ahead    time.Duration // of its clock
	next     []change
	known    map[string]*row
	refusals int // of the next queries for details
}

func (s *scripted) clock(context.Context) (time.Time, error) { return time.Now().Add(s.ahead), nil }

func (s *scripted) changes(context.Context) (all []change, err error) {
	all, s.next = s.next, nil
	return all, nil
}

func (s *scripted) table(_ context.Context, see func(*row)) error {
	for _, id := range slices.Sorted(maps.Keys(s.known)) {
		see(s.known[id])
	}
	return nil
}

func (s *scripted) details(_ context.Context, id string) (*row, error) {
	if s.refusals > 0 {
		s.refusals--
		return nil, errors.New("connection reset")
	}
	return s.known[id], nil
}

// scriptedWatcher watches the store under the test's control: nothing runs concurrently.
func scriptedWatcher(t *testing.T, db entries) (*Watcher, *events) {
	t.Helper()
	layout, err := Own("")
	must.Do(t, err)
	sink := &events{}
	return &Watcher{
		cfg: Config{Layout: layout, Poll: time.Second, IDs: history.NewIDs(runID), Records: 10, Clock: history.NewClock(),
			Sink: sink, Log: zerolog.Nop()},
		db: db, known: map[string]*entry{},
	}, sink
}

// pending is an entry when it appears.
func pending(id string) change {
	return change{now: &row{id: id, status: "dlq_pending", version: 1}}
}

// After a clock was put forward or back, the uncertainty grows by the jump, and the history records it.
func TestAClockThatJumpsIsBelievedLess(t *testing.T) {
	for name, jump := range map[string]time.Duration{"forward": 5 * time.Second, "back": -5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := &scripted{next: []change{pending("a")}}
				w, sink := scriptedWatcher(t, db)
				must.Do(t, w.compareClocks(t.Context()))
				must.Do(t, w.look(t.Context()))
				time.Sleep(time.Minute)
				must.Do(t, w.compareClocks(t.Context()))
				if before := w.blur; before > time.Second {
					t.Fatalf("clocks that agree are believed to within %v", before)
				}
				db.ahead = jump
				must.Do(t, w.compareClocks(t.Context()))
				told := sink.of(history.KindStoreClock)
				if w.blur < 5*time.Second-grain || len(told) == 0 || time.Duration(told[len(told)-1].Aux) != w.blur {
					t.Errorf("after a jump the clocks are believed to within %v, and the history says %+v", w.blur, told)
				}
			})
		})
	}
}

// A change that cannot be reported, because the database went away before the query for its details, is reported
// later, before any later change. No two stamps are equal.
func TestWhatCouldNotBeToldIsToldLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which no time passes
		db := &scripted{next: []change{pending("a"), pending("b")}, refusals: 2}
		w, sink := scriptedWatcher(t, db)
		for range 2 {
			if err := w.lookAgain(t.Context()); err == nil {
				t.Fatal("nobody noticed that the database is gone")
			}
		}
		db.next = []change{pending("c")}
		must.Do(t, w.lookAgain(t.Context()))
		var told []string
		for _, event := range sink.all {
			told = append(told, event.Kind.String()+" "+event.Text)
		}
		const appeared = "store-change absent>pending"
		if want := []string{"store-watch lost", appeared, appeared, appeared, "store-watch resumed"}; !slices.Equal(told,
			want) {
			t.Errorf("told is %q", told)
		}
		for i, event := range sink.all[1:] {
			if event.Time <= sink.all[i].Time {
				t.Errorf("%s is stamped %v, the one before it %v", told[i+1], event.Time, sink.all[i].Time)
			}
		}
	})
}

// An audit first reports earlier changes, then the existing entries.
func TestAnAuditLooksFirst(t *testing.T) {
	one := pending("a")
	w, sink := scriptedWatcher(t, &scripted{next: []change{one}, known: map[string]*row{"a": one.now}})
	must.Do(t, w.Audit(t.Context()))
	var told []history.Kind
	for _, event := range sink.all {
		told = append(told, event.Kind)
	}
	if !slices.Contains(told, history.KindStoreChange) || slices.Index(told, history.KindStoreChange) > slices.Index(told,
		history.KindStoreEntry) || told[len(told)-1] != history.KindStoreAudited {
		t.Errorf("told is %v", told)
	}
}

// Entries that a worker has, or that are final, do not wait for a person.
func TestWhatWaitsForAPerson(t *testing.T) {
	w, _ := scriptedWatcher(t, &scripted{})
	for i, state := range []history.StoreState{
		history.StorePending, history.StoreProcessing, history.StoreResolved, history.StoreFailed, history.StoreManual,
		history.StoreArchived, history.StoreAbsent, history.StoreUnknown,
	} {
		w.known[string(state)] = &entry{record: int32(i), state: state}
	}
	w.known["nobody's"] = &entry{record: history.None, state: history.StorePending}
	var ids []string
	for _, some := range w.Waiting() {
		ids = append(ids, some...)
	}
	slices.Sort(ids)
	if want := []string{"failed", "manual", "pending"}; !slices.Equal(ids, want) {
		t.Errorf("%v wait for a person", ids)
	}
}
