package docker

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/golden"
)

// The whole environment of broker 2 of 3. The image drops all its own defaults, so a missing setting is as serious
// as a wrong one.
func TestSettings(t *testing.T) {
	var lines strings.Builder
	environment := settings(3, 2, "AAAAAAAAAAAAAAAAAAAAAA", 20002)
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		lines.WriteString(name + "=" + environment[name] + "\n")
	}
	golden.Check(t, filepath.Join("testdata", "broker-2-of-3.env"), lines.String())
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
