package planted

// This file has bugs in the records that a failure leaves behind, retry copies and dead letters, and further bugs of
// the policy.

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/deadletter"
)

func topicBugs() []Bug {
	copied := func(name, what, invariant, anomaly string, wrap func(consumer.Copier) consumer.Copier) Bug {
		return Bug{Name: name, What: what, Invariant: invariant, Anomaly: anomaly, Scenario: "retry-topics",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) {
				parts.Copier = wrap(parts.Copier)
			}}
	}
	return []Bug{
		policied("record-forgotten", "one failed record in ten is set aside and never taken up again", "no-loss", "stalled",
			"stuck", func(policy consumer.Policy) consumer.Policy { return &forgetful{Policy: policy} }),
		bounded("count-starts-again", "a record whose attempts are used up has as many again, twice", "bounded-retries",
			"endless-redelivery", "mix", func(policy *consumer.Bounded) { policy.MaxAttempts *= 3 }),
		policied("backoff-late", "a record is tried again a second later than promised", "backoff", "backoff-late", "mix",
			func(policy consumer.Policy) consumer.Policy { return latePolicy{policy} }),
		policied("first-failure-dead-lettered", "one retryable failure in five is dead-lettered at once", "classification",
			"premature-dead-letter", "mix", func(policy consumer.Policy) consumer.Policy { return hastyPolicy{policy} }),
		copied("copy-not-counted", "the first retry copy says that no attempt was made yet", "bounded-retries",
			"over-retried", func(next consumer.Copier) consumer.Copier { return uncounted{next} }),
		copied("copy-not-delayed", "a retry copy is processed as soon as it is read", "backoff", "backoff-early",
			func(next consumer.Copier) consumer.Copier { return prompt{next} }),
		{
			Name: "copy-not-delayed-after-restart", What: "a process tries the retry copies that were written before it " +
				"started as soon as it reads them", Invariant: "backoff",
			Anomaly: "backoff-early", Scenario: "retry-restart",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) {
				parts.Copier = forgetfulCopier{parts.Copier, time.Now()}
			},
		},
		{
			Name: "copy-not-awaited", What: "a record counts as finished when its retry copy is handed to the producer",
			Invariant: "commit-after-outcome", Anomaly: "commit-past-unfinished", Scenario: "retry-slow",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.Parker = eagerParker{} },
		},
		{
			Name: "copies-only-the-leader-has", What: "the producer of retry copies waits for the leader alone (acks=1)",
			Invariant: "no-loss", Anomaly: "dropped-by-ack", Scenario: "retry-leader-loss", Consumer: leaderAlone,
		},
		{
			Name: "second-letter-differs", What: "every dead letter is produced twice, the second time with another value",
			Invariant: "dlq-once", Anomaly: "two-payloads-one-source", Scenario: "mix",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.Parker = wavering{} },
		},
		sealed("payload-re-encoded", "the value of a dead letter is decoded and encoded again", "payload-changed", reencode),
		{
			Name: "reason-in-latin-1", What: "the error text of a dead letter is written in ISO 8859-1",
			Invariant: "dlq-fidelity", Anomaly: "metadata-missing", Scenario: "non-ascii",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.Sealer = changed{parts.Sealer, latin1} },
		},
		{
			Name: "history-in-headers", What: "every dead letter adds a header that a replay does not remove",
			Invariant: "replay-round-trip", Anomaly: "envelope-grew", Scenario: "replay",
			Consumer: func(_ *consumer.Config, parts *consumer.Parts) { parts.Sealer = changed{parts.Sealer, addHistory} },
		},
	}
}

// leaderAlone has the producer of dead letters and retry copies wait for no other broker.
func leaderAlone(config *consumer.Config, _ *consumer.Parts) {
	config.Options = append(config.Options, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()))
}

// latePolicy waits a second longer.
type latePolicy struct{ consumer.Policy }

func (p latePolicy) Decide(record *kgo.Record, attempts int, err error) consumer.Decision {
	decision := p.Policy.Decide(record, attempts, err)
	if decision.Action == consumer.Retry {
		decision.Wait += time.Second
	}
	return decision
}

// hastyPolicy dead-letters one record in five at its first failure.
type hastyPolicy struct{ consumer.Policy }

func (p hastyPolicy) Decide(record *kgo.Record, attempts int, err error) consumer.Decision {
	decision := p.Policy.Decide(record, attempts, err)
	if decision.Action == consumer.Retry && record.Offset%5 == 0 {
		return consumer.Decision{Action: consumer.DeadLetter}
	}
	return decision
}

// uncounted does not count the first attempt.
type uncounted struct{ consumer.Copier }

func (c uncounted) Seal(record *kgo.Record, origin consumer.Origin, due time.Time) *kgo.Record {
	if record.Topic == origin.Topic {
		origin.Attempts = 0
	}
	return c.Copier.Seal(record, origin, due)
}

// prompt does not wait.
type prompt struct{ consumer.Copier }

func (c prompt) Open(record *kgo.Record, origin *consumer.Origin) time.Time {
	c.Copier.Open(record, origin)
	return time.Time{}
}

// forgetfulCopier waits only for copies written since it was started, like a consumer that keeps the times in memory.
type forgetfulCopier struct {
	consumer.Copier
	started time.Time
}

func (c forgetfulCopier) Open(record *kgo.Record, origin *consumer.Origin) time.Time {
	due := c.Copier.Open(record, origin)
	if record.Timestamp.Before(c.started) {
		return time.Time{}
	}
	return due
}

// wavering publishes a dead letter and then another one.
type wavering struct{}

func (wavering) Park(ctx context.Context, publisher consumer.Publisher, letter *kgo.Record, done func(error)) {
	consumer.AckedParker{}.Park(ctx, publisher, letter, done)
	other := *letter
	addByte(&other)
	consumer.AckedParker{}.Park(ctx, publisher, &other, func(error) {})
}

// reencode decodes JSON into a map and encodes it again. A value that is not JSON becomes a string.
func reencode(letter *kgo.Record) {
	var decoded any
	if json.Unmarshal(letter.Value, &decoded) != nil {
		decoded = string(letter.Value)
	}
	if value, err := json.MarshalIndent(decoded, "", " "); err == nil {
		letter.Value = value
	}
}

// latin1 encodes the reason with one byte per character.
func latin1(letter *kgo.Record) {
	for i, header := range letter.Headers {
		if header.Key == deadletter.HeaderReason {
			var text bytes.Buffer
			for _, char := range string(header.Value) {
				if char > 0xff {
					char = '?'
				}
				text.WriteByte(byte(char))
			}
			letter.Headers[i].Value = text.Bytes()
		}
	}
}

func addHistory(letter *kgo.Record) {
	letter.Headers = append(letter.Headers,
		kgo.RecordHeader{Key: "x-dead-lettered-at", Value: []byte(letter.Timestamp.Format(time.RFC3339Nano))})
}
