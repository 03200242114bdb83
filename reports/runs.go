package reports

// This file shows all stored runs: as a page with filters, trends and comparisons by a click, as a list, and as JSON.

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports/document"
)

// RunsSchema is the version of the output of RunsJSON.
const RunsSchema = 1

// The states of a stored run besides the verdicts.
const (
	// RunInProgress: its history is still being written.
	RunInProgress = "in progress"
	// RunUnjudged: it has a history and no verdict.
	RunUnjudged = "not judged"
	// RunBroken: its verdict or its history cannot be read.
	RunBroken = "broken"
)

// StoredRun is a run directory as the list of all runs shows it.
type StoredRun struct {
	Name string `json:"name"`
	Dir  string `json:"directory"`
	// State is the verdict, "missed" for a pass with a missed threshold, or one of the states above. Why explains it.
	State    string    `json:"state"`
	Why      string    `json:"why"`
	Scenario string    `json:"scenario,omitempty"`
	Subject  string    `json:"subject,omitempty"`
	Seed     uint64    `json:"seed"`
	Started  time.Time `json:"started"`
	Records  int64     `json:"records"`
	// Report: it has a report.html.
	Report bool `json:"report"`
	// Figures are those of a comparison, by their names; none of a run that proved nothing.
	Figures map[string]float64 `json:"figures"`
}

// judged reports whether the run has a verdict.
func (r *StoredRun) judged() bool {
	return !slices.Contains([]string{RunInProgress, RunUnjudged, RunBroken}, r.State)
}

// Read takes what is shown of a run from its verdict.json.
func (r *StoredRun) Read(data []byte) error {
	runs, err := ReadCompared(data, r.Name)
	if err != nil {
		return err
	}
	var v assertions.Verdict
	if err := json.Unmarshal(data, &v); err != nil {
		return fmt.Errorf("reading the verdict of %s: %w", r.Name, err)
	}
	r.State, r.Why, r.Scenario, r.Subject, r.Seed = string(stands(&v)), headline(&v), v.Scenario, v.Subject, v.Seed
	r.Started, r.Records, r.Figures = v.Started, v.Ledger.Acknowledged, runs[0].Figures
	return nil
}

// RunsJSON writes the runs as JSON, newest first.
func RunsJSON(w io.Writer, runs []StoredRun) error {
	return writeJSON(w, "the list of runs", struct {
		Schema int         `json:"schema"`
		Runs   []StoredRun `json:"runs"`
	}{RunsSchema, runs})
}

// RunsTerminal writes the list of the runs to the terminal w, newest first.
func RunsTerminal(w io.Writer, runs []StoredRun, root string, color bool) error {
	return document.Terminal(w, runsDocument(runs, root, false), Columns(w), color)
}

// RunsHTML writes the page of all runs, newest first. Its server has the report of a run at report/NAME/, and a
// comparison at compare?before=NAME&after=NAME.
func RunsHTML(w io.Writer, runs []StoredRun, root string) error {
	return document.HTML(w, runsDocument(runs, root, true))
}

func runsDocument(runs []StoredRun, root string, page bool) document.Document {
	out := document.Document{Kind: "all runs", Word: units.Plural(int64(len(runs)), "run", "runs"), Title: "Runs",
		Lead: []document.Text{document.Plain(runStates(runs))}, About: []string{visible(root, document.Whole)},
		Foot: "The same facts for programs: dlqbench runs --json.",
	}
	if len(runs) == 0 {
		out.Lead = []document.Text{document.Plain("There are no runs yet. dlqbench run smoke makes the first one.")}
		return out
	}
	table := runsTable(runs, page)
	if !page {
		out.Sections = []document.Section{{Blocks: []document.Block{table}}}
		return out
	}
	out.Sections = []document.Section{
		{Title: "All", Aside: "newest first; choose two to compare them", Blocks: []document.Block{table}},
		{Title: "Scenarios", Aside: "how the verdicts went", Blocks: []document.Block{scenarioTable(runs)}},
		{Title: "Trends", Aside: "how the figures went", Blocks: []document.Block{runTrends(runs)}},
	}
	return out
}

// runStates counts the runs by state: "4 pass, 2 fail".
func runStates(runs []StoredRun) string {
	var parts []string
	for _, state := range runStateOrder() {
		if n := countRuns(runs, state); n > 0 {
			parts = append(parts, units.Count(n)+" "+stateWord(state))
		}
	}
	return strings.Join(parts, ", ")
}

func runStateOrder() []string {
	return []string{string(standsFail), string(standsMissed), string(standsInconclusive), string(standsPass),
		RunInProgress, RunUnjudged, RunBroken}
}

func countRuns(runs []StoredRun, state string) int64 {
	return int64(count(runs, func(run StoredRun) bool { return run.State == state }))
}

func stateWord(state string) string {
	if state == string(standsMissed) {
		return "threshold missed"
	}
	return state
}

func stateMark(state string) document.Mark {
	switch state {
	case RunBroken:
		return document.Crashed
	case RunInProgress, RunUnjudged:
		return document.Skipped
	}
	return runMark(standing(state))
}

