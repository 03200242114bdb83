package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
)

// The values of Settings.Ordering, Retry, OnExhausted, GroupProtocol and Assignor.
const (
	OrderingNone      = "none"
	OrderingPartition = "partition"
	OrderingKey       = "key"

	RetryInPlace    = "in-place"
	RetryTopics     = "topics"
	RetryRedelivery = "redelivery"

	ExhaustedFinish = "finish"
	ExhaustedExit   = "exit"

	// FailureHalt, FailureRetry and FailureCrash are the values of Settings.DLQOnFailure.
	FailureHalt  = "halt"
	FailureRetry = "retry"
	FailureCrash = "crash"

	ProtocolClassic  = "classic"
	ProtocolConsumer = "consumer"
	ProtocolShare    = "share"

	WrittenByConsumer = "consumer"
	WrittenByBroker   = "broker"

	AssignorCooperativeSticky = "cooperative-sticky"
	AssignorRange             = "range"
)

// Backoff returns the settings' backoff.
func (s Settings) Backoff() Backoff {
	return Backoff{
		Initial:     time.Duration(s.RetryBackoffMS) * time.Millisecond,
		Cap:         time.Duration(s.MaxRetryBackoffMS) * time.Millisecond,
		Exponential: s.ExponentialBackoff, Jitter: time.Duration(s.RetryJitterMS) * time.Millisecond,
	}
}

// Validate reports every invalid setting.
func (s Settings) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(s.MaxRetries >= 1, "max_retries is %d: it counts executions, so it is 1 or more", s.MaxRetries)
	check(s.RetryBackoffMS >= 0, "retry_backoff_ms is %d: it can't be negative", s.RetryBackoffMS)
	check(s.MaxRetryBackoffMS >= 0, "max_retry_backoff_ms is %d: it can't be negative", s.MaxRetryBackoffMS)
	check(s.RetryJitterMS >= 0, "retry_jitter_ms is %d: it can't be negative", s.RetryJitterMS)
	check(s.Ordering == OrderingNone || s.Ordering == OrderingPartition || s.Ordering == OrderingKey,
		"ordering is %q: it is none, partition or key", s.Ordering)
	check(s.Retry == RetryInPlace || s.Retry == RetryTopics || s.Retry == RetryRedelivery,
		"retry is %q: it is in-place, topics or redelivery", s.Retry)
	check(s.GroupProtocol == ProtocolClassic || s.GroupProtocol == ProtocolConsumer || s.GroupProtocol == ProtocolShare,
		"group_protocol is %q: it is classic, consumer or share", s.GroupProtocol)
	check(s.Assignor == AssignorCooperativeSticky || s.Assignor == AssignorRange,
		"assignor is %q: it is cooperative-sticky or range", s.Assignor)
	check(s.GroupProtocol != ProtocolConsumer || s.Assignor != AssignorRange,
		"assignor range goes with group_protocol classic: in the consumer protocol the broker assigns")
	check(s.MaxInFlight >= 1, "max_in_flight is %d: it is 1 or more", s.MaxInFlight)
	check(s.AttemptTimeout > 0, "attempt_timeout is %s: it must be positive", s.AttemptTimeout)
	check(s.CommitInterval > 0, "commit_interval is %s: it must be positive", s.CommitInterval)
	check(s.StopGrace > 0, "stop_grace is %s: it must be positive", s.StopGrace)
	_, err := deadletter.Named(string(s.Envelope))
	check(err == nil, "envelope: %v", err)
	s.checkExhausted(check)
	s.checkWriter(check)
	s.checkFailure(check)
	s.checkShare(check)
	s.checkTransactions(check)
	return errors.Join(errs...)
}

