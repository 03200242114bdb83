package admin

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
)

// This file decides the places of partitions, from tables alone.

// replicationFactor of topics that reserve no broker, limited by the number of brokers.
const replicationFactor = 3

// maxPartitions of one topic.
const maxPartitions = 1000

// Shared returns the brokers that no topic reserves, in order; all brokers if every one is reserved.
func Shared(brokers []int32, topics iter.Seq[cluster.Topic]) []int32 {
	free := slices.Clone(brokers)
	for topic := range topics {
		free = slices.DeleteFunc(free, func(number int32) bool { return number == topic.Broker })
	}
	if len(free) == 0 {
		return slices.Clone(brokers)
	}
	return free
}

// Place returns the numbers of the replicas of each partition of a topic, the preferred leader first.
func Place(topic cluster.Topic, shared []int32) [][]int32 {
	partitions := make([][]int32, topic.Partitions)
	for p := range partitions {
		if topic.Broker != 0 {
			partitions[p] = []int32{topic.Broker}
			continue
		}
		for i := range min(replicationFactor, len(shared)) {
			partitions[p] = append(partitions[p], shared[(p+i)%len(shared)])
		}
	}
	return partitions
}

// tolerant lets topics of fewer than three replicas be written with one, unless their settings say otherwise. Without
// that, the loss of one of two brokers would stop all writes.
func tolerant(topics []cluster.Topic, shared []int32) []cluster.Topic {
	all := slices.Clone(topics)
	for i, topic := range all {
		if len(Place(topic, shared)[0]) < replicationFactor {
			configs := map[string]string{"min.insync.replicas": "1"}
			maps.Copy(configs, topic.Configs)
			all[i].Configs = configs
		}
	}
	return all
}

// validate rejects topics that cannot be placed.
func validate(topic cluster.Topic, brokers []int32) error {
	if topic.Partitions < 1 || topic.Partitions > maxPartitions {
		return fmt.Errorf("creating topic %s: %d partitions were asked for: 1 to %d are possible", topic.Name,
			topic.Partitions, maxPartitions)
	}
	if topic.Broker != 0 && !slices.Contains(brokers, topic.Broker) {
		return fmt.Errorf("creating topic %s: it is to lie on broker %d: the cluster has brokers 1 to %d", topic.Name,
			topic.Broker, len(brokers))
	}
	return nil
}

// rotated returns the replicas with to in front and the others in their order.
func rotated(replicas []int32, to int32) []int32 {
	order := []int32{to}
	for _, number := range replicas {
		if number != to {
			order = append(order, number)
		}
	}
	return order
}
