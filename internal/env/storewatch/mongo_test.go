package storewatch

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/open"
)

// mongoDatabase creates a new database on the MongoDB server that DLQBENCH_MONGODB_URL names (test/ferretdb provides
// one), and a collection in it.
func mongoDatabase(t *testing.T) (address string, letters *mongo.Collection) {
	t.Helper()
	server := os.Getenv("DLQBENCH_MONGODB_URL")
	if server == "" {
		t.Skip("it needs a MongoDB: set DLQBENCH_MONGODB_URL, or run the tests of test/ferretdb")
	}
	name := "watch_" + uuid.NewString()[:8]
	client := must.Get(mongo.Connect(options.Client().ApplyURI(server)))(t)
	t.Cleanup(func() {
		ctx := context.Background()
		if err := client.Database(name).Drop(ctx); err != nil {
			t.Error(err)
		}
		if err := client.Disconnect(ctx); err != nil {
			t.Error(err)
		}
	})
	return strings.TrimSuffix(server, "/") + "/" + name, client.Database(name).Collection("parked")
}

// TestMongoStoreOfItsOwn checks that every change of an entry of dlqbench's own store is reported, whichever program
// made it, with its time, strategy and count.
func TestMongoStoreOfItsOwn(t *testing.T) {
	address, _ := mongoDatabase(t)
	maker, err := open.Store(t.Context(), address, store.Options{Audit: true})
	must.Do(t, err)
	_, err = maker.Migrate(t.Context())
	must.Do(t, err)
	must.Do(t, maker.Close())
	there, err := open.Store(t.Context(), address, store.Options{}) // it is not told that changes are recorded
	must.Do(t, err)
	defer there.Close()
	layout, err := OwnMongo("")
	must.Do(t, err)
	w, sink := watching(t, address, layout)
	id := lived(t, there, history.NewIDs(runID).Token(7))
	sink.await(t, 6) // changes to a removed entry since the last look are not observable
	removed, err := there.Remove(t.Context(), []string{id})
	if err != nil || removed != 1 {
		t.Fatalf("removed %d entries, %v", removed, err)
	}
	sink.await(t, 7)
	must.Do(t, w.Stop(t.Context()))
	want := []string{
		"1: absent>pending strategy=immediate_retry", "1: pending>processing by=worker-3-1 strategy=immediate_retry",
		"1: processing>pending strategy=immediate_retry", "1: pending>processing by=other strategy=immediate_retry",
		"1: processing>failed strategy=immediate_retry", "1: failed>archived strategy=immediate_retry hand=true",
		"1: archived>absent",
	}
	if got := sink.texts(history.KindStoreChange); !slices.Equal(got, want) {
		t.Errorf("the changes are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// seen receives the events of a watcher.
type seen chan history.Event

func (s seen) Record(event history.Event) {
	if event.Kind == history.KindStoreChange {
		s <- event
	}
}

// TestMongoCollectionOfSomebodyElse checks that changes of a foreign collection, with its own fields and words, are
// observed.
func TestMongoCollectionOfSomebodyElse(t *testing.T) {
	address, letters := mongoDatabase(t)
	ids := history.NewIDs("run")
	events := make(seen, 100)
	watcher, err := Start(t.Context(), Config{
		Address: address, Poll: 10 * time.Millisecond, IDs: ids, Records: 10, Topics: []history.Topic{{Name: "orders"}},
		Clock: history.NewClock(), Sink: events, Log: zerolog.Nop(),
		Layout: Layout{
			Table: "parked", Words: map[string]history.StoreState{"NEW": history.StorePending, "DONE": history.StoreResolved},
			Columns: Columns{ID: "_id", Status: "life.state", Retries: "tries", NextRetryAt: "life.due",
				SourceTopic: "from.topic", SourcePartition: "from.partition", SourceOffset: "from.offset", Payload: "body"},
		},
	})
	must.Do(t, err)
	defer func() { must.Do(t, watcher.Close()) }()
	due := time.Now().Add(time.Minute).UTC().Truncate(time.Millisecond)
	made, err := letters.InsertOne(t.Context(), bson.D{
		{Key: "life", Value: bson.D{{Key: "state", Value: "NEW"}, {Key: "due", Value: due}}}, {Key: "tries", Value: 2},
		{Key: "from", Value: bson.D{{Key: "topic", Value: "orders"}, {Key: "partition", Value: 3},
			{Key: "offset", Value: int64(42)}}},
		{Key: "body", Value: bson.D{{Key: "order", Value: "about " + ids.Token(7)}}},
	})
	must.Do(t, err)
	first := next(t, events)
	if first.Text[:len("absent>pending")] != "absent>pending" || first.Record != 7 || first.N != 2 ||
		first.Stated().Partition != 3 || first.Stated().Offset != 42 || !first.Flags.Has(history.Polled) {
		t.Errorf("it came as %+v", first)
	}
	_, err = letters.UpdateByID(t.Context(), made.InsertedID,
		bson.D{{Key: "$set", Value: bson.D{{Key: "life.state", Value: "DONE"}}}})
	must.Do(t, err)
	if second := next(t, events); second.Text[:len("pending>resolved")] != "pending>resolved" || second.Record != 7 {
		t.Errorf("it was resolved as %+v", second)
	}
	_, err = letters.UpdateByID(t.Context(), made.InsertedID,
		bson.D{{Key: "$set", Value: bson.D{{Key: "life.state", Value: "ODD"}}}})
	must.Do(t, err)
	if third := next(t, events); third.Text[:len("resolved>unknown")] != "resolved>unknown" {
		t.Errorf("it got a word that nobody knows as %+v", third)
	}
	_, err = letters.DeleteOne(t.Context(), bson.D{{Key: "_id", Value: made.InsertedID}})
	must.Do(t, err)
	if last := next(t, events); !strings.HasSuffix(strings.Fields(last.Text)[0], ">absent") {
		t.Errorf("it was removed as %+v", last)
	}
}

func next(t *testing.T, events seen) history.Event {
	t.Helper()
	select {
	case event := <-events:
		return event
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was seen within 20 s")
	}
	return history.Event{}
}