// checkExhausted checks that a process may end because of a record only if it would otherwise have to give the record
// up, and if it can leave the record uncommitted.
func (s Settings) checkExhausted(check func(bool, string, ...any)) {
	check(s.OnExhausted == ExhaustedFinish || s.OnExhausted == ExhaustedExit, "on_exhausted is %q: it is finish or exit",
		s.OnExhausted)
	exit := s.OnExhausted == ExhaustedExit
	check(!exit || !s.DLQEnabled,
		"on_exhausted exit goes with dlq_enabled false: what fails for good is dead-lettered otherwise")
	check(!exit || s.Retry == RetryInPlace && s.GroupProtocol != ProtocolShare && !s.Transactions,
		"on_exhausted exit goes with retry in-place, in a consumer group and without transactions")
}

// checkWriter checks that brokers write dead letters only for share groups, and only in one dialect.
func (s Settings) checkWriter(check func(bool, string, ...any)) {
	broker := s.DLQWrittenBy == WrittenByBroker
	check(broker || s.DLQWrittenBy == WrittenByConsumer || s.DLQWrittenBy == "",
		"dlq_written_by is %q: it is consumer or broker", s.DLQWrittenBy)
	check(!broker || s.GroupProtocol == ProtocolShare,
		"dlq_written_by broker goes with group_protocol share: brokers write dead letters for share groups only (KIP-1191)")
	check(!broker || s.DLQEnabled, "dlq_written_by broker goes with dlq_enabled true")
	check(!broker || s.Envelope == deadletter.ShareGroupName,
		"dlq_written_by broker goes with envelope share-group, as brokers write dead letters in no other dialect")
}

// WritesDLQ reports whether the consumer itself writes dead letters.
func (s Settings) WritesDLQ() bool { return s.DLQEnabled && s.DLQWrittenBy != WrittenByBroker }

// checkFailure checks that a process may end because of a dead letter only if it can leave the record uncommitted.
func (s Settings) checkFailure(check func(bool, string, ...any)) {
	crash := s.DLQOnFailure == FailureCrash
	check(crash || s.DLQOnFailure == FailureHalt || s.DLQOnFailure == FailureRetry || s.DLQOnFailure == "",
		"dlq_on_failure is %q: it is halt, retry or crash", s.DLQOnFailure)
	check(!crash || s.Retry == RetryInPlace && s.GroupProtocol != ProtocolShare && !s.Transactions,
		"dlq_on_failure crash goes with retry in-place, in a consumer group and without transactions")
}

// deliveryLimit is the broker's default maximum number of deliveries of a record in a share group
// (group.share.delivery.count.limit). A record released after the last one is lost.
const deliveryLimit = 5

// checkShare checks the settings of a share group, in which nothing is assigned or committed and no order is
// promised.
func (s Settings) checkShare(check func(ok bool, format string, args ...any)) {
	if s.GroupProtocol != ProtocolShare {
		check(s.Retry != RetryRedelivery,
			"retry redelivery goes with group_protocol share: in other groups a record is not delivered again until it is lost")
		return
	}
	check(s.Ordering == OrderingNone,
		"group_protocol share needs ordering none: the broker keeps no order among the records of a share group")
	check(s.Retry != RetryTopics, "group_protocol share goes with retry in-place or redelivery, not with topics")
	check(s.Retry != RetryRedelivery || s.MaxRetries <= deliveryLimit,
		"max_retries is %d: with retry redelivery it is %d at most, since brokers deliver a record no more often "+
			"(group.share.delivery.count.limit)", s.MaxRetries, deliveryLimit)
	check(s.Assignor == AssignorCooperativeSticky,
		"assignor goes with group_protocol classic: in a share group nothing is assigned")
	check(!s.StaticMembership, "static_membership doesn't go with group_protocol share: it has no static members")
	check(!s.OffsetMetadata, "offset_metadata doesn't go with group_protocol share: there are no offsets to commit")
	check(!s.Transactions, "transactions don't go with group_protocol share: acknowledgements can't be part of one")
}

// maxTransactionTimeout is the maximum that brokers allow by default (transaction.max.timeout.ms).
const maxTransactionTimeout = 15 * time.Minute

