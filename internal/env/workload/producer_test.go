package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

func startKafka(t testing.TB) *kfake.Cluster {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster
}

// evenPlan has count records, one every gap, over four partitions, some without a key.
func evenPlan(count int, gap time.Duration) *plan.Plan {
	p := &plan.Plan{}
	for i := range count {
		record := plan.Record{
			At: time.Duration(i) * gap, Outcome: history.OutcomeSuccess, Key: int32(i % 50), Partition: int32(i % 4), Size: 256,
			Warmup: i < 10,
		}
		if i%7 == 0 {
			record.Key = history.None
		}
		p.Records = append(p.Records, record)
	}
	return p
}

// newTestProducer returns a producer. Without bootstrap addresses, it never reaches a broker.
func newTestProducer(t testing.TB, bootstrap []string, p *plan.Plan, sink history.Sink, clock history.Clock) *Producer {
	t.Helper()
	to := []kgo.Opt{kgo.SeedBrokers(bootstrap...)}
	if bootstrap == nil {
		to = []kgo.Opt{kgo.Dialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})}
	}
	producer, err := NewProducer(ProducerConfig{
		Client: to, Inputs: []Input{{"orders", 3}}, Plan: p, IDs: history.NewIDs("run"),
		Headers: 1, Clock: clock, Sink: sink,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(producer.Close)
	return producer
}

func TestProducerSendsThePlan(t *testing.T) {
	cluster := startKafka(t)
	const count = 1500
	p, sink, clock := evenPlan(count, 200*time.Microsecond), &events{}, history.NewClock()
	producer := newTestProducer(t, cluster.ListenAddrs(), p, sink, clock)
	base := clock.Now() + 20*time.Millisecond
	if err := producer.Run(t.Context(), base); err != nil {
		t.Fatal(err)
	}
	if err := producer.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sent, acked, failed, _ := producer.Counts(); sent != count || acked != count || failed != 0 {
		t.Fatalf("sent %d, acked %d, failed %d of %d", sent, acked, failed, count)
	}
	found := readTopic(t, cluster.ListenAddrs(), count)
	acked := map[int32]history.Event{}
	for _, event := range sink.of(history.KindAcked) {
		acked[event.Record] = event
	}
	for i, send := range sink.of(history.KindSend) {
		planned := p.Records[i]
		if send.Record != int32(i) || send.Topic != 3 || send.Partition != planned.Partition || send.N != planned.Key ||
			send.Outcome != planned.Outcome || send.Aux != int64(base+planned.At) || send.HeaderCount != 2 ||
			send.Flags.Has(history.Warmup) != planned.Warmup {
			t.Fatalf("send %d does not say what was planned: %+v", i, send)
		}
		ack := acked[send.Record]
		record := found[fmt.Sprint(ack.Partition, "/", ack.Offset)]
		if record == nil || ack.Partition != planned.Partition || ack.Topic != 3 || ack.Code != 0 || ack.Time < send.Time {
			t.Fatalf("record %d was acknowledged as %+v, found there: %v", i, ack, record)
		}
		if send.KeyHash != history.HashBytes(record.Key) || send.ValueHash != history.HashBytes(record.Value) ||
			send.HeadersHash != HashHeaders(record.Headers, OriginalHeaders(1, nil)) {
			t.Fatalf("record %d in the topic is not the one that was sent", i)
		}
	}
}

// TestProducerSendsRecordsTwice checks that both copies of a record are equal, next to one another, and one to Counts.
func TestProducerSendsRecordsTwice(t *testing.T) {
	cluster := startKafka(t)
	const count = 40
	p, sink, clock := evenPlan(count, 100*time.Microsecond), &events{}, history.NewClock()
	for i := 10; i < count; i += 3 {
		p.Records[i].Repeated = true
	}
	producer := newTestProducer(t, cluster.ListenAddrs(), p, sink, clock)
	if err := errors.Join(producer.Run(t.Context(), clock.Now()), producer.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	if sent, acked, failed, _ := producer.Counts(); sent != count || acked != count || failed != 0 {
		t.Fatalf("sent %d, acked %d, failed %d of %d", sent, acked, failed, count)
	}
	found := readTopic(t, cluster.ListenAddrs(), count+p.Repeated())
	first, second := map[int32]*kgo.Record{}, map[int32]*kgo.Record{}
	for _, e := range sink.of(history.KindAcked) {
		into := first
		if e.Flags.Has(history.Repeated) {
			into = second
		}
		into[e.Record] = found[fmt.Sprint(e.Partition, "/", e.Offset)]
	}
	sends := map[bool]int{}
	for _, e := range sink.of(history.KindSend) {
		sends[e.Flags.Has(history.Repeated)]++
	}
	if len(first) != count || len(second) != p.Repeated() || sends[false] != count || sends[true] != p.Repeated() {
		t.Fatalf("%d and %d records acknowledged, sends %v", len(first), len(second), sends)
	}
	for number, again := range second {
		one := first[number]
		if !p.Records[number].Repeated || !bytes.Equal(one.Key, again.Key) || !bytes.Equal(one.Value, again.Value) ||
			!reflect.DeepEqual(one.Headers, again.Headers) || again.Partition != one.Partition || again.Offset <= one.Offset {
			t.Errorf("record %d was produced as %v and %v", number, one, again)
		}
	}
}

// Spare records wait while the subject is behind. After that they are sent at their planned distances, and none of
// them is late. The time is synctest's: on a machine that stands still, records are late for that reason alone. So no
// broker is there, and records wait for one in the client.
func TestSpareRecordsArePutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, sink := history.NewClock(), &events{}
		p := evenPlan(20, time.Millisecond)
		p.Spare = 10
		producer := newTestProducer(t, nil, p, sink, clock)
		base := clock.Now()
		if err := producer.Run(t.Context(), base); err != nil {
			t.Fatal(err)
		}
		until := base + 300*time.Millisecond
		stood := sync.OnceFunc(func() { time.Sleep(50 * time.Millisecond) }) // the machine, when the subject has caught up
		producer.Extend(t.Context(), func() bool {
			if clock.Now() < until {
				return true
			}
			stood()
			return false
		})
		sends := sink.of(history.KindSend)
		if len(sends) != 20 {
			t.Fatalf("%d of 20 records were sent", len(sends))
		}
		for i, e := range sends[10:] {
			putOff := producer.PutOff(e.Record)
			if want := base + p.Records[10+i].At + putOff; time.Duration(e.Aux) != want || e.Time < until {
				t.Errorf("record %d was sent at %v, intended at %v, want %v", e.Record, e.Time, time.Duration(e.Aux), want)
			}
			if first := producer.PutOff(10); putOff != first || first < 290*time.Millisecond {
				t.Errorf("record %d was put off by %v, the first by %v", e.Record, putOff, first)
			}
		}
		if _, _, _, late := producer.Counts(); late > 0 || producer.PutOff(9) != 0 {
			t.Errorf("%d records are late, the last that is none of the spare by %v", late, producer.PutOff(9))
		}
	})
}

