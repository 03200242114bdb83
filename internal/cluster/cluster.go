package cluster

// Broker is one broker of a cluster.
type Broker struct {
	// ID is its number, from 1, and the node id that clients see.
	ID int32
	// Address is its host and port; it stays the same when the broker is stopped and started.
	Address string
}

// Topic is a topic to create.
type Topic struct {
	Name string
	// Partitions, 1 or more.
	Partitions int
	// Broker ≠ 0 reserves this broker: it alone holds all partitions of the topic (a single replica each), and neither
	// topics without a broker nor group coordinators are put on it. Partitions of the others are replicated three times,
	// as far as there are brokers, and partition p is led by the p-th of them, round and round.
	Broker int32
	// Configs are the topic's settings, such as max.message.bytes.
	Configs map[string]string
}
