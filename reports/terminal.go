package reports

// The end of a run on a terminal: one screen of 80 columns, the verdict first, what to do next last.

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/units"
)

const (
	screenWidth = 80
	// narrowScreen is the least width that lines are made for.
	narrowScreen = 40
	// A screen has no room for every fault and reason of a long run; the report does.
	screenFaults  = 8
	screenReasons = 4
	screenSummary = 180
	screenRemarks = 2 // lines
	remarkIndent  = 3
)

// UseColor tells whether what is written to w may be coloured: w is a terminal that can, and NO_COLOR
// (https://no-color.org) is not set.
func UseColor(w io.Writer) bool {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// screen collects the lines of a terminal report of so many columns.
type screen struct {
	lines []string
	color bool
	width int
}

// Terminal writes the end of a run: verdict, invariants with their evidence, faults and how long it took to be rid of
// them, latencies, ledger, drain, the harness's health, thresholds, reasons, where the report is and how to run it
// again. Lines are cut at 80 columns, or at fewer where the terminal has fewer, except for paths and commands that are
// meant to be copied. Without color it writes no escape sequence.
func Terminal(w io.Writer, run Run, color bool) error {
	return writeTerminal(w, run, color, Columns(w))
}

func writeTerminal(w io.Writer, run Run, color bool, columns int) error {
	if run.Verdict == nil {
		return errNoVerdict
	}
	s := &screen{color: color, width: min(max(columns, narrowScreen), screenWidth)}
	s.banner(run)
	s.invariants(run.Verdict)
	s.faults(run.Verdict)
	s.latencies(run.Verdict)
	s.figures(run.Verdict)
	s.thresholds(run.Verdict)
	s.reasons(run.Verdict)
	s.next(run)
	if _, err := io.WriteString(w, strings.Join(s.lines, "\n")+"\n"); err != nil {
		return fmt.Errorf("writing the summary: %w", err)
	}
	return nil
}

// add appends a line cut to the screen.
func (s *screen) add(format string, args ...any) {
	line := strings.TrimRight(fmt.Sprintf(format, args...), " ")
	s.lines = append(s.lines, ansi.Truncate(line, s.width, "…"))
}

// addWrapped appends words broken into lines that are indented.
func (s *screen) addWrapped(indent int, words string) {
	for line := range strings.SplitSeq(ansi.Wordwrap(words, s.width-indent, ""), "\n") {
		s.add("%s%s", strings.Repeat(" ", indent), strings.TrimSpace(line))
	}
}

// addAtMost is addWrapped of so many lines, the last of which shows where there is more.
func (s *screen) addAtMost(lines, indent int, words string) {
	before := len(s.lines)
	s.addWrapped(indent, words)
	if limit := before + lines; len(s.lines) > limit {
		last := ansi.Truncate(s.lines[limit-1], s.width-2, "")
		s.lines = append(s.lines[:limit-1], last+" …")
	}
}

func (s *screen) heading(words string) {
	s.lines = append(s.lines, "")
	s.add("%s", s.bold(words))
}

// The colours are the terminal's own 16, so that they fit whatever theme the reader has.
func (s *screen) style(words, colour string, bold bool) string {
	if !s.color {
		return words
	}
	style := lipgloss.NewStyle().Bold(bold)
	if colour != "" {
		style = style.Foreground(lipgloss.Color(colour))
	}
	return style.Render(words)
}

func (s *screen) bold(words string) string { return s.style(words, "", true) }

func (s *screen) faint(words string) string {
	if !s.color {
		return words
	}
	return lipgloss.NewStyle().Faint(true).Render(words)
}

// mark is a status as one sign in its colour.
func (s *screen) mark(status assertions.Status) string {
	switch status {
	case assertions.Pass:
		return s.style("✓", "2", true)
	case assertions.Fail:
		return s.style("✗", "1", true)
	case assertions.NotApplicable:
		return s.faint("–")
	}
	return s.style("?", "3", true)
}

// partial is the sign of what held, and was judged in part only.
func (s *screen) partial() string { return s.style("~", "3", true) }

func (s *screen) banner(run Run) {
	v := run.Verdict
	stand := stands(v)
	badge := " " + stand.word() + " "
	if s.color {
		background := map[standing]string{standsPass: "2", standsFail: "1"}[stand]
		if background == "" {
			background = "3"
		}
		badge = lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Color("0")).Background(lipgloss.Color(background)).
			Render(badge)
	}
	s.add("%s %s", badge, s.bold(name(v.Scenario)))
	s.addWrapped(1, headline(v))
	s.addWrapped(1, coverage(v))
	s.add("%s", s.faint(" "+strings.Join(facts(run), " · ")))
}