// TestProducerSendsOddValues checks that null values, garbage and the largest records that a scenario can ask for
// reach the topic intact, also several at one instant, beyond the broker's own limit for a batch.
func TestProducerSendsOddValues(t *testing.T) {
	cluster := startKafka(t)
	p, sink, clock := &plan.Plan{Seed: 5}, &events{}, history.NewClock()
	const largest = 1000 << 10
	for i := range 12 {
		record := plan.Record{Outcome: history.OutcomeSuccess, Key: int32(i), Size: 256}
		switch i % 4 {
		case 0:
			record.Tombstone, record.Size = true, 0
		case 1:
			record.Garbage = true
		case 2:
			record.Size = largest
		}
		p.Records = append(p.Records, record)
	}
	producer, err := NewProducer(ProducerConfig{
		Client: []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}, Inputs: []Input{{Topic: "orders"}}, Plan: p,
		IDs: history.NewIDs("run"), Headers: 100, Clock: clock, Sink: sink,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(producer.Close)
	if err := errors.Join(producer.Run(t.Context(), clock.Now()), producer.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	if _, acked, failed, _ := producer.Counts(); acked != 12 || failed != 0 {
		t.Fatalf("acked %d, failed %d of 12: %+v", acked, failed, sink.of(history.KindAcked))
	}
	found := readTopic(t, cluster.ListenAddrs(), 12)
	for _, ack := range sink.of(history.KindAcked) {
		record, send := found[fmt.Sprint(ack.Partition, "/", ack.Offset)], sink.of(history.KindSend)[ack.Record]
		planned := p.Records[ack.Record]
		if record == nil || send.ValueHash != history.HashBytes(record.Value) ||
			len(record.Value) != int(planned.Size) || (record.Value == nil) != planned.Tombstone {
			t.Fatalf("record %d (%+v) is not in the topic as it was sent: %+v", ack.Record, planned, send)
		}
		if send.Flags.Has(history.Tombstone) != planned.Tombstone ||
			send.Flags.Has(history.Garbage) != planned.Garbage || send.ValueHash == 0 != planned.Tombstone {
			t.Fatalf("the send of record %d (%+v) says %+v", ack.Record, planned, send)
		}
	}
}

func readTopic(t *testing.T, bootstrap []string, count int) map[string]*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	found := map[string]*kgo.Record{}
	for len(found) < count && ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { found[fmt.Sprint(r.Partition, "/", r.Offset)] = r })
	}
	return found
}

