package bench

// This file estimates how long the rest of a bench will take, from its completed runs only.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/reports"
)

// Standing is the progress of a bench.
type Standing struct {
	// Done is the number of finished repetitions out of All.
	Done, All int
	// Least and Most bound the remaining time. Measured reports whether they come from runs of this bench. Before the
	// first run, Least is the time of the loads alone, and Most is 0 for unknown.
	Least, Most time.Duration
	Measured    bool
}

// extremes are the shortest and the longest of several times.
type extremes struct{ least, most time.Duration }

func extremesOf(times []time.Duration) (extremes, bool) {
	if len(times) == 0 {
		return extremes{}, false
	}
	return extremes{slices.Min(times), slices.Max(times)}, true
}

// Standing estimates the progress of a bench. A run takes the time of its load, which is known, plus the time for
// starting, draining and judging. That time comes from the runs of the same cell, or of all cells if the cell has fewer
// than two runs.
func (p *Plan) Standing(bench reports.Bench) Standing {
	var all []time.Duration
	besides := make([][]time.Duration, len(p.Cells))
	var probes []int
	for i, cell := range bench.Cells {
		for _, repetition := range cell.Repetitions {
			besides[i] = append(besides[i], p.besides(i, repetition)...)
			if repetition.Search != nil && repetition.Finished() {
				probes = append(probes, len(repetition.Search.Probes))
			}
		}
		all = append(all, besides[i]...)
	}
	standing := Standing{All: len(p.Cells) * len(p.Rounds)}
	ofAll, measured := extremesOf(all)
	standing.Measured = measured
	for i, cell := range p.Cells {
		own := ofAll
		if len(besides[i]) > 1 {
			own, _ = extremesOf(besides[i])
		}
		for round := range p.Rounds {
			repetition, _ := repetitionOf(bench.Cells[i], round+1)
			if len(bench.Cells[i].Repetitions) > 0 && repetition.Run.Verdict != "" && repetition.Finished() {
				standing.Done++
				continue
			}
			least, most := p.runsLeft(repetition, probes)
			standing.Least += time.Duration(least) * (cell.Load + own.least)
			standing.Most += time.Duration(most) * (cell.Load + own.most)
		}
	}
	if !measured {
		standing.Most = 0
	}
	return standing
}

// besides are the times that the runs of a repetition took in addition to their load.
func (p *Plan) besides(cell int, repetition reports.BenchRepetition) (times []time.Duration) {
	runs := []reports.BenchRun{repetition.Run}
	if repetition.Search != nil {
		runs = nil
		for _, probe := range repetition.Search.Probes {
			runs = append(runs, probe.Run)
		}
	}
	for _, run := range runs {
		if run.Error == "" && run.Elapsed > 0 {
			times = append(times, max(run.Elapsed-p.Cells[cell].Load, 0))
		}
	}
	return times
}

// runsLeft is the minimum and maximum number of runs that a repetition still needs. The number of runs of a search is
// known only when it is over, so it is taken from other searches.
func (p *Plan) runsLeft(repetition reports.BenchRepetition, probes []int) (least, most int) {
	if p.Mode != reports.BenchMaxThroughput {
		return 1, 1
	}
	least, most = p.Spec.Search.bounds()
	if len(probes) > 0 {
		least, most = min(slices.Min(probes), most), min(slices.Max(probes)+2, most)
	}
	done := 0
	if repetition.Search != nil {
		done = len(repetition.Search.Probes)
	}
	return max(least-done, 1), max(most-done, 1)
}
