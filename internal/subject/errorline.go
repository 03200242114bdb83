package subject

// Which lines of a log report an error. A level that the line states decides; only where it states none do the words of the message.
//
//	{"level":"error",…}                                   zerolog, zap, slog, logback's JSON (also "severity", "levelname"; 50 = error in pino)
//	level=error msg=…                                     logfmt: logrus, slog
//	2026-01-02 03:04:05,678 ERROR [main] c.e.Orders - …   logback, log4j; Python's logging; also SEVERE, CRITICAL, FATAL
//	3:04PM ERR …                                          zerolog's console
//	E0102 03:04:05.678901 …                               glog, klog
//	%3|1735787045.678|FAIL|rdkafka#consumer-1| …          librdkafka: syslog levels 0 to 3
//	Traceback (most recent call last), ValueError: …, java.lang.IllegalStateException: …, panic: …, … failed: …
//
// A warning counts if it names one of Kafka's errors: that is how clients tell of a write that is refused while they still try it again by themselves
// (Java: "Got error produce response …, retrying (2147483646 attempts left). Error: NOT_ENOUGH_REPLICAS"), long before the program hears of it.

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

var (
	logfmtLevel = regexp.MustCompile(`(?:^|\s)(?:level|lvl|severity)="?([A-Za-z]+)`)
	glogLevel   = regexp.MustCompile(`^[IWEF]\d{4} \d\d:\d\d:`)
)

// levelWithin is how far into a line a level word may begin, in bytes; further on it is part of the message.
const levelWithin = 160

// reportsError reports whether a line of a log reports an error.
func reportsError(line []byte) bool {
	line = bytes.TrimLeft(line, " \t")
	if len(line) == 0 {
		return false
	}
	if line[0] == '{' {
		if level, found := jsonLevel(line); found {
			return errorLevel(level) || warningLevel(level) && namesKafkaError(line)
		}
	}
	if level, found := textLevel(line); found {
		return errorLevel(level) || warningLevel(level) && namesKafkaError(line)
	}
	return namesException(line) || bytes.Contains(line, []byte("panicked at ")) || saysFailed(line)
}

// namesException reports whether a line is what runtimes write when a program fails: a known beginning, or the name of an exception
// with a message or nothing after it.
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

// saysFailed reports whether a line without a level has "error: ", "failed: " or "failure: " in it, as errors that were wrapped have.
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
			return true
		}
		rest = rest[at+2:]
	}
}

// errorLevel reports whether a level, in any case, is that of an error. Unknown levels are not.
func errorLevel(level string) bool {
	switch strings.ToLower(level) {
	case "error", "err", "fatal", "ftl", "panic", "pnc", "dpanic", "critical", "crit", "severe", "alert", "emergency", "emerg":
		return true
	}
	return false
}

func warningLevel(level string) bool {
	switch strings.ToLower(level) {
	case "warn", "wrn", "warning":
		return true
	}
	return false
}

// namesKafkaError reports whether one of the protocol's error codes stands in a line, by its name (NOT_ENOUGH_REPLICAS) or by that of the Java class.
func namesKafkaError(line []byte) bool {
	if bytes.Contains(line, []byte("org.apache.kafka.common.errors.")) {
		return true
	}
	for word := range bytes.FieldsFuncSeq(line, func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') }) {
		if bytes.IndexByte(word, '_') > 0 && isErrorCode(string(word)) {
			return true
		}
	}
	return false
}

// lastErrorCode lies beyond every error code of the protocol.
const lastErrorCode = 200

func isErrorCode(name string) bool {
	for code := int16(-1); code <= lastErrorCode; code++ {
		if known := kerr.TypedErrorForCode(code); known != nil && known.Message == name {
			return true
		}
	}
	return false
}

// jsonLevel returns the level of a line that is a JSON object.
func jsonLevel(line []byte) (string, bool) {
	var fields struct {
		Level     json.RawMessage `json:"level"`
		Severity  json.RawMessage `json:"severity"`
		LevelName json.RawMessage `json:"levelname"`
		ECS       json.RawMessage `json:"log.level"`
		Short     json.RawMessage `json:"lvl"`
	}
	if json.Unmarshal(line, &fields) != nil {
		return "", false
	}
	for _, raw := range []json.RawMessage{fields.Level, fields.LevelName, fields.Severity, fields.ECS, fields.Short} {
		var name string
		var number float64
		switch {
		case raw == nil:
		case json.Unmarshal(raw, &name) == nil:
			return name, true
		case json.Unmarshal(raw, &number) == nil && number >= 50:
			return "error", true
		default:
			return "", true
		}
	}
	return "", false
}

// textLevel returns the level that a line of text states.
func textLevel(line []byte) (string, bool) {
	if len(line) > 2 && line[0] == '%' && line[2] == '|' && line[1] >= '0' && line[1] <= '7' {
		return syslogLevel(line[1]), true
	}
	if glogLevel.Match(line) {
		return map[byte]string{'W': "warning", 'E': "error", 'F': "fatal"}[line[0]], true
	}
	head := line[:min(len(line), levelWithin)]
	if bytes.IndexByte(head, '=') >= 0 {
		if match := logfmtLevel.FindSubmatch(head); match != nil {
			return string(match[1]), true
		}
	}
	return levelWord(head)
}

// syslogLevel names a severity of RFC 5424, a digit.
func syslogLevel(digit byte) string {
	switch {
	case digit <= '3':
		return "error"
	case digit == '4':
		return "warning"
	}
	return "info"
}

// levelWord returns the first word in capitals that is a level. A word with a dot, dash or digit in it is a name, not a level. A
// lower-case level counts in brackets only: "[error]".
func levelWord(head []byte) (string, bool) {
	for start := 0; start < len(head); {
		if !isWordByte(head[start]) {
			start++
			continue
		}
		end := start
		for end < len(head) && isWordByte(head[end]) {
			end++
		}
		word := string(bytes.TrimRight(head[start:end], "."))
		bracketed := start > 0 && end < len(head) && head[start-1] == '[' && head[end] == ']'
		if bracketed {
			word = strings.ToUpper(word)
		}
		switch word {
		case "TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "FINE", "CONFIG", "TRC", "DBG", "INF", "WRN",
			"ERROR", "ERR", "FATAL", "FTL", "PANIC", "PNC", "CRITICAL", "SEVERE", "ALERT", "EMERG":
			return word, true
		}
		start = end
	}
	return "", false
}

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
}
