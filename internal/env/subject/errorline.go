package subject

// Which lines of a log report an error. A level that the line states decides. Only without a level do the words of
// the message decide.
//
// loglevel.go shows how libraries state levels. Without a level, a line reports an error if it has the form that
// runtimes write when a program fails, if it says "error: " or "failed: ", or if it names one of Kafka's errors.
//
// A warning counts if it names one of Kafka's errors. That is how clients report a refused write while they still
// retry it by themselves (Java: "Got error produce response …, retrying (2147483646 attempts left). Error:
// NOT_ENOUGH_REPLICAS"), long before the program learns of it.

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// colours matches ANSI's control sequences, which loggers put around levels and messages.
var colours = regexp.MustCompile("\x1b\\[[0-9;:?]*[ -/]*[@-~]")

// plain returns a line without colours.
func plain(line []byte) []byte {
	if bytes.IndexByte(line, 0x1b) < 0 {
		return line
	}
	return colours.ReplaceAll(line, nil)
}

// reading is the result of reading a line of a log.
type reading struct {
	// reports says that the line reports an error, stated that it states a level.
	reports, stated bool
	// code is the only Kafka error named in a line that does not state that it is an error. Such a line may concern
	// another matter, which the consumer's group or another topic meets all the time. It is 0 if the line names no
	// error, several, or one that does not indicate where it occurred.
	code int16
}

// readLine reads a line of a log without colours.
func readLine(line []byte) reading {
	line = bytes.TrimLeft(line, " \t")
	if len(line) == 0 {
		return reading{}
	}
	level := levelOf(line)
	switch level {
	case levelError:
		return reading{reports: true, stated: true}
	case levelLesser:
		return reading{stated: true}
	case levelWarning, levelUnstated:
	}
	code, named := kafkaError(line)
	if level == levelWarning {
		return reading{reports: named, stated: true, code: code}
	}
	return reading{reports: named || namesException(line) || bytes.Contains(line, []byte("panicked at ")) ||
		saysFailed(line), code: code}
}

