package document

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
)

// page is the data of the template.
type page struct {
	Document
	CSP     string
	Icon    template.URL
	Style   template.CSS
	Scripts []template.JS
	// Data is what the scripts draw, as JSON.
	Data template.JS
}

// HTML writes a document as one self-contained page that makes no requests. Its content security policy allows
// exactly the styles and scripts embedded here, by their hashes, so that even a text that slipped through the
// escaping could not run.
func HTML(w io.Writer, doc Document) error {
	scripts := []string{PageScript}
	doc.Sections = entitled(doc.Sections)
	content := page{Document: doc, Style: template.CSS(PageStyle()), Icon: icon(doc.Mark)}
	figures, timeline := doc.drawn()
	if len(figures) > 0 || timeline != nil {
		// json.Marshal escapes <, > and &, so nothing in the data can end the element that holds it.
		data, err := json.Marshal(map[string]any{"figures": figures, "timeline": timeline})
		if err != nil {
			return fmt.Errorf("encoding the figures: %w", err)
		}
		content.Data = template.JS(data)
		if timeline != nil {
			scripts = append([]string{timelineScript}, scripts...)
		}
		if len(figures) > 0 {
			scripts = append([]string{figureScript}, scripts...)
		}
		scripts = append([]string{PlotScript}, scripts...)
	}
	if doc.filtered() {
		scripts = append(scripts, tableScript)
	}
	for _, script := range scripts {
		content.Scripts = append(content.Scripts, template.JS(script))
	}
	content.CSP = Policy(PageStyle(), scripts...)
	tmpl, err := parse()
	if err != nil {
		return err
	}
	if err := tmpl.Execute(w, content); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

func parse() (*template.Template, error) {
	tmpl, err := template.New("page").Funcs(template.FuncMap{
		"clean":   func(s string) string { return Visible(s, Whole) },
		"kind":    func(b Block) string { return b.kind() },
		"class":   Mark.Class,
		"sign":    func(m Mark) string { return m.look().sign },
		"empty":   Section.empty,
		"unfolds": Section.unfolds,
		"slug":    slug,
		"spread":  spread,
		"helps":   helps,
		"copied":  func(t Text) bool { return len(t) == 1 && t[0].Style == StyleCode },
		"whole":   func(c Code) string { return visibleLines(string(c)) },
		"scaled":  func(b Bar, v float64) string { return fmt.Sprintf("%.2f", 1000*v/max(b.Whole, 1e-9)) },
		"minus":   func(a, b float64) float64 { return a - b },
	}).Parse(pageTemplate)
	if err != nil {
		return nil, fmt.Errorf("reading the template of the page: %w", err)
	}
	return tmpl, nil
}

// icon returns the icon of a page, a dot in the colour of its mark.
func icon(mark Mark) template.URL {
	colour := map[string]string{"pass": "15803d", "fail": "c2261c", "inconclusive": "b07400"}[mark.Class()]
	return template.URL("data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E" +
		"%3Ccircle cx='8' cy='8' r='7' fill='%23" + cmp.Or(colour, "1f5fbf") + "'/%3E%3C/svg%3E")
}

// visibleLines makes each line visible.
func visibleLines(s string) string {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	for i, line := range lines {
		lines[i] = Visible(line, Whole)
	}
	return strings.Join(lines, "\n")
}

// slug returns the anchor of a section: its title in lower case, with hyphens.
func slug(title string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(title), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}), "-")
}

// drawn returns what scripts draw in a document: its figures and its timeline.
func (d Document) drawn() (figures []Figure, timeline *Timeline) {
	for _, section := range d.Sections {
		for _, block := range section.Blocks {
			switch block := block.(type) {
			case Figures:
				figures = append(figures, block.Figures...)
			case Timeline:
				timeline = &block
			}
		}
	}
	return figures, timeline
}

// filtered reports whether a table of the document has filters.
func (d Document) filtered() bool {
	return slices.ContainsFunc(d.Sections, func(section Section) bool {
		return slices.ContainsFunc(section.Blocks, func(block Block) bool {
			table, ok := block.(Table)
			return ok && len(table.Filters) > 0
		})
	})
}

// unfolds reports whether a section has findings to unfold.
func (s Section) unfolds() bool {
	return slices.ContainsFunc(s.Blocks, func(block Block) bool {
		details, ok := block.(Details)
		return ok && details.Mark != None && len(details.Blocks) > 0
	})
}

// empty reports whether a section has no content and so is left out.
func (s Section) empty() bool {
	return !slices.ContainsFunc(s.Blocks, func(block Block) bool {
		switch block := block.(type) {
		case Table:
			return len(block.Rows) > 0
		case List:
			return len(block.Items) > 0
		case KeyValues:
			return len(block.Items) > 0
		case Figures:
			return len(block.Figures) > 0
		}
		return true
	})
}

// spread splits a figure into its value and the part after ±, which a page writes below it. A text that is more than
// one figure is not split, and has "" as its value.
func spread(cell Text) []string {
	if len(cell) != 1 || cell[0].Style != StylePlain || cell[0].Mark != None {
		return []string{""}
	}
	return strings.SplitN(cell[0].Text, " ± ", 2)
}
