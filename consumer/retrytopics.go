package consumer

// This file implements retry topics: a failed record does not wait in memory but continues as a copy in the topic of
// its next attempt. The copy carries everything that was promised for the record, so the record's own offset is done
// once the copy is acknowledged.

import (
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// RetryTopicNames returns the retry topics of a topic whose records are executed at most maxRetries times:
// "TOPIC.retry-1" to "TOPIC.retry-(maxRetries−1)". The k-th topic holds the copies of records that have failed k
// times.
func RetryTopicNames(topic string, maxRetries int) []string {
	var names []string
	for k := 1; k < maxRetries; k++ {
		names = append(names, topic+".retry-"+strconv.Itoa(k))
	}
	return names
}

// Origin is the original position of a record, and the number of attempts before this delivery.
type Origin struct {
	TopicPartition
	Offset   int64
	Epoch    int32
	Attempts int
}

func originOf(record *kgo.Record) Origin {
	return Origin{TopicPartition: TopicPartition{record.Topic, record.Partition}, Offset: record.Offset,
		Epoch: record.LeaderEpoch}
}

// Copier creates and reads retry copies.
type Copier interface {
	// Seal returns the copy of a record that has failed origin.Attempts times and is to be tried again at due. It
	// does not change the record.
	Seal(record *kgo.Record, origin Origin, due time.Time) *kgo.Record
	// Open restores the original record from a copy, except for its position, fills in origin from the copy, and
	// returns the time at which it is due. A record that is not a copy is not changed and is due at once.
	Open(record *kgo.Record, origin *Origin) (due time.Time)
}

// The headers that HeaderCopier adds, in this order; numbers in decimal.
const (
	HeaderRetryAttempts  = "retry-attempts"
	HeaderRetryDue       = "retry-due" // milliseconds since 1970
	HeaderRetryTopic     = "retry-source-topic"
	HeaderRetryPartition = "retry-source-partition"
	HeaderRetryOffset    = "retry-source-offset"
	HeaderRetryEpoch     = "retry-source-epoch"
)

// HeaderCopier keeps key, value and headers and appends six headers. A copy is recognized by its last six headers, so
// original headers with the same names are kept.
type HeaderCopier struct{}

// Seal implements Copier.
func (HeaderCopier) Seal(record *kgo.Record, origin Origin, due time.Time) *kgo.Record {
	number := func(n int64) []byte { return strconv.AppendInt(nil, n, 10) }
	return &kgo.Record{
		Key: record.Key, Value: record.Value, Partition: origin.Partition,
		Headers: append(slices.Clip(record.Headers),
			kgo.RecordHeader{Key: HeaderRetryAttempts, Value: number(int64(origin.Attempts))},
			// Rounded up, so that a copy is never early.
			kgo.RecordHeader{Key: HeaderRetryDue, Value: number(due.Add(time.Millisecond - 1).UnixMilli())},
			kgo.RecordHeader{Key: HeaderRetryTopic, Value: []byte(origin.Topic)},
			kgo.RecordHeader{Key: HeaderRetryPartition, Value: number(int64(origin.Partition))},
			kgo.RecordHeader{Key: HeaderRetryOffset, Value: number(origin.Offset)},
			kgo.RecordHeader{Key: HeaderRetryEpoch, Value: number(int64(origin.Epoch))}),
	}
}

// Open implements Copier.
func (HeaderCopier) Open(record *kgo.Record, origin *Origin) time.Time {
	names := [...]string{HeaderRetryAttempts, HeaderRetryDue, HeaderRetryTopic, HeaderRetryPartition, HeaderRetryOffset,
		HeaderRetryEpoch}
	own := len(record.Headers) - len(names)
	if own < 0 {
		return time.Time{}
	}
	var numbers [len(names)]int64
	for i, name := range names {
		header := record.Headers[own+i]
		if header.Key != name {
			return time.Time{}
		}
		if name == HeaderRetryTopic {
			continue
		}
		n, err := strconv.ParseInt(string(header.Value), 10, 64)
		if err != nil {
			return time.Time{}
		}
		numbers[i] = n
	}
	*origin = Origin{
		TopicPartition: TopicPartition{string(record.Headers[own+2].Value), int32(numbers[3])},
		Offset:         numbers[4], Epoch: int32(numbers[5]), Attempts: int(numbers[0]),
	}
	record.Headers = slices.Clip(record.Headers[:own])
	return time.UnixMilli(numbers[1])
}
