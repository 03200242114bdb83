package ferretdb

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	driver "go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/mongo"
)

// collection is one of a store's, past the store.
func collection(t *testing.T, address, name string) *driver.Collection {
	t.Helper()
	client, err := driver.Connect(options.Client().ApplyURI(address))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Disconnect(context.Background()); err != nil {
			t.Error(err)
		}
	})
	parsed, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return client.Database(strings.TrimPrefix(parsed.Path, "/")).Collection(name)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Whoever polls a store with Audit finds every change of an entry in its document, none missing, in the words of the
// status field.
func TestTransitionsTellEveryChange(t *testing.T) {
	servers(t, func(t *testing.T, url string) {
		address := database(t, url)
		db := migrated(t, address, store.Options{Audit: true})
		ctx := t.Context()
		if fresh, err := db.Ingest(ctx, []store.Entry{letter(1)}); err != nil || fresh != 1 {
			t.Fatal(fresh, err)
		}
		claim := func(lease time.Duration) store.Lock {
			claimed, err := db.Claim(ctx, "worker_node_2", lease, 10)
			must(t, err)
			if len(claimed) != 1 {
				t.Fatalf("%d claimed", len(claimed))
			}
			return store.Lock{ID: claimed[0].ID, Worker: "worker_node_2", Version: claimed[0].Version}
		}
		lock := claim(time.Millisecond)
		for recovered := 0; recovered == 0; { // until its lease is over
			var err error
			recovered, err = db.Recover(ctx)
			must(t, err)
		}
		if err := db.Settle(ctx, lock, store.Change{State: store.Resolved}); !errors.Is(err, store.ErrLockLost) {
			t.Errorf("a lost lock: %v", err)
		}
		lock = claim(time.Minute)
		must(t, db.Renew(ctx, lock, time.Hour))
		must(t, db.Settle(ctx, lock, store.Change{State: store.Failed, Retried: true}))
		must(t, db.Alter(ctx, lock.ID, lock.Version+1, store.Change{State: store.Processing, Worker: "ann",
			Lease: time.Minute}))
		must(t, db.Settle(ctx, store.Lock{ID: lock.ID, Worker: "ann", Version: lock.Version + 2},
			store.Change{State: store.Resolved, Resolution: &store.Resolution{How: store.ManualRetry}}))

		var document struct {
			Version     int64
			Transitions []struct {
				Version                 int64
				From, To, Worker        string
				At                      time.Time
				LeaseUntil, NextRetryAt *time.Time
				Retried                 bool
			}
		}
		must(t, collection(t, address, "dlq_messages").FindOne(ctx, bson.D{{Key: "_id", Value: lock.ID}}).Decode(&document))
		var told []string
		for i, one := range document.Transitions {
			told = append(told, fmt.Sprintf("%d %s>%s %s %t %t", one.Version, one.From, one.To, one.Worker, one.Retried,
				one.LeaseUntil != nil))
			if i > 0 && one.At.Before(document.Transitions[i-1].At) {
				t.Errorf("change %d was before the one before", one.Version)
			}
		}
		want := []string{
			"1 >dlq_pending  false false", "2 dlq_pending>dlq_processing worker_node_2 false true",
			"3 dlq_processing>dlq_pending  false false",
			"4 dlq_pending>dlq_processing worker_node_2 false true", "5 dlq_processing>dlq_failed  true false",
			"6 dlq_failed>dlq_processing ann false true", "7 dlq_processing>dlq_resolved  false false",
		}
		if !slices.Equal(told, want) || document.Version != 7 {
			t.Errorf("version %d, told\n%s\nnot\n%s", document.Version, strings.Join(told, "\n"), strings.Join(want, "\n"))
		}
	})
}

