// Package cluster has the types that all Kafka providers share: brokers and topics as a run sees them, and the
// effects on clients when a fault is injected into a broker. Each provider has a folder below this one: embedded
// (kfake, in this process), process (Apache Kafka as JVM processes), docker (containers) and external (the user's
// own cluster). They know nothing of scenarios, faults or histories: who stops a broker, and why, is up to their
// caller.
package cluster

import (
	"context"
	"maps"
	"time"
)

// Broker is one broker of a cluster.
type Broker struct {
	// Number counts the brokers from 1, as scenarios do.
	Number int32
	// ID is the node id that clients see. If dlqbench starts the cluster, it equals the number.
	ID int32
	// Address is the broker's host and port for clients. It stays the same when the broker is stopped and started.
	Address string
}

// Topic is a topic to create.
type Topic struct {
	Name string
	// Partitions, 1 or more.
	Partitions int
	// Broker ≠ 0 reserves the broker with this number. Only that broker holds the topic's partitions (a single replica
	// each), and neither topics without a broker nor group coordinators are placed on it. Partitions of other topics
	// are replicated three times, limited by the number of brokers, and their leaders rotate: partition p is led by the
	// p-th broker, cyclically.
	Broker int32
	// Configs are the topic's settings, such as max.message.bytes.
	Configs map[string]string
}

// Effects on a broker's clients, as counted by calls that inject faults into brokers.
const (
	// ChangeClosed and ChangeReset count connections that were ended.
	ChangeClosed = "connections closed"
	ChangeReset  = "connections reset"
	// ChangeMoved counts partitions that another broker leads now. ChangeLeaderless counts partitions without a leader.
	ChangeMoved      = "leaders moved"
	ChangeLeaderless = "partitions without a leader"
	// ChangeCoordinators counts groups and transactional ids that another broker coordinates now.
	ChangeCoordinators = "coordinators moved"
	// ChangeRequests and ChangeAnswers count the requests that a paused broker did not read, and the answers that it
	// did not send.
	ChangeRequests = "requests held"
	ChangeAnswers  = "answers held"
)

// Counted removes the effects that did not occur.
func Counted(changes map[string]int) map[string]int {
	maps.DeleteFunc(changes, func(_ string, count int) bool { return count <= 0 })
	return changes
}

// Sleep waits between two looks at a cluster. It returns the cause if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
