package deadletter

import (
	"cmp"
	"math"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// SpringName is the name of the dialect Spring, SpringRetryableName that of SpringRetryable.
const (
	SpringName          = "spring"
	SpringRetryableName = "spring-retryable-topic"
)

// The prefixes of spring-kafka's headers (KafkaHeaders: DLT_ORIGINAL_TOPIC and so on, ORIGINAL_TOPIC and so on).
const (
	springPrefix          = "kafka_dlt-"
	springRetryablePrefix = "kafka_"
)

// The rest of the names, which both dialects share.
const (
	springTopic         = "original-topic"
	springPartition     = "original-partition"
	springOffset        = "original-offset"
	springTimestamp     = "original-timestamp"
	springTimestampType = "original-timestamp-type"
	springGroup         = "original-consumer-group"
	springClass         = "exception-fqcn"
	springCause         = "exception-cause-fqcn"
	springReason        = "exception-message"
	springStack         = "exception-stacktrace"
	// A record whose key cannot be deserialized has these instead.
	springKeyClass  = "key-exception-fqcn"
	springKeyReason = "key-exception-message"
	springKeyStack  = "key-exception-stacktrace"
	// springRetryableGroup is KafkaHeaders.ORIGINAL_CONSUMER_GROUP, the only header of its kind that also contains
	// "dlt".
	springRetryableGroup = "dlt-original-consumer-group"
)

// The headers of RetryTopicHeaders.
const (
	springAttempts  = "retry_topic-attempts"
	springBackoff   = "retry_topic-backoff-timestamp"
	springFirstTime = "retry_topic-original-timestamp"
)

// The numbers of the fields, in the order of springFields.
const (
	fieldTopic = iota
	fieldPartition
	fieldOffset
	fieldTimestamp
	fieldTimestampType
	fieldClass
	fieldStack
	fieldAttempts
	fieldBackoff
	fieldFirstTime
)

// springFields returns the headers that DeadLetterPublishingRecoverer always adds. It adds a message, a cause and a
// group only if they exist.
func springFields(prefix string) []string {
	return []string{
		prefix + springTopic, prefix + springPartition, prefix + springOffset, prefix + springTimestamp,
		prefix + springTimestampType, prefix + springClass, prefix + springStack,
	}
}

// Spring is the dialect of spring-kafka's DeadLetterPublishingRecoverer, which is passed to DefaultErrorHandler. Key,
// value and headers are kept. It adds kafka_dlt-original-topic, -timestamp-type and -consumer-group in UTF-8,
// -partition as an int32, -offset and -timestamp as an int64, big-endian, and kafka_dlt-exception-fqcn, -cause-fqcn,
// -message and -stacktrace.
//
// The dialect has no number of attempts. By default, spring-kafka appends the headers of each further failure to
// those of earlier failures. Here they replace them. Of several the last counts.
//
// spring-kafka itself republishes nothing: a replay goes to the original topic.
type Spring struct{}

// Traits implements Dialect.
func (Spring) Traits() Traits {
	return Traits{Fields: springFields(springPrefix), Partition: true, Offset: true, Headers: true}
}

// Seal implements Sealer.
func (Spring) Seal(record *kgo.Record, failure Failure) *kgo.Record {
	e := wrap(record, Spring{}, 11, springBytes(&failure))
	e.spring(springHeaders{
		springPrefix + springTopic, springPrefix + springPartition, springPrefix + springOffset,
		springPrefix + springTimestamp,
		springPrefix + springTimestampType, springPrefix + springGroup, springPrefix + springClass,
		springPrefix + springCause, springPrefix + springReason, springPrefix + springStack,
	}, &failure)
	return &kgo.Record{Key: record.Key, Value: record.Value, Headers: e.headers, Partition: failure.Partition,
		Timestamp: failure.Time}
}

// Open implements Opener.
func (Spring) Open(letter *kgo.Record) (Failure, []string) {
	failure, found := unknownFailure(letter), fields(0)
	for i := range letter.Headers {
		if name, own := strings.CutPrefix(letter.Headers[i].Key, springPrefix); own {
			found.spring(name, letter.Headers[i].Value, &failure)
		}
	}
	if found.all(fieldStack + 1) {
		return failure, nil
	}
	return failure, found.missing(springFields(springPrefix))
}

// Prepare implements Opener.
func (Spring) Prepare(letter *kgo.Record) *kgo.Record { return backToSource(Spring{}, letter) }

// IsFailureHeader implements Opener.
func (Spring) IsFailureHeader(name string) bool {
	name, own := strings.CutPrefix(name, springPrefix)
	return own && isSpringName(name)
}

// SpringRetryable is the dialect of spring-kafka's @RetryableTopic (DeadLetterPublishingRecovererFactory), in its
// retry topics and in its dead-letter topic. It is like Spring, with two differences. The names begin with "kafka_"
// (except kafka_dlt-original-consumer-group). It adds retry_topic-attempts, an int32, big-endian, which is the number
// of attempts made plus one; and retry_topic-original-timestamp and retry_topic-backoff-timestamp (the time of the
// next permitted try), as the shortest big-endian two's complement (BigInteger.toByteArray).
//
// The original topic, partition and offset are those of the first topic, not of the record's last retry topic. By
// default (retainAllRetryHeaderValues), each retry copy appends the retry_topic headers again. A replay goes to the
// original topic, and attempts start again.
type SpringRetryable struct{}

// Traits implements Dialect.
func (SpringRetryable) Traits() Traits {
	return Traits{
		Fields:    append(springFields(springRetryablePrefix), springAttempts, springBackoff, springFirstTime),
		Partition: true, Offset: true, Attempts: true, Headers: true,
		Reserved: []string{springAttempts, springBackoff, springFirstTime},
	}
}

// Seal implements Sealer. The dead-letter topic has no delay, so the backoff timestamp permits a try at once.
func (SpringRetryable) Seal(record *kgo.Record, failure Failure) *kgo.Record {
	e := wrap(record, SpringRetryable{}, 14, 20+springBytes(&failure))
	e.spring(springHeaders{
		springRetryablePrefix + springTopic, springRetryablePrefix + springPartition, springRetryablePrefix + springOffset,
		springRetryablePrefix + springTimestamp,
		springRetryablePrefix + springTimestampType, springRetryablePrefix + springRetryableGroup,
		springRetryablePrefix + springClass, springRetryablePrefix + springCause,
		springRetryablePrefix + springReason, springRetryablePrefix + springStack,
	}, &failure)
	e.int32(springAttempts, min(failure.Attempts, math.MaxInt32-1)+1)
	e.bigInteger(springFirstTime, millis(failure.SourceTime))
	e.bigInteger(springBackoff, millis(failure.Time))
	return &kgo.Record{Key: record.Key, Value: record.Value, Headers: e.headers, Partition: failure.Partition,
		Timestamp: failure.Time}
}

// Open implements Opener.
func (SpringRetryable) Open(letter *kgo.Record) (Failure, []string) {
	failure, found := unknownFailure(letter), fields(0)
	for i := range letter.Headers {
		name, value := letter.Headers[i].Key, letter.Headers[i].Value
		if rest, own := strings.CutPrefix(name, springRetryablePrefix); own {
			found.spring(rest, value, &failure)
			continue
		}
		switch name {
		case springAttempts:
			failure.Attempts = found.springAttempts(value)
		case springBackoff:
			_, ok := decodeBigInteger(value)
			found.note(fieldBackoff, ok)
		case springFirstTime:
			_, ok := decodeBigInteger(value)
			found.note(fieldFirstTime, ok)
		}
	}
	if found.all(fieldFirstTime + 1) {
		return failure, nil
	}
	return failure, found.missing(SpringRetryable{}.Traits().Fields)
}

// springAttempts decodes the number of the next attempt. Versions before 2.8 wrote it as a byte.
func (f *fields) springAttempts(value []byte) int32 {
	next := int64(-1)
	switch len(value) {
	case 1:
		next = int64(value[0])
	case 4:
		next = f.bigEndian(fieldAttempts, value, 4)
	}
	f.note(fieldAttempts, next >= 2)
	return int32(max(next-1, 0))
}

// Prepare implements Opener.
func (SpringRetryable) Prepare(letter *kgo.Record) *kgo.Record {
	return backToSource(SpringRetryable{}, letter)
}

// IsFailureHeader implements Opener.
func (SpringRetryable) IsFailureHeader(name string) bool {
	if rest, own := strings.CutPrefix(name, springRetryablePrefix); own {
		return rest == springRetryableGroup || isSpringName(rest)
	}
	return name == springAttempts || name == springBackoff || name == springFirstTime
}

func isSpringName(name string) bool {
	switch name {
	case springTopic, springPartition, springOffset, springTimestamp, springTimestampType, springGroup, springClass,
		springCause, springReason, springStack, springKeyClass, springKeyReason, springKeyStack:
		return true
	}
	return false
}

// springHeaders are the header names of DeadLetterPublishingRecoverer.HeaderNames.
type springHeaders struct {
	topic, partition, offset, timestamp, timestampType, group, class, cause, reason, stack string
}

// springBytes returns the approximate size of the values in bytes.
func springBytes(f *Failure) int {
	return 40 + len(f.Topic) + len(f.Group) + len(f.Class) + len(f.Cause) + len(f.Reason) + len(f.Stack)
}

// spring appends the headers of DeadLetterPublishingRecoverer.addAndEnhanceHeaders, in its order: the exception
// first.
func (e *envelope) spring(names springHeaders, failure *Failure) {
	e.string(names.class, failure.Class)
	e.known(names.cause, failure.Cause)
	e.string(names.reason, failure.Reason)
	e.string(names.stack, failure.Stack)
	e.string(names.topic, failure.Topic)
	e.int32(names.partition, failure.Partition)
	e.int64(names.offset, failure.Offset)
	e.int64(names.timestamp, millis(failure.SourceTime))
	kind := cmp.Or(failure.SourceTimeType, NoTimestampType)
	e.string(names.timestampType, kind)
	e.known(names.group, failure.Group)
}

// spring decodes one of the headers.
func (f *fields) spring(name string, value []byte, failure *Failure) {
	switch name {
	case springTopic:
		failure.Topic = f.name(fieldTopic, value)
	case springPartition:
		failure.Partition = int32(f.position(fieldPartition, value, 4))
	case springOffset:
		failure.Offset = f.position(fieldOffset, value, 8)
	case springTimestamp:
		failure.SourceTime = fromMillis(f.bigEndian(fieldTimestamp, value, 8))
	case springTimestampType:
		failure.SourceTimeType = f.name(fieldTimestampType, value)
		if failure.SourceTimeType == NoTimestampType {
			failure.SourceTimeType = ""
		}
	case springClass, springKeyClass:
		failure.Class = f.name(fieldClass, value)
	case springStack, springKeyStack:
		failure.Stack = f.text(fieldStack, value)
	case springReason, springKeyReason:
		failure.Reason = validText(value)
	case springCause:
		failure.Cause = validText(value)
	case springGroup, springRetryableGroup:
		failure.Group = validText(value)
	}
}
