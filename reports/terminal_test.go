package reports

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

func plainTerminal(w io.Writer, run Run) error { return Terminal(w, run, false) }

func colourTerminal(w io.Writer, run Run) error { return Terminal(w, run, true) }

func TestTerminalFitsTheScreen(t *testing.T) {
	runs := fixtures()
	runs["hostile"] = injected(hostile + strings.Repeat("\u6f22", 300))
	for name, run := range runs {
		for _, line := range strings.Split(render(t, run, plainTerminal), "\n") {
			copied := strings.HasPrefix(line, "Report  ") || strings.HasPrefix(line, "Rerun   ")
			if width := ansi.StringWidth(line); width > screenWidth && !copied {
				t.Errorf("%s: a line is %d columns wide: %s", name, width, line)
			}
		}
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
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if UseColor(file) {
		t.Error("a file is no terminal")
	}
}
