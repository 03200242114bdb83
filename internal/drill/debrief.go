package drill

// This file ends a drill: figures, drill.json, and the debrief for people. Text that people entered is inserted as
// text, whatever it contains.

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/reports/document"
)

// These are the files of a drill in its run directory.
const (
	FileJSON     = "drill.json"
	FileMarkdown = "debrief.md"
	FileHTML     = "debrief.html"
)

// jsonFormat is the version of drill.json.
const jsonFormat = 1

// debrief holds the debrief in both formats.
type debrief struct{ markdown, html []byte }

// Record is drill.json: everything that the debrief is made of.
type Record struct {
	Format   int    `json:"format"`
	Scenario string `json:"scenario"`
	// Description is the scenario's.
	Description string `json:"description"`
	RunID       string `json:"run_id"`
	Seed        uint64 `json:"seed,string"`
	Subject     string `json:"subject"`
	// Started is when the run began; the times of faults and log count from the start of the steady load, which ended
	// after Lasted.
	Started time.Time     `json:"started"`
	Lasted  time.Duration `json:"lasted_ns"`
	Ending  string        `json:"ending"`
	Faults  []Fault       `json:"faults"`
	Log     []Entry       `json:"log"`
	Result  Result        `json:"result"`
	// Invariants are those of the verdict that are no pass, with what is wrong.
	Invariants []Finding `json:"invariants"`
}

// Finding is an invariant that is no pass.
type Finding struct {
	Name   string            `json:"name"`
	Status assertions.Status `json:"status"`
	What   []string          `json:"what"`
}

// Debrief returns the debrief once the drill is over.
func (s *Session) Debrief() (markdown, html []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stage != StageOver {
		return nil, nil, fmt.Errorf("%w: the drill is not over yet", ErrNotOpen)
	}
	return s.written.markdown, s.written.html, nil
}

