package gate

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/dlqbench/dlqbench/internal/schemagen"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

var update = flag.Bool("update", false, "write the generated files again")

// TestSchemaIsCurrent compares the stored schema with the Go types and their comments. go generate ./internal/gate
// writes it.
func TestSchemaIsCurrent(t *testing.T) {
	generated := must.Get(schemagen.Generate(schemagen.File{
		Title: "dlqbench gate", Of: Config{}, Filled: defaults(),
		Base: "github.com/dlqbench/dlqbench/internal/gate", Sources: []string{"spec.go"},
	}))(t)
	if *update {
		must.Do(t, os.WriteFile("gate.schema.json", generated, 0o644))
	}
	kept := must.Get(os.ReadFile("gate.schema.json"))(t)
	if !bytes.Equal(kept, generated) {
		t.Error("gate.schema.json is not what the types and their comments say: run go generate ./internal/gate")
	}
}
