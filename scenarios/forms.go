package scenarios

// The written forms that are more than a plain field, and the defaults that are not the zero value: a key that is
// absent keeps what the value was filled with before decoding.

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

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
	filled := plain(defaultReference())
	if err := json.Unmarshal(data, &filled); err != nil {
		return err
	}
	*r = Reference(filled)
	return nil
}

// UnmarshalJSON reads a replay phase over its defaults.
func (r *Replay) UnmarshalJSON(data []byte) error {
	type plain Replay
	filled := plain(defaultReplay())
	if err := json.Unmarshal(data, &filled); err != nil {
		return err
	}
	*r = Replay(filled)
	return nil
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

// JSONSchema describes both written forms.
func (Failing) JSONSchema() *jsonschema.Schema {
	mapping := jsonschema.NewProperties()
	mapping.Set("weight", &jsonschema.Schema{Type: "integer", Minimum: "0", Maximum: "1000000",
		Description: "Weight among the outcomes."})
	mapping.Set("failures", &jsonschema.Schema{
		Type: "integer", Minimum: "1", Maximum: "255", Default: 1, Description: "Failures before the success.",
	})
	mapping.Set("retry_after",
		&jsonschema.Schema{Ref: "#/$defs/Duration", Description: "RetryAfter goes with rate_limited.", Default: "1s"})
	return &jsonschema.Schema{
		Description: "An outcome that ends well after some failures: a bare weight, or a mapping.",
		OneOf: []*jsonschema.Schema{
			{Type: "integer", Minimum: "0", Maximum: "1000000"},
			{Type: "object", Properties: mapping, Required: []string{"weight"}, AdditionalProperties: jsonschema.FalseSchema},
		},
	}
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

// JSONSchema describes both written forms.
func (TextList) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Description: "A list of texts, or one comma-joined text.",
		OneOf:       []*jsonschema.Schema{{Type: "string"}, {Type: "array", Items: &jsonschema.Schema{Type: "string"}}},
	}
}

// UnmarshalJSON reads the name of a dialect, none, or a mapping from fields to headers.
func (e *Envelope) UnmarshalJSON(data []byte) error {
	var headers map[string]string
	if json.Unmarshal(data, &headers) == nil && headers != nil {
		name, _ := deadletter.OwnHeadersName(headers) // what is wrong with it is told at its place in the file
		*e = Envelope(name)
		return nil
	}
	var name string
	if err := json.Unmarshal(data, &name); err != nil {
		return fmt.Errorf("%s is neither the name of an envelope nor a mapping of fields to headers", data)
	}
	if name == EnvelopeNone {
		name = ""
	}
	*e = Envelope(name)
	return nil
}

// JSONSchema describes the written forms.
func (Envelope) JSONSchema() *jsonschema.Schema {
	mapping, names := jsonschema.NewProperties(), []any{EnvelopeNone}
	for _, field := range deadletter.OwnHeaderFields() {
		mapping.Set(field, &jsonschema.Schema{Type: "string", Pattern: "^[^,=]+$"})
	}
	for _, name := range deadletter.Names() {
		names = append(names, name)
	}
	return &jsonschema.Schema{
		Description: "A dialect; none, if no metadata is promised; or the names of the subject's own headers, by field.",
		OneOf: []*jsonschema.Schema{
			{Type: "string", Enum: names},
			{Type: "object", Properties: mapping, Required: []string{"topic"}, AdditionalProperties: jsonschema.FalseSchema},
		},
	}
}

// UnmarshalJSON reads after-outcome, auto, or a mapping.
func (c *Commits) UnmarshalJSON(data []byte) error {
	var word string
	if json.Unmarshal(data, &word) == nil {
		c.After = commitsOutcome
		if word == CommitsAuto {
			c.After = commitsTime
		}
		return nil
	}
	type plain Commits
	return json.Unmarshal(data, (*plain)(c))
}

// JSONSchema describes both written forms.
func (Commits) JSONSchema() *jsonschema.Schema {
	mapping := jsonschema.NewProperties()
	mapping.Set("after", &jsonschema.Schema{Type: "string", Enum: []any{commitsOutcome, commitsTime},
		Default: commitsOutcome})
	mapping.Set("interval", &jsonschema.Schema{Ref: "#/$defs/Duration", Description: "Longest time between two commits.",
		Default: "30s"})
	return &jsonschema.Schema{
		Description: "When offsets are committed: after-outcome (default), auto, or a mapping that also gives the interval.",
		OneOf: []*jsonschema.Schema{
			{Type: "string", Enum: []any{CommitsOutcome, CommitsAuto}},
			{Type: "object", Properties: mapping, AdditionalProperties: jsonschema.FalseSchema},
		},
	}
}

// UnmarshalJSON reads 503 or "timeout".
func (s *StatusOrName) UnmarshalJSON(data []byte) error {
	var number int
	if json.Unmarshal(data, &number) == nil {
		*s = StatusOrName(strconv.Itoa(number))
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("%s is neither an HTTP status nor a name", data)
	}
	*s = StatusOrName(text)
	return nil
}

// JSONSchema describes both written forms; which of them the oracle can answer is checked when the contract is made.
func (StatusOrName) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Description: "An HTTP status code of the downstream stub (200, 400, 422, 429, 503), or timeout or reset.",
		OneOf: []*jsonschema.Schema{
			{Type: "integer", Minimum: "100", Maximum: "599"},
			{Type: "string"},
		},
	}
}
