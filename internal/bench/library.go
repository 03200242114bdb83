package bench

// This file gives access to the shipped benches.

import (
	"embed"

	"github.com/dlqbench/dlqbench/scenarios"
)

//go:embed library/*.yaml
var library embed.FS

// Names returns the names of the shipped benches, sorted.
func Names() []string { return shipped().Names() }

// Find returns the bench for an argument: a shipped one by its name, otherwise a file. The error suggests likely
// alternatives.
func Find(arg string) (name string, data []byte, err error) { return shipped().Find(arg) }

func shipped() scenarios.Library { return scenarios.Library{What: "bench", Files: library} }
