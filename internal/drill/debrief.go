package drill

// The end of a drill: figures, drill.json, and the debrief for people. What people wrote is put into these as text,
// whatever it looks like.

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"slices"
	"strings"
	textTemplate "text/template"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/harness"
)

// The files of a drill in its run directory.
const (
	FileJSON     = "drill.json"
	FileMarkdown = "debrief.md"
	FileHTML     = "debrief.html"
)

// jsonFormat is the version of drill.json.
const jsonFormat = 1

//go:embed debrief.html.tmpl
var htmlText string

//go:embed debrief.md.tmpl
var markdownText string

// debrief is what is written at the end.
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

// Debrief returns what was written, when the drill is over.
func (s *Session) Debrief() (markdown, html []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stage != StageOver {
		return nil, nil, fmt.Errorf("%w: the drill is not over yet", ErrNotOpen)
	}
	return s.written.markdown, s.written.html, nil
}

// Finish ends the session with what became of its run, and writes drill.json and the debrief into the run directory.
// The error is that of writing.
func (s *Session) Finish(outcome *harness.Outcome, failure error) error {
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

// conclude makes the result; s.mu is held.
func (s *Session) conclude(outcome *harness.Outcome, failure error) Result {
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

// figures sum up what people did; s.mu is held.
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

// record is everything of the drill; s.mu is held.
func (s *Session) record(outcome *harness.Outcome, result Result) Record {
	record := Record{
		Format: jsonFormat, Scenario: s.options.Scenario.Name, Description: s.options.Scenario.Description, Lasted: s.ended,
		Ending: s.why, Faults: s.seen(true), Result: result, Log: []Entry{}, Invariants: []Finding{},
	}
	for _, one := range s.log {
		record.Log = append(record.Log, one.Entry)
	}
	// What happened is told when it is over; the log is in the order of its times.
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

// render writes the debrief in both forms.
func render(record Record) (debrief, error) {
	page, err := template.New(FileHTML).Funcs(functions(record)).Parse(htmlText)
	if err != nil {
		return debrief{}, fmt.Errorf("reading the template of the debrief: %w", err)
	}
	text, err := textTemplate.New(FileMarkdown).Funcs(functions(record)).Parse(markdownText)
	if err != nil {
		return debrief{}, fmt.Errorf("reading the template of the debrief: %w", err)
	}
	var html, markdown bytes.Buffer
	if err := errors.Join(page.Execute(&html, record), text.Execute(&markdown, record)); err != nil {
		return debrief{}, fmt.Errorf("writing the debrief: %w", err)
	}
	return debrief{markdown: markdown.Bytes(), html: html.Bytes()}, nil
}

// functions are what the templates call.
func functions(record Record) map[string]any {
	length := max(record.Lasted, time.Second)
	for _, f := range record.Faults {
		length = max(length, deref(f.Healed), deref(f.Drained))
	}
	share := func(at time.Duration) float64 { return max(0, min(100, 100*at.Seconds()/length.Seconds())) }
	return map[string]any{
		"md":      plainMarkdown,
		"clock":   clockTime,
		"who":     who,
		"after":   after,
		"since":   sinceText,
		"missed":  func() []Fault { return missed(record.Faults) },
		"idle":    func() []Fault { return idle(record.Faults) },
		"rounded": rounded,
		"left":    share,
		"width": func(from time.Duration, to *time.Duration) float64 {
			return max(0.4, share(cmp.Or(deref(to), length))-share(from))
		},
		"at": func(at *time.Duration) float64 { return share(deref(at)) },
	}
}

func deref(d *time.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return *d
}

// missed are the faults that nobody noticed.
func missed(all []Fault) []Fault {
	return slices.DeleteFunc(slices.Clone(all), func(f Fault) bool { return !f.Noticeable() || f.Noticed != nil })
}

// idle are the faults that did nothing.
func idle(all []Fault) []Fault {
	return slices.DeleteFunc(slices.Clone(all), func(f Fault) bool { return f.Idle == "" })
}

// Noticeable reports whether there was anything to notice of the fault.
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

// rounded writes a duration as people say it; 0 is nothing that was measured.
func rounded(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return d.Round(100 * time.Millisecond).String()
}

// clockTime writes a time of the drill as on a stopwatch.
func clockTime(at time.Duration) string {
	sign := ""
	if at < 0 {
		sign, at = "-", -at
	}
	tenths := at.Round(100*time.Millisecond).Milliseconds() / 100
	return fmt.Sprintf("%s%d:%02d.%d", sign, tenths/600, tenths/10%60, tenths%10)
}

// plainMarkdown makes a text one line of Markdown that reads as it was written and does nothing else.
func plainMarkdown(text any) string {
	var out strings.Builder
	line := strings.Join(strings.Fields(fmt.Sprint(text)), " ")
	for i, r := range line {
		switch {
		case r == '<':
			out.WriteString("&lt;")
		case r == '>':
			out.WriteString("&gt;")
		case r == '&':
			out.WriteString("&amp;")
		case strings.ContainsRune("\\`*_{}[]#+!|~$@", r):
			out.WriteByte('\\')
			out.WriteRune(r)
		case r == ':' && strings.HasPrefix(line[i:], "://"), r == '.' && strings.HasSuffix(strings.ToLower(line[:i]), "www"):
			fmt.Fprintf(&out, "&#%d;", r) // no address becomes a link by itself
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}