// facts are what the run was, in a few words.
func facts(run Run) []string {
	v := run.Verdict
	out := []string{name(v.Subject)}
	if run.Verdict.Instances > 0 {
		out[0] += " × " + units.Count(int64(run.Verdict.Instances))
	}
	out = append(out, counted(v.Ledger.Acknowledged, "records"), units.PerSecond(v.Throughput.Sent))
	if length := ended(v); length > 0 {
		out = append(out, units.Text(length.Round(100*time.Millisecond)))
	}
	return append(out, fmt.Sprintf("seed %d", v.Seed))
}

// The tables of faults and latencies leave out columns where the terminal is narrower than this.
const (
	widestFault   = 67
	widestLatency = 77
)

// Where everything is well the invariants stand side by side; their cells are this wide. Names that don't fit, those of
// a graph have their node's before them, have a line each.
const (
	cellWidth  = 39
	cellName   = 20
	widestName = 34
)

func (s *screen) invariants(v *assertions.Verdict) {
	if len(v.Invariants) == 0 {
		return
	}
	s.heading("Invariants")
	var quiet []assertions.Result
	all, width := ranked(v), 24
	for _, r := range all {
		width = min(max(width, ansi.StringWidth(name(r.Name))), widestName)
	}
	for _, r := range all {
		switch {
		case r.Status == assertions.NotApplicable: // the banner has it
		case r.Status == assertions.Pass && len(r.Anomalies) == 0 && width <= 24 && !r.Partial():
			quiet = append(quiet, r)
		default:
			s.invariant(r, width)
		}
	}
	// Down the first column, then down the second, if there is room for one.
	rows, widest := len(quiet), 0
	if s.width > 2*cellWidth {
		rows = (rows + 1) / 2
	}
	for _, r := range quiet {
		widest = max(widest, len(units.Count(r.Judged)))
	}
	for i := range rows {
		line := " " + s.quietCell(quiet[i], widest)
		if i+rows < len(quiet) {
			line += " " + s.quietCell(quiet[i+rows], widest)
		}
		s.add("%s", line)
	}
	s.leftOpen(quiet)
}

// leftOpen says what is to be known about invariants that held: a busy machine leaves something open of nearly each of
// them. Where there is no room for the reasons, they are in the report.
func (s *screen) leftOpen(held []assertions.Result) {
	var remarks, counts []string
	for _, r := range held {
		more := remark(r)
		if more == "" {
			continue
		}
		remarks = append(remarks, name(r.Name)+": "+more)
		n := int64(0)
		for _, several := range r.NotJudged {
			n += several
		}
		counts = append(counts, name(r.Name)+" "+units.Count(n))
	}
	if len(remarks) == 0 {
		return
	}
	words, room := strings.Join(remarks, "; "), screenRemarks*(s.width-remarkIndent)
	if ansi.StringWidth(words) > room {
		words = "not judged (why: report): " + strings.Join(counts, ", ")
	}
	s.addAtMost(screenRemarks, remarkIndent, words)
}

// quietCell is an invariant that held and about which there is nothing more to say; widest is how wide its column of
// numbers is.
func (s *screen) quietCell(r assertions.Result, widest int) string {
	n := units.Count(r.Judged)
	words := cell(name(r.Name), cellName) + strings.Repeat(" ", 1+widest-len(n)) + n + " " + shortUnit(r)
	return s.mark(r.Status) + " " + cell(words, cellWidth-2)
}

// shortUnit is the last word of what an invariant has looked at, where there is no room for more: of dead-lettered
// records, records.
func shortUnit(r assertions.Result) string {
	words := strings.Fields(unit(r))
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}

// invariant tells everything about one.
func (s *screen) invariant(r assertions.Result, width int) {
	if s.heldInPart(r, width) {
		return
	}
	if r.Status == assertions.Pass && r.Partial() {
		s.add(" %s %s %s", s.partial(), cell(name(r.Name), width), judgedOf(r)+" judged")
		s.addWrapped(5, notJudged(r))
		return
	}
	s.add(" %s %s %s %9s %s", s.mark(r.Status), cell(name(r.Name), width), cell(string(r.Status), 13),
		units.Count(r.Judged),
		unit(r))
	if more := remark(r); more != "" {
		s.addWrapped(5, more)
	}
	for _, a := range r.Anomalies {
		s.add("     %s × %s", s.style(name(a.Name), "1", true), units.Count(a.Count))
		if len(a.Counterexamples) > 0 {
			s.addWrapped(5, "e.g. "+visible(a.Counterexamples[0].Summary, screenSummary))
			if command := a.Counterexamples[0].Command; command != "" {
				s.addWrapped(5, "see: "+text(command))
			}
		}
	}
}

// heldInPart tells of an invariant that held in one line, with what was not judged, where that has room; it reports
// whether it did.
func (s *screen) heldInPart(r assertions.Result, width int) bool {
	told := fmt.Sprintf("%9s %s; %s", units.Count(r.Judged), unit(r), remark(r))
	if r.Status != assertions.Pass || r.Partial() || remark(r) == "" || 4+width+ansi.StringWidth(told) > s.width {
		return false
	}
	s.add(" %s %s %s", s.mark(r.Status), cell(name(r.Name), width), told)
	return true
}

// unit is the name of what an invariant has looked at, as it follows the number.
func unit(r assertions.Result) string {
	if r.Judged == 1 {
		return singular(name(r.Of))
	}
	return name(r.Of)
}

// remark is what must be known about an invariant beside its status.
func remark(r assertions.Result) string {
	if r.Why != "" {
		return text(r.Why)
	}
	return notJudged(r)
}

func (s *screen) faults(v *assertions.Verdict) {
	if len(v.Faults) == 0 {
		return
	}
	wide := s.width >= widestFault
	if wide {
		s.heading("Faults                 in force       noticed  lag back    steady")
	} else {
		s.heading("Faults                 in force          steady")
	}
	for i, f := range v.Faults {
		if i == screenFaults {
			s.add("   %s more in the report", units.Count(int64(len(v.Faults)-i)))
			break
		}
		state, mark := became(v, f), s.mark(assertions.Pass)
		if !state.sound() {
			mark = s.mark(assertions.Inconclusive)
		}
		observed, did := window(f.Observed.FaultWindow), effects(f)
		if !f.Observed.Injected {
			observed = "–"
		}
		if did == "" || !state.sound() {
			did = strings.TrimSuffix(string(state)+": "+did, ": ") + "; planned " + window(f.Planned)
		}
		line := fmt.Sprintf(" %s %s %s", mark, cell(faultName(f), 19), cell(observed, 14))
		if f.Observed.Injected && wide {
			line += s.span(f.Recovery.Detect) + s.span(f.Recovery.CatchUp)
		}
		if f.Observed.Injected {
			line += s.span(f.Recovery.Steady)
		}
		s.add("%s", line)
		s.addWrapped(5, s.faint(did))
	}
}

// span is a time that may not be known, in a column of ten.
func (s *screen) span(span measure.Span) string {
	words := "–"
	if span.State != "" {
		words = spanValue(span)
	}
	out := strings.Repeat(" ", max(1, 10-ansi.StringWidth(words)))
	if span.State == measure.SpanNever {
		return out + s.style(words, "3", true)
	}
	return out + words
}

// cell pads or cuts words to exactly width columns.
func cell(words string, width int) string {
	words = ansi.Truncate(words, width, "…")
	return words + strings.Repeat(" ", width-ansi.StringWidth(words))
}

