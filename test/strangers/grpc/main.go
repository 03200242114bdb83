// A consumer on franz-go and grpc-go as their examples write one: poll, charge each order by a call, commit what is
// finished. All settings of both clients are their defaults, but for what the work needs.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	maxAttempts  = 4
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 400 * time.Millisecond
	// callTimeout bounds the time of a call.
	callTimeout = time.Second
)

// charge is the method that is called for each order, unless CALLS lists several. Messages are wrappers, so that no code
// is generated.
const charge = "/acme.v1.Payments/Charge"

type service struct {
	client *kgo.Client
	calls  *grpc.ClientConn
	// methods are called in turn for each order.
	methods []string
	dlq     string
	bug     string
	books   books
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	calls, err := grpc.NewClient(os.Getenv("PAYMENTS_ADDR"), grpc.WithTransportCredentials(credentials.NewTLS(nil)))
	if err != nil {
		slog.Error("unable to prepare the client of payments", "err", err)
		os.Exit(1)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Getenv("KAFKA_BROKERS"), ",")...),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)),
		kgo.ConsumerGroup(os.Getenv("KAFKA_GROUP")),
		kgo.ConsumeTopics(os.Getenv("KAFKA_TOPIC")),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.ProducerBatchMaxBytes(1048588), kgo.ProducerBatchCompression(kgo.NoCompression()),
	)
	if err != nil {
		slog.Error("unable to create the client", "err", err)
		os.Exit(1)
	}
	s := &service{client: client, calls: calls, methods: strings.Split(cmp.Or(os.Getenv("CALLS"), charge), ","),
		dlq: os.Getenv("KAFKA_DLQ_TOPIC"), bug: os.Getenv("PLANTED_BUG"),
		books: books{client: client, results: os.Getenv("KAFKA_RESULTS_TOPIC"), bug: os.Getenv("PLANTED_BUG")}}
	if err := s.books.open(ctx, os.Getenv("DATABASE_URL")); err != nil {
		slog.Error("unable to prepare the database", "err", err)
		os.Exit(1)
	}
	s.consume(ctx)
	client.CloseAllowingRebalance()
	_ = calls.Close()
	s.books.close()
	slog.Info("closed")
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
		if s.bug == "offset-before-commit" { // what was polled is committed first
			if err := s.client.CommitRecords(context.WithoutCancel(ctx), fetches.Records()...); err != nil {
				slog.Error("commit failed", "err", err)
			}
		}
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
		if err := s.client.CommitRecords(context.WithoutCancel(ctx), done...); err != nil {
			slog.Error("commit failed", "err", err)
		}
		if ctx.Err() != nil {
			return
		}
		s.client.AllowRebalance()
	}
}

// handle returns true when the record has come to its end: written, refused by the business, or in the dead-letter topic.
func (s *service) handle(ctx context.Context, record *kgo.Record) bool {
	backoff := firstBackoff
	for attempt := 1; ; attempt++ {
		err := s.process(record)
		switch {
		case err == nil:
			return true
		case status.Code(err) == codes.FailedPrecondition:
			slog.Info("refused by a business rule", "offset", record.Offset, "partition", record.Partition)
			return true
		case !retryable(err) || attempt == maxAttempts:
			return s.deadLetter(ctx, record, attempt, err)
		}
		wait := max(backoff, asked(err))
		if s.bug == "retry-info-ignored" {
			wait = backoff
		}
		if !sleep(ctx, wait) {
			return false
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// process makes the calls for the order; one that was begun is not broken off. The order's row is written before the
// last of several calls, and its result after it.
func (s *service) process(record *kgo.Record) error {
	for i, method := range s.methods {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		if i == len(s.methods)-1 {
			if err := s.books.enter(ctx, record); err != nil {
				cancel()
				return err
			}
		}
		err := s.calls.Invoke(ctx, method, wrapperspb.String(string(record.Value)), &wrapperspb.StringValue{})
		cancel()
		last := i > 0 && i == len(s.methods)-1
		if err != nil && (s.bug == "error-ignored" || s.bug == "last-error-ignored" && last) {
			slog.Error("a call failed", "method", method, "err", err)
			continue
		}
		if err != nil {
			return err
		}
		if s.bug == "last-call-forgotten" && record.Offset%10 == 0 && i == len(s.methods)-2 {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	return s.books.report(ctx, record)
}

// asked returns the wait that an error asks for, 0 if it asks for none.
func asked(err error) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if info, is := detail.(*errdetails.RetryInfo); is {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// retryable: payments, the database or the topic may accept the order later.
func retryable(err error) bool {
	if _, called := status.FromError(err); !called {
		return later(err)
	}
	return slices.Contains([]codes.Code{codes.Unavailable, codes.ResourceExhausted, codes.DeadlineExceeded, codes.Aborted},
		status.Code(err))
}

// deadLetter returns true when the dead letter is acknowledged. It tries until then, or until the service is to stop.
func (s *service) deadLetter(ctx context.Context, record *kgo.Record, attempts int, reason error) bool {
	letter := &kgo.Record{Topic: s.dlq, Key: record.Key, Value: record.Value, Headers: append(slices.Clone(record.Headers),
		kgo.RecordHeader{Key: "x-error-reason", Value: []byte(strings.ToValidUTF8(reason.Error(), "?"))},
		kgo.RecordHeader{Key: "x-retry-attempt", Value: []byte(strconv.Itoa(attempts))},
		kgo.RecordHeader{Key: "source-topic", Value: []byte(record.Topic)},
		kgo.RecordHeader{Key: "partition", Value: fmt.Append(nil, record.Partition)},
		kgo.RecordHeader{Key: "offset", Value: fmt.Append(nil, record.Offset)},
		kgo.RecordHeader{Key: "epoch", Value: fmt.Append(nil, record.LeaderEpoch)})}
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