// A migration that was begun and not ended is said so, refuses everything, and is completed by migrating again.
func TestHalfMigrated(t *testing.T) {
	servers(t, func(t *testing.T, url string) {
		address := database(t, url)
		db := opened(t, address, store.Options{})
		ctx := t.Context()
		if _, err := db.Ingest(ctx, []store.Entry{letter(1)}); !errors.Is(err, store.ErrNotMigrated) {
			t.Errorf("before the migration: %v", err)
		}
		begun := bson.D{{Key: "_id", Value: "0001_dlq_messages"}, {Key: "begunAt", Value: time.Now()},
			{Key: "endedAt", Value: nil}}
		_, err := collection(t, address, "dlq_migrations").InsertOne(ctx, begun)
		must(t, err)
		if _, _, err := db.List(ctx, store.Query{}); !errors.Is(err, store.ErrNotMigrated) ||
			!strings.Contains(err.Error(), "not ended") {
			t.Errorf("half way: %v", err)
		}
		made, err := db.Migrate(ctx)
		if must(t, err); !slices.Equal(made, []string{"0001_dlq_messages"}) {
			t.Errorf("made %v", made)
		}
		if fresh, err := db.Ingest(ctx, []store.Entry{letter(1), letter(1)}); err != nil || fresh != 1 {
			t.Errorf("afterwards: %d fresh (%v)", fresh, err)
		}
		other := opened(t, address, store.Options{Vocabulary: store.VocabularyManagement})
		if _, err := other.Count(ctx, store.Query{}); err == nil || !strings.Contains(err.Error(), "lifecycle") {
			t.Errorf("opened with another vocabulary: %v", err)
		}
		newer := bson.D{{Key: "_id", Value: "0099_later"}, {Key: "begunAt", Value: time.Now()},
			{Key: "endedAt", Value: time.Now()}}
		_, err = collection(t, address, "dlq_migrations").InsertOne(ctx, newer)
		must(t, err)
		if _, err := opened(t, address, store.Options{}).Count(ctx, store.Query{}); !errors.Is(err,
			store.ErrNotMigrated) || !strings.Contains(err.Error(), "0099_later") {
			t.Errorf("a newer schema: %v", err)
		}
	})
}

// A status that nobody knows is shown, counted, and left alone.
func TestUnknownStatus(t *testing.T) {
	servers(t, func(t *testing.T, url string) {
		address := database(t, url)
		db := migrated(t, address, store.Options{})
		ctx := t.Context()
		_, err := db.Ingest(ctx, []store.Entry{letter(1)})
		must(t, err)
		_, err = collection(t, address, "dlq_messages").UpdateMany(ctx, bson.D{},
			bson.D{{Key: "$set", Value: bson.D{{Key: "status", Value: "dlq_weird"}}}})
		must(t, err)
		page, _, err := db.List(ctx, store.Query{})
		if must(t, err); len(page) != 1 || !errors.Is(page[0].Problem(), store.ErrUnknownStatus) {
			t.Fatalf("listed %v", page)
		}
		if claimed, err := db.Claim(ctx, "w", time.Minute, 10); err != nil || len(claimed) != 0 {
			t.Errorf("claimed %v (%v)", claimed, err)
		}
		if err := db.Alter(ctx, page[0].ID, page[0].Version, store.Change{State: store.Resolved}); !errors.Is(err,
			store.ErrUnknownStatus) {
			t.Errorf("changed: %v", err)
		}
		if removed, err := db.Remove(ctx, []string{page[0].ID}); err != nil || removed != 0 {
			t.Errorf("%d removed (%v)", removed, err)
		}
		if stats, err := db.Stats(ctx); err != nil || stats.ByState["dlq_weird"] != 1 {
			t.Errorf("counted %v (%v)", stats.ByState, err)
		}
	})
}

// The clock is the server's: what workers' clocks say plays no part, and Now is near the time that the server tells.
func TestNowIsTheServers(t *testing.T) {
	servers(t, func(t *testing.T, url string) {
		address := database(t, url)
		db := migrated(t, address, store.Options{})
		var before, after struct{ LocalTime time.Time }
		hello := func(into any) {
			must(t, collection(t, address, "x").Database().RunCommand(t.Context(), bson.D{{Key: "hello", Value: 1}}).
				Decode(into))
		}
		hello(&before)
		now, err := db.Now(t.Context())
		must(t, err)
		hello(&after)
		if now.Before(before.LocalTime) || now.After(after.LocalTime) {
			t.Errorf("now is %s, the server's clock went from %s to %s", now, before.LocalTime, after.LocalTime)
		}
	})
}

// The address of a server that isn't there is said, its password is not.
func TestNobodyThere(t *testing.T) {
	_, err := mongo.Open(t.Context(), "mongodb://ann:s3cret@127.0.0.1:1/dlq?serverSelectionTimeoutMS=200", store.Options{})
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("nobody there: %v", err)
	}
}
