package reports

import (
	"strings"

	"github.com/dlqbench/dlqbench/assertions"
)

// promise describes in a sentence what an invariant requires of a consumer, for readers who do not know its name.
func promise(invariant string) string {
	if about := assertions.Explain(base(invariant)); len(about) > 0 {
		return about[0].Promise
	}
	return ""
}

// base returns the name of an invariant without the node of a graph, or the service, that it was judged of.
func base(invariant string) string {
	if _, ofNode, found := strings.Cut(invariant, "/"); found {
		return ofNode
	}
	return invariant
}
