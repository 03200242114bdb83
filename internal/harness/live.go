package harness

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/dlqbench/dlqbench/history"
)

// figures are totals so far.
type figures struct {
	sent, processed, attempts, deadLetters int64
	// lag is how many acknowledged records no accepted commit covers yet.
	lag int64
	// retrying is how many records failed and are neither finished nor dead-lettered yet.
	retrying int64
	faults   []string
}

// live passes events on to the recorder and counts what people want to see while the run goes on. Its figures are for the eye only:
// the verdict is made from the history.
type live struct {
	next    history.Sink
	topics  []history.Topic
	maxSlip time.Duration
	// farthest bounds the offsets that are believed: the run's topics are new.
	farthest int64
	// triggers are told of every event after it was recorded and counted.
	triggers triggers
	// replayed is told of a record that a worker of the dead-letter store writes back, before the broker is.
	replayed func(record int32)

	sent, slipped, acked, attempts, processed, deadLetters atomic.Int64

	mu sync.Mutex
	// committed is, by partition, up to where an accepted commit came; in a share group, how many records were accepted or rejected, and taken which.
	committed map[int32]int64
	taken     map[int32][]bool
	retrying  map[int32]struct{}
	faults    []string
	// transacted is behind the last record that the replay tool wrote in a transaction: what follows it there is the transaction's marker.
	transacted map[topicPartition]int64
}

type topicPartition struct {
	topic     int16
	partition int32
}

func newLive(next history.Sink, header *history.Header) *live {
	l := &live{
		next: next, topics: header.Topics, maxSlip: header.Expect.MaxSlip, farthest: 4*int64(header.Records) + 1<<16, committed: map[int32]int64{}, taken: map[int32][]bool{}, retrying: map[int32]struct{}{}, transacted: map[topicPartition]int64{},
	}
	l.triggers = triggers{contract: &header.Contract, role: l.role, lag: l.lag}
	return l
}

// Record implements history.Sink.
func (l *live) Record(event history.Event) {
	l.next.Record(event)
	l.count(event)
	l.triggers.observe(&event)
}

func (l *live) count(event history.Event) {
	if history.OfStore(event.Instance) {
		l.served(event)
		return
	}
	switch event.Kind {
	case history.KindSend:
		l.sent.Add(1)
		if event.Time-time.Duration(event.Aux) > l.maxSlip {
			l.slipped.Add(1)
		}
	case history.KindAcked:
		if event.Code == 0 {
			l.acked.Add(1)
		}
	case history.KindAttemptEnd:
		l.attempted(event)
	case history.KindProduceResponse:
		l.replayedInTransaction(event)
		if role := l.role(event.Topic); event.Code == 0 && (role == history.RoleDLQ || role == history.RoleQuarantine) {
			l.deadLetters.Add(1)
			l.settle(event.Record)
		}
	case history.KindCommitResponse:
		if event.Code == 0 && l.role(event.Topic) == history.RoleInput {
			l.mu.Lock()
			l.committed[event.Partition] = max(l.committed[event.Partition], event.Offset)
			l.mu.Unlock()
		}
	case history.KindShareAckResponse:
		if done := event.N == history.AckAccept || event.N == history.AckReject; done && event.Code == 0 && l.role(event.Topic) == history.RoleInput {
			l.take(event)
		}
	}
}

// served: what a worker is about to write back is a replay: from now on its record succeeds, if that is planned.
func (l *live) served(event history.Event) {
	if event.Kind == history.KindProduceRequest && l.replayed != nil {
		l.replayed(event.Record)
	}
}

// take notes what a member of a share group was done with, and the broker agreed.
func (l *live) take(event history.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.taken[event.Partition]
	for offset := max(event.Offset, 0); offset <= min(event.Aux, l.farthest); offset++ {
		for int64(len(taken)) <= offset {
			taken = append(taken, false)
		}
		if !taken[offset] {
			taken[offset] = true
			l.committed[event.Partition]++
		}
	}
	l.taken[event.Partition] = taken
}

// takenFrom returns the first offset of the input's partition, from at on, with which no member of a share group is done.
func (l *live) takenFrom(partition int32, at int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.taken[partition]
	for at >= 0 && at < int64(len(taken)) && taken[at] {
		at++
	}
	return at
}

func (l *live) role(topic int16) history.Role {
	if topic < 0 || int(topic) >= len(l.topics) {
		return ""
	}
	return l.topics[topic].Role
}

func (l *live) attempted(event history.Event) {
	l.attempts.Add(1)
	switch event.Outcome {
	case history.OutcomeSuccess, history.OutcomeLogical:
		l.processed.Add(1)
		l.settle(event.Record)
	default:
		l.mu.Lock()
		l.retrying[event.Record] = struct{}{}
		l.mu.Unlock()
	}
}

func (l *live) settle(record int32) {
	l.mu.Lock()
	delete(l.retrying, record)
	l.mu.Unlock()
}

// offSchedule reports whether more than one in a hundred records were sent later than the scenario allows: then the run can't be conclusive.
func (l *live) offSchedule() bool { return 100*l.slipped.Load() > l.sent.Load() }

func (l *live) fault(name string, active bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if active {
		l.faults = append(l.faults, name)
		return
	}
	if i := slices.Index(l.faults, name); i >= 0 {
		l.faults = slices.Delete(l.faults, i, i+1)
	}
}

func (l *live) figures() figures {
	l.mu.Lock()
	defer l.mu.Unlock()
	return figures{
		sent: l.sent.Load(), processed: l.processed.Load(), attempts: l.attempts.Load(), deadLetters: l.deadLetters.Load(),
		lag: l.lagLocked(), retrying: int64(len(l.retrying)), faults: slices.Clone(l.faults),
	}
}

// lag is how many acknowledged records no accepted commit covers yet.
func (l *live) lag() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lagLocked()
}

func (l *live) lagLocked() int64 {
	lag := l.acked.Load()
	for _, offset := range l.committed {
		lag -= offset
	}
	return max(lag, 0)
}

// replayedInTransaction notes where the replay tool's transactions write.
func (l *live) replayedInTransaction(event history.Event) {
	if event.Code != 0 || event.Instance != history.Replayer || !event.Flags.Has(history.InTransaction) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.transacted[topicPartition{event.Topic, event.Partition}] = event.Offset + 1
}

// discountMarkers takes off a partition's end what no consumer gets: the marker of a replay's transaction behind the last record that the group has committed.
func (l *live) discountMarkers(topic int16, ends map[int32]kadm.ListedOffset, committed map[int32]kadm.OffsetResponse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for partition, end := range ends {
		behind, is := l.transacted[topicPartition{topic, partition}]
		if at, known := committed[partition]; is && known && at.Err == nil && at.At == behind {
			end.Offset = behind
			ends[partition] = end
		}
	}
}
