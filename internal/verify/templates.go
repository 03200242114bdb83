package verify

import (
	"fmt"
	"slices"
	"strings"
)

// template writes one fault of the catalogue into a situation.
type template struct {
	// name is the fault's name in the catalogue.
	name string
	// possible reports whether the fault can have an effect in the situation. nil means always.
	possible func(*drawing) bool
	write    func(*drawing) string
	// also is a second fault without which this one would have no effect. It is "" for most.
	also string
}

// excludes reports whether one of two faults may leave the other without effect, so that a run with both would prove
// nothing about it.
func (d *drawing) excludes(a, b template) bool {
	if d.mode.store != nil || d.mode.graph != nil {
		return d.hidesBeside(a, b) || d.hidesBeside(b, a)
	}
	return d.hides(a, b) || d.hides(b, a)
}

// kind is the fault's kind, including the dot.
func (t template) kind() string { return strings.SplitAfter(t.name, ".")[0] }

func (d *drawing) hides(one, other template) bool {
	kind := template.kind
	api := func(of template) string { return strings.Fields(of.name + " -")[1] }
	if d.mode.batches() && (d.mode.instances == 1 || kind(one) == "network." || kind(one) == "downstream." ||
		kind(one) == "broker." || api(one) == "Produce") {
		return true
	}
	switch kind(one) {
	case "network.":
		// A fault that stops a connection leaves no traffic to slow down. Without records, the downstream stub has
		// nothing to answer. Connections that another fault ends are not closed slowly.
		stops := slices.Contains([]string{"network.down", "network.reset", "network.timeout", "network.half_open"}, one.name)
		// Without records, there is also no dead letter and no backoff for a signal to follow.
		aimed := strings.HasSuffix(other.name, "first-dead-letter") || strings.HasSuffix(other.name, "backoff")
		return one.name == "network.slow_close" || kind(other) == "downstream." ||
			stops && (kind(other) == "network." || aimed)
	case "kafka.":
		// A forged UNKNOWN_MEMBER_ID makes the only member rejoin while the broker keeps the partitions for the old
		// one, so that no member fetches.
		if d.mode.instances == 1 && strings.HasPrefix(one.name, "kafka.error") &&
			strings.HasSuffix(one.name, "eartbeat") && kind(other) != "broker." {
			return true
		}
		return kind(other) == "kafka." && api(one) == api(other) ||
			kind(other) == "downstream." && strings.HasSuffix(one.name, "eartbeat")
	case "subject.":
		// While the only instance is away, nothing happens.
		return kind(other) == "subject." || d.mode.instances == 1 && kind(other) != "broker."
	}
	return kind(one) == kind(other)
}

// hidesBeside is the same for situations with a store or a graph. Faults of the processes and links of one component do
// not keep another from its work for long, so it suffices to exclude pairs that hit the same place twice, or that stop
// what the other fault waits for.
func (d *drawing) hidesBeside(one, other template) bool {
	place := func(of template) string { return of.name[strings.LastIndexAny(of.name, " .")+1:] }
	switch {
	case one.kind() == other.kind():
		return one.kind() != "subject." || place(one) == place(other) || place(one) == "all" || place(other) == "all"
	case one.kind() == "network.":
		if place(one) == "store" {
			return other.kind() == "store."
		}
		return other.kind() == "downstream." || other.kind() == "kafka."
	}
	if one.name == "subject.signal STOP engine" && d.mode.instances == 1 {
		return other.kind() != "broker."
	}
	return one.name == "subject.signal STOP worker" && other.kind() == "store."
}

// possible returns the templates that the situation allows. In a situation with a store or a graph, these are the ones
// about it.
func (d *drawing) possible() []template {
	switch {
	case d.mode.store != nil:
		return d.allowed(storeTemplates())
	case d.mode.graph != nil:
		return d.allowed(graphTemplates())
	}
	return d.allowed(networkTemplates(), kafkaTemplates(), brokerTemplates(), subjectTemplates(), downstreamTemplates())
}

// beside returns the templates that occur only as the second of a pair.
func (d *drawing) beside() []template {
	switch {
	case d.mode.store != nil:
		return d.allowed(kafkaTemplates(), brokerTemplates(), subjectTemplates(), d.downstreamBeside())
	case d.mode.graph != nil:
		return d.allowed(brokerTemplates())
	case d.mode.stranger():
		return []template{metadataError(nil)}
	}
	return nil
}

func (d *drawing) allowed(lists ...[]template) []template {
	var allowed []template
	for _, list := range lists {
		for _, one := range list {
			if one.possible == nil || one.possible(d) {
				allowed = append(allowed, one)
			}
		}
	}
	return allowed
}

