package gate

import (
	"testing"

	"github.com/dlqbench/dlqbench/internal/schemagen"
	"github.com/dlqbench/dlqbench/internal/testkit/golden"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// TestSchemaIsCurrent compares the stored schema with the Go types and their comments. go generate ./internal/gate
// writes it.
func TestSchemaIsCurrent(t *testing.T) {
	generated := must.Get(schemagen.Generate(schemagen.File{
		Title: "dlqbench gate", Of: Config{}, Filled: defaults(),
		Base: "github.com/dlqbench/dlqbench/internal/gate", Sources: []string{"spec.go"},
	}))(t)
	golden.Check(t, "gate.schema.json", string(generated))
}
