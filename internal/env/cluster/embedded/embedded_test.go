package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of these tests; no step is expected to take that long.
const patience = 60 * time.Second

func start(t *testing.T, brokers int, topics ...cluster.Topic) *Kafka {
	t.Helper()
	e := must.Get(Start(testContext(t),
		Options{Brokers: brokers, Dir: t.TempDir(), Log: zerolog.New(zerolog.NewTestWriter(t))}))(t)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	must.Do(t, e.CreateTopics(testContext(t), topics))
	return e
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func client(t *testing.T, e *Kafka, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(e.Bootstrap()...),
		kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.AlwaysRetryEOF(), // a broker may stop before it answers the first request of a connection
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.FetchMaxWait(200 * time.Millisecond),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseAllowingRebalance)
	return c
}

// metadata asks one broker for its view of the cluster.
func metadata(t *testing.T, c *kgo.Client, broker int32) *kmsg.MetadataResponse {
	t.Helper()
	response := must.Get(c.Broker(int(broker)).RetriableRequest(testContext(t), kmsg.NewPtrMetadataRequest()))(t)
	return response.(*kmsg.MetadataResponse)
}

func partition(t *testing.T, response *kmsg.MetadataResponse, topic string,
	partition int32) kmsg.MetadataResponseTopicPartition {
	t.Helper()
	for _, tp := range response.Topics {
		if tp.Topic == nil || *tp.Topic != topic {
			continue
		}
		for _, p := range tp.Partitions {
			if p.Partition == partition {
				return p
			}
		}
	}
	t.Fatalf("metadata has no partition %d of topic %s", partition, topic)
	return kmsg.MetadataResponseTopicPartition{}
}

func brokerIDs(response *kmsg.MetadataResponse) string {
	ids := make([]string, 10)
	for _, b := range response.Brokers {
		ids[b.NodeID] = strconv.Itoa(int(b.NodeID))
	}
	return strings.Join(ids, "")
}

func TestBrokersAreNumberedFromOne(t *testing.T) {
	for _, brokers := range []int{1, 3, cluster.MaxBrokers} {
		t.Run(strconv.Itoa(brokers), func(t *testing.T) {
			e := start(t, brokers, cluster.Topic{Name: "input", Partitions: 2 * brokers})
			c := client(t, e)
			got := metadata(t, c, 1)
			if want := "123456789"[:brokers]; brokerIDs(got) != want {
				t.Errorf("metadata lists brokers %s, want %s", brokerIDs(got), want)
			}
			for _, listed := range got.Brokers {
				if want := e.Brokers()[listed.NodeID-1].Address; net.JoinHostPort(listed.Host,
					strconv.Itoa(int(listed.Port))) != want {
					t.Errorf("broker %d is listed at %s:%d, want %s", listed.NodeID, listed.Host, listed.Port, want)
				}
			}
			for p := range int32(2 * brokers) {
				if leader := partition(t, got, "input", p).Leader; leader != p%int32(brokers)+1 {
					t.Errorf("partition %d is led by broker %d, want %d", p, leader, p%int32(brokers)+1)
				}
			}
			if got.ControllerID != e.Controller() {
				t.Errorf("the controller is %d, metadata says %d", e.Controller(), got.ControllerID)
			}
		})
	}
}

func TestWrongRequestsAreRefused(t *testing.T) {
	e := start(t, 2, cluster.Topic{Name: "input", Partitions: 1})
	ctx := testContext(t)
	refusals := []struct {
		says string
		call func() error
	}{
		{"10 brokers were asked for", func() error {
			_, err := Start(ctx, Options{Brokers: cluster.MaxBrokers + 1, Dir: t.TempDir()})
			return err
		}},
		{"no directory", func() error { _, err := Start(ctx, Options{Brokers: 1}); return err }},
		{"TOPIC_ALREADY_EXISTS", func() error {
			return e.CreateTopics(ctx, []cluster.Topic{{Name: "input", Partitions: 1}})
		}},
		{"0 partitions", func() error { return e.CreateTopics(ctx, []cluster.Topic{{Name: "other"}}) }},
		{"lie on broker 3", func() error {
			return e.CreateTopics(ctx, []cluster.Topic{{Name: "other", Partitions: 1, Broker: 3}})
		}},
		{"brokers 1 to 2", func() error { return stop(e)(ctx, 3) }},
		{"starting broker 1: it is running", func() error { return e.StartBroker(ctx, 1) }},
		{"stopping broker 1: it is stopped already", func() error { return errors.Join(stop(e)(ctx, 1), stop(e)(ctx, 1)) }},
	}
	for _, refusal := range refusals {
		if err := refusal.call(); err == nil || !strings.Contains(err.Error(), refusal.says) {
			t.Errorf("got %v, want an error that says %q", err, refusal.says)
		}
	}
	must.Do(t, e.Close())
	_, lookup := e.CoordinatorFor("group")
	for _, err := range []error{stop(e)(ctx, 2), e.StartBroker(ctx, 1), e.CreateTopics(ctx, nil), lookup} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: got %v, want ErrClosed", err)
		}
	}
}

