// Package document is the model of a report, which is written once and rendered for a terminal, as Markdown and as an
// HTML page.
//
//	a product (bench, compare, gate, debrief, run) ──▶ Document ──▶ Terminal | Markdown | HTML
//
// The package knows nothing of the content. The renderers decide what each medium can show. A terminal omits folded
// parts and figures, and breaks tables that are wider than it. Markdown folds. A page shows everything. The renderers
// make every string of a document visible and escape it, so products pass on their strings unchanged.
package document

import (
	"slices"
	"strings"
)

// Document is a report.
type Document struct {
	// Kind is the type of the report in a word or two: "bench report".
	Kind string
	// Mark and Word are the verdict, Title the subject of the report.
	Mark  Mark
	Word  string
	Title string
	// Lead has the sentences below the title. About has facts of a few words each. Banner is what a page shows with them.
	Lead     []Text
	About    []string
	Banner   []Block
	Sections []Section
	// Search explains what the search of a page finds: everything with Find. A page without it has no search.
	Search string
	// Foot is the text at the end of a page.
	Foot string
}

// Unfolded returns the document with everything that a terminal would leave out for want of room.
func (d Document) Unfolded() Document {
	d.Sections = slices.Clone(d.Sections)
	for i := range d.Sections {
		d.Sections[i].Folded = false
		d.Sections[i].Blocks = slices.Clone(d.Sections[i].Blocks)
		for k, block := range d.Sections[i].Blocks {
			switch block := block.(type) {
			case List:
				block.Most = 0
				d.Sections[i].Blocks[k] = block
			case Table:
				block.Most, block.Columns = 0, slices.Clone(block.Columns)
				for c := range block.Columns {
					block.Columns[c].Most = 0
				}
				d.Sections[i].Blocks[k] = block
			}
		}
	}
	return d
}

// Section is a part of a document. A section without a title continues the one before it.
type Section struct {
	Title string
	// Aside explains the title in a few words.
	Aside string
	// Mark and Word are the section's own verdict, if it has one.
	Mark Mark
	Word string
	// Folded sections are additional evidence: a terminal leaves them out, Markdown folds them.
	Folded bool
	Blocks []Block
}

// Block is a part of a section: one of the types below.
type Block interface{ kind() string }

// Heading is the title of a part of a section.
type Heading string

// Paragraph is a text. A soft paragraph is a remark.
type Paragraph struct {
	Text Text
	Soft bool
}

// List has an item for each text, with an optional nested list. A terminal shows at most Most items (0: all). Tasks are
// for people to fill in and tick off.
type List struct {
	Items []Item
	Most  int
	Tasks bool
}

// Item is one item of a list.
type Item struct {
	Text  Text
	Below []Text
	Find  Find
}

// Find has the names and values by which the search of a page finds an element. Names are words of a product, in lower
// case.
type Find map[string]string

// KeyValues are figures or facts with their names.
type KeyValues struct {
	// Big ones are the figures that a reader wants first. Those that are Across stand side by side.
	Big, Across bool
	Items       []KeyValue
}

// KeyValue is a fact, with a note beside it. A page explains the key with Help. A value that is only meant to be copied
// has a button for it on a page.
type KeyValue struct {
	Key   string
	Value Text
	Note  string
	Help  string
	Mark  Mark
}

// Code is preformatted text.
type Code string

// Details are folded. Mark, Word, Note and Aside are shown beside the title. With a mark, Details are a finding with
// its evidence; a finding without evidence is a line that can't be unfolded.
type Details struct {
	ID    string
	Mark  Mark
	Word  string
	Title string
	Note  string
	Aside string
	// Open: the details are initially unfolded on a page. Spare ones stay folded on paper.
	Open, Spare bool
	Blocks      []Block
	Find        Find
}

// Table is a table with typed columns. Title names it for those who can't see where it stands. Without one, a page
// takes the title of the part that the table is in.
type Table struct {
	Title   string
	Columns []Column
	Rows    []Row
	// Filters are the names in the rows' Find that a page filters by. Pick is where it leads with two rows that a reader
	// has chosen by their "pick" in Find, as before and after.
	Filters []string
	Pick    string
	// Pack: a terminal writes rows that passed side by side. It writes at most Most rows (0: all).
	Pack bool
	Most int
}

// Column is a column of a table. A page explains its title with Help.
type Column struct {
	Title string
	Help  string
	// Figure columns are right-aligned, and never cut or broken.
	Figure bool
	// Spare columns are left out if a terminal is too narrow, the last one first.
	Spare bool
	// Below: a terminal writes the texts of this column below their row, at most Most lines of each (0: all).
	Below bool
	Most  int
}

// Row is a row of a table. Marks are shown in a separate column.
type Row struct {
	Mark  Mark
	Cells []Text
	// Strong rows are emphasized.
	Strong bool
	Find   Find
}

// Bar has the parts of a whole. It is drawn along a line on a page.
type Bar struct {
	Whole float64
	Parts []Part
}

// Part is a stretch of a bar, with its meaning unless it is explained elsewhere. Shape is its appearance: "good",
// "dead", "odd", "bad", "planned" or "seen".
type Part struct {
	From, To          float64
	Shape             string
	Name, Value, Note string
}

// Figures are drawn on a page. With Choose, the reader sees one of them at a time. Key explains how to read them.
type Figures struct {
	Choose  bool
	Key     string
	Figures []Figure
}

func (Heading) kind() string   { return "heading" }
func (Paragraph) kind() string { return "paragraph" }
func (List) kind() string      { return "list" }
func (KeyValues) kind() string { return "keyvalues" }
func (Code) kind() string      { return "code" }
func (Details) kind() string   { return "details" }
func (Table) kind() string     { return "table" }
func (Figures) kind() string   { return "figures" }
func (Bar) kind() string       { return "bar" }
func (Trace) kind() string     { return "trace" }
func (Timeline) kind() string  { return "timeline" }

