package embedded

import (
	"slices"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
)

// This file decides where things belong: which broker leads a partition, and which may coordinate a group, given who is
// alive. Everything here is computed from the tables alone, nothing asks kfake.

// replicationFactor of topics that reserve no broker, as far as there are brokers; a real cluster's usual one.
const replicationFactor = 3

// topicTable is what is known of one topic.
type topicTable struct {
	// reserved is the broker that alone holds the topic, 0 when it is replicated.
	reserved int32
	// homes is the preferred leader of each partition.
	homes []int32
}

// layout is the brokers of a cluster and what lies on them.
type layout struct {
	alive map[int32]bool
	// demoted brokers lead nothing that another living one can lead.
	demoted map[int32]bool
	topics  map[string]*topicTable
	// coordinators is where the coordinator of each group or transactional id that a client asked for belongs, and
	// where it is now.
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

// shared returns the brokers that no topic reserves, in order; all of them when every one is reserved.
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

// add enters a topic. It also moves the homes of the topics entered before off a broker that this one reserves.
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

// learn enters what a client was told of a topic that was not created here: its partitions stay where they are, and
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

// leader returns who leads a partition: the first of its replicas that is alive and not demoted, else the first that is
// alive, or its home when none is, for then nobody does.
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

// leads returns how many partitions belong to a broker now.
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

// mayCoordinate returns the brokers that may hold coordinators: shared ones that are alive, else any that is.
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

// belongs tells whether the coordinator of key may be on node. Strictly it is at its home while that may coordinate,
// else stays where it is; if that can't be had, any broker that may coordinate is good enough.
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
