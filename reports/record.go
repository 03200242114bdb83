package reports

// This file writes one record's whole trace as text, for a terminal or a pipe.

import (
	"fmt"
	"io"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/history"
)

// Trace writes a record's whole trace without omissions, with times on the run's clock. It returns the error of w.
func Trace(w io.Writer, header history.Header, told assertions.Counterexample) error {
	summary := told.Summary
	if summary != "" {
		summary += "\n"
	}
	columns := 0
	if onTerminal(w) {
		columns = Columns(w)
	}
	head := fmt.Sprintf("%s  %s\nrun %s, scenario %s\n\n%s", position(told), name(told.ID), name(header.RunID),
		name(header.Scenario), summary)
	_, err := io.WriteString(w, Flow(w, head)+plainTrace(told, "", len(told.Trace), columns))
	return err
}
