package subject

// Which lines of a log report an error. A level that the line states decides; only where it states none do the words of
// the message.
//
// How libraries state levels is in loglevel.go. Without one, a line reports an error if it is what runtimes write when
// a program fails, if it says "error: " or "failed: ", or if it names one of Kafka's errors.
//
// A warning counts if it names one of Kafka's errors: that is how clients tell of a write that is refused while they
// still try it again by themselves (Java: "Got error produce response …, retrying (2147483646 attempts left). Error:
// NOT_ENOUGH_REPLICAS"), long before the program hears of it.

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// colours are ANSI's control sequences, which loggers put around levels and messages.
var colours = regexp.MustCompile("\x1b\\[[0-9;:?]*[ -/]*[@-~]")

// plain returns a line without colours.
func plain(line []byte) []byte {
	if bytes.IndexByte(line, 0x1b) < 0 {
		return line
	}
	return colours.ReplaceAll(line, nil)
}

// readLine tells whether a line of a log, without colours, reports an error, and whether it states a level at all.
func readLine(line []byte) (reports, stated bool) {
	line = bytes.TrimLeft(line, " \t")
	if len(line) == 0 {
		return false, false
	}
	switch levelOf(line) {
	case levelError:
		return true, true
	case levelWarning:
		return namesKafkaError(line), true
	case levelLesser:
		return false, true
	}
	return namesException(line) || bytes.Contains(line, []byte("panicked at ")) || saysFailed(line) || namesKafkaError(line), false
}

// namesException reports whether a line is what runtimes write when a program fails: a known beginning, or the name of
// an exception with a message or nothing after it.
func namesException(line []byte) bool {
	for _, start := range []string{"panic: ", "fatal error: ", "fatal: ", "Traceback (most recent call last)", "Exception in thread "} {
		if bytes.HasPrefix(line, []byte(start)) {
			return true
		}
	}
	line = bytes.TrimPrefix(line, []byte("Caused by: "))
	name, _, _ := bytes.Cut(line, []byte{':'})
	for _, suffix := range []string{"Exception", "Error"} {
		if bytes.HasSuffix(name, []byte(suffix)) {
			return bytes.IndexFunc(name, func(r rune) bool { return r == ' ' || r == '\t' || r == '"' }) < 0
		}
	}
	return false
}

// saysFailed reports whether a line without a level has "error: ", "failed: " or "failure: " in it, as errors that were
// wrapped have, and something after it that is not nothing: "failed: 0" and "error: null" tell of none.
func saysFailed(line []byte) bool {
	for rest := line; ; {
		at := bytes.Index(rest, []byte(": "))
		if at < 0 {
			return false
		}
		start := at
		for start > 0 && isWordByte(rest[start-1]) {
			start--
		}
		switch strings.ToLower(string(rest[start:at])) {
		case "error", "failed", "failure":
			if !saysNothing(rest[at+2:]) {
				return true
			}
		}
		rest = rest[at+2:]
	}
}

// saysNothing reports whether what follows "error: " is a way to write that there is none.
func saysNothing(rest []byte) bool {
	word := bytes.TrimSpace(rest)
	if end := bytes.IndexAny(word, " ,;}])|\t"); end >= 0 {
		word = word[:end]
	}
	switch strings.ToLower(strings.Trim(string(word), `"'.<>`)) {
	case "", "null", "nil", "none", "no", "0", "false", "undefined", "nan", "ok", "success":
		return true
	}
	return false
}

// namesKafkaError reports whether one of the errors of the protocol or of a client stands in a line: by its code's name
// (NOT_ENOUGH_REPLICAS), by the class that a client has for it (NotEnoughReplicasException, NotEnoughReplicasError), or
// in the client's words.
func namesKafkaError(line []byte) bool {
	for _, words := range kafkaWords() {
		if bytes.Contains(line, []byte(words)) {
			return true
		}
	}
	for word := range bytes.FieldsFuncSeq(line, func(r rune) bool { return r >= 0x80 || !isWordByte(byte(r)) || r == '.' || r == '-' }) {
		if isErrorName(string(word)) {
			return true
		}
	}
	return false
}

// kafkaWords lists what clients write of errors in place of a code's name: first what precedes any error, then
// sentences about writes.
func kafkaWords() []string {
	return []string{
		"org.apache.kafka.common.errors.",       // Java
		"kafka server: ", "kafka: Failed to pr", // sarama (errors.go)
		"Local: Message timed out", "Local: Broker transport failure", "Local: All broker connections are down", // librdkafka (rd_kafka_err_descs)
		"Local: Queue full", "Local: Unknown topic", "Local: Unknown partition", "Local: Timed out", "Local: Purged in ",
		"ot enough in-sync replicas", "insufficient number of in-sync replicas", "fewer in-sync replicas than required", "There are not enough in-sync replicas",
		"Broker: Request timed out", "Broker: Message size too large", "Broker: Not leader for partition", "Broker: Leader not available",
		"Broker: Unknown topic or partition", "Broker: Topic authorization failed", "Broker: Broker not available", "Broker: Policy violation",
		"Broker: Disk error", "Broker: Producer attempted", "Broker: Replica not available", "Broker: Broker failed to validate record",
		"has passed since batch creation", "not present in metadata after ", // Java's TimeoutException
	}
}

// lastErrorCode lies beyond every error code of the protocol.
const lastErrorCode = 200

// isErrorName reports whether a word is the name of an error: of the protocol's as it is (REQUEST_TIMED_OUT) or as a
// class (RequestTimedOutError), or of librdkafka's own (_MSG_TIMED_OUT).
func isErrorName(word string) bool {
	switch word {
	case "_MSG_TIMED_OUT", "_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_QUEUE_FULL", "_PURGE_QUEUE", "_PURGE_INFLIGHT", "_FATAL",
		"KafkaTimeoutError", "KafkaConnectionError", "KafkaStorageException", "Local_MsgTimedOut", "Local_Transport", "Local_AllBrokersDown":
		return true
	}
	class := strings.TrimSuffix(strings.TrimSuffix(word, "Exception"), "Error")
	if class == word && strings.IndexByte(word, '_') <= 0 {
		return false
	}
	for code := int16(-1); code <= lastErrorCode; code++ {
		known := kerr.TypedErrorForCode(code)
		if known != nil && (known.Message == word || class != word && sameName(known.Message, class)) {
			return true
		}
	}
	return false
}

// sameName reports whether a code's name and a class's are the same words: NOT_ENOUGH_REPLICAS and NotEnoughReplicas.
// One word alone is no code's own (FencedException, of what?).
func sameName(code, class string) bool {
	return strings.Contains(code, "_") && strings.EqualFold(strings.ReplaceAll(code, "_", ""), class)
}

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
}
