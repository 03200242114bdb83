package reports

// This file builds the document of a gate: the result of each run, the waivers, the omissions, and, folded, the
// failures.

import (
	"cmp"
	"io"
	"path"
	"strings"

	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports/document"
)

// SuiteMarkdown writes the summary of a gate in GitHub's flavour: a comment on a change, or GITHUB_STEP_SUMMARY.
func SuiteMarkdown(w io.Writer, suite Suite) error { return document.Markdown(w, suiteDocument(suite)) }

// SuiteIndex writes the index page of a gate's artifacts, with links to the reports.
func SuiteIndex(w io.Writer, suite Suite) error { return document.HTML(w, suiteDocument(suite)) }

func suiteDocument(suite Suite) document.Document {
	out := document.Document{Kind: "gate", Mark: suiteMark(suite.Verdict), Word: suiteWord(suite.Verdict),
		Title: "dlqbench " + suite.kind(), Lead: []document.Text{document.Plain(suite.Counts())},
		About: []string{text(suite.Config)}, Foot: "The same facts for programs: gate.json and junit.xml.",
	}
	out.Lead = append(out.Lead, document.Cells(suite.coverageLines()...)...)
	if suite.Shard != "" {
		out.About = append(out.About, "shard "+suite.Shard)
	}
	out.About = append(out.About, suite.Started.UTC().Format("2006-01-02 15:04 MST"), units.Text(suite.Elapsed))
	var details []document.Block
	for _, run := range suite.Runs {
		if run.Judged.Verdict != nil && run.Standing != StandingPass {
			details = append(details, document.Details{Mark: suiteMark(run.Standing), Title: name(run.Label),
				Word: suiteWord(run.Standing), Blocks: runDocument(run.Report()).Flat()})
		}
	}
	out.Sections = []document.Section{
		{Title: "What to do", Blocks: []document.Block{suiteTodo(suite)}},
		{Title: "Required", Blocks: []document.Block{suiteUnmet(suite)}},
		{Title: "Runs", Blocks: []document.Block{suiteRuns(suite)}},
		{Title: "Waivers", Blocks: []document.Block{suiteWaivers(suite)}},
		{Title: "Left out, as they can't be run here", Folded: true, Blocks: []document.Block{suiteLeftOut(suite)}},
		{Title: "What does not pass", Blocks: details},
	}
	return out
}

func suiteUnmet(suite Suite) document.Table {
	out := document.Table{Columns: []document.Column{{Title: "requirement that is not met"}}}
	for _, one := range suite.unmet() {
		mark := suiteMark(StandingInconclusive)
		if one.Elsewhere {
			mark = document.Warning
		}
		out.Rows = append(out.Rows, document.Row{Mark: mark, Cells: document.Cells(text(one.Remark()))})
	}
	return out
}

func suiteRuns(suite Suite) document.Table {
	out := document.Table{Columns: []document.Column{
		{Title: "run"}, {Title: "standing",
			Help: "The verdict of the run. A waived run failed only in ways that dlqbench.yaml waives."},
		{Title: "why", Below: true, Most: screenReasons}, {Title: "took", Figure: true}}}
	for _, run := range suite.Runs {
		label, took := document.Plain(name(run.Label)), "–"
		if run.Artifacts != "" {
			label = document.Link(name(run.Label), path.Join(run.Artifacts, HTMLFile))
		}
		if run.Elapsed > 0 {
			took = units.Text(run.Elapsed)
		}
		out.Rows = append(out.Rows, document.Row{Mark: suiteMark(run.Standing), Cells: []document.Text{label,
			document.Lines(document.Marked(suiteWord(run.Standing), suiteMark(run.Standing)), document.Plain(run.Extent())),
			document.Lines(document.Cells(run.reasonLines()...)...), document.Plain(took)}})
	}
	return out
}

func suiteWaivers(suite Suite) document.Table {
	out := document.Table{Columns: []document.Column{
		{Title: "waived"}, {Title: "until", Help: "The last day. After it, the failure counts again."}, {Title: "reason"},
		{Title: "runs", Figure: true, Help: "Runs with a failure that the waiver names."}, {Title: "remark"}}}
	for _, waiver := range suite.Waivers {
		row := document.Row{Cells: document.Cells(text(waiver.Names()), name(waiver.Until), text(waiver.Reason),
			units.Count(int64(waiver.Matched)), text(waiver.Remark()))}
		if waiver.Remark() != "" {
			row.Mark = document.Warning
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

func suiteLeftOut(suite Suite) document.List {
	return document.List{Items: each(suite.LeftOut, func(left SuiteLeft) document.Item {
		return document.Item{Text: document.Plain(name(left.Scenario) + ": " + text(left.Why))}
	})}
}

func suiteMark(standing Standing) document.Mark {
	return cmp.Or(map[Standing]document.Mark{
		StandingPass: document.Pass, StandingFail: document.Fail, StandingThreshold: document.Warning,
		StandingWaived: document.Waived, StandingNotRun: document.Skipped, StandingEnvironment: document.Crashed,
	}[standing], document.Unsure)
}

// suiteWord returns a standing in a word or two.
func suiteWord(standing Standing) string {
	return cmp.Or(map[Standing]string{StandingThreshold: "THRESHOLD MISSED", StandingNotRun: "NOT RUN"}[standing],
		strings.ToUpper(string(standing)))
}
