package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/dlqbench/dlqbench/internal/harness"
)

// printEstimates says how long the runs will take, one after another.
func (a *app) printEstimates(all []harness.Options) error {
	var usual, most time.Duration
	out := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, options := range all {
		estimate, err := harness.EstimateRun(options)
		if err != nil {
			return usageError{fmt.Errorf("estimating %s: %w", options.Scenario.Name, err)}
		}
		one, longest := estimate.Total()
		usual, most = usual+one, most+longest
		fmt.Fprintf(out, "%s\tabout %s\tat most %s\n", estimate.Scenario, seconds(one), seconds(longest))
		for _, part := range estimate.Parts {
			fmt.Fprintf(out, "  %s\t%s\t%s\t%s\n", part.Name, seconds(part.Usual), seconds(part.Most), part.Why)
		}
	}
	if len(all) > 1 {
		fmt.Fprintf(out, "%d runs, one after another\tabout %s\tat most %s\n", len(all), seconds(usual), seconds(most))
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("printing the estimate: %w", err)
	}
	return nil
}

// seconds rounds a time to tenths of a second.
func seconds(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }
