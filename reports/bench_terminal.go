package reports

// The end of a bench on a terminal: how many cells kept their promises, the cells with their figures, what to change.

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/units"
)

const (
	// terminalFigures is how many figures a line of 80 columns has room for.
	terminalFigures = 4
	// terminalReasons is how many reasons are told of each cell.
	terminalReasons = 2
)

// BenchTerminal writes the end of a bench; dir is its folder, "" where nothing was written. Lines are cut at 80
// columns, except for commands and paths that are meant to be copied. Without color it writes no escape sequence.
func BenchTerminal(w io.Writer, bench Bench, dir string, color bool) error {
	s := &screen{color: color, width: screenWidth}
	s.benchBanner(bench)
	s.benchCells(bench)
	s.benchNoise(bench)
	s.benchAdvice(bench)
	if dir != "" {
		s.heading("Report")
		s.lines = append(s.lines, " "+visible(dir, 4096)+"/"+HTMLFile)
	}
	if _, err := io.WriteString(w, strings.Join(s.lines, "\n")+"\n"); err != nil {
		return fmt.Errorf("writing the summary of the bench: %w", err)
	}
	return nil
}

func (s *screen) benchBanner(bench Bench) {
	badge := " BENCH "
	if s.color {
		background := "2"
		switch {
		case bench.Count(BenchBroken) > 0:
			background = "1"
		case bench.Interrupted || bench.Count(BenchOK) < len(bench.Cells):
			background = "3"
		}
		badge = lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Color("0")).Background(lipgloss.Color(background)).
			Render(badge)
	}
	s.add("%s %s", badge, s.bold(name(bench.Name)))
	s.addWrapped(1, benchHeadline(bench))
	s.addWrapped(1, strings.Join(benchAbout(bench), " · "))
}

func (s *screen) benchCells(bench Bench) {
	if len(bench.Cells) == 0 {
		return
	}
	columns := terminalColumns(bench)
	front := onFront(bench)
	s.heading("Cells (medians, ± half the width of the middle half; * no other beats it)")
	head := strings.Repeat(" ", 7)
	for _, column := range columns {
		head += fmt.Sprintf("%18s", column.title)
	}
	s.add("%s", s.faint(head))
	for _, of := range bench.Cells {
		mark := map[BenchState]assertions.Status{BenchOK: assertions.Pass, BenchBroken: assertions.Fail,
			BenchNotRun: assertions.NotApplicable}[of.State]
		star := " "
		if front[of.Number] {
			star = "*"
		}
		s.add(" %s%s%2d %s", s.mark(mark), star, of.Number, name(of.Name))
		figures, measured := strings.Repeat(" ", 7), false
		for _, column := range columns {
			value, spread := column.shown(of)
			figures += fmt.Sprintf("%18s", cmp.Or(strings.TrimSpace(value+" "+spread), "–"))
			measured = measured || value != ""
		}
		if measured {
			s.add("%s", figures)
		}
		for i, why := range of.Why {
			if i == terminalReasons {
				s.add("      … and %s that the report tells", units.Plural(int64(len(of.Why)-i), "more reason", "more reasons"))
				break
			}
			s.addWrapped(6, text(why))
		}
		if of.Command != "" {
			s.lines = append(s.lines, "      see: "+visible(of.Command, 4096))
		}
	}
}

// terminalColumns are the figures that decide, as many as fit.
func terminalColumns(bench Bench) []benchColumn {
	var out []benchColumn
	for _, wanted := range []string{primary(bench.Mode).Name, "latency.success.p99", "share.duplicates", "recovery.steady",
		"recovery.drain", "latency.success.p50"} {
		for _, column := range benchColumns(bench) {
			if column.Name == wanted && len(out) < terminalFigures {
				out = append(out, column)
			}
		}
	}
	return out
}

func (s *screen) benchNoise(bench Bench) {
	var parts []string
	for _, column := range terminalColumns(bench) {
		if noise, known := noiseOf(bench, column.BenchFigure); known {
			parts = append(parts, column.title+" "+percent(noise))
		}
	}
	if len(parts) > 0 {
		s.heading("Noise floor")
		s.addWrapped(1, "Three quarters of all pairs of identical runs differ by at most: "+strings.Join(parts, ", ")+".")
	}
}

func (s *screen) benchAdvice(bench Bench) {
	if len(bench.Advice) == 0 {
		return
	}
	s.heading("What to change")
	for _, advice := range bench.Advice {
		s.addWrapped(1, "• "+text(advice.Text))
		for _, evidence := range advice.Evidence {
			if strings.HasPrefix(evidence, ShownBy) { // a command is copied
				s.lines = append(s.lines, "     "+visible(evidence, 4096))
				continue
			}
			s.addWrapped(5, text(evidence))
		}
	}
}
