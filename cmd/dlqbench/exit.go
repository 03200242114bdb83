package main

import (
	"context"
	"errors"
	"strings"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// These are the exit codes. Scripts rely on them (docs/exit-codes.md).
const (
	exitPass         = 0
	exitViolated     = 1
	exitUsage        = 2
	exitEnvironment  = 3
	exitInconclusive = 4
	exitThreshold    = 99
	exitInterrupted  = 130
)

// usageError is an error in the command line.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// exitCode returns the exit code for an error that ended a command. An error before a command's own code ran is a usage
// error. A failure due to the user's interrupt is not an environment error.
func (a *app) exitCode(ctx context.Context, err error) int {
	var (
		usage    usageError
		problems *scenarios.Problems
	)
	switch {
	case ctx.Err() != nil:
		return exitInterrupted
	case !a.started, errors.As(err, &usage), errors.As(err, &problems), errors.Is(err, run.ErrNoRun):
		return exitUsage
	}
	return exitEnvironment
}

// verdictCode is the exit code of a judged run.
func verdictCode(verdict *assertions.Verdict) int {
	switch {
	case verdict.Verdict == assertions.Fail:
		return exitViolated
	case verdict.Verdict == assertions.Inconclusive:
		return exitInconclusive
	case verdict.ThresholdsMissed:
		return exitThreshold
	}
	return exitPass
}

// exitWords explains in a line why a run's exit code is not that of a pass.
func exitWords(code int, err error) string {
	switch {
	case err != nil:
		return strings.ReplaceAll(err.Error(), "\n", "; ")
	case code == exitViolated:
		return "fail"
	case code == exitInconclusive:
		return "inconclusive"
	case code == exitThreshold:
		return "a threshold is missed"
	}
	return "interrupted"
}

// standingCode is the exit code of a gate.
func standingCode(standing reports.Standing) int {
	code, known := map[reports.Standing]int{
		reports.StandingPass: exitPass, reports.StandingInterrupted: exitInterrupted, reports.StandingFail: exitViolated,
		reports.StandingThreshold: exitThreshold, reports.StandingInconclusive: exitInconclusive,
	}[standing]
	if !known {
		return exitEnvironment
	}
	return code
}

// worst returns the code that decides when several runs ended, in the order interrupted, violated, environment,
// inconclusive, threshold, pass.
func worst(a, b int) int {
	for _, code := range []int{exitInterrupted, exitViolated, exitUsage, exitEnvironment, exitInconclusive,
		exitThreshold} {
		if a == code || b == code {
			return code
		}
	}
	return exitPass
}
