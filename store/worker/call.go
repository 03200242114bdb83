package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/store"
)

// DefaultCallTimeout is the time that a downstream has for its answer, as for the reference consumer.
const DefaultCallTimeout = 2 * time.Second

// Call retries an entry by calling the downstream with the original value, as the reference consumer does. The
// downstream's answer decides.
type Call struct {
	handler consumer.Handler
	timeout time.Duration
}

// NewCall returns a Retrier that POSTs to {base}/v1/attempt and waits for an answer up to timeout (> 0). See
// consumer.HTTPHandler.
func NewCall(base string, timeout time.Duration) (*Call, error) {
	if timeout <= 0 {
		return nil, errors.New("the time for a retry's answer must be more than 0s")
	}
	handler, err := consumer.HTTPHandler(base)
	if err != nil {
		return nil, err
	}
	return &Call{handler: handler, timeout: timeout}, nil
}

// Retry implements Retrier.
func (c *Call) Retry(ctx context.Context, entry store.Entry) error {
	calling, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err := c.handler(calling, original(entry))
	switch {
	case err == nil:
		return nil
	case consumer.ClassOf(err) != consumer.Retryable:
		return &RetryError{Class: Permanent, Err: err}
	}
	failed := &RetryError{Class: Analyse(store.Failure{Message: err.Error()}), Err: fmt.Errorf("retrying: %w", err)}
	if answered, ok := errors.AsType[*consumer.Error](err); ok {
		failed.RetryAfter = answered.RetryAfter
	}
	// The downstream says that a retry may help. That takes precedence over the words of the error.
	if failed.Class == Unknown || failed.Class == Permanent {
		failed.Class = Transient
	}
	return failed
}

// original is the record that was dead-lettered, at its original position.
func original(entry store.Entry) *kgo.Record {
	headers := make([]kgo.RecordHeader, len(entry.Headers))
	for i, header := range entry.Headers {
		headers[i] = kgo.RecordHeader{Key: header.Key, Value: header.Value}
	}
	return &kgo.Record{
		Topic: entry.Source.Topic, Partition: entry.Source.Partition, Offset: entry.Source.Offset,
		Key: entry.Key, Value: entry.Value, Headers: headers,
	}
}
