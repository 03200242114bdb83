package document

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// The minimum and maximum line widths. On wider terminals, lines of the maximum width are easier to read.
const (
	leastColumns = 40
	mostColumns  = 120
)

// The indents of text below a title, and of text below a row of a table or an item of a list.
const (
	indent = 1
	below  = 5
)

// terminal collects the lines of a report.
type terminal struct {
	lines []string
	color bool
	width int
	// section and title are those of the current part until some of its content is written. A part without content
	// gets no title.
	section, title Text
}

// Terminal writes a document for a terminal with the given number of columns. Only text meant to be copied may be
// wider, and no figure is cut or broken. Without color, no escape sequence is written.
func Terminal(w io.Writer, doc Document, columns int, color bool) error {
	s := &terminal{color: color, width: min(max(columns, leastColumns), mostColumns)}
	s.banner(doc.Mark, doc.Word, doc.Title)
	for _, lead := range doc.Lead {
		s.flow(indent, lead)
	}
	if len(doc.About) > 0 {
		s.flow(indent, Plain(strings.Join(doc.About, " · ")))
	}
	for _, section := range doc.Sections {
		if section.Folded {
			continue
		}
		switch {
		case section.Word != "":
			s.add("")
			s.banner(section.Mark, section.Word, section.Title)
		default:
			s.section = heading(section.Title, section.Aside)
		}
		for _, block := range section.Blocks {
			s.block(block)
		}
		s.section, s.title = nil, nil
	}
	if _, err := io.WriteString(w, strings.Join(s.lines, "\n")+"\n"); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// heading returns a title with its explanation.
func heading(title, aside string) Text {
	out := Text{{Text: title, Style: StyleBold}}
	if aside != "" {
		out = append(out, Span{Text: " (" + aside + ")"})
	}
	return out
}

// open writes the titles of the part unless they are already written. A part without a title is preceded by an empty
// line.
func (s *terminal) open() {
	titles := []Text{s.section, s.title}
	s.section, s.title = nil, nil
	for _, title := range titles {
		if title == nil {
			continue
		}
		s.lines = append(s.lines, "")
		if title[0].Text != "" {
			s.flow(0, title)
		}
	}
}

// add appends a line unchanged.
func (s *terminal) add(line string) {
	s.open()
	s.lines = append(s.lines, strings.TrimRight(line, " "))
}

// flow appends a text, indented and broken into lines. A line with text to copy is not broken.
func (s *terminal) flow(indent int, text Text) {
	s.hang(strings.Repeat(" ", indent), indent, text)
}

// quantity is a number with its unit or its sign, which are not separated. joined is a name such as no-loss or input-3,
// which is not broken at its hyphens.
var (
	quantity = regexp.MustCompile(`([0-9]|×) (%|(?:µs|ms|s|B|[KMG]iB)\b|[0-9])`)
	joined   = regexp.MustCompile(`([\pL\pN])-([\pL\pN])`)
)

// The characters that keep a line from being broken at a space or a hyphen.
const (
	noBreakSpace  = "\u00a0"
	noBreakHyphen = "\u2011"
)

// unbroken marks where a text must not be broken, and whole removes the marks.
func unbroken(text string) string {
	text = quantity.ReplaceAllString(text, "$1"+noBreakSpace+"$2")
	for range 2 { // the two letters of a-b-c share one
		text = joined.ReplaceAllString(text, "$1"+noBreakHyphen+"$2")
	}
	return text
}

func whole(text string) string {
	return strings.NewReplacer(noBreakSpace, " ", noBreakHyphen, "-").Replace(text)
}

// Flow breaks the lines of a text at spaces, where they are longer than so many columns.
func Flow(text string, columns int) string {
	return whole(ansi.Wordwrap(strings.ReplaceAll(text, "-", noBreakHyphen), columns, ""))
}

// hang is like flow, with the given words before the first line.
func (s *terminal) hang(first string, indent int, text Text) {
	for _, line := range text.lines() {
		styled := s.text(line)
		if !slices.ContainsFunc(line, Span.copied) {
			styled = ansi.Wrap(unbroken(styled), s.width-indent, "")
		}
		for part := range strings.SplitSeq(styled, "\n") {
			s.add(first + strings.TrimSpace(whole(part)))
			first = strings.Repeat(" ", indent)
		}
	}
}

// copied reports whether a span is meant to be copied: a command or an address.
func (s Span) copied() bool { return s.Style == StyleCode || s.address() }

// address reports whether a span leads to another site.
func (s Span) address() bool { return strings.HasPrefix(s.Link, "https://") }

// text formats a one-line text in its styles.
func (s *terminal) text(text Text) string {
	var b strings.Builder
	for _, span := range text {
		if span.Style == StyleBreak {
			b.WriteString("; ")
			continue
		}
		b.WriteString(s.style(Visible(span.Text, Whole), span.Mark.look().colour, span.Style == StyleBold))
	}
	return b.String()
}

// style colours words. It uses the terminal's 16 colours, so that they fit any theme.
func (s *terminal) style(words, colour string, bold bool) string {
	if !s.color || words == "" || colour == "" && !bold {
		return words
	}
	style := lipgloss.NewStyle().Bold(bold)
	if colour != "" {
		style = style.Foreground(lipgloss.Color(colour))
	}
	return style.Render(words)
}

func (s *terminal) faint(words string) string {
	if !s.color || words == "" {
		return words
	}
	return lipgloss.NewStyle().Faint(true).Render(words)
}

func (s *terminal) mark(mark Mark) string {
	look := mark.look()
	return s.style(look.sign, look.colour, true)
}

func (s *terminal) banner(mark Mark, word, title string) {
	badge := " " + Visible(word, Whole) + " "
	if s.color {
		badge = lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Color("0")).
			Background(lipgloss.Color(mark.look().colour)).Render(badge)
	}
	s.hang(badge+" ", ansi.StringWidth(badge)+1, Bold(title))
}

