package main

// This file folds the details of runs in the log of a CI job.

import (
	"crypto/rand"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/reports"
)

// folds returns how the log folds that stdout is written to. A terminal does not fold.
func (a *app) folds() reports.Folds {
	if isTerminal(a.stdout) {
		return reports.NoFolds
	}
	return reports.FoldsOf(os.Getenv)
}

// foldedOut is where the progress of a run goes in a log that folds.
func (a *app) foldedOut(flags runFlags) *os.File {
	if flags.onStdout {
		return a.stdout
	}
	return a.stderr
}

// foldRun begins the fold with a run's progress and returns the function that ends it.
func (a *app) foldRun(options run.Options, flags runFlags) (end func()) {
	out := a.foldedOut(flags)
	if flags.silent() || flags.tui || a.logFormat == "json" || isTerminal(out) || a.folds() == reports.NoFolds {
		return func() {}
	}
	title := options.Scenario.Name
	if options.Place != "" {
		title = options.Place + " " + title
	}
	return a.fold(out, title, title)
}

// notInID matches what the id of a fold must not contain.
var notInID = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// fold begins a fold and returns the function that ends it. GitHub Actions follows commands for as long as it takes.
func (a *app) fold(out *os.File, id, title string) (end func()) {
	folds, id := a.folds(), "dlqbench_"+notInID.ReplaceAllString(id, "_")
	a.command(func() { folds.Begin(out, id, title, time.Now()) })
	return func() { a.command(func() { folds.End(out, id, title, time.Now()) }) }
}

// command writes a workflow command, even while others are stopped.
func (a *app) command(write func()) {
	stopped := a.resumeCommands()
	write()
	if stopped {
		a.stopCommands()
	}
}

// stopCommands keeps the output of a consumer from issuing workflow commands to GitHub Actions.
func (a *app) stopCommands() {
	if a.folds() == reports.GitHubFolds {
		a.stopped = rand.Text()
		fmt.Fprintf(a.stdout, "::stop-commands::%s\n", a.stopped)
	}
}

// resumeCommands has GitHub Actions follow workflow commands again. It reports whether they were stopped.
func (a *app) resumeCommands() bool {
	if a.stopped == "" {
		return false
	}
	fmt.Fprintf(a.stdout, "::%s::\n", a.stopped)
	a.stopped = ""
	return true
}

// placeOf is the place of a run among several, "" if there is only one.
func placeOf(index, runs int) string {
	if runs < 2 {
		return ""
	}
	return fmt.Sprintf("%d/%d", index+1, runs)
}
