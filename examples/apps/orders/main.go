// The orders service takes orders from Kafka and has each of them paid: it calls the payments service, retries what may
// pass, and writes the orders that can't be paid to a dead-letter topic.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// service consumes orders, with one worker for each partition.
type service struct {
	client      *kgo.Client
	payments    *payments
	deadLetters string

	mu      sync.Mutex
	workers map[int32]*worker
}

func main() {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	s := &service{
		payments: newPayments(os.Getenv("PAYMENTS_URL")), deadLetters: os.Getenv("DEAD_LETTER_TOPIC"),
		workers: map[int32]*worker{},
	}
	var err error
	s.client, err = kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Getenv("KAFKA_BROKERS"), ",")...),
		kgo.ConsumerGroup(os.Getenv("ORDERS_GROUP")), kgo.ConsumeTopics(os.Getenv("ORDERS_TOPIC")),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(500*time.Millisecond),
		kgo.AutoCommitMarks(), kgo.AutoCommitInterval(100*time.Millisecond), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsRevoked(s.revoked), kgo.OnPartitionsLost(s.lost),
		kgo.ProducerLinger(0), kgo.ProduceRequestTimeout(time.Second), kgo.RequestTimeoutOverhead(2*time.Second),
		// As large as brokers take by default: a dead letter is larger than its order.
		kgo.ProducerBatchMaxBytes(1048588), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
		kgo.MetadataMinAge(250*time.Millisecond),
	)
	if err != nil {
		slog.Error("starting", "error", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	slog.Info("taking orders")
	s.run(ctx)
	s.client.CloseAllowingRebalance()
	slog.Info("stopped")
}

func (s *service) run(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := s.client.PollFetches(ctx)
		fetches.EachError(func(topic string, partition int32, err error) {
			if ctx.Err() == nil {
				slog.Error("fetching", "topic", topic, "partition", partition, "error", err)
			}
		})
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) > 0 {
				s.hand(p)
			}
		})
		s.client.AllowRebalance()
	}
}

// hand gives a batch to the partition's worker. No more of the partition is fetched until the batch is done.
func (s *service) hand(p kgo.FetchTopicPartition) {
	s.client.PauseFetchPartitions(map[string][]int32{p.Topic: {p.Partition}})
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.workers[p.Partition]
	if w == nil {
		w = startWorker(s)
		s.workers[p.Partition] = w
	}
	w.batches <- p.Records
}

func (s *service) revoked(ctx context.Context, client *kgo.Client, partitions map[string][]int32) {
	s.drop(partitions)
	if err := client.CommitMarkedOffsets(ctx); err != nil {
		slog.Error("committing before the partitions are given up", "error", err)
	}
}

func (s *service) lost(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	s.drop(partitions)
}

// drop stops the workers of partitions that go to another instance.
func (s *service) drop(partitions map[string][]int32) {
	var stopping []*worker
	s.mu.Lock()
	for _, numbers := range partitions {
		for _, number := range numbers {
			if w := s.workers[number]; w != nil {
				stopping = append(stopping, w)
				delete(s.workers, number)
			}
		}
	}
	s.mu.Unlock()
	for _, w := range stopping {
		w.stop()
	}
	for _, w := range stopping {
		<-w.done
	}
	s.client.ResumeFetchPartitions(partitions)
}
