package faults

// The catalogue: every fault that can be written, explained for the person who wants to use it.

import "strings"

// Entry explains one fault.
type Entry struct {
	// Name is the kind and the key that makes it: "network.latency".
	Name string
	// Summary says in one sentence what breaks.
	Summary string
	// Does is what the subject gets to see; Made is how it is done.
	Does, Made string
	// Effects are the counts it reports, as they stand in the verdict.
	Effects []string
	// Keys are the keys of the scenario that belong to it besides at, for and name.
	Keys []string
	// Example is an entry of a scenario's list of faults, in YAML.
	Example string
}

// Lookup returns the entries with the name, or of the kind ("network"), or with that key ("latency"); none if there are none.
func Lookup(name string) []Entry {
	var found []Entry
	for _, entry := range Catalogue() {
		kind, key, _ := strings.Cut(entry.Name, ".")
		if name == entry.Name || name == kind || name == key {
			found = append(found, entry)
		}
	}
	return found
}

// Catalogue returns all faults, by kind.
func Catalogue() []Entry {
	var all []Entry
	for _, entries := range [][]Entry{networkEntries(), kafkaEntries(), brokerEntries(), subjectEntries(), downstreamEntries()} {
		all = append(all, entries...)
	}
	return all
}

const linkHelp = ` The link is "broker N", brokers (all of them), dlq (the broker that holds the DLQ topic alone; needs topics.dlq.broker) or downstream (the oracle).`

func networkEntries() []Entry {
	made := "toxiproxy, in this process, on the subject's connections; the workload's own connections are not touched." + linkHelp
	return []Entry{{
		Name: "network.latency", Summary: "A link is slow.", Made: made,
		Does:    "Every chunk of data is delayed both ways, by latency plus up to jitter. A request and its answer take two delays.",
		Effects: []string{"bytes delayed"}, Keys: []string{"network.link", "network.latency", "network.jitter"},
		Example: "{at: 1s, for: 2s, network: {link: downstream, latency: 200ms, jitter: 50ms}}",
	}, {
		Name: "network.bandwidth", Summary: "A link is narrow.", Made: made,
		Does:    "The link carries that many bytes per second; what is more waits.",
		Effects: []string{"bytes throttled"}, Keys: []string{"network.link", "network.bandwidth"},
		Example: `{at: 1s, for: 2s, network: {link: broker 1, bandwidth: 64KiB}}`,
	}, {
		Name: "network.timeout", Summary: "A link goes silent.", Made: made,
		Does:    "Data is swallowed both ways while connections stay open: the subject sees no error, only its own time-outs.",
		Effects: []string{"bytes swallowed"}, Keys: []string{"network.link", "network.timeout"},
		Example: "{at: 1s, for: 2s, network: {link: brokers, timeout: true}}",
	}, {
		Name: "network.down", Summary: "A link is down.", Made: made,
		Does:    "Existing connections are closed, new ones are refused.",
		Effects: []string{"connections cut", "connections refused"}, Keys: []string{"network.link", "network.down"},
		Example: `{at: 1s, for: 2s, network: {link: broker 1, down: true}}`,
	}, {
		Name: "network.reset", Summary: "A link resets its connections.", Made: made,
		Does:    "Existing connections are reset (a true RST), new ones are reset when they send.",
		Effects: []string{"connections cut"}, Keys: []string{"network.link", "network.reset"},
		Example: "{at: 1s, for: 2s, network: {link: downstream, reset: true}}",
	}}
}