func (s *terminal) block(block Block) {
	switch block := block.(type) {
	case Heading:
		s.title = heading(string(block), "")
	case Paragraph:
		s.flow(indent, block.Text)
	case List:
		for i, item := range block.Items {
			if i == block.Most && i > 0 {
				s.more(indent, len(block.Items)-i)
				break
			}
			bullet := " • "
			if block.Tasks {
				bullet = " ☐ "
			}
			s.hang(bullet, below-2, item.Text)
			for _, more := range item.Below {
				s.flow(below, more)
			}
		}
	case KeyValues:
		s.keyValues(block)
	case Code:
		for line := range strings.SplitSeq(strings.TrimSuffix(string(block), "\n"), "\n") {
			s.add(" " + Visible(line, Whole))
		}
	case Trace:
		for _, event := range block.Events {
			s.event(event)
		}
	case Table:
		s.table(block)
	}
}

// event appends an event of a trace: its mark, its time, its kind, and below each other the lines of its text.
func (s *terminal) event(event Event) {
	if event.Between != "" {
		s.flow(below-2, Plain("… "+event.Between))
		return
	}
	mark := " "
	if event.Marked {
		mark = "▶"
	}
	first := fmt.Sprintf(" %s %11s  %-17s  ", mark, Visible(event.Time, Whole), Visible(event.Kind, Whole))
	s.hang(first, ansi.StringWidth(first), Plain(event.Text))
}

func (s *terminal) keyValues(block KeyValues) {
	width := 0
	for _, one := range block.Items {
		width = max(width, ansi.StringWidth(Visible(one.Key, Whole)))
	}
	for _, one := range block.Items {
		value := slices.Clone(one.Value)
		if one.Note != "" {
			value = append(value, Span{Text: ", " + one.Note})
		}
		key := Visible(one.Key, Whole)
		s.hang(s.style(key, one.Mark.look().colour, true)+strings.Repeat(" ", width+2-ansi.StringWidth(key)), width+2, value)
	}
}

