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

// Producer is what Republish needs of a Kafka client.
type Producer interface {
	// Produce writes the record and calls promise once when it is acknowledged or has failed for good.
	Produce(ctx context.Context, record *kgo.Record, promise func(*kgo.Record, error))
}

// Republish tries an entry by producing the record that its dialect prepares for a replay; it is dealt with once the
// broker has acknowledged it. If it fails again, it becomes a new dead letter.
type Republish struct {
	Producer Producer
	// To is where the records go; "": each to the topic its dialect names.
	To string
}

const (
	// deliveryTimeout is when a record is given up that was certainly not written. One that may have been is not given
	// up: to write it again in another retry would be to write it twice, so the retry waits, its lock renewed, until
	// the broker answers.
	deliveryTimeout = 10 * time.Second
	// lastAnswer is how long an answer is waited for after the retry was told to end.
	lastAnswer = 100 * time.Millisecond
)

// ProducerOptions are what the client of a Republish is opened with: an idempotent producer, so that a write that the
// broker didn't answer and that is sent again is one record, and one that gives an unknown topic up soon. connection is
// what it needs beside the addresses to reach the brokers (SASL, TLS).
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
		kgo.DisableClientMetrics(), kgo.AlwaysRetryEOF(), // a broker may go before its first answer on a connection
	})
}

// errNoTarget: nobody knows where the entry belongs.
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

// ProduceError says what follows from a producer's error (not nil): Permanent if it will be the same next time,
// otherwise Transient.
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

// Prepare returns the record that a replay of the entry produces: as the letter's dialect prepared it, to where the
// dialect says. Its error says that nobody knows where to.
func Prepare(entry store.Entry) (*kgo.Record, error) {
	record := original(entry)
	record.Offset, record.Topic = 0, letterContext(entry).ReplayTopic
	if record.Topic == "" && entry.Source != entry.Letter { // the dead-letter topic itself is no target
		record.Topic = entry.Source.Topic
	}
	if record.Topic == "" {
		return record, errNoTarget
	}
	return record, nil
}
