package manage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/testkit/kafkatest"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/worker"
)

const testDeadline = 30 * time.Second

func newKafka(t *testing.T) *kfake.Cluster {
	t.Helper()
	cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "orders", "orders.dlq")))(t)
	t.Cleanup(cluster.Close)
	return cluster
}

func newPublisher(t *testing.T, cluster *kfake.Cluster, name string) *Transactional {
	t.Helper()
	publisher := must.Get(NewTransactional(cluster.ListenAddrs(), name))(t)
	t.Cleanup(publisher.Close)
	return publisher
}

// written counts the records of committed transactions in a topic, by value.
func written(t *testing.T, cluster *kfake.Cluster, topic string) map[string]int {
	t.Helper()
	records := must.Get(kafkatest.Committed(t.Context(), cluster.ListenAddrs(), topic))(t)
	values := map[string]int{}
	for _, record := range records {
		values[string(record.Value)]++
	}
	return values
}

func onceEach(t *testing.T, values map[string]int, count int) {
	t.Helper()
	for i := range count {
		if n := values[fmt.Sprintf(`{"id":"o%d"}`, i)]; n != 1 {
			t.Errorf("o%d was written %d times", i, n)
		}
	}
	if len(values) != count {
		t.Errorf("%d values, want %d", len(values), count)
	}
}

func newReplay(there store.Store, publisher Publisher) Replay {
	return Replay{Store: there, Publisher: publisher,
		Query: store.Query{States: []store.State{store.Pending, store.Manual}}, Name: "default", By: "anna", BatchSize: 10,
		Concurrency: 3}
}

func TestReplaysPublishAndResolve(t *testing.T) {
	cluster := newKafka(t)
	there := newStore(t, 35, nil)
	replay := newReplay(there, newPublisher(t, cluster, "default"))
	var last, of int64
	replay.Progress = func(done, all int64) { last, of = done, all }
	report, err := replay.Run(t.Context())
	if err != nil || report.Selected != 35 || report.Done != 35 ||
		report.Failed+report.Skipped+report.Recalled != 0 || last != 35 || of != 35 {
		t.Errorf("%+v, %v, %d of %d", report, err, last, of)
	}
	onceEach(t, written(t, cluster, "orders"), 35)
	for _, entry := range all(t, there, store.Resolved) {
		if entry.Resolution.How != store.ManualRetry || entry.Resolution.By != "anna" ||
			len(entry.RetryHistory) != 1 || entry.DLQRetryCount != 0 {
			t.Errorf("%+v", entry)
		}
	}
	if report, err = replay.Run(t.Context()); err != nil || report.Selected != 0 {
		t.Errorf("again: %+v, %v", report, err)
	}
}

func TestDryRunsAndIllHealthReplayNothing(t *testing.T) {
	there := newStore(t, 3, nil)
	replay := newReplay(there, nil)
	seen := 0
	replay.DryRun, replay.OnEntry = true, func(store.Entry) { seen++ }
	if report, err := replay.Run(t.Context()); err != nil || report.Selected != 3 || report.Done != 0 || seen != 3 {
		t.Errorf("%+v, %v, %d", report, err, seen)
	}
	replay = newReplay(there, nil)
	replay.Unmet = func(context.Context) string { return "the circuit breaker is OPEN" }
	if _, err := replay.Run(t.Context()); !errors.Is(err, ErrUnhealthy) || !strings.Contains(err.Error(), "OPEN") {
		t.Errorf("%v", err)
	}
	if len(all(t, there, store.Pending)) != 3 {
		t.Error("something was replayed")
	}
}