// A stopped broker refuses connections, is on no list, and only the partitions that it led have moved. When it is
// back, everything is as before.
func TestStopMovesOnlyWhatTheBrokerLed(t *testing.T) {
	e := start(t, 3, cluster.Topic{Name: "input", Partitions: 6})
	c := client(t, e)
	before := metadata(t, c, 1)
	must.Get(e.StopBroker(testContext(t), 2))(t)
	if _, err := net.Dial("tcp", e.Brokers()[1].Address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialling the stopped broker: got %v, want connection refused", err)
	}
	during := metadata(t, c, 1)
	if brokerIDs(during) != "13" {
		t.Errorf("metadata lists brokers %s while 2 is stopped", brokerIDs(during))
	}
	for p := range int32(6) {
		was, is := partition(t, before, "input", p), partition(t, during, "input", p)
		if was.Leader == 2 && (is.Leader != 3 || is.LeaderEpoch <= was.LeaderEpoch) {
			t.Errorf("partition %d: led by %d in epoch %d, want broker 3 and an epoch after %d", p, is.Leader, is.LeaderEpoch,
				was.LeaderEpoch)
		}
		if was.Leader != 2 && (is.Leader != was.Leader || is.LeaderEpoch != was.LeaderEpoch) {
			t.Errorf("partition %d was not led by broker 2 but went from %d/%d to %d/%d", p, was.Leader, was.LeaderEpoch,
				is.Leader, is.LeaderEpoch)
		}
		if fmt.Sprint(is.OfflineReplicas) != "[2]" || len(is.ISR) != 2 || len(is.Replicas) != 3 {
			t.Errorf("partition %d: replicas %v, in sync %v, offline %v", p, is.Replicas, is.ISR, is.OfflineReplicas)
		}
	}
	must.Do(t, e.StartBroker(testContext(t), 2))
	after := metadata(t, c, 1)
	if brokerIDs(after) != "123" {
		t.Errorf("metadata lists brokers %s after 2 is back", brokerIDs(after))
	}
	for p := range int32(6) {
		if was, is := partition(t, before, "input", p), partition(t, after, "input", p); is.Leader != was.Leader {
			t.Errorf("partition %d is led by %d, and was by %d before the stop", p, is.Leader, was.Leader)
		}
	}
}

// writer produces numbered records to every partition until it is stopped.
type writer struct {
	client *kgo.Client
	stop   chan struct{}
	wg     sync.WaitGroup
	mu     sync.Mutex
	acked  map[int32]int // number of records per partition
	errs   []error
	acks   chan struct{}
}

