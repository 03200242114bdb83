package bench

// This file measures the stretches of a run's load: the thirds of a long run, or the steps of a rising one.

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports"
)

const (
	// kneeFactor is the factor by which a step's p99 exceeds that of the calmest earlier step if the step is past the
	// knee. It must also exceed it by kneeFloor.
	kneeFactor = 4
	kneeFloor  = 20 * time.Millisecond
	// thirds is the number of parts in which a long run is compared.
	thirds = 3
)

// window is a stretch of a run's load, on the run's clock.
type window struct {
	from, to time.Duration
	rate     float64
}

// windows are the steps of a run's load, or its thirds if it has no steps.
func (c PlannedCell) windows(m *measure.Measurements) (windows []window) {
	at, found := steadyFrom(m)
	if !found {
		return nil
	}
	if len(c.Stretches) > 1 {
		for _, step := range c.Stretches {
			windows = append(windows, window{at, at + step.For.D(), step.Rate.PerSecond()})
			at += step.For.D()
		}
		return windows
	}
	for i := range time.Duration(thirds) {
		steady := c.Load - c.WarmUp
		windows = append(windows, window{at + i*steady/thirds, at + (i+1)*steady/thirds, c.Rate})
	}
	return windows
}

// steadyFrom is the start of the load proper.
func steadyFrom(m *measure.Measurements) (at time.Duration, found bool) {
	for _, phase := range m.Phases {
		if phase.Name == history.PhaseSteady {
			return phase.From, true
		}
	}
	return 0, false
}

// backlogGrowth is the growth of the backlog in records per second from the end of the load's first third to its end.
func backlogGrowth(cell PlannedCell, m *measure.Measurements) float64 {
	from, found := steadyFrom(m)
	steady := cell.Load - cell.WarmUp
	if !found || steady <= 0 {
		return 0
	}
	between := steady - steady/thirds
	return (backlog(m, from+steady) - backlog(m, from+steady/thirds)) / between.Seconds()
}

// backlog is the number of records sent but not finished at the time. Records that never finish, such as skipped ones,
// are subtracted by their share.
func backlog(m *measure.Measurements, at time.Duration) float64 {
	return until(m.Series.Sent, m.Series.Step, at)*endingShare(m) - until(m.Series.Processed, m.Series.Step, at)
}

// endingShare is the share of sent records that finished by the end of the run. If the run did not get there, all are
// expected to finish.
func endingShare(m *measure.Measurements) float64 {
	sent, ended := 0.0, 0.0
	for _, n := range m.Series.Sent {
		sent += n
	}
	for _, n := range m.Series.Processed {
		ended += n
	}
	if !m.Drained || sent == 0 {
		return 1
	}
	return min(ended/sent, 1)
}

// until sums a curve of counts up to a time. The step that contains the time counts in proportion.
func until(curve []float64, step, at time.Duration) float64 {
	sum := 0.0
	for i, n := range curve {
		begin := time.Duration(i) * step
		switch {
		case begin+step <= at:
			sum += n
		case begin < at:
			sum += n * float64(at-begin) / float64(step)
		}
	}
	return sum
}

// parts measures the stretches of a run. Latencies are those of the records scheduled in a stretch, whenever they
// finished. The run's own measurements have them by phase only, so the history is read once more.
func parts(cell PlannedCell, run reports.Run) ([]reports.BenchPart, error) {
	m := run.Measurements
	if m == nil {
		return nil, nil
	}
	windows := cell.windows(m)
	successes, err := successesIn(filepath.Join(run.Dir, "history"), run.Header.Records, windows)
	if err != nil {
		return nil, err
	}
	var out []reports.BenchPart
	for i, w := range windows {
		seconds := (w.to - w.from).Seconds()
		between := func(curve []float64) float64 {
			return (until(curve, m.Series.Step, w.to) - until(curve, m.Series.Step, w.from)) / seconds
		}
		out = append(out, reports.BenchPart{
			From: w.from, To: w.to, Rate: w.rate, Sent: between(m.Series.Sent), Processed: between(m.Series.Processed),
			Success: successes[i], Backlog: int64(max(backlog(m, w.to), 0)),
		})
	}
	return out, nil
}

