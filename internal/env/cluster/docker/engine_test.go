package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/env/engine"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// The tests of this file need a container engine and the image that testdata/image/build.sh assembles (or
// DLQBENCH_DOCKER_IMAGE).

const testImage = "dlqbench-test/kafka:4.4.0"

func needEngine(t *testing.T) {
	t.Helper()
	if os.Getenv("DLQBENCH_DOCKER_TESTS") != "1" {
		t.Skip(
			"skipped: needs a container engine; .ci/docker.sh starts one, builds the image and sets DLQBENCH_DOCKER_TESTS=1")
	}
}

func testOptions(t *testing.T, brokers int) Options {
	image := os.Getenv("DLQBENCH_DOCKER_IMAGE")
	if image == "" {
		image = testImage
	}
	return Options{Brokers: brokers, Image: image, RunID: fmt.Sprintf("test-%s-%d", strings.ReplaceAll(t.Name(), "/", "-"),
		os.Getpid()), Log: zerolog.New(zerolog.NewTestWriter(t))}
}

// startTest starts a cluster or skips the test.
func startTest(t *testing.T, brokers int) *Kafka {
	t.Helper()
	needEngine(t)
	begun := time.Now()
	k := must.Get(Start(testContext(t), testOptions(t, brokers)))(t)
	t.Logf("%d brokers were there after %s", brokers, time.Since(begun))
	t.Cleanup(func() {
		begun := time.Now()
		if err := k.Close(); err != nil {
			t.Error(err)
		}
		t.Logf("closed in %s", time.Since(begun))
		if err := k.Close(); err != nil {
			t.Errorf("closing again: %v", err)
		}
		if left := leftovers(t, k.options.RunID); len(left) > 0 {
			t.Errorf("after Close there are %v", left)
		}
	})
	return k
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// leftovers returns the names of all objects that carry the label of a run.
func leftovers(t *testing.T, runID string) (names []string) {
	t.Helper()
	found := must.Get(engine.Connect(context.Background()))(t)
	defer func() { _ = found.Close() }()
	labelled := make(client.Filters).Add("label", engine.Label+"="+runID)
	containers, err := found.ContainerList(context.Background(), client.ContainerListOptions{All: true, Filters: labelled})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range containers.Items {
		names = append(names, c.Names...)
	}
	networks := must.Get(found.NetworkList(context.Background(), client.NetworkListOptions{Filters: labelled}))(t)
	for _, n := range networks.Items {
		names = append(names, n.Name)
	}
	return names
}

// testClient is a client of the cluster that knows a topic.
func testClient(t *testing.T, k *Kafka, topic string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	c := must.Get(kgo.NewClient(slices.Concat(k.ClientOptions(), []kgo.Opt{
		kgo.DefaultProduceTopic(topic), kgo.ConsumeTopics(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(100 * time.Millisecond),
	}, options)...))(t)
	t.Cleanup(func() {
		leaving, cancel := context.WithTimeout(context.Background(), 5*time.Second) // brokers that are down cannot answer it
		defer cancel()
		_ = c.LeaveGroupContext(leaving)
		c.Close()
	})
	return c
}

// write writes one record to each of the partitions.
func write(t *testing.T, c *kgo.Client, value string, partitions int32) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for p := range partitions {
		if err := c.ProduceSync(ctx, &kgo.Record{Partition: p, Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatalf("writing %q to partition %d: %v", value, p, err)
		}
	}
}

// read reads until it has the given number of records, and returns how often it saw each value.
func read(t *testing.T, c *kgo.Client, count int) map[string]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	values := map[string]int{}
	for seen := 0; seen < count; {
		fetches := c.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("of %d records came %v", count, values)
		}
		for _, record := range fetches.Records() {
			values[string(record.Value)]++
			seen++
		}
	}
	return values
}

