// A consumer on franz-go and pgx as their examples write one: poll, insert each order in a transaction of its own, commit
// what is finished. With PAYMENTS_URL, the order is paid for over HTTP first; with KAFKA_RESULTS_TOPIC, the topic is told
// of it last. With WAY=batch, the orders of a partition are sent as one pgx.Batch. All settings of the clients are their defaults, but for what the work needs.
package main

import (
	"context"
	"encoding/json"
	"errors"
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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	maxAttempts  = 4
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 400 * time.Millisecond
	// orderTimeout bounds the time for writing an order.
	orderTimeout = time.Second
)

const schema = `
CREATE TABLE IF NOT EXISTS orders (
	id uuid PRIMARY KEY, customer text NOT NULL, total numeric(12, 2) NOT NULL, document jsonb NOT NULL);
CREATE TABLE IF NOT EXISTS order_lines (
	order_id uuid NOT NULL REFERENCES orders, line int NOT NULL, sku text NOT NULL, quantity int NOT NULL,
	PRIMARY KEY (order_id, line))`

const (
	insertOrder = "INSERT INTO orders (id, customer, total, document) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING"
	insertLine  = "INSERT INTO order_lines (order_id, line, sku, quantity) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING"
)

type order struct {
	ID       string  `json:"orderId"`
	Customer string  `json:"customer"`
	Total    float64 `json:"total"`
	Lines    []struct {
		SKU      string `json:"sku"`
		Quantity int    `json:"quantity"`
	} `json:"lines"`
}

type service struct {
	client *kgo.Client
	pool   *pgxpool.Pool
	dlq    string
	bug    string
	way    string
	// payments and results are empty if the service has none.
	payments, results string
	calls             int // of the payment service in one attempt
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err == nil {
		err = migrate(ctx, pool)
	}
	if err != nil {
		slog.Error("unable to prepare the database", "err", err)
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
	calls := 1
	if text := os.Getenv("PAYMENTS_CALLS"); text != "" {
		if calls, err = strconv.Atoi(text); err != nil {
			slog.Error("PAYMENTS_CALLS is not a number", "err", err)
			os.Exit(1)
		}
	}
	if os.Getenv("PLANTED_BUG") == "client-retries-more" {
		calls *= 2
	}
	s := &service{calls: calls,
		client: client, pool: pool, dlq: os.Getenv("KAFKA_DLQ_TOPIC"), bug: os.Getenv("PLANTED_BUG"), way: os.Getenv("WAY"),
		payments: os.Getenv("PAYMENTS_URL"), results: os.Getenv("KAFKA_RESULTS_TOPIC")}
	s.consume(ctx)
	client.CloseAllowingRebalance()
	pool.Close()
	slog.Info("closed")
}

// migrate makes the tables. An advisory lock keeps instances that start together apart, as migration tools do.
func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(4711)"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, schema)
		return err
	})
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
				written := s.writeAll(p.Records)
				for _, record := range p.Records {
					if !written[record] && !s.handle(ctx, record) {
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
		case state(err) == "P0001", errors.Is(err, refused(http.StatusUnprocessableEntity)):
			slog.Info("refused by a business rule", "offset", record.Offset, "partition", record.Partition)
			return true
		case !retryable(err) || attempt == maxAttempts:
			return s.deadLetter(ctx, record, attempt, err)
		}
		if !sleep(ctx, backoff) {
			return false
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// writeAll writes all orders of a batch or none, and returns which are written.
func (s *service) writeAll(records []*kgo.Record) map[*kgo.Record]bool {
	if s.way != "batch" {
		return nil
	}
	written := map[*kgo.Record]bool{}
	var batch pgx.Batch
	for _, record := range records {
		var o order
		if err := json.Unmarshal(record.Value, &o); err != nil {
			continue // handle says why
		}
		written[record] = true
		batch.Queue(insertOrder, o.ID, o.Customer, o.Total, record.Value)
		for i, line := range o.Lines {
			batch.Queue(insertLine, o.ID, i, line.SKU, line.Quantity)
		}
	}
	if len(written) == 1 { // alone, as any order that fails
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), orderTimeout)
	defer cancel()
	if err := s.pool.SendBatch(ctx, &batch).Close(); err != nil && s.bug != "error-ignored" {
		slog.Warn("unable to write the orders together", "orders", len(written), "err", err)
		return nil
	}
	return written
}

// process writes the order with its lines; a transaction that was begun is not broken off.
func (s *service) process(record *kgo.Record) error {
	var o order
	if err := json.Unmarshal(record.Value, &o); err != nil {
		return malformed{err}
	}
	ctx, cancel := context.WithTimeout(context.Background(), orderTimeout)
	defer cancel()
	write := func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insertOrder, o.ID, o.Customer, o.Total, record.Value)
		if err != nil {
			return err
		}
		for i, line := range o.Lines {
			if _, err := tx.Exec(ctx, insertLine, o.ID, i, line.SKU, line.Quantity); err != nil {
				return err
			}
		}
		return nil
	}
	if s.bug == "rows-before-payment" {
		if err := pgx.BeginFunc(ctx, s.pool, write); err != nil {
			return err
		}
	}
	if err := s.pay(ctx, &o); err != nil {
		return err
	}
	err := pgx.BeginFunc(ctx, s.pool, write)
	if err != nil && s.bug == "error-ignored" {
		slog.Error("unable to write the order", "err", err)
		return nil
	}
	if err != nil || s.results == "" {
		return err
	}
	result := &kgo.Record{Topic: s.results, Key: record.Key, Value: []byte(`{"orderId": "` + o.ID + `"}`)}
	if err := s.client.ProduceSync(context.Background(), result).FirstErr(); err != nil && s.bug != "result-ignored" {
		return err
	}
	return nil
}

// pay asks the payment service to take the money. The same order is paid for once, however often it is asked for. If the
// service is in trouble, it is asked again at once, as many HTTP clients do.
func (s *service) pay(ctx context.Context, o *order) error {
	if s.payments == "" {
		return nil
	}
	for call := 1; ; call++ {
		err := s.put(ctx, s.payments+"/payments/"+o.ID, fmt.Sprintf(`{"amount": %.2f}`, o.Total))
		status := refused(0)
		if !errors.As(err, &status) || status < 500 || call >= s.calls || !sleep(ctx, 5*time.Millisecond) {
			return err
		}
	}
}

func (s *service) put(ctx context.Context, url, body string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	if answer.StatusCode/100 != 2 {
		return refused(answer.StatusCode)
	}
	return nil
}

// refused is the status with which the payment service refused an order.
type refused int

func (r refused) Error() string { return "the payment service answered " + strconv.Itoa(int(r)) }

// malformed is the error of a record that is not an order.
type malformed struct{ error }

// state returns the SQLSTATE of an error, "" if it has none.
func state(err error) string {
	var failed *pgconn.PgError
	if errors.As(err, &failed) {
		return failed.Code
	}
	return ""
}

// retryable: the database may accept the order later. Without an SQLSTATE there was no answer.
func retryable(err error) bool {
	var unreadable malformed
	if errors.As(err, &unreadable) {
		return false
	}
	var status refused
	if errors.As(err, &status) {
		return status >= 500 || status == http.StatusTooManyRequests
	}
	code := state(err)
	return code == "" || slices.Contains([]string{"08", "40", "53", "55", "57", "58"}, code[:2])
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
