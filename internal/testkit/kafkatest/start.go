package kafkatest

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Log is a log that a test reads while it is written.
type Log struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(p)
}

// String is what was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}

// Has reports whether the text was written.
func (l *Log) Has(text string) bool { return strings.Contains(l.String(), text) }

// Start starts an in-process Kafka of one broker with the topics, and a client that writes each record to the partition
// it names. Both end with the test; if it failed, it shows the log.
func Start(t *testing.T, log *Log, partitions int32, topics []string,
	options ...kfake.Opt) (*kfake.Cluster, *kgo.Client) {
	t.Helper()
	cluster, err := kfake.NewCluster(append(options, kfake.NumBrokers(1), kfake.SeedTopics(partitions, topics...),
		kfake.GroupMinSessionTimeout(500*time.Millisecond), kfake.SleepOutOfOrder())...)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0))
	if err != nil {
		cluster.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		cluster.Close()
		if t.Failed() {
			t.Logf("the log:\n%s", log)
		}
	})
	return cluster, client
}

// TopicIDs returns the ids of the cluster's topics by name, as a tap asks for them.
func TopicIDs(cluster *kfake.Cluster) func(context.Context, []string) (map[string][16]byte, error) {
	return func(_ context.Context, names []string) (map[string][16]byte, error) {
		ids := map[string][16]byte{}
		for _, name := range names {
			if topic := cluster.TopicInfo(name); topic != nil {
				ids[name] = topic.TopicID
			}
		}
		return ids, nil
	}
}
