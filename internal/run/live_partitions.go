package run

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/reports"
)

// partitions is the subject's progress in every partition that it reads on its own: those of the input topics and of
// a graph's nodes.
type partitions struct {
	topics []history.Topic
	// first is, by topic, the place of the topic's first partition; -1 for topics that are not followed.
	first []int
	all   []partition
	// farthest rejects implausible offsets: the run's topics are new. Transaction markers may take half a million.
	farthest int64

	mu sync.Mutex
	// taken marks, by place, the records that a share group has settled.
	taken [][]bool
	// owner is, by place, the instance that owns the partition. members is the number of group members in each instance.
	// changed is when either last changed.
	owner   []int16
	members map[int16]int32
	changed time.Duration
	// left is when an instance left its group that runs and is out of it.
	left map[int16]time.Duration
}

// partition is what the taps and the workload's producer have observed of one partition.
type partition struct {
	// end is the offset after the last acknowledged record. committed is the offset of the last accepted commit or, in
	// a share group, the number of records accepted or rejected.
	end, committed atomic.Int64
}

func newPartitions(header *history.Header) *partitions {
	p := &partitions{topics: header.Topics, farthest: 4*int64(header.Records) + 1<<20, members: map[int16]int32{},
		left: map[int16]time.Duration{}}
	count := 0
	for _, topic := range header.Topics {
		if topic.Role != history.RoleInput && topic.Role != history.RoleNode {
			p.first = append(p.first, -1)
			continue
		}
		p.first = append(p.first, count)
		count += topic.Partitions
	}
	p.all, p.taken, p.owner = make([]partition, count), make([][]bool, count), make([]int16, count)
	for i := range p.owner {
		p.owner[i] = history.None
	}
	return p
}

// place returns the place of a partition, -1 if it is not followed.
func (p *partitions) place(topic int16, number int32) int {
	if topic < 0 || int(topic) >= len(p.first) || p.first[topic] < 0 || number < 0 ||
		int(number) >= p.topics[topic].Partitions {
		return -1
	}
	return p.first[topic] + int(number)
}

// written handles a record that the broker has acknowledged.
func (p *partitions) written(event *history.Event) {
	if at := p.place(event.Topic, event.Partition); at >= 0 {
		raise(&p.all[at].end, min(event.Offset, p.farthest)+1)
	}
}

// commit handles a commit that the broker has accepted.
func (p *partitions) commit(event *history.Event) {
	if at := p.place(event.Topic, event.Partition); at >= 0 {
		raise(&p.all[at].committed, event.Offset)
	}
}

// end returns the offset after the last acknowledged record of the partition, -1 if it is not followed.
func (p *partitions) end(topic int16, number int32) int64 {
	if at := p.place(topic, number); at >= 0 {
		return p.all[at].end.Load()
	}
	return -1
}

func raise(value *atomic.Int64, to int64) {
	for {
		if now := value.Load(); to <= now || value.CompareAndSwap(now, to) {
			return
		}
	}
}

// take notes the records that a member of a share group has settled with the broker's consent.
func (p *partitions) take(event *history.Event) {
	at := p.place(event.Topic, event.Partition)
	if at < 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.taken[at]
	for offset := max(event.Offset, 0); offset <= min(event.Aux, p.farthest); offset++ {
		for int64(len(taken)) <= offset {
			taken = append(taken, false)
		}
		if !taken[offset] {
			taken[offset] = true
			p.all[at].committed.Add(1)
		}
	}
	p.taken[at] = taken
}

// takenFrom returns the first offset of the partition, from at on, that no member of a share group has settled.
func (p *partitions) takenFrom(topic int16, number int32, at int64) int64 {
	place := p.place(topic, number)
	if place < 0 {
		return at
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.taken[place]
	for at >= 0 && at < int64(len(taken)) && taken[at] {
		at++
	}
	return at
}

// own notes the owner of the partition. When has is false, the partition has no owner (history.None) if it was the
// instance's.
func (p *partitions) own(event *history.Event, has bool) {
	at := p.place(event.Topic, event.Partition)
	if at < 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.owner[at]
	switch {
	case has:
		p.owner[at] = event.Instance
	case before == event.Instance:
		p.owner[at] = history.None
	}
	if p.owner[at] != before {
		p.changed = event.Time
	}
}

// disown removes the instance as the owner of all its partitions, and as a member of the group.
func (p *partitions) disown(instance int16, at time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.members, instance)
	delete(p.left, instance)
	p.changed = at
	for at, owner := range p.owner {
		if owner == instance {
			p.owner[at] = history.None
		}
	}
}

// lag returns the number of input records not yet covered by an accepted commit.
func (p *partitions) lag() int64 {
	lag := int64(0)
	for index, topic := range p.topics {
		if topic.Role != history.RoleInput {
			continue
		}
		for number := range topic.Partitions {
			lag += p.all[p.first[index]+number].lag()
		}
	}
	return lag
}

func (p *partition) lag() int64 { return max(p.end.Load()-p.committed.Load(), 0) }

// states returns all partitions for the view.
func (p *partitions) states() []reports.PartitionState {
	p.mu.Lock()
	defer p.mu.Unlock()
	states := make([]reports.PartitionState, 0, len(p.all))
	for index, topic := range p.topics {
		for number := 0; p.first[index] >= 0 && number < topic.Partitions; number++ {
			at := p.first[index] + number
			// Read the commit first: records committed meanwhile are in the topic.
			committed := p.all[at].committed.Load()
			end := max(p.all[at].end.Load(), committed)
			states = append(states, reports.PartitionState{
				Topic: topic.Name, Partition: int32(number), End: end, Committed: committed, Lag: end - committed,
				Instance: int(p.owner[at]),
			})
		}
	}
	return states
}