// layout is the arrangement of a table: its columns side by side in one line per row, or, if tall, the first column
// on a separate line and the others below it.
type layout struct {
	Table
	columns []int
	widths  []int
	left    int
	tall    bool
}

func newLayout(t Table, columns []int, tall bool) layout {
	out := layout{Table: t, left: indent, tall: tall, columns: columns}
	if t.marked() {
		out.left += 2
	}
	if tall {
		out.columns = columns[1:]
	}
	for _, column := range out.columns {
		width := ansi.StringWidth(Visible(t.Columns[column].Title, Whole))
		for _, row := range t.Rows {
			width = max(width, ansi.StringWidth((&terminal{}).text(row.Cells[column])))
		}
		out.widths = append(out.widths, width)
	}
	if tall {
		out.left += below - indent
	}
	return out
}

func (l layout) width() int {
	out := l.left
	for _, width := range l.widths {
		out += width + 2
	}
	return out - 2
}

// table writes a table in the first layout that fits: in lines, without spare columns, with the first column above
// the others, and finally as words.
func (s *terminal) table(t Table) {
	if t.Pack {
		s.packed(t)
		return
	}
	if len(t.Rows) == 0 {
		return
	}
	left := 0
	if t.Most > 0 && len(t.Rows) > t.Most {
		left = len(t.Rows) - t.Most
		t.Rows = t.Rows[:t.Most]
	}
	s.fit(t)
	if left > 0 {
		s.more(indent, left)
	}
}

// more says how much of the report is left out here.
func (s *terminal) more(indent, n int) {
	s.flow(indent, Plain(fmt.Sprintf("… and %d more in the report", n)))
}

func (s *terminal) fit(t Table) {
	choices := t.choices()
	for _, tall := range []bool{false, true} {
		for _, columns := range choices {
			if l := newLayout(t, columns, tall); l.width() <= s.width {
				s.rows(l)
				return
			}
		}
	}
	for _, row := range t.Rows {
		s.label(t, row)
		s.flow(below, t.words(row, choices[0][1:]))
		s.below(t, row)
	}
}

// choices returns the possible sets of columns side by side: all, then without the last spare column, and so on.
func (t Table) choices() [][]int {
	var all []int
	for i, column := range t.Columns {
		if !column.Below {
			all = append(all, i)
		}
	}
	out := [][]int{all}
	for i, column := range slices.Backward(t.Columns) {
		if column.Spare {
			out = append(out, slices.DeleteFunc(slices.Clone(out[len(out)-1]), func(column int) bool { return column == i }))
		}
	}
	return out
}

// words returns the cells of a row one after the other, each with the title of its column.
func (t Table) words(row Row, columns []int) Text {
	var out Text
	for _, column := range columns {
		if len(row.Cells[column]) == 0 {
			continue
		}
		if len(out) > 0 {
			out = append(out, Span{Text: " · "})
		}
		if title := t.Columns[column].Title; title != "" {
			out = append(out, Span{Text: title + " "})
		}
		for _, span := range row.Cells[column] {
			if t.Columns[column].Figure {
				span.Text = strings.ReplaceAll(span.Text, " ", "\u00a0")
			}
			out = append(out, span)
		}
	}
	return out
}

func (s *terminal) rows(l layout) {
	s.header(l)
	for _, row := range l.Rows {
		if l.tall {
			s.label(l.Table, row)
		}
		if slices.ContainsFunc(l.columns, func(column int) bool { return len(row.Cells[column]) > 0 }) {
			s.add(s.row(l, row))
		}
		s.below(l.Table, row)
	}
}

