package ferretdb

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	driver "go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/mongo"
)

// server is one that the whole package shares: each store has a database of its own.
var server *Server

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	folder, err := os.MkdirTemp("", "ferretdb-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	if server, err = Start(folder); err != nil {
		panic(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			panic(err)
		}
	}()
	return m.Run()
}

// servers are FerretDB, and the MongoDB of DLQBENCH_MONGODB_URL where there is one.
func servers(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("FerretDB", func(t *testing.T) { test(t, server.URL()) })
	t.Run("MongoDB", func(t *testing.T) {
		url := os.Getenv("DLQBENCH_MONGODB_URL")
		if url == "" {
			t.Skip("DLQBENCH_MONGODB_URL names no MongoDB")
		}
		test(t, url)
	})
}

var databases atomic.Int64

// database is the address of a database that is dropped at the test's end.
func database(t *testing.T, url string) string {
	t.Helper()
	name := fmt.Sprintf("dlqbench_test_%d_%d", os.Getpid(), databases.Add(1))
	address, parameters, asked := strings.Cut(url, "?")
	address = strings.TrimRight(address, "/")
	if address[strings.LastIndex(address, "/")+1:] != "" && strings.Count(address, "/") > 2 {
		address = address[:strings.LastIndex(address, "/")]
	}
	address += "/" + name
	if asked {
		address += "?" + parameters
	}
	t.Cleanup(func() {
		client, err := driver.Connect(options.Client().ApplyURI(address))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := client.Database(name).Drop(ctx); err != nil {
			t.Error(err)
		}
		if err := client.Disconnect(ctx); err != nil {
			t.Error(err)
		}
	})
	return address
}

func opened(t *testing.T, address string, opts store.Options) *mongo.Store {
	t.Helper()
	there, err := mongo.Open(t.Context(), address, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := there.Close(); err != nil {
			t.Error(err)
		}
	})
	return there
}

func migrated(t *testing.T, address string, opts store.Options) *mongo.Store {
	t.Helper()
	there := opened(t, address, opts)
	if _, err := there.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return there
}

// letter is a dead letter that is due.
func letter(offset int64) store.Entry {
	return store.Entry{
		Source: store.Place{Topic: "orders", Offset: offset}, Letter: store.Place{Topic: "orders.dlq", Offset: offset},
		Dialect: "plain",
		EventID: fmt.Sprint("msg_", offset), Value: []byte(`{"amount": 99.99}`), Service: "payment-service",
		Error:       store.Failure{Message: "External API timeout after 5000ms", Type: "TIMEOUT_ERROR"},
		NextRetryAt: time.Unix(1, 0),
	}
}

// Eight workers, each with connections of its own, process what there is: no entry is ever held by two.
func TestNoTwoWorkersHoldOneEntry(t *testing.T) {
	servers(t, func(t *testing.T, url string) {
		address := database(t, url)
		double, handled := race(t, address, 8, 40)
		if double != 0 || handled != 40 {
			t.Fatalf("%d double locks, %d of 40 entries handled", double, handled)
		}
	})
}

// Between a worker's find and its lock another locks, settles and unlocks the entry: lockedBy is null again, and the
// filter of "Dead Letter Queue Lifecycle" alone would let the first worker process what is resolved.
func TestAnEntryIsNotTakenTwiceInARow(t *testing.T) {
	address := database(t, server.URL())
	fast := migrated(t, address, store.Options{})
	if _, err := fast.Ingest(t.Context(), []store.Entry{letter(1)}); err != nil {
		t.Fatal(err)
	}
	var between sync.Once
	host := strings.TrimSuffix(strings.TrimPrefix(server.URL(), "mongodb://"), "/")
	proxy := interpose(t, host, func(command []byte) {
		if !bytes.Contains(command, []byte("findAndModify")) {
			return
		}
		between.Do(func() {
			claimed, err := fast.Claim(t.Context(), "fast", time.Minute, 1)
			if err != nil || len(claimed) != 1 {
				t.Errorf("claimed %v (%v)", claimed, err)
				return
			}
			lock := store.Lock{ID: claimed[0].ID, Worker: "fast", Version: claimed[0].Version}
			if err := fast.Settle(t.Context(), lock, store.Change{State: store.Resolved}); err != nil {
				t.Error(err)
			}
		})
	})
	slow := opened(t, strings.Replace(address, host, proxy, 1), store.Options{})
	claimed, err := slow.Claim(t.Context(), "slow", time.Minute, 10)
	if err != nil || len(claimed) != 0 {
		t.Errorf("the slow worker got %v (%v)", claimed, err)
	}
	if stats, err := fast.Stats(t.Context()); err != nil || stats.ByState[store.Resolved] != 1 {
		t.Errorf("the entry is %v (%v)", stats.ByState, err)
	}
}

