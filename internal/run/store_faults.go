package run

// Faults of the dead-letter store: what the injector needs of the run. Its database ends and comes back with the
// same port, so that the link before it stays valid. A worker with a wrong clock is the same slot, restarted. The
// run itself repeats dead letters, on its own connection.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/faults/network"
	faultstore "github.com/dlqbench/dlqbench/faults/store"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/postgres"
	"github.com/dlqbench/dlqbench/internal/kafkaio"
)

// repeatLimit bounds reading the dead letters and writing them again.
const repeatLimit = 20 * time.Second

// breakage is the state of the store's faults that other parts of the run need.
type breakage struct {
	mu      sync.Mutex
	offsets map[int]time.Duration // offsets of the workers' clocks
	watched map[int]func()        // called for each entry that the worker is observed to lock
	copies  map[topicPartition]map[int64]bool
}

// storeFaults returns the injector of faults of the dead-letter store.
func (r *run) storeFaults() faults.Injector {
	injector := &faultstore.Injector{Workers: storeWorkers{r}, Letters: storeDeadLetters{r}}
	if r.store.server != nil {
		injector.Database = &privateDatabase{server: r.store.server, links: r.links[network.LinkStore]}
	}
	if r.store.probe != nil {
		injector.Health = r.store.probe
	}
	return storeInjector{injector, forgiving{injector, r.options.Log}}
}

// storeInjector separates two kinds of failed healing. A worker that does not come back is judged by the work it
// leaves unfinished. A database that does not come back is the run's fault.
type storeInjector struct{ strict, forgiving faults.Injector }

// Inject implements faults.Injector.
func (s storeInjector) Inject(ctx context.Context, active faults.Active) (faults.Heal, error) {
	if spec, is := active.Fault.(*faultstore.Store); is && spec.OfWorker() {
		return s.forgiving.Inject(ctx, active)
	}
	return s.strict.Inject(ctx, active)
}

// privateDatabase is a server that only this run uses. If two faults want it down at the same time, it is up again
// when the first of them ends.
type privateDatabase struct {
	server *postgres.Server
	links  []network.Link
	mu     sync.Mutex
	down   bool
}

// Stop implements faultstore.Database.
func (d *privateDatabase) Stop(context.Context) (int, error) { return d.end(d.server.Stop) }

// Crash implements faultstore.Database.
func (d *privateDatabase) Crash(context.Context) (int, error) { return d.end(d.server.Crash) }

func (d *privateDatabase) end(by func() error) (connections int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down {
		return 0, nil
	}
	for _, link := range d.links {
		connections += link.Connections()
	}
	d.down = true
	return connections, by()
}

// Resume implements faultstore.Database.
func (d *privateDatabase) Resume(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.down {
		return nil
	}
	d.down = false
	return d.server.Resume(ctx)
}

// storeWorkers implements faultstore.Workers.
type storeWorkers struct{ r *run }

// SetClock implements faultstore.Workers.
func (s storeWorkers) SetClock(ctx context.Context, worker int, offset time.Duration) error {
	r := s.r
	r.store.broken.mu.Lock()
	r.store.broken.offsets[worker] = offset
	r.store.broken.mu.Unlock()
	slot := r.header.Instances + r.scenario.Store.Routers + worker
	if r.subject.Alive(slot) {
		if _, err := r.subject.End(ctx, slot, syscall.SIGTERM); err != nil && r.subject.Alive(slot) {
			return fmt.Errorf("ending worker %d: %w", worker, err)
		}
	}
	if err := r.subject.Revive(ctx, slot); err != nil {
		return fmt.Errorf("starting worker %d with its clock %s off: %w", worker, offset, err)
	}
	return nil
}

// WatchLocks implements faultstore.Workers. The injector watches a worker for one fault at a time.
func (s storeWorkers) WatchLocks(worker int, locked func()) (end func()) {
	set := func(to func()) {
		s.r.store.broken.mu.Lock()
		defer s.r.store.broken.mu.Unlock()
		s.r.store.broken.watched[worker] = to
	}
	set(locked)
	return func() { set(nil) }
}

// clockOffset returns the offset that the worker's clock is to have.
func (r *run) clockOffset(worker int) time.Duration {
	r.store.broken.mu.Lock()
	defer r.store.broken.mu.Unlock()
	return r.store.broken.offsets[worker]
}

// lockCounter tells faults which entries each worker is observed to lock.
type lockCounter struct{ r *run }

// Record implements history.Sink.
func (l lockCounter) Record(event history.Event) {
	if kind, number := history.StoreProcess(event.Instance); kind == "worker" && event.Kind == history.KindStoreChange {
		said, err := history.ParseStoreChange(event.Text)
		if err == nil && said.To == history.StoreProcessing && said.From != history.StoreProcessing {
			l.r.store.broken.mu.Lock()
			locked := l.r.store.broken.watched[number]
			l.r.store.broken.mu.Unlock()
			if locked != nil {
				locked()
			}
		}
	}
	l.r.live.Record(event)
}

// storeDeadLetters implements faultstore.Letters.
type storeDeadLetters struct{ r *run }

// Repeat implements faultstore.Letters. Each copy goes to a randomly drawn partition, so routers read some copies
// before the dead letters that they duplicate.
func (s storeDeadLetters) Repeat(ctx context.Context, share float64, seed uint64) (written, outOfOrder int, err error) {
	ctx, cancel := context.WithTimeout(ctx, repeatLimit)
	defer cancel()
	r, random := s.r, rand.New(rand.NewPCG(seed, 1))
	topic, partitions := r.topic(history.RoleDLQ), r.scenario.Topics.DLQ.Partitions
	var copies []*kgo.Record
	if err := r.readTopic(ctx, topic, func(letter *kgo.Record) {
		if random.Float64() < share {
			copies = append(copies, &kgo.Record{
				Topic: topic, Partition: int32(random.IntN(partitions)), Key: letter.Key, Value: letter.Value,
				Headers: letter.Headers, Timestamp: letter.Timestamp,
			})
		}
	}); err != nil {
		return 0, 0, err
	}
	order := random.Perm(len(copies))
	shuffled, youngest := make([]*kgo.Record, len(copies)), -1
	for i, which := range order {
		shuffled[i] = copies[which]
		if which < youngest {
			outOfOrder++
		}
		youngest = max(youngest, which)
	}
	client, err := kgo.NewClient(slices.Concat(r.cluster.client, kafkaio.Writing(r.cluster.client),
		[]kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner())})...)
	if err != nil {
		return 0, 0, err
	}
	defer client.Close()
	if err := client.ProduceSync(ctx, shuffled...).FirstErr(); err != nil {
		return 0, 0, err
	}
	r.keepCopies(shuffled)
	return len(shuffled), outOfOrder, nil
}

// keepCopies remembers the records that the run wrote itself.
func (r *run) keepCopies(copies []*kgo.Record) {
	r.store.broken.mu.Lock()
	defer r.store.broken.mu.Unlock()
	for _, one := range copies {
		at := topicPartition{r.header.TopicIndex(one.Topic), one.Partition}
		if r.store.broken.copies[at] == nil {
			r.store.broken.copies[at] = map[int64]bool{}
		}
		r.store.broken.copies[at][one.Offset] = true
	}
}

// repeated reports whether the run wrote the record itself.
func (r *run) repeated(topic int16, record *kgo.Record) bool {
	r.store.broken.mu.Lock()
	defer r.store.broken.mu.Unlock()
	return r.store.broken.copies[topicPartition{topic, record.Partition}][record.Offset]
}
