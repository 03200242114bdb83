package reports

// The HTML report is one self-contained file that makes no requests. Its content security policy allows exactly the
// styles and scripts embedded here, by their hashes, so that even a text that slipped through the escaping could not
// run.

import (
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"

	"github.com/dlqbench/dlqbench/reports/document"
)

//go:embed templates/report.html.tmpl templates/sequence.html.tmpl templates/report.js
var embedded embed.FS

// page is the data of the template; see html_view.go for its parts.
type page struct {
	CSP        string
	Style      template.CSS
	PlotScript template.JS
	AppScript  template.JS
	// PageScript implements the page's own controls: search, colours, copying, folding.
	PageScript template.JS
	// Data is the JSON from which the script draws.
	Data template.JS
	view
}

// HTML writes the report as one self-contained page.
func HTML(w io.Writer, run Run) error {
	if run.Verdict == nil {
		return errNoVerdict
	}
	content, err := newPage(run)
	if err != nil {
		return fmt.Errorf("making the HTML report: %w", err)
	}
	tmpl, err := template.New("report.html.tmpl").Funcs(template.FuncMap{"part": document.Part}).
		ParseFS(embedded, "templates/report.html.tmpl", "templates/sequence.html.tmpl")
	if err != nil {
		return fmt.Errorf("making the HTML report: %w", err)
	}
	if err := tmpl.Execute(w, content); err != nil {
		return fmt.Errorf("writing the HTML report: %w", err)
	}
	return nil
}

func newPage(run Run) (*page, error) {
	script, err := embedded.ReadFile("templates/report.js")
	if err != nil {
		return nil, err
	}
	// json.Marshal escapes <, > and &, so nothing in the data can end the element that holds it.
	data, err := json.Marshal(newChartData(run))
	if err != nil {
		return nil, fmt.Errorf("encoding the charts: %w", err)
	}
	style := document.PageStyle()
	return &page{
		Style: template.CSS(style), PlotScript: template.JS(document.PlotScript), AppScript: template.JS(script),
		PageScript: template.JS(document.PageScript), Data: template.JS(data), view: newView(run),
		CSP: document.Policy(style, document.PlotScript, string(script), document.PageScript),
	}, nil
}
