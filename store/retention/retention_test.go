package retention

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/sqlstore"
)

// clock is the clock of a store, which tests set.
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

func begin() time.Time { return time.Date(2026, 2, 11, 12, 0, 0, 0, time.UTC) }

func newStore(t *testing.T) (store.Store, *clock) {
	t.Helper()
	c := &clock{at: begin()}
	db, err := sqlstore.SQLite(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "dlq.db"), store.Options{Clock: c.now})
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, db.Close()) })
	_, err = db.Migrate(t.Context())
	must.Do(t, err)
	return db, c
}

// letter is an entry that is due at once.
func letter(n int) store.Entry {
	return store.Entry{
		ID: fmt.Sprintf("507f1f77-bcf8-4cd7-9943-%012d", n), Source: store.Place{Topic: "orders", Offset: int64(n)},
		Dialect: "plain",
		Value:   fmt.Appendf(nil, `{"n": %d}`, n), NextRetryAt: begin().Add(-time.Hour),
		Error: store.Failure{Type: "TIMEOUT_ERROR", Message: "timed out"},
	}
}

// reach brings a new entry into a state through the actions of workers and people.
func reach(t *testing.T, db store.Store, n int, state store.State) string {
	t.Helper()
	ctx := t.Context()
	entry := letter(n)
	fresh, err := db.Ingest(ctx, []store.Entry{entry})
	if must.Do(t, err); fresh != 1 {
		t.Fatal("not fresh")
	}
	if state == store.Pending {
		return entry.ID
	}
	claimed, err := db.Claim(ctx, "worker_node_1", time.Hour, 1)
	if must.Do(t, err); len(claimed) != 1 || claimed[0].ID != entry.ID {
		t.Fatalf("claimed %v", claimed)
	}
	lock := store.Lock{ID: entry.ID, Worker: "worker_node_1", Version: claimed[0].Version}
	switch state {
	case store.Processing:
	case store.Archived:
		must.Do(t, db.Settle(ctx, lock, store.Change{State: store.Manual}))
		must.Do(t, db.Alter(ctx, entry.ID, lock.Version+1,
			store.Change{State: store.Archived, Resolution: &store.Resolution{How: store.Discard, By: "ann"}}))
	default:
		must.Do(t, db.Settle(ctx, lock, store.Change{State: state}))
	}
	return entry.ID
}

func policyIn(t *testing.T) Policy {
	policy := DefaultPolicy()
	policy.Folder = filepath.Join(t.TempDir(), "archive")
	return policy
}

func apply(t *testing.T, db Store, policy Policy) Report {
	t.Helper()
	report, err := Run(t.Context(), db, policy)
	must.Do(t, err)
	return report
}

// kept returns the states of the store's entries.
func kept(t *testing.T, db store.Store) string {
	t.Helper()
	stats, err := db.Stats(t.Context())
	must.Do(t, err)
	var words []string
	for state, count := range stats.ByState {
		words = append(words, fmt.Sprint(state, ":", count))
	}
	sort.Strings(words)
	return strings.Join(words, " ")
}

// rowsIn lists the entries of the archive, with repetitions.
func rowsIn(t *testing.T, policy Policy) []string {
	t.Helper()
	var ids []string
	must.Do(t, OpenArchive(policy.Folder).Each(t.Context(), func(one Archived) error {
		ids = append(ids, one.ID[len(one.ID)-3:])
		return nil
	}))
	sort.Strings(ids)
	return ids
}