func startWriter(t *testing.T, e *Kafka, topic string, partitions int) *writer {
	t.Helper()
	w := &writer{client: client(t, e, kgo.RequiredAcks(kgo.AllISRAcks())), stop: make(chan struct{}),
		acked: map[int32]int{}, acks: make(chan struct{}, 1)}
	w.wg.Go(func() {
		for n := 0; ; n++ {
			for p := range int32(partitions) {
				record := &kgo.Record{Topic: topic, Partition: p, Value: []byte(strconv.Itoa(n))}
				w.client.Produce(context.Background(), record, w.noteAck)
			}
			select {
			case <-w.stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	return w
}

func (w *writer) noteAck(record *kgo.Record, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.errs = append(w.errs, err)
		return
	}
	w.acked[record.Partition]++
	select {
	case w.acks <- struct{}{}:
	default:
	}
}

// progress waits until count more records were acknowledged in each of the partitions.
func (w *writer) progress(t *testing.T, count int, partitions ...int32) {
	t.Helper()
	w.mu.Lock()
	target := map[int32]int{}
	for _, p := range partitions {
		target[p] = w.acked[p] + count
	}
	w.mu.Unlock()
	deadline := time.After(patience)
	for {
		w.mu.Lock()
		reached := true
		for p, n := range target {
			reached = reached && w.acked[p] >= n
		}
		w.mu.Unlock()
		if reached {
			return
		}
		select {
		case <-w.acks:
		case <-deadline:
			t.Fatalf("no progress: acknowledged %v, waiting for %v", w.acked, target)
		}
	}
}

// finish stops writing, waits for outstanding records, and returns the number of acknowledged records.
func (w *writer) finish(t *testing.T) map[int32]int {
	t.Helper()
	close(w.stop)
	w.wg.Wait()
	must.Do(t, w.client.Flush(testContext(t)))
	if len(w.errs) > 0 {
		t.Errorf("%d records failed, the first with %v", len(w.errs), w.errs[0])
	}
	return w.acked
}

// verify reads the topic: each partition must hold 0, 1, 2, … exactly once and in order.
func verify(t *testing.T, e *Kafka, topic string, acked map[int32]int) {
	t.Helper()
	c := client(t, e, kgo.ConsumeTopics(topic))
	next, missing := map[int32]int{}, 0
	for _, n := range acked {
		missing += n
	}
	for ctx := testContext(t); missing > 0; {
		fetches := c.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d acknowledged records are not in topic %s", missing, topic)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if string(r.Value) != strconv.Itoa(next[r.Partition]) {
				t.Fatalf("partition %d, offset %d holds record %s, want %d", r.Partition, r.Offset, r.Value, next[r.Partition])
			}
			next[r.Partition]++
			missing--
		})
	}
	ends := must.Get(kadm.NewClient(c).ListEndOffsets(testContext(t), topic))(t)
	ends.Each(func(end kadm.ListedOffset) {
		if end.Offset != int64(acked[end.Partition]) {
			t.Errorf("partition %d ends at %d, but %d records were acknowledged", end.Partition, end.Offset,
				acked[end.Partition])
		}
	})
}

func TestNothingIsLostDoubledOrReordered(t *testing.T) {
	t.Run("three brokers, each stopped in turn", func(t *testing.T) {
		e := start(t, 3, cluster.Topic{Name: "input", Partitions: 3})
		w := startWriter(t, e, "input", 3)
		for id := range int32(3) {
			w.progress(t, 20, 0, 1, 2)
			must.Get(e.StopBroker(testContext(t), id+1))(t)
			w.progress(t, 20, 0, 1, 2) // all partitions continue without it
			must.Do(t, e.StartBroker(testContext(t), id+1))
		}
		w.progress(t, 20, 0, 1, 2)
		verify(t, e, "input", w.finish(t))
	})
	t.Run("the only broker", func(t *testing.T) {
		e := start(t, 1, cluster.Topic{Name: "input", Partitions: 2})
		w := startWriter(t, e, "input", 2)
		for range 2 {
			w.progress(t, 20, 0, 1)
			must.Get(e.StopBroker(testContext(t), 1))(t)
			must.Do(t, e.StartBroker(testContext(t), 1))
		}
		w.progress(t, 20, 0, 1)
		verify(t, e, "input", w.finish(t))
	})
	t.Run("all three at once", func(t *testing.T) {
		e := start(t, 3, cluster.Topic{Name: "input", Partitions: 3})
		w := startWriter(t, e, "input", 3)
		w.progress(t, 20, 0, 1, 2)
		for id := range int32(3) {
			must.Get(e.StopBroker(testContext(t), id+1))(t)
		}
		for id := range int32(3) {
			must.Do(t, e.StartBroker(testContext(t), id+1))
		}
		w.progress(t, 20, 0, 1, 2)
		verify(t, e, "input", w.finish(t))
	})
}

