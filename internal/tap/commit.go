package tap

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/history"
)

// commitSeen is an offset commit that waits for its answer.
type commitSeen struct {
	member     memberID
	generation int32
	flags      history.Flags
	partitions map[partition]*committed
}

type committed struct {
	op     int64
	offset int64
	forged bool
}

func (c *conn) observeCommit(at time.Duration, r *kmsg.OffsetCommitRequest) observation {
	if !c.tap.observesGroup(r.Group) {
		return nil
	}
	seen := &commitSeen{member: memberID{r.Group, r.MemberID}, generation: r.Generation, partitions: map[partition]*committed{}}
	for i := range r.Topics {
		topic := &r.Topics[i]
		index := c.topicOf(topic.Topic, topic.TopicID)
		for j := range topic.Partitions {
			seen.add(c, at, partition{index, topic.Partitions[j].Partition}, topic.Partitions[j].Offset)
		}
	}
	return seen
}

func (c *conn) observeTxnCommit(at time.Duration, r *kmsg.TxnOffsetCommitRequest) observation {
	if !c.tap.observesGroup(r.Group) {
		return nil
	}
	seen := &commitSeen{
		member: memberID{r.Group, r.MemberID}, generation: r.Generation, flags: history.InTransaction,
		partitions: map[partition]*committed{},
	}
	for i := range r.Topics {
		topic := &r.Topics[i]
		index := c.topicOf(topic.Topic, topic.TopicID)
		for j := range topic.Partitions {
			seen.add(c, at, partition{index, topic.Partitions[j].Partition}, topic.Partitions[j].Offset)
		}
	}
	return seen
}

// add notes one partition of the request. Of a partition named twice the broker keeps the later offset.
func (s *commitSeen) add(c *conn, at time.Duration, where partition, offset int64) {
	if where.topic == history.None {
		return
	}
	one := &committed{op: c.tap.NextOp(), offset: offset}
	s.partitions[where] = one
	c.tap.Sink.Record(s.event(c, history.KindCommitRequest, at, where, one))
}

func (s *commitSeen) event(c *conn, kind history.Kind, at time.Duration, where partition, one *committed) history.Event {
	e := c.event(kind, at)
	e.Op, e.Topic, e.Partition, e.Offset = one.op, where.topic, where.number, one.offset
	e.N, e.Flags = s.generation, s.flags
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
	if lost {
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
