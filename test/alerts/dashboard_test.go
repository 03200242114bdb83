package alerts

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
)

// query is what the dashboard asks for, and where.
type query struct{ where, text string }

// dashboard are the queries of the dashboard file.
func dashboard(t *testing.T) (queries []query, variables []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/grafana/dlqbench.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
		Annotations struct{ List []struct{ Name, Expr string } }
		Templating  struct {
			List []struct{ Name, Definition string }
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	for _, panel := range file.Panels {
		if ids[panel.ID] || panel.Title == "" || panel.GridPos.W < 1 || panel.GridPos.X+panel.GridPos.W > 24 {
			t.Errorf("panel %d (%s) is not placed, or not the only one of its number", panel.ID, panel.Title)
		}
		ids[panel.ID] = true
		for _, target := range panel.Targets {
			queries = append(queries, query{panel.Title, target.Expr})
		}
	}
	for _, annotation := range file.Annotations.List {
		queries = append(queries, query{annotation.Name, annotation.Expr})
	}
	for _, variable := range file.Templating.List {
		variables = append(variables, variable.Name)
		if found := regexp.MustCompile(`^label_values\((.*), [a-z]+\)$`).FindStringSubmatch(
			variable.Definition); found != nil {
			queries = append(queries, query{"the variable " + variable.Name, found[1]})
		}
	}
	return queries, variables
}

// page is what dlqbench shows of a run that has everything.
func page(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	text, err := os.Open("../../internal/livemetrics/testdata/page.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	reader := expfmt.NewTextParser(model.UTF8Validation)
	families, err := reader.TextToMetricFamilies(text)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// scraped is a Prometheus that has scraped the page for two minutes, while everything that counts went up.
func scraped(t *testing.T, families map[string]*dto.MetricFamily) (db *tsdb.DB, now time.Time) {
	t.Helper()
	db, err := tsdb.Open(t.TempDir(), nil, nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	now = time.Date(2026, 2, 11, 12, 0, 0, 0, time.UTC)
	for round := range 25 {
		now = now.Add(5 * time.Second)
		appender := db.Appender(t.Context())
		for _, family := range families {
			samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.TimeFromUnixNano(now.UnixNano())},
				family)
			if err != nil {
				t.Fatal(err)
			}
			for _, sample := range samples {
				builder := labels.NewBuilder(labels.EmptyLabels())
				for name, value := range sample.Metric {
					builder.Set(string(name), string(value))
				}
				value := float64(sample.Value)
				if family.GetType() != dto.MetricType_GAUGE {
					value *= float64(round)
				}
				if _, err := appender.Append(0, builder.Labels(), now.UnixMilli(), value); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := appender.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	return db, now
}

// Every query of the dashboard is one, asks for what there is, and gets an answer; and everything that is shown of a
// run is on the dashboard.
func TestDashboard(t *testing.T) {
	families := page(t)
	db, now := scraped(t, families)
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute})
	queries, variables := dashboard(t)
	if len(queries) < 20 || !slices.Equal(variables, []string{"datasource", "scenario", "slot"}) {
		t.Fatalf("there are %d queries and the variables %v", len(queries), variables)
	}
	fill := strings.NewReplacer("$__rate_interval", "1m", "$scenario", ".*", "$slot", ".*")
	asked := map[string]bool{}
	for _, one := range queries {
		text := fill.Replace(one.text)
		if strings.Contains(text, "$") {
			t.Errorf("%s: %q has a variable that the dashboard has not", one.where, one.text)
		}
		result, err := engine.NewInstantQuery(t.Context(), db, nil, text, now)
		if err != nil {
			t.Errorf("%s: %q: %v", one.where, one.text, err)
			continue
		}
		parser.Inspect(result.Statement().(*parser.EvalStmt).Expr, func(node parser.Node, _ []parser.Node) error {
			if selector, is := node.(*parser.VectorSelector); is {
				checkSelector(t, families, one, selector, asked)
			}
			return nil
		})
		answer := result.Exec(t.Context())
		vector, err := answer.Vector()
		if err != nil || len(vector) == 0 && !strings.Contains(one.text, "changes(") {
			t.Errorf("%s: %q is answered %v, %v", one.where, one.text, answer, err)
		}
		result.Close()
	}
	for name := range families {
		if !asked[name] && !slices.Contains([]string{"dlqbench_build_info", "dlqbench_run_start_timestamp_seconds",
			"dlqbench_load_elapsed_seconds", "dlqbench_load_planned_seconds", "dlqbench_store_changes_total"}, name) {
			t.Errorf("%s is shown nowhere", name)
		}
	}
}

// checkSelector checks that a selector asks for a metric that there is, by labels that it has.
func checkSelector(t *testing.T, families map[string]*dto.MetricFamily, from query, selector *parser.VectorSelector,
	asked map[string]bool) {
	t.Helper()
	name := selector.Name
	if base := strings.TrimSuffix(name, "_bucket"); families[base] != nil {
		name = base
	}
	family := families[name]
	if family == nil {
		t.Errorf("%s: there is no metric %s", from.where, selector.Name)
		return
	}
	asked[name] = true
	for _, matcher := range selector.LabelMatchers {
		if matcher.Name == model.MetricNameLabel {
			continue
		}
		if !slices.ContainsFunc(family.GetMetric()[0].GetLabel(), func(label *dto.LabelPair) bool {
			return label.GetName() == matcher.Name
		}) {
			t.Errorf("%s: %s has no label %s", from.where, name, matcher.Name)
		}
	}
}
