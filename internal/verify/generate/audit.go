package generate

// This file simulates the end of a run: the replay, the stop, and the audits.

import (
	"github.com/dlqbench/dlqbench/history"
)

// envelopeHeaders and envelopeBytes are the number and the size of a dead letter's headers.
const (
	envelopeHeaders = 8
	envelopeBytes   = 200
)

func (s *simulation) audit(topics ...int16) {
	for _, topic := range topics {
		start := s.event(history.KindAuditStart)
		start.Topic = topic
		s.put(start)
		for partition := range int32(partitions) {
			for offset, one := range s.logs[spot{topic, partition}].entries {
				if one.aborted {
					continue
				}
				s.put(s.auditRecord(spot{topic, partition}, int64(offset), &one))
			}
		}
		s.later(ms)
	}
}

func (s *simulation) auditRecord(at spot, offset int64, one *entry) history.Event {
	r := s.records[one.record]
	e := s.event(history.KindAuditRecord)
	e.Topic, e.Partition, e.Offset, e.Record = at.topic, at.partition, offset, r.number
	e.KeyHash, e.ValueHash, e.HeadersHash, e.HeaderCount, e.HeaderBytes = r.keyHash(), r.valueHash(), headersHash, 2, 40
	e.Aux = 1_700_000_000_000 + offset
	if s.h.role(at.topic) == history.RoleDLQ && s.losesID(r) {
		e.Record = none
	}
	if one.letter != nil {
		e.Claim = one.letter
		e.Flags = history.FailureHeaders
		e.HeaderCount, e.HeaderBytes = envelopeHeaders, envelopeBytes
	}
	return e
}

func (s *simulation) auditOffsets() {
	for topic := range s.h.Header.Topics {
		for partition := range int32(partitions) {
			log := s.logs[spot{int16(topic), partition}]
			e := s.event(history.KindAuditOffsets)
			e.Topic, e.Partition, e.Offset, e.Aux = int16(topic), partition, int64(len(log.entries)), log.committed
			s.put(e)
		}
	}
	s.later(ms)
}

// replay replays some dead letters. If a record has several, it often replays more than one; but not where attempts
// have several calls, because the downstream stub cannot tell which of two copies that are processed at once a call is
// for.
func (s *simulation) replay() {
	s.phase(history.PhaseReplay)
	s.audit(dlqTopic)
	type chosen struct {
		at     spot
		offset int64
		one    entry
	}
	var all []chosen
	taken := map[int32]bool{}
	for partition := range int32(partitions) {
		for offset, one := range s.logs[spot{dlqTopic, partition}].entries {
			if !one.aborted && s.Intn(3) > 0 && (!taken[one.record] || s.spanned == 0 && chance(s, 2)) {
				taken[one.record] = true
				all = append(all, chosen{spot{dlqTopic, partition}, int64(offset), one})
			}
		}
	}
	for _, one := range all {
		e := s.event(history.KindReplaySelected)
		e.Record, e.Topic, e.Partition, e.Offset = one.one.record, one.at.topic, one.at.partition, one.offset
		s.put(e)
	}
	for i, one := range all {
		if r := s.records[one.one.record]; taken[r.number] && s.Intn(2) == 0 {
			r.outcome = history.OutcomeSuccess // the downstream stub accepts it this time
		}
		taken[one.one.record] = false // all copies of a record get the same answer from the downstream stub
		s.later(ms)
		s.sendBack(int32(i), one.one)
	}
	s.drain()
}

// sendBack writes a dead letter to the topic that it names as its source. If the contract does not say in which
// partition, that may be another. The answer may come later than the first attempts there.
func (s *simulation) sendBack(sequence int32, one entry) {
	r := s.records[one.record]
	to := spot{r.topic, 0}
	if one.letter != nil {
		to = spot{one.letter.Topic, max(one.letter.Partition, 0)}
	}
	if !s.h.Header.Contract().SamePartition && chance(s, 2) {
		to.partition = int32(s.Intn(partitions))
	}
	e := s.event(history.KindProduceRequest)
	e.Instance, e.Op, e.Record, e.Topic, e.Partition = history.Replayer, s.nextOp(), r.number, to.topic, to.partition
	e.KeyHash, e.ValueHash, e.ProducerID, e.ProducerEpoch, e.Sequence = r.keyHash(), r.valueHash(), 1<<20, 0, sequence
	s.put(e)
	offset := s.append(to, entry{record: r.number, replays: one.replays + 1, origin: r.offset})
	s.after(ms+4*s.lag(), func() {
		e.Kind, e.Time, e.Offset = history.KindProduceResponse, s.now, offset
		s.put(e)
	})
}

func (s *simulation) stopAll() {
	for _, p := range s.processes {
		if p.dead {
			continue
		}
		p.signal("TERM")
		p.stopping = true
		s.later(ms)
		e := p.event(history.KindInstanceExited)
		e.Flags = history.Expected
		p.put(e)
		p.dead = true
	}
	s.later(ms)
}