// successesIn returns the latencies from the scheduled time to the first success, by the stretch that contains the
// scheduled time.
func successesIn(dir string, records int, windows []window) ([]measure.Quantiles, error) {
	reader, err := history.OpenPartial(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the history of the run for its parts: %w", err)
	}
	intended := make([]time.Duration, records)
	histograms := make([]*hdrhistogram.Histogram, len(windows))
	for i := range histograms {
		histograms[i] = hdrhistogram.New(1, int64(10*time.Minute/time.Microsecond), 3)
	}
	err = reader.Each(func(e *history.Event) error {
		if e.Record < 0 || int(e.Record) >= records {
			return nil
		}
		switch {
		case e.Kind == history.KindSend && e.Flags&(history.Warmup|history.Repeated) == 0:
			intended[e.Record] = time.Duration(e.Aux)
		case e.Kind == history.KindAttemptEnd && e.Outcome == history.OutcomeSuccess && intended[e.Record] > 0:
			for i, w := range windows {
				if at := intended[e.Record]; at >= w.from && at < w.to {
					micros := min(max(e.Time-at, 0), 10*time.Minute) / time.Microsecond
					_ = histograms[i].RecordValue(int64(micros)) // in range: see the line above
				}
			}
			intended[e.Record] = 0 // a second success is a duplicate
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the history of the run for its parts: %w", err)
	}
	out := make([]measure.Quantiles, len(windows))
	for i, h := range histograms {
		out[i] = measure.QuantilesOf(h)
	}
	return out, nil
}

// knee finds the first step with which the consumer did not keep up. A step that the load generator did not send as
// planned ends the search, because the results of it and the steps above it would prove nothing. The same applies to a
// run whose harness was disturbed.
func knee(parts []reports.BenchPart, disturbed []string) *reports.BenchKnee {
	out := &reports.BenchKnee{Parts: parts, Limit: reports.BenchLimitHighest}
	if len(parts) == 0 {
		out.Limit, out.Why = reports.BenchLimitHarness, "no load was measured"
		return out
	}
	calm, before := time.Duration(0), int64(0)
	for _, part := range parts {
		if out.Why, out.Limit = fallsBehind(part, calm, before); out.Why != "" {
			out.Above = part.Rate
			break
		}
		out.Rate, before = part.Rate, part.Backlog
		if calm == 0 || part.Success.P99 < calm {
			calm = part.Success.P99
		}
	}
	switch {
	case out.Limit != reports.BenchLimitConsumer:
	case len(disturbed) > 0:
		out.Limit, out.Why = reports.BenchLimitHarness, out.Why+"; but "+strings.Join(disturbed, "; ")
	case out.Rate == 0:
		out.Limit = reports.BenchLimitNone
	}
	return out
}

// fallsBehind returns the evidence that the consumer did not keep up with a step, and the cause; "" if it kept up. calm
// is the p99 of the calmest earlier step, before the backlog after the last step.
func fallsBehind(part reports.BenchPart, calm time.Duration, before int64) (why string, limit reports.BenchLimit) {
	seconds := (part.To - part.From).Seconds()
	grown := float64(part.Backlog-before) / seconds
	switch {
	case part.Sent < leastSent*part.Rate:
		return fmt.Sprintf("the load generator did not keep the rate: %s were sent", units.PerSecond(part.Sent)),
			reports.BenchLimitHarness
	case grown > growing*part.Rate && grown*seconds > fewRecords:
		return fmt.Sprintf("the backlog grew by %.0f records/s", grown), reports.BenchLimitConsumer
	case calm > 0 && part.Success.P99 > kneeFactor*calm && part.Success.P99 > calm+kneeFloor:
		return fmt.Sprintf("the p99 of successes went from %s to %s", units.Text(calm), units.Text(part.Success.P99)),
			reports.BenchLimitConsumer
	}
	return "", reports.BenchLimitHighest
}
