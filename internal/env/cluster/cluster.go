// Package cluster has the words that all Kafka providers share: what a broker and a topic are to a run, and what
// becomes of clients when a broker is broken. The providers lie in the folders below it, one each: embedded (kfake, in
// this process), process (Apache Kafka as JVM processes), docker (containers) and external (a cluster of the user's
// own). They know nothing of scenarios, faults or histories: who stops a broker, and why, is their caller's business.
package cluster

// Broker is one broker of a cluster.
type Broker struct {
	// Number counts the brokers from 1, as scenarios do.
	Number int32
	// ID is the node id that clients see; where dlqbench starts the cluster, it is the number.
	ID int32
	// Address is its host and port as clients reach it; it stays the same when the broker is stopped and started.
	Address string
}

// Topic is a topic to create.
type Topic struct {
	Name string
	// Partitions, 1 or more.
	Partitions int
	// Broker ≠ 0 reserves the broker of this number: it alone holds all partitions of the topic (a single replica
	// each), and neither topics without a broker nor group coordinators are put on it. Partitions of the others are
	// replicated three times, as far as there are brokers, and partition p is led by the p-th of them, round and round.
	Broker int32
	// Configs are the topic's settings, such as max.message.bytes.
	Configs map[string]string
}

// What became of a broker's clients, as calls that break brokers count it.
const (
	// ChangeClosed and ChangeReset: connections that were ended.
	ChangeClosed = "connections closed"
	ChangeReset  = "connections reset"
	// ChangeMoved: partitions that another broker leads now. ChangeLeaderless: partitions that nobody leads.
	ChangeMoved      = "leaders moved"
	ChangeLeaderless = "partitions without a leader"
	// ChangeCoordinators: groups and transactional ids that another broker coordinates now.
	ChangeCoordinators = "coordinators moved"
	// ChangeRequests and ChangeAnswers: what a paused broker did not read, or not answer.
	ChangeRequests = "requests held"
	ChangeAnswers  = "answers held"
)
