package reports

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/testkit/golden"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/reports/document"
)

func plainTerminal(w io.Writer, run Run) error { return Terminal(w, run, false, false) }

func colourTerminal(w io.Writer, run Run) error { return Terminal(w, run, true, false) }

// copied reports whether a line is meant to be copied, and so is never broken.
func copied(line string) bool {
	return slices.ContainsFunc([]string{"Report  ", "Rerun   ", "Trace  ", "Docs   ", "     see: "},
		func(key string) bool {
			return strings.HasPrefix(line, key)
		})
}

func TestTerminalFitsTheScreen(t *testing.T) {
	runs := fixtures()
	runs["hostile"] = injected(hostile + strings.Repeat("\u6f22", 300))
	for name, run := range runs {
		for line := range strings.SplitSeq(render(t, run, plainTerminal), "\n") {
			if width := ansi.StringWidth(line); width > screenWidth && !copied(line) {
				t.Errorf("%s: a line is %d columns wide: %s", name, width, line)
			}
		}
	}
}

// A busy machine leaves something unjudged for every invariant. In CI, three such invariants made a screen of 41
// lines.
func TestTerminalStaysOneScreenWhereMuchIsOpen(t *testing.T) {
	run := fixtures()["pass"]
	held := 0
	for i := range run.Verdict.Invariants {
		if r := &run.Verdict.Invariants[i]; r.Status == assertions.Pass {
			r.NotJudged = map[string]int64{"outage too short to tell whether it was surfaced": 1, "stall": 23}
			held++
		}
	}
	out := render(t, run, plainTerminal)
	if lines := strings.Count(out, "\n"); held < 8 || lines > 40 {
		t.Errorf("%d invariants held; %d lines:\n%s", held, lines, out)
	}
	if !strings.Contains(out, "no-loss: 1 not judged: outage too short to tell") ||
		!strings.Contains(out, " …\n") {
		t.Errorf("what was not judged, and that there is more of it, is not told:\n%s", out)
	}
}

func TestTerminalWithoutColourHasNoEscapes(t *testing.T) {
	out := render(t, injected(hostile), plainTerminal)
	for _, r := range out {
		if unseen(r) {
			t.Fatalf("the character %U got to the terminal", r)
		}
	}
	if !strings.Contains(out, `\x1b[31m`) {
		t.Error("the hostile escape sequence is not shown as text")
	}
}

func TestTerminalColourOnlyAddsColour(t *testing.T) {
	for name, run := range fixtures() {
		plain, coloured := render(t, run, plainTerminal), render(t, run, colourTerminal)
		if got := trimLines(ansi.Strip(coloured)); got != trimLines(plain) {
			t.Errorf("%s says something else in colour:\n%s\nwithout:\n%s", name, got, plain)
		}
		if coloured == plain {
			t.Errorf("%s has no colour", name)
		}
	}
}

func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func TestTerminalNeverCutsWhatIsCopied(t *testing.T) {
	run := passRun()
	run.Verdict.Rerun = "dlqbench run " + strings.Repeat("scenarios/long-name ", 20) + "--seed 42"
	if out := render(t, run, plainTerminal); !strings.Contains(out, run.Verdict.Rerun) {
		t.Errorf("the command is cut:\n%s", out)
	}
}

func TestUseColorOnlyOnTerminals(t *testing.T) {
	if UseColor(&bytes.Buffer{}) {
		t.Error("a buffer is no terminal")
	}
	file := must.Get(os.Create(t.TempDir() + "/out"))(t)
	defer file.Close()
	if UseColor(file) {
		t.Error("a file is no terminal")
	}
}

// At each width no line is wider than the terminal, or than what is easy to read, and each shown figure is whole.
func TestTerminalWidths(t *testing.T) {
	for name, run := range fixtures() {
		for columns, most := range map[int]int{60: 60, 80: 80, 200: 120} {
			var out strings.Builder
			must.Do(t, document.Terminal(&out, runDocument(run), columns, false))
			widest := 0
			for line := range strings.Lines(out.String()) {
				if line = strings.TrimSuffix(line, "\n"); copied(line) {
					continue
				}
				if widest = max(widest, ansi.StringWidth(line)); ansi.StringWidth(line) > most {
					t.Errorf("%s at %d columns: a line is too wide: %s", name, columns, line)
				}
			}
			if widest <= most-20 {
				t.Errorf("%s at %d columns: the widest line has %d", name, columns, widest)
			}
			if name == "missed" && columns == 60 {
				golden.Check(t, filepath.Join("testdata", "narrow.txt"), out.String())
			}
		}
	}
}

// A failing run fits on a screen, and --verbose shows the rest.
func TestTerminalVerbose(t *testing.T) {
	run := failRun()
	brief := render(t, run, plainTerminal)
	full := render(t, run, func(w io.Writer, run Run) error { return Terminal(w, run, false, true) })
	for _, section := range []string{"\nInvariants", "\nAll latencies", "\nLatency"} {
		if strings.Contains(brief, section) || !strings.Contains(full, section) {
			t.Errorf("%q is on the screen %v, and with --verbose %v", section, strings.Contains(brief, section),
				strings.Contains(full, section))
		}
	}
	if strings.Contains(full, " more in the report") {
		t.Errorf("something is left out:\n%s", full)
	}
	if lines := strings.Count(brief, "\n"); lines > 40 {
		t.Errorf("a failing run has %d lines:\n%s", lines, brief)
	}
}