// interpose is a proxy that calls before for each command, and then sends it.
func interpose(t *testing.T, upstream string, before func(command []byte)) string {
	t.Helper()
	proxy, err := openGate(upstream, before)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.close(); err != nil {
			t.Error(err)
		}
	})
	return proxy.address()
}

// What the gate is for: without it several clients win one lock of "Dead Letter Queue Lifecycle", a single
// compare-and-set.
func TestWithoutTheGateALockHasSeveralWinners(t *testing.T) {
	bare, err := StartUngated(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := bare.Close(); err != nil {
			t.Error(err)
		}
	}()
	client, err := driver.Connect(options.Client().ApplyURI(bare.URL()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := client.Disconnect(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	messages := client.Database("bare").Collection("dlq_messages")
	for round := range 100 {
		if _, err := messages.InsertOne(t.Context(),
			bson.D{{Key: "_id", Value: round}, {Key: "lockedBy", Value: nil}}); err != nil {
			t.Fatal(err)
		}
		if winners(t.Context(), messages, round) > 1 {
			return
		}
	}
	t.Error("of 100 locks none had several winners: is the gate still needed?")
}

// winners are those of eight that lock one message by compare-and-set.
func winners(ctx context.Context, messages *driver.Collection, id int) int64 {
	var won atomic.Int64
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			filter := bson.D{{Key: "_id", Value: id}, {Key: "lockedBy", Value: nil}}
			if messages.FindOneAndUpdate(ctx, filter, bson.D{{Key: "$set", Value: bson.D{{Key: "lockedBy", Value: worker}}}}).
				Err() == nil {
				won.Add(1)
			}
		})
	}
	all.Wait()
	return won.Load()
}

// race lets workers claim and settle entries until none is left, and counts the claims of entries that somebody else
// held.
func race(t *testing.T, address string, workers, entries int) (double, handled int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	first := migrated(t, address, store.Options{})
	letters := make([]store.Entry, entries)
	for i := range letters {
		letters[i] = letter(time.Now().UnixNano() + int64(i))
	}
	if fresh, err := first.Ingest(ctx, letters); err != nil || fresh != entries {
		t.Fatal(fresh, err)
	}
	var holders holders
	var all sync.WaitGroup
	for i := range workers {
		there := opened(t, address, store.Options{})
		all.Go(func() { holders.work(ctx, t, there, fmt.Sprint("worker_node_", i)) })
	}
	all.Wait()
	return holders.double, len(holders.settled)
}

type holders struct {
	sync.Mutex
	by      map[string]string
	settled map[string]bool
	double  int
}

func (h *holders) work(ctx context.Context, t *testing.T, there *mongo.Store, name string) {
	for {
		claimed, err := there.Claim(ctx, name, time.Minute, 10)
		if err != nil {
			t.Error(err)
			return
		}
		if len(claimed) == 0 {
			return
		}
		for _, entry := range claimed {
			h.take(entry.ID, name)
		}
		for _, entry := range claimed {
			// Given up before it is unlocked: whoever claims it afterwards is no second holder.
			h.give(entry.ID)
			lock := store.Lock{ID: entry.ID, Worker: name, Version: entry.Version}
			if err := there.Settle(ctx, lock, store.Change{State: store.Resolved}); err != nil {
				h.lost()
			}
		}
	}
}

func (h *holders) take(id, name string) {
	h.Lock()
	defer h.Unlock()
	if h.by == nil {
		h.by, h.settled = map[string]string{}, map[string]bool{}
	}
	if h.by[id] != "" || h.settled[id] {
		h.double++
	}
	h.by[id] = name
}

func (h *holders) give(id string) {
	h.Lock()
	defer h.Unlock()
	delete(h.by, id)
	h.settled[id] = true
}

// lost is a lock that was somebody else's, too: nobody's lease is over in a minute.
func (h *holders) lost() {
	h.Lock()
	defer h.Unlock()
	h.double++
}
