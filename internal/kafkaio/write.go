package kafkaio

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// usualBatch is the maximum batch size that a topic accepts by default, and the client's default.
	usualBatch = 1_000_012
	// The smallest and largest limits that the client accepts.
	leastBatch = 512
	mostBatch  = 64 << 20
	// askLimit is the maximum time for asking a topic for its limit.
	askLimit = 5 * time.Second
)

// Writing returns the options of a client that writes to topics of others. connection has the options for connecting
// to the brokers. The client compresses nothing, and a batch is as large as its topic accepts (max.message.bytes). A
// larger batch would be rejected with all its records, and a fixed limit in the client would reject records that the
// topic accepts.
func Writing(connection []kgo.Opt) []kgo.Opt {
	asked := &limits{connection: connection, known: map[string]int32{}}
	return []kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytesFn(asked.of)}
}

// limits caches the limits of topics. The client asks once for each partition that it discovers.
type limits struct {
	connection []kgo.Opt

	mu    sync.Mutex
	known map[string]int32
}

func (l *limits) of(topic string) int32 {
	if topic == "" { // the client validates its options
		return usualBatch
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if limit, known := l.known[topic]; known {
		return limit
	}
	limit := int32(usualBatch)
	if said, err := l.ask(topic); err == nil {
		limit = min(max(said, leastBatch), mostBatch)
	}
	l.known[topic] = limit
	return limit
}

// ask needs a separate client, because the other one waits for the answer.
func (l *limits) ask(topic string) (int32, error) {
	client, err := kgo.NewClient(append(slices.Clip(l.connection), kgo.DisableClientMetrics(),
		kgo.AlwaysRetryEOF())...)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	configs, err := kadm.NewClient(client).DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return 0, err
	}
	said, err := configs.On(topic, nil)
	if err == nil {
		err = said.Err
	}
	if err != nil {
		return 0, err
	}
	for _, one := range said.Configs {
		if one.Key == "max.message.bytes" && one.Value != nil {
			limit, err := strconv.ParseInt(*one.Value, 10, 32)
			return int32(limit), err
		}
	}
	return usualBatch, nil
}