// While the only broker that holds the DLQ is stopped, the DLQ cannot be written, but everything else can. The DLQ
// returns with its data.
func TestReservedBroker(t *testing.T) {
	e := start(t, 3, cluster.Topic{Name: "input", Partitions: 4}, cluster.Topic{Name: "dlq", Partitions: 4, Broker: 2})
	c := client(t, e)
	got := metadata(t, c, 1)
	for p := range int32(4) {
		if leader := partition(t, got, "dlq", p); leader.Leader != 2 || fmt.Sprint(leader.Replicas) != "[2]" {
			t.Errorf("dlq-%d is led by broker %d, replicas %v; want 2 alone", p, leader.Leader, leader.Replicas)
		}
		if leader := partition(t, got, "input", p).Leader; leader == 2 {
			t.Errorf("input-%d is led by the broker that the DLQ reserves", p)
		}
	}
	input, dlq := startWriter(t, e, "input", 4), startWriter(t, e, "dlq", 4)
	dlq.progress(t, 20, 0, 1, 2, 3)
	must.Get(e.StopBroker(testContext(t), 2))(t)
	down := partition(t, metadata(t, c, 1), "dlq", 0)
	if down.ErrorCode != kerr.LeaderNotAvailable.Code || down.Leader != -1 {
		t.Errorf("metadata of dlq-0 while its broker is stopped: error code %d, leader %d", down.ErrorCode, down.Leader)
	}
	dlq.mu.Lock()
	acked := fmt.Sprint(dlq.acked)
	dlq.mu.Unlock()
	input.progress(t, 100, 0, 1, 2, 3)
	dlq.mu.Lock()
	if fmt.Sprint(dlq.acked) != acked {
		t.Errorf("DLQ writes were acknowledged while its broker was stopped: %v, before %s", dlq.acked, acked)
	}
	dlq.mu.Unlock()
	must.Do(t, e.StartBroker(testContext(t), 2))
	dlq.progress(t, 20, 0, 1, 2, 3)
	verify(t, e, "dlq", dlq.finish(t))
	verify(t, e, "input", input.finish(t))
}

// Groups avoid the reserved broker, move when their coordinator stops, stay when another broker stops, and return to
// their prescribed place afterwards.
func TestCoordinatorsHaveAPlace(t *testing.T) {
	e := start(t, 3, cluster.Topic{Name: "input", Partitions: 3}, cluster.Topic{Name: "dlq", Partitions: 1, Broker: 3})
	groups := []string{"a", "b", "c", "d"}
	home := map[string]int32{}
	check := func(when string, right func(group string, node int32) bool) {
		t.Helper()
		for _, group := range groups {
			node := must.Get(e.CoordinatorFor(group))(t)
			if !right(group, node) {
				t.Errorf("%s group %s is coordinated by broker %d, at home it was %d", when, group, node, home[group])
			}
		}
	}
	check("at the start", func(_ string, node int32) bool { return node != 3 })
	check("at the start", func(group string, node int32) bool { home[group] = node; return true })
	for id := range int32(3) {
		must.Get(e.StopBroker(testContext(t), id+1))(t)
		check(fmt.Sprintf("without broker %d", id+1), func(group string, node int32) bool {
			if home[group] == id+1 {
				return node == 3-home[group] // 1 and 2 replace each other
			}
			return node == home[group]
		})
		must.Do(t, e.StartBroker(testContext(t), id+1))
		check("at the end", func(group string, node int32) bool { return node == home[group] })
	}
}

// Old clients ask for one coordinator at a time, and the answer does not name the key.
func TestFindCoordinatorInAllVersions(t *testing.T) {
	e := start(t, 3)
	home := must.Get(e.CoordinatorFor("group"))(t)
	c := client(t, e)
	must.Get(e.StopBroker(testContext(t), home))(t)
	want := must.Get(e.CoordinatorFor("group"))(t)
	if want == home {
		t.Fatalf("the coordinator is still broker %d, which is stopped", home)
	}
	for version := range int16(7) {
		request := kmsg.NewPtrFindCoordinatorRequest()
		request.CoordinatorKey, request.CoordinatorKeys = "group", []string{"group"}
		conn := dialRaw(t, e.Brokers()[want-1].Address)
		response := conn.request(t, request, version).(*kmsg.FindCoordinatorResponse)
		node, port := response.NodeID, response.Port
		if version >= 4 {
			node, port = response.Coordinators[0].NodeID, response.Coordinators[0].Port
		}
		if address := e.Brokers()[want-1].Address; node != want || !strings.HasSuffix(address, ":"+strconv.Itoa(int(port))) {
			t.Errorf("version %d: the coordinator is broker %d at port %d, want %d at %s", version, node, port, want, address)
		}
	}
	c.Close()
}

// members are the consumers of a group.
type members struct {
	mu       sync.Mutex
	seen     map[int32]int64 // next offset, per partition
	consumed chan struct{}
	cancel   context.CancelFunc
	wg       sync.WaitGroup
}

