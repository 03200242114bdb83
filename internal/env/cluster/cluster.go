// Package cluster has the types that all Kafka providers share: brokers and topics as a run sees them, and the
// effects on clients when a fault is injected into a broker. Each provider has a folder below this one: embedded
// (kfake, in this process), process (Apache Kafka as JVM processes), docker (containers) and external (the user's
// own cluster). They know nothing of scenarios, faults or histories: who stops a broker, and why, is up to their
// caller.
package cluster

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"time"
)

// MaxBrokers is the maximum number of brokers of a cluster that dlqbench starts.
const MaxBrokers = 9

// CheckSize rejects other numbers of brokers.
func CheckSize(brokers int) error {
	if brokers < 1 || brokers > MaxBrokers {
		return fmt.Errorf("%d brokers were asked for: 1 to %d are possible", brokers, MaxBrokers)
	}
	return nil
}

// NewID returns a random id in Kafka's form, 22 letters of base64. Tools would take one that begins with a dash for an
// option.
func NewID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	id[0] &= 0x7f           // the first letter comes before the dash
	return base64.RawURLEncoding.EncodeToString(id[:])
}

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

// During returns a context that also ends with a cluster's life, with its cause.
func During(ctx, life context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(life, func() { cancel(context.Cause(life)) })
	return ctx, func() { stop(); cancel(nil) }
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
