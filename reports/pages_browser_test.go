package reports

// Every page of this package is looked at in a real browser: on a large screen and on a phone, in both colour schemes,
// on paper, with a keyboard alone, and by axe-core.

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/browsertest"
)

func TestBrowserInspectsEveryPage(t *testing.T) {
	for name, page := range map[string]func(t *testing.T) string{
		"report-pass":         func(t *testing.T) string { return render(t, passRun(), HTML) },
		"report-fail":         func(t *testing.T) string { return render(t, withInstances(failRun(), 2), HTML) },
		"report-inconclusive": func(t *testing.T) string { return render(t, inconclusiveRun(), HTML) },
		"gate":                func(t *testing.T) string { return renderSuite(t, fixtureSuite(), SuiteIndex) },
		"bench":               func(t *testing.T) string { return renderBench(t, matrixBench(), BenchHTML) },
	} {
		t.Run(name, func(t *testing.T) {
			b := browsertest.Open(t)
			path := filepath.Join(t.TempDir(), name+".html")
			if err := os.WriteFile(path, []byte(page(t)), 0o644); err != nil {
				t.Fatal(err)
			}
			b.OpenFile(path)
			b.Inspect(name)
			quiet(t, b, name)
		})
	}
}