// One broker: written records can be read, and survive when it is paused, stopped and killed. Its port stays the
// same.
func TestOneBroker(t *testing.T) {
	k := startTest(t, 1)
	ctx := testContext(t)
	must.Do(t, k.CreateTopics(ctx, []cluster.Topic{{Name: "input", Partitions: 2},
		{Name: "dlq", Partitions: 1, Broker: 1, Configs: map[string]string{"max.message.bytes": "2000"}}}))
	brokers := k.Brokers()
	if len(brokers) != 1 || brokers[0].Number != 1 || !strings.HasPrefix(brokers[0].Address, "127.0.0.1:") {
		t.Fatalf("brokers %v", brokers)
	}
	can := must.Get(request[*kmsg.ApiVersionsResponse](ctx, brokers[0].Address, kmsg.NewPtrApiVersionsRequest()))(t)
	if on := slices.ContainsFunc(can.FinalizedFeatures, func(f kmsg.ApiVersionsResponseFinalizedFeature) bool {
		return f.Name == shareFeature && f.MaxVersionLevel == 1
	}); on != k.admin.ShareGroups {
		t.Errorf("share groups are on: %v; the version has them: %v", on, k.admin.ShareGroups)
	}
	c := testClient(t, k, "input")
	write(t, c, "first", 2)

	must.Do(t, k.PauseBroker(ctx, 1))
	if err := k.PauseBroker(ctx, 1); err == nil ||
		!strings.Contains(err.Error(), "pausing broker 1: it is paused already") {
		t.Errorf("pausing it again: %v", err)
	}
	written := make(chan error, 1)
	go func() { written <- c.ProduceSync(ctx, &kgo.Record{Value: []byte("held")}).FirstErr() }()
	for heldBack(t, k) == 0 && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	select {
	case err := <-written:
		t.Fatalf("a paused broker has answered: %v", err)
	default:
	}
	changed, err := k.ResumeBroker(ctx, 1)
	if err != nil || changed[cluster.ChangeRequests] < 1 || len(changed) != 1 {
		t.Errorf("letting it go on: %v, %v", changed, err)
	}
	if err := <-written; err != nil {
		t.Errorf("what was held: %v", err)
	}

	for says, end := range map[string]func(context.Context,
		int32) (map[string]int, error){cluster.ChangeClosed: k.StopBroker, cluster.ChangeReset: k.KillBroker} {
		changed, err := end(ctx, 1)
		if err != nil || changed[cluster.ChangeLeaderless] != 3 || changed[says] < 1 || len(changed) != 2 {
			t.Errorf("taking it down changed %v, %v; want 3 partitions without a leader and %s", changed, err, says)
		}
		if conn, err := net.Dial("tcp", brokers[0].Address); err == nil {
			conn.Close()
			t.Errorf("%s accepts connections although the broker is down", brokers[0].Address)
		}
		if _, err := end(ctx, 1); err == nil || !strings.Contains(err.Error(), "it is stopped already") {
			t.Errorf("taking it down again: %v", err)
		}
		if changed, err := k.ResumeBroker(ctx, 1); err != nil || len(changed) > 0 {
			t.Errorf("letting a stopped broker go on: %v, %v", changed, err)
		}
		must.Do(t, k.StartBroker(ctx, 1))
		if !slices.Equal(k.Brokers(), brokers) {
			t.Errorf("now the brokers are %v, they were %v", k.Brokers(), brokers)
		}
		if err := k.StartBroker(ctx, 1); err == nil || !strings.Contains(err.Error(), "starting broker 1: it is running") {
			t.Errorf("starting it again: %v", err)
		}
		write(t, c, says, 2)
	}
	want := map[string]int{"first": 2, "held": 1, cluster.ChangeClosed: 2, cluster.ChangeReset: 2}
	if got := read(t, c, 7); !maps.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
}

// heldBack returns the number of connections that hold data which the broker has not read.
func heldBack(t *testing.T, k *Kafka) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, held := k.sockets(t.Context(), k.nodes[0])
	return held
}

