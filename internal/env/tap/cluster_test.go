package tap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// direct writes n records with ids from first to the topic without the tap.
func direct(t *testing.T, addresses []string, ids *history.IDs, topic string, first, n int) {
	t.Helper()
	cl := client(t, strings.Join(addresses, ","))
	for i := range n {
		seq := int32(first + i)
		record := &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "k%d", seq), Value: ids.Append([]byte(`{"id":"`), seq)}
		if err := cl.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestProduceIsRecordedForEveryCodec(t *testing.T) {
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		t.Run(name, func(t *testing.T) {
			_, r := cluster(t, 1, nil)
			cl := client(t, r.open(t, 3), kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			pad := strings.Repeat("compress me ", 40)
			var records []*kgo.Record
			for i := range int32(20) {
				record := &kgo.Record{Topic: "t.dlq", Partition: i % 3, Value: r.ids.Append([]byte(pad), i)}
				switch i % 4 {
				case 1:
					record.Value, record.Headers = nil,
						[]kgo.RecordHeader{{Key: "x"}, {Key: history.IDHeader, Value: []byte(r.ids.Token(i))}}
				case 2:
					record.Key, record.Value = []byte(r.ids.Token(i)), []byte("no id here "+pad)
				case 3:
					record.Value = []byte("no id at all " + pad)
				}
				records = append(records, record)
			}
			if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t.input", Value: []byte(r.ids.Token(99))}).
				FirstErr(); err != nil {
				t.Fatal(err)
			}
			compareProduced(t, r, records)
		})
	}
}

// compareProduced checks that each record has exactly one request event and one response event with the actual
// values.
func compareProduced(t *testing.T, r *rig, records []*kgo.Record) {
	t.Helper()
	requests, responses := r.log.of(history.KindProduceRequest), r.log.of(history.KindProduceResponse)
	if len(requests) != len(records) || len(responses) != len(records) {
		t.Fatalf("%d requests and %d responses for %d records; the input topic is not to be recorded", len(requests),
			len(responses), len(records))
	}
	ops := map[int64]history.Event{}
	for _, e := range requests {
		ops[e.Op] = e
	}
	for _, e := range responses {
		asked, ok := ops[e.Op]
		if !ok || asked.Time > e.Time {
			t.Fatalf("response %+v belongs to %+v", e, asked)
		}
		delete(ops, e.Op)
		i := slices.IndexFunc(records, func(rec *kgo.Record) bool {
			return rec.Partition == e.Partition && rec.Offset == e.Offset
		})
		if i < 0 {
			t.Fatalf("no record was written where %+v says", e)
		}
		rec := records[i]
		want := history.New(history.KindProduceResponse, e.Time)
		want.Instance, want.Run, want.Topic, want.Partition, want.Offset, want.Op = 3, 0, dlq, rec.Partition, rec.Offset, e.Op
		want.Record = int32(i)
		if i%4 == 3 {
			want.Record = history.None
		}
		if rec.Key != nil {
			want.KeyHash = xxhash.Sum64(rec.Key)
		}
		if rec.Value != nil {
			want.ValueHash = xxhash.Sum64(rec.Value)
		}
		want.ProducerID, want.ProducerEpoch, want.Sequence = rec.ProducerID, rec.ProducerEpoch, int32(rec.Offset)
		if e != want {
			t.Errorf("got  %+v\nwant %+v", e, want)
		}
		want.Kind, want.Time, want.Offset = history.KindProduceRequest, asked.Time, history.None
		if asked != want {
			t.Errorf("got  %+v\nwant %+v", asked, want)
		}
	}
}