func startMembers(t *testing.T, e *Kafka, count int) *members {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	m := &members{seen: map[int32]int64{}, consumed: make(chan struct{}, 1), cancel: cancel}
	for range count {
		c := client(t, e, kgo.ConsumerGroup("group"), kgo.ConsumeTopics("input"), kgo.DisableAutoCommit(),
			kgo.SessionTimeout(3*time.Second), kgo.HeartbeatInterval(200*time.Millisecond))
		m.wg.Go(func() {
			for ctx.Err() == nil {
				fetches := c.PollFetches(ctx)
				m.mu.Lock()
				fetches.EachRecord(func(r *kgo.Record) { m.seen[r.Partition] = max(m.seen[r.Partition], r.Offset+1) })
				m.mu.Unlock()
				_ = c.CommitUncommittedOffsets(ctx)
				select {
				case m.consumed <- struct{}{}:
				default:
				}
			}
		})
	}
	return m
}

// progress waits until the group has advanced by 20 records in each of three partitions.
func (m *members) progress(t *testing.T, when string) {
	t.Helper()
	m.mu.Lock()
	target := [3]int64{m.seen[0] + 20, m.seen[1] + 20, m.seen[2] + 20}
	m.mu.Unlock()
	for deadline := time.After(patience); ; {
		m.mu.Lock()
		reached := m.seen[0] >= target[0] && m.seen[1] >= target[1] && m.seen[2] >= target[2]
		m.mu.Unlock()
		if reached {
			return
		}
		select {
		case <-m.consumed:
		case <-deadline:
			t.Fatalf("%s the group stands still at %v", when, m.seen)
		}
	}
}

// A group continues through stops of every broker, including its coordinator, and no committed offset is lost.
func TestGroupKeepsConsuming(t *testing.T) {
	e := start(t, 3, cluster.Topic{Name: "input", Partitions: 3})
	w, m := startWriter(t, e, "input", 3), startMembers(t, e, 2)
	m.progress(t, "at the start")
	for id := range int32(3) {
		must.Get(e.StopBroker(testContext(t), id+1))(t)
		m.progress(t, fmt.Sprintf("without broker %d", id+1))
		must.Do(t, e.StartBroker(testContext(t), id+1))
		m.progress(t, fmt.Sprintf("with broker %d back", id+1))
	}
	acked := w.finish(t)
	admin := kadm.NewClient(client(t, e))
	for deadline := time.Now().Add(patience); ; {
		offsets := must.Get(admin.FetchOffsets(testContext(t), "group"))(t)
		done := 0
		offsets.Each(func(o kadm.OffsetResponse) {
			if o.At == int64(acked[o.Partition]) {
				done++
			}
		})
		if done == 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the group committed %v of %v", offsets, acked)
		}
		select {
		case <-m.consumed:
		case <-time.After(50 * time.Millisecond): // a commit may follow the last record
		}
	}
	m.cancel()
	m.wg.Wait()
}

// Between a change of leaders and the next record, the epoch of the last record still ends where the log ends. A
// consumer that validates its position then must not take it for lost.
func TestLastEpochEndsWithTheLog(t *testing.T) {
	e := start(t, 3, cluster.Topic{Name: "input", Partitions: 3})
	w := startWriter(t, e, "input", 3)
	w.progress(t, 20, 0, 1, 2)
	acked := w.finish(t)
	before := partition(t, metadata(t, w.client, 1), "input", 1)
	must.Get(e.StopBroker(testContext(t), before.Leader))(t)
	after := partition(t, metadata(t, w.client, 1), "input", 1)
	for version := int16(3); version <= 4; version++ {
		asked := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		asked.Partition, asked.CurrentLeaderEpoch, asked.LeaderEpoch = 1, after.LeaderEpoch, before.LeaderEpoch
		request := kmsg.NewPtrOffsetForLeaderEpochRequest()
		request.ReplicaID = -1
		request.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "input",
			Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{asked}}}
		response := dialRaw(t, e.Brokers()[after.Leader-1].Address).request(t, request,
			version).(*kmsg.OffsetForLeaderEpochResponse)
		got := response.Topics[0].Partitions[0]
		if got.ErrorCode != 0 || got.LeaderEpoch != before.LeaderEpoch || got.EndOffset != int64(acked[1]) {
			t.Errorf("version %d: error code %d, epoch %d ends at %d; want epoch %d to end at %d",
				version, got.ErrorCode, got.LeaderEpoch, got.EndOffset, before.LeaderEpoch, acked[1])
		}
	}
}

