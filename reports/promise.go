package reports

import (
	"strings"

	"github.com/dlqbench/dlqbench/assertions"
)

// promise describes in a sentence what an invariant requires of a consumer, for readers who do not know its name.
func promise(invariant string) string {
	if _, ofNode, found := strings.Cut(invariant, "/"); found {
		invariant = ofNode // the invariant of one node of a graph, or of one of several services
	}
	if about := assertions.Explain(invariant); len(about) > 0 {
		return about[0].Promise
	}
	return ""
}