func runsTable(runs []StoredRun, page bool) document.Table {
	out := document.Table{Title: "All runs", Columns: []document.Column{{Title: "run"}, {Title: "verdict"},
		{Title: "scenario", Spare: true}, {Title: "subject", Spare: true}, {Title: "records", Figure: true, Spare: true,
			Help: "Records that Kafka acknowledged."},
		{Title: "p99", Figure: true, Spare: true,
			Help: "99 % of the successful records were done within this time after they should have been sent."},
		{Title: "why", Below: !page}}}
	if page {
		out.Filters, out.Pick = []string{"verdict", "scenario", "subject"}, "compare"
	}
	for _, run := range runs {
		label := document.Plain(name(run.Name))
		if page && run.Report {
			label = document.Link(name(run.Name), "report/"+run.Name+"/")
		}
		p99, records := "–", "–"
		if v, known := run.Figures["latency.success.p99"]; known {
			p99 = BenchUnitTime.Text(v)
		}
		if run.judged() {
			records = units.Count(run.Records)
		}
		why := text(run.Why)
		if !page && run.judged() { // a list has a line for each run that was judged
			why = ""
		}
		out.Rows = append(out.Rows, document.Row{Mark: stateMark(run.State), Cells: []document.Text{label,
			document.Marked(stateWord(run.State), stateMark(run.State)), document.Plain(name(run.Scenario)),
			document.Plain(name(run.Subject)), document.Plain(records), document.Plain(p99), document.Plain(why)},
			Find: document.Find{"verdict": stateWord(run.State), "scenario": name(run.Scenario), "subject": name(run.Subject),
				"pick": pickOf(run)}})
	}
	return out
}

// pickOf returns the name by which a run is compared, "" if it can't be.
func pickOf(run StoredRun) string {
	if !run.judged() {
		return ""
	}
	return run.Name
}

// trendRuns is the maximum number of runs whose verdicts a line shows.
const trendRuns = 20

// byScenario returns the judged runs of each scenario, oldest first, and the scenarios in alphabetical order.
func byScenario(runs []StoredRun) (of map[string][]StoredRun, order []string) {
	of = map[string][]StoredRun{}
	for _, run := range slices.Backward(runs) {
		if run.judged() {
			of[run.Scenario] = append(of[run.Scenario], run)
		}
	}
	return of, slices.Sorted(maps.Keys(of))
}

func scenarioTable(runs []StoredRun) document.Table {
	out := document.Table{Title: "Verdicts of each scenario", Columns: []document.Column{{Title: "scenario"},
		{Title: "runs", Figure: true}, {Title: "failed", Figure: true}, {Title: "last"}, {Title: "verdicts, oldest first",
			Help: "✓ pass, ✗ fail, ? inconclusive, ! threshold missed."}}}
	of, order := byScenario(runs)
	for _, scenario := range order {
		all := of[scenario]
		last := all[len(all)-1]
		var trend []string
		for _, run := range all[max(0, len(all)-trendRuns):] {
			trend = append(trend, map[string]string{string(standsPass): "✓", string(standsFail): "✗",
				string(standsMissed): "!"}[run.State])
			if trend[len(trend)-1] == "" {
				trend[len(trend)-1] = "?"
			}
		}
		out.Rows = append(out.Rows, document.Row{Mark: stateMark(last.State), Cells: []document.Text{
			document.Plain(name(scenario)), document.Plain(units.Count(int64(len(all)))),
			document.Plain(units.Count(countRuns(all, string(standsFail)))),
			document.Marked(stateWord(last.State), stateMark(last.State)), document.Plain(strings.Join(trend, " "))}})
	}
	return out
}

// runTrends draws the figures of each scenario that has several runs, a curve for each subject.
func runTrends(runs []StoredRun) document.Figures {
	out := document.Figures{Choose: true, Key: "A point for each run that proved something, oldest first, a curve for " +
		"each subject. Runs of different machines, seeds or settings differ for these reasons as well: compare repetitions."}
	of, order := byScenario(runs)
	for _, scenario := range order {
		for _, one := range []struct {
			figure, title, unit string
			factor              float64
		}{{"latency.success.p99", "p99 of successes (ms)", "ms", 1e3},
			{"throughput.processed", "records per second", "/s", 1}, {"recovery.drain", "drain (s)", "s", 1}} {
			figure := document.Figure{ID: fmt.Sprintf("trend-%d", len(out.Figures)+1), Title: name(scenario), Note: one.title,
				X: document.Axis{Title: "run of the scenario, oldest first", High: float64(max(2, len(of[scenario])))},
				Y: document.Axis{Unit: one.unit}}
			figure.X.Low = 1
			figure.Series = trendSeries(of[scenario], one.figure, one.factor)
			for i, series := range figure.Series {
				last := series.Y[len(series.Y)-1]
				figure.Words += fmt.Sprintf("%s: %d runs, the last with %s. ", series.Name, len(series.Y),
					units.Significant(last))
				figure.Y.High = max(figure.Y.High, 1.1*slices.Max(series.Y))
				figure.Series[i].Colour = i % pageColours
			}
			if len(figure.Series) > 0 {
				out.Figures = append(out.Figures, figure)
			}
		}
	}
	return out
}

// trendSeries returns a curve of a figure for each subject that has it in two runs.
func trendSeries(runs []StoredRun, figure string, factor float64) []document.Series {
	curves := map[string]*document.Series{}
	for i, run := range runs {
		v, known := run.Figures[figure]
		if !known || math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		curve := curves[run.Subject]
		if curve == nil {
			curve = &document.Series{Name: document.Words(name(run.Subject))}
			curves[run.Subject] = curve
		}
		curve.X, curve.Y = append(curve.X, float64(i+1)), append(curve.Y, v*factor)
	}
	var out []document.Series
	for _, subject := range slices.Sorted(maps.Keys(curves)) {
		if curve := curves[subject]; len(curve.X) > 1 {
			curve.Label = document.Words(fmt.Sprint(len(out) + 1))
			out = append(out, *curve)
		}
	}
	return out
}
