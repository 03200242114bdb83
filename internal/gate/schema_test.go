package gate

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/dlqbench/dlqbench/internal/schemagen"
)

var update = flag.Bool("update", false, "write the generated files again")

// TestSchemaIsCurrent compares the stored schema with the Go types and their comments. go generate ./internal/gate
// writes it.
func TestSchemaIsCurrent(t *testing.T) {
	generated, err := schemagen.Generate(schemagen.File{
		Title: "dlqbench gate", Of: Config{}, Filled: defaults(),
		Base: "github.com/dlqbench/dlqbench/internal/gate", Sources: []string{"spec.go"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("gate.schema.json", generated, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile("gate.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(kept, generated) {
		t.Error("gate.schema.json is not what the types and their comments say: run go generate ./internal/gate")
	}
}
