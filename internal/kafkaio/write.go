package kafkaio

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// usualBatch is what a topic takes unless it is told otherwise, as the client has it.
	usualBatch = 1_000_012
	// The smallest and the largest limit that the client knows.
	leastBatch = 512
	mostBatch  = 64 << 20
	// askLimit bounds asking a topic what it takes.
	askLimit = 5 * time.Second
)

// Writing returns what a client is opened with that writes into topics of others; connection is how it reaches the
// brokers. It compresses nothing, and a batch is as large as its topic takes (max.message.bytes): a larger one would be
// refused with every record in it, and a limit of the client's own would refuse records that the topic takes.
func Writing(connection []kgo.Opt) []kgo.Opt {
	asked := &limits{connection: connection, known: map[string]int32{}}
	return []kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytesFn(asked.of)}
}

// limits remembers what topics take. The client asks once for each partition that it finds.
type limits struct {
	connection []kgo.Opt

	mu    sync.Mutex
	known map[string]int32
}

func (l *limits) of(topic string) int32 {
	if topic == "" { // the client tries its options
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

// ask needs a client of its own: the other one waits for the answer.
func (l *limits) ask(topic string) (int32, error) {
	client, err := kgo.NewClient(append(l.connection[:len(l.connection):len(l.connection)], kgo.DisableClientMetrics(),
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
