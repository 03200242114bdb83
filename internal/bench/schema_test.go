package bench

import (
	"reflect"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/faults/kafka"
	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/internal/schemagen"
	"github.com/dlqbench/dlqbench/internal/testkit/golden"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// TestSchemaIsCurrent compares the stored schema with the Go types and their comments. go generate ./internal/bench
// writes it.
func TestSchemaIsCurrent(t *testing.T) {
	generated := must.Get(schemagen.Generate(schemagen.File{
		Title: "dlqbench bench", Of: Spec{}, Filled: defaults(),
		Base: "github.com/dlqbench/dlqbench/internal/bench", Sources: []string{"spec.go", "../../faults"},
		Name: func(of reflect.Type) string {
			if strings.Contains(of.PkgPath(), "/faults/") {
				return "Fault" + of.Name()
			}
			return of.Name()
		},
		Parts: map[string]any{"FaultKafka": kafka.Kafka{Probability: 1}, "FaultNetwork": network.Network{Toxicity: 1}},
	}))(t)
	golden.Check(t, "bench.schema.json", string(generated))
}
