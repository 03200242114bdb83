package run

import (
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// committedOnly passes on the records that a reader at isolation level read_committed would see. It passes on
// records outside of transactions at once, and records of a transaction when it reads the marker that commits it. It
// never passes on records of a transaction that was aborted or is still open.
//
// The brokers' own read_committed is not enough, because it ends before the first record of an open transaction. If
// a subject was killed in the middle of a transaction, committed dead letters of other transactions behind it would
// be missing and appear lost.
type committedOnly struct {
	do   func(*kgo.Record)
	open map[producerOn][]*kgo.Record
}

// producerOn identifies where a transaction writes. A producer has one transaction at a time, and each partition
// gets its own marker (KIP-98).
type producerOn struct {
	partition int32
	producer  int64
}

func newCommittedOnly(do func(*kgo.Record)) *committedOnly {
	return &committedOnly{do: do, open: map[producerOn][]*kgo.Record{}}
}

// see processes the next record of a partition; markers are included.
func (c *committedOnly) see(record *kgo.Record) {
	key := producerOn{record.Partition, record.ProducerID}
	switch {
	case record.Attrs.IsControl():
		if commits(record) {
			for _, written := range c.open[key] {
				c.do(written)
			}
		}
		delete(c.open, key)
	case record.Attrs.IsTransactional():
		c.open[key] = append(c.open[key], record)
	default:
		c.do(record)
	}
}

// commits reports whether a control record is a marker that commits a transaction.
func commits(record *kgo.Record) bool {
	var key kmsg.ControlRecordKey
	return key.ReadFrom(record.Key) == nil && key.Type == kmsg.ControlRecordKeyTypeCommit
}
