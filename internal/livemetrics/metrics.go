// Package livemetrics owns what Prometheus is told of a run while it goes on. It knows the snapshots that a run shows
// of itself and nothing of how they come about; who serves the metrics, and where, is not its business.
//
//	run ──snapshots──▶ Watch ──▶ the newest of each slot ◀── scrape
//
// A process may carry out many runs, one after another or a few at a time. Each takes the lowest slot that is free, and
// its series carry the slot and the scenario's name: so there are never more series than runs at a time need, and
// counters begin anew with each run, as those of a process that was started again. What a run showed last stays until
// another one takes its slot, so that the last scrape misses nothing.
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

// slot is where a run's snapshots go.
type slot struct {
	busy, shown bool
	last        reports.Snapshot
}

// New returns metrics in a registry of their own; version is dlqbench's.
func New(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), families: describe()}
	m.finished = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "runs_finished_total",
		Help: "Runs of this process that have ended, by verdict (error: nothing could be judged).",
	}, []string{"verdict"})
	for _, verdict := range verdicts() {
		m.finished.WithLabelValues(verdict) // series that begin at 0: the first failure must not go unseen
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

// Watch takes a slot for a run, whose snapshots update is then told; end gives the slot free with the run's verdict, ""
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
		// What was in force at the end is not in force any more.
		mine.last.Phase, mine.last.ActiveFaults = "", nil
	}
}

// Handler shows the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Registry is where the metrics are.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// runs are the newest snapshots, by slot; nil where a slot has none.
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

// topicOf is a topic's name without the run's id, which would make new series for each run.
func topicOf(snapshot *reports.Snapshot, topic string) string {
	return strings.TrimPrefix(topic, snapshot.RunID+".")
}
