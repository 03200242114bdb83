package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/reports"
)

func (a *app) showRecordCommand() *cobra.Command {
	var out string
	command := &cobra.Command{
		Use: "show-record RUN ID", Short: "Print the trace of one record of a stored run", Args: takes(2, 2),
		Long: `Print the trace of one record from a run's history: when it was sent, which instances fetched it, every attempt
with its outcome, retry copies and dead letters, the commits that covered it, and restarts, rebalances and faults
meanwhile. Times count from the start of the run.

RUN is a run directory, its name or id, or latest. ID is the record's number, its id from the value or header, or a
current or former position: TOPIC/PARTITION/OFFSET.`,
		Example: `  dlqbench show-record latest 17
  dlqbench show-record latest input/0/3`,
		ValidArgsFunction: completeDirectories,
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := findRun(args[0], out)
			if err != nil {
				return err
			}
			reader, err := history.OpenPartial(filepath.Join(dir, "history"))
			if err != nil {
				return fmt.Errorf("opening the history of %s: %w", dir, err)
			}
			number, err := findRecord(reader, args[1])
			if err != nil {
				return usageOf(err)
			}
			told, err := assertions.Trace(reader, number)
			if err != nil {
				return usageOf(err)
			}
			return reports.Trace(a.stdout, reader.Header(), told)
		},
	}
	lookedUpIn(command, &out)
	return command
}

// usageOf turns a query for something that does not exist into a usage error.
func usageOf(err error) error {
	if errors.Is(err, assertions.ErrNoRecord) {
		return usageError{err}
	}
	return err
}

// findRecord returns the number of the record that text names.
func findRecord(reader *history.Reader, text string) (int32, error) {
	header := reader.Header()
	if number, err := strconv.ParseInt(text, 10, 32); err == nil && number >= 0 {
		return int32(number), nil
	}
	if number, found := header.IDs().Find([]byte(text)); found {
		return number, nil
	}
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return 0, usageError{fmt.Errorf(
			"looking for record %q: give its number (0 to %d), its id (such as %s), or TOPIC/PARTITION/OFFSET",
			text, header.Records-1, header.IDs().Token(0))}
	}
	partition, err := strconv.ParseInt(parts[1], 10, 32)
	if err != nil {
		return 0, usageError{fmt.Errorf("looking for record %q: the partition %q is not a number", text, parts[1])}
	}
	offset, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return 0, usageError{fmt.Errorf("looking for record %q: the offset %q is not a number", text, parts[2])}
	}
	return assertions.RecordAt(reader, parts[0], int32(partition), offset)
}
