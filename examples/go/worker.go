package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// worker processes one partition, in order.
type worker struct {
	*consumer
	ctx     context.Context
	stop    context.CancelFunc
	batches chan []*kgo.Record
	done    chan struct{}
}

func startWorker(c *consumer) *worker {
	w := &worker{consumer: c, batches: make(chan []*kgo.Record, 1), done: make(chan struct{})}
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
					return // stopped: this record and those behind it stay uncommitted
				}
				w.client.MarkCommitRecords(record)
			}
			w.client.ResumeFetchPartitions(map[string][]int32{batch[0].Topic: {batch[0].Partition}})
		}
	}
}

// failure is an attempt that went wrong.
type failure struct {
	reason             string
	permanent, logical bool
	retryAfter         time.Duration
}

// process brings a record to its end: success, a business failure, or an acknowledged dead letter. It returns false
// when the worker was stopped before.
func (w *worker) process(record *kgo.Record) bool {
	for attempt := 1; w.ctx.Err() == nil; attempt++ {
		failed := w.attempt(record)
		switch {
		case failed == nil:
			return true
		case failed.logical:
			slog.Info("refused by the business", "offset", record.Offset, "reason", failed.reason)
			return true
		case failed.permanent, attempt == maxAttempts:
			return w.deadLetter(record, attempt, failed.reason)
		}
		w.sleep(max(backoff(attempt), failed.retryAfter))
	}
	return false
}

// backoff is the wait after the nth failed attempt.
func backoff(n int) time.Duration {
	return min(firstBackoff<<(n-1), maxBackoff) + rand.N(backoffJitter)
}

// attempt calls the downstream once. An attempt that has begun is brought to its end, also when the worker is to stop:
// it is short.
func (w *worker) attempt(record *kgo.Record) *failure {
	request, err := http.NewRequest(http.MethodPost, w.url, bytes.NewReader(record.Value))
	if err != nil {
		return &failure{reason: err.Error(), permanent: true}
	}
	request.Header.Set("X-Kafka-Topic", record.Topic)
	request.Header.Set("X-Kafka-Partition", strconv.Itoa(int(record.Partition)))
	request.Header.Set("X-Kafka-Offset", strconv.FormatInt(record.Offset, 10))
	response, err := w.http.Do(request)
	if err != nil {
		return &failure{reason: err.Error()}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return &failure{reason: err.Error()}
	}
	if response.StatusCode == http.StatusOK {
		return nil
	}
	var answer struct{ Error string }
	if json.Unmarshal(body, &answer) != nil || answer.Error == "" {
		answer.Error = response.Status
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	return &failure{
		reason: answer.Error, permanent: response.StatusCode == http.StatusBadRequest,
		logical: response.StatusCode == http.StatusUnprocessableEntity, retryAfter: time.Duration(seconds) * time.Second,
	}
}

// deadLetter writes the record to the dead-letter topic and returns when that is acknowledged; it does not give up. It
// returns false when the worker was stopped before.
func (w *worker) deadLetter(record *kgo.Record, attempts int, reason string) bool {
	for w.ctx.Err() == nil {
		err := w.write(letter(w.dlqTopic, record, attempts, reason))
		if err == nil {
			return true
		}
		slog.Error("writing the dead letter", "partition", record.Partition, "offset", record.Offset, "error", err)
		w.sleep(100 * time.Millisecond)
	}
	return false
}

var errStopped = errors.New("stopped before it was acknowledged")

// write produces a record and waits for its acknowledgement. The client sends it again by itself for as long as that
// may help; that no answer has come yet is an error to be seen all the same.
func (w *worker) write(record *kgo.Record) error {
	acknowledged := make(chan error, 1)
	w.client.Produce(w.ctx, record, func(_ *kgo.Record, err error) { acknowledged <- err })
	waiting := time.NewTicker(500 * time.Millisecond)
	defer waiting.Stop()
	for {
		select {
		case err := <-acknowledged:
			return err
		case <-waiting.C:
			slog.Error("the dead letter is not acknowledged yet, nothing is committed past it", "key",
				fmt.Sprintf("%q", record.Key))
		case <-w.ctx.Done():
			return errStopped
		}
	}
}

// letter is the dead letter: key, value and headers as they were, and six more headers.
func letter(topic string, record *kgo.Record, attempts int, reason string) *kgo.Record {
	added := []kgo.RecordHeader{
		{Key: "x-error-reason", Value: []byte(strings.ToValidUTF8(reason, "?"))},
		{Key: "x-retry-attempt", Value: []byte(strconv.Itoa(attempts))},
		{Key: "source-topic", Value: []byte(record.Topic)},
		{Key: "partition", Value: []byte(strconv.Itoa(int(record.Partition)))},
		{Key: "offset", Value: []byte(strconv.FormatInt(record.Offset, 10))},
		{Key: "epoch", Value: []byte(strconv.Itoa(int(record.LeaderEpoch)))},
	}
	return &kgo.Record{Topic: topic, Key: record.Key, Value: record.Value,
		Headers: append(ownHeaders(record.Headers, added), added...)}
}

// ownHeaders are the application's. A letter that was put back and fails again must not carry two failures: it has all
// of the added headers, and the last of each is left out. A record that has only some of the names has them from its
// application.
func ownHeaders(headers, added []kgo.RecordHeader) []kgo.RecordHeader {
	last := map[string]int{}
	for i, header := range headers {
		if slices.ContainsFunc(added, func(one kgo.RecordHeader) bool { return one.Key == header.Key }) {
			last[header.Key] = i
		}
	}
	var own []kgo.RecordHeader
	for i, header := range headers {
		if at, named := last[header.Key]; !named || at != i || len(last) < len(added) {
			own = append(own, header)
		}
	}
	return own
}

// sleep waits, or returns early when the worker is to stop.
func (w *worker) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-w.ctx.Done():
	}
}
