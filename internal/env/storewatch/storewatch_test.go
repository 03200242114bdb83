package storewatch

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/postgres"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/open"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const runID = "20260211-120000-test-0a1b2c"

// events collects the recorded events.
type events struct {
	mu  sync.Mutex
	all []history.Event
}

func (e *events) Record(event history.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

func (e *events) of(kind history.Kind) []history.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(e.all), func(event history.Event) bool { return event.Kind != kind })
}

// texts returns the texts of the changes, without the times.
func (e *events) texts(kind history.Kind) []string {
	var said []string
	for _, event := range e.of(kind) {
		change, err := history.ParseStoreChange(event.Text)
		if err != nil {
			said = append(said, err.Error())
			continue
		}
		change.Next, change.Lease = history.None, history.None
		said = append(said, fmt.Sprintf("%d: %s", event.Op, change))
	}
	return said
}

func (e *events) await(t *testing.T, changes int) {
	t.Helper()
	wait.Until(t, fmt.Sprintf("%d changes", changes), func() bool { return len(e.of(history.KindStoreChange)) >= changes })
}

func watching(t *testing.T, address string, layout Layout) (*Watcher, *events) {
	t.Helper()
	sink := &events{}
	w := must.Get(Start(t.Context(), Config{
		Address: address, Layout: layout, Poll: 2 * time.Millisecond, IDs: history.NewIDs(runID), Records: 10,
		Clock: history.NewClock(), Sink: sink, Log: zerolog.Nop(), Topics: []history.Topic{{Name: "in"}, {Name: "in.dlq"}},
		Worker: func(by string) int16 {
			if by == "worker-3-1" {
				return history.Worker(3)
			}
			return history.None
		},
	}))(t)
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w, sink
}

// own opens a migrated store of dlqbench's own, in a file.
func own(t *testing.T, vocabulary string) (store.Store, string) {
	t.Helper()
	address := "sqlite:" + filepath.Join(t.TempDir(), "letters.db")
	there := must.Get(open.Store(t.Context(), address, store.Options{Vocabulary: vocabulary, Audit: true}))(t)
	t.Cleanup(func() { _ = there.Close() })
	must.Get(there.Migrate(t.Context()))(t)
	return there, address
}

func letter(offset int64, value string) store.Entry {
	return store.Entry{
		Source: store.Place{Topic: "in", Partition: 2, Offset: offset}, Letter: store.Place{Topic: "in.dlq", Partition: 1,
			Offset: offset + 100}, Dialect: "plain",
		Value: []byte(value), Strategy: store.Immediate, NextRetryAt: time.Now().Add(-time.Second),
	}
}