// header writes the titles of the columns, on the line of the part's title if they fit.
func (s *terminal) header(l layout) {
	if !slices.ContainsFunc(l.columns, func(column int) bool { return l.Columns[column].Title != "" }) {
		return
	}
	cells := make([]string, len(l.columns))
	for i, column := range l.columns {
		cells[i] = pad(s.faint(Visible(l.Columns[column].Title, Whole)), l.widths[i], l.Columns[column].Figure)
	}
	pending := &s.title
	if s.title == nil {
		pending = &s.section
	}
	title := s.text(*pending)
	if room := l.left + l.widths[0]; !l.tall && title != "" && ansi.StringWidth(title) <= room {
		*pending = heading("", "")
		s.add(strings.Join(append([]string{pad(title, room, false)}, cells[1:]...), "  "))
		return
	}
	s.add(strings.Repeat(" ", l.left) + strings.Join(cells, "  "))
}

func (s *terminal) row(l layout, row Row) string {
	start := strings.Repeat(" ", l.left)
	if !l.tall && l.marked() {
		start = " " + pad(s.mark(row.Mark), 2, false)
	}
	cells := make([]string, len(l.columns))
	for i, column := range l.columns {
		words := s.text(row.Cells[column])
		if row.Strong && s.color {
			words = s.style(ansi.Strip(words), row.Mark.look().colour, true)
		}
		cells[i] = pad(words, l.widths[i], l.Columns[column].Figure)
	}
	return start + strings.Join(cells, "  ")
}

// label writes the first cell of a row on a separate line.
func (s *terminal) label(t Table, row Row) {
	start := " "
	if t.marked() {
		start += pad(s.mark(row.Mark), 2, false)
	}
	s.hang(start, ansi.StringWidth(start), row.Cells[0])
}

// below writes the texts that stand below a row.
func (s *terminal) below(t Table, row Row) {
	for i, column := range t.Columns {
		if !column.Below {
			continue
		}
		lines := row.Cells[i].lines()
		for n, line := range lines {
			if n == column.Most && n > 0 {
				s.more(below, len(lines)-n)
				break
			}
			s.flow(below, line)
		}
	}
}

// packed writes the rows that did not pass as a table, then those that passed side by side, and the remarks on them in
// one paragraph.
func (s *terminal) packed(t Table) {
	quiet, loud := t, t
	quiet.Rows, loud.Rows = nil, nil
	var remarks Text
	for _, row := range t.Rows {
		if row.Mark != Pass {
			loud.Rows = append(loud.Rows, row)
			continue
		}
		quiet.Rows = append(quiet.Rows, row)
		for i, column := range t.Columns {
			if column.Below && len(row.Cells[i]) > 0 {
				if len(remarks) > 0 {
					remarks = append(remarks, Span{Text: "; "})
				}
				remarks = append(append(append(remarks, row.Cells[0]...), Span{Text: ": "}), row.Cells[i]...)
			}
		}
	}
	s.table(Table{Columns: loud.Columns, Rows: loud.Rows})
	s.beside(quiet)
	before := len(s.lines)
	s.flow(3, remarks)
	if limit := before + 2; len(s.lines) > limit { // the report has all of them
		s.lines = append(s.lines[:limit-1], ansi.Truncate(s.lines[limit-1], s.width-2, "")+" …")
	}
}

// beside writes the rows in two columns with the cells that fit, or in one column if two do not fit.
func (s *terminal) beside(t Table) {
	half := (len(t.Rows) + 1) / 2
	left, right := t, t
	left.Rows, right.Rows = t.Rows[:half], t.Rows[half:]
	for _, columns := range t.choices() {
		first, second := newLayout(left, columns, false), newLayout(right, columns, false)
		if first.width()+second.width()+1 > s.width {
			continue
		}
		for i, row := range left.Rows {
			line := s.row(first, row)
			if i < len(right.Rows) {
				line = pad(line, first.width()+1, false) + s.row(second, right.Rows[i])
			}
			s.add(line)
		}
		return
	}
	all := newLayout(t, t.choices()[0], false)
	for _, row := range t.Rows {
		s.add(s.row(all, row))
	}
}

// pad fills words up to width columns. Figures are right-aligned.
func pad(words string, width int, figure bool) string {
	room := strings.Repeat(" ", max(0, width-ansi.StringWidth(words)))
	if figure {
		return room + words
	}
	return words + room
}
