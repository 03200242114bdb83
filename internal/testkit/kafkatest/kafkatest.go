// Package kafkatest starts Kafka in the process, and reads topics, for the tests of other packages. It must not know
// what those tests have written.
package kafkatest

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// deadline bounds a reading.
const deadline = 30 * time.Second

// Committed returns the records of a topic up to its last stable offset, those of aborted transactions left out. It
// reads up to an offset, not until nothing comes for some time, which on a busy machine means nothing: the last record
// of a transaction is the marker that ends it, so that the end is seen.
func Committed(ctx context.Context, bootstrap []string, topic string) ([]*kgo.Record, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(20*time.Millisecond), kgo.KeepControlRecords())
	if err != nil {
		return nil, fmt.Errorf("opening a client to read %s: %w", topic, err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	stable, err := kadm.NewClient(client).ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = stable.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("asking for the last stable offsets of %s: %w", topic, err)
	}
	left := map[int32]int64{}
	stable.Each(func(end kadm.ListedOffset) {
		if end.Offset > 0 {
			left[end.Partition] = end.Offset
		}
	})
	var records []*kgo.Record
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("reading %s: partitions and offsets that were not reached: %v: %w", topic, left,
				fetches.Err())
		}
		fetches.EachRecord(func(record *kgo.Record) {
			if record.Offset+1 >= left[record.Partition] {
				delete(left, record.Partition)
			}
			if !record.Attrs.IsControl() {
				records = append(records, record)
			}
		})
	}
	return records, nil
}