// TestEveryChangeIsSeen checks that each change is reported once, in order, with its record, the record's position,
// the owner of the entry, and the time of the change on a clock that agrees with the run's.
func TestEveryChangeIsSeen(t *testing.T) {
	for vocabulary, failed := range map[string]string{"lifecycle": "failed", "management": "failed"} {
		t.Run(vocabulary, func(t *testing.T) {
			there, address := own(t, vocabulary)
			layout := must.Get(Own(vocabulary))(t)
			w, sink := watching(t, address, layout)
			token := history.NewIDs(runID).Token(7)
			live(t, there, token)
			sink.await(t, 7)
			must.Do(t, w.Stop(t.Context()))
			want := []string{
				"1: absent>pending strategy=immediate_retry", "1: pending>processing by=worker-3-1 strategy=immediate_retry",
				"1: processing>pending strategy=immediate_retry", "1: pending>processing by=other strategy=immediate_retry",
				"1: processing>" + failed + " strategy=immediate_retry", "1: " + failed +
					">archived strategy=immediate_retry hand=true",
				"1: archived>absent strategy=immediate_retry",
			}
			if got := sink.texts(history.KindStoreChange); !slices.Equal(got, want) {
				t.Errorf("the changes are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			checkChanges(t, sink)
		})
	}
}

// live takes an entry through its whole life cycle.
func live(t *testing.T, there store.Store, token string) {
	t.Helper()
	removed, err := there.Remove(t.Context(), []string{lived(t, there, token)})
	if err != nil || removed != 1 {
		t.Fatalf("removed %d entries, %v", removed, err)
	}
}

// lived takes an entry through its life cycle, until it is archived.
func lived(t *testing.T, there store.Store, token string) (id string) {
	t.Helper()
	ctx := t.Context()
	_, err := there.Ingest(ctx, []store.Entry{letter(40, `{"id":"`+token+`"}`)})
	must.Do(t, err)
	for i, worker := range []string{"worker-3-1", "other"} {
		claimed, err := there.Claim(ctx, worker, time.Minute, 10)
		must.Do(t, err)
		if len(claimed) != 1 {
			t.Fatalf("%s claimed %d entries", worker, len(claimed))
		}
		change := store.Change{State: store.Pending, RetryIn: time.Millisecond, Retried: true}
		if i == 1 {
			change = store.Change{State: store.Failed, Retried: true}
		}
		must.Do(t, there.Settle(ctx, store.Lock{ID: claimed[0].ID, Worker: worker, Version: claimed[0].Version}, change))
		time.Sleep(5 * time.Millisecond) // until it is due
	}
	list, _, err := there.List(ctx, store.Query{})
	must.Do(t, err)
	must.Do(t, there.Alter(ctx, list[0].ID, list[0].Version,
		store.Change{State: store.Archived, Resolution: &store.Resolution{How: "discard", By: "somebody"}}))
	return list[0].ID
}

func checkChanges(t *testing.T, sink *events) {
	t.Helper()
	changes := sink.of(history.KindStoreChange)
	blur := time.Duration(0)
	for _, event := range sink.of(history.KindStoreClock) {
		blur = max(blur, time.Duration(event.Aux))
	}
	for i, event := range changes {
		if event.Record != 7 || event.Topic != 1 || event.Partition != 1 || event.Offset != 140 ||
			event.Stated() != (history.Claim{Topic: 0, Partition: 2, Offset: 40, Attempts: history.None}) {
			t.Errorf("change %d is of %+v", i, event)
		}
		if i > 0 && event.Time <= changes[i-1].Time {
			t.Errorf("change %d is told at %v, the one before at %v", i, event.Time, changes[i-1].Time)
		}
		if made := time.Duration(event.Aux); made > event.Time+blur || made < event.Time-20*time.Second {
			t.Errorf("change %d was made at %v and seen at %v; the clocks agree to within %v", i, made, event.Time, blur)
		}
	}
	if changes[1].Instance != history.Worker(3) || changes[3].Instance != history.None {
		t.Errorf("the locks are of %d and %d", changes[1].Instance, changes[3].Instance)
	}
	if changes[4].N != 2 || changes[2].N != 1 {
		t.Errorf("the retries are %d and %d", changes[2].N, changes[4].N)
	}
}

// TestATableOfOnesOwn checks a table without triggers: differences between two looks are reported and marked as
// polled, an unknown word is kept, and removed entries are reported.
func TestATableOfOnesOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "own.db")
	db := must.Get(sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)"))(t)
	defer db.Close()
	do := func(statement string, args ...any) {
		t.Helper()
		must.Get(db.ExecContext(context.Background(), statement, args...))(t)
	}
	do("CREATE TABLE letters (nr INTEGER PRIMARY KEY, state TEXT, tries INTEGER, body TEXT)")
	do("INSERT INTO letters VALUES (1, 'OPEN', 0, ?)", "before the run "+history.NewIDs(runID).Token(3))
	w, sink := watching(t, "sqlite:"+path, Layout{
		Table: "letters", Columns: Columns{ID: "nr", Status: "state", Retries: "tries", Payload: "body"},
		Words: map[string]history.StoreState{"OPEN": history.StorePending, "DONE": history.StoreResolved},
	})
	sink.await(t, 1)
	do("UPDATE letters SET state = 'DONE', tries = 2")
	sink.await(t, 2)
	do("UPDATE letters SET state = 'WAT'")
	sink.await(t, 3)
	do("INSERT INTO letters VALUES (2, 'OPEN', 0, ?)",
		"a record that the run does not have "+history.NewIDs(runID).Token(10))
	sink.await(t, 4)
	do("DELETE FROM letters WHERE nr = 1")
	sink.await(t, 5)
	want := []string{"1: absent>pending", "1: pending>resolved", "1: resolved>unknown word=WAT", "2: absent>pending",
		"1: unknown>absent"}
	if got := sink.texts(history.KindStoreChange); !slices.Equal(got, want) {
		t.Errorf("the changes are %q, want %q", got, want)
	}
	for i, event := range sink.of(history.KindStoreChange) {
		if record := int32(3); !event.Flags.Has(history.Polled) || event.Aux != history.None ||
			i != 3 && event.Record != record || i == 3 && event.Record != history.None {
			t.Errorf("change %d is %+v", i, event)
		}
	}
	must.Do(t, w.Stop(t.Context()))
	must.Do(t, w.Audit(t.Context()))
	audited := sink.of(history.KindStoreAudited)
	if got := sink.texts(history.KindStoreEntry); !slices.Equal(got, []string{"2: absent>pending"}) ||
		len(audited) != 1 || audited[0].N != 1 {
		t.Errorf("the audit found %q and says %+v", got, audited)
	}
	if kept, open := w.Figures(); kept != 0 || open != 0 {
		t.Errorf("%d entries are kept, %d are open", kept, open)
	}
}

