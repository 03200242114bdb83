package deadletter

import (
	"cmp"
	"strings"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
)

// HexkitName is the name of the dialect Hexkit.
const HexkitName = "hexkit"

// The headers of an event and of a dead letter in hexkit (HeaderNames in hexkit/providers/akafka/provider/eventsub.py).
const (
	hexkitType          = "type"
	hexkitEventID       = "event_id"
	hexkitCorrelationID = "correlation_id"
	hexkitOriginalTopic = "original_topic"
	hexkitOriginalID    = "original_event_id"
	hexkitService       = "service"
	hexkitClass         = "exc_class"
	hexkitReason        = "exc_msg"
)

// hexkitRetryPrefix and the service's name form the topic from which a service consumes its retried events.
const hexkitRetryPrefix = "retry-"

// HexkitRetryTopic returns the topic from which the service consumes its retried events.
func HexkitRetryTopic(service string) string { return hexkitRetryPrefix + service }

// Hexkit is the dialect of KafkaEventSubscriber._publish_to_dlq and of "Dead Letter Queue (DLQ)", hexkit's document.
// Key and payload are kept, and of the event's headers type and correlation_id. The dead letter has its own event_id
// (a fresh UUID4) and original_event_id, original_topic, service, exc_class, exc_msg. Every header is ASCII. Other
// characters are written as \xhh, \uhhhh or \Uhhhhhhhh (Python's backslashreplace). hexkit itself cannot publish such
// a dead letter at all.
//
// All other headers of the record are dropped, as in hexkit. The dialect has no partition, offset or number of
// attempts. hexkit decodes the payload as JSON and encodes it again. Here its bytes are kept, which is one of the
// possible encodings of the JSON.
//
// A replay goes to "retry-" and the service's name, with a fresh event_id, type, correlation_id and original_topic.
// The service consumes the event from there as if it came from original_topic. So an event that comes from such a
// topic and fails again names the original_topic that it carries.
type Hexkit struct{}

// Traits implements Dialect.
func (Hexkit) Traits() Traits {
	return Traits{
		Fields:  []string{hexkitEventID, hexkitOriginalTopic, hexkitService, hexkitClass, hexkitReason},
		Headers: true, OnlyHeaders: []string{hexkitType, hexkitCorrelationID}, JSON: true,
	}
}

// Seal implements Sealer. A record whose event_id is missing or not a UUID gets a new one, which becomes its
// original_event_id, as in hexkit.
func (Hexkit) Seal(record *kgo.Record, failure Failure) *kgo.Record {
	topic, eventID := failure.Topic, newUUID()
	headers := make([]kgo.RecordHeader, 0, 8)
	if kind, found := last(record.Headers, hexkitType); found {
		headers = append(headers, kind)
	}
	if chain, found := last(record.Headers, hexkitCorrelationID); found {
		headers = append(headers, chain)
	}
	if id, _ := last(record.Headers, hexkitEventID); uuid.Validate(string(id.Value)) == nil {
		eventID = string(id.Value)
	}
	if original, found := last(record.Headers, hexkitOriginalTopic); found && strings.HasPrefix(topic, hexkitRetryPrefix) {
		topic = string(original.Value)
	}
	headers = append(headers,
		kgo.RecordHeader{Key: hexkitEventID, Value: []byte(newUUID())},
		kgo.RecordHeader{Key: hexkitOriginalID, Value: []byte(eventID)},
		kgo.RecordHeader{Key: hexkitOriginalTopic, Value: []byte(topic)},
		kgo.RecordHeader{Key: hexkitService, Value: asciiText(failure.Service)},
		kgo.RecordHeader{Key: hexkitClass, Value: asciiText(failure.Class)},
		kgo.RecordHeader{Key: hexkitReason, Value: asciiText(failure.Reason)},
	)
	return &kgo.Record{Key: record.Key, Value: record.Value, Headers: headers, Partition: failure.Partition,
		Timestamp: failure.Time}
}

// Open implements Opener. A dead letter without original_event_id is from an earlier hexkit: its event_id is the
// event's.
func (Hexkit) Open(letter *kgo.Record) (Failure, []string) {
	failure, found := unknownFailure(letter), fields(0)
	for i := range letter.Headers {
		value := letter.Headers[i].Value
		switch letter.Headers[i].Key {
		case hexkitEventID:
			failure.ID = found.name(0, value)
		case hexkitOriginalTopic:
			failure.Topic = found.name(1, value)
		case hexkitService:
			failure.Service = found.name(2, value)
		case hexkitClass:
			failure.Class = found.name(3, value)
		case hexkitReason:
			failure.Reason = found.text(4, value)
		case hexkitOriginalID:
			failure.EventID = validText(value)
		case hexkitType:
			failure.EventType = validText(value)
		case hexkitCorrelationID:
			failure.CorrelationID = validText(value)
		}
	}
	failure.EventID = cmp.Or(failure.EventID, failure.ID)
	return failure, found.missing(Hexkit{}.Traits().Fields)
}

// Prepare implements Opener.
func (Hexkit) Prepare(letter *kgo.Record) *kgo.Record {
	record := &kgo.Record{Key: letter.Key, Value: letter.Value, Partition: -1}
	for _, name := range []string{hexkitType, hexkitCorrelationID, hexkitOriginalTopic} {
		if header, found := last(letter.Headers, name); found {
			record.Headers = append(record.Headers, header)
		}
	}
	record.Headers = append(record.Headers, kgo.RecordHeader{Key: hexkitEventID, Value: []byte(newUUID())})
	if failure, _ := (Hexkit{}).Open(letter); failure.Service != "" {
		record.Topic = HexkitRetryTopic(failure.Service)
	}
	return record
}

// IsFailureHeader implements Opener. original_topic stays in a replayed event. The document does not mention
// original_event_id.
func (Hexkit) IsFailureHeader(name string) bool {
	return name == hexkitService || name == hexkitClass || name == hexkitReason
}