// A starting replay decides only about the entries that its own predecessor left locked.
func TestLocksOfOthersAreLeftAlone(t *testing.T) {
	cluster := newKafka(t)
	there := newStore(t, 3, nil)
	for i, name := range []string{"worker-1-1", "replay:other:pending", "replay:default:pending"} {
		one := all(t, there, store.Pending)[0]
		if err := there.Alter(t.Context(), one.ID, one.Version, store.Change{State: store.Processing, Worker: name,
			Lease: time.Hour}); err != nil {
			t.Fatal(i, err)
		}
	}
	report, err := newReplay(there, newPublisher(t, cluster, "default")).Run(t.Context())
	if err != nil || report.Recalled != 1 || report.Confirmed != 0 || report.Done != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	for _, entry := range all(t, there, store.Processing) {
		if entry.LockedBy != "worker-1-1" && entry.LockedBy != "replay:other:pending" || entry.Version != 2 {
			t.Errorf("%s has an entry at version %d", entry.LockedBy, entry.Version)
		}
	}
	if n := len(written(t, cluster, "orders")); n != 1 {
		t.Errorf("%d records were written", n)
	}
}

// unsure is a publisher that loses the outcome of a batch.
type unsure struct{}

func (unsure) Recall(context.Context) (map[string]bool, error) { return nil, nil }

func (unsure) Publish(context.Context, []Outgoing) (map[string]error, error) {
	return nil, errors.New("the connection broke before the answer")
}

// Entries that may have been published stay locked, until a replay can find out.
func TestWhatMayHaveBeenPublishedStaysLocked(t *testing.T) {
	there := newStore(t, 3, nil)
	report, err := newReplay(there, unsure{}).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the same command finds out") || report.Done != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	if locked := all(t, there, store.Processing); len(locked) != 3 {
		t.Errorf("%d are locked", len(locked))
	}
}

// settling is a publisher that accepts everything, with a store that calls a hook before a change.
type settling struct {
	store.Store
	altered, settled func(id string) error
}

func (s settling) Alter(ctx context.Context, id string, version int64, change store.Change) error {
	if err := s.Store.Alter(ctx, id, version, change); err != nil || s.altered == nil {
		return err
	}
	return s.altered(id)
}

func (s settling) Settle(ctx context.Context, lock store.Lock, change store.Change) error {
	if s.settled != nil {
		if err := s.settled(lock.ID); err != nil {
			return err
		}
	}
	return s.Store.Settle(ctx, lock, change)
}

func (settling) Recall(context.Context) (map[string]bool, error) { return nil, nil }

func (settling) Publish(context.Context, []Outgoing) (map[string]error, error) { return nil, nil }

// An interruption while a batch is being locked releases the locks already taken.
func TestAnInterruptedReplayGivesBackItsLocks(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	there := newStore(t, 5, nil)
	stopping := settling{Store: there, altered: func(string) error { cancel(); return nil }}
	replay := newReplay(stopping, stopping)
	replay.Concurrency = 1
	report, err := replay.Run(ctx)
	if !errors.Is(err, context.Canceled) || report.Done != 0 || len(all(t, there, store.Pending)) != 5 {
		t.Errorf("%+v, %v, pending are %d of 5", report, err, len(all(t, there, store.Pending)))
	}
}

// If another owner has taken over one lock, that owner decides about the entry, and the other entries go on.
func TestALostLockHoldsUpNobody(t *testing.T) {
	there := newStore(t, 5, nil)
	lost := ""
	one := settling{Store: there, settled: func(id string) error {
		if lost == "" || lost == id {
			lost = id
			return store.ErrLockLost
		}
		return nil
	}}
	replay := newReplay(one, one)
	replay.Concurrency, replay.BatchSize = 1, 2
	if report, err := replay.Run(t.Context()); err != nil || report.Done != 4 || report.Failed != 1 {
		t.Errorf("%+v, %v", report, err)
	}
}

