package reports

// The first page of a gate's artifacts: how each run stands, with links to the reports. It holds no script and asks for
// nothing.

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"path"
	"time"

	"github.com/dlqbench/dlqbench/internal/units"
)

//go:embed templates/suite.html.tmpl
var suiteTemplate string

// SuiteIndex writes the page.
func SuiteIndex(w io.Writer, suite Suite) error {
	page, err := template.New("suite").Funcs(template.FuncMap{
		"word": suiteWord, "text": text, "lines": Suite.coverageLines, "unmet": Suite.unmet, "name": name,
		"duration": units.Text, "report": func(run SuiteRun) string { return path.Join(run.Artifacts, HTMLFile) },
		"day": func(at time.Time) string { return at.UTC().Format("2006-01-02 15:04 MST") },
	}).Parse(suiteTemplate)
	if err != nil {
		return fmt.Errorf("reading the page of a gate: %w", err)
	}
	if err := page.Execute(w, suite); err != nil {
		return fmt.Errorf("writing the page of a gate: %w", err)
	}
	return nil
}
