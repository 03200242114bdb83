package deadletter

import (
	"math"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ShareGroupName is the name of the dialect ShareGroup.
const ShareGroupName = "share-group"

// The headers of org.apache.kafka.server.share.dlq.ShareGroupDLQStateManager begin with shareGroupPrefix.
const (
	shareGroupPrefix     = "__dlq.errors."
	shareGroupTopic      = shareGroupPrefix + "topic"
	shareGroupPartition  = shareGroupPrefix + "partition"
	shareGroupOffset     = shareGroupPrefix + "offset"
	shareGroupGroup      = shareGroupPrefix + "group"
	shareGroupDeliveries = shareGroupPrefix + "delivery.count"
	shareGroupReason     = shareGroupPrefix + "message"
)

// ShareGroup is the dialect of the dead-letter queues of share groups (KIP-1191), which the broker writes, class
// ShareGroupDLQStateManager. The dead letter has six headers that begin with "__dlq.errors.": topic, partition,
// offset, group, delivery.count (the number of attempts, 32767 at most) and message, all in UTF-8, numbers in
// decimal. With errors.deadletterqueue.copy.record.enable it also has the record's key and value.
//
// The record's own headers are not kept. A replay goes to the topic in __dlq.errors.topic. From a dead letter without
// a copy of the record, it produces a record without key and value.
type ShareGroup struct{}

// Traits implements Dialect.
func (ShareGroup) Traits() Traits {
	return Traits{
		Fields: []string{shareGroupTopic, shareGroupPartition, shareGroupOffset, shareGroupGroup, shareGroupDeliveries,
			shareGroupReason},
		Position: true, Attempts: true,
	}
}

// Seal implements Sealer.
func (ShareGroup) Seal(record *kgo.Record, failure Failure) *kgo.Record {
	e := envelope{headers: make([]kgo.RecordHeader, 0, 6),
		text: make([]byte, 0, 45+len(failure.Topic)+len(failure.Group)+len(failure.Reason))}
	e.string(shareGroupTopic, failure.Topic)
	e.decimal(shareGroupPartition, int64(failure.Partition))
	e.decimal(shareGroupOffset, failure.Offset)
	e.string(shareGroupGroup, failure.Group)
	e.decimal(shareGroupDeliveries, int64(min(failure.Attempts, math.MaxInt16)))
	e.string(shareGroupReason, failure.Reason)
	return &kgo.Record{Key: record.Key, Value: record.Value, Headers: e.headers, Partition: failure.Partition,
		Timestamp: failure.Time}
}

// Open implements Opener.
func (ShareGroup) Open(letter *kgo.Record) (Failure, []string) {
	failure, found := unknownFailure(letter), fields(0)
	for i := range letter.Headers {
		value := letter.Headers[i].Value
		switch letter.Headers[i].Key {
		case shareGroupTopic:
			failure.Topic = found.name(0, value)
		case shareGroupPartition:
			failure.Partition = int32(found.decimal(1, value, 0, 31))
		case shareGroupOffset:
			failure.Offset = found.decimal(2, value, 0, 63)
		case shareGroupGroup:
			failure.Group = found.text(3, value)
		case shareGroupDeliveries:
			failure.Attempts = int32(max(found.decimal(4, value, 1, 15), 0))
		case shareGroupReason:
			failure.Reason = found.text(5, value)
		}
	}
	if found.all(6) {
		return failure, nil
	}
	return failure, found.missing(ShareGroup{}.Traits().Fields)
}

// Prepare implements Opener.
func (ShareGroup) Prepare(letter *kgo.Record) *kgo.Record {
	return backToSource(ShareGroup{}, letter)
}

// IsFailureHeader implements Opener.
func (ShareGroup) IsFailureHeader(name string) bool {
	switch name {
	case shareGroupTopic, shareGroupPartition, shareGroupOffset, shareGroupGroup, shareGroupDeliveries, shareGroupReason:
		return true
	}
	return false
}
