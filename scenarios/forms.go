package scenarios

// The written forms that are more than a plain field, and the defaults that are not the zero value: a key that is
// absent keeps what the value was filled with before decoding.

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/internal/units"
)

// defaultScenario is what a scenario holds before its file is decoded over it.
func defaultScenario() Scenario {
	return Scenario{
		Cluster: Cluster{Brokers: 1},
		Topics:  Topics{Input: InputTopic{Partitions: 6}},
		Workload: Workload{
			WarmUp: units.Duration(500 * time.Millisecond), Arrivals: ArrivalsConstant, Keys: Keys{Count: 1000},
			ValueSize: 256, Headers: 1, ErrorText: ErrorTextPlain,
		},
		Expect: Expect{MaxSlip: units.Duration(250 * time.Millisecond)},
	}
}

func defaultReference() Reference {
	return Reference{Instances: 1, Settings: consumer.DefaultSettings()}
}

func defaultReplay() Replay { return Replay{Healed: 1, Rate: 500} }

func defaultFailing() Failing {
	return Failing{Failures: 1, RetryAfter: units.Duration(time.Second)}
}

// UnmarshalJSON reads a reference consumer; absent settings have the consumer's own defaults.
func (r *Reference) UnmarshalJSON(data []byte) error {
	type plain Reference
	*r = defaultReference()
	return json.Unmarshal(data, (*plain)(r))
}

// UnmarshalJSON reads a replay phase over its defaults.
func (r *Replay) UnmarshalJSON(data []byte) error {
	type plain Replay
	*r = defaultReplay()
	return json.Unmarshal(data, (*plain)(r))
}

// UnmarshalJSON reads a bare weight or a mapping.
func (f *Failing) UnmarshalJSON(data []byte) error {
	type plain Failing
	filled := plain(defaultFailing())
	err := json.Unmarshal(data, &filled.Weight)
	if err != nil {
		err = json.Unmarshal(data, &filled)
	}
	if err != nil {
		return err
	}
	*f = Failing(filled)
	return nil
}

// SchemaText is the JSON Schema of both written forms.
func (Failing) SchemaText() string {
	return `{
		"description": "An outcome that ends well after some failures: a bare weight, or a mapping.",
		"oneOf": [
			{"type": "integer", "minimum": 0, "maximum": 1000000},
			{"type": "object", "required": ["weight"], "additionalProperties": false, "properties": {
				"weight": {"type": "integer", "minimum": 0, "maximum": 1000000, "description": "Weight among the outcomes."},
				"failures": {"type": "integer", "minimum": 1, "maximum": 255, "default": 1,
					"description": "Failures before the success."},
				"retry_after": {"$ref": "#/$defs/Duration", "default": "1s", "description": "RetryAfter goes with rate_limited."}
			}}
		]
	}`
}

// unlimitedText is how Unlimited is written.
const unlimitedText = "unlimited"

// UnmarshalJSON reads a number, or the word unlimited.
func (l *AttemptLimit) UnmarshalJSON(data []byte) error {
	if string(data) == strconv.Quote(unlimitedText) {
		*l = Unlimited
		return nil
	}
	return json.Unmarshal(data, (*int)(l))
}

// SchemaText is the JSON Schema of both written forms.
func (AttemptLimit) SchemaText() string {
	return `{
		"description": "A number of executions, 0 for no promise; or unlimited: a record is executed until it succeeds.",
		"oneOf": [
			{"type": "integer", "minimum": 0},
			{"type": "string", "enum": ["` + unlimitedText + `"]}
		]
	}`
}

// UnmarshalJSON reads a list, or one comma-joined text.
func (l *TextList) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) != nil {
		return json.Unmarshal(data, (*[]string)(l))
	}
	*l = splitList(one)
	return nil
}

func splitList(text string) TextList {
	var list TextList
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// SchemaText is the JSON Schema of both written forms.
func (TextList) SchemaText() string {
	return `{
		"description": "A list of texts, or one comma-joined text.",
		"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]
	}`
}

// UnmarshalJSON reads the name of a dialect, none, or a mapping from fields to places.
func (e *Envelope) UnmarshalJSON(data []byte) error {
	var headers map[string]string
	if json.Unmarshal(data, &headers) == nil && headers != nil {
		name, _ := deadletter.OwnHeadersName(headers) // what is wrong with it is told at its place in the file
		*e = Envelope(name)
		return nil
	}
	var name string
	if err := json.Unmarshal(data, &name); err != nil {
		return fmt.Errorf("%s is neither the name of an envelope nor a mapping of fields to headers and paths", data)
	}
	if name == EnvelopeNone {
		name = ""
	}
	*e = Envelope(name)
	return nil
}

// SchemaText is the JSON Schema of the written forms.
func (Envelope) SchemaText() string {
	names := []string{strconv.Quote(EnvelopeNone)}
	for _, name := range deadletter.Names() {
		names = append(names, strconv.Quote(name))
	}
	var fields []string
	for _, field := range deadletter.OwnHeaderFields() {
		fields = append(fields, strconv.Quote(field)+`: {"type": "string", "pattern": "^[^,=]+$"}`)
	}
	return `{
		"description": "A dialect; none; or, by field, a header, or a path such as $.error into the dead letter's value.",
		"oneOf": [
			{"type": "string", "enum": [` + strings.Join(names, ", ") + `]},
			{"type": "object", "minProperties": 1, "additionalProperties": false,
				"properties": {` + strings.Join(fields, ", ") + `}}
		]
	}`
}

// UnmarshalJSON reads after-outcome, auto, never, or a mapping.
func (c *Commits) UnmarshalJSON(data []byte) error {
	var word string
	if json.Unmarshal(data, &word) == nil {
		switch c.After = commitsOutcome; word {
		case CommitsAuto:
			c.After = commitsTime
		case CommitsNever:
			c.After = CommitsNever
		}
		return nil
	}
	type plain Commits
	return json.Unmarshal(data, (*plain)(c))
}

// SchemaText is the JSON Schema of both written forms.
func (Commits) SchemaText() string {
	return `{
		"description": "When offsets are committed: after-outcome (default), auto, a mapping that also gives ` +
		`the interval, or never, if offsets are kept outside Kafka.",
		"oneOf": [
			{"type": "string", "enum": ["` + CommitsOutcome + `", "` + CommitsAuto + `", "` + CommitsNever + `"]},
			{"type": "object", "additionalProperties": false, "properties": {
				"after": {"type": "string", "enum": ["` + commitsOutcome + `", "` + commitsTime + `"],
					"default": "` + commitsOutcome + `"},
				"interval": {"$ref": "#/$defs/Duration", "default": "30s", "description": "Longest time between two commits."}
			}}
		]
	}`
}

// UnmarshalJSON reads 503 or "timeout".
func (s *StatusOrName) UnmarshalJSON(data []byte) error {
	text, err := codeText(data)
	if err != nil {
		return fmt.Errorf("%s is neither an HTTP status, an SQLSTATE nor a name", data)
	}
	*s = StatusOrName(text)
	return nil
}

// SchemaText is the JSON Schema of both written forms; which of them the downstream can answer is checked when the
// contract is made.
func (StatusOrName) SchemaText() string {
	return `{
		"description": "An HTTP status code of the downstream stub (200, 400, 422, 429, 503), ` +
		`the SQLSTATE of a database, timeout or reset.",
		"oneOf": [{"type": "integer", "minimum": 100, "maximum": 99999}, {"type": "string"}]
	}`
}
