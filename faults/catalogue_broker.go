package faults

// The catalogue's entries for the kind broker.

const brokerMade = " Brokers are numbered from 1."

// brokerEffects are what a broker reports that was away, if anyone had to do with it.
func brokerEffects(ended string) []string {
	return []string{"broker stopped", "broker started", ended, "partitions led by another broker",
		"partitions without a leader", "coordinators moved"}
}

func brokerEntries() []Entry {
	return []Entry{{
		Name: "broker.stop", Summary: "A broker is stopped in an orderly way and started again.",
		Does: "Its connections end. Partitions with followers get new leaders, the others have none. After for, the broker " +
			"returns with its data.",
		Made: "The broker is stopped and started again on the same data." + brokerMade,
		Shows: "A correct consumer finds the new leaders and coordinator. Bugs: commits that fail once and are never " +
			"repeated, dead letters lost with their leader, records processed again without reason.",
		Effects: brokerEffects("connections closed"), Keys: []string{"broker.broker", "broker.stop"},
		Example: "{at: 1s, for: 2s, broker: {broker: 2, stop: true}}",
	}, {
		Name: "broker.kill", Summary: "A broker is killed.",
		Does: "Its connections are reset; its leaderships move when the other brokers notice. After for, it returns " +
			"with its data.",
		Made: "The broker is ended without a shutdown and started again on the same data." + brokerMade,
		Shows: "A correct consumer repeats unanswered requests. Bugs: an acknowledgement by the leader alone (acks=1), " +
			"which is lost with it.",
		Effects: brokerEffects("connections reset"), Keys: []string{"broker.broker", "broker.kill"},
		Example: "{at: 1s, for: 2s, broker: {broker: 2, kill: true}}",
	}, {
		Name: "broker.pause", Summary: "A broker freezes.",
		Does: "Its connections stay open and nothing is answered, as in a long garbage collection. After for, it " +
			"continues where it was.",
		Made: "Traffic to and from the broker is held back; nothing is lost." + brokerMade,
		Shows: "A correct consumer waits and repeats requests after its timeouts. Bugs: timeouts longer than the " +
			"session, so that the group removes the member.",
		Effects: []string{"requests held", "answers held"}, Keys: []string{"broker.broker", "broker.pause"},
		Example: "{at: 1s, for: 2s, broker: {broker: 1, pause: true}}",
	}, {
		Name: "broker.restart", Summary: "A broker restarts.",
		Does: "Its connections end, and it returns as soon as it has started.",
		Made: "The broker is stopped and started at once on the same data. This fault is instantaneous and takes no for." +
			brokerMade,
		Shows:   "A correct consumer hardly notices. Bugs: one failed request that ends the consumer.",
		Effects: brokerEffects("connections closed"), Keys: []string{"broker.broker", "broker.restart"},
		Example: "{at: 1s, broker: {broker: 1, restart: true}}",
	}}
}

func coordinationEntries() []Entry {
	return []Entry{{
		Name: "broker.move_leaders", Summary: "Partitions get new leaders.",
		Does: "The broker keeps running but leads nothing: requests to it are answered NOT_LEADER_FOR_PARTITION until " +
			"the client refreshes its metadata. If for is set, the leaders return after it.",
		Made: "Leaderships are moved to other brokers. It needs two brokers that hold more than the DLQ topic." +
			brokerMade,
		Shows: "A correct consumer follows the leaders. Bugs: metadata that is never refreshed, a retriable error that " +
			"is treated as final.",
		Effects: []string{"partitions led by another broker"}, Keys: []string{"broker.broker", "broker.move_leaders"},
		Example: "{at: 1s, for: 2s, broker: {broker: 1, move_leaders: true}}",
	}, {
		Name: "broker.move_coordinator", Summary: "The consumer group gets a new coordinator.",
		Does: "Requests of the group to the old coordinator are answered NOT_COORDINATOR; members, generations and " +
			"committed offsets are unchanged. This fault is instantaneous and takes no for.",
		Made: "Another broker becomes the group's coordinator. It needs two brokers that hold more than the DLQ topic.",
		Shows: "A correct consumer finds the coordinator, commits there and continues without a rebalance. Bugs: a " +
			"commit that failed once and is not repeated, offsets that go back.",
		Effects: []string{"coordinator moved from broker 1 to broker 2"}, Keys: []string{"broker.move_coordinator"},
		Example: "{at: 1s, broker: {move_coordinator: true}}",
	}}
}