// Finish ends the session with the outcome of its run, and writes drill.json and the debrief into the run directory.
// The error is that of writing.
func (s *Session) Finish(outcome *run.Outcome, failure error) error {
	s.mu.Lock()
	s.endOfLoad()
	result := s.conclude(outcome, failure)
	record := s.record(outcome, result)
	s.mu.Unlock()
	written, err := render(record)
	if outcome != nil && err == nil {
		err = write(outcome.Dir, record, written)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result, s.written, s.stage = &result, written, StageOver
	if s.away != nil {
		s.away.Stop()
	}
	s.say(line{Entry: Entry{Action: "verdict", Text: "the verdict: " + cmp.Or(string(result.Verdict),
		"none, "+result.Error)}})
	close(s.done)
	return err
}

// conclude makes the result. The caller holds s.mu.
func (s *Session) conclude(outcome *run.Outcome, failure error) Result {
	result := Result{Reasons: []string{}}
	if failure != nil {
		result.Error = failure.Error()
	}
	if outcome != nil && outcome.Verdict != nil {
		verdict := outcome.Verdict
		result.Verdict, result.ThresholdsMissed, result.Reasons = verdict.Verdict, verdict.ThresholdsMissed,
			append(result.Reasons, verdict.Reasons...)
		result.Replay = outcome.Judged.Header.Rerun
		for i, seen := range verdict.Faults {
			if f := s.at(i); f != nil {
				f.Effects, f.Idle = 0, seen.Observed.Idle
				for _, count := range seen.Observed.Effects {
					f.Effects += count
				}
			}
		}
	}
	if outcome != nil {
		result.Dir, result.Interrupted = cmp.Or(outcome.Judged.Dir, outcome.Dir), outcome.Interrupted
	}
	result.Figures = s.figures()
	return result
}

// figures sums up the actions of people. The caller holds s.mu.
func (s *Session) figures() Figures {
	figures := Figures{FalseAlarms: s.false}
	var noticed, healed, drained []time.Duration
	for _, f := range s.faults {
		if !f.Noticeable() {
			continue
		}
		figures.Faults++
		if f.Noticed != nil {
			figures.Noticed++
			noticed = append(noticed, *f.Noticed-f.Injected)
		}
		if f.Healed != nil && f.HealedBy != nil {
			figures.Healed++
			healed = append(healed, *f.Healed-f.Injected)
		}
		if f.Healed != nil && f.Drained != nil {
			figures.Drained++
			drained = append(drained, *f.Drained-*f.Healed)
		}
	}
	figures.ToNotice, figures.ToHeal, figures.ToDrain = spread(noticed), spread(healed), spread(drained)
	return figures
}

func spread(all []time.Duration) Spread {
	if len(all) == 0 {
		return Spread{}
	}
	slices.Sort(all)
	return Spread{Median: (all[(len(all)-1)/2] + all[len(all)/2]) / 2, Max: all[len(all)-1]}
}

// record returns the full record of the drill. The caller holds s.mu.
func (s *Session) record(outcome *run.Outcome, result Result) Record {
	record := Record{
		Format: jsonFormat, Scenario: s.options.Scenario.Name, Description: s.options.Scenario.Description, Lasted: s.ended,
		Ending: s.why, Faults: s.seen(true), Result: result, Log: []Entry{}, Invariants: []Finding{},
	}
	for _, one := range s.log {
		record.Log = append(record.Log, one.Entry)
	}
	// Events are logged when they end, but the log is sorted by the time of the event.
	slices.SortStableFunc(record.Log, func(a, b Entry) int { return cmp.Compare(a.At, b.At) })
	if outcome == nil || outcome.Verdict == nil {
		return record
	}
	header := outcome.Judged.Header
	record.RunID, record.Seed, record.Subject, record.Started = header.RunID, header.Seed, header.Subject, header.Started
	for _, invariant := range outcome.Verdict.Invariants {
		if invariant.Status != assertions.Fail && invariant.Status != assertions.Inconclusive {
			continue
		}
		finding := Finding{Name: invariant.Name, Status: invariant.Status, What: []string{}}
		for _, anomaly := range invariant.Anomalies {
			finding.What = append(finding.What, fmt.Sprintf("%s, %d times", anomaly.Name, anomaly.Count))
		}
		if invariant.Why != "" {
			finding.What = append(finding.What, invariant.Why)
		}
		record.Invariants = append(record.Invariants, finding)
	}
	return record
}

func write(dir string, record Record, written debrief) error {
	text, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return fmt.Errorf("writing %s: %w", FileJSON, err)
	}
	err = errors.Join(
		os.WriteFile(filepath.Join(dir, FileJSON), append(text, '\n'), 0o644),
		os.WriteFile(filepath.Join(dir, FileMarkdown), written.markdown, 0o644),
		os.WriteFile(filepath.Join(dir, FileHTML), written.html, 0o644),
	)
	if err != nil {
		return fmt.Errorf("writing the debrief: %w", err)
	}
	return nil
}

// render renders the debrief in both formats.
func render(record Record) (debrief, error) {
	var html, markdown bytes.Buffer
	doc := record.document()
	if err := errors.Join(document.HTML(&html, doc), document.Markdown(&markdown, doc)); err != nil {
		return debrief{}, fmt.Errorf("writing the debrief: %w", err)
	}
	return debrief{markdown: markdown.Bytes(), html: html.Bytes()}, nil
}

