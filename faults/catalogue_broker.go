package faults

// The catalogue's entries for the kind broker.

const brokerMade = " Brokers are numbered from 1."

// brokerEffects are what a broker reports that was away, if anyone had to do with it.
func brokerEffects(ended string) []string {
	return []string{"broker stopped", "broker started", ended, "partitions led by another broker", "partitions without a leader", "coordinators moved"}
}

func brokerEntries() []Entry {
	return []Entry{{
		Name: "broker.stop", Summary: "A broker is gone for a while, in order.",
		Does: "Its connections end; others take over what has followers, the rest of its partitions have no leader. After for it comes back with its data.",
		Made: "The broker is stopped and started again on the same data." + brokerMade,
		Shows: "A correct consumer finds the new leaders and coordinator. Bugs: commits that fail once and are never repeated, dead letters lost with their leader, records processed " +
			"again without need.",
		Effects: brokerEffects("connections closed"), Keys: []string{"broker.broker", "broker.stop"},
		Example: "{at: 1s, for: 2s, broker: {broker: 2, stop: true}}",
	}, {
		Name: "broker.kill", Summary: "A broker is gone at once.",
		Does:    "Its connections are reset; what it leads moves when the others notice. After for it comes back with its data.",
		Made:    "The broker ends without a goodbye and is started again on the same data." + brokerMade,
		Shows:   "A correct consumer repeats what went unanswered. Bugs: an acknowledgement that was asked of the leader alone (acks=1) and is lost with it.",
		Effects: brokerEffects("connections reset"), Keys: []string{"broker.broker", "broker.kill"},
		Example: "{at: 1s, for: 2s, broker: {broker: 2, kill: true}}",
	}, {
		Name: "broker.pause", Summary: "A broker stands still.",
		Does:    "Its connections stay open and nothing is answered, as in a long garbage collection. After for it goes on where it was.",
		Made:    "Nothing passes between the broker and anyone, and nothing is lost." + brokerMade,
		Shows:   "A correct consumer waits and repeats after its time-outs. Bugs: time-outs that are longer than the session, so that the group throws the member out.",
		Effects: []string{"requests held", "answers held"}, Keys: []string{"broker.broker", "broker.pause"},
		Example: "{at: 1s, for: 2s, broker: {broker: 1, pause: true}}",
	}, {
		Name: "broker.restart", Summary: "A broker restarts.",
		Does:    "Its connections end, and it is back as soon as it can be.",
		Made:    "The broker is stopped and started at once on the same data. It is an instant: it has no for." + brokerMade,
		Shows:   "A correct consumer hardly notices. Bugs: one failed request that ends the consumer.",
		Effects: brokerEffects("connections closed"), Keys: []string{"broker.broker", "broker.restart"},
		Example: "{at: 1s, broker: {broker: 1, restart: true}}",
	}}
}

func coordinationEntries() []Entry {
	return []Entry{{
		Name: "broker.move_leaders", Summary: "Partitions get other leaders.",
		Does:    "The broker stays, but leads nothing any more: requests to it are answered NOT_LEADER_FOR_PARTITION until the client has asked anew. After for the leaders come back, if for is set.",
		Made:    "Leaderships are moved to other brokers; it needs two that hold more than the DLQ topic." + brokerMade,
		Shows:   "A correct consumer follows. Bugs: metadata that is never asked for again, a retriable error that is taken for a final one.",
		Effects: []string{"partitions led by another broker"}, Keys: []string{"broker.broker", "broker.move_leaders"},
		Example: "{at: 1s, for: 2s, broker: {broker: 1, move_leaders: true}}",
	}, {
		Name: "broker.move_coordinator", Summary: "The consumer group gets another coordinator.",
		Does:    "Requests of the group to the old coordinator are answered NOT_COORDINATOR; members, generations and committed offsets stay as they are. It is an instant: it has no for.",
		Made:    "The group's coordination is moved to another broker; it needs two that hold more than the DLQ topic.",
		Shows:   "A correct consumer looks for the coordinator, commits there and goes on without a rebalance. Bugs: a commit that failed once and is not repeated, offsets that go back.",
		Effects: []string{"coordinator moved from broker 1 to broker 2"}, Keys: []string{"broker.move_coordinator"},
		Example: "{at: 1s, broker: {move_coordinator: true}}",
	}}
}
