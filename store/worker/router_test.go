package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/internal/testkit/kafkatest"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/open"
)

// faultyStore fails the operations that fault selects.
type faultyStore struct {
	store.Store
	mu    sync.Mutex
	fault func(entries []store.Entry) error
	asked int
}

func (f *faultyStore) Ingest(ctx context.Context, entries []store.Entry) (int, error) {
	f.mu.Lock()
	f.asked++
	fault := f.fault
	f.mu.Unlock()
	if fault != nil {
		if err := fault(entries); err != nil {
			return 0, err
		}
	}
	return f.Store.Ingest(ctx, entries)
}

func (f *faultyStore) set(fault func([]store.Entry) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

func (f *faultyStore) times() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

func TestDuplicatesAndDisorderMakeOneEntryEach(t *testing.T) {
	t.Parallel()
	b := newBench(t, 3)
	var letters []*kgo.Record
	for range 3 {
		for i := range 200 {
			one := letter(int32(i%3), i, "timeout")
			one.Partition = rand.Int32N(3) // duplicates may be anywhere
			letters = append(letters, one)
		}
	}
	rand.Shuffle(len(letters), func(i, j int) { letters[i], letters[j] = letters[j], letters[i] })
	b.produce(letters...)
	config := b.routerConfig()
	config.BatchSize = 37
	b.route(config)
	b.route(config)
	b.eventually("all offsets are committed", func() bool { return b.committed(0)+b.committed(1)+b.committed(2) == 600 })
	seen := map[store.Place]bool{}
	for _, entry := range b.entries(store.Query{}) {
		if seen[entry.Source] {
			t.Errorf("%v is there twice", entry.Source)
		}
		seen[entry.Source] = true
		if entry.Source.Topic != sourceTopic || entry.Letter.Topic != dlqTopic ||
			entry.Dialect != deadletter.PlainName || entry.Error.Message != "timeout" ||
			entry.RetryCount != 3 || string(entry.Headers[0].Value) != "t" || len(entry.Headers) != 1 ||
			entry.Strategy != store.Immediate {
			t.Errorf("entry %+v", entry)
		}
	}
	if len(seen) != 200 {
		t.Errorf("%d entries, want 200", len(seen))
	}
}

// A router that dies between the store's answer and the commit gets its dead letters again, and so does one whose
// commits are refused.
func TestDeadLettersThatComeAgainAreLeftOut(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	for i := range 50 {
		b.produce(letter(0, i, "timeout"))
	}
	fault := b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.GroupAuthorizationFailed,
		Count: -1})
	stop := b.route(b.routerConfig())
	b.eventually("all are stored", func() bool { return b.count() == 50 })
	b.eventually("the commit is refused", func() bool { return b.log.Has("were not committed") })
	stop()
	if at := b.committed(0); at != 0 {
		t.Fatalf("committed %d", at)
	}
	fault.Remove()
	b.route(b.routerConfig())
	b.eventually("the offsets are committed", func() bool { return b.committed(0) == 50 })
	if n := b.count(); n != 50 {
		t.Errorf("%d entries", n)
	}
}

// refusing returns a router's configuration with a store that refuses everything until it is set otherwise.
func (b *bench) refusing() (RouterConfig, *faultyStore) {
	there := &faultyStore{Store: b.store}
	there.set(func([]store.Entry) error { return errors.New("connection reset by peer") })
	config := b.routerConfig()
	config.Store = there
	return config, there
}

func TestNothingIsCommittedWhileTheStoreRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	config, there := b.refusing()
	for i := range 40 {
		b.produce(letter(0, i, "timeout"))
	}
	stop := b.route(config)
	b.eventually("it is tried again and again", func() bool { return there.times() > 4 })
	if at, n := b.committed(0), b.count(); at != 0 || n != 0 {
		t.Errorf("committed %d, stored %d", at, n)
	}
	if !b.log.Has(`"level":"error"`) || !b.log.Has("nothing is committed, and it goes on") ||
		!b.log.Has("connection reset by peer") {
		t.Error("the trouble is not in the log")
	}
	there.set(nil)
	b.eventually("all are stored and committed", func() bool { return b.count() == 40 && b.committed(0) == 40 })
	b.eventually("the log says so", func() bool { return b.log.Has(`"state":"recovered"`) })
	stop()
}

