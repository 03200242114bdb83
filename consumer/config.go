package consumer

import (
	"strings"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/internal/units"
)

// Settings are the reference consumer's promises; names and defaults are those of the retry and DLQ design it follows
// (max_retries counts executions: 3 means that a record is tried three times in all).
type Settings struct {
	// MaxRetries is the number of executions of a record before it is dead-lettered, the first included; ≥ 1.
	MaxRetries int `json:"max_retries,omitempty" jsonschema:"default=3,minimum=1"`
	// RetryBackoffMS is the wait before the second execution, in ms.
	RetryBackoffMS int `json:"retry_backoff_ms" jsonschema:"default=1000,minimum=0"`
	// ExponentialBackoff doubles the wait with every execution.
	ExponentialBackoff bool `json:"exponential_backoff" jsonschema:"default=true"`
	// MaxRetryBackoffMS caps the wait, before jitter, in ms.
	MaxRetryBackoffMS int `json:"max_retry_backoff_ms" jsonschema:"default=30000,minimum=0"`
	// RetryJitterMS adds up to that many ms, at random.
	RetryJitterMS int `json:"retry_jitter_ms" jsonschema:"default=200,minimum=0"`
	// Ordering is none, partition or key.
	Ordering string `json:"ordering,omitempty" jsonschema:"default=key,enum=none,enum=partition,enum=key"`
	// MaxInFlight bounds the records fetched and not finished, per instance.
	MaxInFlight int `json:"max_in_flight,omitempty" jsonschema:"default=2000,minimum=1"`
	// AttemptTimeout bounds one execution; a timeout is a failure and is retried.
	AttemptTimeout units.Duration `json:"attempt_timeout,omitempty" jsonschema:"default=2s"`
	// CommitInterval is the time between commits of the finished prefix.
	CommitInterval units.Duration `json:"commit_interval,omitempty" jsonschema:"default=100ms"`
	// Envelope is the dialect of the dead letters: how they say what failed, and how (see docs/envelopes.md).
	Envelope Dialect `json:"envelope,omitempty" jsonschema:"default=plain"`
	// DLQEnabled dead-letters what fails for good; otherwise it is logged and committed.
	DLQEnabled bool `json:"dlq_enabled" jsonschema:"default=true"`
	// DLQWrittenBy says who writes the dead letters: consumer, or broker (share groups of Kafka 4.4 and later,
	// KIP-1191: a record that fails for good is rejected, and the broker writes its dead letter, in the dialect
	// share-group).
	DLQWrittenBy string `json:"dlq_written_by,omitempty" jsonschema:"default=consumer,enum=consumer,enum=broker"`
	// OnExhausted is what becomes of a record that fails for good without dead-lettering: finish (it is logged and
	// committed) or exit (the consumer commits what is finished before it and ends with ErrRetriesExhausted; whoever
	// starts it again meets the record again).
	OnExhausted string `json:"on_exhausted,omitempty" jsonschema:"default=finish,enum=finish,enum=exit"`
	// DLQOnFailure is what follows when a dead letter is refused: halt or retry (it is tried again and again; the
	// promises differ, see docs/subjects.md), or crash (the consumer commits what is finished and ends with
	// ErrLetterRefused).
	DLQOnFailure string `json:"dlq_on_failure,omitempty" jsonschema:"default=halt,enum=halt,enum=retry,enum=crash"`
	// StopGrace bounds the orderly stop after TERM.
	StopGrace units.Duration `json:"stop_grace,omitempty" jsonschema:"default=5s"`
	// Retry is in-place (a record waits in memory and its offset is not committed until it is done), topics (the first
	// failure hands the record on to the retry topic of its attempt, "TOPIC.retry-1" and so on up to MaxRetries−1; the
	// offset is then done. The copy carries the attempts made in a header) or redelivery (share groups only: a record
	// that failed is released, and the broker delivers it again when it likes: the broker's delivery count is the
	// number of executions, MaxRetries is 5 at most, and the backoff is without effect on executions).
	Retry string `json:"retry,omitempty" jsonschema:"default=in-place,enum=in-place,enum=topics,enum=redelivery"`
	// GroupProtocol is classic, consumer (KIP-848: the broker assigns) or share (KIP-932: the broker hands out records
	// one by one and keeps no order among them, so Ordering must be none. Records are taken a batch at a time: accepted
	// when they are done, rejected when they are dead-lettered, released at a stop).
	GroupProtocol string `json:"group_protocol,omitempty" jsonschema:"default=classic,enum=classic,enum=consumer,enum=share"`
	// Assignor of the classic protocol: cooperative-sticky (rebalances leave the other partitions alone) or range
	// (eager: every rebalance takes all of them away).
	Assignor string `json:"assignor,omitempty" jsonschema:"default=cooperative-sticky,enum=cooperative-sticky,enum=range"`
	// StaticMembership gives each instance a group.instance.id (KIP-345): it leaves without a goodbye and comes back to
	// its partitions.
	StaticMembership bool `json:"static_membership,omitempty"`
	// OffsetMetadata writes the finished offsets beyond the committed one into the commit's metadata, as ranges
	// relative to it ("1-3,7"), and skips them when a partition is assigned.
	OffsetMetadata bool `json:"offset_metadata,omitempty"`
	// Transactions writes the dead letters of a batch of records and its offsets in one transaction: either all of it
	// counts or nothing. Records are retried in place; CommitInterval is without effect, the batch's end is the commit.
	Transactions bool `json:"transactions,omitempty"`
	// TransactionTimeout is when the broker aborts a transaction that was not ended; its producer is then fenced off.
	// It goes with Transactions.
	TransactionTimeout units.Duration `json:"transaction_timeout,omitempty" jsonschema:"default=10s"`
}

// DefaultSettings returns the default settings of the design.
func DefaultSettings() Settings {
	return Settings{
		MaxRetries: 3, RetryBackoffMS: 1000, ExponentialBackoff: true, MaxRetryBackoffMS: 30000, RetryJitterMS: 200,
		Ordering: "key", MaxInFlight: 2000, AttemptTimeout: units.Duration(2e9), CommitInterval: units.Duration(1e8),
		Envelope: "plain", DLQEnabled: true, DLQWrittenBy: WrittenByConsumer, OnExhausted: "finish", DLQOnFailure: "halt",
		StopGrace: units.Duration(5e9),
		Retry:     "in-place", GroupProtocol: "classic", Assignor: "cooperative-sticky",
		TransactionTimeout: units.Duration(1e10),
	}
}

// Dialect is the name of an envelope dialect (package deadletter).
type Dialect string

// SchemaText lists the dialects in the JSON Schema.
func (Dialect) SchemaText() string {
	return `{"type": "string", "enum": ["` + strings.Join(deadletter.Names(), `", "`) + `"]}`
}