// namesException reports whether a line has the form that runtimes write when a program fails: a known beginning, or
// the name of an exception followed by a message or nothing.
func namesException(line []byte) bool {
	for _, start := range []string{"panic: ", "fatal error: ", "fatal: ", "Traceback (most recent call last)",
		"Exception in thread "} {
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

// saysFailed reports whether a line without a level contains "error: ", "failed: " or "failure: ", as wrapped errors
// do, followed by an actual error: "failed: 0" and "error: null" report none.
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

// saysNothing reports whether the text after "error: " says that there is no error.
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

// kafkaError reports whether a line contains errors of the protocol or of a client: by their codes' names
// (NOT_ENOUGH_REPLICAS), by a client's class for one (NotEnoughReplicasException, NotEnoughReplicasError), or in the
// client's words. code is the code of the only error, 0 if it has none.
func kafkaError(line []byte) (code int16, named bool) {
	var found codes
	for word := range bytes.FieldsFuncSeq(line, func(r rune) bool {
		return r >= 0x80 || !isWordByte(byte(r)) || r == '.' || r == '-'
	}) {
		if code, is := errorName(string(word)); is {
			found.add(code)
		}
	}
	for words, code := range kafkaWords() {
		if bytes.Contains(line, []byte(words)) {
			found.add(code)
		}
	}
	for _, anyError := range []string{"org.apache.kafka.common.errors.", "kafka server: "} { // Java, sarama
		if !found.any && bytes.Contains(line, []byte(anyError)) {
			found.any = true
		}
	}
	return found.only, found.any
}

// codes are the error codes found in a line. only is 0 if there are several.
type codes struct {
	any  bool
	only int16
}

func (c *codes) add(code int16) {
	if anywhere(code) || c.any && c.only != code {
		code = 0
	}
	c.any, c.only = true, code
}

// anywhere reports whether a client can meet an error even before it can send its actual request, while it looks for
// a leader or waits for an answer. The error's name then does not say what failed.
func anywhere(code int16) bool {
	switch code {
	case kerr.UnknownServerError.Code, kerr.UnknownTopicOrPartition.Code, kerr.LeaderNotAvailable.Code,
		kerr.NotLeaderForPartition.Code, kerr.RequestTimedOut.Code,
		kerr.BrokerNotAvailable.Code, kerr.ReplicaNotAvailable.Code, kerr.NetworkException.Code, kerr.ListenerNotFound.Code,
		kerr.FencedLeaderEpoch.Code, kerr.UnknownLeaderEpoch.Code, kerr.UnknownTopicID.Code:
		return true
	}
	return false
}

// kafkaWords maps phrases that clients write instead of a code's name to the code, or to 0 for the clients' own
// errors. The phrases are about writes.
func kafkaWords() map[string]int16 {
	replicas := kerr.NotEnoughReplicas.Code
	return map[string]int16{
		// sarama (errors.go)
		"kafka: Failed to pr": 0,
		// librdkafka (rd_kafka_err_descs)
		"Local: Message timed out": 0, "Local: Broker transport failure": 0, "Local: All broker connections are down": 0,
		"Local: Queue full": 0, "Local: Unknown topic": 0, "Local: Unknown partition": 0, "Local: Timed out": 0,
		"Local: Purged in ":          0,
		"ot enough in-sync replicas": replicas, "insufficient number of in-sync replicas": replicas,
		"fewer in-sync replicas than required": replicas,
		"Broker: Request timed out":            0, "Broker: Message size too large": kerr.MessageTooLarge.Code,
		"Broker: Not leader for partition": 0,
		"Broker: Leader not available":     0, "Broker: Unknown topic or partition": 0,
		"Broker: Topic authorization failed": kerr.TopicAuthorizationFailed.Code,
		"Broker: Broker not available":       0, "Broker: Policy violation": kerr.PolicyViolation.Code,
		"Broker: Disk error":         kerr.KafkaStorageError.Code,
		"Broker: Producer attempted": kerr.InvalidProducerEpoch.Code, "Broker: Replica not available": 0,
		"Broker: Broker failed to validate record": kerr.InvalidRecord.Code,
		"has passed since batch creation":          0, "not present in metadata after ": 0, // Java's TimeoutException
	}
}

// lastErrorCode is above every error code of the protocol.
const lastErrorCode = 200

// errorName reports whether a word is the name of an error: a protocol name (REQUEST_TIMED_OUT) or its class
// (RequestTimedOutError), with its code, or a client's own name (_MSG_TIMED_OUT).
func errorName(word string) (code int16, is bool) {
	switch word {
	case "_MSG_TIMED_OUT", "_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_QUEUE_FULL", "_PURGE_QUEUE",
		"_PURGE_INFLIGHT", "_FATAL",
		"KafkaTimeoutError", "KafkaConnectionError", "KafkaStorageException", "Local_MsgTimedOut", "Local_Transport",
		"Local_AllBrokersDown":
		return 0, true
	}
	class := strings.TrimSuffix(strings.TrimSuffix(word, "Exception"), "Error")
	if class == word && strings.IndexByte(word, '_') <= 0 {
		return 0, false
	}
	for code := int16(-1); code <= lastErrorCode; code++ {
		known := kerr.TypedErrorForCode(code)
		if known != nil && (known.Message == word || class != word && sameName(known.Message, class)) {
			return code, true
		}
	}
	return 0, false
}

// sameName reports whether the names of a code and of a class consist of the same words: NOT_ENOUGH_REPLICAS and
// NotEnoughReplicas. A single word does not identify a code (FencedException could concern several).
func sameName(code, class string) bool {
	return strings.Contains(code, "_") && strings.EqualFold(strings.ReplaceAll(code, "_", ""), class)
}

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
}
