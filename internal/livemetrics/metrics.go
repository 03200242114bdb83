// Package livemetrics owns the Prometheus metrics of runs in progress. It knows the snapshots of a run and nothing
// about their origin. Serving the metrics belongs to its callers.
//
//	run ──snapshots──▶ Watch ──▶ the newest of each slot ◀── scrape
//
// A process may carry out many runs, one after another or several at a time. Each takes the lowest free slot, and its
// series carry the slot and the scenario's name. There are therefore never more series than concurrent runs need, and
// counters start anew with each run, like those of a restarted process. The last values of a run remain until another
// run takes its slot, so that the last scrape misses nothing.
package livemetrics

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/dlqbench/dlqbench/reports"
)

// Metrics shows the runs of this process. It is safe for concurrent use and starts no goroutine.
type Metrics struct {
	registry *prometheus.Registry
	finished *prometheus.CounterVec
	families families

	mu    sync.Mutex
	slots []*slot
}

// slot holds a run's snapshots.
type slot struct {
	busy, shown bool
	last        reports.Snapshot
}

// New returns metrics in a registry of their own. version is that of dlqbench.
func New(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), families: describe()}
	m.finished = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "runs_finished_total",
		Help: "Runs of this process that have ended, by verdict (error: nothing could be judged).",
	}, []string{"verdict"})
	for _, verdict := range verdicts() {
		m.finished.WithLabelValues(verdict) // start at 0, so that the first failure is visible
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: prefix + "build_info", Help: "The version of dlqbench; always 1.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	m.registry.MustRegister(m.finished, build, collector{m})
	return m
}

// noVerdict stands for a run that could not be judged.
const noVerdict = "error"

func verdicts() []string { return []string{"pass", "fail", "inconclusive", noVerdict} }

// Watch takes a slot for a run. update takes the run's snapshots. end releases the slot with the run's verdict, or ""
// if it has none.
func (m *Metrics) Watch() (update func(reports.Snapshot), end func(verdict string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := slices.IndexFunc(m.slots, func(s *slot) bool { return !s.busy })
	if at < 0 {
		at = len(m.slots)
		m.slots = append(m.slots, &slot{})
	}
	mine := m.slots[at]
	*mine = slot{busy: true}
	update = func(snapshot reports.Snapshot) {
		m.mu.Lock()
		defer m.mu.Unlock()
		mine.last, mine.shown = snapshot, true
	}
	return update, func(verdict string) {
		if !slices.Contains(verdicts(), verdict) {
			verdict = noVerdict
		}
		m.finished.WithLabelValues(verdict).Inc()
		m.mu.Lock()
		defer m.mu.Unlock()
		mine.busy = false
		// Faults in force at the end are not in force any more.
		mine.last.Phase, mine.last.ActiveFaults = "", nil
	}
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Registry is the registry of the metrics.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// runs returns the newest snapshots by slot; nil for an empty slot.
func (m *Metrics) runs() []*reports.Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	var newest []*reports.Snapshot
	for _, one := range m.slots {
		var last *reports.Snapshot
		if one.shown {
			last = &reports.Snapshot{}
			*last = one.last
		}
		newest = append(newest, last)
	}
	return newest
}

// topicOf is a topic's name without the run's id, which would create new series for each run.
func topicOf(snapshot *reports.Snapshot, topic string) string {
	return strings.TrimPrefix(topic, snapshot.RunID+".")
}
