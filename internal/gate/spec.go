package gate

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/scenarios"
)

//go:generate env UPDATE_GOLDEN=1 go test -run TestSchemaIsCurrent .

//go:embed gate.schema.json
var schemaText []byte

// Schema returns the JSON Schema (draft 2020-12) of dlqbench.yaml.
func Schema() ([]byte, error) { return bytes.Clone(schemaText), nil }

// Config is a dlqbench.yaml, decoded. Paths in it are relative to its folder.
type Config struct {
	// Subjects are the subject.yaml files of the consumers to judge, a list or one text: each of them runs every
	// scenario. Without them each scenario judges its own subject.
	Subjects scenarios.TextList `json:"subjects,omitempty"`
	// Scenarios are what to run, in this order.
	Scenarios []Selection `json:"scenarios" jsonschema:"required,minItems=1"`
	// Seeds, one by one or as ranges ([1, 2, 10-99]): every scenario is run once with each of them; default: once, with
	// its own.
	Seeds []Range `json:"seeds,omitempty" jsonschema:"minItems=1"`
	// Settings are named settings, such as {calm: {workload.rate: 100/s}}: every scenario is run once with each of them.
	Settings map[string]scenarios.Settings `json:"settings,omitempty"`
	// Allow holds allowances that take the place of the scenarios' own.
	Allow scenarios.Allow `json:"allow,omitempty"`
	// Thresholds are judged in every run, besides the scenario's own: "latency.success.p99 < 500ms".
	Thresholds []string           `json:"thresholds,omitempty"`
	Cluster    scenarios.Provider `json:"cluster,omitempty"`
	// Budget is how long the whole may take; what does not fit in is not run, and the gate is then inconclusive at
	// best. Default: no limit.
	Budget units.Duration `json:"budget,omitempty"`
	// Require lists invariants that must be judged: one that no run of a subject has judged makes the gate
	// inconclusive.
	Require []string `json:"require,omitempty"`
	// Waive lists known failures.
	Waive []Waiver `json:"waive,omitempty"`
	// Kubernetes is what dlqbench campaign --on kubernetes makes the pods of.
	Kubernetes Kubernetes `json:"kubernetes,omitempty"`
}

// Range is a whole number, or all from From to To: 7 or "10-99".
type Range struct{ From, To uint64 }

// UnmarshalJSON reads both written forms. In the place of what the schema refuses there is null.
func (r *Range) UnmarshalJSON(data []byte) (err error) {
	if string(data) == "null" {
		return nil
	}
	*r, err = parseRange(strings.Trim(string(data), `"`))
	return err
}

// SchemaText is the JSON Schema of both written forms.
func (Range) SchemaText() string {
	return `{"description": "A whole number, or a range of them: 7 or 10-99.", "oneOf": [
		{"type": "integer", "minimum": 0, "maximum": 18446744073709551615},
		{"type": "string", "pattern": "^[0-9]{1,18}-[0-9]{1,18}$"}]}`
}

func parseRange(text string) (r Range, err error) {
	first, last, ranged := strings.Cut(text, "-")
	if !ranged {
		last = first
	}
	var errFrom, errTo error
	r.From, errFrom = strconv.ParseUint(first, 10, 64)
	r.To, errTo = strconv.ParseUint(last, 10, 64)
	if errFrom != nil || errTo != nil {
		return r, fmt.Errorf("%q is not a number or a range: write such as 7 or 1-40", text)
	}
	return r, nil
}

// each returns the numbers of ranges, most at most.
func each(ranges []Range, most int) (numbers []uint64, err error) {
	for _, one := range ranges {
		switch {
		case one.To < one.From:
			return nil, fmt.Errorf("the range %d-%d ends before it begins", one.From, one.To)
		case one.To-one.From >= uint64(most-len(numbers)):
			return nil, fmt.Errorf("the range %d-%d makes more than %d", one.From, one.To, most)
		}
		for offset := range one.To - one.From + 1 {
			numbers = append(numbers, one.From+offset)
		}
	}
	return numbers, nil
}