func kafkaEntries() []Entry {
	made := "The tap, the protocol-aware proxy between the subject and Kafka, acts on the requests that match api (Produce or OffsetCommit), " +
		"topic (input, dlq or a retry topic), instance and, drawn from the seed, probability."
	keys := func(own string) []string {
		return []string{"kafka.api", "kafka.topic", "kafka.instance", "kafka.probability", own}
	}
	return []Entry{{
		Name: "kafka.error", Summary: "The broker refuses a request.", Made: made,
		Does:    "The request is answered with a Kafka error in the broker's place; the broker never sees it, so nothing was written or committed.",
		Effects: []string{"requests answered NOT_ENOUGH_REPLICAS (or whichever error it is)"}, Keys: keys("kafka.error"),
		Example: "{at: 1s, for: 2s, kafka: {api: Produce, topic: dlq, error: NOT_ENOUGH_REPLICAS}}",
	}, {
		Name: "kafka.delay_response", Summary: "The broker answers late.", Made: made,
		Does: "The broker carries the request out at once, its answer is held back: a subject that does not wait for the answer shows itself. " +
			"Answers on one connection stay in order, so what is queued behind waits too.",
		Effects: []string{"responses delayed"}, Keys: keys("kafka.delay_response"),
		Example: "{at: 1s, for: 2s, kafka: {api: Produce, topic: dlq, delay_response: 300ms}}",
	}, {
		Name: "kafka.drop_response", Summary: "An acknowledgement is lost.", Made: made,
		Does:    "The broker carries the request out, the answer never reaches the subject: a dead letter is written, or an offset committed, that the subject does not know of.",
		Effects: []string{"responses dropped", "connections closed"}, Keys: keys("kafka.drop_response"),
		Example: "{at: 1s, for: 2s, kafka: {api: OffsetCommit, instance: 0, probability: 50%, drop_response: true}}",
	}}
}

func brokerEntries() []Entry {
	return []Entry{{
		Name: "broker.stop", Summary: "A broker is gone for a while.",
		Does:    "Its connections end; its partitions have no leader and its groups no coordinator, or others take over. After for it comes back with its data.",
		Made:    "The broker is stopped and started again on the same data. Brokers are numbered from 1.",
		Effects: []string{"broker stopped", "broker started"}, Keys: []string{"broker.broker", "broker.stop"},
		Example: "{at: 1s, for: 2s, broker: {broker: 2, stop: true}}",
	}, {
		Name: "broker.restart", Summary: "A broker restarts.",
		Does:    "Its connections end, and it is back as soon as it can be.",
		Made:    "The broker is stopped and started at once on the same data. It is an instant: it has no for.",
		Effects: []string{"broker stopped", "broker started"}, Keys: []string{"broker.broker", "broker.restart"},
		Example: "{at: 1s, broker: {broker: 1, restart: true}}",
	}}
}

func subjectEntries() []Entry {
	return []Entry{{
		Name: "subject.signal", Summary: "An instance of the subject is ended or frozen.",
		Does: "TERM asks it to end, KILL ends it at once, STOP freezes it until for has passed. An ended instance is started again after restart_after, " +
			"or when for has passed. With all: true every instance gets it in turn, every so long.",
		Made:    "A signal to the process. Instances are numbered from 0.",
		Effects: []string{"process ended", "process started and ready", "process paused", "process continued"},
		Keys:    []string{"subject.instance", "subject.all", "subject.every", "subject.signal", "subject.restart_after"},
		Example: "{at: 1s, subject: {instance: 1, signal: KILL, restart_after: 1s}}",
	}, {
		Name: "subject.restart", Summary: "Instances are restarted in an orderly way.",
		Does:    "TERM, then KILL if it has not ended within the grace that its contract promises, then a new process. With all: true it is a rolling restart, one every so long.",
		Made:    "A signal to the process and a new process. It is an instant: it has no for.",
		Effects: []string{"process ended", "process started and ready"},
		Keys:    []string{"subject.instance", "subject.all", "subject.every", "subject.restart"},
		Example: "{at: 1s, subject: {all: true, every: 1500ms, restart: true}}",
	}}
}

func downstreamEntries() []Entry {
	return []Entry{{
		Name: "downstream.outage", Summary: "What the subject calls is out of order.",
		Does:    "Every attempt is answered 503, whatever the plan says of the record.",
		Made:    "The oracle answers differently while the fault is in force; its connections are not touched.",
		Effects: []string{"attempts answered 503"}, Keys: []string{"downstream.outage"},
		Example: "{at: 1s, for: 2s, downstream: {outage: true}}",
	}}
}
