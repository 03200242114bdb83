package process

// These tests run real brokers. They need Java and an installed Kafka, and run only with DLQBENCH_KAFKA_TESTS=1.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/env/cluster/install"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// installation returns the Kafka to test with, or skips the test and says what is missing.
func installation(t testing.TB) *install.Installation {
	t.Helper()
	if os.Getenv("DLQBENCH_KAFKA_TESTS") != "1" {
		t.Skip("tests with real brokers are run with DLQBENCH_KAFKA_TESTS=1")
	}
	kafka, err := install.Open(os.Getenv("DLQBENCH_KAFKA_VERSION"))
	if err != nil {
		t.Skipf("no Kafka to test with: %v", err)
	}
	if _, err := install.FindJava(t.Context(), kafka.Version.MinJava()); err != nil {
		t.Skipf("no Java to test with: %v", err)
	}
	return kafka
}

func logger(t testing.TB) zerolog.Logger {
	return zerolog.New(zerolog.NewConsoleWriter(zerolog.ConsoleTestWriter(t))).With().Timestamp().Logger()
}

// running starts a cluster for a test.
func running(t testing.TB, brokers int) *Kafka {
	t.Helper()
	kafka := installation(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must.Do(t, Prepare(t.Context(), kafka, logger(t)))
	began := time.Now()
	k := must.Get(Start(ctx, Options{Brokers: brokers, Dir: filepath.Join(t.TempDir(), "my run 50% done"), Kafka: kafka,
		Log: logger(t)}))(t)
	t.Logf("%s, ready after %s", k.Describe(), time.Since(began))
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	if lines := lastLines(k.config.nodes[0].log); len(lines) < 10 || !slices.ContainsFunc(lines, infoForm.MatchString) {
		t.Errorf("the broker does not log as it should: %q", lines)
	}
	return k
}

// client returns an ordinary client of the cluster.
func client(t testing.TB, k *Kafka, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(append(k.ClientOptions(), options...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// write writes a record to each partition and waits until all replicas have acknowledged it.
func write(t testing.TB, c *kgo.Client, topic string, partitions int32) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for p := range partitions {
		if err := c.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: p, Value: []byte("record")}).
			FirstErr(); err != nil {
			t.Fatalf("writing to partition %d of %s: %v", p, topic, err)
		}
	}
}

// leaders returns the leader of each partition of a topic.
func leaders(t testing.TB, k *Kafka, topic string) (led []int32) {
	t.Helper()
	partitions := must.Get(k.admin.Partitions(t.Context(), 0))(t)
	for _, p := range partitions {
		if p.Topic == topic {
			led = append(led, p.Leader)
		}
	}
	return led
}

func create(t testing.TB, k *Kafka, topics ...cluster.Topic) {
	t.Helper()
	must.Do(t, k.CreateTopics(t.Context(), topics))
}

// pids returns the ids of the running processes.
func pids(k *Kafka) (ids []int) {
	for _, n := range k.config.nodes {
		if n.alive() {
			ids = append(ids, n.process.cmd.Process.Pid)
		}
	}
	return ids
}

func gone(t testing.TB, ids []int) {
	t.Helper()
	for _, pid := range ids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is left", pid)
		}
	}
}

func atLeast(t testing.TB, what string, changed map[string]int, err error, wanted map[string]int) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	for change, count := range wanted {
		if changed[change] < count {
			t.Errorf("%s changed %v, want at least %v", what, changed, wanted)
		}
	}
}