// The test covers the table of the document, a millisecond before and after each of its times.
func TestTheDocumentsTable(t *testing.T) {
	for name, scale := range map[string]float64{"as it is": 1, "600 times as fast": 600} {
		t.Run(name, func(t *testing.T) {
			db, c := newStore(t)
			policy := policyIn(t)
			policy.Scale = scale
			for i, state := range []store.State{store.Resolved, store.Failed, store.Manual, store.Archived, store.Processing,
				store.Pending} {
				reach(t, db, i+1, state)
			}
			passed := time.Duration(0)
			until := func(d time.Duration) {
				d = time.Duration(float64(d) / scale)
				c.advance(d - passed)
				passed = d
			}
			steps := []struct {
				after   time.Duration
				extra   time.Duration
				want    string
				archive []string
			}{
				{30 * day, 0, "archived:1 failed:1 manual:1 pending:1 processing:1 resolved:1", nil},
				{30 * day, time.Millisecond, "archived:1 failed:1 manual:1 pending:1 processing:1", nil},
				{90 * day, 0, "archived:1 failed:1 manual:1 pending:1 processing:1", nil},
				{90 * day, time.Millisecond, "archived:2 manual:1 pending:1 processing:1", []string{"002"}},
				{365 * day, 0, "archived:2 manual:1 pending:1 processing:1", []string{"002"}},
				{365 * day, time.Millisecond, "archived:1 manual:1 pending:1 processing:1", []string{"002", "004"}},
				// An archived entry is removed after a year. An entry that is in a file already is not written again.
				{455 * day, time.Millisecond, "archived:1 manual:1 pending:1 processing:1", []string{"002", "004"}},
				{455 * day, 2 * time.Millisecond, "manual:1 pending:1 processing:1", []string{"002", "004"}},
				{36500 * day, 0, "manual:1 pending:1 processing:1", []string{"002", "004"}},
			}
			for _, step := range steps {
				until(step.after)
				c.advance(step.extra)
				passed += step.extra
				for range 2 { // a second run changes nothing
					apply(t, db, policy)
					if got := kept(t, db); got != step.want {
						t.Errorf("after %s+%s: %s, not %s", step.after, step.extra, got, step.want)
					}
					if got := rowsIn(t, policy); !slices.Equal(got, step.archive) {
						t.Errorf("after %s+%s the archive has %v, not %v", step.after, step.extra, got, step.archive)
					}
				}
			}
		})
	}
}

func TestReports(t *testing.T) {
	db, c := newStore(t)
	policy := policyIn(t)
	policy.Batch = 10
	for i := range 25 {
		reach(t, db, i+1, store.Failed)
	}
	for i := range 12 {
		reach(t, db, 100+i, store.Resolved)
	}
	for i := range 11 {
		reach(t, db, 200+i, store.Archived)
	}
	c.advance(400 * day)
	at := c.now()

	policy.DryRun = true
	before := kept(t, db)
	want := Report{At: at, DryRun: true, Deleted: 12, Filed: 25, Removed: 11}
	if got := apply(t, db, policy); !reflect.DeepEqual(got, want) {
		t.Errorf("the dry run says %+v, not %+v", got, want)
	}
	if _, err := os.Stat(policy.Folder); !errors.Is(err, os.ErrNotExist) || kept(t, db) != before {
		t.Error("the dry run changed something")
	}

	policy.DryRun = false
	got := apply(t, db, policy)
	names := regexp.MustCompile(
		`^archive-20270318-000001-[0-9a-f]{16}\.parquet archive-20270318-000002-[0-9a-f]{16}\.parquet$`)
	if !names.MatchString(strings.Join(got.Files, " ")) {
		t.Errorf("the files are %v", got.Files)
	}
	got.Files = nil
	if want = (Report{At: at, Deleted: 12, Filed: 25, Removed: 11}); !reflect.DeepEqual(got, want) {
		t.Errorf("the run says %+v, not %+v", got, want)
	}
	if got := kept(t, db); got != "archived:25" {
		t.Errorf("the store has %s", got)
	}
	if got := rowsIn(t, policy); len(got) != 36 || len(slices.Compact(slices.Clone(got))) != 36 {
		t.Errorf("the archive has %v", got)
	}
	if got := apply(t, db, policy); !reflect.DeepEqual(got, Report{At: at}) {
		t.Errorf("a second run says %+v", got)
	}
}

// cut is a store whose process dies at its n-th change.
type cut struct {
	store.Store
	left int
}

