package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dlqbench/dlqbench/internal/gate"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/internal/units"
)

// printEstimates prints the estimated durations of the runs, one after another.
func (a *app) printEstimates(all []run.Options) error {
	var usual, most time.Duration
	out := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, options := range all {
		estimate, err := estimateRun(options)
		if err != nil {
			return err
		}
		total := estimate.Total()
		usual, most = usual+total.Usual, most+total.Most
		fmt.Fprintf(out, "%s\tabout %s\tat most %s\n", estimate.Scenario, seconds(total.Usual), seconds(total.Most))
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

func estimateRun(options run.Options) (run.Estimate, error) {
	estimate, err := run.EstimateRun(options)
	if err != nil {
		return estimate, usageError{fmt.Errorf("estimating %s: %w", options.Scenario.Name, err)}
	}
	return estimate, nil
}

// forecast is the estimate for a gate's run, with the parts that take most of the time.
func forecast(estimate run.Estimate) gate.Forecast {
	total := estimate.Total()
	var parts []string
	for _, part := range estimate.Parts {
		if part.Usual >= total.Usual/20 {
			parts = append(parts, part.Name+" "+units.Text(part.Usual))
		}
	}
	return gate.Forecast{Least: total.Least, Usual: total.Usual, Most: total.Most, Parts: strings.Join(parts, ", ")}
}

// seconds formats a time rounded to tenths of a second.
func seconds(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }
