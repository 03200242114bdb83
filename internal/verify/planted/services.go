package planted

// This file has bugs of services that share a dead-letter topic.

import (
	"bytes"
	"context"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/deadletter"
)

// The services of the scenario, by the suffixes of their groups and topics. The prefix is the run's id, which differs
// each time.
const (
	ordersEnd  = ".orders"
	billingEnd = ".billing"
)

func sharedDeadLetterBugs() []Bug {
	const scenario = "services"
	return []Bug{
		{
			Name: "names-another-service", What: "the dead letters of one service name another of those that share the topic",
			Anomaly: "metadata-wrong", Invariant: "orders/dlq-fidelity",
			Scenario: scenario, Consumer: func(_ *consumer.Config, parts *consumer.Parts) {
				parts.Sealer = changed{parts.Sealer, nameAnother}
			},
		},
		{
			Name: "reads-anothers-retries", What: "a service reads the retry topic of another in place of its own",
			Anomaly: "another-services-record", Invariant: "service-separation",
			Scenario: scenario, Consumer: func(config *consumer.Config, _ *consumer.Parts) {
				config.ReplayTopic = strings.Replace(config.ReplayTopic, billingEnd, ordersEnd, 1)
			},
		},
	}
}

// sharedDeadLetterReplays are bugs of the tool that replays the dead letters of several services.
func sharedDeadLetterReplays() []Bug {
	return []Bug{{
		Name: "replays-to-another-service", What: "the dead letters of one service go to the retry topic of another",
		Anomaly: "replay-wrong-topic", Invariant: "orders/replay-round-trip",
		Scenario: "services", Replay: func(config *deadletter.Config) { config.Publish = misdelivering },
	}}
}

func misdelivering(next deadletter.Publisher) deadletter.Publisher {
	return publisher{next, func(ctx context.Context, record *kgo.Record, promise func(*kgo.Record, error)) {
		record.Topic = strings.Replace(record.Topic, ordersEnd, billingEnd, 1)
		next.Produce(ctx, record, promise)
	}}
}

// nameAnother replaces the service's name in a dead letter with that of another service.
func nameAnother(letter *kgo.Record) {
	for i := range letter.Headers {
		if header := &letter.Headers[i]; header.Key == "service" {
			header.Value = bytes.Replace(header.Value, []byte(ordersEnd), []byte(billingEnd), 1)
		}
	}
}