func (r Record) document() document.Document {
	word := cmp.Or(string(r.Result.Verdict), "no verdict")
	if r.Result.ThresholdsMissed {
		word += ", a threshold was missed"
	}
	if r.Result.Interrupted {
		word += ", interrupted"
	}
	out := document.Document{Kind: "debrief", Mark: statusMark(r.Result.Verdict), Word: word,
		Title: "Debrief: " + r.Scenario,
		Lead: []document.Text{document.Plain(fmt.Sprintf("The load lasted %s (%s).", rounded(r.Lasted), r.Ending)),
			document.Plain(r.Description)},
		Sections: []document.Section{
			{Blocks: []document.Block{document.KeyValues{Big: true, Items: r.Result.Figures.facts()}}},
			{Title: "Faults", Blocks: []document.Block{r.lanes(), r.faultTable()}},
			{Title: "Faults without effect", Aside: "whatever the verdict is, it says nothing about these",
				Blocks: []document.Block{listed(r.Faults, func(f Fault) string {
					if f.Idle == "" {
						return ""
					}
					return f.Name + ": " + f.Idle
				})}},
			{Title: "Unnoticed faults", Blocks: []document.Block{listed(r.Faults, func(f Fault) string {
				if !f.Noticeable() || f.Noticed != nil {
					return ""
				}
				return f.Name + ": " + f.What + ", from " + clockTime(f.Injected) + " on"
			})}},
			{Title: "Timeline", Aside: "from the start of the steady load", Blocks: []document.Block{r.timeline()}},
			{Title: "Verdict", Blocks: r.verdict()},
		},
		Foot: "The whole verdict is in report.html beside this page.",
	}
	if r.RunID != "" {
		out.About = []string{"run " + r.RunID, fmt.Sprintf("seed %d", r.Seed), "subject " + r.Subject}
	}
	return out
}

func statusMark(status assertions.Status) document.Mark {
	switch status {
	case assertions.Pass:
		return document.Pass
	case assertions.Fail:
		return document.Fail
	}
	return document.Unsure
}

func (f Figures) facts() []document.KeyValue {
	fact := func(key string, of Spread, n int, did string) document.KeyValue {
		return document.KeyValue{Key: key, Value: document.Plain(rounded(of.Median)),
			Note: fmt.Sprintf("median; longest %s; %d of %d %s", rounded(of.Max), n, f.Faults, did)}
	}
	return []document.KeyValue{fact("to notice", f.ToNotice, f.Noticed, "noticed"),
		fact("to heal", f.ToHeal, f.Healed, "healed by hand"), fact("to drain", f.ToDrain, f.Drained, "drained"),
		{Key: "false alarms", Value: document.Plain(fmt.Sprint(f.FalseAlarms))}}
}

// listed lists the text for each fault, and omits faults without one.
func listed(faults []Fault, say func(Fault) string) document.List {
	out := document.List{}
	for _, f := range faults {
		if words := say(f); words != "" {
			out.Items = append(out.Items, document.Item{Text: document.Plain(words)})
		}
	}
	return out
}

// lanes draws when each fault was in force, and when it was noticed.
func (r Record) lanes() document.Figures {
	length := max(r.Lasted, time.Second)
	for _, f := range r.Faults {
		length = max(length, deref(f.Healed), deref(f.Drained))
	}
	out := document.Figure{ID: "lanes", Title: "Faults in force",
		X: document.Axis{Title: "time", Unit: "s", High: length.Seconds()},
		Y: document.Axis{Unit: "none", Low: -float64(len(r.Faults)) - 0.5, High: -0.5}}
	for i, f := range r.Faults {
		lane, label := -float64(i+1), document.Words(fmt.Sprint(i+1))
		name := document.Words(f.Name)
		out.Series = append(out.Series, document.Series{Label: label, Name: name, Colour: i, Y: []float64{lane, lane},
			X: []float64{f.Injected.Seconds(), max(cmp.Or(deref(f.Healed), length), f.Injected+time.Millisecond).Seconds()}})
		if at := deref(f.Noticed).Seconds(); f.Noticed != nil {
			out.Series = append(out.Series, document.Series{Label: label, Name: name + ", noticed", Shape: "front",
				X: []float64{at}, Y: []float64{lane}, Around: []float64{at, at, lane, lane}})
		}
	}
	if len(r.Faults) == 0 {
		return document.Figures{}
	}
	return document.Figures{Key: "Lines: in force, from injection to heal. Points: noticed.",
		Figures: []document.Figure{out}}
}