// Three brokers: leaders are in their prescribed places, move when their broker stops and return with it. A broker
// without duties causes no changes.
func TestThreeBrokers(t *testing.T) {
	k := startTest(t, 3)
	ctx := testContext(t)
	must.Do(t, k.CreateTopics(ctx, []cluster.Topic{{Name: "input", Partitions: 4},
		{Name: "dlq", Partitions: 2, Broker: 3}}))
	if got, want := ledBy(t, k, 1), map[string]int32{"input-0": 1, "input-1": 2, "input-2": 1, "input-3": 2, "dlq-0": 3,
		"dlq-1": 3}; !maps.Equal(got, want) {
		t.Fatalf("leaders %v, want %v", got, want)
	}
	c := testClient(t, k, "input", kgo.ConsumerGroup("group"))
	write(t, c, "first", 4)
	read(t, c, 4)
	// The member may lose its session while brokers stop and start, and then receives uncommitted records again.
	must.Do(t, c.CommitUncommittedOffsets(ctx))

	changed, err := k.StopBroker(ctx, 1)
	if err != nil || changed[cluster.ChangeMoved] != 2 || changed[cluster.ChangeLeaderless] != 0 ||
		changed[cluster.ChangeClosed] < 1 {
		t.Errorf("stopping broker 1 changed %v, %v", changed, err)
	}
	write(t, c, "stopped", 4)
	must.Do(t, k.StartBroker(ctx, 1))
	if got := ledBy(t, k, 2); got["input-0"] != 1 || got["input-2"] != 1 {
		t.Errorf("after its start broker 1 does not lead what it led: %v", got)
	}
	changed, err = k.KillBroker(ctx, 2)
	if err != nil || changed[cluster.ChangeMoved]+changed[cluster.ChangeLeaderless] != 2 ||
		changed[cluster.ChangeReset] < 1 {
		t.Errorf("killing broker 2 changed %v, %v", changed, err)
	}
	write(t, c, "killed", 4)
	must.Do(t, k.StartBroker(ctx, 2))
	changed, err = k.MoveLeaders(ctx, 1)
	if err != nil || !maps.Equal(changed, map[string]int{cluster.ChangeMoved: 2}) {
		t.Errorf("moving leaders changed %v, %v", changed, err)
	}
	changed, err = k.ReturnLeaders(ctx, 1)
	if err != nil || !maps.Equal(changed, map[string]int{cluster.ChangeMoved: 2}) {
		t.Errorf("returning leaders changed %v, %v", changed, err)
	}
	if from, to, err := k.MoveCoordinator(ctx, "group"); err != nil || from == to || to == 3 {
		t.Errorf("the coordinator moved from %d to %d, %v", from, to, err)
	}
	write(t, c, "moved", 4)
	want := map[string]int{"stopped": 4, "killed": 4, "moved": 4}
	if got := read(t, c, 12); !maps.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
	if changed, err := k.KillBroker(ctx, 3); err != nil || changed[cluster.ChangeLeaderless] != 2 {
		t.Errorf("killing the broker that holds a topic alone changed %v, %v", changed, err)
	}
}

func ledBy(t *testing.T, k *Kafka, asked int) map[string]int32 {
	t.Helper()
	led := must.Get(leaders(t.Context(), k.nodes[asked-1:asked]))(t)
	names := map[string]int32{}
	for p, leader := range led {
		names[fmt.Sprintf("%s-%d", p.topic, p.index)] = leader
	}
	return names
}

// A broker that no client uses causes no changes when it is paused or stopped.
func TestIdleBroker(t *testing.T) {
	k := startTest(t, 1)
	ctx := testContext(t)
	must.Do(t, k.PauseBroker(ctx, 1))
	if changed, err := k.ResumeBroker(ctx, 1); err != nil || len(changed) > 0 {
		t.Errorf("a pause that nobody noticed changed %v, %v", changed, err)
	}
	if changed, err := k.StopBroker(ctx, 1); err != nil || len(changed) > 0 {
		t.Errorf("a stop that nobody noticed changed %v, %v", changed, err)
	}
}

// The remains of a killed run are found by their label and removed; nothing else is removed.
func TestSweep(t *testing.T) {
	k := startTest(t, 1)
	other := k.options.RunID + "-other"
	if removed, err := engine.Sweep(testContext(t), other); err != nil || len(removed) > 0 {
		t.Errorf("sweeping another run removed %v, %v", removed, err)
	}
	if left := leftovers(t, k.options.RunID); len(left) != 2 {
		t.Errorf("the run has %v, want a container and a network", left)
	}
	removed, err := engine.Sweep(testContext(t), k.options.RunID)
	if err != nil || len(removed) != 2 || removed[0] != "container dlqbench-"+k.options.RunID+"-broker-1" ||
		!strings.HasPrefix(removed[1], "network ") {
		t.Errorf("removed %v, %v", removed, err)
	}
}

// The error of a broker that dies during its start shows its last lines, and nothing is left behind.
func TestBrokerDiesAtStart(t *testing.T) {
	needEngine(t)
	options := testOptions(t, 1)
	options.environment = map[string]string{"KAFKA_NUM_IO_THREADS": "none"}
	_, err := Start(testContext(t), options)
	if err == nil {
		t.Fatal("it started")
	}
	for _, part := range []string{"starting Kafka in containers: broker 1 ended with exit code ", "its last lines:\n",
		"num.io.threads"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in: %v", part, err)
		}
	}
	if left := leftovers(t, options.RunID); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestMissingImage(t *testing.T) {
	needEngine(t)
	options := testOptions(t, 1)
	options.Image = "localhost:1/nothing:0"
	_, err := Start(testContext(t), options)
	if err == nil || !strings.Contains(err.Error(),
		"there is no image localhost:1/nothing:0, and it can't be pulled (") || strings.Contains(err.Error(), "\n") {
		t.Errorf("it says: %v", err)
	}
	if errors.Is(err, engine.ErrNoEngine) {
		t.Error("there is an engine")
	}
}
