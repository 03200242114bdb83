package faults

// The catalogue's entries for the kind kafka.

const kafkaMade = "The tap, the protocol-aware proxy between the subject and Kafka, acts on the requests that match " +
	"all of: api, topic (input, retry, dlq or a name) and partition, group (subject is its own), client_id, instance, " +
	"version, nth or every_nth (counted from the start of the fault) and, drawn from the seed, probability."

func kafkaKeys(own string) []string {
	return []string{
		"kafka.api", "kafka.topic", "kafka.partition", "kafka.group", "kafka.client_id", "kafka.instance", "kafka.version",
		"kafka.nth", "kafka.every_nth", "kafka.probability", own,
	}
}

func refusalEntries() []Entry {
	return []Entry{{
		Name: "kafka.error", Summary: "The broker refuses a request.", Made: kafkaMade + " Errors that would be untrue are " +
			"refused: a client that gets DUPLICATE_SEQUENCE_NUMBER believes that its record is written.",
		Does: "The tap answers the request with a Kafka error, only for matching partitions if the request has partitions. " +
			"The broker never sees that part, so nothing of it is written or committed.",
		Shows: "A correct consumer retries if the error is retriable; otherwise it holds the offset back and reports the " +
			"error. Bugs: an error of one partition taken for the success of all, a commit past a refused dead letter, a " +
			"refused commit that ends all work.",
		Effects: []string{"requests answered NOT_ENOUGH_REPLICAS (or whichever error it is)"}, Keys: kafkaKeys("kafka.error"),
		Example: "{at: 1s, for: 2s, kafka: {api: Produce, topic: dlq, error: NOT_ENOUGH_REPLICAS}}",
	}, {
		Name: "kafka.delay_request", Summary: "A request reaches the broker late.", Made: kafkaMade,
		Does: "The request is held back before the broker sees it. Requests queued behind it on the same connection " +
			"wait too.",
		Shows: "A correct consumer waits. Bugs: a commit on another connection that overtakes the dead letter, " +
			"heartbeats that are late because they share a connection with slow requests.",
		Effects: []string{"requests delayed"}, Keys: kafkaKeys("kafka.delay_request"),
		Example: "{at: 1s, for: 2s, kafka: {api: OffsetCommit, delay_request: 300ms}}",
	}, {
		Name: "kafka.delay_response", Summary: "The broker answers late.", Made: kafkaMade,
		Does: "The broker executes the request at once and its response is held back, which exposes a subject that does " +
			"not wait for it. Responses on one connection stay in order, so later ones wait too.",
		Shows: "A correct consumer commits only after the response. Bugs: commits that do not wait for the dead letter's " +
			"acknowledgement (fire and forget, an ignored future).",
		Effects: []string{"responses delayed"}, Keys: kafkaKeys("kafka.delay_response"),
		Example: "{at: 1s, for: 2s, kafka: {api: Produce, topic: dlq, delay_response: 300ms}}",
	}, {
		Name: "kafka.throttle", Summary: "The broker enforces a quota.", Made: kafkaMade,
		Does: "The response's throttle_time_ms tells the client how long to send nothing (KIP-219).",
		Shows: "A correct consumer only slows down. Bugs: polls or heartbeats that stop with the throttled connection, " +
			"so that the partition is lost.",
		Effects: []string{"responses throttled"}, Keys: kafkaKeys("kafka.throttle"),
		Example: "{at: 1s, for: 2s, kafka: {api: Fetch, throttle: 200ms}}",
	}}
}

func lossEntries() []Entry {
	return []Entry{{
		Name: "kafka.drop_request", Summary: "A request is lost.", Made: kafkaMade,
		Does: "The broker does not see the request and the subject gets no response. The connection is closed when the " +
			"fault is over.",
		Shows: "A correct consumer repeats the request after its timeout. Bugs: a dead letter that was sent once and " +
			"counts as written, a rebalance that never ends.",
		Effects: []string{"requests dropped", "connections closed"}, Keys: kafkaKeys("kafka.drop_request"),
		Example: "{at: 1s, for: 2s, kafka: {api: Produce, topic: dlq, nth: 1, drop_request: true}}",
	}, {
		Name: "kafka.drop_response", Summary: "An acknowledgement is lost.", Made: kafkaMade,
		Does: "The broker executes the request, but the response never reaches the subject: a dead letter is written, " +
			"or an offset committed, without the subject's knowledge.",
		Shows: "A correct consumer writes the dead letter again, or commits again; a second copy is justified. Bugs: " +
			"silence taken for success, silence that stops all work for good.",
		Effects: []string{"responses dropped", "connections closed"}, Keys: kafkaKeys("kafka.drop_response"),
		Example: "{at: 1s, for: 2s, kafka: {api: OffsetCommit, instance: 0, probability: 50%, drop_response: true}}",
	}, {
		Name: "kafka.close", Summary: "The broker closes the connection.", Made: kafkaMade,
		Does: "The subject's connection is closed instead of passing the request on. Other requests in flight on it " +
			"stay unanswered.",
		Shows: "A correct consumer reconnects and repeats the request. Bugs: a request that is repeated without end or " +
			"never, a consumer that ends with its connection.",
		Effects: []string{"connections closed"}, Keys: kafkaKeys("kafka.close"),
		Example: "{at: 1s, for: 2s, kafka: {api: Fetch, every_nth: 5, close: true}}",
	}}
}