// Entries without a valid target keep their state. The others of their batch are published.
func TestRefusedEntriesStayWhatTheyWere(t *testing.T) {
	cluster := newKafka(t)
	there := newStore(t, 12, func(i int, entry *store.Entry) {
		switch i % 4 {
		case 1:
			entry.Source.Topic = "gone"
		case 2: // a dead letter without metadata
			entry.Source, entry.Dialect = entry.Letter, "raw"
		}
	})
	before := all(t, there)
	replay := newReplay(there, newPublisher(t, cluster, "default"))
	report, err := replay.Run(t.Context())
	if err != nil || report.Done != 6 || report.Failed != 6 || len(report.Failures) != 6 {
		t.Errorf("%+v, %v", report, err)
	}
	told := strings.Join(report.Failures, "\n")
	if !strings.Contains(told, "there is no topic gone") || !strings.Contains(told, "give the target by hand (--to)") {
		t.Error(told)
	}
	if values := written(t, cluster, "orders"); len(values) != 6 {
		t.Errorf("%d values", len(values))
	}
	for i, entry := range all(t, there, store.Pending) {
		if !entry.NextRetryAt.Equal(before[i].NextRetryAt) || entry.LockedBy != "" ||
			len(entry.RetryHistory) != 1 || entry.RetryHistory[0].Result != worker.FailedAgain || entry.DLQRetryCount != 0 {
			t.Errorf("%+v", entry)
		}
	}
	replay.To = "orders"
	if report, err = replay.Run(t.Context()); err != nil || report.Done != 6 {
		t.Errorf("to a topic given by hand: %+v, %v", report, err)
	}
}

// A refused entry is updated, and so comes up again in the order of updates, but is tried only once. If the brokers
// refuse a record of a batch, nothing is published until the others go without it. The refused entry keeps its previous
// state, whatever that was.
func TestWhatABrokerRefusesHoldsUpNobody(t *testing.T) {
	cluster := newKafka(t)
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "orders.dlq", Err: kerr.MessageTooLarge, Count: -1})
	there := newStore(t, 4, func(i int, entry *store.Entry) {
		if i == 2 {
			entry.Source.Topic = "orders.dlq"
		}
	})
	for _, entry := range all(t, there) {
		lock := store.Lock{ID: entry.ID, Worker: "w", Version: entry.Version + 1}
		must.Do(t, there.Alter(t.Context(), entry.ID, entry.Version, store.Change{State: store.Processing, Worker: "w",
			Lease: time.Minute}))
		must.Do(t, there.Settle(t.Context(), lock, store.Change{State: store.Manual}))
	}
	publisher := newPublisher(t, cluster, "default")
	report, err := newReplay(there, publisher).Run(t.Context())
	if err != nil || report.Done != 3 || report.Failed != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	if values := written(t, cluster, "orders"); len(values) != 3 || values[`{"id":"o0"}`] != 1 ||
		values[`{"id":"o1"}`] != 1 || values[`{"id":"o3"}`] != 1 {
		t.Errorf("written %v", values)
	}
	if left := all(t, there, store.Manual); len(left) != 1 || left[0].Source.Topic != "orders.dlq" ||
		len(left[0].RetryHistory) != 1 {
		t.Errorf("left are %+v", left)
	}
	noted, err := publisher.Recall(t.Context())
	if err != nil || len(noted) != 3 {
		t.Errorf("noted are %v, %v", noted, err)
	}
}