func networkTemplates() []template {
	link := func(d *drawing) string {
		links := []string{"brokers", "downstream", "broker 1"}
		if d.dlqBroker > 0 {
			links = append(links, "dlq")
		}
		return d.pick(links...)
	}
	network := func(name string, what func(d *drawing, link string) string) template {
		return template{name: "network." + name, write: func(d *drawing) string {
			span, on := d.span(), link(d)
			return fmt.Sprintf("%s, network: {link: %s, %s}", span, on, what(d, on))
		}}
	}
	fixed := func(text string) func(*drawing, string) string { return func(*drawing, string) string { return text } }
	directed := func(text string) func(*drawing, string) string {
		return func(d *drawing, _ string) string { return text + direction(d) }
	}
	return []template{
		network("latency", directed("latency: 40ms, jitter: 30ms")),
		network("bandwidth", directed("bandwidth: 128KiB")),
		network("timeout", directed("timeout: true")),
		network("slicer", directed("slicer: {size: 100B, delay: 100us}")),
		network("limit_data", func(d *drawing, on string) string { return limitData(on) + direction(d) }),
		network("half_open", fixed("half_open: true")),
		network("down", fixed("down: true")),
		network("reset", fixed("reset: true")),
		{
			name:  "network.slow_close",
			write: func(*drawing) string { return "at: 300ms, for: 2500ms, network: {link: brokers, slow_close: 200ms}" },
			also:  "at: 700ms, subject: {instance: 0, restart: true}",
		},
	}
}

func direction(d *drawing) string { return ", direction: " + d.pick("both", "requests", "responses") }

// limitData is a limit that connections of the link reach, also where each call of a downstream has one of its own.
func limitData(link string) string {
	if strings.HasPrefix(link, "downstream") {
		return "limit_data: 256B"
	}
	return "limit_data: 1KiB"
}

func kafkaTemplates() []template {
	classic := func(d *drawing) bool { return d.mode.protocol == "classic" }
	next := func(d *drawing) bool { return d.mode.protocol == "consumer" }
	shares := func(d *drawing) bool { return d.mode.shares() }
	fetches := func(d *drawing) bool { return !d.mode.shares() }
	commits := func(d *drawing) bool { return !d.mode.batches() }
	transactional := func(d *drawing) bool { return d.mode.transactions }
	rule := func(name, api, rest string, possible func(*drawing) bool) template {
		return template{name: "kafka." + name + " " + api, possible: possible, write: func(d *drawing) string {
			return fmt.Sprintf("%s, kafka: {api: %s, %s}", d.span(), api, rest)
		}}
	}
	return []template{
		rule("error", "Produce", "topic: dlq, error: NOT_ENOUGH_REPLICAS", nil),
		rule("error", "Fetch", "every_nth: 2, error: NOT_LEADER_FOR_PARTITION", fetches),
		rule("error", "OffsetCommit", "error: COORDINATOR_NOT_AVAILABLE", commits),
		metadataError(func(d *drawing) bool { return !d.mode.stranger() }),
		rule("error", "Heartbeat", "nth: 1, error: UNKNOWN_MEMBER_ID", classic),
		rule("error", "ConsumerGroupHeartbeat", "nth: 1, error: UNKNOWN_MEMBER_ID", next),
		rule("delay_request", "OffsetCommit", "delay_request: 150ms", commits),
		rule("delay_response", "Produce", "topic: dlq, delay_response: 250ms", nil),
		rule("delay_response", "Heartbeat", "delay_response: 200ms", classic),
		rule("drop_request", "OffsetCommit", "probability: 50%, drop_request: true", commits),
		rule("drop_response", "Produce", "topic: dlq, probability: 50%, drop_response: true", nil),
		rule("drop_response", "OffsetCommit", "probability: 50%, drop_response: true", commits),
		rule("close", "Fetch", "every_nth: 3, close: true", fetches),
		rule("close", "OffsetCommit", "every_nth: 2, close: true", commits),
		rule("throttle", "Fetch", "throttle: 100ms", fetches),
		rule("leader_loss", "Produce", "topic: dlq, probability: 50%, leader_loss: true", nil),
		rule("error", "TxnOffsetCommit", "error: COORDINATOR_LOAD_IN_PROGRESS", transactional),
		rule("error", "EndTxn", "every_nth: 2, error: CONCURRENT_TRANSACTIONS", transactional),
		rule("drop_response", "EndTxn", "probability: 30%, drop_response: true", transactional),
		rule("drop_response", "TxnOffsetCommit", "probability: 30%, drop_response: true", transactional),
		rule("error", "ShareFetch", "every_nth: 3, error: SHARE_SESSION_NOT_FOUND", shares),
		rule("error", "ShareGroupHeartbeat", "nth: 1, error: UNKNOWN_MEMBER_ID", shares),
		rule("delay_response", "ShareFetch", "delay_response: 200ms", shares),
		rule("drop_response", "ShareFetch", "probability: 30%, drop_response: true", shares),
		rule("close", "ShareFetch", "every_nth: 3, close: true", shares),
	}
}

