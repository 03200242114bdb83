package retention

import (
	"context"
	"encoding/json"
	"os"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/store"
)

// anyEntry generates entries of the archive with arbitrary bytes.
func anyEntry() *rapid.Generator[store.Entry] {
	return rapid.Custom(func(t *rapid.T) store.Entry {
		text := func(name string) string {
			return rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string {
				return string(b)
			}), rapid.Just("\x00\xff\U0010F0FF")).Draw(t, name)
		}
		bytes := func(name string) []byte {
			return rapid.OneOf(rapid.Just[[]byte](nil), rapid.Just([]byte{}), rapid.SliceOfN(rapid.Byte(), 1, 40)).Draw(t, name)
		}
		moment := func(name string) time.Time {
			return rapid.OneOf(rapid.Just(time.Time{}), rapid.Map(rapid.Int64Range(1, 4e12), func(ms int64) time.Time {
				return time.UnixMilli(ms).UTC()
			})).Draw(t, name)
		}
		place := func() store.Place {
			return store.Place{Topic: text("topic"), Partition: rapid.Int32().Draw(t, "partition"),
				Offset: rapid.Int64().Draw(t, "offset")}
		}
		number := rapid.IntRange(-1<<31, 1<<31-1)
		e := store.Entry{
			ID: rapid.StringMatching(`[0-9a-f]{8}`).Draw(t, "id"), Version: rapid.Int64Min(1).Draw(t, "version"),
			Source: place(), Letter: place(), Dialect: text("dialect"),
			EventID: text("event"), SubscriberID: text("subscriber"), Pattern: text("pattern"), Key: bytes("key"),
			Value:         bytes("value"),
			OriginalEvent: json.RawMessage(`{"payload":"` + rapid.StringMatching(`[a-zé]{0,9}`).Draw(t, "payload") + `"}`),
			Error:         store.Failure{Message: text("message"), Type: text("type"), Code: text("code"), Stack: text("stack")},
			RetryCount:    number.Draw(t, "retries"), MaxRetries: number.Draw(t, "max"), DLQRetryCount: number.Draw(t, "dlq"),
			Priority:      number.Draw(t, "priority"),
			FirstFailedAt: moment("first"), LastFailedAt: moment("last"), State: store.State(text("state")),
			Strategy: store.Strategy(text("strategy")), Service: text("service"),
			Resolution: store.Resolution{At: moment("at"), How: text("how"), By: text("by"), Notes: text("notes")},
			CreatedAt:  time.UnixMilli(rapid.Int64Range(1, 4e12).Draw(t, "created")).UTC(),
			UpdatedAt:  time.UnixMilli(rapid.Int64Range(1, 4e12).Draw(t, "updated")).UTC(),
		}
		if rapid.Bool().Draw(t, "context") {
			e.Error.Context = json.RawMessage(`{"timeoutMs":5000}`)
		}
		for range rapid.IntRange(0, 3).Draw(t, "parts") {
			e.Headers = append(e.Headers, store.Header{Key: text("header"), Value: bytes("header value")})
			e.Tags = append(e.Tags, text("tag"))
			e.RetryHistory = append(e.RetryHistory, store.Attempt{
				At: time.UnixMilli(rapid.Int64Range(1, 4e12).Draw(t, "tried")).UTC(), Worker: text("worker"),
				Strategy: store.Immediate, Result: "failed",
				Error: text("error"), Took: time.Duration(rapid.Int64Min(0).Draw(t, "took")),
			})
		}
		return e
	})
}

// Entries come back from a file unchanged, with nil and empty distinguished.
func TestEntriesComeBackFromTheArchive(t *testing.T) {
	at := time.UnixMilli(1_770_000_000_123).UTC()
	folder := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir := must.Get(os.MkdirTemp(folder, ""))(t)
		want := rapid.SliceOfN(anyEntry(), 1, 5).Draw(t, "entries")
		writeAll(t, dir, at, want)
		var got []store.Entry
		must.Do(t, OpenArchive(dir).Each(context.Background(), func(one Archived) error {
			if !one.At.Equal(at) {
				t.Errorf("written at %s", one.At)
			}
			got = append(got, one.Entry)
			return nil
		}))
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %#v\nwant %#v", got, want)
		}
	})
}

type failer interface {
	Fatal(args ...any)
	Helper()
}

func writeAll(t failer, folder string, at time.Time, entries []store.Entry) {
	t.Helper()
	archive := must.Get(openWritable(folder))(t)
	must.Do(t, archive.look())
	for _, entry := range entries {
		must.Do(t, archive.add(entry, at))
	}
	must.Get(archive.complete())(t)
	must.Do(t, archive.close())
}

// ticking is an empty store that counts its calls.
type ticking struct {
	Store
	asked []time.Time
}

func (s *ticking) Now(context.Context) (time.Time, error) {
	s.asked = append(s.asked, time.Now())
	return time.Now(), nil
}

func (s *ticking) List(context.Context, store.Query) ([]store.Entry, string, error) {
	return nil, "", nil
}
func (s *ticking) Remove(context.Context, []string) (int, error) { return 0, nil }

func TestKeepAppliesThePolicyNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &ticking{}
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Minute)
		defer cancel()
		reports := 0
		policy := DefaultPolicy()
		policy.Folder = t.TempDir()
		Keep(ctx, db, policy, time.Hour, func(_ Report, err error) {
			reports++
			if err != nil {
				t.Error(err)
			}
		})
		if len(db.asked) != 3 || reports != 3 || db.asked[2].Sub(begun) != 2*time.Hour ||
			time.Since(begun) != 150*time.Minute {
			t.Errorf("asked at %v, %d reports, ended after %s", db.asked, reports, time.Since(begun))
		}
	})
}
