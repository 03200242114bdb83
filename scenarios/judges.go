package scenarios

// What is asked of the packages that judge: which invariants there are, and whether a threshold makes sense.

import (
	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
)

func invariantNames() []string { return assertions.Names() }

func compileThreshold(expression string) error { return measure.CompileThreshold(expression) }
