package reports

import (
	"strings"

	"github.com/dlqbench/dlqbench/assertions"
)

// promise says in a sentence what an invariant holds a consumer to, for readers who do not know its name yet.
func promise(invariant string) string {
	if _, ofNode, found := strings.Cut(invariant, "/"); found {
		invariant = ofNode // that of one node of a graph, or of one of several services
	}
	if about := assertions.Explain(invariant); len(about) > 0 {
		return about[0].Promise
	}
	return ""
}
