package docker

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The whole environment of broker 2 of 3. The image drops all its own defaults, so a missing setting is as serious
// as a wrong one.
func TestSettings(t *testing.T) {
	var lines strings.Builder
	environment := settings(3, 2, "AAAAAAAAAAAAAAAAAAAAAA", 20002)
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		lines.WriteString(name + "=" + environment[name] + "\n")
	}
	golden := filepath.Join("testdata", "broker-2-of-3.env")
	if *update {
		if err := os.WriteFile(golden, []byte(lines.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if lines.String() != string(want) {
		t.Errorf("the environment is\n%s\nwant\n%s", lines.String(), want)
	}
}

// A small cluster asks for no more replicas than it has brokers, and tolerates the loss of one only if there are
// three.
func TestReplicas(t *testing.T) {
	for brokers, want := range map[int][2]string{1: {"1", "1"}, 2: {"2", "1"}, 3: {"3", "2"}, 9: {"3", "2"}} {
		environment := settings(brokers, 1, "id", 20000)
		for _, name := range []string{"KAFKA_DEFAULT_REPLICATION_FACTOR", "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR",
			"KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR"} {
			if environment[name] != want[0] {
				t.Errorf("%d brokers: %s=%s, want %s", brokers, name, environment[name], want[0])
			}
		}
		for _, name := range []string{"KAFKA_MIN_INSYNC_REPLICAS", "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR"} {
			if environment[name] != want[1] {
				t.Errorf("%d brokers: %s=%s, want %s", brokers, name, environment[name], want[1])
			}
		}
		if voters := strings.Count(environment["KAFKA_CONTROLLER_QUORUM_VOTERS"], "@"); voters != brokers {
			t.Errorf("%d brokers: %d voters", brokers, voters)
		}
	}
}

// A topic on fewer than three brokers can be written with one of them.
func TestTolerant(t *testing.T) {
	k := &Kafka{nodes: make([]*node, 3), reserved: map[int32]bool{}}
	input, dlq := cluster.Topic{Name: "input", Partitions: 1}, cluster.Topic{Name: "dlq", Partitions: 1, Broker: 3,
		Configs: map[string]string{"a": "b"}}
	if got := k.tolerant([]cluster.Topic{input}); got[0].Configs != nil {
		t.Errorf("on three brokers: %v", got)
	}
	k.reserved[3] = true
	got := k.tolerant([]cluster.Topic{input, dlq})
	if got[0].Configs["min.insync.replicas"] != "1" || got[1].Configs["min.insync.replicas"] != "1" ||
		got[1].Configs["a"] != "b" || len(dlq.Configs) != 1 {
		t.Errorf("with one reserved: %v", got)
	}
	input.Configs = map[string]string{"min.insync.replicas": "2"}
	if got := k.tolerant([]cluster.Topic{input}); got[0].Configs["min.insync.replicas"] != "2" {
		t.Errorf("what was asked for became %v", got)
	}
	k.reserved[1], k.reserved[2] = true, true
	if got := k.tolerant([]cluster.Topic{{Name: "other", Partitions: 1}}); got[0].Configs != nil {
		t.Errorf("with all reserved, which is as with none: %v", got)
	}
}