// A group that does not exist has no committed offsets, which is no error, as with Kafka: a consumer that assigns
// partitions to itself asks before its first commit makes the group.
func TestUnknownGroupHasNoOffsets(t *testing.T) {
	e := start(t, 1, cluster.Topic{Name: "orders", Partitions: 2})
	id := metadata(t, client(t, e), 1).Topics[0].TopicID
	for version := int16(1); version <= 10; version++ {
		request := kmsg.NewPtrOffsetFetchRequest()
		request.Group = "unknown"
		request.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "orders", Partitions: []int32{0, 1}}}
		group := kmsg.NewOffsetFetchRequestGroup()
		group.Group = request.Group
		group.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "orders", TopicID: id, Partitions: []int32{0, 1}}}
		request.Groups = []kmsg.OffsetFetchRequestGroup{group}
		response := dialRaw(t, e.Brokers()[0].Address).request(t, request, version).(*kmsg.OffsetFetchResponse)
		want, got := "0 [orders 0 -1 -1 0] [orders 1 -1 -1 0]", fmt.Sprint(response.ErrorCode)
		for _, topic := range response.Topics {
			for _, p := range topic.Partitions {
				got += fmt.Sprintf(" [%s %d %d %d %d]", topic.Topic, p.Partition, p.Offset, p.LeaderEpoch, p.ErrorCode)
			}
		}
		for _, group := range response.Groups {
			got = fmt.Sprint(group.ErrorCode)
			for _, topic := range group.Topics {
				name := topic.Topic
				if topic.TopicID == id {
					name = "orders"
				}
				for _, p := range topic.Partitions {
					got += fmt.Sprintf(" [%s %d %d %d %d]", name, p.Partition, p.Offset, p.LeaderEpoch, p.ErrorCode)
				}
			}
		}
		if got != want {
			t.Errorf("version %d: %s, want %s", version, got, want)
		}
	}
}

// A fetch that is refused because the leader is another broker names that one since version 16, as with Kafka.
func TestRefusedFetchNamesTheLeader(t *testing.T) {
	e := start(t, 2, cluster.Topic{Name: "input", Partitions: 1})
	told := metadata(t, client(t, e), 1)
	leader := partition(t, told, "input", 0).Leader
	for version := int16(11); version <= 16; version++ {
		asked := kmsg.NewFetchRequestTopicPartition()
		asked.PartitionMaxBytes = 1 << 20
		request := kmsg.NewPtrFetchRequest()
		request.ReplicaID, request.MaxBytes = -1, 1<<20
		request.Topics = []kmsg.FetchRequestTopic{{Topic: "input", TopicID: told.Topics[0].TopicID,
			Partitions: []kmsg.FetchRequestTopicPartition{asked}}}
		response := dialRaw(t, e.Brokers()[2-leader].Address).request(t, request, version).(*kmsg.FetchResponse)
		want := int32(-1)
		if version >= 16 {
			want = leader
		}
		got := response.Topics[0].Partitions[0]
		if got.ErrorCode != kerr.NotLeaderForPartition.Code || got.CurrentLeader.LeaderID != want {
			t.Errorf("version %d: error code %d names leader %d, want %d", version, got.ErrorCode, got.CurrentLeader.LeaderID,
				want)
		}
	}
}

// The answer to a new topic with settings says where they are from, or Java's Admin can't read it.
func TestSettingsOfNewTopicsHaveASource(t *testing.T) {
	e := start(t, 1)
	for version := int16(5); version <= 7; version++ {
		topic, setting := kmsg.NewCreateTopicsRequestTopic(), kmsg.NewCreateTopicsRequestTopicConfig()
		setting.Name, setting.Value = "cleanup.policy", kmsg.StringPtr("compact")
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = fmt.Sprint("compacted-", version), 1, 1
		topic.Configs = []kmsg.CreateTopicsRequestTopicConfig{setting}
		request := kmsg.NewPtrCreateTopicsRequest()
		request.TimeoutMillis, request.Topics = 1000, []kmsg.CreateTopicsRequestTopic{topic}
		made := dialRaw(t, e.Brokers()[0].Address).request(t, request, version).(*kmsg.CreateTopicsResponse).Topics[0]
		if made.ErrorCode != 0 || len(made.Configs) == 0 {
			t.Fatalf("version %d: error code %d, settings %+v", version, made.ErrorCode, made.Configs)
		}
		for _, one := range made.Configs {
			if one.Source != int8(kmsg.ConfigSourceDynamicTopicConfig) {
				t.Errorf("version %d: %s has the source %d", version, one.Name, one.Source)
			}
		}
	}
}

