package faults

// The catalogue's entries for the kind kafka.

const kafkaMade = "The tap, the protocol-aware proxy between the subject and Kafka, acts on the requests that match all of: api, topic (input, retry, dlq or a name) and partition, group " +
	"(subject is its own), client_id, instance, version, nth or every_nth (counted from the start of the fault) and, drawn from the seed, probability."

func kafkaKeys(own string) []string {
	return []string{
		"kafka.api", "kafka.topic", "kafka.partition", "kafka.group", "kafka.client_id", "kafka.instance", "kafka.version", "kafka.nth", "kafka.every_nth",
		"kafka.probability", own,
	}
}

func refusalEntries() []Entry {
	return []Entry{{
		Name: "kafka.error", Summary: "The broker refuses a request.", Made: kafkaMade + " Errors that would be lies are refused: a client that is told DUPLICATE_SEQUENCE_NUMBER believes that its record is written.",
		Does: "The request is answered with a Kafka error in the broker's place, for the partitions that match where the request has partitions; the broker never sees that part, so nothing " +
			"of it was written or committed.",
		Shows: "A correct consumer tries again where the error says that it may, otherwise holds the offset back and says so. Bugs: the error of one partition taken for the success of all, a " +
			"refused dead letter that is committed past, a refused commit that ends the work.",
		Effects: []string{"requests answered NOT_ENOUGH_REPLICAS (or whichever error it is)"}, Keys: kafkaKeys("kafka.error"),
		Example: "{at: 1s, for: 2s, kafka: {api: Produce, topic: dlq, error: NOT_ENOUGH_REPLICAS}}",
	}, {
		Name: "kafka.delay_request", Summary: "A request reaches the broker late.", Made: kafkaMade,
		Does:    "The request is held back before the broker sees it; what is queued behind it on the same connection waits too.",
		Shows:   "A correct consumer waits. Bugs: a commit on another connection that overtakes the dead letter, heartbeats that come too late because they share a connection with slow requests.",
		Effects: []string{"requests delayed"}, Keys: kafkaKeys("kafka.delay_request"),
		Example: "{at: 1s, for: 2s, kafka: {api: OffsetCommit, delay_request: 300ms}}",
	}, {
		Name: "kafka.delay_response", Summary: "The broker answers late.", Made: kafkaMade,
		Does: "The broker carries the request out at once, its answer is held back: a subject that does not wait for the answer shows itself. " +
			"Answers on one connection stay in order, so what is queued behind waits too.",
		Shows:   "A correct consumer commits after the answer only. Bugs: commits that do not wait for the dead letter's acknowledgement (fire and forget, a future nobody looks at).",
		Effects: []string{"responses delayed"}, Keys: kafkaKeys("kafka.delay_response"),
		Example: "{at: 1s, for: 2s, kafka: {api: Produce, topic: dlq, delay_response: 300ms}}",
	}, {
		Name: "kafka.throttle", Summary: "The broker enforces a quota.", Made: kafkaMade,
		Does:    "The answer's throttle_time_ms says that the client must keep still for so long (KIP-219).",
		Shows:   "A correct consumer is slower. Bugs: polls or heartbeats that stop with the throttled connection, and cost the partition.",
		Effects: []string{"responses throttled"}, Keys: kafkaKeys("kafka.throttle"),
		Example: "{at: 1s, for: 2s, kafka: {api: Fetch, throttle: 200ms}}",
	}}
}

func lossEntries() []Entry {
	return []Entry{{
		Name: "kafka.drop_request", Summary: "A request is lost.", Made: kafkaMade,
		Does:    "Neither does the broker see the request nor the subject an answer; the connection is closed when the fault is over.",
		Shows:   "A correct consumer asks again after its time-out. Bugs: a dead letter that was sent once and counts as written, a rebalance that never ends.",
		Effects: []string{"requests dropped", "connections closed"}, Keys: kafkaKeys("kafka.drop_request"),
		Example: "{at: 1s, for: 2s, kafka: {api: Produce, topic: dlq, nth: 1, drop_request: true}}",
	}, {
		Name: "kafka.drop_response", Summary: "An acknowledgement is lost.", Made: kafkaMade,
		Does:    "The broker carries the request out, the answer never reaches the subject: a dead letter is written, or an offset committed, that the subject does not know of.",
		Shows:   "A correct consumer writes the dead letter again, or commits again; a second copy is justified. Bugs: silence taken for a yes, silence that stops the work for good.",
		Effects: []string{"responses dropped", "connections closed"}, Keys: kafkaKeys("kafka.drop_response"),
		Example: "{at: 1s, for: 2s, kafka: {api: OffsetCommit, instance: 0, probability: 50%, drop_response: true}}",
	}, {
		Name: "kafka.close", Summary: "The broker hangs up.", Made: kafkaMade,
		Does:    "The subject's connection is closed in place of passing the request on. Other requests that were under way on it go unanswered.",
		Shows:   "A correct consumer connects anew and repeats. Bugs: a request that is repeated without end or never, a consumer that ends with its connection.",
		Effects: []string{"connections closed"}, Keys: kafkaKeys("kafka.close"),
		Example: "{at: 1s, for: 2s, kafka: {api: Fetch, every_nth: 5, close: true}}",
	}}
}
