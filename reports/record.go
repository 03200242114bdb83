package reports

// One record's whole story as text, for a terminal or a pipe.

import (
	"fmt"
	"io"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/history"
)

// Story writes a record's whole story, no event left out, with times on the run's clock. The error is that of w.
func Story(w io.Writer, header history.Header, told assertions.Witness) error {
	summary := told.Summary
	if summary != "" {
		summary += "\n"
	}
	_, err := fmt.Fprintf(w, "%s  %s\nrun %s, scenario %s\n\n%s%s", position(told), name(told.ID), name(header.RunID),
		name(header.Scenario), summary, plainBiography(told, "", len(told.Biography)))
	return err
}
