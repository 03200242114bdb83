// Package alerts evaluates the shipped alert rules, as they are in the file, with Prometheus' own engine against what
// the collector really shows. It is a module of its own because Prometheus is large.
package alerts

import (
	"context"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/metrics"
)

// How often Prometheus scrapes and evaluates here.
const step = 15 * time.Second

// counts is what the store says.
type counts struct{ stats store.Stats }

func (c *counts) Stats(context.Context) (store.Stats, error) { return c.stats, nil }

// process is one that shows metrics; several show one store.
type process struct {
	*metrics.Metrics
	name string
}

// world is a Prometheus that scrapes processes, in a time of its own.
type world struct {
	t         *testing.T
	now       time.Time
	db        *tsdb.DB
	groups    []*rules.Group
	source    *counts
	processes []process
}

func newWorld(t *testing.T, processes ...string) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 2, 11, 12, 0, 0, 0, time.UTC), source: &counts{}}
	var err error
	if w.db, err = tsdb.Open(t.TempDir(), nil, nil, tsdb.DefaultOptions(), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.db.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, name := range processes {
		w.processes = append(w.processes, process{metrics.New(w.source, metrics.Options{Every: time.Nanosecond}), name})
	}
	w.loadRules()
	return w
}

func (w *world) loadRules() {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "alerts.yaml")
	if err := os.WriteFile(file, metrics.Alerts(), 0o600); err != nil {
		w.t.Fatal(err)
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute})
	manager := rules.NewManager(&rules.ManagerOptions{
		ExternalURL: &url.URL{}, QueryFunc: rules.EngineQueryFunc(engine, w.db), Appendable: w.db, Queryable: w.db,
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Context: w.t.Context(),
	})
	groups, errs := manager.LoadGroups(step, labels.EmptyLabels(), "", nil, false, file)
	for _, err := range errs {
		w.t.Fatal(err)
	}
	for _, group := range groups {
		w.groups = append(w.groups, group)
	}
	// In the order of the file: alerts use what the recording rules made.
	slices.SortFunc(w.groups, func(a, b *rules.Group) int {
		return map[bool]int{true: -1, false: 1}[a.Name() == "dead-letter-store-rates"]
	})
}

// pass lets time go by, with what happens in each step of it.
func (w *world) pass(d time.Duration, happens func(processes []process, stats *store.Stats)) {
	w.t.Helper()
	for range d / step {
		happens(w.processes, &w.source.stats)
		appender := w.db.Appender(w.t.Context())
		for _, each := range w.processes {
			w.scrape(appender, each)
		}
		if err := appender.Commit(); err != nil {
			w.t.Fatal(err)
		}
		for _, group := range w.groups {
			group.Eval(w.t.Context(), w.now)
			for _, rule := range group.Rules() {
				if err := rule.LastError(); err != nil {
					w.t.Fatalf("%s: %v", rule.Name(), err)
				}
			}
		}
		w.now = w.now.Add(step)
	}
}

// scrape reads the page that Prometheus would.
func (w *world) scrape(appender storage.Appender, from process) {
	w.t.Helper()
	page := httptest.NewRecorder()
	from.Handler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(page.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	var samples model.Vector
	for _, family := range families {
		some, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.TimeFromUnixNano(w.now.UnixNano())},
			[]*dto.MetricFamily{family}...)
		if err != nil {
			w.t.Fatal(err)
		}
		samples = append(samples, some...)
	}
	for _, sample := range samples {
		builder := labels.NewBuilder(labels.EmptyLabels())
		for name, value := range sample.Metric {
			builder.Set(string(name), string(value))
		}
		builder.Set("instance", from.name)
		if _, err := appender.Append(0, builder.Labels(), w.now.UnixMilli(), float64(sample.Value)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// firing are the alerts that fire, with their severities.
func (w *world) firing() []string {
	var names []string
	for _, group := range w.groups {
		for _, rule := range group.Rules() {
			if alert, is := rule.(*rules.AlertingRule); is && alert.State() == rules.StateFiring {
				names = append(names, alert.Name()+"/"+alert.Labels().Get("severity"))
			}
		}
	}
	slices.Sort(names)
	return names
}

// value is what a query says now, NaN for nothing.
func (w *world) value(query string) (float64, bool) {
	w.t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute})
	vector, err := rules.EngineQueryFunc(engine, w.db)(w.t.Context(), query, w.now.Add(-step))
	if err != nil || len(vector) > 1 {
		w.t.Fatal(query, vector, err)
	}
	if len(vector) == 0 {
		return 0, false
	}
	return vector[0].F, true
}

