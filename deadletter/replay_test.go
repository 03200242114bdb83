package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const letters = 60

// bench is a Kafka with 60 dead letters in three partitions. The i-th is in partition i%3, with key "k<i%6>", value
// "v<i>", reason "timeout" for even i and "refused" for odd i, and i%4+1 attempts.
type bench struct {
	*testing.T
	cluster *kfake.Cluster
	client  *kgo.Client
}

func newBench(t *testing.T) *bench {
	t.Helper()
	cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "orders", "orders.dlq", "elsewhere")))(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); cluster.Close() })
	b := &bench{t, cluster, client}
	b.deadLetter(letters)
	return b
}

func (b *bench) deadLetter(count int) {
	b.Helper()
	var all []*kgo.Record
	for i := range count {
		record := &kgo.Record{Key: fmt.Appendf(nil, "k%d", i%6), Value: fmt.Appendf(nil, "v%d", i),
			Headers: []kgo.RecordHeader{header("trace", fmt.Sprint(i)), header("trace", "again")}}
		letter := Plain{}.Seal(record, Failure{
			Reason: []string{"timeout", "refused"}[i%2], Attempts: int32(i%4 + 1), Topic: "orders", Partition: int32(i % 3),
			Offset: int64(i), Time: time.Now(),
		})
		letter.Topic = "orders.dlq"
		all = append(all, letter)
	}
	must.Do(b, b.client.ProduceSync(b.Context(), all...).FirstErr())
}

func (b *bench) config() Config {
	return Config{Bootstrap: b.cluster.ListenAddrs(), From: "orders.dlq"}
}

func (b *bench) run(config Config) Result {
	b.Helper()
	result := must.Get(Run(b.Context(), config))(b)
	return result
}

// content returns the records of a topic, partition by partition.
func (b *bench) content(topic string) []*kgo.Record {
	b.Helper()
	ends := must.Get(kadm.NewClient(b.client).ListEndOffsets(b.Context(), topic))(b)
	var total int64
	assign := map[int32]kgo.Offset{}
	ends.Each(func(end kadm.ListedOffset) { total += end.Offset; assign[end.Partition] = kgo.NewOffset().AtStart() })
	reader := must.Get(kgo.NewClient(kgo.SeedBrokers(b.cluster.ListenAddrs()...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: assign})))(b)
	defer reader.Close()
	ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
	defer cancel()
	var all []*kgo.Record
	for int64(len(all)) < total {
		fetches := reader.PollFetches(ctx)
		must.Do(b, fetches.Err0())
		all = append(all, fetches.Records()...)
	}
	slices.SortStableFunc(all, func(a, b *kgo.Record) int { return int(a.Partition - b.Partition) })
	return all
}

func (b *bench) expect(topic string, want ...string) {
	b.Helper()
	var got []string
	for _, record := range b.content(topic) {
		got = append(got, string(record.Value))
	}
	if !slices.Equal(got, want) {
		b.Errorf("%s holds %v, want %v", topic, got, want)
	}
}

// values returns the values of the wanted dead letters, in the order in which they lie in three partitions.
func values(wanted func(i int) bool) []string {
	var all []string
	for partition := range 3 {
		for i := partition; i < letters; i += 3 {
			if wanted(i) {
				all = append(all, fmt.Sprintf("v%d", i))
			}
		}
	}
	return all
}

func everything(int) bool { return true }

func TestReplayPutsEveryLetterBackOnceAsItWas(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if got, want := b.run(b.config()), (Result{Read: letters, Selected: letters, Replayed: letters}); fmt.Sprint(got) !=
		fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	b.expect("orders", values(everything)...) // the order within each partition, too
	for _, record := range b.content("orders") {
		i := record.Value[1:]
		if string(record.Key)[0] != 'k' || len(record.Headers) != 2 || record.Headers[0].Key != "trace" ||
			string(record.Headers[0].Value) != string(i) {
			t.Errorf("%s came back as %s", i, dump(record))
		}
	}
	if got := b.run(b.config()); got.Read != 0 || got.Replayed != 0 {
		t.Errorf("a second run read and replayed again: %+v", got)
	}
	b.deadLetter(3)
	if got := b.run(b.config()); got.Replayed != 3 {
		t.Errorf("three more dead letters: %+v", got)
	}
	fromStart := b.config()
	fromStart.FromStart = true
	if got := b.run(fromStart); got.Replayed != letters+3 {
		t.Errorf("from the start: %+v", got)
	}
}