// ParseRanges parses whole numbers and ranges of them, separated by commas, such as "1-40,43". most is the maximum
// number of them.
func ParseRanges(text string, most int) ([]uint64, error) {
	var ranges []Range
	for part := range strings.SplitSeq(text, ",") {
		one, err := parseRange(part)
		if err != nil {
			return nil, err
		}
		ranges = append(ranges, one)
	}
	return each(ranges, most)
}

// Kubernetes is what a campaign's pods are made of. Where they run is said by flags.
type Kubernetes struct {
	// Image has dlqbench of the same version as the command, and the consumer.
	Image string `json:"image,omitempty"`
	// Command is dlqbench in the image.
	Command string `json:"command,omitempty"`
	// Folder in the image where the files of the suite are put, as they lie in the folder of the command.
	Folder string `json:"folder,omitempty" jsonschema:"pattern=^/"`
	// CPU is what a pod requests, as Kubernetes writes it: 2 or 500m.
	CPU string `json:"cpu,omitempty"`
	// Memory is what a pod requests, and its limit, as Kubernetes writes it: 1Gi.
	Memory string `json:"memory,omitempty"`
	// Retries of a cell whose pod failed for a reason other than a disruption.
	Retries int `json:"retries,omitempty" jsonschema:"minimum=0,maximum=10"`
	// Claim is a PersistentVolumeClaim that keeps the run directories, histories included.
	Claim string `json:"claim,omitempty"`
	// Pod is merged into the pods' spec: {nodeSelector: {pool: load}, imagePullSecrets: [{name: registry}]}.
	Pod map[string]json.RawMessage `json:"pod,omitempty"`
}

// Selection is a scenario, or several: the name of a shipped one, a file, or a pattern with * and ? of either (a
// pattern with a slash or an extension is one of files). In YAML a bare text is the scenario.
type Selection struct {
	Scenario string `json:"scenario"`
	// Seeds, Allow and Thresholds are those of this selection; seeds and allowances take the place of the suite's,
	// thresholds are added.
	Seeds      []Range         `json:"seeds,omitempty" jsonschema:"minItems=1"`
	Allow      scenarios.Allow `json:"allow,omitempty"`
	Thresholds []string        `json:"thresholds,omitempty"`
}

// Waiver is a known failure: it is shown, and does not count until its date has passed. It names an invariant, an
// anomaly, or both.
type Waiver struct {
	// Invariant that is violated; default: any that sees the anomaly.
	Invariant string `json:"invariant,omitempty"`
	// Anomaly that is seen; default: any of the invariant.
	Anomaly string `json:"anomaly,omitempty"`
	// Scenario in which it is, by its name; default: any.
	Scenario string `json:"scenario,omitempty"`
	// Reason why it is accepted: the ticket, who decided.
	Reason string `json:"reason" jsonschema:"required"`
	// Until is the last day (UTC) on which it is waived: 2026-12-31.
	Until string `json:"until" jsonschema:"required"`
}

// UnmarshalJSON reads a bare scenario or a mapping.
func (s *Selection) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &s.Scenario) == nil {
		return nil
	}
	type plain Selection
	return json.Unmarshal(data, (*plain)(s))
}

// SchemaText is the JSON Schema of both written forms.
func (Selection) SchemaText() string {
	return `{
		"description": "A scenario: the name of a shipped one, a file, a pattern of either, or a mapping.",
		"oneOf": [
			{"type": "string"},
			{"type": "object", "required": ["scenario"], "additionalProperties": false, "properties": {
				"scenario": {"type": "string", "description": "A shipped scenario, a file, or a pattern of either."},
				"seeds": {"type": "array", "minItems": 1, "description": "Seeds in the place of the suite's.",
					"items": {"$ref": "#/$defs/Range"}},
				"allow": {"$ref": "#/$defs/Allow",
					"description": "Allowances in the place of the suite's and the scenario's."},
				"thresholds": {"type": "array", "items": {"type": "string"},
					"description": "Thresholds besides the suite's and the scenario's."}
			}}
		]
	}`
}

// defaults are what the keys are when they are left out.
func defaults() Config {
	return Config{Cluster: scenarios.Provider{Provider: "embedded"}, Kubernetes: Kubernetes{
		Command: "/dlqbench", Folder: "/campaign", CPU: "1", Memory: "1Gi", Retries: 3,
	}}
}
