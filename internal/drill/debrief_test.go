package drill

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/faults/downstream"
	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/internal/testkit/browsertest"
	"github.com/dlqbench/dlqbench/internal/testkit/golden"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports"
)

// outcome is the outcome of a run in the folder.
func outcome(dir string) *run.Outcome {
	return &run.Outcome{
		Dir: dir,
		Verdict: &assertions.Verdict{
			Verdict: assertions.Fail, Reasons: []string{"no-loss: 2 records were lost"},
			Invariants: []assertions.Result{
				{Name: "no-loss", Status: assertions.Fail, Anomalies: []assertions.Anomaly{{Name: "lost", Count: 2}}},
				{Name: "liveness", Status: assertions.Pass},
			},
			Faults: []assertions.FaultResult{
				{Observed: assertions.FaultSeen{Effects: map[string]int64{"requests answered NOT_ENOUGH_REPLICAS": 12}}},
				{},
				{Observed: assertions.FaultSeen{Effects: map[string]int64{"requests answered": 3}}},
				{Observed: assertions.FaultSeen{Idle: "nobody asked <anything>"}},
			},
		},
		Judged: reports.Run{Dir: "runs/1", Header: history.Header{
			RunID: "1-quorum-outage", Seed: 7, Subject: "reference", Rerun: "dlqbench run runs/1/recorded.yaml",
			Started: time.Unix(1700000000, 0).UTC(),
		}},
	}
}

// eventful is a drill with a fault that was noticed and lifted, one that was not noticed, one that failed, and hostile
// input.
func eventful(t *testing.T) *Session {
	s, fake := newFake(t, nil)
	fake.pass(time.Second, 5)
	_, err := s.Break(t.Context(), ada, refusal())
	must.Do(t, err)
	fake.pass(2500*time.Millisecond, 50)
	must.Do(t, s.Notice(bob, "the dead letters have stopped"))
	must.Do(t, s.Note(Actor{Name: "<img src=x onerror=alert(1)>", Role: RoleResponder},
		"| a |\n# title\n<script>alert(1)</script> [x](javascript:alert(1)) `code` https://example.org"))
	fake.pass(time.Second, 60)
	must.Do(t, s.HealAll(t.Context(), bob))
	fake.pass(2*time.Second, 0)
	fake.script(catalogue.Spec{For: units.Duration(time.Minute),
		Network: &network.Network{Link: "downstream", Latency: units.Duration(200 * time.Millisecond), Toxicity: 1}})
	fake.pass(4*time.Second, 0)
	s.hear(run.FaultNews{Index: 1, Stage: run.FaultFailed, At: 10 * time.Second,
		Err: errors.New("the link is <gone>")})
	fake.script(catalogue.Spec{For: units.Duration(time.Minute), Downstream: &downstream.Downstream{Outage: true}})
	fake.script(catalogue.Spec{For: units.Duration(time.Minute),
		Downstream: &downstream.Downstream{Slow: units.Duration(time.Second)}})
	fake.pass(10*time.Second, 0)
	must.Do(t, s.Stop(ada))
	return s
}

// TestDebrief compares the outputs for people and for programs with golden files.
func TestDebrief(t *testing.T) {
	s, dir := eventful(t), t.TempDir()
	if _, _, err := s.Debrief(); !errors.Is(err, ErrNotOpen) {
		t.Errorf("a debrief of a drill that goes on: %v", err)
	}
	must.Do(t, s.Finish(outcome(dir), nil))
	<-s.Done()
	for _, name := range []string{FileJSON, FileMarkdown, FileHTML} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		must.Do(t, err)
		if name == FileHTML { // compare the content, not style and script
			got, _, _ = bytes.Cut(got[bytes.Index(got, []byte("<main")):], []byte("</main>"))
		}
		golden.Check(t, filepath.Join("testdata", name), string(got))
	}
	markdown, page, err := s.Debrief()
	must.Do(t, err)
	if len(markdown) == 0 || len(page) == 0 {
		t.Error("the debrief is empty")
	}
}

// TestTheDebriefInABrowser looks at the page on each screen, in both colour schemes, on paper, by keyboard and by
// axe-core, and checks that its curves are drawn.
func TestTheDebriefInABrowser(t *testing.T) {
	b := browsertest.Open(t)
	s, dir := eventful(t), t.TempDir()
	must.Do(t, s.Finish(outcome(dir), nil))
	b.OpenFile(filepath.Join(dir, FileHTML))
	b.Until(`document.querySelectorAll("[data-chart] canvas").length === 3`)
	b.Inspect("debrief")
	if console := b.Console(); len(console) > 0 {
		t.Errorf("the page writes to the console: %q", console)
	}
}

// TestHostileWords checks that people's input stays text in every format.
func TestHostileWords(t *testing.T) {
	s, dir := eventful(t), t.TempDir()
	must.Do(t, s.Finish(outcome(dir), nil))
	markdown, page, err := s.Debrief()
	must.Do(t, err)
	content, _, _ := bytes.Cut(page[bytes.Index(page, []byte("<main")):], []byte("</main>"))
	if n := bytes.Count(page, []byte("<script")); n != 4 {
		t.Errorf("the debrief has %d scripts, want its own 4", n)
	}
	// Its own links lead to the files beside it and to the pages of the invariants.
	content = regexp.MustCompile(`<a class="u" href="([a-z]+\.[a-z]+|https://github\.com/dlqbench/[^"]+)">`).
		ReplaceAll(content, nil)
	if found := regexp.MustCompile(`(?i)<(script|img|a|link|iframe|object|svg|base)\b`).Find(content); found != nil {
		t.Errorf("the debrief has an element %s", found)
	}
	if found := regexp.MustCompile(`(?i)(src|href)\s*=\s*"?https?:|url\(`).Find(content); found != nil {
		t.Errorf("the debrief asks for something from elsewhere: %s", found)
	}
	for _, bad := range []string{"<img", "<script", "[x](", "\n# title", "`code`", "https://example"} {
		if strings.Contains(string(markdown), bad) {
			t.Errorf("the Markdown has %q", bad)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, FileJSON))
	must.Do(t, err)
	var record Record
	must.Do(t, json.Unmarshal(text, &record))
	if !strings.Contains(string(text), `\u003cscript\u003e`) {
		t.Error("drill.json does not escape markup")
	}
}

// TestNoRun checks that the debrief of a drill whose run never started gives the reason.
func TestNoRun(t *testing.T) {
	s, _ := newFake(t, nil)
	must.Do(t, s.Finish(nil, errors.New("starting the brokers: no space")))
	state := s.State(RoleResponder)
	if state.Stage != StageOver || !strings.Contains(state.Result.Error, "no space") || state.Result.Verdict != "" {
		t.Errorf("%+v", state.Result)
	}
	markdown, _, err := s.Debrief()
	must.Do(t, err)
	if !strings.Contains(string(markdown), "no verdict") || !strings.Contains(string(markdown), "no space") {
		t.Errorf("%s", markdown)
	}
	wants(t, s.Stop(ada), ErrNotOpen)
	wants(t, s.HealAll(t.Context(), bob), ErrNotOpen)
}

// TestTrimmed checks that people's input cannot move a cursor, reverse the writing direction, or fill the page.
func TestTrimmed(t *testing.T) {
	for text, want := range map[string]string{
		"  plain  ": "plain", "a\x1b[2Jb\x00\a": "a[2Jb", "a\u202eb\u2066c": "abc", "\xff": "\uFFFD",
		"línea\nzwei": "línea\nzwei", strings.Repeat("ä", 70): strings.Repeat("ä", 60) + "…",
	} {
		if got := trimmed(text, maxName); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
