package generate

// This file simulates the broker: logs, committed offsets, and partition assignment.

import (
	"cmp"

	"github.com/dlqbench/dlqbench/history"
)

// spot is a partition of a topic.
type spot struct {
	topic     int16
	partition int32
}

// bySpot orders partitions by topic.
func bySpot(a, b spot) int {
	return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
}

// entry is a record in a log.
type entry struct {
	record int32
	// attempts is the number of attempts on a copy in the retry topic; ready is the earliest time of the next one.
	attempts int
	ready    int64 // ns on the run's clock
	// letter is the content of a dead letter.
	letter *history.Claim
	// replays is the number of times the store entry has been replayed.
	replays int
	// aborted: it was written in a transaction that was aborted, so nobody reads it.
	aborted bool
	// origin is the offset in the input topic at which the workload wrote the record.
	origin int64
}

type topicLog struct {
	entries   []entry
	committed int64
	owner     *assignment
	// written holds the writes of idempotent producers, so that a retried write is appended once.
	written map[int64]int64
}

func newTopicLog() *topicLog { return &topicLog{committed: history.None, written: map[int64]int64{}} }

// start is the offset at which a new owner begins.
func (l *topicLog) start() int64 { return max(l.committed, 0) }

// append writes an entry and wakes the readers of the partition.
func (s *simulation) append(at spot, one entry) int64 {
	log := s.logs[at]
	log.entries = append(log.entries, one)
	if a := log.owner; a != nil {
		a.wake()
	}
	offset := int64(len(log.entries)) - 1
	if s.isDeadLetterTopic(at.topic) {
		s.store.arrives(at, offset, one)
	}
	return offset
}

// give assigns a partition to a process.
func (s *simulation) give(p *process, at spot) {
	if old := s.logs[at].owner; old != nil {
		old.gone = true
	}
	a := p.hold(at)
	s.instant()
	e := s.event(history.KindAssigned)
	e.Instance, e.Run, e.Topic, e.Partition = p.instance, p.run, at.topic, at.partition
	s.rebalances++
	s.inGroup(&e)
	s.put(e)
	s.instant()
	a.wake()
}

// inGroup fills in the group that the event about a partition is of. In half of the histories a group of its own reads
// the retry topic, and its generations grow with each partition that is assigned to anyone. This is not drawn, so that
// a seed gives the same history as before apart from it.
func (s *simulation) inGroup(e *history.Event) {
	e.N = 1
	if s.h.Header.Topics[e.Topic].Role == history.RoleRetry && s.h.Header.Records%2 == 0 {
		e.N, e.Flags = int32(2+s.rebalances), e.Flags|history.OtherGroup
	}
}

// hold makes the process begin at the partition's last commit.
func (p *process) hold(at spot) *assignment {
	log := p.logs[at]
	a := &assignment{process: p, at: at, next: log.start(), committed: log.start()}
	log.owner, p.owned[at] = a, a
	return a
}

// take removes a partition from a process that is notified of the removal.
func (a *assignment) take(why string) {
	a.gone, a.lost = true, true
	delete(a.process.owned, a.at)
	s := a.process.simulation
	if s.logs[a.at].owner == a {
		s.logs[a.at].owner = nil
	}
	a.process.instant()
	e := a.process.event(history.KindRevoked)
	e.Topic, e.Partition, e.Text = a.at.topic, a.at.partition, why
	s.inGroup(&e)
	s.put(e)
	s.instant()
	a.process.txn.revoked()
}
