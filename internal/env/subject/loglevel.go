package subject

// How a line of a log states its level. One table, levelWords, has the words; the rest says where in a line they
// occur. loglevel_test.go has a line of each library.

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// level is the severity that a line states.
type level uint8

const (
	levelUnstated level = iota
	levelLesser
	levelWarning
	levelError
)

// levelWords returns the level of a word in lower case, levelUnstated for a word that is not a level.
func levelWords(word string) level {
	switch word {
	case "error", "err", "erro", "eror", "e", "fail", "failure", "severe", "fatal", "fata", "ftl", "f", "panic", "pani",
		"pnc", "dpanic", "critical", "crit", "alert", "alrt", "emergency", "emerg", "emrg":
		return levelError
	case "warning", "warn", "wrn", "w":
		return levelWarning
	case "notice", "note", "information", "informational", "info", "inf", "i", "log", "success", "config", "http",
		"verbose", "vrb", "v", "fine",
		"finer", "finest", "debug", "debu", "dbg", "dbug", "d", "silly", "trace", "trac", "trc", "trce", "t":
		return levelLesser
	}
	return levelUnstated
}

// syslogLevel returns the level of a severity of RFC 5424, 0 to 7.
func syslogLevel(severity int) level {
	switch {
	case severity < 0 || severity > 7:
		return levelUnstated
	case severity <= 3:
		return levelError
	case severity == 4:
		return levelWarning
	}
	return levelLesser
}

// levelOf returns the level that a line states. The line must have no colours and no leading blanks.
func levelOf(line []byte) level {
	if line[0] == '{' {
		if found := jsonLevel(line); found != levelUnstated {
			return found
		}
	}
	return textLevel(line)
}

// jsonFields are the names under which loggers write a level, without regard to case.
type jsonFields struct {
	// most; a number in pino and bunyan (10 to 60), Monolog (100 to 600) and GELF (0 to 7)
	Level     json.RawMessage `json:"level"`
	LogLevel  json.RawMessage `json:"LogLevel"`  // .NET's console
	Severity  json.RawMessage `json:"severity"`  // Google Cloud's, OpenTelemetry's older form, Elixir's LoggerJSON
	LevelName json.RawMessage `json:"levelname"` // Python's
	Monolog   json.RawMessage `json:"level_name"`
	ECS       json.RawMessage `json:"log.level"`
	Short     json.RawMessage `json:"lvl"`
	Letter    json.RawMessage `json:"L"`  // zap's development form
	Serilog   json.RawMessage `json:"@l"` // absent in the compact form of an Information
	OTel      json.RawMessage `json:"severityText"`
	Number    json.RawMessage `json:"severityNumber"`
	Log       struct {
		Level json.RawMessage `json:"level"`
	} `json:"log"`
	GELF     string `json:"short_message"`
	Template string `json:"@mt"`
	Rendered string `json:"@m"`
}

// otelNumber finds the severities of OpenTelemetry's records where they are nested, and the levels in a truncated
// line.
var (
	otelNumber = regexp.MustCompile(`"severityNumber"\s*:\s*"?(\d{1,2})\b`)
	cutLevel   = regexp.MustCompile(`(?i)"(?:level|severity|loglevel|levelname|log\.level|@l)"\s*:\s*"([A-Za-z]+)"`)
)

// jsonLevel returns the level of a line that is a JSON object, or the beginning of one.
func jsonLevel(line []byte) level {
	var fields jsonFields
	if err := json.Unmarshal(line, &fields); err != nil && !isTypeError(err) {
		if match := cutLevel.FindSubmatch(line); match != nil && len(line) >= longestLine {
			return levelWords(strings.ToLower(string(match[1])))
		}
		return levelUnstated
	}
	named := []json.RawMessage{
		fields.Monolog, fields.LevelName, fields.OTel, fields.LogLevel, fields.Serilog, fields.Severity, fields.ECS,
		fields.Log.Level, fields.Short, fields.Letter, fields.Level,
	}
	for _, raw := range named {
		if found := jsonValue(raw, fields.GELF != ""); found != levelUnstated {
			return found
		}
	}
	if fields.Template != "" || fields.Rendered != "" {
		return levelLesser
	}
	return otelLevel(line)
}

// isTypeError reports whether a field has another type than expected; all other fields were read.
func isTypeError(err error) bool {
	_, is := err.(*json.UnmarshalTypeError) //nolint:errorlint // json returns it unwrapped
	return is
}

// jsonValue returns the level in a field's value. Slog writes levels between two named ones as "ERROR+2".
func jsonValue(raw json.RawMessage, gelf bool) level {
	var name string
	var number float64
	switch {
	case raw == nil:
		return levelUnstated
	case json.Unmarshal(raw, &name) == nil:
		name, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(name)), "+")
		return levelWords(name)
	case json.Unmarshal(raw, &number) != nil:
		return levelUnstated
	case gelf:
		return syslogLevel(int(number))
	case number >= 100: // Monolog: 300 warning, 400 error
		return stepped(number, 300, 400)
	case number >= 10: // pino and bunyan: 40 warning, 50 error
		return stepped(number, 40, 50)
	}
	return levelUnstated
}

