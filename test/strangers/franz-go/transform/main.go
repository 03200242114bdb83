// A consumer on franz-go that reads a topic and writes a result of each record to another: poll, work through the poll,
// commit, allow the rebalance. With DOWNSTREAM_URL it asks a service for each record before it writes the result;
// without, the write is all that it does. Settings of the client are its defaults, but for what the work needs.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	maxAttempts  = 4
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 400 * time.Millisecond
)

// The ways in which an attempt ends badly.
var (
	errFinal    = errors.New("no other attempt will succeed")
	errBusiness = errors.New("the business says no")
)

type service struct {
	client *kgo.Client
	http   http.Client
	url    string
	output string
	dlq    string
	bug    string
	late   []*kgo.Record
	wrote  time.Time
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
		// A result is a little larger than its record.
		kgo.ProducerBatchMaxBytes(1048588), kgo.ProducerBatchCompression(kgo.NoCompression()),
	)
	if err != nil {
		slog.Error("unable to create the client", "err", err)
		os.Exit(1)
	}
	s := &service{client: client, url: os.Getenv("DOWNSTREAM_URL"), output: os.Getenv("KAFKA_OUTPUT_TOPIC"),
		dlq: os.Getenv("KAFKA_DLQ_TOPIC"), bug: os.Getenv("PLANTED_BUG"), wrote: time.Now()}
	s.http.Timeout = time.Second
	s.consume(ctx)
	client.CloseAllowingRebalance()
	slog.Info("closed")
}

func (s *service) consume(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := s.client.PollRecords(ctx, 20)
		fetches.EachError(func(topic string, partition int32, err error) {
			if ctx.Err() == nil {
				slog.Error("fetch failed", "topic", topic, "partition", partition, "err", err)
			}
		})
		var done []*kgo.Record
		for _, record := range fetches.Records() {
			if ctx.Err() != nil || !s.handle(ctx, record) {
				break
			}
			done = append(done, record)
		}
		// What is finished is committed also on the way out; a commit that fails is made good by the next one.
		if err := s.client.CommitRecords(context.WithoutCancel(ctx), done...); err != nil {
			slog.Error("commit failed", "err", err)
		}
		s.client.AllowRebalance()
		s.flush(ctx)
	}
}

// handle returns true when the record has come to its end: its result is written, the business refused it, or it is in
// the dead-letter topic.
func (s *service) handle(ctx context.Context, record *kgo.Record) bool {
	backoff := firstBackoff
	for attempt := 1; ; attempt++ {
		err := s.process(ctx, record, attempt)
		switch {
		case err == nil:
			return true
		case errors.Is(err, errBusiness):
			slog.Info("business error", "offset", record.Offset, "partition", record.Partition)
			return true
		case errors.Is(err, errFinal) || attempt == maxAttempts:
			return s.deadLetter(ctx, record, err)
		}
		if !sleep(ctx, backoff) {
			return false
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// process makes one attempt; an attempt that was begun is not broken off.
func (s *service) process(ctx context.Context, record *kgo.Record, attempt int) error {
	ctx = context.WithoutCancel(ctx)
	if s.bug == "result-in-the-retried-block" || s.bug == "result-before-call" && attempt == 1 {
		if err := s.write(ctx, record); err != nil {
			return err
		}
	}
	if err := s.call(record); err != nil {
		return err
	}
	switch s.bug {
	case "result-in-the-retried-block", "result-before-call":
		return nil
	case "results-in-a-buffer":
		s.late = append(s.late, s.result(record))
		return nil
	}
	return s.write(ctx, record)
}

// call asks the downstream, if there is one.
func (s *service) call(record *kgo.Record) error {
	if s.url == "" {
		return nil
	}
	response, err := s.http.Post(s.url+"/v1/attempt", "application/json", bytes.NewReader(record.Value))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusBadRequest:
		return fmt.Errorf("status 400: %w", errFinal)
	case http.StatusUnprocessableEntity:
		return errBusiness
	}
	return fmt.Errorf("status %d", response.StatusCode)
}

func (s *service) result(record *kgo.Record) *kgo.Record {
	value, _ := json.Marshal(map[string]string{"processed": string(record.Value)}) // text never fails
	return &kgo.Record{Topic: s.output, Key: record.Key, Value: value}
}

// write writes the result and waits for the answer.
func (s *service) write(ctx context.Context, record *kgo.Record) error {
	err := s.client.ProduceSync(ctx, s.result(record)).FirstErr()
	switch {
	case errors.Is(err, kerr.InvalidRecord):
		return fmt.Errorf("%w: %w", err, errFinal)
	case errors.Is(err, kerr.PolicyViolation):
		return errBusiness
	}
	return err
}

// flush writes results that were put off, every three seconds: their offsets are committed by then.
func (s *service) flush(ctx context.Context) {
	if len(s.late) == 0 || time.Since(s.wrote) < 3*time.Second && ctx.Err() == nil {
		return
	}
	if err := s.client.ProduceSync(context.WithoutCancel(ctx), s.late...).FirstErr(); err != nil {
		slog.Error("unable to produce the results", "err", err)
	}
	s.late, s.wrote = nil, time.Now()
}

// deadLetter returns true when the dead letter is acknowledged. It tries until then, or until the service is to stop.
func (s *service) deadLetter(ctx context.Context, record *kgo.Record, reason error) bool {
	letter := &kgo.Record{Topic: s.dlq, Key: record.Key, Value: record.Value, Headers: slices.Clone(record.Headers)}
	for name, value := range map[string]string{
		"from-topic": record.Topic, "from-partition": strconv.Itoa(int(record.Partition)),
		"from-offset": strconv.FormatInt(record.Offset, 10), "from-error": strconv.Quote(reason.Error()),
	} {
		letter.Headers = append(letter.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	for {
		err := s.client.ProduceSync(ctx, letter).FirstErr()
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		slog.Error("unable to produce the dead letter", "partition", record.Partition, "offset", record.Offset, "err", err)
		if !sleep(ctx, 500*time.Millisecond) {
			return false
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
