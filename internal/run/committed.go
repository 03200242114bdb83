package run

import (
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// committedOnly passes on what a reader at isolation level read_committed would see: what was written outside of
// transactions at once, what was written in one when the marker that commits it is read. What was aborted, or belongs
// to a transaction that nobody ended, is never passed on.
//
// The brokers' own read_committed would not do: it ends before the first record of an open transaction. So when a
// subject was killed in the middle of one, committed dead letters of others that lie behind it would be missing, and
// look lost.
type committedOnly struct {
	do   func(*kgo.Record)
	open map[producerOn][]*kgo.Record
}

// producerOn is where a transaction writes: a producer has one at a time, and each partition gets a marker of its own
// (KIP-98).
type producerOn struct {
	partition int32
	producer  int64
}

func newCommittedOnly(do func(*kgo.Record)) *committedOnly {
	return &committedOnly{do: do, open: map[producerOn][]*kgo.Record{}}
}

// see takes the next record of a partition, markers included.
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

// commits tells whether a control record is a marker that commits a transaction.
func commits(record *kgo.Record) bool {
	var key kmsg.ControlRecordKey
	return key.ReadFrom(record.Key) == nil && key.Type == kmsg.ControlRecordKeyTypeCommit
}
