package main

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	maxAttempts   = 4 // the first included
	firstBackoff  = 50 * time.Millisecond
	maxBackoff    = 400 * time.Millisecond
	backoffJitter = 20 * time.Millisecond
)

// worker takes the orders of one partition, one after another.
type worker struct {
	*service
	ctx     context.Context
	stop    context.CancelFunc
	batches chan []*kgo.Record
	done    chan struct{}
}

func startWorker(s *service) *worker {
	w := &worker{service: s, batches: make(chan []*kgo.Record, 1), done: make(chan struct{})}
	w.ctx, w.stop = context.WithCancel(context.Background())
	go w.run()
	return w
}

func (w *worker) run() {
	defer close(w.done)
	for {
		select {
		case <-w.ctx.Done():
			return
		case batch := <-w.batches:
			for _, record := range batch {
				if !w.process(record) {
					return // the order and those behind it are the next owner's
				}
				w.client.MarkCommitRecords(record)
			}
			w.client.ResumeFetchPartitions(map[string][]int32{batch[0].Topic: {batch[0].Partition}})
		}
	}
}

// process has an order paid or dead-lettered. It returns false if it was stopped before.
func (w *worker) process(record *kgo.Record) bool {
	order, err := decodeOrder(record.Value)
	if err != nil {
		return w.deadLetter(record, 1, err)
	}
	for attempt := 1; w.ctx.Err() == nil; attempt++ {
		err := w.payments.pay(order)
		var refused *refusal
		switch {
		case err == nil:
			return true
		case errors.As(err, &refused) && refused.business:
			slog.Info("not to be paid", "order", order.ID, "reason", refused.reason)
			return true
		case errors.As(err, &refused) && refused.final, attempt == maxAttempts:
			return w.deadLetter(record, attempt, err)
		}
		wait := min(firstBackoff<<(attempt-1), maxBackoff) + rand.N(backoffJitter)
		if refused != nil {
			wait = max(wait, refused.retryAfter)
		}
		w.sleep(wait)
	}
	return false
}

// deadLetter writes the order to the dead-letter topic, for as long as it takes.
func (w *worker) deadLetter(record *kgo.Record, attempts int, cause error) bool {
	letter := &kgo.Record{
		Topic: w.deadLetters, Key: record.Key, Value: record.Value, Headers: append(without(record.Headers,
			"orders-error", "orders-attempts", "orders-topic", "orders-partition", "orders-offset"),
			header("orders-error", strings.ToValidUTF8(cause.Error(), "?")),
			header("orders-attempts", strconv.Itoa(attempts)), header("orders-topic", record.Topic),
			header("orders-partition", strconv.Itoa(int(record.Partition))),
			header("orders-offset", strconv.FormatInt(record.Offset, 10))),
	}
	for w.ctx.Err() == nil {
		err := w.write(letter)
		if err == nil {
			return true
		}
		slog.Error("writing the dead letter", "partition", record.Partition, "offset", record.Offset, "error", err)
		w.sleep(100 * time.Millisecond)
	}
	return false
}

// write waits for the acknowledgement, and says so every now and then.
func (w *worker) write(letter *kgo.Record) error {
	acknowledged := make(chan error, 1)
	w.client.Produce(w.ctx, letter, func(_ *kgo.Record, err error) { acknowledged <- err })
	late := time.NewTicker(500 * time.Millisecond)
	defer late.Stop()
	for {
		select {
		case err := <-acknowledged:
			return err
		case <-late.C:
			slog.Error("the dead letter is not acknowledged yet", "topic", letter.Topic)
		case <-w.ctx.Done():
			return w.ctx.Err()
		}
	}
}

func header(name, value string) kgo.RecordHeader {
	return kgo.RecordHeader{Key: name, Value: []byte(value)}
}

// without returns the headers other than those that an earlier dead letter of the same order has added.
func without(headers []kgo.RecordHeader, names ...string) []kgo.RecordHeader {
	var kept []kgo.RecordHeader
	for _, one := range headers {
		added := false
		for _, name := range names {
			added = added || one.Key == name
		}
		if !added {
			kept = append(kept, one)
		}
	}
	return kept
}

func (w *worker) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-w.ctx.Done():
	}
}