// Headers that are to be dropped are not put back. The others are, also with a dialect that knows none of them.
func TestReplayDropsHeaders(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	config := b.config()
	config.Dialect, config.To, config.Drop = Raw{}, "orders", []string{HeaderAttempt, "trace"}
	b.run(config)
	for _, record := range b.content("orders") {
		dropped := func(header kgo.RecordHeader) bool { return slices.Contains(config.Drop, header.Key) }
		if len(record.Headers) == 0 || slices.ContainsFunc(record.Headers, dropped) {
			t.Fatalf("put back with %v", record.Headers)
		}
	}
}

func TestReplaySelects(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	config := b.config()
	config.To, config.Where = "elsewhere",
		`reason contains "time" && attempts >= 3 && source.offset < 50 && source.topic == "orders" && headers["trace"] == `+
			`"again" && key != "k5" && partition < 3 && topic == "orders.dlq" && timestamp.Year() > 2000 && value startsWith "v"`
	wanted := func(i int) bool { return i%2 == 0 && i%4+1 >= 3 && i < 50 }
	if got := b.run(config); got.Read != letters || got.Replayed != int64(len(values(wanted))) {
		t.Errorf("%+v, want %d replayed of %d", got, len(values(wanted)), letters)
	}
	b.expect("elsewhere", values(wanted)...)
	b.expect("orders")

	// The next selection finds the dead letters that the first one skipped.
	rest := b.config()
	rest.Where = `reason == "refused"`
	if got := b.run(rest); got.Replayed != letters/2 {
		t.Errorf("%+v, want %d replayed", got, letters/2)
	}
	selected := b.config()
	selected.Select = func(letter *kgo.Record) bool { return string(letter.Value) == "v7" }
	if _, err := Run(t.Context(), selected); err == nil || !strings.Contains(err.Error(), "Select needs a Group") {
		t.Errorf("a Select without a group: %v", err)
	}
	selected.Group = "one"
	if got := b.run(selected); got.Selected != 1 || got.Replayed != 1 {
		t.Errorf("%+v, want 1", got)
	}
}

// TestReplayLeavesWhatCameLaterToTheNextRun: a dead letter beyond the end offset at the start is not replayed, even
// if it was fetched with the others. Otherwise a record that fails again and again would keep the replay running for
// ever.
func TestReplayLeavesWhatCameLaterToTheNextRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	config := b.config()
	config.DryRun = true
	r := must.Get(newReplay(config))(t)
	defer r.client.Close()
	must.Do(t, r.locate(t.Context()))
	// 20 dead letters per partition
	for _, letter := range []*kgo.Record{{Topic: config.From, Offset: 19}, {Topic: config.From, Offset: 20}} {
		if more, err := r.take(t.Context(), letter); err != nil || !more {
			t.Fatal(more, err)
		}
	}
	if r.result.Read != 1 || r.position[0] != 20 {
		t.Errorf("read %d dead letters up to %d, want 1 up to 20", r.result.Read, r.position[0])
	}
}

func TestReplayGoesOnWhereItsLimitStoppedIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	config := b.config()
	config.Limit = 25
	for _, want := range []int64{25, 25, 10, 0} {
		if got := b.run(config); got.Replayed != want {
			t.Errorf("%+v, want %d", got, want)
		}
	}
	b.expect("orders", values(everything)...)
}

func TestDryRunWritesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	config := b.config()
	config.DryRun = true
	var told []string
	config.OnLetter = func(letter, record *kgo.Record) {
		told = append(told, fmt.Sprintf("%s %s %s", letter.Topic, record.Topic, record.Value))
	}
	if got := b.run(config); got.Selected != letters || got.Replayed != 0 || len(told) != letters ||
		!strings.HasPrefix(told[0], "orders.dlq orders v") {
		t.Errorf("%+v, told %v", got, told)
	}
	b.expect("orders")
	config.DryRun = false
	if got := b.run(config); got.Replayed != letters {
		t.Errorf("after the dry run: %+v", got)
	}
}

func TestReplayIsOnceThoughBrokersRefuseAndConnectionsBreak(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fault := b.cluster.Fault(
		kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "orders", Err: kerr.NotEnoughReplicas, Count: 3},
		kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "orders", Err: kerr.NotEnoughReplicasAfterAppend, Count: 3},
	)
	var cut atomic.Int32
	b.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		if n := cut.Add(1); n%2 == 1 && n < 8 {
			return nil, errors.New("cut"), true
		}
		return nil, nil, false
	})
	if got := b.run(b.config()); got.Replayed != letters {
		t.Errorf("%+v", got)
	}
	if fault.Hits() != 6 || cut.Load() < 8 {
		t.Errorf("only %d refusals and %d requests", fault.Hits(), cut.Load())
	}
	b.expect("orders", values(everything)...)
}

