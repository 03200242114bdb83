package document

import (
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
)

// page is the data of the template.
type page struct {
	Document
	CSP                            string
	Style                          template.CSS
	PlotScript, Figures, AppScript template.JS
	Data                           template.JS
}

// HTML writes a document as one self-contained page that makes no requests. Its content security policy allows
// exactly the styles and scripts embedded here, by their hashes, so that even a text that slipped through the
// escaping could not run.
func HTML(w io.Writer, doc Document) error {
	style, scripts := PageStyle(), []string{PageScript}
	content := page{Document: doc, Style: template.CSS(style), AppScript: template.JS(PageScript)}
	if figures := doc.figures(); len(figures) > 0 {
		// json.Marshal escapes <, > and &, so nothing in the data can end the element that holds it.
		data, err := json.Marshal(figures)
		if err != nil {
			return fmt.Errorf("encoding the figures: %w", err)
		}
		content.Data, content.PlotScript, content.Figures = template.JS(data), template.JS(PlotScript),
			template.JS(figureScript)
		scripts = append(scripts, PlotScript, figureScript)
	}
	content.CSP = Policy(style, scripts...)
	tmpl, err := parse()
	if err != nil {
		return err
	}
	if err := tmpl.Execute(w, content); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// Part renders a block for a page that has its own template.
func Part(block Block) (template.HTML, error) {
	tmpl, err := parse()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := tmpl.ExecuteTemplate(&b, "part", []Block{block}); err != nil {
		return "", fmt.Errorf("writing a part of the page: %w", err)
	}
	return template.HTML(b.String()), nil
}

func parse() (*template.Template, error) {
	tmpl, err := template.New("page").Funcs(template.FuncMap{
		"clean":  func(s string) string { return Visible(s, Whole) },
		"kind":   func(b Block) string { return b.kind() },
		"class":  Mark.Class,
		"sign":   func(m Mark) string { return m.look().sign },
		"empty":  Section.empty,
		"slug":   slug,
		"spread": spread,
		"whole":  func(c Code) string { return visibleLines(string(c)) },
	}).Parse(pageTemplate)
	if err != nil {
		return nil, fmt.Errorf("reading the template of the page: %w", err)
	}
	return tmpl, nil
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

// figures returns the figures of the whole document, with visible names.
func (d Document) figures() []Figure {
	var out []Figure
	for _, section := range d.Sections {
		for _, block := range section.Blocks {
			group, drawn := block.(Figures)
			if !drawn {
				continue
			}
			for _, figure := range group.Figures {
				figure.Series = append([]Series(nil), figure.Series...)
				for i, series := range figure.Series {
					figure.Series[i].Name, figure.Series[i].Label = Visible(series.Name, Whole), Visible(series.Label, Whole)
				}
				out = append(out, figure)
			}
		}
	}
	return out
}

// empty reports whether a section has no content and so is left out.
func (s Section) empty() bool {
	for _, block := range s.Blocks {
		switch block := block.(type) {
		case Table:
			if len(block.Rows) > 0 {
				return false
			}
		case List:
			if len(block.Items) > 0 {
				return false
			}
		case KeyValues:
			if len(block.Items) > 0 {
				return false
			}
		case Figures:
			if len(block.Figures) > 0 {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// spread splits a figure into its value and the part after ±, which a page writes below it. A text that is more than
// one figure is not split, and has "" as its value.
func spread(cell Text) []string {
	if len(cell) != 1 || cell[0].Style != StylePlain || cell[0].Mark != None {
		return []string{""}
	}
	return strings.SplitN(cell[0].Text, " ± ", 2)
}
