package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/internal/kafkaio"
	"github.com/dlqbench/dlqbench/store"
)

// Producer is the part of a Kafka client that Republish needs.
type Producer interface {
	// Produce writes the record. It calls promise once, when the record is acknowledged or has failed for good.
	Produce(ctx context.Context, record *kgo.Record, promise func(*kgo.Record, error))
}

// Republish retries an entry by producing the record that its dialect prepares for a replay. The entry is resolved when
// the broker has acknowledged the record. If the record fails again, it becomes a new dead letter.
type Republish struct {
	Producer Producer
	// To is the target topic. With "", each record goes to the topic that its dialect names.
	To string
}

const (
	// deliveryTimeout is the time after which a record that was certainly not written is given up. A record that may
	// have been written is not given up, because another retry could write it twice: the retry waits, with its lock
	// renewed, until the broker answers.
	deliveryTimeout = 10 * time.Second
	// lastAnswer is the time to wait for an answer after the retry was told to end.
	lastAnswer = 100 * time.Millisecond
)

// ProducerOptions are the client options of a Republish. The producer is idempotent, so that a write that is repeated
// because it got no answer makes one record, and it gives up an unknown topic soon. connection has further options for
// reaching the brokers (SASL, TLS).
func ProducerOptions(bootstrap []string, connection ...kgo.Opt) []kgo.Opt {
	connection = append([]kgo.Opt{kgo.SeedBrokers(bootstrap...), kgo.ClientID("dlqbench-dlq")}, connection...)
	return slices.Concat(connection, kafkaio.Writing(connection), []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0),
		kgo.UnknownTopicRetries(2), kgo.RecordDeliveryTimeout(deliveryTimeout),
		kgo.ProduceRequestTimeout(1500 * time.Millisecond),
		kgo.RequestTimeoutOverhead(3 * time.Second), kgo.MetadataMaxAge(2 * time.Second),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
			return func(record *kgo.Record, partitions int) int { return int(max(record.Partition, 0)) % partitions }
		})),
		kgo.DisableClientMetrics(), kgo.AlwaysRetryEOF(), // a broker may close a connection before its first answer
	})
}

// errNoTarget means that the entry's target topic is unknown.
var errNoTarget = errors.New("the dead letter doesn't say which topic it came from; give the target by hand (--to)")

// Retry implements Retrier.
func (r *Republish) Retry(ctx context.Context, entry store.Entry) error {
	record, err := Prepare(entry)
	if r.To != "" {
		record.Topic, err = r.To, nil
	}
	if err != nil {
		return &RetryError{Class: Permanent, Err: err}
	}
	if err := r.produce(ctx, record); err != nil {
		return ProduceError(record.Topic, err)
	}
	return nil
}

// produce waits for the acknowledgement.
func (r *Republish) produce(ctx context.Context, record *kgo.Record) error {
	answer := make(chan error, 1)
	r.Producer.Produce(ctx, record, func(_ *kgo.Record, err error) { answer <- err })
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-answer:
		return err
	case <-time.After(lastAnswer):
		return fmt.Errorf("the record may have been written, the acknowledgement was not waited for: %w", ctx.Err())
	}
}

// ProduceError converts a producer's error (not nil): Permanent if a retry would fail in the same way, otherwise
// Transient.
func ProduceError(topic string, err error) *RetryError {
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return &RetryError{Class: Permanent, Err: fmt.Errorf("republishing: there is no topic %s on these brokers; make "+
			"it, or give another target (--to): %w", topic, err)}
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge),
		errors.Is(err, kerr.TopicAuthorizationFailed),
		errors.Is(err, kerr.InvalidTopicException), errors.Is(err, kerr.InvalidRecord):
		return &RetryError{Class: Permanent, Err: fmt.Errorf("republishing to %s: %w", topic, err)}
	}
	return &RetryError{Class: Transient, Err: fmt.Errorf("republishing to %s: %w", topic, err)}
}

// Prepare returns the record that a replay of the entry produces: as prepared by the dead letter's dialect, with the
// topic that the dialect names. The error means that the topic is unknown.
func Prepare(entry store.Entry) (*kgo.Record, error) {
	record := original(entry)
	record.Offset, record.Topic = 0, deadLetterContext(entry).ReplayTopic
	if record.Topic == "" && entry.Source != entry.Letter { // the dead-letter topic itself is not a target
		record.Topic = entry.Source.Topic
	}
	if record.Topic == "" {
		return record, errNoTarget
	}
	return record, nil
}