func TestAStoppedRouterDoesNotWaitForItsStore(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	config, there := b.refusing()
	b.produce(letter(0, 0, "timeout"))
	stop := b.route(config)
	b.eventually("it is tried again and again", func() bool { return there.times() > 2 })
	stop()
	if at := b.committed(0); at != 0 {
		t.Errorf("committed %d", at)
	}
}

// While one router waits for its store, the group continues: another router takes over. When the first one's store is
// back, it must not set the progress back.
func TestPartitionsMoveAwayFromARouterThatWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2)
	waiting, there := b.refusing()
	for i := range 100 {
		b.produce(letter(int32(i%2), i, "timeout"))
	}
	stop := b.route(waiting)
	b.eventually("the first one waits", func() bool { return there.times() > 2 })
	b.route(b.routerConfig())
	b.eventually("the other one has stored a partition", func() bool {
		return b.count() == 50 && b.committed(0)+b.committed(1) == 50
	})
	for i := range 20 {
		b.produce(letter(int32(i%2), 100+i, "timeout"))
	}
	b.eventually("and what came after", func() bool { return b.committed(0)+b.committed(1) == 60 })
	there.set(nil)
	b.eventually("both are stored and committed", func() bool {
		return b.count() == 120 && b.committed(0) == 60 && b.committed(1) == 60
	})
	stop()
	if b.committed(0) != 60 || b.committed(1) != 60 {
		t.Errorf("committed %d and %d", b.committed(0), b.committed(1))
	}
}

// A partition that was revoked and assigned again since its dead letters were fetched counts as a new assignment,
// because the owner in between may have got further.
func TestWhatWasTakenAwayIsNotCommitted(t *testing.T) {
	log := &kafkatest.Log{}
	at := topicPartition{dlqTopic, 0}
	r := &router{RouterConfig: RouterConfig{Logger: zerolog.New(log)}, owned: map[topicPartition]int{at: 3}}
	one := letter(0, 1, "timeout")
	for _, fetched := range []map[topicPartition]int{{at: 1}, {}} {
		r.commit(t.Context(), []*kgo.Record{one}, fetched) // would need the missing client
	}
	if log.String() != "" {
		t.Error(log)
	}
}

func TestADeadLetterThatCanNotBeStoredIsNamedAndNotPassed(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	there := &faultyStore{Store: b.store}
	there.set(func(entries []store.Entry) error {
		for _, entry := range entries {
			if entry.Source.Offset == 23 {
				return errors.New("value too long")
			}
		}
		return nil
	})
	config := b.routerConfig()
	config.Store, config.BatchSize = there, 8
	for i := range 40 {
		b.produce(letter(0, i, "timeout"))
	}
	b.route(config)
	b.eventually("what comes before it is stored and committed", func() bool {
		return b.committed(0) == 23 && b.count() == 23
	})
	b.eventually("it is named", func() bool { return b.log.Has("storing the dead letter at orders.dlq-0@23") })
	if at, n := b.committed(0), b.count(); at != 23 || n != 23 {
		t.Errorf("committed %d, stored %d", at, n)
	}
	there.set(nil)
	b.eventually("all are stored and committed", func() bool { return b.committed(0) == 40 && b.count() == 40 })
}

func TestAFullStoreLosesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	small := must.Get(open.Store(t.Context(), b.address+"?_pragma=max_page_count(200)", store.Options{}))(t)
	t.Cleanup(func() { small.Close() })
	config := b.routerConfig()
	config.Store, config.BatchSize = small, 50
	long := strings.Repeat("at stock.Client.reserve(Client.java:42)\n", 10)
	for i := range 1000 {
		b.produce(letter(0, i, long))
	}
	stop := b.route(config)
	b.eventually("the store is full", func() bool { return b.log.Has(`"state":"full"`) })
	b.eventually("what is stored is committed", func() bool { return b.committed(0) == b.count() })
	if at := b.committed(0); at == 0 || at >= 1000 {
		t.Fatalf("committed %d", at)
	}
	stop()
	b.route(b.routerConfig()) // this one has space
	b.eventually("all are stored and committed", func() bool { return b.committed(0) == 1000 && b.count() == 1000 })
}

func TestWhatNoDialectOpensIsKeptRaw(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	letters := []*kgo.Record{
		{Topic: dlqTopic, Key: []byte{0xff, 0}, Value: []byte{0xde, 0xad, 0},
			Headers: []kgo.RecordHeader{{Key: "trace", Value: nil}, {Key: "trace", Value: []byte{0xff}}}},
		{Topic: dlqTopic},
		{Topic: dlqTopic, Value: []byte(
			`{"id":7,"source":"not an object","metadata":{"priority":3,"tags":["a"],"source":"payments"}}`)},
	}
	b.produce(letters...)
	b.route(b.routerConfig())
	b.eventually("all are stored and committed", func() bool { return b.committed(0) == 3 && b.count() == 3 })
	for _, entry := range b.entries(store.Query{}) {
		want := letters[entry.Letter.Offset]
		if entry.Dialect != deadletter.RawName || entry.Source != entry.Letter ||
			string(entry.Value) != string(want.Value) || string(entry.Key) != string(want.Key) ||
			len(entry.Headers) != len(want.Headers) || entry.Strategy != store.ByHand ||
			(entry.Value == nil) != (want.Value == nil) {
			t.Errorf("entry %+v", entry)
		}
		if _, err := Prepare(entry); !errors.Is(err, errNoTarget) {
			t.Errorf("a replay of a raw dead letter: %v", err)
		}
		if entry.Letter.Offset == 2 && (entry.EventID != "7" || entry.Priority != 3 || entry.Service != "payments" ||
			len(entry.Tags) != 1) {
			t.Errorf("entry %+v", entry)
		}
	}
}

func TestDialectsThatAreNamedAreHeld(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	broken := letter(0, 1, "timeout")
	broken.Headers = broken.Headers[:len(broken.Headers)-2] // offset and epoch are lost
	b.produce(letter(0, 0, "timeout"), broken, &kgo.Record{Topic: dlqTopic, Value: []byte("x")})
	config := b.routerConfig()
	config.Dialect = deadletter.PlainName
	b.route(config)
	b.eventually("all are stored", func() bool { return b.count() == 3 })
	for _, entry := range b.entries(store.Query{}) {
		switch entry.Letter.Offset {
		case 0:
			if entry.Dialect != deadletter.PlainName || entry.Source.Topic != sourceTopic {
				t.Errorf("entry %+v", entry)
			}
		case 1: // names no source, but the target topic
			record, err := Prepare(entry)
			if entry.Dialect != deadletter.PlainName || entry.Source != entry.Letter || err != nil ||
				record.Topic != sourceTopic || !strings.Contains(string(entry.Error.Context), `"missing":["offset","epoch"]`) {
				t.Errorf("entry %+v, context %s, replay %v %v", entry, entry.Error.Context, record, err)
			}
		case 2:
			if entry.Dialect != deadletter.RawName {
				t.Errorf("entry %+v", entry)
			}
		}
	}
}