var errCut = errors.New("the process died")

func (c *cut) Alter(ctx context.Context, id string, version int64, change store.Change) error {
	if c.left--; c.left < 0 {
		return errCut
	}
	return c.Store.Alter(ctx, id, version, change)
}

func (c *cut) Remove(ctx context.Context, ids []string) (int, error) {
	if c.left--; c.left < 0 {
		return 0, errCut
	}
	return c.Store.Remove(ctx, ids)
}

// Wherever a run dies, after the next one each entry is in the archive once, and none is lost.
func TestACrashNeitherLosesNorDoubles(t *testing.T) {
	for after := range 9 {
		t.Run(fmt.Sprint("after ", after, " changes"), func(t *testing.T) {
			db, c := newStore(t)
			policy := policyIn(t)
			policy.Batch = 2
			for i := range 4 {
				reach(t, db, i+1, store.Failed)
				reach(t, db, i+11, store.Archived)
			}
			c.advance(366 * day)
			if _, err := Run(t.Context(), &cut{Store: db, left: after}, policy); !errors.Is(err, errCut) && after < 7 {
				t.Fatalf("the run was not cut off: %v", err)
			}
			// The dead run also left a partial file.
			must.Do(t, os.WriteFile(filepath.Join(policy.Folder, "archive-20270212-000009.part"), []byte("PAR1half"), 0o600))
			apply(t, db, policy)
			if got := kept(t, db); got != "archived:4" {
				t.Errorf("the store has %s", got)
			}
			want := []string{"001", "002", "003", "004", "011", "012", "013", "014"}
			if got := rowsIn(t, policy); !slices.Equal(got, want) {
				t.Errorf("the archive has %v, not %v", got, want)
			}
			parts, err := filepath.Glob(filepath.Join(policy.Folder, "*.part"))
			if must.Do(t, err); len(parts) != 0 {
				t.Errorf("%v are left", parts)
			}
		})
	}
}

// busy is a store in which another party takes an entry up between its writing and its marking.
type busy struct {
	store.Store
	t    *testing.T
	once sync.Once
}

func (b *busy) Alter(ctx context.Context, id string, version int64, change store.Change) error {
	b.once.Do(func() {
		must.Do(b.t, b.Store.Alter(ctx, id, version,
			store.Change{State: store.Processing, Worker: "ann", Lease: time.Minute}))
	})
	return b.Store.Alter(ctx, id, version, change)
}

// An entry that is taken up again at that moment keeps its state, and is written again, with its new content, when it
// is next due.
func TestEntriesInUseAreLeftAlone(t *testing.T) {
	db, c := newStore(t)
	policy := policyIn(t)
	id := reach(t, db, 1, store.Failed)
	reach(t, db, 2, store.Failed)
	c.advance(91 * day)
	if got := apply(t, &busy{Store: db, t: t}, policy); got.Filed != 1 || got.Unchanged != 1 {
		t.Errorf("the run says %+v", got)
	}
	if got := kept(t, db); got != "archived:1 processing:1" {
		t.Errorf("the store has %s", got)
	}
	entry, err := db.Get(t.Context(), id)
	must.Do(t, err)
	must.Do(t, db.Settle(t.Context(), store.Lock{ID: id, Worker: "ann", Version: entry.Version},
		store.Change{State: store.Failed, Failure: &store.Failure{Message: "again"}}))
	c.advance(91 * day)
	if got := apply(t, db, policy); got.Filed != 1 || got.Unchanged != 0 {
		t.Errorf("the next run says %+v", got)
	}
	archived := archivedAs(t, policy, id)
	if archived.Error.Message != "again" {
		t.Errorf("the newest version in the archive failed with %q", archived.Error.Message)
	}
}

// archivedAs is the newest version of an entry in the archive.
func archivedAs(t *testing.T, policy Policy, id string) Archived {
	t.Helper()
	found, err := OpenArchive(policy.Folder).Select(t.Context(), store.Query{IDs: []string{id}})
	must.Do(t, err)
	if len(found) != 1 {
		t.Fatalf("the archive has %d entries with the id %s", len(found), id)
	}
	return found[0]
}

