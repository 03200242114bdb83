package drill

// This file ends a drill: figures, drill.json, and the files of the debrief (postmortem.go).

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	// Participants are the people with what they did.
	Participants []Participant `json:"participants"`
	Faults       []Fault       `json:"faults"`
	// Course is the figures over time, at a distance of half a second or, in long drills, more.
	Course []Point `json:"course"`
	Log    []Entry `json:"log"`
	Result Result  `json:"result"`
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
		switch f.Lifted {
		case LiftedByHand:
			figures.Healed++
			healed = append(healed, *f.Healed-f.Injected)
		case LiftedByItself:
			figures.EndedAlone++
		case LiftedAtEnd:
			figures.LiftedAtEnd++
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
		Participants: s.participants("", true), Course: append([]Point{}, s.course.points...),
	}
	for _, one := range s.log {
		record.Log = append(record.Log, one.Entry)
	}
	// Events are logged when they end, but the log is sorted by the time of the event.
	slices.SortStableFunc(record.Log, func(a, b Entry) int { return cmp.Compare(a.At, b.At) })
	for i := range record.Participants {
		record.Participants[i].Did = did(record.Participants[i].Actor, record.Log)
	}
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

// did counts the actions of a participant.
func did(who Actor, log []Entry) map[string]int {
	counts := map[string]int{}
	for _, one := range log {
		// What was healed is counted by fault below, not by the requests to heal.
		if one.Who != nil && *one.Who == who && one.Action != entryFailed && one.Action != ActionHealAll {
			counts[one.Action]++
		}
	}
	return counts
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