// Figure is a plot of series over two axes.
type Figure struct {
	ID    string `json:"id"`
	Title string `json:"-"`
	Note  string `json:"-"`
	// Words say what is seen, for those who can't see it.
	Words  string   `json:"-"`
	X      Axis     `json:"x"`
	Y      Axis     `json:"y"`
	Series []Series `json:"series"`
}

// Axis is one axis of a figure.
type Axis struct {
	Title string `json:"title"`
	// Unit is how its values are written: "s", "ms", "/s", "share", "nines" (−log10(1 − q) of a quantile), "none", or ""
	// for plain numbers.
	Unit string  `json:"unit"`
	Log  bool    `json:"log"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Series is a curve, or a point with what is around it.
type Series struct {
	Label Words   `json:"label"`
	Name  Words   `json:"name"`
	X     Numbers `json:"x"`
	Y     Numbers `json:"y"`
	// Around is the box around a point: low and high x, low and high y.
	Around Numbers `json:"around,omitempty"`
	// Shape of a point: "front", "alone", "open" or "broken"; of a curve "", or "steps".
	Shape string `json:"shape,omitempty"`
	// Colour counts those of the page. A hidden curve appears when the reader asks for it.
	Colour int  `json:"colour"`
	Hidden bool `json:"hidden,omitempty"`
}

// Text is a piece of prose.
type Text []Span

// Span is a part of a text in one style.
type Span struct {
	Text  string
	Style Style
	// Mark gives the span the colour of the mark. Link is the target: a place in the page, or a file beside it. Note
	// explains a tag.
	Mark Mark
	Link string
	Note string
}

// Style is the style of a span.
type Style int

// The styles. Code is meant to be copied, so a terminal never breaks it. A Break ends a line. A Tag is a short name.
const (
	StylePlain Style = iota
	StyleBold
	StyleCode
	StyleBreak
	StyleTag
)

// Plain returns a text without style, or no text if s is empty.
func Plain(s string) Text { return styled(s, StylePlain) }

// Bold returns an emphasized text.
func Bold(s string) Text { return styled(s, StyleBold) }

// Command returns a text that is meant to be copied.
func Command(s string) Text { return styled(s, StyleCode) }

// Link returns a link to a place in the page ("#anchor"), or to a file beside it.
func Link(s, to string) Text { return Text{{Text: s, Link: to}} }

// Marked returns a text in the colour of a mark.
func Marked(s string, mark Mark) Text { return Text{{Text: s, Style: StyleBold, Mark: mark}} }

// Cells returns the cells of a row with plain texts.
func Cells(words ...string) []Text {
	out := make([]Text, len(words))
	for i, one := range words {
		out[i] = Plain(one)
	}
	return out
}

func styled(s string, style Style) Text {
	if s == "" {
		return nil
	}
	return Text{{Text: s, Style: style}}
}

// Lines puts each text on its own line and leaves out empty ones.
func Lines(texts ...Text) Text {
	var out Text
	for _, one := range texts {
		if len(one) > 0 && len(out) > 0 {
			out = append(out, Span{Style: StyleBreak})
		}
		out = append(out, one...)
	}
	return out
}

// lines returns the texts between breaks.
func (t Text) lines() []Text {
	var out []Text
	var line Text
	for _, span := range t {
		if span.Style == StyleBreak {
			out, line = append(out, line), nil
			continue
		}
		line = append(line, span)
	}
	if len(line) > 0 {
		out = append(out, line)
	}
	return out
}

// Mark is the symbol of a judgement.
type Mark int

// The marks.
const (
	None Mark = iota
	Pass
	Fail
	Unsure
	Partial
	Warning
	Waived
	Skipped
	Crashed
	Worse
	Same
)

// look is the appearance of a mark: on a terminal with its colour, in Markdown, and as a class in the page's style.
type look struct{ sign, colour, emoji, class string }

func (m Mark) look() look {
	return map[Mark]look{
		Pass: {"✓", "2", "✅", "pass"}, Fail: {"✗", "1", "❌", "fail"}, Unsure: {"?", "3", "❔", "inconclusive"},
		Partial: {"~", "3", "🟡", "inconclusive"}, Warning: {"!", "3", "⚠️", "inconclusive"},
		Waived: {"w", "3", "☑️", "inconclusive"}, Skipped: {"–", "", "➖", "none"}, Crashed: {"✗", "1", "💥", "fail"},
		Worse: {"↑", "1", "🔺", "fail"}, Same: {"=", "", "=", "none"},
	}[m]
}

// Class returns the class of the mark in the page's style.
func (m Mark) Class() string { return m.look().class }

// marked reports whether any row of the table has a mark.
func (t Table) marked() bool {
	return slices.ContainsFunc(t.Rows, func(row Row) bool { return row.Mark != None })
}

// Flat returns the contents of a document for use in another document.
func (d Document) Flat() []Block {
	var out []Block
	for _, lead := range d.Lead {
		out = append(out, Paragraph{Text: lead})
	}
	out = append(out, Paragraph{Text: Plain(strings.Join(d.About, " · ")), Soft: true})
	for _, section := range d.Sections {
		switch {
		case section.empty():
			continue
		case section.Folded:
			out = append(out, Details{Title: section.Title, Blocks: section.Blocks})
			continue
		case section.Title != "":
			out = append(out, Heading(section.Title))
		}
		out = append(out, section.Blocks...)
	}
	return out
}
