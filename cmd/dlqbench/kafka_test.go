package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// kafka is a Kafka with the topics orders and orders.dlq, of two partitions each, and ten dead letters: five refused,
// five timed out.
type kafka struct {
	*testing.T
	address string
	client  *kgo.Client
}

func newKafka(t *testing.T) *kafka {
	t.Helper()
	cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "orders", "orders.dlq", "elsewhere")))(t)
	t.Cleanup(cluster.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	k := &kafka{t, cluster.ListenAddrs()[0], client}
	for i := range 10 {
		record := &kgo.Record{
			Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "v%d", i),
			Headers: []kgo.RecordHeader{{Key: "dlqbench-id", Value: fmt.Appendf(nil, "id-%d", i)}},
		}
		letter := deadletter.Plain{}.Seal(record, deadletter.Failure{
			Reason: []string{"refused", "timeout"}[i%2], Attempts: 3, Topic: "orders", Partition: int32(i % 2), Offset: int64(i),
			Time: time.Now(),
		})
		letter.Topic, letter.Partition = "orders.dlq", int32(i%2)
		k.produce(letter)
	}
	return k
}

func (k *kafka) produce(record *kgo.Record) {
	k.Helper()
	must.Do(k, k.client.ProduceSync(k.Context(), record).FirstErr())
}

// wantRecords checks the number of records of a topic.
func (k *kafka) wantRecords(topic string, want int64) {
	k.Helper()
	if got := k.records(topic); got != want {
		k.Errorf("%s has %d records, want %d", topic, got, want)
	}
}

func (k *kafka) records(topic string) int64 {
	k.Helper()
	ends := must.Get(kadm.NewClient(k.client).ListEndOffsets(k.Context(), topic))(k)
	got := int64(0)
	ends.Each(func(end kadm.ListedOffset) { got += end.Offset })
	return got
}

// replay runs the replay tool and checks its exit code and output.
func (k *kafka) replay(code int, says string, arguments ...string) {
	k.Helper()
	arguments = append([]string{"replay", "--bootstrap", k.address}, arguments...)
	if got, out := dlqbench(k.T, k.TempDir(), arguments...); got != code || !strings.Contains(out, says) {
		k.Errorf("%v: exit code %d, want %d and %q:\n%s", arguments, got, code, says, out)
	}
}

// A dry run changes nothing. --limit, --where and --to select. A replayed dead letter is not replayed again unless
// requested.
func TestReplaySelects(t *testing.T) {
	t.Parallel()
	k := newKafka(t)
	k.replay(exitPass, `orders.dlq-1@0 → orders key="k1"`, "--from", "orders.dlq", "--dry-run")
	k.replay(exitPass, "10 dead letters read, 10 would be replayed, 0 failed", "--from", "orders.dlq", "--dry-run")
	k.wantRecords("orders", 0)
	k.replay(exitPass, "3 replayed, 0 failed", "--from", "orders.dlq", "--limit", "3", "--rate", "1000/s")
	k.wantRecords("orders", 3)
	k.replay(exitPass, "7 dead letters read, 7 replayed, 0 failed", "--from", "orders.dlq", "--quiet")
	k.wantRecords("orders", 10)
	k.replay(exitPass, "0 dead letters read, 0 replayed, 0 failed", "--from", "orders.dlq")
	k.wantRecords("orders", 10)
	k.replay(exitPass, "10 dead letters read, 5 replayed, 0 failed", "--from", "orders.dlq", "--to", "elsewhere",
		"--where", `reason == "timeout" && attempts == 3`)
	k.wantRecords("elsewhere", 5)
	k.replay(exitPass, "10 dead letters read, 10 replayed, 0 failed", "--from", "orders.dlq", "--to", "elsewhere",
		"--from-start")
	k.wantRecords("elsewhere", 15)
	ids := filepath.Join(t.TempDir(), "ids")
	must.Do(t, os.WriteFile(ids, []byte("id-3\nid-8\nid-99\n"), 0o600))
	k.replay(exitPass, "10 dead letters read, 2 replayed, 0 failed", "--from", "orders.dlq", "--ids", ids)
	k.wantRecords("orders", 12)
}

// Failures are reported and give an error code.
func TestReplayFails(t *testing.T) {
	t.Parallel()
	k := newKafka(t)
	k.replay(exitEnvironment, "there is no topic ordres.dlq on these brokers", "--from", "ordres.dlq")
	k.replay(exitEnvironment, "10 of 10 dead letters could not be replayed; they are still in orders.dlq:\n  orders.dlq/",
		"--from", "orders.dlq", "--to", "nowhere")
	k.produce(&kgo.Record{Topic: "orders.dlq", Value: []byte("no dead letter at all")})
	k.replay(exitEnvironment, "1 of 11 dead letters could not be replayed", "--from", "orders.dlq", "--from-start")
	k.wantRecords("orders", 10)
}

