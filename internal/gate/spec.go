package gate

import (
	"bytes"
	_ "embed"
	"encoding/json"

	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/scenarios"
)

//go:generate go test -run TestSchemaIsCurrent . -update

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
	// Seeds: every scenario is run once with each of them; default: once, with its own.
	Seeds []uint64 `json:"seeds,omitempty" jsonschema:"minItems=1"`
	// Allow holds allowances that take the place of the scenarios' own.
	Allow scenarios.Allow `json:"allow,omitempty"`
	// Thresholds are judged in every run, besides the scenario's own: "latency.success.p99 < 500ms".
	Thresholds []string `json:"thresholds,omitempty"`
	Cluster    Cluster  `json:"cluster,omitempty"`
	// Budget is how long the whole may take; what does not fit in is not run, and the gate is then inconclusive at
	// best. Default: no limit.
	Budget units.Duration `json:"budget,omitempty"`
	// Require lists invariants that must be judged: one that no run of a subject has judged makes the gate
	// inconclusive.
	Require []string `json:"require,omitempty"`
	// Waive lists known failures.
	Waive []Waiver `json:"waive,omitempty"`
}

// Selection is a scenario, or several: the name of a shipped one, a file, or a pattern with * and ? of either (a
// pattern with a slash or an extension is one of files). In YAML a bare text is the scenario.
type Selection struct {
	Scenario string `json:"scenario"`
	// Seeds, Allow and Thresholds are those of this selection; seeds and allowances take the place of the suite's,
	// thresholds are added.
	Seeds      []uint64        `json:"seeds,omitempty"`
	Allow      scenarios.Allow `json:"allow,omitempty"`
	Thresholds []string        `json:"thresholds,omitempty"`
}

// Cluster is the Kafka to run against, as the flags of dlqbench run say it.
type Cluster struct {
	// Provider: embedded (default), process, docker or external.
	Provider string `json:"provider,omitempty" jsonschema:"enum=embedded,enum=process,enum=docker,enum=external"`
	// KafkaVersion goes with process.
	KafkaVersion string `json:"kafka_version,omitempty"`
	// Image goes with docker.
	Image string `json:"image,omitempty"`
	// Bootstrap goes with external: host:port,host:port.
	Bootstrap string `json:"bootstrap,omitempty"`
	// KafkaConfig goes with external: a properties file with TLS and SASL settings.
	KafkaConfig string `json:"kafka_config,omitempty"`
	// Toxiproxy is the API of a toxiproxy server on this machine, or start: the links are proxies there.
	Toxiproxy string `json:"toxiproxy,omitempty"`
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
					"items": {"type": "integer", "minimum": 0, "maximum": 18446744073709551615}},
				"allow": {"$ref": "#/$defs/Allow",
					"description": "Allowances in the place of the suite's and the scenario's."},
				"thresholds": {"type": "array", "items": {"type": "string"},
					"description": "Thresholds besides the suite's and the scenario's."}
			}}
		]
	}`
}
