package consumer

// This file implements share groups (KIP-932). The broker delivers records to any member, and each record is
// acknowledged separately. Records that are unacknowledged at the client's next poll would count as accepted, so a
// batch is completed first.

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// shareFetchWait is the maximum time that a broker may hold an empty fetch. It is short because brokers are
	// polled one after another.
	shareFetchWait = 100 * time.Millisecond
	// shareIdle is the maximum idle time of a connection. When the connection closes, its share session and all
	// acquired records are lost, and a batch may be in backoff for a long time.
	shareIdle = 10 * time.Minute
)

// runShare consumes as a member of a share group until ctx ends.
func (c *Consumer) runShare(ctx context.Context) error {
	b := newBatch(c, acknowledge)
	defer b.disconnect()
	var err error
	if b.producer, err = newProducer(c.config); err != nil {
		return err
	}
	defer b.producer.Close()
	if b.client, err = b.newShareClient(); err != nil {
		return err
	}
	seen := map[TopicPartition]struct{}{}
	for ctx.Err() == nil {
		fetches := b.poll(ctx)
		fetches.EachPartition(func(fetched kgo.FetchTopicPartition) {
			if len(fetched.Records) > 0 {
				seen[TopicPartition{fetched.Topic, fetched.Partition}] = struct{}{}
			}
		})
		b.renew(seen)
		b.take(fetches)
		b.run(ctx.Done(), nil)
	}
	if b.stopAt.IsZero() {
		b.stopAt = time.Now()
	}
	flushing, cancel := b.until(commitShare, commitLimit)
	defer cancel()
	if err := b.client.FlushAcks(flushing); err != nil {
		c.config.Logger.Warn().Err(err).Str("group", c.config.Group).Msg(
			"not every record could be acknowledged at the stop; what was not is delivered again")
	}
	return b.depart()
}

// acknowledge acknowledges a record with the next request to the broker. A record whose acquisition lock has expired
// has been delivered to another member. The broker rejects its acknowledgement, which is harmless.
func acknowledge(t *task, how ending) {
	switch how {
	case finished:
		t.record.Ack(kgo.AckAccept)
	case deadLettered:
		t.record.Ack(kgo.AckReject)
	case released:
		t.record.Ack(kgo.AckRelease)
	}
}

// newShareClient returns the client that consumes as a member of a share group. It fetches only while it is polled,
// and no more than requested. Prefetched records would wait for the previous batch while their acquisition lock runs,
// and a stop would release them, which counts as a delivery.
func (b *batch) newShareClient() (*kgo.Client, error) {
	client, err := kgo.NewClient(slices.Concat(b.connection(), []kgo.Opt{
		kgo.ShareGroup(b.config.Group), kgo.ConsumeTopics(b.config.Topic),
		kgo.ShareMaxRecords(int32(b.size())), kgo.ShareMaxRecordsStrict(), kgo.MaxConcurrentFetches(0),
		kgo.FetchMaxWait(shareFetchWait), kgo.ConnIdleTimeout(shareIdle), kgo.ShareAckCallback(b.onAcknowledged),
	}, b.config.Options)...)
	if err != nil {
		return nil, fmt.Errorf("opening the Kafka client for %s: %w", b.config.Topic, err)
	}
	return client, nil
}

func (b *batch) onAcknowledged(_ *kgo.Client, results kgo.ShareAckResults) {
	for _, result := range results {
		if result.Err != nil {
			b.config.Logger.Debug().Err(result.Err).Str("topic", result.Topic).Int32("partition", result.Partition).
				Msg("acknowledgements were refused; the records are delivered again")
		}
	}
}