func TestProduceWithoutAcks(t *testing.T) {
	c, r := cluster(t, 1, nil)
	cl := client(t, r.open(t, 0), kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	for i := range int32(5) {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t.retry", Value: []byte(r.ids.Token(i))}).
			FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	wait.Until(t, "the records are in the topic", func() bool {
		var n int64
		for _, p := range c.PartitionInfos("t.retry") {
			n += p.HighWatermark
		}
		return n == 5
	})
	requests := r.log.of(history.KindProduceRequest)
	if len(requests) != 5 || requests[0].Sequence != history.None || requests[0].ProducerID != history.None ||
		requests[0].Flags != history.Unanswered {
		t.Errorf("%d requests, the first %+v", len(requests), requests[0])
	}
	if answers := r.log.of(history.KindProduceResponse); len(answers) != 0 {
		t.Errorf("%d answers were recorded, none was given", len(answers))
	}
}

func TestReplayerIsRecordedOnEveryTopic(t *testing.T) {
	_, r := cluster(t, 1, nil)
	cl := client(t, r.open(t, history.Replayer))
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t.input", Value: []byte(r.ids.Token(7))}).
		FirstErr(); err != nil {
		t.Fatal(err)
	}
	if got := r.log.of(history.KindProduceResponse); len(got) != 1 || got[0].Instance != history.Replayer ||
		got[0].Record != 7 || got[0].Topic != input {
		t.Errorf("got %+v", got)
	}
}

// What a consumer writes to its input is recorded if it puts the records there that are to be tried again.
func TestCopiesInTheInputAreRecorded(t *testing.T) {
	for _, retries := range []bool{false, true} {
		_, r := cluster(t, 1, func(c *Config) {
			c.Topics = slices.Clone(c.Topics)
			c.Topics[input].Retries = retries
		})
		cl := client(t, r.open(t, 0))
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t.input", Value: []byte(r.ids.Token(7))}).
			FirstErr(); err != nil {
			t.Fatal(err)
		}
		got := r.log.of(history.KindProduceResponse)
		if retries != (len(got) == 1) || retries && (got[0].Record != 7 || got[0].Topic != input) {
			t.Errorf("copies are written there: %v; recorded is %+v", retries, got)
		}
	}
}

func TestFetchedIsWhatTheClientGot(t *testing.T) {
	for name, options := range map[string][]kgo.Opt{"sessions": nil, "no sessions": {kgo.DisableFetchSessions()}} {
		t.Run(name, func(t *testing.T) {
			c, r := cluster(t, 2, nil)
			direct(t, c.ListenAddrs(), r.ids, "t.input", 0, 40)
			options := append(options, kgo.ConsumePartitions(consumeFrom("t.input", 6, 3)), kgo.FetchMaxPartitionBytes(200))
			cl := client(t, r.open(t, 1), options...)
			got := map[[2]int64]bool{}
			want := 0
			for _, p := range c.PartitionInfos("t.input") {
				want += int(max(0, p.HighWatermark-3))
			}
			if want == 0 {
				t.Fatal("nothing to fetch")
			}
			for len(got) < want {
				poll(t, cl).EachRecord(func(rec *kgo.Record) { got[[2]int64{int64(rec.Partition), rec.Offset}] = true })
			}
			cl.Close()
			seen := map[[2]int64]int{}
			for _, e := range r.log.of(history.KindFetched) {
				if e.Instance != 1 || e.Topic != input || e.Aux < e.Offset {
					t.Fatalf("odd event %+v", e)
				}
				for offset := e.Offset; offset <= e.Aux; offset++ {
					seen[[2]int64{int64(e.Partition), offset}]++
				}
			}
			for at, times := range seen {
				if !got[at] || times != 1 {
					t.Errorf("partition and offset %v were fetched %d times by the events; the client has it: %v", at, times, got[at])
				}
			}
			if len(seen) != len(got) {
				t.Errorf("the events cover %d records, the client has %d", len(seen), len(got))
			}
		})
	}
}

func consumeFrom(topic string, partitions int32, offset int64) map[string]map[int32]kgo.Offset {
	from := map[int32]kgo.Offset{}
	for p := range partitions {
		from[p] = kgo.NewOffset().At(offset)
	}
	return map[string]map[int32]kgo.Offset{topic: from}
}

func poll(t *testing.T, cl *kgo.Client) kgo.Fetches {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	fetches := cl.PollFetches(ctx)
	for _, err := range fetches.Errors() {
		if ctx.Err() != nil {
			t.Fatalf("polling: %v", err.Err)
		}
	}
	return fetches
}

func TestCommitsAreRecorded(t *testing.T) {
	c, r := cluster(t, 2, func(config *Config) { config.Group = "g" })
	direct(t, c.ListenAddrs(), r.ids, "t.input", 0, 30)
	cl := client(t, r.open(t, 0), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t.input"), kgo.DisableAutoCommit())
	other := client(t, r.open(t, 1), kgo.ConsumerGroup("other"), kgo.ConsumeTopics("t.input"), kgo.DisableAutoCommit())
	for _, one := range []*kgo.Client{cl, other} {
		for n := 0; n < 30; {
			n += poll(t, one).NumRecords()
		}
		if err := one.CommitUncommittedOffsets(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := kadm.NewClient(client(t, strings.Join(c.ListenAddrs(), ","))).FetchOffsets(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	requests, responses := r.log.of(history.KindCommitRequest), r.log.of(history.KindCommitResponse)
	seen := 0
	committed.Each(func(o kadm.OffsetResponse) {
		if o.At <= 0 {
			return
		}
		seen++
		i := slices.IndexFunc(requests, func(e history.Event) bool {
			return e.Partition == o.Partition && e.Offset == o.At && e.Topic == input
		})
		if i < 0 {
			t.Fatalf("the commit of partition %d to %d was not recorded", o.Partition, o.At)
		}
		want := requests[i]
		j := slices.IndexFunc(responses, func(e history.Event) bool { return e.Op == want.Op })
		if j < 0 || responses[j].Time < want.Time {
			t.Fatalf("the answer to %+v was not recorded after it", want)
		}
		want.Kind, want.Time = history.KindCommitResponse, responses[j].Time
		if responses[j] != want || want.N <= 0 || want.Instance != 0 {
			t.Errorf("answer %+v, want %+v", responses[j], want)
		}
	})
	if seen == 0 || len(requests) != seen || len(responses) != seen {
		t.Errorf("%d partitions are committed; %d requests and %d responses were recorded", seen, len(requests),
			len(responses))
	}
}

func TestTransactions(t *testing.T) {
	c, r := cluster(t, 1, nil)
	direct(t, c.ListenAddrs(), r.ids, "t.input", 0, 4)
	session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(strings.Split(r.open(t, 0), ",")...),
		kgo.TransactionalID("tx"), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t.input"), kgo.FetchMaxWait(50_000_000))
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for n := 0; n < 4; {
		n += session.PollFetches(t.Context()).NumRecords()
	}
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		if err := session.Begin(); err != nil {
			t.Fatal(err)
		}
		session.Produce(t.Context(), &kgo.Record{Topic: "t.dlq", Value: []byte(r.ids.Token(1))}, nil)
		if _, err := session.End(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []history.Kind{history.KindProduceRequest, history.KindProduceResponse, history.KindCommitRequest,
		history.KindCommitResponse} {
		events := r.log.of(kind)
		if len(events) == 0 || slices.ContainsFunc(events, func(e history.Event) bool {
			return !e.Flags.Has(history.InTransaction) || e.Code != 0
		}) {
			t.Errorf("kind %v: %+v", kind, events)
		}
	}
	var ends []int32
	for _, e := range r.log.of(history.KindTxnEndResponse) {
		if e.Code == 0 && e.ProducerID >= 0 {
			ends = append(ends, e.N)
		}
	}
	if !slices.Equal(ends, []int32{1, 0}) {
		t.Errorf("transactions ended %v, want a commit and an abort", ends)
	}
}

// callbacks notes the assignments that a client's callbacks report.
type callbacks struct {
	mu   sync.Mutex
	held map[partition]bool
}

func (c *callbacks) change(held bool) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, numbers := range changed {
			for _, number := range numbers {
				c.held[partition{input, number}] = held
			}
		}
	}
}

// same reports whether the events and the client's callbacks agree on the partitions that the instance holds. It
// also returns their number.
func (c *callbacks) same(t *testing.T, r *rig, instance int16) (int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := map[partition]bool{}
	for _, e := range r.log.of(history.KindAssigned, history.KindRevoked) {
		if e.Instance != instance {
			continue
		}
		at := partition{e.Topic, e.Partition}
		if held[at] == (e.Kind == history.KindAssigned) {
			t.Fatalf("%+v, but held already is %v", e, held[at])
		}
		held[at] = e.Kind == history.KindAssigned
	}
	n := 0
	for number := range int32(6) {
		at := partition{input, number}
		if held[at] != c.held[at] {
			return 0, false
		}
		if held[at] {
			n++
		}
	}
	return n, true
}

func TestAssignmentsAreWhatClientsAreTold(t *testing.T) {
	for name, options := range map[string][]kgo.Opt{
		"eager":       {kgo.Balancers(kgo.RangeBalancer())},
		"sticky":      {kgo.Balancers(kgo.StickyBalancer())},
		"cooperative": {kgo.Balancers(kgo.CooperativeStickyBalancer())},
		"server-side": {kgo.ServerSideBalancer()},
	} {
		t.Run(name, func(t *testing.T) {
			c, r := cluster(t, 1, nil)
			direct(t, c.ListenAddrs(), r.ids, "t.input", 0, 3)
			var told [3]*callbacks
			var clients [3]*kgo.Client
			join := func(i int) {
				told[i] = &callbacks{held: map[partition]bool{}}
				clients[i] = client(t, r.open(t, i), append(options, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t.input"),
					kgo.HeartbeatInterval(30_000_000), kgo.OnPartitionsAssigned(told[i].change(true)),
					kgo.OnPartitionsRevoked(told[i].change(false)), kgo.OnPartitionsLost(told[i].change(false)))...)
			}
			settle := func(members ...int) {
				t.Helper()
				wait.Until(t, fmt.Sprintf("instances %v share the partitions evenly", members), func() bool {
					for _, i := range members {
						if n, same := told[i].same(t, r, int16(i)); !same || n != 6/len(members) {
							return false
						}
					}
					return true
				})
			}
			join(0)
			settle(0)
			join(1)
			settle(0, 1)
			join(2)
			settle(0, 1, 2)
			clients[1].Close()
			settle(0, 2)
			if n, same := told[1].same(t, r, 1); !same || n != 0 {
				t.Errorf("the instance that left holds %d partitions", n)
			}
			reasons(t, r, name)
		})
	}
}

// reasons checks the recorded reasons of revocations.
func reasons(t *testing.T, r *rig, name string) {
	t.Helper()
	why := map[string]int{}
	for _, e := range r.log.of(history.KindRevoked) {
		if e.N <= 0 {
			t.Errorf("no generation: %+v", e)
		}
		why[e.Text]++
	}
	if why[whyLeave] != 2 {
		t.Errorf("2 partitions were given up by leaving; reasons: %v", why)
	}
	eagerly := name == "eager" || name == "sticky"
	if eagerly && (why[whyRejoin] == 0 || why[whyRebalance] != 0) ||
		!eagerly && (why[whyRejoin] != 0 || why[whyRebalance] == 0) {
		t.Errorf("reasons: %v", why)
	}
}

func TestFetchingTellsWhenAnInstanceIsReady(t *testing.T) {
	_, r := cluster(t, 1, nil)
	bootstrap := r.open(t, 0)
	for run := range uint16(2) {
		r.BeginRun(0, run)
		select {
		case <-r.Fetching(0, run):
			t.Fatal("ready before it was started")
		default:
		}
		cl := client(t, bootstrap, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t.input"))
		select {
		case <-r.Fetching(0, run):
		case <-t.Context().Done():
		}
		if n := len(r.log.of(history.KindAssigned)); n != 6*int(run+1) {
			t.Errorf("%d partitions had been assigned when it was ready", n)
		}
		cl.Close()
	}
	for _, e := range r.log.of(history.KindAssigned)[6:] {
		if e.Run != 1 {
			t.Errorf("an event of the second process says %+v", e)
		}
	}
}

func TestOpenTwiceAndAfterClose(t *testing.T) {
	_, r := cluster(t, 1, nil)
	r.open(t, 0)
	if _, err := r.Open(0); err == nil {
		t.Error("the same instance was opened twice")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Open(1); !errors.Is(err, ErrClosed) {
		t.Errorf("opened after close: %v", err)
	}
}
