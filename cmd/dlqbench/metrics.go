package main

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/dlqbench/dlqbench/internal/livemetrics"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/reports"
)

// metricsFlag is the address at which Prometheus can scrape runs in progress.
type metricsFlag struct{ address string }

func (m *metricsFlag) add(f *pflag.FlagSet) {
	f.StringVar(&m.address, "metrics-addr", "",
		"serve Prometheus metrics of the run at http://ADDRESS/metrics, such as 127.0.0.1:9464")
}

// serve starts the requested server before anything else is started. It shows the following runs until stop is called.
func (m *metricsFlag) serve(a *app) (stop func(), err error) {
	if m.address == "" {
		return func() {}, nil
	}
	metrics := livemetrics.New(programVersion())
	end, err := serveMetrics(m.address, metrics.Handler(), a.logger(a.notes()))
	if err != nil {
		return nil, err
	}
	a.metrics = metrics
	return func() {
		ending, cancel := context.WithTimeout(context.Background(), observeLimit)
		defer cancel()
		end(ending)
		a.metrics = nil
	}, nil
}

// runShown carries out a run that the metrics show, if they are served. If a person is on call, they show neither the
// faults nor the run's name, which often reveals them.
func (a *app) runShown(ctx context.Context, options run.Options, onCall bool) (*run.Outcome, error) {
	if a.metrics == nil {
		return run.Run(ctx, options)
	}
	update, end := a.metrics.Watch()
	watch := options.Watch
	options.Watch = func(snapshot reports.Snapshot) {
		watch(snapshot)
		if onCall {
			snapshot = snapshot.WithoutFaults()
			snapshot.Scenario, snapshot.RunID = "drill", ""
		}
		update(snapshot)
	}
	outcome, err := run.Run(ctx, options)
	verdict := ""
	if outcome != nil && outcome.Verdict != nil {
		verdict = string(outcome.Verdict.Verdict)
	}
	end(verdict)
	return outcome, err
}