func TestWhatCantBeWatched(t *testing.T) {
	missing := Layout{Table: "letters", Columns: Columns{ID: "id", Status: "status"}}
	for name, one := range map[string]struct {
		address string
		layout  Layout
	}{
		"no table":       {"sqlite:" + filepath.Join(t.TempDir(), "a.db"), missing},
		"no such engine": {"mysql://here", missing},
		"no id":          {"sqlite:x", Layout{Table: "letters", Columns: Columns{Status: "status"}}},
		"no name of a table": {"sqlite:x",
			Layout{Table: "letters; DROP TABLE letters", Columns: Columns{ID: "id", Status: "status"}}},
	} {
		w, err := Start(t.Context(), Config{Address: one.address, Layout: one.layout, Poll: time.Second,
			Clock: history.NewClock(), Sink: &events{}, IDs: history.NewIDs(runID)})
		if err == nil {
			t.Errorf("%s: it is watched", name)
			_ = w.Close()
		}
	}
}

func TestValuesAsDatabasesGiveThem(t *testing.T) {
	at := time.Date(2026, 2, 11, 12, 0, 7, 250_000_000, time.UTC)
	for _, value := range []any{
		at, "2026-02-11T12:00:07.250Z", "2026-02-11 12:00:07.25", []byte("2026-02-11 13:00:07.25+01:00"), at.UnixMilli(),
		float64(at.UnixMilli()) / 1000,
	} {
		if got := moment(value); !got.Equal(at) {
			t.Errorf("%T %v is taken for %v", value, value, got)
		}
	}
	for _, value := range []any{nil, "", "soon", "0000"} {
		if got := moment(value); !got.IsZero() {
			t.Errorf("%v is taken for %v", value, got)
		}
	}
	for value, want := range map[any]int64{int64(7): 7, int32(7): 7, "7": 7, 7.0: 7, nil: history.None,
		"x": history.None} {
		if got := number(value); got != want {
			t.Errorf("%v is taken for %d", value, got)
		}
	}
	if got := text([16]byte{0x50, 0x7f}); got != "507f0000-0000-0000-0000-000000000000" {
		t.Errorf("a UUID is %q", got)
	}
}

// ownPostgres opens a migrated store of dlqbench's own on a private server. The test is skipped if there is no
// PostgreSQL.
func ownPostgres(t *testing.T) (*postgres.Server, store.Store, string) {
	t.Helper()
	server, err := postgres.Start(t.Context(), nil)
	if errors.Is(err, postgres.ErrAbsent) {
		t.Skip(err)
	}
	must.Do(t, err)
	t.Cleanup(func() { _ = server.Close() })
	address, err := server.Create(t.Context(), "letters")
	must.Do(t, err)
	there, err := open.Store(t.Context(), address, store.Options{Audit: true})
	must.Do(t, err)
	t.Cleanup(func() { _ = there.Close() })
	_, err = there.Migrate(t.Context())
	must.Do(t, err)
	return server, there, address
}

// states returns the states to which the next changes lead, in the order in which they are reported.
func (d *database) states(t *testing.T) string {
	t.Helper()
	changes, err := d.changes(t.Context())
	must.Do(t, err)
	var words []string
	for _, one := range changes {
		words = append(words, strings.TrimPrefix(one.now.status, "dlq_"))
	}
	return strings.Join(words, " ")
}

