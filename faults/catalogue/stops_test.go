package catalogue

import "testing"

// TestWhatStopsDeadLetters: violations are proven with this, so the answer is no unless it is certain.
func TestWhatStopsDeadLetters(t *testing.T) {
	for _, c := range []struct {
		what, spec string
		want       bool
	}{
		{"an error to every write", "{kafka: {api: Produce, topic: dlq, error: NOT_ENOUGH_REPLICAS}}", true},
		{"an error to every write to whatever topic", "{kafka: {api: Produce, error: NOT_ENOUGH_REPLICAS}}", true},
		{"every request lost", "{kafka: {api: Produce, topic: dlq, drop_request: true}}", true},
		{"every answer lost", "{kafka: {api: Produce, topic: dlq, drop_response: true}}", true},
		{"every connection closed", "{kafka: {api: Produce, topic: dlq, close: true}}", true},
		{"each one hit, said in another way", "{kafka: {api: Produce, topic: dlq, every_nth: 1, close: true}}", true},
		{"an error to half of them", "{kafka: {api: Produce, topic: dlq, probability: 50%, error: NOT_ENOUGH_REPLICAS}}",
			false},
		{"an error to one instance", "{kafka: {api: Produce, topic: dlq, instance: 1, error: NOT_ENOUGH_REPLICAS}}", false},
		{"an error for one partition", "{kafka: {api: Produce, topic: dlq, partition: 0, error: NOT_ENOUGH_REPLICAS}}",
			false},
		{"an error to one version", "{kafka: {api: Produce, topic: dlq, version: 9, error: NOT_ENOUGH_REPLICAS}}", false},
		{"an error to one client id", "{kafka: {api: Produce, topic: dlq, client_id: x, error: NOT_ENOUGH_REPLICAS}}", false},
		{"an error to the first", "{kafka: {api: Produce, topic: dlq, nth: 1, error: NOT_ENOUGH_REPLICAS}}", false},
		{"an error to every second", "{kafka: {api: Produce, topic: dlq, every_nth: 2, error: NOT_ENOUGH_REPLICAS}}", false},
		{"late answers", "{kafka: {api: Produce, topic: dlq, delay_response: 1s}}", false},
		{"late requests", "{kafka: {api: Produce, topic: dlq, delay_request: 1s}}", false},
		{"throttled writes", "{kafka: {api: Produce, topic: dlq, throttle: 1s}}", false},
		{"refused retry copies", "{kafka: {api: Produce, topic: retry, error: NOT_ENOUGH_REPLICAS}}", false},
		{"a topic by its name", "{kafka: {api: Produce, topic: orders.dlq, error: NOT_ENOUGH_REPLICAS}}", false},
		{"refused commits", "{kafka: {api: OffsetCommit, error: NOT_COORDINATOR}}", false},
		{"refused producer ids", "{kafka: {api: InitProducerId, error: COORDINATOR_LOAD_IN_PROGRESS}}", false},
		{"the link down", "{network: {link: dlq, down: true}}", true},
		{"every link down", "{network: {link: brokers, down: true}}", true},
		{"the link of the DLQ's broker down", "{network: {link: broker 2, down: true}}", true},
		{"the link of another broker down", "{network: {link: broker 1, down: true}}", false},
		{"the link silent", "{network: {link: dlq, timeout: true}}", true},
		{"its requests swallowed", "{network: {link: dlq, direction: requests, timeout: true}}", true},
		{"its answers swallowed", "{network: {link: dlq, direction: responses, timeout: true}}", true},
		{"the link reset", "{network: {link: dlq, reset: true}}", true},
		{"the link down for most", "{network: {link: dlq, toxicity: 99%, down: true}}", false},
		{"the link half open", "{network: {link: dlq, half_open: true}}", false},
		{"the link slow", "{network: {link: dlq, latency: 10s}}", false},
		{"the link narrow", "{network: {link: dlq, bandwidth: 1B}}", false},
		{"connections cut short", "{network: {link: dlq, limit_data: 1B}}", false},
		{"data in pieces", "{network: {link: dlq, slicer: {size: 1B, delay: 1s}}}", false},
		{"closing late", "{network: {link: dlq, slow_close: 10s}}", false},
		{"another link down", "{network: {link: downstream, down: true}}", false},
		{"the DLQ's broker stopped", "{broker: {broker: 2, stop: true}}", true},
		{"the DLQ's broker killed", "{broker: {broker: 2, kill: true}}", true},
		{"the DLQ's broker paused", "{broker: {broker: 2, pause: true}}", true},
		{"the DLQ's broker restarted", "{broker: {broker: 2, restart: true}}", false},
		{"another broker stopped", "{broker: {broker: 1, stop: true}}", false},
		{"the coordinator moved", "{broker: {move_coordinator: true}}", false},
		{"a consumer killed", "{subject: {instance: 0, signal: KILL}}", false},
		{"an outage", "{downstream: {outage: true}}", false},
	} {
		if got := parse(t, c.spec).StopsDeadLetters(3, 2, ""); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// If the dead letters go to a downstream, only what breaks that one stops them.
func TestWhatStopsDeadLettersAtADownstream(t *testing.T) {
	for text, want := range map[string]bool{
		"{downstream: {name: errors, outage: true}}":                             true,
		"{downstream: {name: errors, hang: true}}":                               true,
		"{downstream: {name: errors, errors: {permanent: 70%, timeout: 30%}}}":   true,
		"{network: {link: downstream errors, down: true}}":                       true,
		"{downstream: {name: errors, errors: {permanent: 99%}}}":                 false,
		"{downstream: {name: errors, slow: 10s}}":                                false,
		"{network: {link: downstream errors, toxicity: 99%, down: true}}":        false,
		"{network: {link: downstream errors, latency: 10s}}":                     false,
		"{downstream: {name: mail, outage: true}}":                               false,
		"{downstream: {outage: true}}":                                           false,
		"{network: {link: downstream, down: true}}":                              false,
		"{network: {link: brokers, down: true}}":                                 false,
		"{broker: {broker: 2, stop: true}}":                                      false,
		"{kafka: {api: Produce, probability: 100%, error: NOT_ENOUGH_REPLICAS}}": false,
	} {
		spec := parse(t, text)
		if got := spec.StopsDeadLetters(3, 2, "errors"); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
		if want && spec.StopsDeadLetters(3, 2, "") {
			t.Errorf("%s stops dead letters that go to a topic", text)
		}
	}
}

// TestReplicatedDLQIsNotStopped: without a dedicated broker, the DLQ topic has replicas elsewhere unless there is
// only one broker.
func TestReplicatedDLQIsNotStopped(t *testing.T) {
	for _, text := range []string{"{broker: {broker: 2, stop: true}}", "{network: {link: broker 2, down: true}}",
		"{network: {link: dlq, down: true}}"} {
		if parse(t, text).StopsDeadLetters(3, 0, "") {
			t.Errorf("%s: the DLQ topic is on other brokers too", text)
		}
	}
	for _, text := range []string{"{broker: {broker: 1, pause: true}}", "{network: {link: broker 1, down: true}}"} {
		if !parse(t, text).StopsDeadLetters(1, 0, "") {
			t.Errorf("%s: there is no other broker", text)
		}
	}
}
