package bench

import (
	"bytes"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/faults/kafka"
	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/internal/schemagen"
)

var update = flag.Bool("update", false, "write the generated files again")

// TestSchemaIsCurrent compares the stored schema with the Go types and their comments. go generate ./internal/bench
// writes it.
func TestSchemaIsCurrent(t *testing.T) {
	generated, err := schemagen.Generate(schemagen.File{
		Title: "dlqbench bench", Of: Spec{}, Filled: defaults(),
		Base: "github.com/dlqbench/dlqbench/internal/bench", Sources: []string{"spec.go", "../../faults"},
		Name: func(of reflect.Type) string {
			if strings.Contains(of.PkgPath(), "/faults/") {
				return "Fault" + of.Name()
			}
			return of.Name()
		},
		Parts: map[string]any{"FaultKafka": kafka.Kafka{Probability: 1}, "FaultNetwork": network.Network{Toxicity: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("bench.schema.json", generated, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile("bench.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(kept, generated) {
		t.Error("bench.schema.json is not what the types and their comments say: run go generate ./internal/bench")
	}
}