// otelLevel returns the highest level of the OpenTelemetry records in a line.
func otelLevel(line []byte) level {
	highest := levelUnstated
	for _, match := range otelNumber.FindAllSubmatch(line, -1) {
		number, _ := strconv.ParseFloat(string(match[1]), 64) // digits
		if number > 0 {
			highest = max(highest, stepped(number, 13, 17))
		}
	}
	return highest
}

// stepped returns the level of a number in a scheme in which levels are ranges of numbers.
func stepped(number, warning, failure float64) level {
	switch {
	case number >= failure:
		return levelError
	case number >= warning:
		return levelWarning
	}
	return levelLesser
}

var (
	// klog and glog: E1122 18:28:47.123456   12345 main.go:42] …
	glogForm = regexp.MustCompile(`^([IWEF])\d{4} \d\d:\d\d:`)
	// Ruby's Logger: E, [2026-11-22T18:28:47.123456 #1234] ERROR -- : …
	rubyForm = regexp.MustCompile(`^([DIWEFA]), \[\d{4}-`)
	// logfmt: level=error; logrus, slog, go-kit
	logfmtForm = regexp.MustCompile(`(?i)(?:^|\s)(?:level|lvl|severity|log\.level|loglevel)="?([a-z]+)`)
	// Monolog: [2026-11-22T18:28:47.123456+00:00] orders.ERROR: …
	monologForm = regexp.MustCompile(`^\[[^\]]+\] [\w-]+\.([A-Z]+): `)
	// .NET's console: fail: Orders.Worker[0]; a time may precede it
	dotnetForm = regexp.MustCompile(`^(?:\S+ ){0,3}(trce|dbug|info|warn|fail|crit): \S+\[\d+\](?: |$)`)
	// winston's simple form: info: …; a time may precede it. saysFailed interprets lines with "error: ".
	winstonForm = regexp.MustCompile(`^(?:\[?\d[\dTZ:.,/+ -]*\]?:? )?(silly|debug|verbose|info|warn): `)
	// zap's console: 2026-11-22T18:28:47.123Z	error	main.go:42	…
	zapForm = regexp.MustCompile(`^\S+\t([a-z]+)\t`)
)

// textForms are the forms in which libraries put a level into a line of text; the first group is the level. They are
// tried in this order, before words in capitals.
func textForms() []*regexp.Regexp {
	return []*regexp.Regexp{glogForm, rubyForm, logfmtForm, monologForm, dotnetForm, winstonForm, zapForm}
}

// priority is that of syslog (RFC 5424, RFC 3164) and of .NET's console for systemd: <11>.
var priority = regexp.MustCompile(`^<(\d{1,3})>`)

// levelWithin is how far into a line a level may occur, in bytes. Further on it is part of the message.
const levelWithin = 160

// textLevel returns the level that a line of text states.
func textLevel(line []byte) level {
	if len(line) > 2 && line[0] == '%' && line[2] == '|' { // librdkafka: %3|1735787045.678|FAIL|rdkafka#consumer-1| …
		return syslogLevel(int(line[1]) - '0')
	}
	if match := priority.FindSubmatch(line); match != nil {
		number, _ := strconv.Atoi(string(match[1])) // digits
		return syslogLevel(number % 8)
	}
	head := line[:min(len(line), levelWithin)]
	for _, form := range textForms() {
		if match := form.FindSubmatch(head); match != nil {
			if found := levelWords(strings.ToLower(string(match[1]))); found != levelUnstated {
				return found
			}
		}
	}
	if found := words(head); found != levelUnstated {
		return found
	}
	if at := bytes.Index(head, []byte(` {"`)); at >= 0 { // a log collector put a name before it
		return jsonLevel(line[at+1:])
	}
	return levelUnstated
}

// words returns the level of the first word that is a level in capitals, or in brackets, possibly padded (structlog,
// Elixir, spdlog, nginx: "[error    ]"). A word with a dot, dash or digit is a name, not a level. So is a word that
// is assigned a value ("ERROR=null").
func words(head []byte) level {
	for start := 0; start < len(head); {
		if !isWordByte(head[start]) {
			start++
			continue
		}
		end := start
		for end < len(head) && isWordByte(head[end]) {
			end++
		}
		word := bytes.TrimRight(head[start:end], ".")
		after := bytes.TrimLeft(head[end:], " ")
		bracketed := start > 0 && head[start-1] == '[' && len(after) > 0 && after[0] == ']'
		named := end < len(head) && head[end] == '='
		if (bracketed || bytes.Equal(word, bytes.ToUpper(word))) && len(word) > 2 && !named && !ordinary(word) {
			if found := levelWords(strings.ToLower(string(word))); found != levelUnstated {
				return found
			}
		}
		start = end
	}
	return levelUnstated
}

// ordinary reports whether a level's word also occurs in capitals or brackets for other reasons.
func ordinary(word []byte) bool {
	switch strings.ToLower(string(word)) {
	case "http", "success", "fail", "failure", "note":
		return true
	}
	return false
}