func TestTwoRunsAtATime(t *testing.T) {
	db, c := newStore(t)
	policy := policyIn(t)
	reach(t, db, 1, store.Failed)
	c.advance(91 * day)
	first, err := openWritable(policy.Folder)
	must.Do(t, err)
	if _, err := Run(t.Context(), db, policy); err == nil || !strings.Contains(err.Error(), "another run") {
		t.Errorf("a second run: %v", err)
	}
	must.Do(t, first.close())
	if got := apply(t, db, policy); got.Filed != 1 {
		t.Errorf("after it: %+v", got)
	}
}

// If the entries of the archive cannot be read, nothing is removed.
func TestADamagedArchive(t *testing.T) {
	for name, damage := range map[string]func(data []byte) []byte{
		"empty":              func([]byte) []byte { return nil },
		"no end":             func(data []byte) []byte { return data[:len(data)/2] },
		"no beginning":       func(data []byte) []byte { return data[len(data)/2:] },
		"footer destroyed":   func(data []byte) []byte { copy(data[len(data)-200:], strings.Repeat("x", 190)); return data },
		"one bit of a value": func(data []byte) []byte { data[len(data)/3] ^= 4; return data },
		"pages destroyed":    func(data []byte) []byte { copy(data[4:], strings.Repeat("\xff", len(data)/3)); return data },
	} {
		t.Run(name, func(t *testing.T) {
			db, c := newStore(t)
			policy := policyIn(t)
			reach(t, db, 1, store.Failed)
			reach(t, db, 2, store.Resolved)
			c.advance(91 * day)
			file := filepath.Join(policy.Folder, apply(t, db, policy).Files[0])
			data, err := os.ReadFile(file)
			must.Do(t, err)
			must.Do(t, os.WriteFile(file, damage(data), 0o600))
			c.advance(366 * day)
			if report, err := Run(t.Context(), db, policy); err == nil ||
				!strings.Contains(err.Error(), "archive") || report.Removed != 0 {
				t.Errorf("%+v, %v", report, err)
			}
			if got := kept(t, db); got != "archived:1" {
				t.Errorf("the store has %s", got)
			}
		})
	}
}

func TestRestore(t *testing.T) {
	db, c := newStore(t)
	policy := policyIn(t)
	id := reach(t, db, 1, store.Failed)
	failed, err := db.Get(t.Context(), id)
	must.Do(t, err)
	c.advance(91 * day)
	apply(t, db, policy)
	archived := archivedAs(t, policy, id)
	if err := Restore(t.Context(), archived, db); !errors.Is(err, ErrInStore) ||
		!strings.Contains(err.Error(), "it is archived") {
		t.Errorf("restoring what is there: %v", err)
	}
	c.advance(366 * day)
	if got := apply(t, db, policy); got.Removed != 1 {
		t.Fatalf("%+v", got)
	}
	must.Do(t, Restore(t.Context(), archived, db))
	restored, err := db.Get(t.Context(), id)
	must.Do(t, err)
	if restored.State != store.Failed || !restored.NextRetryAt.IsZero() || restored.LockedBy != "" ||
		string(restored.Value) != string(failed.Value) || restored.DLQRetryCount != failed.DLQRetryCount ||
		!restored.CreatedAt.Equal(failed.CreatedAt) || !restored.UpdatedAt.Equal(c.now()) ||
		restored.Source != failed.Source {
		t.Errorf("restored %+v", restored)
	}
	if claimed, err := db.Claim(t.Context(), "w", time.Minute, 10); err != nil || len(claimed) != 0 {
		t.Errorf("a restored entry was tried of its own accord: %v (%v)", claimed, err)
	}
	if err := Restore(t.Context(), archived, db); !errors.Is(err, ErrInStore) ||
		!strings.Contains(err.Error(), "it is failed") {
		t.Errorf("restoring again: %v", err)
	}
	if again, err := db.Get(t.Context(), id); err != nil || again.Version != restored.Version {
		t.Errorf("restoring again changed it: %+v, %v", again, err)
	}
}