// Clients that ask in a version before 4 are told of no feature whose lowest level is 0, or Java's do not connect. The
// rest of the answer is as it was.
func TestFeaturesForOlderClients(t *testing.T) {
	e := start(t, 1)
	for version := int16(2); version <= 4; version++ {
		request := kmsg.NewPtrApiVersionsRequest()
		request.ClientSoftwareName, request.ClientSoftwareVersion = "apache-kafka-java", "3.7.1"
		response := dialRaw(t, e.Brokers()[0].Address).request(t, request, version).(*kmsg.ApiVersionsResponse)
		atZero := slices.ContainsFunc(response.SupportedFeatures,
			func(f kmsg.ApiVersionsResponseSupportedFeature) bool { return f.MinVersion == 0 })
		if atZero != (version == 4) || len(response.ApiKeys) < 40 {
			t.Errorf("version %d: %d APIs, features %+v", version, len(response.ApiKeys), response.SupportedFeatures)
		}
		if above := len(response.SupportedFeatures) > 0; above != (version >= 3) {
			t.Errorf("version %d: features %+v", version, response.SupportedFeatures)
		}
	}
}

// The text beside an offset is never null in an answer, whatever was committed: sarama 1.45 can't read null in the
// compact form, and its members never begin to consume.
func TestOffsetsHaveAText(t *testing.T) {
	e := start(t, 1, cluster.Topic{Name: "input", Partitions: 2})
	conn := dialRaw(t, e.Brokers()[0].Address)
	offset := kmsg.NewOffsetCommitRequestTopicPartition()
	offset.Offset = 7 // of partition 0, without a text; partition 1 has no offset
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group, commit.Generation = "workers", -1
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "input",
		Partitions: []kmsg.OffsetCommitRequestTopicPartition{offset}}}
	conn.request(t, commit, 7)
	for version := int16(1); version <= 9; version++ {
		request := kmsg.NewPtrOffsetFetchRequest()
		request.Group = "workers"
		request.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "input", Partitions: []int32{0, 1}}}
		asked := kmsg.NewOffsetFetchRequestGroup()
		asked.Group, asked.MemberEpoch = "workers", -1
		asked.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "input", Partitions: []int32{0, 1}}}
		request.Groups = []kmsg.OffsetFetchRequestGroup{asked}
		response := conn.request(t, request, version).(*kmsg.OffsetFetchResponse)
		texts := map[int64]*string{}
		for _, topic := range response.Topics {
			for _, p := range topic.Partitions {
				texts[p.Offset] = p.Metadata
			}
		}
		for _, group := range response.Groups {
			for _, p := range group.Topics[0].Partitions {
				texts[p.Offset] = p.Metadata
			}
		}
		if len(texts) != 2 || texts[7] == nil || texts[-1] == nil {
			t.Errorf("version %d: the texts by offset are %v, want one of 7 and one of -1", version, texts)
		}
	}
}

// Java's Admin describes topics with a request of its own. The answer has the lists without which it fails, and knows
// of stopped brokers.
func TestTopicsAreDescribedForJava(t *testing.T) {
	e := start(t, 3, cluster.Topic{Name: "orders", Partitions: 6})
	must.Get(e.StopBroker(testContext(t), 2))(t)
	asked := kmsg.NewDescribeTopicPartitionsRequestTopic()
	asked.Topic = "orders"
	request := kmsg.NewPtrDescribeTopicPartitionsRequest()
	request.Topics, request.ResponsePartitionLimit = []kmsg.DescribeTopicPartitionsRequestTopic{asked}, 100
	response := dialRaw(t, e.Brokers()[0].Address).request(t, request, 0).(*kmsg.DescribeTopicPartitionsResponse)
	if len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 6 {
		t.Fatalf("described: %+v", response.Topics)
	}
	for _, p := range response.Topics[0].Partitions {
		if p.EligibleLeaderReplicas == nil || p.LastKnownELR == nil {
			t.Errorf("partition %d has no list of eligible leaders", p.Partition)
		}
		if p.LeaderID == 2 || fmt.Sprint(p.OfflineReplicas) != "[2]" || len(p.ISR) != 2 || len(p.Replicas) != 3 {
			t.Errorf("partition %d: leader %d, replicas %v, in sync %v, offline %v", p.Partition, p.LeaderID, p.Replicas,
				p.ISR, p.OfflineReplicas)
		}
	}
}

