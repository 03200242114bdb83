package tap

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/history"
)

// commitSeen is an offset commit that waits for its answer.
type commitSeen struct {
	member     memberID
	generation int32
	flags      history.Flags
	// producer and epoch identify the transaction; None outside of one.
	producer   int64
	epoch      int16
	partitions map[partition]*committed
}

type committed struct {
	op       int64
	offset   int64
	metadata string
	forged   bool
}

func (c *conn) observeCommit(at time.Duration, r *kmsg.OffsetCommitRequest) observation {
	seen := &commitSeen{
		member: memberID{r.Group, r.MemberID}, generation: r.Generation, flags: c.commitFlags(r.Group),
		producer: history.None, epoch: history.None, partitions: map[partition]*committed{},
	}
	for i := range r.Topics {
		topic := &r.Topics[i]
		index := c.topicOf(topic.Topic, topic.TopicID)
		for j := range topic.Partitions {
			p := &topic.Partitions[j]
			seen.add(c, at, partition{index, p.Partition}, p.Offset, p.Metadata)
		}
	}
	return seen
}

func (c *conn) observeTxnCommit(at time.Duration, r *kmsg.TxnOffsetCommitRequest) observation {
	seen := &commitSeen{
		member: memberID{r.Group, r.MemberID}, generation: r.Generation,
		flags:    history.InTransaction | c.commitFlags(r.Group),
		producer: r.ProducerID, epoch: r.ProducerEpoch, partitions: map[partition]*committed{},
	}
	for i := range r.Topics {
		topic := &r.Topics[i]
		index := c.topicOf(topic.Topic, topic.TopicID)
		for j := range topic.Partitions {
			p := &topic.Partitions[j]
			seen.add(c, at, partition{index, p.Partition}, p.Offset, p.Metadata)
		}
	}
	return seen
}

// commitFlags are the flags of all commits of the group over the connection.
func (c *conn) commitFlags(group string) history.Flags {
	if c.other {
		return c.tap.flagsOf(group) | history.NotLibrdkafka
	}
	return c.tap.flagsOf(group)
}

// add notes one partition of the request. If a request names a partition twice, the broker keeps the later offset.
func (s *commitSeen) add(c *conn, at time.Duration, where partition, offset int64, metadata *string) {
	if where.topic == history.None || !c.tap.readers.claims(s.member.group, where.topic) {
		return
	}
	one := &committed{op: c.tap.NextOp(), offset: offset}
	if c.tap.KeepMetadata && metadata != nil {
		one.metadata = strings.Clone(*metadata)
	}
	s.partitions[where] = one
	c.tap.Sink.Record(s.event(c, history.KindCommitRequest, at, where, one))
}

func (s *commitSeen) event(c *conn, kind history.Kind, at time.Duration, where partition,
	one *committed) history.Event {
	e := c.event(kind, at)
	e.Op, e.Topic, e.Partition, e.Offset = one.op, where.topic, where.number, one.offset
	e.N, e.Flags, e.ProducerID, e.ProducerEpoch, e.Text = s.generation, s.flags, s.producer, s.epoch, one.metadata
	return e
}

func (s *commitSeen) forge(c *conn, forged kmsg.Response) {
	eachCommitAnswer(c, forged, func(where partition, _ int16) {
		if one := s.partitions[where]; one != nil {
			one.forged = true
		}
	})
}

func (s *commitSeen) answered(c *conn, response kmsg.Response, at time.Duration, flags history.Flags) {
	lost := false
	eachCommitAnswer(c, response, func(where partition, code int16) {
		lost = lost || provesLoss(code)
		one := s.partitions[where]
		if one == nil {
			return
		}
		e := s.event(c, history.KindCommitResponse, at, where, one)
		e.Code = code
		e.Flags |= flags
		if one.forged {
			e.Flags |= history.Forged
		}
		c.tap.Sink.Record(e)
	})
	if lost && !flags.Has(history.Withheld) {
		c.process.fence(s.member, at)
	}
}

func eachCommitAnswer(c *conn, response kmsg.Response, take func(where partition, code int16)) {
	switch r := response.(type) {
	case *kmsg.OffsetCommitResponse:
		for i := range r.Topics {
			index := c.topicOf(r.Topics[i].Topic, r.Topics[i].TopicID)
			for _, p := range r.Topics[i].Partitions {
				take(partition{index, p.Partition}, p.ErrorCode)
			}
		}
	case *kmsg.TxnOffsetCommitResponse:
		for i := range r.Topics {
			index := c.topicOf(r.Topics[i].Topic, r.Topics[i].TopicID)
			for _, p := range r.Topics[i].Partitions {
				take(partition{index, p.Partition}, p.ErrorCode)
			}
		}
	}
}

// txnSeen is the end of a transaction that waits for its answer.
type txnSeen struct{ event history.Event }

func (c *conn) observeEndTxn(at time.Duration, r *kmsg.EndTxnRequest) observation {
	e := c.event(history.KindTxnEndRequest, at)
	e.Op, e.ProducerID, e.ProducerEpoch, e.N = c.tap.NextOp(), r.ProducerID, r.ProducerEpoch, 0
	if r.Commit {
		e.N = 1
	}
	c.tap.Sink.Record(e)
	return &txnSeen{e}
}

func (s *txnSeen) answered(c *conn, response kmsg.Response, at time.Duration, flags history.Flags) {
	e := s.event
	e.Kind, e.Time, e.Code, e.Flags = history.KindTxnEndResponse, at, response.(*kmsg.EndTxnResponse).ErrorCode, flags
	c.tap.Sink.Record(e)
}
