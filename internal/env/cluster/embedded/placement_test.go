package embedded

import (
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
)

// For any cluster, topics and set of stopped brokers: a partition with a live replica is led by one, and by its home
// if that is alive; reserved brokers hold only their own topics; no broker is a replica twice.
func TestPlacement(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		brokers := rapid.IntRange(1, cluster.MaxBrokers).Draw(t, "brokers")
		l := newLayout(brokers)
		reserved := map[int32]bool{}
		for i := range rapid.IntRange(1, 4).Draw(t, "topics") {
			topic := cluster.Topic{
				Name: strconv.Itoa(i), Partitions: rapid.IntRange(1, 12).Draw(t, "partitions"),
				Broker: rapid.Int32Range(0, int32(brokers)).Draw(t, "broker"),
			}
			reserved[topic.Broker] = topic.Broker != 0
			l.add(topic)
		}
		for id := range l.alive {
			l.alive[id] = rapid.Bool().Draw(t, "alive")
		}
		free := 0
		for id := range l.alive {
			if !reserved[id] {
				free++
			}
		}
		for name, table := range l.topics {
			for p := range int32(len(table.homes)) {
				replicas, leader := l.replicas(name, p), l.leader(name, p)
				if sorted := slices.Sorted(slices.Values(replicas)); len(slices.Compact(sorted)) != len(replicas) {
					t.Fatalf("%s-%d: replicas %v", name, p, replicas)
				}
				if table.reserved != 0 && !slices.Equal(replicas, []int32{table.reserved}) {
					t.Fatalf("%s-%d reserves broker %d but lies on %v", name, p, table.reserved, replicas)
				}
				for _, id := range replicas {
					if table.reserved == 0 && free > 0 && reserved[id] {
						t.Fatalf("%s-%d lies on broker %d, which is reserved", name, p, id)
					}
				}
				if l.alive[replicas[0]] && leader != replicas[0] {
					t.Fatalf("%s-%d is led by %d, its home %d is alive", name, p, leader, replicas[0])
				}
				if slices.ContainsFunc(replicas, func(id int32) bool {
					return l.alive[id]
				}) != l.alive[leader] || !slices.Contains(replicas, leader) {
					t.Fatalf("%s-%d is led by %d of %v, alive: %v", name, p, leader, replicas, l.alive)
				}
			}
		}
		for _, id := range l.mayCoordinate() {
			if !l.alive[id] {
				t.Fatalf("broker %d may coordinate but is stopped", id)
			}
		}
	})
}