// A restore that is killed before any of its changes, and repeated, restores the entry once. However long it takes, and
// although locks are recovered, no worker gets the entry.
func TestARestoreThatWasKilled(t *testing.T) {
	for steps, finished := 0, false; !finished; steps++ {
		db, c := newStore(t)
		policy := policyIn(t)
		id := reach(t, db, 1, store.Failed)
		c.advance(91 * day)
		apply(t, db, policy)
		archived := archivedAs(t, policy, id)
		c.advance(366 * day)
		apply(t, db, policy)
		err := Restore(t.Context(), archived, &killed{Store: db, steps: steps})
		if finished = err == nil; !finished && !errors.Is(err, errKilled) {
			t.Fatalf("killed after %d changes: %v", steps, err)
		}
		c.advance(day)
		recovered, err := db.Recover(t.Context())
		must.Do(t, err)
		claimed, err := db.Claim(t.Context(), "w", time.Minute, 10)
		if must.Do(t, err); recovered > 0 || len(claimed) > 0 {
			t.Errorf(
				"after a restore that was killed after %d changes, %d locks were recovered and a worker was given %d entries",
				steps, recovered, len(claimed))
		}
		if err := Restore(t.Context(), archived, db); finished != errors.Is(err, ErrInStore) || !finished && err != nil {
			t.Errorf("restored again after %d changes: %v", steps, err)
		}
		if entry, err := db.Get(t.Context(), id); err != nil || entry.State != store.Failed {
			t.Errorf("killed after %d changes it is %s, %v", steps, entry.State, err)
		}
	}
}

// File numbers continue from run to run, and files are read in that order. Incomplete files are ignored.
func TestFilesAreNumberedOn(t *testing.T) {
	db, c := newStore(t)
	policy := policyIn(t)
	for n := range 3 {
		reach(t, db, n, store.Failed)
		c.advance(91 * day)
		apply(t, db, policy)
	}
	must.Do(t, os.WriteFile(filepath.Join(policy.Folder, "archive-20260101-000009.part"), []byte("x"), 0o600))
	files, err := OpenArchive(policy.Folder).Files()
	must.Do(t, err)
	var numbers []int
	for _, name := range files {
		numbers = append(numbers, numberOf(name))
	}
	if !slices.Equal(numbers, []int{1, 2, 3}) {
		t.Errorf("the files are %v", files)
	}
}

// meddling is a store in which each failed entry is edited just after it was read.
type meddling struct{ store.Store }

func (m meddling) List(ctx context.Context, query store.Query) (page []store.Entry, after string, err error) {
	page, after, err = m.Store.List(ctx, query)
	for _, entry := range page {
		if entry.State == store.Failed {
			err = errors.Join(err,
				m.Alter(ctx, entry.ID, entry.Version, store.Change{State: store.Failed, Value: []byte("edited")}))
		}
	}
	return page, after, err
}

// An entry that is changed between its writing and its marking keeps the change.
func TestWhatIsEditedMeanwhileIsNotArchived(t *testing.T) {
	db, c := newStore(t)
	id := reach(t, db, 1, store.Failed)
	c.advance(91 * day)
	if got := apply(t, meddling{db}, policyIn(t)); got.Filed != 0 || got.Unchanged != 1 {
		t.Errorf("%+v", got)
	}
	if entry, err := db.Get(t.Context(), id); err != nil || entry.State != store.Failed ||
		string(entry.Value) != "edited" {
		t.Errorf("it is %s: %s (%v)", entry.State, entry.Value, err)
	}
}

