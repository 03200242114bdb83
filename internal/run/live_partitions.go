package run

import (
	"sync"
	"sync/atomic"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/reports"
)

// partitions is how far the subject is in every partition that it reads of its own accord: those of the input topics
// and of a graph's nodes.
type partitions struct {
	topics []history.Topic
	// first is, by topic, the place of its first partition; -1 for topics that are not followed.
	first []int
	all   []partition
	// farthest bounds the offsets that are believed: the run's topics are new.
	farthest int64

	mu sync.Mutex
	// taken are the records with which a share group is done, by place.
	taken [][]bool
	// owner is the instance that has the partition, by place.
	owner []int16
}

// partition is what the taps and the workload's producer have seen of one.
type partition struct {
	// end is behind the last record that was acknowledged, committed up to where an accepted commit came; in a share
	// group, how many records were accepted or rejected.
	end, committed atomic.Int64
}

func newPartitions(header *history.Header) *partitions {
	p := &partitions{topics: header.Topics, farthest: 4*int64(header.Records) + 1<<16}
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

// place of a partition, -1 if it is not followed.
func (p *partitions) place(topic int16, number int32) int {
	if topic < 0 || int(topic) >= len(p.first) || p.first[topic] < 0 || number < 0 ||
		int(number) >= p.topics[topic].Partitions {
		return -1
	}
	return p.first[topic] + int(number)
}

// written: the broker has acknowledged a record.
func (p *partitions) written(event *history.Event) {
	if at := p.place(event.Topic, event.Partition); at >= 0 {
		raise(&p.all[at].end, min(event.Offset, p.farthest)+1)
	}
}

// commit: the broker has accepted one.
func (p *partitions) commit(event *history.Event) {
	if at := p.place(event.Topic, event.Partition); at >= 0 {
		raise(&p.all[at].committed, event.Offset)
	}
}

func raise(value *atomic.Int64, to int64) {
	for {
		if now := value.Load(); to <= now || value.CompareAndSwap(now, to) {
			return
		}
	}
}

// take notes what a member of a share group was done with, and the broker agreed.
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

// takenFrom returns the first offset of the partition, from at on, with which no member of a share group is done.
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

// own notes whose the partition is: nobody's, with history.None, if it was the instance's.
func (p *partitions) own(event *history.Event, has bool) {
	at := p.place(event.Topic, event.Partition)
	if at < 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case has:
		p.owner[at] = event.Instance
	case p.owner[at] == event.Instance:
		p.owner[at] = history.None
	}
}

// disown takes from an instance all that it has.
func (p *partitions) disown(instance int16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, owner := range p.owner {
		if owner == instance {
			p.owner[at] = history.None
		}
	}
}

// lag is how many records of the input no accepted commit covers yet.
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

// states are all the partitions, for the view.
func (p *partitions) states() []reports.PartitionState {
	p.mu.Lock()
	defer p.mu.Unlock()
	states := make([]reports.PartitionState, 0, len(p.all))
	for index, topic := range p.topics {
		for number := 0; p.first[index] >= 0 && number < topic.Partitions; number++ {
			at := p.first[index] + number
			// The commit is read first: what is committed in between is in the topic.
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