func (s Settings) checkTransactions(check func(ok bool, format string, args ...any)) {
	if !s.Transactions {
		return
	}
	timeout := s.TransactionTimeout.D()
	check(timeout >= time.Millisecond && timeout <= maxTransactionTimeout,
		"transaction_timeout is %s: it is from 1ms to 15m, the most that brokers allow", s.TransactionTimeout)
	check(s.Retry == RetryInPlace, "transactions go with retry in-place")
	check(!s.OffsetMetadata,
		"offset_metadata doesn't go with transactions: a batch is committed as a whole, so nothing is finished beyond it")
}

// Handler processes one record. It returns nil for a success and an error otherwise, with a class if it is an *Error.
// It must honour ctx, which ends after Settings.AttemptTimeout. It is called from many goroutines, but never
// concurrently for one record. A panic counts as a permanent failure of the record, because a poison record must not
// stop the consumer.
type Handler func(ctx context.Context, record *kgo.Record) error

// Config is the configuration of a consumer.
type Config struct {
	// Bootstrap are the brokers' addresses.
	Bootstrap []string
	// Topic is the topic to consume, DLQTopic the topic of the dead letters.
	Topic, DLQTopic string
	// ReplayTopic is the topic of replayed dead letters, if it is not Topic; "" if there is none. Its records are
	// consumed as if they were in Topic. It is not consumed in share groups and with transactions.
	ReplayTopic string
	// RetryTopics are the topics of the retry copies if Settings.Retry is topics. The k-th topic holds copies of
	// records that have failed k times. There are MaxRetries−1 topics; RetryTopicNames gives the default.
	RetryTopics []string
	// InstanceID is the member's group.instance.id if Settings.StaticMembership is set, and the transactional id if
	// Settings.Transactions is set. It must be unique within the group and the same after a restart.
	InstanceID string
	// Group is the consumer group, ClientID the client id sent to the brokers.
	Group, ClientID string
	// Instance names this instance of the group in its dead letters.
	Instance string
	Settings Settings
	// Node is the node of a graph whose engine the consumer is; nil if it is none.
	Node    *Node
	Handler Handler
	Logger  zerolog.Logger
	// SessionTimeout is how long the group waits for a silent member. The default of 6s is the minimum that brokers
	// allow by default.
	SessionTimeout time.Duration
	// Options are additional options of the Kafka clients (SASL, TLS).
	Options []kgo.Opt
}

func (c Config) validate() error {
	var errs []error
	if len(c.Bootstrap) == 0 {
		errs = append(errs, errors.New("no broker address is given"))
	}
	if c.Topic == "" || c.Group == "" {
		errs = append(errs, errors.New("topic and group must be given"))
	}
	if c.Settings.DLQEnabled && c.DLQTopic == "" {
		errs = append(errs, errors.New("dead-lettering is enabled but no dead-letter topic is given"))
	}
	if c.DLQTopic != "" && c.DLQTopic == c.Topic {
		errs = append(errs, fmt.Errorf("%s can't be its own dead-letter topic", c.Topic))
	}
	if want := c.Settings.MaxRetries - 1; c.Settings.Retry == RetryTopics && len(c.RetryTopics) != want {
		errs = append(errs, fmt.Errorf("%d retry topics are given: max_retries %d needs %d, one for each repetition",
			len(c.RetryTopics), c.Settings.MaxRetries, want))
	}
	if c.Settings.StaticMembership && c.InstanceID == "" {
		errs = append(errs, errors.New("static membership needs an instance id (DLQBENCH_INSTANCE): one of its own for "+
			"each instance, the same after a restart"))
	}
	if c.Settings.Transactions && c.InstanceID == "" {
		errs = append(errs, errors.New(
			"transactions need an instance id (DLQBENCH_INSTANCE): one of its own for each instance, the same after a restart"))
	}
	if c.Handler == nil {
		errs = append(errs, errors.New("no handler is given"))
	}
	return errors.Join(append(errs, c.checkNode(), c.Settings.Validate())...)
}