func (r Record) faultTable() document.Table {
	out := document.Table{Columns: []document.Column{
		{Title: "fault"}, {Title: "what"}, {Title: "by"}, {Title: "at", Figure: true}, {Title: "noticed after"},
		{Title: "healed after"}, {Title: "drained after", Figure: true}, {Title: "effects", Figure: true}}}
	for _, f := range r.Faults {
		what, by, noticed, healed := document.Plain(f.What), "the script", document.Plain("–"), after(f.Injected, f.Healed)
		if f.Failed != "" {
			what = document.Lines(what, document.Marked("failed: "+f.Failed, document.Fail))
		}
		if f.By != nil {
			by = who(f.By)
		}
		switch {
		case f.Noticed != nil:
			noticed = document.Plain(after(f.Injected, f.Noticed) + ", " + who(f.NoticedBy))
		case f.Noticeable():
			noticed = document.Marked("not noticed", document.Fail)
		}
		switch {
		case f.HealedBy != nil:
			healed += ", " + who(f.HealedBy)
		case f.Healed != nil:
			healed += ", by itself"
		}
		effects := document.Plain(fmt.Sprint(f.Effects))
		if f.Idle != "" {
			effects = document.Marked("none", document.Unsure)
		}
		out.Rows = append(out.Rows, document.Row{Cells: []document.Text{document.Plain(f.Name), what, document.Plain(by),
			document.Plain(clockTime(f.Injected)), noticed, document.Plain(healed),
			document.Plain(sinceText(f.Healed, f.Drained)), effects}})
	}
	return out
}

func (r Record) timeline() document.Table {
	out := document.Table{Columns: []document.Column{{Title: "at"}, {Title: "who"}, {Title: "did"}, {Title: "what"}}}
	for _, one := range r.Log {
		actor := ""
		if one.Who != nil {
			actor = who(one.Who)
		}
		out.Rows = append(out.Rows, document.Row{Cells: []document.Text{
			document.Plain(clockTime(one.At)), document.Bold(actor), document.Plain(one.Action),
			document.Plain(strings.Join(strings.Fields(one.Text), " "))}})
	}
	return out
}

func (r Record) verdict() []document.Block {
	findings := document.List{}
	for _, reason := range r.Result.Reasons {
		findings.Items = append(findings.Items, document.Item{Text: document.Plain(reason)})
	}
	if len(r.Result.Reasons) == 0 && r.Result.Verdict != "" {
		findings.Items = append(findings.Items,
			document.Item{Text: document.Plain("Every promise that was judged was kept.")})
	}
	if r.Result.Error != "" {
		findings.Items = append(findings.Items,
			document.Item{Text: document.Marked("besides the subject: "+r.Result.Error, document.Fail)})
	}
	for _, one := range r.Invariants {
		findings.Items = append(findings.Items, document.Item{Text: append(document.Bold(one.Name),
			document.Plain(": "+strings.Join(append([]string{string(one.Status)}, one.What...), "; "))...)})
	}
	out := []document.Block{findings}
	if r.Result.Replay != "" {
		out = append(out, document.Paragraph{Text: document.Plain("To run it again without people:")},
			document.Code(r.Result.Replay))
	}
	return out
}

func deref(d *time.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return *d
}

// Noticeable reports whether the fault could be noticed.
func (f Fault) Noticeable() bool { return f.ToNotice && f.Failed == "" && f.Idle == "" }

func who(a *Actor) string {
	if a == nil {
		return "–"
	}
	if a.Name == "" {
		return string(a.Role)
	}
	return a.Name + " (" + string(a.Role) + ")"
}

func after(from time.Duration, to *time.Duration) string {
	if to == nil {
		return "–"
	}
	return rounded(*to - from)
}

func sinceText(from, to *time.Duration) string {
	if from == nil {
		return "–"
	}
	return after(*from, to)
}

// rounded formats a duration for people. 0 means that nothing was measured.
func rounded(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return d.Round(100 * time.Millisecond).String()
}

// clockTime formats a time of the drill like a stopwatch.
func clockTime(at time.Duration) string {
	sign := ""
	if at < 0 {
		sign, at = "-", -at
	}
	tenths := at.Round(100*time.Millisecond).Milliseconds() / 100
	return fmt.Sprintf("%s%d:%02d.%d", sign, tenths/600, tenths/10%60, tenths%10)
}