// latencies tells those that a user of the subject feels; the report has them all.
func (s *screen) latencies(v *assertions.Verdict) {
	var rows []string
	for _, key := range []string{
		measure.LatencySuccess, measure.LatencyService, measure.LatencyDeadLetter, measure.LatencyCommitDelay,
		measure.LatencyReplay,
	} {
		q := v.Latency[key].Quantiles
		if q.Count == 0 {
			continue
		}
		title, _ := latencyTitle(key)
		figures := right(q.P50) + right(q.P90) + right(q.P99) + right(q.P999) + right(q.Max)
		if s.width < widestLatency {
			figures = right(q.P50) + right(q.P99) + right(q.Max)
		}
		rows = append(rows, " "+cell(title, 21)+figures)
	}
	if len(rows) == 0 {
		return
	}
	if s.width < widestLatency {
		s.heading(fmt.Sprintf("%-22s%11s%11s%11s", "Latency", "p50", "p99", "max"))
	} else {
		s.heading(fmt.Sprintf("%-22s%11s%11s%11s%11s%11s", "Latency", "p50", "p90", "p99", "p99.9", "max"))
	}
	for _, row := range rows {
		s.add("%s", row)
	}
}

func right(d time.Duration) string {
	words := units.Text(d)
	return strings.Repeat(" ", max(1, 11-ansi.StringWidth(words))) + words
}

// figures are where the records went, how the run came to its end, and how the harness was.
func (s *screen) figures(v *assertions.Verdict) {
	s.lines = append(s.lines, "")
	s.labelled("Records", conservation(v))
	if len(v.Phases) > 0 {
		drained := "not drained"
		if v.Drain.Drained {
			drained = units.Text(v.Drain.Time)
		}
		s.labelled("Drain", fmt.Sprintf("%s; lag at most %s, %s at the end", drained, units.Count(v.Drain.LagMax),
			units.Count(v.Drain.LagEnd)))
	}
	if remark := remarkOnRetries(v.Usage); remark != "" {
		s.labelled("Retries", remark)
	}
	h := v.Health
	words := fmt.Sprintf("slip p99 %s, %s", units.Text(h.SlipP99), units.Plural(h.Stalls, "stall", "stalls"))
	if h.Stalls > 0 {
		words += " of " + units.Text(h.Stalled) + " in all"
	}
	if h.CPU > 0 {
		words += ", " + units.Significant(h.CPU) + " processors used"
	}
	s.labelled("Harness", words)
}

// labelled appends words after a label, wrapped beside it.
func (s *screen) labelled(label, words string) {
	const indent = 8
	for i, line := range strings.Split(ansi.Wordwrap(words, s.width-indent, ""), "\n") {
		head := strings.Repeat(" ", indent)
		if i == 0 {
			head = s.bold(label) + strings.Repeat(" ", indent-len(label))
		}
		s.add("%s%s", head, strings.TrimSpace(line))
	}
}

func (s *screen) thresholds(v *assertions.Verdict) {
	if len(v.Thresholds) == 0 {
		return
	}
	s.heading("Thresholds")
	for _, t := range v.Thresholds {
		mark := s.mark(assertions.Pass)
		if !t.Met {
			mark = s.mark(assertions.Fail)
		}
		s.add(" %s %s", mark, thresholdText(t))
	}
}

// reasons tells those that the headline has not told yet.
func (s *screen) reasons(v *assertions.Verdict) {
	rest := furtherReasons(v)
	if len(rest) == 0 {
		return
	}
	s.heading("Also")
	for i, reason := range rest {
		if i == screenReasons {
			s.add(" %s more in the report", units.Count(int64(len(rest)-i)))
			break
		}
		s.addWrapped(1, text(reason))
	}
}

// next says where to go from here. These lines are never cut: they are there to be copied.
func (s *screen) next(run Run) {
	s.lines = append(s.lines, "")
	if run.Dir != "" {
		s.lines = append(s.lines, s.bold("Report")+"  "+visible(filepath.Join(run.Dir, HTMLFile), 4096))
	}
	if run.Verdict.Rerun != "" {
		s.lines = append(s.lines, s.bold("Rerun")+"   "+visible(run.Verdict.Rerun, 4096))
	}
}
