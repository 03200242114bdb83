package measure

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// WriteHDR writes one file per latency that has samples, "<name>.hlog", in the HdrHistogram log format 1.3. The line
// without a tag is the whole run (PhaseAll), which the tools show by default. Every phase has a line with its name as
// Tag. Values are in microseconds; a line's times are seconds since the run's start.
func WriteHDR(dir string, m *Measurements) error {
	for name, phases := range m.Histograms {
		samples := int64(0)
		for _, histogram := range phases {
			samples += histogram.TotalCount()
		}
		if samples == 0 {
			continue
		}
		var log bytes.Buffer
		if err := m.writeLog(&log, name, phases); err != nil {
			return fmt.Errorf("encoding the histograms of %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".hlog"), log.Bytes(), 0o644); err != nil {
			return fmt.Errorf("writing the histograms of %s: %w: free space there, or choose another directory", name, err)
		}
	}
	return nil
}

func (m *Measurements) writeLog(log *bytes.Buffer, name string, phases map[string]*hdrhistogram.Histogram) error {
	writer := hdrhistogram.NewHistogramLogWriter(log)
	started := m.Started
	if started.Unix() < 0 {
		started = time.Unix(0, 0) // the format has no times before 1970
	}
	// The format's own header lines have whole seconds, so the base is the second in which the run began.
	base := started.Unix() * 1000
	writer.SetBaseTime(base)
	for _, write := range []func() error{
		func() error { return writer.OutputComment("[dlqbench latency: " + name + ", values in microseconds]") },
		writer.OutputLogFormatVersion,
		func() error { return writer.OutputBaseTime(base) },
		func() error { return writer.OutputStartTime(base) },
		writer.OutputLegend,
	} {
		if err := write(); err != nil {
			return err
		}
	}
	order := slices.SortedFunc(maps.Keys(phases), func(a, b string) int {
		return cmp.Or(cmp.Compare(m.window(a).From, m.window(b).From), cmp.Compare(a, b))
	})
	for _, phase := range order {
		histogram := phases[phase]
		if histogram.TotalCount() == 0 {
			continue
		}
		line := histogram.Clone() // the caller's histograms stay unchanged
		if phase != PhaseAll {
			line.SetTag(phase)
		}
		window := m.window(phase)
		line.SetStartTimeMs(started.Add(window.From).UnixMilli())
		line.SetEndTimeMs(started.Add(window.To).UnixMilli())
		if err := writer.OutputIntervalHistogram(line); err != nil {
			return err
		}
	}
	return nil
}

// window returns the phase from its first beginning to its last end; PhaseAll is the whole run.
func (m *Measurements) window(name string) Phase {
	window, found := Phase{Name: name}, false
	for _, phase := range m.Phases {
		if phase.Name != name && name != PhaseAll {
			continue
		}
		if !found {
			window.From, found = max(phase.From, time.Duration(0)), true
		}
		window.To = max(window.To, phase.To)
	}
	return window
}