func TestRefusedEntriesAreTriedOnce(t *testing.T) {
	cluster := newKafka(t)
	there := newStore(t, pageSize+20, func(_ int, entry *store.Entry) { entry.Source.Topic = "gone" })
	replay := newReplay(there, newPublisher(t, cluster, "default"))
	replay.Query.OrderBy, replay.BatchSize = "updatedAt", 100
	ctx, cancel := context.WithTimeout(t.Context(), testDeadline)
	defer cancel()
	if report, err := replay.Run(ctx); err != nil || report.Selected != pageSize+20 || report.Failed != pageSize+20 {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestLockedAndChangedEntriesAreSkipped(t *testing.T) {
	cluster := newKafka(t)
	there := newStore(t, 4, nil)
	entries := all(t, there)
	stale := &readOnce{Store: there, then: func() {
		change := store.Change{State: store.Processing, Worker: "node-2", Lease: time.Minute}
		if err := there.Alter(t.Context(), entries[0].ID, entries[0].Version, change); err != nil {
			t.Error(err)
		}
		if err := Edit(t.Context(), there, entries[1], []byte("x"), ""); err != nil {
			t.Error(err)
		}
	}}
	report, err := newReplay(stale, newPublisher(t, cluster, "default")).Run(t.Context())
	if err != nil || report.Done != 2 || report.Skipped != 2 {
		t.Errorf("%+v, %v", report, err)
	}
}

// readOnce calls a hook between the listing and the next step.
type readOnce struct {
	store.Store
	once sync.Once
	then func()
}

func (r *readOnce) List(ctx context.Context, query store.Query) ([]store.Entry, string, error) {
	page, after, err := r.Store.List(ctx, query)
	if len(page) > 0 {
		r.once.Do(r.then)
	}
	return page, after, err
}

// killable allows a number of steps. After that, everything fails as if the process were gone.
type killable struct {
	store.Store
	Publisher
	mu    sync.Mutex
	steps int
	kill  func()
}

var errKilled = errors.New("killed")

func (k *killable) step() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.steps--; k.steps == -1 && k.kill != nil {
		k.kill()
	}
	if k.steps < 0 {
		return errKilled
	}
	return nil
}

func (k *killable) Alter(ctx context.Context, id string, version int64, change store.Change) error {
	if err := k.step(); err != nil {
		return err
	}
	return k.Store.Alter(ctx, id, version, change)
}

func (k *killable) Settle(ctx context.Context, lock store.Lock, change store.Change) error {
	if err := k.step(); err != nil {
		return err
	}
	return k.Store.Settle(ctx, lock, change)
}

func (k *killable) Recall(ctx context.Context) (map[string]bool, error) {
	if err := k.step(); err != nil {
		return nil, err
	}
	return k.Publisher.Recall(ctx)
}

func (k *killable) Publish(ctx context.Context, batch []Outgoing) (map[string]error, error) {
	if err := k.step(); err != nil {
		return nil, err
	}
	refused, err := k.Publisher.Publish(ctx, batch)
	if err == nil {
		err = k.step() // published, but killed before it got the answer
	}
	return refused, err
}

// A replay is killed at each of its steps in turn: at each lock, before and after each publication, at each resolution.
// The next replay continues, and nothing is written twice.
func TestAReplayThatIsKilledAtAnyStepGoesOn(t *testing.T) {
	t.Parallel()
	const count = 7
	for steps := 0; ; steps++ {
		cluster := newKafka(t)
		there := newStore(t, count, nil)
		manual := all(t, there)[0]
		claimed, err := there.Claim(t.Context(), "w", time.Minute, 1)
		if err != nil || len(claimed) != 0 {
			t.Fatal(claimed, err)
		}
		publisher := newPublisher(t, cluster, "default")
		killed := &killable{Store: there, Publisher: publisher, steps: steps, kill: func() {}}
		replay := newReplay(killed, killed)
		replay.BatchSize, replay.Concurrency = 3, 1
		_, err = replay.Run(t.Context())
		publisher.Close()
		if err == nil {
			if steps < 2*count+6 {
				t.Fatalf("it was through after %d steps", steps)
			}
			return
		}
		again := newReplay(there, newPublisher(t, cluster, "default"))
		again.BatchSize = 3
		report, err := again.Run(t.Context())
		if err != nil {
			t.Fatalf("killed at step %d: %v", steps, err)
		}
		onceEach(t, written(t, cluster, "orders"), count)
		if left := all(t, there, store.Pending, store.Processing, store.Manual, store.Failed); len(left) != 0 {
			t.Errorf("killed at step %d: %d are left, first %+v (report %+v; %s)", steps, len(left), left[0], report, manual.ID)
		}
		if t.Failed() {
			t.Fatalf("killed at step %d", steps)
		}
	}
}

// The same is tested at each request of a transaction: the connection breaks before the broker has received the
// request, and the process is gone.
func TestAReplayThatIsKilledInItsTransactionGoesOn(t *testing.T) {
	t.Parallel()
	const count = 7
	for _, key := range []kmsg.Key{kmsg.InitProducerID, kmsg.Produce, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit,
		kmsg.EndTxn} {
		for nth := 1; nth <= 2; nth++ {
			if key == kmsg.InitProducerID && nth > 1 {
				continue
			}
			cluster := newKafka(t)
			there := newStore(t, count, nil)
			publisher := newPublisher(t, cluster, "default")
			ctx, cancel := context.WithCancel(t.Context())
			seen, gone := 0, false
			var mu sync.Mutex
			cluster.Control(func(request kmsg.Request) (kmsg.Response, error, bool) {
				cluster.KeepControl()
				mu.Lock()
				defer mu.Unlock()
				if kmsg.Key(request.Key()) == key && !gone {
					if seen++; seen == nth {
						gone = true
						cancel()
						go publisher.Close()
					}
				}
				if gone {
					return nil, errKilled, true
				}
				return nil, nil, false
			})
			replay := newReplay(there, publisher)
			replay.BatchSize = 3
			if _, err := replay.Run(ctx); err == nil {
				t.Fatalf("key %d: it was not killed", key)
			}
			cancel()
			mu.Lock()
			gone, seen = false, 100
			mu.Unlock()
			again := newReplay(there, newPublisher(t, cluster, "default"))
			if _, err := again.Run(t.Context()); err != nil {
				t.Fatalf("key %d: %v", key, err)
			}
			onceEach(t, written(t, cluster, "orders"), count)
			if left := all(t, there, store.Pending, store.Processing); len(left) != 0 {
				t.Errorf("key %d, request %d: %d are left", key, nth, len(left))
			}
			if t.Failed() {
				t.Fatalf("killed at request %d with key %d", nth, key)
			}
		}
	}
}

// Of two replays with one name, the later one takes over. Together they write everything once.
func TestALaterReplayTakesOver(t *testing.T) {
	t.Parallel()
	cluster := newKafka(t)
	there := newStore(t, 30, nil)
	first := newPublisher(t, cluster, "default")
	reached, resume := make(chan struct{}), make(chan struct{})
	paused := &pausing{Publisher: first, reached: reached, resume: resume}
	earlier := newReplay(there, paused)
	ended := make(chan error, 1)
	go func() {
		_, err := earlier.Run(t.Context())
		ended <- err
	}()
	select {
	case <-reached:
	case <-time.After(testDeadline):
		t.Fatal("the first replay doesn't publish")
	}
	report, err := newReplay(there, newPublisher(t, cluster, "default")).Run(t.Context())
	if err != nil || report.Recalled != 10 || report.Confirmed != 0 || report.Done != 30 {
		t.Errorf("%+v, %v", report, err)
	}
	close(resume)
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the first replay doesn't notice")
		}
	case <-time.After(testDeadline):
		t.Fatal("the first replay doesn't end")
	}
	onceEach(t, written(t, cluster, "orders"), 30)
}

