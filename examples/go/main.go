// A Kafka consumer that retries and dead-letters, to start from. One worker per partition takes its records in order:
// it calls the downstream, retries in place with backoff, writes what keeps failing to the dead-letter topic, waits
// until that is acknowledged, and only then lets the offset be committed.
package main

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The promises that subject.yaml makes.
const (
	maxAttempts    = 3 // the first included
	firstBackoff   = 20 * time.Millisecond
	maxBackoff     = 200 * time.Millisecond
	backoffJitter  = 10 * time.Millisecond
	attemptTimeout = 500 * time.Millisecond
)

type consumer struct {
	client   *kgo.Client
	http     *http.Client
	url      string
	dlqTopic string

	mu      sync.Mutex
	workers map[int32]*worker
}

// maxLetter is the default of message.max.bytes.
const maxLetter = 1048588

func main() {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	c := &consumer{
		http: &http.Client{Timeout: attemptTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 100}},
		url:  os.Getenv("DLQBENCH_ORACLE_URL") + "/v1/attempt", dlqTopic: os.Getenv("DLQBENCH_DLQ_TOPIC"),
		workers: map[int32]*worker{},
	}
	var err error
	c.client, err = kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Getenv("DLQBENCH_BOOTSTRAP_SERVERS"), ",")...),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)),
		kgo.ConsumerGroup(os.Getenv("DLQBENCH_GROUP_ID")),
		kgo.ConsumeTopics(os.Getenv("DLQBENCH_INPUT_TOPIC")),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(500*time.Millisecond),
		// Only what a worker has marked is committed.
		kgo.AutoCommitMarks(), kgo.AutoCommitInterval(100*time.Millisecond),
		// No partition may be taken away between a poll and the hand-over of what it returned.
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsRevoked(c.revoked), kgo.OnPartitionsLost(c.lost),
		// Dead letters: idempotent, acknowledged by all replicas (both are the defaults), sent again soon when no
		// answer comes.
		kgo.ProducerLinger(0), kgo.ProduceRequestTimeout(time.Second), kgo.RequestTimeoutOverhead(2*time.Second),
		// As large as the broker takes by default (message.max.bytes): a dead letter is larger than its record, by the
		// headers.
		kgo.ProducerBatchMaxBytes(maxLetter),
		// Whoever reads dead letters need not have franz-go's default codec, snappy.
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RetryBackoffFn(func(int) time.Duration {
			return 100 * time.Millisecond
		}), kgo.MetadataMinAge(250*time.Millisecond),
	)
	if err != nil {
		slog.Error("starting the consumer", "error", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	slog.Info("consuming")
	c.run(ctx)
	// Leaving the group calls revoked, which stops the workers and commits what they have finished.
	c.client.CloseAllowingRebalance()
	slog.Info("stopped")
}

func (c *consumer) run(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := c.client.PollFetches(ctx)
		fetches.EachError(func(topic string, partition int32, err error) {
			if ctx.Err() == nil {
				slog.Error("fetching", "topic", topic, "partition", partition, "error", err)
			}
		})
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) > 0 {
				c.hand(p)
			}
		})
		c.client.AllowRebalance()
	}
}

// hand gives a batch to the partition's worker, and fetches no more of this partition until the batch is finished: the
// poll loop never waits for a slow partition, so the others go on.
func (c *consumer) hand(p kgo.FetchTopicPartition) {
	c.client.PauseFetchPartitions(map[string][]int32{p.Topic: {p.Partition}})
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.workers[p.Partition]
	if w == nil {
		w = startWorker(c)
		c.workers[p.Partition] = w
	}
	w.batches <- p.Records
}

// revoked gives partitions up in order: what is finished is committed, the rest is the next owner's.
func (c *consumer) revoked(ctx context.Context, client *kgo.Client, partitions map[string][]int32) {
	c.drop(partitions)
	if err := client.CommitMarkedOffsets(ctx); err != nil {
		slog.Error("committing before the partitions are given up", "error", err)
	}
}

// lost gives partitions up that are another's already: nothing may be committed any more.
func (c *consumer) lost(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	c.drop(partitions)
}

func (c *consumer) drop(partitions map[string][]int32) {
	var stopping []*worker
	c.mu.Lock()
	for _, numbers := range partitions {
		for _, number := range numbers {
			if w := c.workers[number]; w != nil {
				stopping = append(stopping, w)
				delete(c.workers, number)
			}
		}
	}
	c.mu.Unlock()
	for _, w := range stopping {
		w.stop()
	}
	for _, w := range stopping {
		<-w.done
	}
	// A pause outlives the assignment: without this the partition would stand still if it ever came back.
	c.client.ResumeFetchPartitions(partitions)
}