func TestProducerNotesWhatTheBrokerRefused(t *testing.T) {
	cluster := startKafka(t)
	cluster.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		response := request.ResponseKind().(*kmsg.ProduceResponse)
		for _, topic := range request.(*kmsg.ProduceRequest).Topics {
			answered := kmsg.NewProduceResponseTopic()
			answered.Topic, answered.TopicID = topic.Topic, topic.TopicID
			for _, partition := range topic.Partitions {
				refused := kmsg.NewProduceResponseTopicPartition()
				refused.Partition, refused.ErrorCode = partition.Partition, kerr.MessageTooLarge.Code
				answered.Partitions = append(answered.Partitions, refused)
			}
			response.Topics = append(response.Topics, answered)
		}
		return response, nil, true
	})
	sink, clock := &events{}, history.NewClock()
	producer := newTestProducer(t, cluster.ListenAddrs(), evenPlan(20, time.Millisecond), sink, clock)
	if err := producer.Run(t.Context(), clock.Now()); err != nil {
		t.Fatal(err)
	}
	if err := producer.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	answers := sink.of(history.KindAcked)
	if len(answers) != 20 {
		t.Fatalf("%d answers to 20 records", len(answers))
	}
	for _, event := range answers {
		if event.Code != kerr.MessageTooLarge.Code || event.Offset != history.None {
			t.Fatalf("noted %+v, want the broker's refusal and no offset", event)
		}
	}
	if _, acked, failed, _ := producer.Counts(); acked != 0 || failed != 20 {
		t.Fatalf("acked %d, failed %d", acked, failed)
	}
}

// No broker answers at this address. All records must still be handed over on time, and be given up in the end.
func TestProducerIsNotSlowedDownByItsBroker(t *testing.T) {
	cluster := startKafka(t)
	addresses := cluster.ListenAddrs()
	cluster.Close()
	sink, clock := &events{}, history.NewClock()
	producer := newTestProducer(t, addresses, evenPlan(200, time.Millisecond), sink, clock)
	if err := producer.Run(t.Context(), clock.Now()); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := producer.Flush(ended); !errors.Is(err, context.Canceled) {
		t.Fatalf("flushing to a dead broker: %v", err)
	}
	producer.Close()
	wait.Until(t, "every record given up", func() bool { return len(sink.of(history.KindAcked)) == 200 })
	for _, event := range sink.of(history.KindAcked) {
		if event.Code == 0 {
			t.Fatalf("a dead broker acknowledged: %+v", event)
		}
	}
	if sent, acked, failed, _ := producer.Counts(); sent != 200 || acked != 0 || failed != 200 {
		t.Fatalf("sent %d, acked %d, failed %d", sent, acked, failed)
	}
}

func TestProducerCountsWhatIsLate(t *testing.T) {
	cluster := startKafka(t)
	sink, clock := &events{}, &jumpingClock{Clock: history.NewClock()}
	clock.jump.Store(int64(time.Second))
	producer := newTestProducer(t, cluster.ListenAddrs(), evenPlan(100, 0), sink, clock)
	// All records were due half a second ago.
	if err := producer.Run(t.Context(), clock.Now()-500*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if _, _, _, late := producer.Counts(); late != 100 {
		t.Fatalf("%d records count as late, want 100", late)
	}
	for _, event := range sink.of(history.KindSend) {
		if slip := event.Time - time.Duration(event.Aux); slip < 500*time.Millisecond {
			t.Fatalf("the slip of a late record is noted as %v", slip)
		}
	}
}

func TestErrorCode(t *testing.T) {
	for _, test := range []struct {
		err  error
		want int16
	}{
		{fmt.Errorf("wrapped: %w", kerr.NotEnoughReplicas), kerr.NotEnoughReplicas.Code},
		{kgo.ErrRecordTimeout, -1}, {context.Canceled, -1},
	} {
		if got := errorCode(test.err); got != test.want {
			t.Errorf("%v has code %d, want %d", test.err, got, test.want)
		}
	}
}

// With several input topics the records are distributed to them in turn, each to its planned partition.
func TestProducerDealsToSeveralTopics(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "orders", "billing"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	const count = 41
	sink, clock := &events{}, history.NewClock()
	producer, err := NewProducer(ProducerConfig{
		Client: []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}, Inputs: []Input{{"orders", 3}, {"billing", 5}},
		Plan: evenPlan(count, time.Millisecond), IDs: history.NewIDs("run"), Clock: clock, Sink: sink,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(producer.Close)
	if err := errors.Join(producer.Run(t.Context(), clock.Now()), producer.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []history.Kind{history.KindSend, history.KindAcked} {
		seen := sink.of(kind)
		if len(seen) != count {
			t.Fatalf("%d events of kind %s", len(seen), kind)
		}
		for _, event := range seen {
			if want := []int16{3, 5}[event.Record%2]; event.Topic != want || event.Partition != event.Record%4 ||
				event.Code != 0 {
				t.Errorf("record %d went to topic %d, partition %d", event.Record, event.Topic, event.Partition)
			}
		}
	}
	ends, err := kadm.NewClient(producer.client).ListEndOffsets(t.Context(), "orders", "billing")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]int64{}
	ends.Each(func(one kadm.ListedOffset) { there[one.Topic] += one.Offset })
	if there["orders"] != 21 || there["billing"] != 20 {
		t.Errorf("the topics hold %v", there)
	}
}