// A missing broker, and one that accepts connections without answering, are detected.
func TestReplayWithoutBroker(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	for _, wanted := range []string{"no broker answered within 10s", "connection refused"} {
		code, out := dlqbench(t, t.TempDir(), "replay", "--bootstrap", listener.Addr().String(), "--from", "orders.dlq")
		if code != exitEnvironment || !strings.Contains(out, wanted) || !strings.Contains(out, listener.Addr().String()) {
			t.Errorf("the exit code is %d, want %d and %q:\n%s", code, exitEnvironment, wanted, out)
		}
		listener.Close() // the second attempt finds no listener
	}
}

// An interrupted replay reports that, and the next one continues from there.
func TestReplayInterrupted(t *testing.T) {
	t.Parallel()
	k := newKafka(t)
	command := exec.Command("dlqbench", "replay", "--bootstrap", k.address, "--from", "orders.dlq", "--rate", "6/m")
	var out strings.Builder
	stdout := must.Get(command.StdoutPipe())(t)
	command.Stderr = &out
	must.Do(t, command.Start())
	first := make([]byte, 1)
	if _, err := stdout.Read(first); err != nil { // the first is reported; the next is due in ten seconds
		t.Error(err)
	}
	if err := command.Process.Signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	_ = command.Wait() // the exit code is checked instead
	if code := command.ProcessState.ExitCode(); code != exitInterrupted ||
		!strings.Contains(out.String(), "the same command goes on from there") {
		t.Errorf("the exit code is %d, want %d:\n%s", code, exitInterrupted, out.String())
	}
	// A dead letter is reported before it is written, so the interrupt may come between the two. In both cases the next
	// call does the rest.
	done := k.records("orders")
	if done > 1 {
		t.Errorf("%d records were replayed within ten seconds at 6/m", done)
	}
	k.replay(exitPass, fmt.Sprintf("%d dead letters read, %d replayed, 0 failed", 10-done, 10-done), "--from",
		"orders.dlq")
	k.wantRecords("orders", 10)
}

// startConsumer starts the reference consumer against a Kafka and an HTTP service that counts calls.
func startConsumer(t *testing.T, bootstrap, topic string, arguments ...string) (p *program, calls *atomic.Int64) {
	t.Helper()
	calls = &atomic.Int64{}
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	t.Cleanup(service.Close)
	for name, value := range map[string]string{
		"DLQBENCH_BOOTSTRAP_SERVERS": bootstrap, "DLQBENCH_INPUT_TOPIC": topic, "DLQBENCH_DLQ_TOPIC": "orders.dlq",
		"DLQBENCH_GROUP_ID": "test", "DLQBENCH_ORACLE_URL": service.URL,
	} {
		t.Setenv(name, value)
	}
	return start(t, t.TempDir(), append([]string{"consume"}, arguments...)...), calls
}

// The reference consumer also works on its own, and ends in order.
func TestConsume(t *testing.T) {
	k := newKafka(t)
	for i := range 20 {
		k.produce(&kgo.Record{Topic: "orders", Partition: int32(i % 2), Value: fmt.Appendf(nil, "order %d", i)})
	}
	p, calls := startConsumer(t, k.address, "orders", "--max-retries", "2", "--commit-interval", "20ms")
	wait.Until(t, "all 20 records are processed", func() bool { return calls.Load() >= 20 })
	p.signal(syscall.SIGINT)
	p.wantExit(exitPass, soon)
	committed := must.Get(kadm.NewClient(k.client).FetchOffsets(t.Context(), "test"))(t)
	for partition := range int32(2) {
		if at, _ := committed.Lookup("orders", partition); at.At != 10 {
			t.Errorf("partition %d is committed to %d, want 10", partition, at.At)
		}
	}
}

// The consumer waits for brokers and topics, as consumers do, but logs that it does.
func TestConsumeWaits(t *testing.T) {
	k := newKafka(t)
	p, _ := startConsumer(t, k.address, "ordres")
	p.waitFor(`"topic":"ordres","time":`)
	if !strings.Contains(p.log(), "the topic does not exist on these brokers yet; waiting for it") {
		t.Errorf("it does not say that the topic is missing:\n%s", p.log())
	}
	p.signal(syscall.SIGTERM)
	p.wantExit(exitPass, soon)

	p, _ = startConsumer(t, "127.0.0.1:1", "orders")
	p.waitFor("the broker can't be reached; it is tried again")
	p.signal(syscall.SIGTERM)
	p.wantExit(exitPass, soon)
}