// pausing delays the first publication.
type pausing struct {
	Publisher
	once            sync.Once
	reached, resume chan struct{}
}

func (p *pausing) Publish(ctx context.Context, batch []Outgoing) (map[string]error, error) {
	p.once.Do(func() {
		close(p.reached)
		<-p.resume
	})
	return p.Publisher.Publish(ctx, batch)
}

func TestBatchesAreNoted(t *testing.T) {
	var batch []Outgoing
	for i := range MaxBatch {
		batch = append(batch, Outgoing{ID: fmt.Sprintf("0198f3c2-8d1e-7b7a-9c55-0f3c2a9d%04x", i)})
	}
	text := encodeIDs(batch)
	if len(text) > 4096 {
		t.Errorf("%d bytes", len(text))
	}
	batch = append(batch[:2], Outgoing{ID: "507f1f77bcf86cd799439011"})
	ids := decodeIDs(encodeIDs(batch))
	if len(ids) != 3 || !ids[batch[0].ID] || !ids[batch[1].ID] || !ids["507f1f77bcf86cd799439011"] {
		t.Errorf("%v", ids)
	}
	if ids := decodeIDs(""); len(ids) != 0 {
		t.Errorf("%v", ids)
	}
}

func TestReplaysThatCanNotWorkAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Replay){
		"no batch": func(r *Replay) { r.BatchSize = 0 }, "batch": func(r *Replay) { r.BatchSize = MaxBatch + 1 },
		"concurrency": func(r *Replay) {
			r.Concurrency = 0
		}, "no name": func(r *Replay) { r.Name = "" }, "name": func(r *Replay) { r.Name = "a:b" },
	} {
		replay := newReplay(nil, nil)
		change(&replay)
		if replay.Validate() == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
}