// metadataError is an error that hits the reference consumer, which refreshes metadata every two seconds, at any time.
// Others do so every few minutes, unless another fault makes them.
func metadataError(possible func(*drawing) bool) template {
	return template{name: "kafka.error Metadata", possible: possible, write: func(*drawing) string {
		return "at: 500ms, for: 2500ms, kafka: {api: Metadata, error: LEADER_NOT_AVAILABLE}"
	}}
}

func brokerTemplates() []template {
	several := func(d *drawing) bool { return d.brokers > 1 }
	broker := func(name string, possible func(*drawing) bool) template {
		return template{name: "broker." + name, possible: possible, write: func(d *drawing) string {
			return fmt.Sprintf("%s, broker: {broker: %d, %s: true}", d.span(), 1+d.random.IntN(d.brokers), name)
		}}
	}
	return []template{
		broker("stop", several), broker("kill", several), broker("pause", nil),
		{name: "broker.restart", write: func(d *drawing) string {
			return fmt.Sprintf("%s, broker: {broker: %d, restart: true}", d.at(), 1+d.random.IntN(d.brokers))
		}},
		{name: "broker.move_leaders", possible: several, write: func(d *drawing) string {
			return fmt.Sprintf("%s, broker: {broker: %d, move_leaders: true}", d.span(), 1+d.random.IntN(2))
		}},
		{name: "broker.move_coordinator", possible: several, write: func(d *drawing) string {
			return d.at() + ", broker: {move_coordinator: true}"
		}},
	}
}

func subjectTemplates() []template {
	signal := func(trigger string, rest func(*drawing) string) func(*drawing) string {
		return func(d *drawing) string {
			when := d.at()
			if trigger != "" {
				when = d.at() + ", when: " + trigger
			}
			return fmt.Sprintf("%s, %s", when, rest(d))
		}
	}
	one := func(text string) func(*drawing) string {
		return func(d *drawing) string { return fmt.Sprintf("subject: {instance: %d, %s}", d.instance(), text) }
	}
	several := func(d *drawing) bool { return d.mode.instances > 1 }
	// A static member that leaves keeps its partitions until its session times out. Under KIP-848 the broker sets that
	// timeout, and it is 45 s.
	leaves := func(d *drawing) bool { return !d.static || d.mode.protocol != "consumer" }
	return []template{
		{name: "subject.signal KILL", write: signal("", one("signal: KILL, restart_after: 300ms"))},
		{name: "subject.signal KILL first-dead-letter",
			write: signal("first-dead-letter", one("signal: KILL, restart_after: 300ms"))},
		{name: "subject.signal TERM", write: signal("", one("signal: TERM, restart_after: 300ms"))},
		{name: "subject.signal TERM backoff", write: signal("backoff", one("signal: TERM, restart_after: 300ms"))},
		{name: "subject.signal STOP", write: func(d *drawing) string {
			return fmt.Sprintf("%s, subject: {instance: %d, signal: STOP}", d.span(), d.instance())
		}},
		{name: "subject.restart", write: signal("", one("restart: true"))},
		{name: "subject.restart all", possible: several, write: signal("", func(*drawing) string {
			return "subject: {all: true, every: 500ms, restart: true}"
		})},
		// The group needs time to admit the new member.
		{name: "subject.scale_up", possible: leaves, write: func(*drawing) string {
			return "at: 300ms, for: 3500ms, subject: {scale_up: 1}"
		}},
		{name: "subject.scale_down", possible: func(d *drawing) bool {
			return several(d) && leaves(d)
		}, write: func(d *drawing) string {
			return d.span() + ", subject: {scale_down: 1}"
		}},
	}
}

func downstreamTemplates() []template {
	downstream := func(name, text string) template {
		return template{name: "downstream." + name, write: func(d *drawing) string {
			return fmt.Sprintf("%s, downstream: {%s}", d.span(), text)
		}}
	}
	return []template{
		downstream("outage", "outage: true"),
		downstream("slow", "slow: 150ms"),
		downstream("hang", "hang: true"),
		downstream("rate_limit", "rate_limit: {rate: 40/s, retry_after: 1s}"),
		downstream("errors", "errors: {transient: 20%, permanent: 3%, logical: 2%, reset: 2%, timeout: 1%}"),
		downstream("error_text", "error_text: hostile"),
	}
}

// downstreamBeside returns the downstream faults for a second place. With a rate limit in force, no other fault changes
// the answers.
func (d *drawing) downstreamBeside() []template {
	if d.service.scheduled {
		return nil
	}
	return downstreamTemplates()
}
