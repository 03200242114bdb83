// A consumer on franz-go as its examples write one: poll, process the partitions of a poll side by side, commit what is
// finished, allow the rebalance. All settings of the client are its defaults, but for what the work needs.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	maxAttempts  = 4
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 400 * time.Millisecond
)

type service struct {
	client *kgo.Client
	http   http.Client
	url    string
	dlq    string
	crash  bool // ends the process when a dead letter can't be written
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Getenv("KAFKA_BROKERS"), ",")...),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)),
		kgo.ConsumerGroup(os.Getenv("KAFKA_GROUP")),
		kgo.ConsumeTopics(os.Getenv("KAFKA_TOPIC")),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		// A dead letter is a little larger than its record: the default of 1 MB is less than brokers take.
		kgo.ProducerBatchMaxBytes(1048588), kgo.ProducerBatchCompression(kgo.NoCompression()),
	)
	if err != nil {
		slog.Error("unable to create the client", "err", err)
		os.Exit(1)
	}
	s := &service{client: client, url: os.Getenv("DOWNSTREAM_URL") + "/v1/attempt", dlq: os.Getenv("KAFKA_DLQ_TOPIC"),
		crash: os.Getenv("ON_DLQ_FAILURE") == "crash"}
	s.http.Timeout = time.Second
	s.consume(ctx)
	closed := make(chan struct{})
	go func() {
		client.CloseAllowingRebalance()
		close(closed)
	}()
	select {
	case <-closed:
		slog.Info("closed")
	case <-time.After(5 * time.Second): // the client leaves when it has joined, which may wait for a session to expire
		slog.Warn("not closed in time")
	}
}

func (s *service) consume(ctx context.Context) {
	for {
		fetches := s.client.PollRecords(ctx, 200)
		if ctx.Err() != nil {
			return
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			slog.Error("fetch failed", "topic", topic, "partition", partition, "err", err)
		})
		var (
			wg   sync.WaitGroup
			mu   sync.Mutex
			done []*kgo.Record
		)
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			wg.Go(func() {
				for _, record := range p.Records {
					if !s.handle(ctx, record) {
						return
					}
					mu.Lock()
					done = append(done, record)
					mu.Unlock()
				}
			})
		})
		wg.Wait()
		// What is finished is committed also on the way out; a commit that fails is made good by the next one.
		if err := s.client.CommitRecords(context.WithoutCancel(ctx), done...); err != nil {
			slog.Error("commit failed", "err", err)
		}
		if ctx.Err() != nil {
			return
		}
		s.client.AllowRebalance()
	}
}

// handle returns true when the record has come to its end: processed, refused by the business, or in the dead-letter
// topic.
func (s *service) handle(ctx context.Context, record *kgo.Record) bool {
	backoff := firstBackoff
	for attempt := 1; ; attempt++ {
		status, after, err := s.call(record)
		switch {
		case err == nil && status == http.StatusOK:
			return true
		case status == http.StatusUnprocessableEntity:
			slog.Info("business error", "offset", record.Offset, "partition", record.Partition)
			return true
		}
		if err == nil {
			err = fmt.Errorf("status %d", status)
		}
		if status == http.StatusBadRequest || attempt == maxAttempts {
			return s.deadLetter(ctx, record, attempt, err)
		}
		if !sleep(ctx, max(backoff, after)) {
			return false
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// call makes one attempt; an attempt that was begun is not broken off.
func (s *service) call(record *kgo.Record) (status int, retryAfter time.Duration, err error) {
	request, err := http.NewRequest(http.MethodPost, s.url, bytes.NewReader(record.Value))
	if err != nil {
		return 0, 0, err
	}
	request.Header.Set("X-Kafka-Topic", record.Topic)
	request.Header.Set("X-Kafka-Partition", strconv.Itoa(int(record.Partition)))
	request.Header.Set("X-Kafka-Offset", strconv.FormatInt(record.Offset, 10))
	response, err := s.http.Do(request)
	if err != nil {
		return 0, 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, 0, err
	}
	var answer struct{ Error string }
	if response.StatusCode >= 400 && json.Unmarshal(body, &answer) == nil && answer.Error != "" {
		err = fmt.Errorf("%s", answer.Error)
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	return response.StatusCode, time.Duration(seconds) * time.Second, err
}

// deadLetter returns true when the dead letter is acknowledged. It tries until then, or until the service is to stop.
func (s *service) deadLetter(ctx context.Context, record *kgo.Record, attempts int, reason error) bool {
	letter := &kgo.Record{Topic: s.dlq, Key: record.Key, Value: record.Value, Headers: headers(record, attempts, reason)}
	for {
		err := s.client.ProduceSync(ctx, letter).FirstErr()
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		slog.Error("unable to produce the dead letter", "partition", record.Partition, "offset", record.Offset, "err", err)
		if s.crash {
			os.Exit(1)
		}
		if !sleep(ctx, 500*time.Millisecond) {
			return false
		}
	}
}

// headers returns the record's own headers and those of its failure. A record that comes back from the dead-letter
// topic has all of the latter, and does not keep them; one that has some of these names has them from its application.
func headers(record *kgo.Record, attempts int, reason error) []kgo.RecordHeader {
	failure := []kgo.RecordHeader{
		{Key: "x-error-reason", Value: []byte(strings.ToValidUTF8(reason.Error(), "?"))},
		{Key: "x-retry-attempt", Value: []byte(strconv.Itoa(attempts))},
		{Key: "source-topic", Value: []byte(record.Topic)},
		{Key: "partition", Value: []byte(strconv.Itoa(int(record.Partition)))},
		{Key: "offset", Value: []byte(strconv.FormatInt(record.Offset, 10))},
		{Key: "epoch", Value: []byte(strconv.Itoa(int(record.LeaderEpoch)))},
	}
	latest := map[string]int{}
	for i, header := range record.Headers {
		if slices.ContainsFunc(failure, func(f kgo.RecordHeader) bool { return f.Key == header.Key }) {
			latest[header.Key] = i
		}
	}
	var own []kgo.RecordHeader
	for i, header := range record.Headers {
		if at, ours := latest[header.Key]; !ours || at != i || len(latest) < len(failure) {
			own = append(own, header)
		}
	}
	return append(own, failure...)
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