func TestThreeBrokersBreak(t *testing.T) {
	k := running(t, 3)
	took := stopwatch(t)
	create(t, k, cluster.Topic{Name: "input", Partitions: 6})
	c := client(t, k)
	write(t, c, "input", 6)
	if led := leaders(t, k, "input"); !slices.Equal(led, []int32{1, 2, 3, 1, 2, 3}) {
		t.Fatalf("the leaders are %v", led)
	}
	connected := map[string]int{}
	if runtime.GOOS == "linux" {
		connected = map[string]int{cluster.ChangeReset: 1, cluster.ChangeClosed: 1}
	}

	changed, err := k.KillBroker(t.Context(), 1)
	atLeast(t, "killing", changed, err,
		map[string]int{cluster.ChangeLeaderless: 2, cluster.ChangeReset: connected[cluster.ChangeReset]})
	took("killed")
	write(t, c, "input", 6) // once the others have taken over
	took("writable again")
	if led := leaders(t, k, "input"); slices.Contains(led, 1) || slices.Contains(led, 0) {
		t.Errorf("then the leaders are %v", led)
	}
	if _, err := k.KillBroker(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "killing broker 1: it is "+
		"stopped already") {
		t.Errorf("killing again: %v", err)
	}
	before := k.Brokers()
	must.Do(t, k.StartBroker(t.Context(), 1))
	took("started")
	if led := leaders(t, k, "input"); !slices.Equal(led, []int32{1, 2, 3, 1, 2, 3}) || !slices.Equal(k.Brokers(), before) {
		t.Errorf("started again, the leaders are %v, the brokers %v", led, k.Brokers())
	}
	write(t, c, "input", 6)

	changed, err = k.StopBroker(t.Context(), 2)
	took("stopped")
	atLeast(t, "stopping", changed, err,
		map[string]int{cluster.ChangeMoved: 2, cluster.ChangeClosed: connected[cluster.ChangeClosed]})
	if changed[cluster.ChangeLeaderless] != 0 {
		t.Errorf("stopped in order it left partitions without a leader: %v", changed)
	}
	write(t, c, "input", 6)
	must.Do(t, k.StartBroker(t.Context(), 2))
	took("started")
	read(t, k, "input", 24)

	ids := pids(k)
	if err := k.Close(); err != nil || len(ids) != 3 {
		t.Errorf("closing %d processes: %v", len(ids), err)
	}
	took("closed")
	gone(t, ids)
	if _, err := k.StopBroker(t.Context(), 1); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// stopwatch returns a function that logs how long each step took.
func stopwatch(t testing.TB) func(step string) {
	last := time.Now()
	return func(step string) {
		t.Logf("%s: %s", step, time.Since(last))
		last = time.Now()
	}
}

// read reads records and checks their number.
func read(t testing.TB, k *Kafka, topic string, want int) {
	t.Helper()
	c := client(t, k, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	got := 0
	for got < want && ctx.Err() == nil {
		got += c.PollFetches(ctx).NumRecords()
	}
	if got != want {
		t.Errorf("%d records are there, want %d", got, want)
	}
}

func TestPauseAndMoves(t *testing.T) {
	k := running(t, 3)
	create(t, k, cluster.Topic{Name: "input", Partitions: 4}, cluster.Topic{Name: "dlq", Partitions: 2, Broker: 3})
	if led := append(leaders(t, k, "input"), leaders(t, k, "dlq")...); !slices.Equal(led, []int32{1, 2, 1, 2, 3, 3}) {
		t.Fatalf("the leaders are %v", led)
	}
	c := client(t, k)
	write(t, c, "input", 4)
	write(t, c, "dlq", 2)

	changed, err := k.MoveLeaders(t.Context(), 1)
	if err != nil || !maps.Equal(changed, map[string]int{cluster.ChangeMoved: 2}) ||
		!slices.Equal(leaders(t, k, "input"), []int32{2, 2, 2, 2}) {
		t.Errorf("moving: %v, %v, %v", changed, err, leaders(t, k, "input"))
	}
	write(t, c, "input", 4)
	changed, err = k.ReturnLeaders(t.Context(), 1)
	if err != nil || !maps.Equal(changed, map[string]int{cluster.ChangeMoved: 2}) ||
		!slices.Equal(leaders(t, k, "input"), []int32{1, 2, 1, 2}) {
		t.Errorf("moving back: %v, %v, %v", changed, err, leaders(t, k, "input"))
	}
	if changed, err := k.MoveLeaders(t.Context(), 3); err != nil || len(changed) > 0 {
		t.Errorf("what one broker holds alone was moved: %v, %v", changed, err)
	}

	if err := k.exercise(t.Context(), "input"); err != nil { // the group input
		t.Fatal(err)
	}
	was := must.Get(k.admin.Coordinator(t.Context(), "input"))(t)
	for range 2 {
		from, to, err := k.MoveCoordinator(t.Context(), "input")
		now, asked := k.admin.Coordinator(t.Context(), "input")
		if err != nil || asked != nil || from != was || to == from || to == 3 || now != to {
			t.Fatalf("the coordinator moved from %d to %d, %v; it was %d and is %d, %v", from, to, err, was, now, asked)
		}
		was = to
	}

	must.Do(t, k.PauseBroker(t.Context(), 3))
	write(t, c, "input", 4) // no other broker is affected
	held := make(chan error, 1)
	go func() {
		held <- c.ProduceSync(context.WithoutCancel(t.Context()), &kgo.Record{Topic: "dlq", Value: []byte("record")}).
			FirstErr()
	}()
	for deadline := time.Now().Add(10 * time.Second); runtime.GOOS == "linux" &&
		time.Now().Before(deadline); time.Sleep(poll) {
		if _, unread := connections(k.config.nodes[2].clients); unread > 0 {
			break
		}
	}
	select {
	case err := <-held:
		t.Errorf("a paused broker answers: %v", err)
	default:
	}
	changed, err = k.ResumeBroker(t.Context(), 3)
	if runtime.GOOS == "linux" {
		atLeast(t, "the pause", changed, err, map[string]int{cluster.ChangeRequests: 1})
	}
	if err := <-held; err != nil {
		t.Errorf("after the pause: %v", err)
	}
	changed, err = k.StopBroker(t.Context(), 3)
	atLeast(t, "stopping the reserved broker", changed, err, map[string]int{cluster.ChangeLeaderless: 2})
	write(t, c, "input", 4)
	must.Do(t, k.StartBroker(t.Context(), 3))
	write(t, c, "dlq", 2)
}

// A cluster of two survives the loss of either.
func TestTwoBrokers(t *testing.T) {
	k := running(t, 2)
	create(t, k, cluster.Topic{Name: "input", Partitions: 2})
	c := client(t, k)
	if ids := pids(k); len(ids) != 3 || len(k.Brokers()) != 2 {
		t.Errorf("there are %d processes and %d brokers", len(ids), len(k.Brokers()))
	}
	for number := range int32(2) {
		must.Get(k.KillBroker(t.Context(), number+1))(t)
		write(t, c, "input", 2)
		must.Do(t, k.StartBroker(t.Context(), number+1))
	}
}

// features returns the feature levels of the cluster.
func features(t testing.TB, c *kgo.Client) map[string]int16 {
	t.Helper()
	versions := must.Get(kmsg.NewPtrApiVersionsRequest().RequestWith(t.Context(), c))(t)
	levels := map[string]int16{}
	for _, feature := range versions.FinalizedFeatures {
		levels[feature.Name] = feature.MaxVersionLevel
	}
	return levels
}

func TestOneBroker(t *testing.T) {
	k := running(t, 1)
	create(t, k, cluster.Topic{Name: "input", Partitions: 2})
	c := client(t, k)
	write(t, c, "input", 2)
	levels, version := features(t, c), k.config.version
	if (levels["group.version"] > 0) != version.AtLeast(4, 0) || (levels["share.version"] > 0) != version.AtLeast(4, 1) {
		t.Errorf("Kafka %s has the features %v", version, levels)
	}
	for _, end := range []func(context.Context, int32) (map[string]int, error){k.StopBroker, k.KillBroker} {
		changed, err := end(t.Context(), 1)
		atLeast(t, "stopping the only broker", changed, err, map[string]int{cluster.ChangeLeaderless: 2})
		must.Do(t, k.StartBroker(t.Context(), 1))
		write(t, c, "input", 2)
	}
	if _, _, err := k.MoveCoordinator(t.Context(), "group"); err == nil ||
		!strings.Contains(err.Error(), "no broker but 1 may coordinate it") {
		t.Errorf("moving a coordinator: %v", err)
	}
	if _, err := k.MoveLeaders(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "it is the only one") {
		t.Errorf("moving leaders: %v", err)
	}
}

// The error of a broker that dies during its start has the broker's last lines, and nothing is left behind.
func TestDiesAtStart(t *testing.T) {
	kafka := installation(t)
	began := countJava(t)
	_, err := Start(t.Context(), Options{
		Brokers: 1, Dir: t.TempDir(), Kafka: kafka, Log: logger(t), Settings: map[string]string{"num.io.threads": "none"},
	})
	if err == nil || !strings.Contains(err.Error(), "broker 1 ended by itself (exit status 1)") ||
		!strings.Contains(err.Error(), "num.io.threads") {
		t.Errorf("it says %v", err)
	}
	if now := countJava(t); now > began {
		t.Errorf("%d processes are left", now-began)
	}
}

// countJava returns the number of Java processes among this process's children.
func countJava(t testing.TB) int {
	t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", os.Getpid(), os.Getpid()))
	if err != nil {
		return 0 // only Linux provides this
	}
	return len(strings.Fields(string(children)))
}

// If another program takes a port before the first start, another port is chosen. If a port is taken while its
// broker is stopped, that is reported.
func TestPortInUse(t *testing.T) {
	kafka := installation(t)
	must.Do(t, Prepare(t.Context(), kafka, logger(t)))
	dir := t.TempDir()
	starter := &noting{}
	var first net.Listener
	starter.onStart = func() {
		if len(starter.pids) > 1 {
			return
		}
		settings, err := os.ReadFile(filepath.Join(dir, "broker-1", settingsFile))
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(string(settings), "listeners=CLIENTS://")
		address, _, _ := strings.Cut(text, ",")
		if first, err = net.Listen("tcp", address); err != nil {
			t.Fatal(err)
		}
	}
	k := must.Get(Start(t.Context(), Options{Brokers: 1, Dir: dir, Kafka: kafka, Starter: starter, Log: logger(t)}))(t)
	defer func() { _ = k.Close() }()
	defer first.Close()
	if len(starter.pids) != 2 || k.Brokers()[0].Address == first.Addr().String() {
		t.Errorf("%d starts led to broker %s, with %s in use", len(starter.pids), k.Brokers()[0].Address, first.Addr())
	}
	must.Get(k.KillBroker(t.Context(), 1))(t)
	second := must.Get(net.Listen("tcp", k.Brokers()[0].Address))(t)
	defer second.Close()
	if err := k.StartBroker(t.Context(), 1); !errors.Is(err, errPortInUse) ||
		!strings.Contains(err.Error(), "another program listens on "+k.Brokers()[0].Address) {
		t.Errorf("it says %v", err)
	}
}

// A start that is interrupted leaves nothing running.
func TestInterruptedStart(t *testing.T) {
	kafka := installation(t)
	must.Do(t, Prepare(t.Context(), kafka, logger(t)))
	ctx, cancel := context.WithCancel(t.Context())
	starter := &noting{onStart: cancel}
	if _, err := Start(ctx, Options{Brokers: 3, Dir: t.TempDir(), Kafka: kafka, Starter: starter,
		Log: zerolog.Nop()}); !errors.Is(err, context.Canceled) {
		t.Errorf("it says %v", err)
	}
	if len(starter.pids) != 3 || starter.ended.Load() != 3 {
		t.Errorf("%d processes were started, %d have ended", len(starter.pids), starter.ended.Load())
	}
	gone(t, starter.pids)
}

// noting is a Starter that records its commands.
type noting struct {
	onStart func()
	pids    []int
	ended   atomic.Int32
}

func (n *noting) Start(cmd *exec.Cmd) (func(), error) {
	ended, err := direct{}.Start(cmd)
	if err != nil {
		return nil, err
	}
	n.pids = append(n.pids, cmd.Process.Pid)
	n.onStart()
	return func() { ended(); n.ended.Add(1) }, nil
}
