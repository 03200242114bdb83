package tap

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/history"
)

// produceSeen is a Produce that waits for its acknowledgement, with the records written to each observed partition.
type produceSeen struct {
	acks       int16
	other      bool // as of its connection
	partitions []producedPartition
	index      map[producedAt]int
}

// producedAt names a partition as the message does.
type producedAt struct {
	topic  int16
	number int32
}

type producedPartition struct {
	at      producedAt
	forged  bool
	records []producedRecord
}

// producedRecord contains the values that the events of a request and its response share. It is small because there
// may be many.
type producedRecord struct {
	op                 int64
	keyHash, valueHash uint64
	producerID         int64
	record, sequence   int32
	epoch              int16
	flags              history.Flags
}

// observeProduce walks a Produce request without decoding it as a whole, because most produced records are not
// observed. It returns nil if nothing in the request is observed.
func (c *conn) observeProduce(p *pending, body []byte) (*produceSeen, int16, error) {
	var seen *produceSeen
	acks, err := walkProduce(body, p.version, p.flexible, func(name []byte, id [16]byte, number int32, data []byte) error {
		topic := c.tap.topics.namedBytes(name)
		if p.version >= 13 {
			topic = c.topicOf("", id)
		}
		if !c.observesProduce(topic) {
			return nil
		}
		if seen == nil {
			seen = &produceSeen{index: map[producedAt]int{}}
		}
		at := producedAt{topic, number}
		records, err := c.tap.records(data)
		if err != nil {
			return fmt.Errorf("reading what is produced to %s, partition %d: %w", c.tap.Topics[topic].Name, number, err)
		}
		seen.index[at] = len(seen.partitions)
		seen.partitions = append(seen.partitions, producedPartition{at: at, records: records})
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("reading a Produce v%d request: %w", p.version, err)
	}
	if seen != nil {
		seen.acks, seen.other = acks, c.other
		for i := range seen.partitions {
			seen.emit(c, history.KindProduceRequest, p.readAt, &seen.partitions[i], func(*history.Event, int) {})
		}
	}
	return seen, acks, nil
}

// observesProduce reports whether writes to the topic are recorded: a subject's dead letters and retries, and
// everything from the replay tool.
func (c *conn) observesProduce(topic int16) bool {
	if topic == history.None {
		return false
	}
	to := c.tap.Topics[topic]
	return to.Role != "" && to.Role != history.RoleInput || to.TakesRetries() || c.instance.number == history.Replayer ||
		history.OfStore(int16(c.instance.number))
}

// walkProduce calls each with every partition's records. It checks the whole structure, so that decoding a request
// that passed needs no more memory than its size justifies.
func walkProduce(body []byte, version int16, flexible bool, each func(name []byte, id [16]byte, number int32,
	data []byte) error) (acks int16, err error) {
	w := wire{rest: body}
	if version >= 3 {
		w.text(flexible) // transactional id
	}
	acks = w.int16()
	w.int32() // timeout
	for topics := w.array(flexible); topics > 0 && !w.bad; topics-- {
		var name []byte
		var id [16]byte
		if version >= 13 {
			id = w.uuid()
		} else {
			name = w.text(flexible)
		}
		for partitions := w.array(flexible); partitions > 0 && !w.bad; partitions-- {
			number, data := w.int32(), w.data(flexible)
			if flexible {
				w.tags()
			}
			if w.bad {
				break
			}
			if err := each(name, id, number, data); err != nil {
				return 0, err
			}
		}
		if flexible {
			w.tags()
		}
	}
	if flexible {
		w.tags()
	}
	if w.bad {
		return 0, errShort
	}
	return acks, nil
}

// records identifies every record of a partition's batches and gives each an operation.
func (t *Tap) records(data []byte) ([]producedRecord, error) {
	var found []producedRecord
	for len(data) > 0 {
		b, rest, ok := nextBatch(data)
		if !ok {
			return nil, errors.New("a record batch is cut off")
		}
		data = rest
		err := b.each(t.inflate, func(i int32, r record) {
			one := producedRecord{
				op: t.NextOp(), record: t.identify(r),
				keyHash: history.HashBytes(r.key), valueHash: history.HashBytes(r.value),
				producerID: history.None, epoch: history.None, sequence: history.None,
			}
			if b.producerID >= 0 {
				one.producerID, one.epoch, one.sequence = b.producerID, b.epoch, sequence(b.sequence, i)
			}
			if b.attributes&attrTxn != 0 {
				one.flags = history.InTransaction
			}
			found = append(found, one)
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// sequence returns the sequence number of the i-th record of a batch; 0 follows the largest number.
func sequence(base, i int32) int32 {
	if base > math.MaxInt32-i {
		return i - (math.MaxInt32 - base) - 1
	}
	return base + i
}

// identify finds the record's id: in its value, in the header made for it, in any other header, in its key. Without
// any, the value itself may tell which record it is.
func (t *Tap) identify(r record) int32 {
	if seq, ok := t.IDs.Find(r.value); ok {
		return seq
	}
	var named, other int32 = history.None, history.None
	r.eachHeader(func(key, value []byte) bool {
		seq, ok := t.IDs.Find(value)
		switch {
		case ok && string(key) == history.IDHeader:
			named = seq
		case ok && other == history.None:
			other = seq
		}
		return named == history.None
	})
	if named != history.None {
		return named
	}
	if other != history.None {
		return other
	}
	if seq, ok := t.IDs.Find(r.key); ok {
		return seq
	}
	if seq, ok := t.IDs.OfValue(r.value); ok {
		return seq
	}
	return history.None
}

// emit records one event per record of the partition. more fills in the rest of each event.
func (s *produceSeen) emit(c *conn, kind history.Kind, at time.Duration, p *producedPartition,
	more func(e *history.Event, index int)) {
	s.eachEvent(c, kind, at, p, func(e *history.Event, index int) {
		more(e, index)
		c.tap.Sink.Record(*e)
	})
}

// eachEvent calls take with one event per record of the partition.
func (s *produceSeen) eachEvent(c *conn, kind history.Kind, at time.Duration, p *producedPartition,
	take func(e *history.Event, index int)) {
	for i := range p.records {
		r := &p.records[i]
		e := c.event(kind, at)
		e.Op, e.Topic, e.Partition, e.Record = r.op, p.at.topic, p.at.number, r.record
		e.KeyHash, e.ValueHash, e.Flags = r.keyHash, r.valueHash, r.flags
		if s.acks == 0 {
			e.Flags |= history.Unanswered
		}
		e.ProducerID, e.ProducerEpoch, e.Sequence = r.producerID, r.epoch, r.sequence
		take(&e, i)
	}
}

func (s *produceSeen) forge(c *conn, forged kmsg.Response) {
	s.each(c, forged.(*kmsg.ProduceResponse), func(p *producedPartition, _ *kmsg.ProduceResponseTopicPartition) {
		p.forged = true
	})
}

func (s *produceSeen) answered(c *conn, response kmsg.Response, at time.Duration, flags history.Flags) {
	s.each(c, response.(*kmsg.ProduceResponse), func(p *producedPartition, answer *kmsg.ProduceResponseTopicPartition) {
		s.emit(c, history.KindProduceResponse, at, p, func(e *history.Event, index int) {
			e.Code = answer.ErrorCode
			if answer.BaseOffset >= 0 {
				e.Offset = answer.BaseOffset + int64(index)
			}
			e.Flags |= flags
			if p.forged {
				e.Flags |= history.Forged
			}
			if e.Flags.Has(history.Forged) && e.Code == 0 {
				e.Flags ^= history.Forged | history.Unreplicated
			}
			if s.other && e.Code != 0 {
				e.Flags |= history.NotLibrdkafka
			}
		})
	})
}

// each pairs the partitions of a response with those of the request.
func (s *produceSeen) each(c *conn, response *kmsg.ProduceResponse,
	pair func(*producedPartition, *kmsg.ProduceResponseTopicPartition)) {
	for i := range response.Topics {
		topic := &response.Topics[i]
		index := c.topicOf(topic.Topic, topic.TopicID)
		for j := range topic.Partitions {
			if at, ok := s.index[producedAt{index, topic.Partitions[j].Partition}]; ok {
				pair(&s.partitions[at], &topic.Partitions[j])
			}
		}
	}
}
