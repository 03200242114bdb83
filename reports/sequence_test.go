package reports

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/testkit/golden"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/reports/document"
)

// draw renders the diagram of a counterexample as in the page.
func draw(t interface{ Fatalf(string, ...any) }, v *assertions.Verdict, w assertions.Counterexample) string {
	var b strings.Builder
	doc := document.Document{Sections: []document.Section{{Blocks: []document.Block{newCounterexample(v, w, "w-1-1-1")}}}}
	if err := document.HTML(&b, doc); err != nil {
		t.Fatalf("%v", err)
	}
	from := strings.Index(b.String(), "<svg ")
	return b.String()[from : strings.Index(b.String(), "</svg>")+len("</svg>")]
}

// TestSequenceGolden draws traces from runs of consumers with planted bugs: in place and with retry topics, in a
// dead-letter store, in a graph.
func TestSequenceGolden(t *testing.T) {
	traces, err := filepath.Glob("testdata/sequences/*.json")
	if err != nil || len(traces) < 5 {
		t.Fatalf("%d traces (%v)", len(traces), err)
	}
	for _, path := range traces {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			data := must.Get(os.ReadFile(path))(t)
			var told struct {
				Counterexample assertions.Counterexample
				Faults         []assertions.FaultResult
			}
			must.Do(t, json.Unmarshal(data, &told))
			golden.Check(t, strings.TrimSuffix(path, ".json")+".svg", draw(t, &assertions.Verdict{Faults: told.Faults},
				told.Counterexample))
		})
	}
}

func TestSequenceMarksAndJoinsTheContradiction(t *testing.T) {
	d := newSequence(&assertions.Verdict{Faults: fixtureFaults()}, commitCounterexample())
	marked := 0
	for _, row := range d.Rows {
		if row.Marked {
			marked++
		}
	}
	if marked != 2 || d.Bracket == nil || d.Bracket.Apart != "1.52 s" || len(d.Bracket.Badges) != 2 {
		t.Errorf("%d rows are marked, the bracket is %+v", marked, d.Bracket)
	}
	gap := slices.IndexFunc(d.Rows, func(r document.Step) bool { return r.Across == "⋮ 1.52 s" })
	if gap < 0 || !d.Rows[gap+1].Marked {
		t.Error("the long wait before the late acknowledgement is not told")
	}
	if first := slices.IndexFunc(d.Rows, func(r document.Step) bool {
		return r.InForce
	}); first < 0 || d.Rows[first].Faults != "F1" {
		t.Error("the fault that was in force is not shown")
	}
}

func TestSequenceFoldsWhatRepeats(t *testing.T) {
	w := commitCounterexample()
	var long []assertions.Line
	for i := range 40 {
		at := time.Duration(i) * ms
		long = append(long, assertions.Line{Time: at, Kind: "attempt-start", From: "instance 0", To: "downstream",
			Label: fmt.Sprintf("attempt %d", i+1)},
			assertions.Line{Time: at, Kind: "attempt-end", From: "downstream", To: "instance 0", Label: "transient",
				Failed: true})
	}
	w.Trace = slices.Concat(long, w.Trace)
	d := newSequence(&assertions.Verdict{}, w)
	if len(d.Rows) > sequenceLines+6 {
		t.Errorf("%d rows", len(d.Rows))
	}
	folds := 0
	for _, row := range d.Rows {
		if strings.HasPrefix(row.Across, "… ") && strings.Contains(row.Across, "attempts among them") {
			folds++
		}
	}
	if folds != 1 {
		t.Errorf("%d rows tell of folded attempts, want 1: %+v", folds, d.Rows)
	}
}

// For any number of participants, those of the contradiction are drawn.
func TestSequenceOfManyLanes(t *testing.T) {
	w := commitCounterexample()
	for i := range 12 {
		other := assertions.Actor{Name: fmt.Sprintf("input.retry-%d", i), Role: "retry"}
		w.Actors = slices.Insert(w.Actors, 2, other)
		w.Trace = slices.Insert(w.Trace, 3, assertions.Line{Time: 7265 * ms, Kind: "fetched", From: other.Name,
			To: "instance 0", Label: "fetch 3"})
	}
	d := newSequence(&assertions.Verdict{}, w)
	if len(d.Lanes) != maxLanes {
		t.Errorf("%d lanes, want %d", len(d.Lanes), maxLanes)
	}
	for _, want := range []string{"input", "instance 0", "dlq"} {
		if !slices.ContainsFunc(d.Lanes, func(l document.Lane) bool { return l.Full == want }) {
			t.Errorf("%s, which the contradiction is about, has no lane", want)
		}
	}
}

func TestSequenceOfNothing(t *testing.T) {
	for name, w := range map[string]assertions.Counterexample{
		"without participants": {Trace: []assertions.Line{{Text: "x"}}},
		"of a partition": {Actors: commitCounterexample().Actors, Trace: []assertions.Line{{Text: "in force"},
			{From: "input", Label: "x"}}},
		"of an old verdict": {Trace: []assertions.Line{{Kind: "send", Text: "sent"}, {Kind: "acked", Text: "acked"}}},
	} {
		if d := newSequence(&assertions.Verdict{}, w); d != nil {
			t.Errorf("a trace %s is drawn: %+v", name, d)
		}
	}
}

var coordinate = regexp.MustCompile(`(?:[xy]|cx|cy|width|height)="(-?\d+)"`)

// For any trace, nothing is drawn outside the diagram, no text is wider than it, and marked events are drawn.
func TestSequenceProperty(t *testing.T) {
	names := rapid.SampledFrom([]string{"workload", "input", "instance 0", "instance 1", "downstream", "dlq", "store",
		"worker 0", hostile, ""})
	rapid.Check(t, func(t *rapid.T) {
		w := assertions.Counterexample{Summary: hostile}
		now := time.Duration(0)
		for range rapid.IntRange(0, 90).Draw(t, "lines") {
			now += time.Duration(rapid.Int64Range(0, int64(2*sec)).Draw(t, "step"))
			line := assertions.Line{
				Time: now, Kind: rapid.SampledFrom([]string{"send", "attempt-start", "commit-response", hostile}).Draw(t, "kind"),
				Text:  rapid.String().Draw(t, "text"),
				Label: rapid.StringN(0, 200, -1).Draw(t, "label"), From: names.Draw(t, "from"), To: names.Draw(t, "to"),
				Marked: rapid.IntRange(0, 9).Draw(t, "marked") == 0,
			}
			for _, who := range []string{line.From, line.To} {
				if who != "" && !slices.ContainsFunc(w.Actors, func(a assertions.Actor) bool { return a.Name == who }) {
					w.Actors = append(w.Actors, assertions.Actor{Name: who, Role: "dlq"})
				}
			}
			w.Trace = append(w.Trace, line)
		}
		d := newSequence(&assertions.Verdict{Faults: fixtureFaults()}, w)
		if d == nil {
			return
		}
		for _, match := range coordinate.FindAllStringSubmatch(draw(t, &assertions.Verdict{}, w), -1) {
			var at int
			if _, err := fmt.Sscan(match[1], &at); err != nil || at < 0 || at > max(d.Width, d.Height) {
				t.Fatalf("%s lies outside a diagram of %d × %d", match[0], d.Width, d.Height)
			}
		}
		for _, row := range d.Rows {
			if float64(utf8.RuneCountInString(row.Label+row.Across))*letterWidth > float64(d.Span)+letterWidth {
				t.Fatalf("%q is wider than %d", row.Label+row.Across, d.Span)
			}
		}
	})
}
