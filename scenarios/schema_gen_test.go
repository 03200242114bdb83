package scenarios

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

// TestSchemasAreCurrent holds the kept schemas to the Go types and their comments; go generate ./scenarios writes them.
func TestSchemasAreCurrent(t *testing.T) {
	for _, file := range []struct {
		name, title string
		of, filled  any
	}{
		{"scenario.schema.json", "dlqbench scenario", Scenario{}, defaultScenario()},
		{"subject.schema.json", "dlqbench subject", SubjectFile{}, defaultSubject()},
	} {
		generated := generateSchema(t, file.title, file.of, file.filled)
		if *update {
			if err := os.WriteFile(file.name, generated, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		kept, err := os.ReadFile(file.name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(kept, generated) {
			t.Errorf("%s is not what the types and their comments say: run go generate ./scenarios", file.name)
		}
	}
}

func generateSchema(t *testing.T, title string, of, filled any) []byte {
	t.Helper()
	text, err := schemagen.Generate(schemagen.File{
		Title: title, Of: of, Filled: filled, Base: "github.com/dlqbench/dlqbench/scenarios",
		Sources: []string{"spec.go", "graph.go", "drill.go", "store.go", "subject_store.go", "subject_spec.go",
			"subject_input.go", "subject_downstream.go", "subject_external.go", "subject_deployment.go",
			"../faults", "../consumer/config.go"},
		Name: func(of reflect.Type) string {
			if strings.Contains(of.PkgPath(), "/faults/") {
				return "Fault" + of.Name() // both packages have a Subject
			}
			return of.Name()
		},
		Parts: map[string]any{
			"Reference":      defaultReference(),
			"Replay":         defaultReplay(),
			"Input":          defaultInput(),
			"External":       defaultExternal(),
			"Route":          Route{Status: 200},
			"Store":          defaultStore(),
			"StoreRetention": defaultRetention(),
			"FaultKafka":     kafka.Kafka{Probability: 1},
			"FaultNetwork":   network.Network{Toxicity: 1},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}
