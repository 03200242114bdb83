package planted

// This file has bugs of members of a share group (KIP-932): what they accept, reject and release, and when.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/consumer"
)

func shareBugs() []Bug {
	return []Bug{
		{
			Name: "share-accept-at-once", What: "a record is accepted when it is fetched, not when it is done",
			Invariant: "commit-after-outcome", Anomaly: "commit-past-unfinished",
			Scenario: "share",
			Consumer: func(config *consumer.Config, _ *consumer.Parts) { config.Handler = acceptFirst(config.Handler) },
		},
		{
			Name: "share-reject-before-dlq-ack", What: "a failed record is rejected before its dead letter is acknowledged",
			Invariant: "commit-after-dlq", Anomaly: "commit-before-dlq",
			Scenario: "share",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.Parker = eagerParker{} },
		},
		{
			Name: "share-reject-though-dlq-refuses", What: "a failed record is rejected although its dead letter was refused",
			Invariant: "commit-after-dlq", Anomaly: "commit-without-dlq", Scenario: "share",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.Parker = deafParker{} },
		},
		{
			Name: "share-drop-on-term", What: "what is in backoff at TERM is accepted", Invariant: "graceful-stop",
			Anomaly: "lost", Scenario: "share",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.AtStop = always(consumer.Finish) },
		},
		bounded("share-one-release-too-many", "a record is released once more than promised", "bounded-retries",
			"over-retried", "redelivery", func(policy *consumer.Bounded) { policy.MaxAttempts++ }),
		bounded("share-one-release-too-few", "a record is dead-lettered one delivery too early", "bounded-retries",
			"under-retried", "redelivery", func(policy *consumer.Bounded) { policy.MaxAttempts-- }),
		bounded("share-released-for-ever", "a record is released until the broker gives it up", "no-loss", "lost",
			"redelivery", func(policy *consumer.Bounded) { policy.MaxAttempts = 100 }),
		policied("share-permanent-released", "permanent failures are released", "classification", "permanent-retried",
			"redelivery", func(policy consumer.Policy) consumer.Policy { return stubbornPolicy{policy} }),
	}
}

// acceptFirst acknowledges a record before it is processed, so that the outcome of processing has no effect.
func acceptFirst(handle consumer.Handler) consumer.Handler {
	return func(ctx context.Context, record *kgo.Record) error {
		record.Ack(kgo.AckAccept)
		return handle(ctx, record)
	}
}