// Later versions of a restored entry are archived like any other. The archive does not mistake them for the one it has.
func TestARestoredEntryIsArchivedAgain(t *testing.T) {
	db, c := newStore(t)
	policy := policyIn(t)
	id := reach(t, db, 1, store.Failed)
	c.advance(91 * day)
	apply(t, db, policy)
	c.advance(366 * day)
	apply(t, db, policy)
	archived := archivedAs(t, policy, id)
	must.Do(t, Restore(t.Context(), archived, db))
	restored, err := db.Get(t.Context(), id)
	must.Do(t, err)
	if restored.Version <= archived.Version ||
		restored.Resolution != (store.Resolution{Notes: "restored from " + archived.File}) {
		t.Errorf("restored at version %d, archived at %d; %+v", restored.Version, archived.Version, restored.Resolution)
	}
	must.Do(t, db.Alter(t.Context(), id, restored.Version,
		store.Change{State: store.Failed, Value: []byte(`{"n": "mended"}`)}))
	c.advance(91 * day)
	if got := apply(t, db, policy); got.Filed != 1 || len(got.Files) != 1 {
		t.Errorf("%+v", got)
	}
	c.advance(366 * day)
	apply(t, db, policy)
	if all, err := OpenArchive(policy.Folder).Select(t.Context(), store.Query{}); err != nil ||
		len(all) != 1 || string(all[0].Value) != `{"n": "mended"}` {
		t.Errorf("selected %+v, %v", all, err)
	}
}

var errKilled = errors.New("killed")

// killed is a store that dies after a number of changes.
type killed struct {
	store.Store
	steps int
}

func (k *killed) step() error {
	k.steps--
	if k.steps < 0 {
		return errKilled
	}
	return nil
}

func (k *killed) Ingest(ctx context.Context, entries []store.Entry) (int, error) {
	if err := k.step(); err != nil {
		return 0, err
	}
	return k.Store.Ingest(ctx, entries)
}

func (k *killed) Alter(ctx context.Context, id string, version int64, change store.Change) error {
	if err := k.step(); err != nil {
		return err
	}
	return k.Store.Alter(ctx, id, version, change)
}

func (k *killed) Settle(ctx context.Context, lock store.Lock, change store.Change) error {
	if err := k.step(); err != nil {
		return err
	}
	return k.Store.Settle(ctx, lock, change)
}

// Select returns the newest version of each entry, in order.
func TestSelect(t *testing.T) {
	db, c := newStore(t)
	policy := policyIn(t)
	var ids []string
	for n := range 3 {
		ids = append(ids, reach(t, db, n+1, store.Failed))
		c.advance(time.Hour)
	}
	c.advance(91 * day)
	apply(t, db, policy)
	archive := OpenArchive(policy.Folder)
	all, err := archive.Select(t.Context(), store.Query{})
	must.Do(t, err)
	if len(all) != 3 || all[0].ID != ids[0] || all[2].ID != ids[2] {
		t.Errorf("selected %d", len(all))
	}
	down, err := archive.Select(t.Context(), store.Query{IDs: []string{ids[0], ids[2]}, Descending: true})
	must.Do(t, err)
	if len(down) != 2 || down[0].ID != ids[2] || down[1].ID != ids[0] {
		t.Errorf("selected %d, the other way", len(down))
	}
	if none, err := archive.Select(t.Context(), store.Query{States: []store.State{store.Resolved}}); err != nil || len(
		none) != 0 {
		t.Errorf("selected %d of no such state, %v", len(none), err)
	}
}

func TestPoliciesThatMakeNoSense(t *testing.T) {
	db, _ := newStore(t)
	for name, change := range map[string]func(p *Policy){
		"no folder":    func(p *Policy) { p.Folder = "" },
		"no time":      func(p *Policy) { p.Failed = 0 },
		"slower":       func(p *Policy) { p.Scale = 0.5 },
		"no batch":     func(p *Policy) { p.Batch = 0 },
		"a huge batch": func(p *Policy) { p.Batch = 1001 },
	} {
		policy := policyIn(t)
		change(&policy)
		if _, err := Run(t.Context(), db, policy); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