// A client creates a topic and describes it before the first Metadata request for it.
func TestNewTopicsAreDescribed(t *testing.T) {
	e := start(t, 1)
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "retry", 2, 1
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis, create.Topics = 1000, []kmsg.CreateTopicsRequestTopic{topic}
	conn := dialRaw(t, e.Brokers()[0].Address)
	if made := conn.request(t, create, 7).(*kmsg.CreateTopicsResponse).Topics[0]; made.ErrorCode != 0 || made.Configs == nil {
		t.Fatalf("creating a topic without settings: error code %d, settings %v; Java's Admin fails at null", made.ErrorCode,
			made.Configs)
	}
	asked := kmsg.NewDescribeTopicPartitionsRequestTopic()
	asked.Topic = "retry"
	describe := kmsg.NewPtrDescribeTopicPartitionsRequest()
	describe.Topics, describe.ResponsePartitionLimit = []kmsg.DescribeTopicPartitionsRequestTopic{asked}, 100
	described := conn.request(t, describe, 0).(*kmsg.DescribeTopicPartitionsResponse).Topics[0]
	if len(described.Partitions) != 2 || !slices.Equal(described.Partitions[1].Replicas, []int32{1}) {
		t.Errorf("described: %+v", described)
	}
}

// The leaders of topics that clients create themselves move, too, when their broker stops.
func TestClientsTopicsMoveToo(t *testing.T) {
	e := start(t, 3)
	c := client(t, e)
	must.Get(kadm.NewClient(c).CreateTopic(testContext(t), 6, 3, nil, "retry"))(t)
	w := startWriter(t, e, "retry", 6)
	all := []int32{0, 1, 2, 3, 4, 5}
	for id := range int32(3) {
		w.progress(t, 5, all...)
		must.Get(e.StopBroker(testContext(t), id+1))(t)
		w.progress(t, 5, all...)
		must.Do(t, e.StartBroker(testContext(t), id+1))
	}
	verify(t, e, "retry", w.finish(t))
}

// stop stops a broker and ignores the changes.
func stop(e *Kafka) func(context.Context, int32) error {
	return func(ctx context.Context, id int32) error {
		_, err := e.StopBroker(ctx, id)
		return err
	}
}

// Several concurrent callers, a full load of requests, and Close in the middle: nothing may hang.
func TestStopStartAndCloseAtOnce(t *testing.T) {
	e := start(t, 3, cluster.Topic{Name: "input", Partitions: 3})
	w := startWriter(t, e, "input", 3)
	w.progress(t, 5, 0, 1, 2)
	var wg sync.WaitGroup
	for id := range int32(3) {
		wg.Go(func() {
			for {
				for _, act := range []func(context.Context, int32) error{stop(e), e.StartBroker} {
					if err := act(testContext(t), id+1); errors.Is(err, ErrClosed) {
						return
					} else if err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	time.Sleep(50 * time.Millisecond) // lets the calls overlap; the exact length does not matter
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	close(w.stop)
	w.wg.Wait()
}

// Apache Kafka accepts sessions of up to 30 minutes; a consumer that asks for one must not be refused with
// INVALID_SESSION_TIMEOUT.
func TestLongSessionsAreAccepted(t *testing.T) {
	e := start(t, 1)
	client := must.Get(kgo.NewClient(kgo.SeedBrokers(e.Bootstrap()...)))(t)
	defer client.Close()
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType = "g", "consumer"
	join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = int32(maxSessionTimeout.Milliseconds()), 60_000
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name = "range"
	join.Protocols = append(join.Protocols, protocol)
	response := must.Get(join.RequestWith(testContext(t), client))(t)
	if response.ErrorCode == kerr.InvalidSessionTimeout.Code {
		t.Errorf("a session of %s is refused", maxSessionTimeout)
	}
}
