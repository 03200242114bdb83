// Package metrics owns the Prometheus metrics of dead letters, and the alert rules that go with them. It knows entries
// and the counts of a store, and nothing about workers, routers and Kafka.
//
// Counters belong to one process, a router's or the workers', which feed them as observers. Gauges belong to the store,
// whichever process changed it. Several processes that show the same store show the same gauges.
package metrics

import (
	"cmp"
	"context"
	_ "embed" // alerts.yaml
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/dlqbench/dlqbench/store"
)

//go:embed alerts.yaml
var alerts []byte

// Alerts returns the Prometheus rules file: recording rules for the rates, and the alerts of "Dead Letter Queue
// Lifecycle".
func Alerts() []byte { return slices.Clone(alerts) }

// MaxErrorTypes is the number of error types, the most frequent ones, with series of their own. The others are summed
// as "other". Error types come from outside, and every label value is a series that Prometheus stores.
const MaxErrorTypes = 20

// These are the names of series for several error types, or for none.
const (
	otherTypes = "other"
	noType     = "none"
)

// Source is the store whose counts are shown.
type Source interface {
	Stats(ctx context.Context) (store.Stats, error)
}

// Options configure the metrics.
type Options struct {
	// Every is the maximum age of the store's counts, default 15 s. Counting a million entries is expensive.
	Every time.Duration
	// Timeout is the limit for counting, default 5 s. A store that does not answer has dlq_store_up 0 and no gauges.
	Timeout time.Duration
}

// Metrics observes routers and workers, and reads the counts of a store when it is scraped.
type Metrics struct {
	source   Source
	options  Options
	registry *prometheus.Registry

	ingested      prometheus.Counter
	resolved      *prometheus.CounterVec
	replays       *prometheus.CounterVec
	timeInDLQ     prometheus.Histogram
	notifications prometheus.Counter

	up, backlog, entries, errorTypes, resolutions, oldest *prometheus.Desc

	lock    sync.Mutex
	counted time.Time
	stats   store.Stats
	err     error
}

// New returns metrics in a registry of their own. source may be nil if there are only counters.
func New(source Source, options Options) *Metrics {
	if options.Every <= 0 {
		options.Every = 15 * time.Second
	}
	if options.Timeout <= 0 {
		options.Timeout = 5 * time.Second
	}
	m := &Metrics{source: source, options: options, registry: prometheus.NewRegistry()}
	m.makeCounters()
	m.describe()
	m.registry.MustRegister(m.ingested, m.resolved, m.replays, m.timeInDLQ, m.notifications, gauges{m})
	return m
}

func (m *Metrics) makeCounters() {
	m.ingested = prometheus.NewCounter(prometheus.CounterOpts{Name: "dlq_ingested_total",
		Help: "Dead letters that came into the store."})
	m.resolved = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dlq_resolved_total", Help: "Dead letters that this process resolved, by how.",
	}, []string{"resolution"})
	m.replays = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dlq_replays_total", Help: "Retries of dead letters, by their result (succeeded, failed) and strategy.",
	}, []string{"result", "strategy"})
	m.timeInDLQ = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "dlq_time_in_dlq_seconds", Help: "Time from a dead letter's creation to its resolution.",
		Buckets: []float64{1, 10, 60, 300, 900, 1800, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 7 * 24 * 3600, 30 * 24 * 3600},
	})
	m.notifications = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "dlq_notifications_failed_total", Help: "Notifications that did not reach the webhook's receiver.",
	})
	// These series start at 0, because a rate needs two points, and the first resolution must be visible.
	for _, how := range resolutions() {
		m.resolved.WithLabelValues(how)
	}
	for _, strategy := range strategies() {
		m.replays.WithLabelValues(succeeded, strategy)
		m.replays.WithLabelValues(failed, strategy)
	}
}

// These are the results of an attempt.
const (
	succeeded = "succeeded"
	failed    = "failed"
)

func strategies() []string {
	return []string{string(store.Immediate), string(store.Scheduled), string(store.Conditional), string(store.ByHand)}
}

func resolutions() []string {
	return []string{store.AutomaticRetry, store.ManualRetry, store.ManualResolution}
}

