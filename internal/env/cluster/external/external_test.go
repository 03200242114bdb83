package external

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func TestRunOnPlaintextCluster(t *testing.T) {
	c := start(t, 3)
	owner := theirs(t, c)
	owner.create(t, "orders")
	ledger := filepath.Join(t.TempDir(), "external.json")
	k := connect(t, plainConfig(c), Options{Ledger: ledger})
	for i, broker := range k.Brokers() {
		if broker.Number != int32(i+1) || broker.ID != int32(i) || broker.Address != c.ListenAddrs()[i] {
			t.Errorf("broker %d is %+v", i, broker)
		}
	}
	if got, want := k.Describe(), "external, PLAINTEXT, 3 brokers"; got != want {
		t.Errorf("described as %q, want %q", got, want)
	}
	must.Do(t, k.CreateTopics(within(t), runTopics()))
	if _, err := os.Stat(ledger); err != nil {
		t.Error(err)
	}
	topics := owner.topics(t)
	for _, topic := range runTopics() {
		if got := len(topics[topic.Name].Partitions); got != topic.Partitions {
			t.Errorf("topic %s has %d partitions, want %d", topic.Name, got, topic.Partitions)
		}
	}
	must.Do(t, k.Close())
	if got := owner.names(t); !slices.Equal(got, []string{"orders"}) {
		t.Errorf("after the run there are %q", got)
	}
	if _, err := os.Stat(ledger); !os.IsNotExist(err) {
		t.Errorf("the ledger: %v", err)
	}
	if err := k.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
}