func TestReplayCountsWhatIsRefusedForGood(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	nowhere := Plain{}.Seal(&kgo.Record{Value: []byte("lost")}, Failure{Attempts: 1})
	nowhere.Topic = "orders.dlq"
	must.Do(t, b.client.ProduceSync(t.Context(), nowhere).FirstErr())
	config := b.config()
	config.Publish = func(next Publisher) Publisher { return refusing{next} }
	got := b.run(config)
	if got.Selected != letters+1 || got.Failed != 2 || got.Replayed != letters-1 || len(got.Failures) != 2 {
		t.Fatalf("%+v", got)
	}
	for _, part := range []string{"does not say which topic it goes back to", "orders.dlq/1@4: refused"} {
		if !strings.Contains(strings.Join(got.Failures, "\n"), part) {
			t.Errorf("%v doesn't say %q", got.Failures, part)
		}
	}
	b.expect("orders", values(func(i int) bool { return i != 13 })...)
}

// refusing rejects v13.
type refusing struct{ Publisher }

func (p refusing) Produce(ctx context.Context, record *kgo.Record, promise func(*kgo.Record, error)) {
	if string(record.Value) == "v13" {
		promise(record, errTest)
		return
	}
	p.Publisher.Produce(ctx, record, promise)
}

func TestReplayStopsInOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	config := b.config()
	told := 0
	config.OnLetter = func(*kgo.Record, *kgo.Record) {
		if told++; told == 20 {
			cancel()
		}
	}
	first, err := Run(ctx, config)
	if !errors.Is(err, context.Canceled) || first.Replayed < 19 || first.Replayed > 20 ||
		first.Replayed != first.Selected {
		t.Errorf("interrupted: %+v, %v", first, err)
	}
	config.OnLetter = nil
	if second := b.run(config); first.Replayed+second.Replayed != letters {
		t.Errorf("%d before and %d after the interruption, want %d together", first.Replayed, second.Replayed, letters)
	}
	b.expect("orders", values(everything)...)
}

func TestReplayKeepsItsRate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	config := b.config()
	config.Rate, config.Limit = 200, 41
	begun := time.Now()
	b.run(config)
	if took := time.Since(begun); took < 195*time.Millisecond {
		t.Errorf("41 dead letters at 200/s took %s, want 200ms or more", took)
	}
}

func TestReplayRefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	for part, config := range map[string]Config{
		"no broker":        {From: "a"},
		"no dead-letter":   {Bootstrap: []string{"x"}},
		"to itself":        {Bootstrap: []string{"x"}, From: "a", To: "a"},
		"can't be neg":     {Bootstrap: []string{"x"}, From: "a", Limit: -1},
		"(1:12)":           {Bootstrap: []string{"x"}, From: "a", Where: "attempts > reazon"},
		"unexpected token": {Bootstrap: []string{"x"}, From: "a", Where: "attempts >"},
		"bool":             {Bootstrap: []string{"x"}, From: "a", Where: "attempts + 1"},
	} {
		if _, err := Run(t.Context(), config); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%+v gave %v, want something about %q", config, err, part)
		}
	}
	b := newBench(t)
	config := b.config()
	config.From = "nowhere"
	if _, err := Run(t.Context(), config); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("a topic that doesn't exist gave %v", err)
	}
	config = b.config()
	config.Where = `headers["trace"][100:200] == "x" || int(reason) > 0`
	if _, err := Run(t.Context(), config); err == nil || !strings.Contains(err.Error(), "orders.dlq/") {
		t.Errorf("a filter that fails on a dead letter gave %v", err)
	}
}

func TestProgressBelongsToTheSelection(t *testing.T) {
	t.Parallel()
	groups := map[string]bool{}
	for _, selection := range [][2]string{{"", ""}, {"a", ""}, {"", "a"}, {"a", "b"}, {"ab", ""}} {
		groups[ProgressGroup("dlq", selection[0], selection[1])] = true
	}
	if len(groups) != 5 || !groups["dlq.replay"] {
		t.Errorf("groups %v", groups)
	}
}
