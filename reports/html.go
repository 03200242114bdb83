package reports

// The HTML report: one file that holds all it needs and asks nobody for anything. Its content security policy allows exactly the
// styles and scripts embedded here, by their hashes, so that even a text that slipped through the escaping could not run.

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
)

//go:embed templates/report.html.tmpl templates/report.css templates/report.js assets/uPlot.iife.min.js assets/uPlot.min.css
var embedded embed.FS

// page is what the template shows; see html_view.go for its parts.
type page struct {
	CSP        string
	Style      template.CSS
	PlotScript template.JS
	AppScript  template.JS
	// Data is the JSON that the script draws from.
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
	tmpl, err := template.ParseFS(embedded, "templates/report.html.tmpl")
	if err != nil {
		return fmt.Errorf("making the HTML report: %w", err)
	}
	if err := tmpl.Execute(w, content); err != nil {
		return fmt.Errorf("writing the HTML report: %w", err)
	}
	return nil
}

func newPage(run Run) (*page, error) {
	plotStyle, err1 := embedded.ReadFile("assets/uPlot.min.css")
	style, err2 := embedded.ReadFile("templates/report.css")
	plot, err3 := embedded.ReadFile("assets/uPlot.iife.min.js")
	app, err4 := embedded.ReadFile("templates/report.js")
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			return nil, err
		}
	}
	// json.Marshal writes <, > and & as escapes: nothing in the data can end the element that holds it.
	data, err := json.Marshal(newChartData(run))
	if err != nil {
		return nil, fmt.Errorf("encoding the charts: %w", err)
	}
	out := &page{
		Style: template.CSS(string(plotStyle) + "\n" + string(style)), PlotScript: template.JS(plot), AppScript: template.JS(app),
		Data: template.JS(data), view: newView(run),
	}
	out.CSP = policy(string(out.Style), string(out.PlotScript), string(out.AppScript))
	return out, nil
}

// policy allows the style and the scripts by their hashes, the page's own icon, and nothing else.
func policy(style string, scripts ...string) string {
	hashes := make([]string, len(scripts))
	for i, script := range scripts {
		hashes[i] = sourceHash(script)
	}
	return "default-src 'none'; style-src " + sourceHash(style) + "; script-src " + strings.Join(hashes, " ") +
		"; img-src data:; base-uri 'none'; form-action 'none'"
}

func sourceHash(source string) string {
	sum := sha256.Sum256([]byte(source))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
