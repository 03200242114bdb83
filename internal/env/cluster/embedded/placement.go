package embedded

import (
	"slices"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
)

// This file decides which broker leads a partition, and which may coordinate a group, given the set of live brokers.
// It computes everything from the tables alone and does not query kfake.

// replicationFactor of topics that reserve no broker, limited by the number of brokers; the usual factor of a real
// cluster.
const replicationFactor = 3

// topicTable is the placement of one topic.
type topicTable struct {
	// reserved is the only broker that holds the topic, 0 if the topic is replicated.
	reserved int32
	// homes is the preferred leader of each partition.
	homes []int32
}

// layout contains the brokers of a cluster and the placement of topics and coordinators on them.
type layout struct {
	alive map[int32]bool
	// demoted brokers lead no partition that another live broker can lead.
	demoted map[int32]bool
	topics  map[string]*topicTable
	// coordinators is the prescribed and the current coordinator of each group or transactional id that a client asked
	// for.
	coordinators map[string]coordinator
}

type coordinator struct{ home, now int32 }

func newLayout(brokers int) layout {
	l := layout{alive: map[int32]bool{}, demoted: map[int32]bool{}, topics: map[string]*topicTable{},
		coordinators: map[string]coordinator{}}
	for id := range int32(brokers) {
		l.alive[id+1] = true
	}
	return l
}

// shared returns the brokers that no topic reserves, in order; all brokers if every one is reserved.
func (l *layout) shared() []int32 {
	reserved := map[int32]bool{}
	for _, topic := range l.topics {
		reserved[topic.reserved] = true
	}
	var all, free []int32
	for id := range int32(len(l.alive)) {
		all = append(all, id+1)
		if !reserved[id+1] {
			free = append(free, id+1)
		}
	}
	if len(free) == 0 {
		return all
	}
	return free
}

// add adds a topic. It also moves the homes of earlier topics off a broker that this one reserves.
func (l *layout) add(topic cluster.Topic) {
	table := &topicTable{reserved: topic.Broker, homes: make([]int32, topic.Partitions)}
	l.topics[topic.Name] = table
	shared := l.shared()
	for _, table := range l.topics {
		for partition := range table.homes {
			switch home := table.homes[partition]; {
			case table.reserved != 0:
				table.homes[partition] = table.reserved
			case !slices.Contains(shared, home):
				table.homes[partition] = shared[partition%len(shared)]
			}
		}
	}
}

// learn adds a topic that was not created here, from metadata sent to a client. Its partitions stay in place, and
// count as replicated on all shared brokers.
func (l *layout) learn(name string, leaders map[int32]int32) {
	table := l.topics[name]
	if table == nil {
		table = &topicTable{}
		l.topics[name] = table
	}
	for partition := int32(len(table.homes)); partition < int32(len(leaders)); partition++ {
		table.homes = append(table.homes, leaders[partition])
	}
}

// replicas returns the brokers that hold a partition, the preferred leader first.
func (l *layout) replicas(topic string, partition int32) []int32 {
	table := l.topics[topic]
	home := table.homes[partition]
	if table.reserved != 0 {
		return []int32{home}
	}
	shared := l.shared()
	at := slices.Index(shared, home)
	if at < 0 {
		return append([]int32{home}, shared[:min(replicationFactor-1, len(shared))]...)
	}
	replicas := make([]int32, 0, replicationFactor)
	for i := range min(replicationFactor, len(shared)) {
		replicas = append(replicas, shared[(at+i)%len(shared)])
	}
	return replicas
}

// leader returns the leader of a partition: the first replica that is alive and not demoted, else the first that is
// alive. If none is alive, the partition has no leader, and leader returns its home.
func (l *layout) leader(topic string, partition int32) int32 {
	replicas := l.replicas(topic, partition)
	for _, id := range replicas {
		if l.alive[id] && !l.demoted[id] {
			return id
		}
	}
	for _, id := range replicas {
		if l.alive[id] {
			return id
		}
	}
	return l.topics[topic].homes[partition]
}

// leads returns the number of partitions whose prescribed leader is the broker now.
func (l *layout) leads(id int32) (partitions int) {
	for name, table := range l.topics {
		for partition := range table.homes {
			if l.leader(name, int32(partition)) == id {
				partitions++
			}
		}
	}
	return partitions
}

// mayCoordinate returns the brokers that may hold coordinators: the live shared brokers, or any live broker if there
// are none.
func (l *layout) mayCoordinate() []int32 {
	var alive, shared []int32
	for id := range int32(len(l.alive)) {
		if l.alive[id+1] {
			alive = append(alive, id+1)
		}
	}
	for _, id := range l.shared() {
		if l.alive[id] {
			shared = append(shared, id)
		}
	}
	if len(shared) == 0 {
		return alive
	}
	return shared
}

// belongs reports whether the coordinator of key may be on node. With strict, it must be at its home while that may
// coordinate, else stay in place. Without strict, any broker that may coordinate is good enough.
func (l *layout) belongs(key string, node int32, may []int32, strict bool) bool {
	if !slices.Contains(may, node) {
		return false
	}
	place := l.coordinators[key]
	switch {
	case !strict:
		return true
	case slices.Contains(may, place.home):
		return node == place.home
	case slices.Contains(may, place.now):
		return node == place.now
	}
	return true
}
