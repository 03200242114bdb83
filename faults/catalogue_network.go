package faults

// The catalogue's entries for the kind network.

const (
	networkMade = "toxiproxy's toxics, in this process, act on the subject's connections; the workload's own " +
		"connections are not affected. The link is \"broker N\", brokers (all of them), dlq (the broker that holds the DLQ " +
		"topic alone; needs topics.dlq.broker) or downstream (the stub). toxicity limits the fault to that share of the " +
		"connections, drawn from the seed."
	directionMade = " direction limits it to requests (what the subject sends) or responses."
)

func networkKeys(own ...string) []string {
	return append([]string{"network.link", "network.toxicity"}, own...)
}

func slowEntries() []Entry {
	return []Entry{{
		Name: "network.latency", Summary: "A link is slow.", Made: networkMade + directionMade,
		Does: "Every chunk of data is delayed, by latency plus up to jitter. If both directions are affected, a request " +
			"and its response are delayed once each.",
		Shows: "A correct consumer only slows down. Bugs: a timeout shorter than the delay that counts as a failure of the " +
			"record, commits that overtake the dead letter they should follow.",
		Effects: []string{"bytes delayed"}, Keys: networkKeys("network.latency", "network.jitter", "network.direction"),
		Example: "{at: 1s, for: 2s, network: {link: downstream, latency: 200ms, jitter: 50ms}}",
	}, {
		Name: "network.bandwidth", Summary: "A link has little bandwidth.", Made: networkMade + directionMade,
		Does: "The link carries at most that many bytes per second; further data waits.",
		Shows: "A correct consumer falls behind and catches up. Bugs: memory that grows without a bound, poll loops that " +
			"miss their deadline and lose the partition again and again.",
		Effects: []string{"bytes throttled"}, Keys: networkKeys("network.bandwidth", "network.direction"),
		Example: `{at: 1s, for: 2s, network: {link: broker 1, bandwidth: 64KiB}}`,
	}, {
		Name: "network.slicer", Summary: "A link delivers data in small pieces.", Made: networkMade + directionMade,
		Does: "Data is forwarded in pieces of size bytes, delay apart. Messages arrive in many reads, and slowly if " +
			"there is a delay.",
		Shows: "A correct consumer notices nothing. Bugs: clients of the downstream that take a short read for a " +
			"complete response.",
		Effects: []string{"bytes sliced"}, Keys: networkKeys("network.slicer", "network.direction"),
		Example: "{at: 1s, for: 2s, network: {link: downstream, slicer: {size: 16B, delay: 1ms}}}",
	}, {
		Name: "network.timeout", Summary: "A link goes silent.", Made: networkMade + directionMade,
		Does: "Data is discarded while connections stay open. The subject sees no error, only its own timeouts.",
		Shows: "A correct consumer waits as long as it says, retries, and commits nothing that it does not know to be " +
			"done. Bugs: calls without a timeout, silence taken for a yes, a dead letter given up and committed past.",
		Effects: []string{"bytes swallowed", "connections cut"}, Keys: networkKeys("network.timeout", "network.direction"),
		Example: "{at: 1s, for: 2s, network: {link: brokers, timeout: true}}",
	}}
}

func brokenEntries() []Entry {
	return []Entry{{
		Name: "network.slow_close", Summary: "A closed connection looks open for a while.", Made: networkMade,
		Does: "When one side closes a connection, the other side learns of it only after this delay.",
		Shows: "A correct consumer relies on its own timeouts. Bugs: pools that hand out dead connections again and " +
			"again, a shutdown that waits for its connections to close.",
		Effects: []string{"closes delayed"}, Keys: networkKeys("network.slow_close"),
		Example: "{at: 1s, for: 2s, network: {link: downstream, slow_close: 500ms}}",
	}, {
		Name: "network.limit_data", Summary: "Connections break in the middle of a message.",
		Made: networkMade + directionMade,
		Does: "Each connection is closed once it has carried that many bytes in a direction.",
		Shows: "A correct consumer repeats unanswered requests. Bugs: a partial response that is taken for a complete " +
			"one, a dead letter that was cut off and is never written again.",
		Effects: []string{"connections cut"}, Keys: networkKeys("network.limit_data", "network.direction"),
		Example: "{at: 1s, for: 2s, network: {link: dlq, limit_data: 64KiB}}",
	}, {
		Name: "network.half_open", Summary: "The far side of a connection disappears without closing it.", Made: networkMade,
		Does: "Existing connections lead nowhere: data that the subject sends is discarded, nothing comes back, and they " +
			"stay open. New connections work. This happens when a machine loses power, or when a firewall drops a connection " +
			"from its table.",
		Shows: "A correct consumer closes such a connection after its request timeout and continues on a new one. Bugs: " +
			"requests without a timeout that wait for ever.",
		Effects: []string{"connections half-opened", "bytes swallowed", "connections cut"},
		Keys:    networkKeys("network.half_open"), Example: "{at: 1s, for: 2s, network: {link: broker 1, half_open: true}}",
	}, {
		Name: "network.down", Summary: "A link is down.", Made: networkMade,
		Does: "Existing connections are closed, new ones are refused.",
		Shows: "A correct consumer holds its offsets back and continues when the link is up again. Bugs: crashes, " +
			"reconnects without a pause, dead letters that are logged and forgotten.",
		Effects: []string{"connections cut", "connections refused"}, Keys: networkKeys("network.down"),
		Example: `{at: 1s, for: 2s, network: {link: broker 1, down: true}}`,
	}, {
		Name: "network.reset", Summary: "A link resets its connections.", Made: networkMade,
		Does: "Existing connections are reset (a true RST), new ones are reset when they send.",
		Shows: "A correct consumer treats it as a retriable failure. Bugs: a reset taken for a permanent failure of the " +
			"record, which is then dead-lettered without a retry.",
		Effects: []string{"connections cut"}, Keys: networkKeys("network.reset"),
		Example: "{at: 1s, for: 2s, network: {link: downstream, reset: true}}",
	}}
}
