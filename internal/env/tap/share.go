package tap

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/history"
)

// finalShareEpoch closes a share session (KIP-932).
const finalShareEpoch = -1

// shareSeen is a ShareFetch or a ShareAcknowledge that waits for its answer, with its acknowledgements by partition.
// No other state of share sessions is kept: acknowledgements and acquired records are always named in full.
type shareSeen struct {
	acked map[partition][]history.Event
}

func (c *conn) observeShareFetch(at time.Duration, r *kmsg.ShareFetchRequest) observation {
	if r.GroupID == nil || !c.tap.observesGroup(*r.GroupID) {
		return nil
	}
	seen := &shareSeen{acked: map[partition][]history.Event{}}
	for i := range r.Topics {
		index := c.topicOf("", r.Topics[i].TopicID)
		for j := range r.Topics[i].Partitions {
			p := &r.Topics[i].Partitions[j]
			where := partition{index, p.Partition}
			for _, batch := range p.AcknowledgementBatches {
				seen.add(c, at, where, batch.FirstOffset, batch.LastOffset, batch.AcknowledgeTypes)
			}
			c.process.sharesFrom(where)
		}
	}
	c.sharesNoMore(at, r.ShareSessionEpoch)
	return seen
}

func (c *conn) observeShareAcknowledge(at time.Duration, r *kmsg.ShareAcknowledgeRequest) observation {
	if r.GroupID == nil || !c.tap.observesGroup(*r.GroupID) {
		return nil
	}
	seen := &shareSeen{acked: map[partition][]history.Event{}}
	for i := range r.Topics {
		index := c.topicOf("", r.Topics[i].TopicID)
		for j := range r.Topics[i].Partitions {
			p := &r.Topics[i].Partitions[j]
			for _, batch := range p.AcknowledgementBatches {
				seen.add(c, at, partition{index, p.Partition}, batch.FirstOffset, batch.LastOffset, batch.AcknowledgeTypes)
			}
		}
	}
	c.sharesNoMore(at, r.ShareSessionEpoch)
	return seen
}

// add notes a batch of acknowledgements as ranges with equal acknowledgement types. A single type stands for the
// whole batch; otherwise each offset has its own. The broker refuses a batch with neither form, and its content is
// noted as far as it goes.
func (s *shareSeen) add(c *conn, at time.Duration, where partition, first, last int64, types []int8) {
	if where.topic == history.None || len(types) == 0 || last < first {
		return
	}
	if len(types) == 1 {
		s.note(c, at, where, first, last, types[0])
		return
	}
	if extra := int64(len(types)) - 1 - (last - first); extra > 0 {
		types = types[:int64(len(types))-extra]
	}
	from := 0
	for i := range types {
		if i+1 == len(types) || types[i+1] != types[i] {
			s.note(c, at, where, first+int64(from), first+int64(i), types[i])
			from = i + 1
		}
	}
}

func (s *shareSeen) note(c *conn, at time.Duration, where partition, first, last int64, how int8) {
	e := c.event(history.KindShareAckRequest, at)
	e.Op, e.Topic, e.Partition, e.Offset, e.Aux, e.N = c.tap.NextOp(), where.topic, where.number, first, last, int32(how)
	c.tap.Sink.Record(e)
	s.acked[where] = append(s.acked[where], e)
}

// sharesNoMore notes that a share session is closed. Its acknowledgements come before the closing, as the broker
// processes them.
func (c *conn) sharesNoMore(at time.Duration, epoch int32) {
	if epoch != finalShareEpoch {
		return
	}
	e := c.event(history.KindShareSessionEnd, at)
	e.Aux = int64(c.node)
	c.tap.Sink.Record(e)
}

// sharesFrom notes that the process asks for records of the partition. A process that asks for records in a share
// group is ready: members share partitions, so there is no assignment to wait for.
func (p *process) sharesFrom(where partition) {
	if where.topic == history.None {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	role := p.tap.Topics[where.topic].Role
	if !p.ready && (role == history.RoleInput || role == history.RoleRetry) {
		p.ready = true
		close(p.fetching)
	}
}

// answered notes the results of the acknowledgements, and the records that the client receives. A ShareFetch that
// fails as a whole has acknowledged nothing.
func (s *shareSeen) answered(c *conn, response kmsg.Response, at time.Duration, flags history.Flags) {
	switch r := response.(type) {
	case *kmsg.ShareAcknowledgeResponse:
		if r.ErrorCode != 0 {
			s.refused(c, at, r.ErrorCode, flags)
			return
		}
		for i := range r.Topics {
			index := c.topicOf("", r.Topics[i].TopicID)
			for j := range r.Topics[i].Partitions {
				p := &r.Topics[i].Partitions[j]
				s.acknowledged(c, at, partition{index, p.Partition}, p.ErrorCode, flags)
			}
		}
	case *kmsg.ShareFetchResponse:
		if r.ErrorCode != 0 {
			s.refused(c, at, r.ErrorCode, flags)
			return
		}
		for i := range r.Topics {
			index := c.topicOf("", r.Topics[i].TopicID)
			for j := range r.Topics[i].Partitions {
				p := &r.Topics[i].Partitions[j]
				where := partition{index, p.Partition}
				s.acknowledged(c, at, where, p.AcknowledgeErrorCode, flags)
				acquired(c, at, where, p, flags)
			}
		}
	}
}

// refused answers every acknowledgement with the error of the whole request.
func (s *shareSeen) refused(c *conn, at time.Duration, code int16, flags history.Flags) {
	for where := range s.acked {
		s.acknowledged(c, at, where, code, flags)
	}
}

func (s *shareSeen) acknowledged(c *conn, at time.Duration, where partition, code int16, flags history.Flags) {
	for _, e := range s.acked[where] {
		e.Kind, e.Time, e.Code, e.Flags = history.KindShareAckResponse, at, code, flags
		c.tap.Sink.Record(e)
	}
	delete(s.acked, where)
}

// acquired notes the records that the client receives, as one range for each delivery count.
func acquired(c *conn, at time.Duration, where partition, p *kmsg.ShareFetchResponseTopicPartition,
	flags history.Flags) {
	if where.topic == history.None || p.ErrorCode != 0 || flags.Has(history.Withheld) || flags.Has(history.Forged) {
		return
	}
	for _, batch := range p.AcquiredRecords {
		e := c.event(history.KindShareAcquired, at)
		e.Topic, e.Partition, e.Offset, e.Aux, e.N = where.topic, where.number, batch.FirstOffset, batch.LastOffset,
			int32(batch.DeliveryCount)
		c.tap.Sink.Record(e)
	}
}
