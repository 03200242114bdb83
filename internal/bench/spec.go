package bench

import (
	"bytes"
	_ "embed"
	"encoding/json"

	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/scenarios"
)

//go:generate env UPDATE_GOLDEN=1 go test -run TestSchemaIsCurrent .

//go:embed bench.schema.json
var schemaText []byte

// Schema returns the JSON Schema (draft 2020-12) of a bench's file.
func Schema() ([]byte, error) { return bytes.Clone(schemaText), nil }

// Spec is a bench's file, decoded. Paths in it are relative to its folder. Settings are paths of the scenario as
// dlqbench run --set takes them; where the subject is a subject.yaml, subject.KEY is the KEY of that file:
// subject.env.CONCURRENCY.
type Spec struct {
	// Name is short and file-name safe: lower-case letters, digits, dashes.
	Name string `json:"name" jsonschema:"required,pattern=^[a-z0-9][a-z0-9-]{0\\,63}$"`
	// Description says what is to be found out.
	Description string `json:"description,omitempty"`
	// Scenario is what every cell runs, with its settings: the name of a shipped one, or a file.
	Scenario string `json:"scenario" jsonschema:"required"`
	// Subject is the subject.yaml of the consumer; default: the scenario's own.
	Subject string             `json:"subject,omitempty"`
	Cluster scenarios.Provider `json:"cluster,omitempty"`
	// Set holds settings of all cells.
	Set scenarios.Settings `json:"set,omitempty"`
	// Matrix holds settings with lists of values, which are crossed.
	Matrix map[string][]scenarios.Value `json:"matrix,omitempty"`
	// Cells are listed instead of crossed.
	Cells []Cell `json:"cells,omitempty" jsonschema:"minItems=1"`
	// Workloads are named settings, such as {calm: {workload.rate: 100/s}}, which are crossed with the cells.
	Workloads map[string]scenarios.Settings `json:"workloads,omitempty"`
	// Faults are named lists of faults in the place of the scenario's, which are crossed with the cells.
	Faults map[string][]Fault `json:"faults,omitempty"`
	// Repetitions of each cell: a difference is told from chance only where there are at least 5, the default.
	Repetitions int `json:"repetitions,omitempty" jsonschema:"minimum=1,maximum=100"`
	// Seed of the plan, the same for all runs, and of the order in which they are run; default: the scenario's.
	Seed *uint64 `json:"seed,omitempty"`
	// Mode: fixed (default) measures at the scenario's load; max-throughput searches for the highest rate that holds
	// the bound and loses nothing; soak compares the thirds of a long run; step raises the load until it is not kept up
	// with.
	Mode string `json:"mode,omitempty" jsonschema:"enum=fixed,enum=max-throughput,enum=soak,enum=step"`
	// Bound goes with max-throughput: what must hold, as a threshold: latency.success.p99 < 200ms.
	Bound string `json:"bound,omitempty"`
	// Search goes with max-throughput.
	Search Search `json:"search,omitempty"`
	// Steps go with step: the load in the place of the scenario's.
	Steps []scenarios.Step `json:"steps,omitempty" jsonschema:"minItems=2"`
}

// Cell is a combination of settings under a name.
type Cell struct {
	// Name tells it from the others.
	Name string `json:"name" jsonschema:"required,pattern=^[A-Za-z0-9][A-Za-z0-9 ._-]{0\\,63}$"`
	// Subject is the subject.yaml of this cell's consumer, in the place of the bench's.
	Subject string             `json:"subject,omitempty"`
	Set     scenarios.Settings `json:"set,omitempty"`
}

// Search says where the highest rate is searched for.
type Search struct {
	// Lowest is the rate that is tried first; default: the scenario's rate.
	Lowest units.Rate `json:"lowest,omitempty"`
	// Highest is not exceeded; default 100000/s.
	Highest units.Rate `json:"highest,omitempty"`
	// Precision ends the search: the share by which the lowest rate that does not hold may lie above the highest that
	// does; default 10%.
	Precision units.Percent `json:"precision,omitempty"`
}

// Fault is a fault as a scenario has it.
type Fault struct {
	catalogue.Spec
	written json.RawMessage
}

// UnmarshalJSON keeps what was written: it is handed on to the scenario.
func (f *Fault) UnmarshalJSON(data []byte) error {
	f.written = bytes.Clone(data)
	return json.Unmarshal(data, &f.Spec)
}

// MarshalJSON writes what was read.
func (f Fault) MarshalJSON() ([]byte, error) { return f.written, nil }

// defaults are what a file's keys are when they are left out.
func defaults() Spec {
	return Spec{
		Cluster: scenarios.Provider{Provider: "embedded"}, Repetitions: 5, Mode: "fixed",
		Search: Search{Highest: 100_000, Precision: 0.1},
	}
}
