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

// reading is what a line of a log tells.
type reading struct {
	// reports: it reports an error; stated: it states a level.
	reports, stated bool
	// code is the one error of Kafka's that a line names which does not state that it is an error: such a line may tell
	// of something else, what the consumer's group or another topic meets all the time. 0: it names none, or several,
	// or one that says nothing about where it was met.
	code int16
}

// readLine reads a line of a log, without colours.
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

// namesException reports whether a line is what runtimes write when a program fails: a known beginning, or the name of
// an exception with a message or nothing after it.
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

// kafkaError reports whether errors of the protocol or of a client stand in a line: by their codes' names
// (NOT_ENOUGH_REPLICAS), by the class that a client has for one (NotEnoughReplicasException, NotEnoughReplicasError),
// or in the client's words. code is that of the only one, 0 if it has none.
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

// codes are the error codes that stand in a line; only is 0 if there are several.
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

// anywhere reports whether a client meets an error also before it can ask for what it wants, while it looks for a
// leader or waits for an answer: then its name does not tell of what.
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

// kafkaWords lists what clients write of errors in place of a code's name, with the code, 0 for errors of their own:
// sentences about writes.
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

// lastErrorCode lies beyond every error code of the protocol.
const lastErrorCode = 200

// errorName reports whether a word is the name of an error: of the protocol's as it is (REQUEST_TIMED_OUT) or as a
// class (RequestTimedOutError), with its code, or of a client's own (_MSG_TIMED_OUT).
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

// sameName reports whether a code's name and a class's are the same words: NOT_ENOUGH_REPLICAS and NotEnoughReplicas.
// One word alone is no code's own (FencedException, of what?).
func sameName(code, class string) bool {
	return strings.Contains(code, "_") && strings.EqualFold(strings.ReplaceAll(code, "_", ""), class)
}

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
}