func resolve(p process, n int) {
	for range n {
		p.Settled(store.Entry{CreatedAt: time.Unix(0, 0)}, store.Change{
			State: store.Resolved, Attempt: &store.Attempt{Result: "succeeded", Strategy: store.Immediate},
			Resolution: &store.Resolution{How: store.AutomaticRetry, At: time.Unix(90, 0)},
		})
	}
}

func backlog(n int64) func([]process, *store.Stats) {
	return func(_ []process, stats *store.Stats) { stats.ByState = map[store.State]int64{store.Pending: n} }
}

// flow is what comes in, and what is resolved of it, in each step.
func flow(in, resolved int) func([]process, *store.Stats) {
	return func(processes []process, _ *store.Stats) {
		processes[0].Ingested(nil, in)
		resolve(processes[len(processes)-1], resolved)
	}
}

// The alerts of the document, at both sides of their thresholds.
func TestAlerts(t *testing.T) {
	high, growing, low := "HighDLQIngestionRate/warning", "DLQBacklogGrowing/critical", "LowResolutionRate/warning"
	tests := map[string]struct {
		processes []string
		happens   func([]process, *store.Stats)
		want      []string
	}{
		"nothing happens":                       {nil, flow(0, 0), nil},
		"96 a minute come in and are resolved":  {nil, flow(24, 24), nil},
		"104 a minute come in and are resolved": {nil, flow(26, 26), []string{high}},
		"52 a minute come in at each of two": {[]string{"a", "b"}, func(ps []process, _ *store.Stats) {
			ps[0].Ingested(nil, 13)
			ps[1].Ingested(nil, 13)
			resolve(ps[0], 26)
		}, []string{high}},
		"10000 are pending":                          {nil, backlog(10_000), nil},
		"10001 are pending":                          {nil, backlog(10_001), []string{growing}},
		"6000 are pending, and two processes say so": {[]string{"a", "b"}, backlog(6_000), nil},
		"9 of 20 are resolved":                       {nil, flow(20, 9), []string{low}},
		"11 of 20 are resolved":                      {nil, flow(20, 11), nil},
		"one process takes in, another resolves":     {[]string{"router", "workers"}, flow(20, 11), nil},
		"nothing is resolved":                        {nil, flow(20, 0), []string{low}},
		"a backlog is worked off":                    {nil, flow(1, 20), nil},
		"only what was there before is resolved":     {nil, flow(0, 20), nil},
		"all at once": {nil, func(ps []process, stats *store.Stats) { flow(50, 1)(ps, stats); backlog(20_000)(ps, stats) },
			[]string{growing, high, low}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.processes == nil {
				test.processes = []string{"dlqbench"}
			}
			w := newWorld(t, test.processes...)
			w.pass(30*time.Minute, test.happens)
			if got := w.firing(); !slices.Equal(got, test.want) {
				t.Errorf("%v fire, not %v", got, test.want)
			}
		})
	}
}

// A short burst is no alert yet, and an alert ends when its cause does.
func TestAlertsComeAndGo(t *testing.T) {
	w := newWorld(t, "dlqbench")
	w.pass(5*time.Minute, backlog(1))
	w.pass(45*time.Second, backlog(20_000))
	if got := w.firing(); got != nil {
		t.Errorf("%v fire after 45 s", got)
	}
	w.pass(2*time.Minute, backlog(20_000))
	if got := w.firing(); len(got) != 1 {
		t.Errorf("%v fire after 3 minutes", got)
	}
	w.pass(step, backlog(5))
	if got := w.firing(); got != nil {
		t.Errorf("%v fire when the backlog is worked off", got)
	}
}

// The key metrics of the document have the values that they should.
func TestRates(t *testing.T) {
	w := newWorld(t, "dlqbench")
	w.pass(30*time.Minute, func(ps []process, stats *store.Stats) {
		flow(30, 15)(ps, stats)
		ps[0].Settled(store.Entry{},
			store.Change{State: store.Pending, Attempt: &store.Attempt{Result: "failed", Strategy: store.Scheduled}})
		stats.ByErrorType = map[string]int64{"TIMEOUT_ERROR": 5}
	})
	for query, want := range map[string]float64{
		"dlq_ingestion_rate": 2, "dlq_resolution_rate": 0.5, "dlq_replay_success_rate": 15.0 / 16,
		"dlq_time_in_dlq_seconds:avg1h": 90, "sum(dlq_error_types)": 5, "dlq_store_up": 1,
	} {
		if got, there := w.value(query); !there || got < want*0.98 || got > want*1.02 {
			t.Errorf("%s is %g (there: %t), not %g", query, got, there, want)
		}
	}
}
