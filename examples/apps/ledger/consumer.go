package main

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/ledger/ledgerpb"
)

const (
	maxAttempts   = 4 // the first included
	firstBackoff  = 50 * time.Millisecond
	maxBackoff    = 400 * time.Millisecond
	backoffJitter = 20 * time.Millisecond
	rejected      = "transfers.rejected"
)

// consumer has each transfer booked, those of a partition one after another.
type consumer struct {
	client *kgo.Client
	book   func(*ledgerpb.Transfer) error
}

func (c *consumer) consume(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := c.client.PollRecords(ctx, 50)
		fetches.EachError(func(topic string, partition int32, err error) {
			if ctx.Err() == nil {
				slog.Error("fetching", "topic", topic, "partition", partition, "error", err)
			}
		})
		c.commit(c.work(ctx, fetches))
		c.client.AllowRebalance()
	}
}

// work returns the records that are finished.
func (c *consumer) work(ctx context.Context, fetches kgo.Fetches) (finished []*kgo.Record) {
	var (
		workers sync.WaitGroup
		mu      sync.Mutex
	)
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		workers.Go(func() {
			for _, record := range p.Records {
				if !c.handle(ctx, record) {
					return
				}
				mu.Lock()
				finished = append(finished, record)
				mu.Unlock()
			}
		})
	})
	workers.Wait()
	return finished
}

// commit commits what is finished, also when the process is about to end. A commit that fails is made up for by the
// next one: a transfer that comes again is known by its key.
func (c *consumer) commit(finished []*kgo.Record) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := c.client.CommitRecords(ctx, finished...); err != nil {
		slog.Error("committing", "error", err)
	}
}

// handle has a transfer booked or rejected. It returns false if the process is to end before.
func (c *consumer) handle(ctx context.Context, record *kgo.Record) bool {
	transfer, err := decode(record.Value)
	if err != nil {
		return c.reject(ctx, record, 0, err)
	}
	for attempt := 1; ; attempt++ {
		err := c.book(transfer)
		switch verdict := judge(err); {
		case verdict == booked:
			return true
		case verdict == blocked:
			slog.Info("not booked", "transfer", transfer.TransferId, "reason", err)
			return true
		case verdict == impossible, attempt == maxAttempts:
			return c.reject(ctx, record, attempt, err)
		}
		if !sleep(ctx, min(firstBackoff<<(attempt-1), maxBackoff)+rand.N(backoffJitter)) {
			return false
		}
	}
}

// reject writes the transfer to the topic for those that can't be booked, for as long as it takes.
func (c *consumer) reject(ctx context.Context, record *kgo.Record, attempts int, cause error) bool {
	letter := &kgo.Record{Topic: rejected, Key: record.Key, Value: record.Value, Headers: append(
		slices.DeleteFunc(slices.Clone(record.Headers), func(h kgo.RecordHeader) bool {
			return strings.HasPrefix(h.Key, "rejected-") // it was here before
		}),
		header("rejected-because", strings.ToValidUTF8(cause.Error(), "?")),
		header("rejected-attempts", strconv.Itoa(attempts)),
		header("rejected-topic", record.Topic),
		header("rejected-partition", strconv.Itoa(int(record.Partition))),
		header("rejected-offset", strconv.FormatInt(record.Offset, 10)))}
	for {
		err := c.client.ProduceSync(ctx, letter).FirstErr()
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		slog.Error("rejecting", "partition", record.Partition, "offset", record.Offset, "error", err)
		if !sleep(ctx, 200*time.Millisecond) {
			return false
		}
	}
}

func header(name, value string) kgo.RecordHeader {
	return kgo.RecordHeader{Key: name, Value: []byte(value)}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