func (m *Metrics) describe() {
	m.up = prometheus.NewDesc("dlq_store_up", "Whether the store answered (1) or not (0).", nil, nil)
	m.backlog = prometheus.NewDesc("dlq_backlog", "Dead letters that are pending.", nil, nil)
	m.entries = prometheus.NewDesc("dlq_entries", "Dead letters in the store, by state.", []string{"state"}, nil)
	m.errorTypes = prometheus.NewDesc("dlq_error_types", fmt.Sprintf("Dead letters in the store, by error type: the %d "+
		"most frequent, and the others together.", MaxErrorTypes), []string{"error_type"}, nil)
	m.resolutions = prometheus.NewDesc("dlq_resolutions", "Resolved dead letters in the store, by how they were.",
		[]string{"resolution"}, nil)
	m.oldest = prometheus.NewDesc("dlq_oldest_pending_timestamp_seconds",
		"When the oldest pending dead letter was created.", nil, nil)
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Registry is the registry of the metrics, for callers that add further metrics to the same page.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Ingested counts the new entries of the store.
func (m *Metrics) Ingested(_ []store.Entry, fresh int) { m.ingested.Add(float64(fresh)) }

// Settled counts the result for an entry. entry is its content when it was claimed.
func (m *Metrics) Settled(entry store.Entry, change store.Change) {
	if attempt := change.Attempt; attempt != nil {
		result := failed
		if attempt.Result == succeeded {
			result = succeeded
		}
		m.replays.WithLabelValues(result, known(string(attempt.Strategy), strategies())).Inc()
	}
	if change.State != store.Resolved {
		return
	}
	end := store.Resolution{How: store.AutomaticRetry}
	if change.Resolution != nil {
		end = *change.Resolution
	}
	if end.At.IsZero() {
		end.At = time.Now()
	}
	m.resolved.WithLabelValues(known(end.How, resolutions())).Inc()
	// The difference between the clocks of store and process may exceed the entry's age.
	m.timeInDLQ.Observe(max(0, end.At.Sub(entry.CreatedAt).Seconds()))
}

// NotificationFailed counts a notification that was given up.
func (m *Metrics) NotificationFailed() { m.notifications.Inc() }

// known restricts label values to the known ones.
func known(value string, values []string) string {
	if slices.Contains(values, value) {
		return value
	}
	return otherTypes
}

// gauges collects the store's counts.
type gauges struct{ *Metrics }

// Describe implements prometheus.Collector.
func (g gauges) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{g.up, g.backlog, g.entries, g.errorTypes, g.resolutions, g.oldest} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (g gauges) Collect(to chan<- prometheus.Metric) {
	if g.source == nil {
		return
	}
	show := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	stats, err := g.count()
	if err != nil {
		show(g.up, 0)
		return
	}
	show(g.up, 1)
	show(g.backlog, float64(stats.ByState[store.Pending]))
	unknown := int64(0)
	for state, count := range stats.ByState {
		if !state.Known() {
			unknown += count
		}
	}
	for _, state := range store.States() {
		show(g.entries, float64(stats.ByState[state]), string(state))
	}
	show(g.entries, float64(unknown), "unknown")
	for name, count := range frequent(stats.ByErrorType) {
		show(g.errorTypes, float64(count), name)
	}
	ways := map[string]int64{}
	for how, count := range stats.Resolutions {
		ways[known(how, resolutions())] += count
	}
	for how, count := range ways {
		show(g.resolutions, float64(count), how)
	}
	if !stats.Oldest.IsZero() {
		show(g.oldest, float64(stats.Oldest.UnixMilli())/1000)
	}
}

// count returns the store's counts, which it caches. It also caches a failure, so that scrapes do not pile up while the
// store is down.
func (m *Metrics) count() (store.Stats, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if !m.counted.IsZero() && time.Since(m.counted) < m.options.Every {
		return m.stats, m.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), m.options.Timeout)
	defer cancel()
	m.stats, m.err = m.source.Stats(ctx)
	m.counted = time.Now()
	return m.stats, m.err
}

// frequent keeps the most frequent error types and sums the others. It converts a type to UTF-8 and cuts it to the
// maximum length of a label.
func frequent(counts map[string]int64) map[string]int64 {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	shown := map[string]int64{}
	for i, name := range names {
		label := otherTypes
		if i < MaxErrorTypes {
			label = labelOf(name)
		}
		shown[label] += counts[name]
	}
	return shown
}

func labelOf(name string) string {
	const longest = 100
	if name == "" {
		return noType
	}
	runes := []rune(strings.ToValidUTF8(name, "�"))
	return string(runes[:min(len(runes), longest)])
}
