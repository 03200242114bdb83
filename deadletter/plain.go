package deadletter

import (
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// PlainName is the name of the dialect Plain.
const PlainName = "plain"

// The headers that Plain adds; all are UTF-8 text, numbers in decimal.
const (
	HeaderReason    = "x-error-reason"
	HeaderAttempt   = "x-retry-attempt"
	HeaderTopic     = "source-topic"
	HeaderPartition = "partition"
	HeaderOffset    = "offset"
	HeaderEpoch     = "epoch"
)

// MaxReason is the maximum length of x-error-reason in bytes. A longer text is cut at a character boundary.
const MaxReason = 1024

// Plain keeps key, value and headers unchanged and appends six headers: x-error-reason, x-retry-attempt,
// source-topic, partition, offset, epoch. A null key stays null, a null value stays null, and duplicate headers and
// their order are kept.
//
// An application may have its own headers with these names ("offset", for example). They stay where they are, before
// the six. Of several headers with one name, the last is the dead letter's, as every Kafka client reads it, and
// Prepare removes only that one. A record that has all six is a dead letter that was put back without being restored.
// The six describe an earlier failure and are replaced, so that a dead letter does not grow when it fails again.
//
// The dead letter's timestamp is the time of the failure.
type Plain struct{}

// Traits implements Dialect.
func (Plain) Traits() Traits {
	return Traits{
		Fields:    []string{HeaderReason, HeaderAttempt, HeaderTopic, HeaderPartition, HeaderOffset, HeaderEpoch},
		Partition: true, Offset: true, Attempts: true, Headers: true, Once: true,
	}
}

// Seal implements Sealer.
func (Plain) Seal(record *kgo.Record, failure Failure) *kgo.Record {
	headers := make([]kgo.RecordHeader, 0, len(record.Headers)+6)
	headers = append(headers, sealed(record, Plain{})...)
	headers = append(headers,
		kgo.RecordHeader{Key: HeaderReason, Value: reasonText(failure.Reason)},
		kgo.RecordHeader{Key: HeaderAttempt, Value: decimal(int64(failure.Attempts))},
		kgo.RecordHeader{Key: HeaderTopic, Value: []byte(failure.Topic)},
		kgo.RecordHeader{Key: HeaderPartition, Value: decimal(int64(failure.Partition))},
		kgo.RecordHeader{Key: HeaderOffset, Value: decimal(failure.Offset)},
		kgo.RecordHeader{Key: HeaderEpoch, Value: decimal(int64(failure.Epoch))},
	)
	return &kgo.Record{
		Key: record.Key, Value: record.Value, Headers: headers,
		Partition: failure.Partition, Timestamp: failure.Time,
	}
}

// Open implements Opener. Of several headers with one name the last counts, as in every Kafka client.
func (Plain) Open(letter *kgo.Record) (Failure, []string) {
	failure := unknownFailure(letter)
	var found [6]bool
	for _, header := range letter.Headers {
		text := string(header.Value)
		switch header.Key {
		case HeaderReason:
			failure.Reason, found[0] = text, utf8.ValidString(text)
		case HeaderAttempt:
			n, ok := number(text, 1, 31)
			failure.Attempts, found[1] = int32(max(n, 0)), ok
		case HeaderTopic:
			failure.Topic, found[2] = text, text != "" && utf8.ValidString(text)
		case HeaderPartition:
			n, ok := number(text, 0, 31)
			failure.Partition, found[3] = int32(n), ok
		case HeaderOffset:
			failure.Offset, found[4] = number(text, 0, 63)
		case HeaderEpoch:
			n, ok := number(text, -1, 31)
			failure.Epoch, found[5] = int32(n), ok
		}
	}
	if !found[0] {
		failure.Reason = ""
	}
	if !found[2] {
		failure.Topic = ""
	}
	var missing []string
	for i, name := range [...]string{HeaderReason, HeaderAttempt, HeaderTopic, HeaderPartition, HeaderOffset,
		HeaderEpoch} {
		if !found[i] {
			missing = append(missing, name)
		}
	}
	return failure, missing
}

// Prepare implements Opener.
func (Plain) Prepare(letter *kgo.Record) *kgo.Record { return backToSource(Plain{}, letter) }

// IsFailureHeader implements Opener.
func (Plain) IsFailureHeader(name string) bool {
	switch name {
	case HeaderReason, HeaderAttempt, HeaderTopic, HeaderPartition, HeaderOffset, HeaderEpoch:
		return true
	}
	return false
}

// number decodes a decimal number not below least that fits in the given number of bits. It accepts only the form
// that Seal writes (not "+1", "01" or " 1"). Other values give -1.
func number(text string, least int64, bits int) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, bits+1)
	if err != nil || n < least || strconv.FormatInt(n, 10) != text {
		return -1, false
	}
	return n, true
}

func decimal(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

// reasonText makes an error's text suitable for a header that people and line-based tools read: valid UTF-8 (U+FFFD
// for invalid bytes), a space for every control character (an error text may hold CR LF or NUL), at most MaxReason
// bytes.
func reasonText(text string) []byte {
	out := make([]byte, 0, min(len(text), MaxReason))
	for _, char := range text {
		if unicode.IsControl(char) {
			char = ' '
		}
		if len(out)+utf8.RuneLen(char) > MaxReason {
			break
		}
		out = utf8.AppendRune(out, char)
	}
	return out
}
