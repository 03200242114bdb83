package main

// This file takes the measurements: in turns, and by processor time in addition to wall-clock time, which is unreliable
// on a busy machine.

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// sample is the cost of processing a number of items in one measurement.
type sample struct {
	wall, cpu time.Duration
	count     int
}

func (s sample) perSecond() float64    { return float64(s.count) / s.wall.Seconds() }
func (s sample) cpuPerSecond() float64 { return float64(s.count) / s.cpu.Seconds() }
func (s sample) cpuMicros() float64    { return s.cpu.Seconds() * 1e6 / float64(s.count) }

// take measures one call of do that processes count items. It collects garbage of earlier measurements first, so that
// this one does not pay for it.
func take(count int, do func() error) (sample, error) {
	runtime.GC()
	cpu, start := processorTime(syscall.RUSAGE_SELF), time.Now()
	err := do()
	return sample{wall: time.Since(start), cpu: processorTime(syscall.RUSAGE_SELF) - cpu, count: count}, err
}

// processorTime is the processor time used so far by this process, or by its children that have ended.
func processorTime(who int) time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(who, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// inTurns measures every way once per round, in turns, after one round that does not count. Every other round runs in
// reverse order, so that none always comes first. It returns the samples by way.
func inTurns(rounds int, ways []func() (sample, error)) ([][]sample, error) {
	all := make([][]sample, len(ways))
	for round := range rounds + 1 {
		for i := range ways {
			if round%2 == 1 {
				i = len(ways) - 1 - i
			}
			one, err := ways[i]()
			if err != nil {
				return nil, err
			}
			if round > 0 {
				all[i] = append(all[i], one)
			}
		}
	}
	return all, nil
}

// ratios compares a figure of two ways, round by round.
func ratios(name, goal string, way, base []sample, figure func(sample) float64, unit string) row {
	var values []float64
	for i := range way {
		values = append(values, figure(way[i])/figure(base[i]))
	}
	r := summary(name, "×", values)
	r.Goal = goal
	r.Detail = fmt.Sprintf("%s against %s", number(summary("", "", each(way, figure)).Value, unit),
		number(summary("", "", each(base, figure)).Value, unit))
	return r
}

func each(samples []sample, figure func(sample) float64) []float64 {
	var values []float64
	for _, s := range samples {
		values = append(values, figure(s))
	}
	return values
}

// summary returns a row that summarizes several measurements of one figure.
func summary(name, unit string, values []float64) row {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return row{Name: name, Unit: unit}
	}
	median := (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
	return row{Name: name, Unit: unit, Value: median, Min: sorted[0], Max: sorted[len(sorted)-1], Count: len(sorted)}
}
