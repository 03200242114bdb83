package reports

// The HTML report: one file that holds all it needs and asks nobody for anything. Its content security policy allows
// exactly the styles and scripts embedded here, by their hashes, so that even a text that slipped through the escaping
// could not run.

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

//go:embed templates/report.html.tmpl templates/sequence.html.tmpl templates/report.css templates/dark.css templates/report.js templates/page.js assets/uPlot.iife.min.js assets/uPlot.min.css
var embedded embed.FS

// page is what the template shows; see html_view.go for its parts.
type page struct {
	CSP        string
	Style      template.CSS
	PlotScript template.JS
	AppScript  template.JS
	// PageScript makes the page's own controls work: search, colours, copying, folding.
	PageScript template.JS
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
	tmpl, err := template.ParseFS(embedded, "templates/report.html.tmpl", "templates/sequence.html.tmpl")
	if err != nil {
		return fmt.Errorf("making the HTML report: %w", err)
	}
	if err := tmpl.Execute(w, content); err != nil {
		return fmt.Errorf("writing the HTML report: %w", err)
	}
	return nil
}

func newPage(run Run) (*page, error) {
	var contents []string
	for _, file := range []string{
		"assets/uPlot.min.css", "templates/report.css", "templates/dark.css", "assets/uPlot.iife.min.js",
		"templates/report.js", "templates/page.js",
	} {
		content, err := embedded.ReadFile(file)
		if err != nil {
			return nil, err
		}
		contents = append(contents, string(content))
	}
	style := contents[0] + "\n" + contents[1] + "\n" + darkRules(contents[2])
	// json.Marshal writes <, > and & as escapes: nothing in the data can end the element that holds it.
	data, err := json.Marshal(newChartData(run))
	if err != nil {
		return nil, fmt.Errorf("encoding the charts: %w", err)
	}
	return &page{
		Style: template.CSS(style), PlotScript: template.JS(contents[3]), AppScript: template.JS(contents[4]),
		PageScript: template.JS(contents[5]),
		Data:       template.JS(data), view: newView(run), CSP: policy(style, contents[3:]...),
	}, nil
}

// darkRules make the dark colours hold where the reader's system prefers them and the page was not told otherwise, and
// where the page was told so. Paper stays white.
func darkRules(colours string) string {
	return "@media screen and (prefers-color-scheme: dark) {\n:root:not(.paper):not(.light) {\n" + colours + "}\n}\n" +
		"@media screen {\n:root.dark:not(.paper) {\n" + colours + "}\n}\n"
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