// past opens a database, bypassing the store and the watcher.
func past(t *testing.T, driver, address string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, address)
	must.Do(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// wholeLife are the states of the entry that lived creates.
const wholeLife = "pending processing pending processing failed archived"

// The order is that of the commits, not of the database's clock, which may be set back.
func TestTheOrderIsNotTheClocks(t *testing.T) {
	there, address := own(t, "")
	layout, err := Own("")
	must.Do(t, err)
	lived(t, there, history.NewIDs(runID).Token(7))
	_, err = past(t, "sqlite", strings.TrimPrefix(address, "sqlite:")).ExecContext(t.Context(),
		"UPDATE dead_letter_audit SET at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-' || seq || ' hours')")
	must.Do(t, err)
	d, err := connectSQL(address, layout)
	must.Do(t, err)
	t.Cleanup(func() { _ = d.close() })
	if got := d.states(t); got != wholeLife {
		t.Errorf("the entry's life is told as %s", got)
	}
}

// In PostgreSQL a change with a lower number may be committed after one with a higher number. It is still reported,
// once, and in the order of its entry.
func TestWhatIsCommittedLateIsTold(t *testing.T) {
	_, there, address := ownPostgres(t)
	layout, err := Own("")
	must.Do(t, err)
	db := past(t, "pgx", address)
	d, err := connectSQL(address, layout)
	must.Do(t, err)
	t.Cleanup(func() { _ = d.close() })
	lived(t, there, history.NewIDs(runID).Token(7))
	_, err = db.ExecContext(t.Context(), "UPDATE dead_letter_audit SET at = now() - seq * interval '1 hour'")
	must.Do(t, err)
	if got := d.states(t); got != wholeLife {
		t.Errorf("the entry's life is told as %s", got)
	}
	late, err := db.BeginTx(t.Context(), nil)
	must.Do(t, err)
	_, err = late.ExecContext(t.Context(), "UPDATE dead_letter_queue SET status = 'dlq_resolved'")
	must.Do(t, err)
	_, err = there.Ingest(t.Context(), []store.Entry{letter(41, "x")})
	must.Do(t, err)
	told := d.states(t)
	must.Do(t, late.Commit())
	if told = strings.TrimSpace(told + " " + d.states(t)); told != "resolved pending" {
		t.Errorf("what was committed late is told as %s", told)
	}
	if d.away = true; d.reread() == d.xmin {
		t.Error("after the database was away nothing is read once more")
	}
	if again := d.states(t); again != "" {
		t.Errorf("told again: %s", again)
	}
}

// TestACrashHidesNothing checks that changes committed before and after a crash of PostgreSQL are reported, each
// once.
func TestACrashHidesNothing(t *testing.T) {
	server, there, address := ownPostgres(t)
	layout, err := Own("")
	must.Do(t, err)
	w, sink := watching(t, address, layout)
	ingest := func(offset int64) {
		t.Helper()
		wait.Until(t, "an entry is accepted", func() bool {
			_, err := there.Ingest(t.Context(), []store.Entry{letter(offset, "x")})
			return err == nil
		})
	}
	ingest(1)
	ingest(2)
	sink.await(t, 2)
	must.Do(t, server.Crash())
	wait.Until(t, "the watcher notices that the database is gone", func() bool {
		return strings.Contains(strings.Join(sink.texts(history.KindStoreWatch), " "), history.WatchLost)
	})
	must.Do(t, server.Resume(t.Context()))
	ingest(3)
	sink.await(t, 3)
	must.Do(t, w.Stop(t.Context()))
	numbers := map[int64]int{}
	for _, event := range sink.of(history.KindStoreChange) {
		numbers[event.Op]++
	}
	if len(numbers) != 3 || numbers[1] != 1 || numbers[2] != 1 || numbers[3] != 1 {
		t.Errorf("of the entries were told so many changes: %v", numbers)
	}
	if watch := strings.Join(sink.texts(history.KindStoreWatch), " "); !strings.Contains(watch, history.WatchResumed) {
		t.Errorf("the watching went so: %v", watch)
	}
}

// TestWhatIsTheSame checks that any difference in a reported property counts as one.
func TestWhatIsTheSame(t *testing.T) {
	at := time.Unix(1, 0)
	for name, change := range map[string]func(*row){
		"status": func(r *row) {
			r.status = "x"
		}, "held": func(r *row) {
			r.held = "x"
		}, "lock": func(r *row) { r.lockedBy = "x" }, "version": func(r *row) { r.version++ },
		"retries": func(r *row) { r.retries++ }, "due": func(r *row) { r.next = at }, "lease": func(r *row) { r.lease = at },
	} {
		before := row{id: "a"}
		now := before
		if !before.same(&now) {
			t.Error("an entry is not the same as itself")
		}
		if change(&now); before.same(&now) {
			t.Errorf("another %s is the same", name)
		}
	}
}
