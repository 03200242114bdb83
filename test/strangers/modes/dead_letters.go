package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// options are those of the client that writes letters.
func (l deadLetters) options() []kgo.Opt {
	options := []kgo.Opt{kgo.ProducerBatchMaxBytes(1048588), kgo.ProducerBatchCompression(l.codec),
		kgo.ProducerLinger(l.linger)}
	if l.acks == "all" {
		options = append(options, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.AllISRAcks()))
	}
	if l.robin {
		options = append(options, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	}
	return options
}

// ownHeaders returns the headers without the last of each of these names if all of them are there: then the record
// comes back from the dead-letter topic. One that has a few of them has them from its application.
func ownHeaders(headers []kgo.RecordHeader, names []string) []kgo.RecordHeader {
	latest := map[string]int{}
	for i, header := range headers {
		if slices.Contains(names, header.Key) {
			latest[header.Key] = i
		}
	}
	var own []kgo.RecordHeader
	for i, header := range headers {
		if at, ours := latest[header.Key]; !ours || at != i || len(latest) < len(names) {
			own = append(own, header)
		}
	}
	return own
}

// deadLetter is the dead letter of a record: its key, value and headers, and those of its failure.
func deadLetter(l deadLetters, record *kgo.Record, attempts int, failed *failure) *kgo.Record {
	values := []string{
		strings.ToValidUTF8(failed.reason, "?"), strconv.Itoa(attempts), record.Topic, strconv.Itoa(int(record.Partition)),
		strconv.FormatInt(record.Offset, 10), strconv.Itoa(int(record.LeaderEpoch)),
	}
	names := []string{"x-error-reason", "x-retry-attempt", "source-topic", "partition", "offset", "epoch"}
	if l.own {
		names = []string{"failed-because", "failed-attempts", "failed-topic", "failed-partition", "failed-offset",
			"failed-epoch"}
	}
	out := &kgo.Record{Topic: os.Getenv("KAFKA_DLQ_TOPIC"), Key: record.Key, Value: record.Value}
	if !l.bare {
		out.Headers = ownHeaders(record.Headers, names)
	}
	for i, name := range names {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: name, Value: []byte(values[i])})
	}
	if l.rekeyed {
		out.Key = fmt.Appendf(nil, "%s-%d@%d", record.Topic, record.Partition, record.Offset)
	}
	if l.wrapped {
		out.Value = append([]byte{0, 0, 0, 1, 7}, record.Value...)
	}
	switch {
	case l.original:
		out.Timestamp = record.Timestamp
	case l.past:
		out.Timestamp = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return out
}

// writer writes letters.
type writer struct {
	deadLetters
	client        *kgo.Client
	transactional string // the id of its transactions, "" for none
	log           *logger
}

func newWriter(l deadLetters, client *kgo.Client, id string, log *logger) (*writer, error) {
	w := &writer{deadLetters: l, client: client, log: log}
	if l.acks == "transactional" {
		w.transactional = id
		return w, w.open()
	}
	return w, nil
}

func (w *writer) open() (err error) {
	w.client, err = kgo.NewClient(append(w.options(), brokers(), kgo.TransactionalID(w.transactional))...)
	return err
}

func (w *writer) close() {
	if w.transactional != "" {
		w.client.Close()
	}
}

// write returns true when all letters are acknowledged. It tries until then, or until ctx ends.
func (w *writer) write(ctx context.Context, all ...*kgo.Record) bool {
	for ctx.Err() == nil {
		left, err := w.try(ctx, all)
		if err == nil {
			w.log.Well()
			return true
		}
		w.log.Error(fmt.Sprintf("%d dead letters were not written: %v", len(left), err))
		all = left
		sleep(ctx, 200*time.Millisecond)
	}
	return false
}

// try writes letters, and returns those that must be written again. That no answer has come yet shows in the log, too.
func (w *writer) try(ctx context.Context, all []*kgo.Record) (left []*kgo.Record, err error) {
	answered := make(chan struct{})
	defer close(answered)
	go func() {
		for {
			select {
			case <-answered:
				return
			case <-time.After(time.Second):
				w.log.Error(fmt.Sprintf("%d dead letters are not acknowledged yet, nothing is committed past them", len(all)))
			}
		}
	}()
	if w.transactional != "" {
		return all, w.transaction(ctx, all)
	}
	for _, result := range w.client.ProduceSync(ctx, all...) {
		if result.Err != nil {
			left, err = append(left, again(result.Record)), result.Err
		}
	}
	return left, err
}

func again(record *kgo.Record) *kgo.Record {
	return &kgo.Record{Topic: record.Topic, Key: record.Key, Value: record.Value, Headers: record.Headers,
		Timestamp: record.Timestamp}
}

// transaction writes all letters or none. After an error the client is replaced: whatever it left open is aborted when
// the new one begins.
func (w *writer) transaction(ctx context.Context, all []*kgo.Record) error {
	err := w.client.BeginTransaction()
	if err == nil {
		copies := make([]*kgo.Record, len(all))
		for i, record := range all {
			copies[i] = again(record)
		}
		if err = w.client.ProduceSync(ctx, copies...).FirstErr(); err == nil {
			err = w.client.EndTransaction(ctx, kgo.TryCommit)
		}
	}
	if err == nil {
		return nil
	}
	w.client.Close()
	if failed := w.open(); failed != nil {
		return failed
	}
	return err
}