// The dead letters of hexkit name the target of their replay. Several retries of one entry share one event id, so that
// a repeated one can be recognised.
func TestReplaysGoWhereTheDialectSays(t *testing.T) {
	t.Parallel()
	hexkit := deadletter.Hexkit{}
	record := &kgo.Record{Topic: "users", Partition: 1, Offset: 9, Key: []byte("k"), Value: []byte(`{"name":"x"}`),
		Headers: []kgo.RecordHeader{
			{Key: "type", Value: []byte("user.created")}, {Key: "correlation_id", Value: []byte("c")},
			{Key: "event_id", Value: []byte("0198f3c2-8d1e-4b7a-9c55-0f3c2a9d1e77")},
		}}
	sealed := hexkit.Seal(record, deadletter.Failure{Reason: "boom", Class: "TimeoutError", Topic: "users", Partition: 1,
		Offset: 9, Attempts: 3, Service: "mailer"})
	sealed.Topic, sealed.Partition, sealed.Offset = "dlq", 0, 4
	name, opener := deadletter.Detect(sealed)
	entry := newEntry(sealed, name, opener)
	if entry.Dialect != deadletter.HexkitName || entry.Service != "mailer" ||
		entry.Pattern != "user.created" || Analyse(entry.Error) != Transient ||
		entry.Source != (store.Place{Topic: "dlq", Offset: 4}) {
		t.Errorf("entry %+v", entry)
	}
	first, err := Prepare(entry)
	second, _ := Prepare(entry)
	if err != nil || first.Topic != "retry-mailer" || fmt.Sprint(first.Headers) != fmt.Sprint(second.Headers) {
		t.Errorf("replays %+v, %+v, %v", first, second, err)
	}
	for _, header := range first.Headers {
		if header.Key == "service" || strings.HasPrefix(header.Key, "exc_") {
			t.Errorf("the replay has %s", header.Key)
		}
	}
}

func TestMonstrousDeadLettersAreStored(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1)
	stack := strings.Repeat("at stock.Client.reserve(Client.java:42)\n", 10<<20/40)
	one := letter(0, 0, "timeout \xff\xfe")
	one.Headers = append(one.Headers, kgo.RecordHeader{Key: "stack", Value: []byte(stack)},
		kgo.RecordHeader{Key: "source-topic", Value: []byte(sourceTopic)})
	client := must.Get(kgo.NewClient(kgo.SeedBrokers(b.cluster.ListenAddrs()...), kgo.ProducerBatchMaxBytes(16<<20)))(t)
	defer client.Close()
	alter := b.admin
	must.Get(alter.AlterTopicConfigs(t.Context(), nil, dlqTopic))(t)
	must.Do(t, client.ProduceSync(t.Context(), one).FirstErr())
	b.route(b.routerConfig())
	b.eventually("it is stored and committed", func() bool { return b.count() == 1 && b.committed(0) == 1 })
	entry := b.entries(store.Query{})[0]
	if header := entry.Headers[len(entry.Headers)-1]; len(header.Value) != len(stack) {
		t.Errorf("%d bytes of %d are left", len(header.Value), len(stack))
	}
}

func TestRoutersThatCanNotWorkAreRefused(t *testing.T) {
	there := &faultyStore{}
	for name, change := range map[string]func(*RouterConfig){
		"no brokers": func(c *RouterConfig) { c.Bootstrap = nil },
		"no topics":  func(c *RouterConfig) { c.Topics = nil },
		"no group":   func(c *RouterConfig) { c.Group = "" },
		"no store":   func(c *RouterConfig) { c.Store = nil },
		"batch":      func(c *RouterConfig) { c.BatchSize = 0 },
		"dialect":    func(c *RouterConfig) { c.Dialect = "plane" },
		"hours":      func(c *RouterConfig) { c.Strategies.OffPeak.Zone = nil },
	} {
		config := RouterConfig{Bootstrap: []string{"127.0.0.1:1"}, Topics: []string{"dlq"}, Group: "g", Store: there,
			BatchSize: 1, Strategies: DefaultStrategies()}
		change(&config)
		var wrong *ConfigError
		if err := Route(t.Context(), config); !errors.As(err, &wrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
