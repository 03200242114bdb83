package reports

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/browsertest"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// The index page of a gate's artifacts in a real browser: it fits, logs nothing and makes no requests.
func TestBrowserSuiteIndex(t *testing.T) {
	b := browsertest.Open(t)
	path := filepath.Join(t.TempDir(), "index.html")
	must.Do(t, os.WriteFile(path, []byte(renderSuite(t, fixtureSuite(), SuiteIndex)), 0o644))
	b.OpenFile(path)
	for _, width := range []int64{1200, 480} {
		b.Viewport(width, 900)
		if wide := browsertest.Eval[int](b, "document.documentElement.scrollWidth"); wide > int(width) {
			t.Errorf("the page is %d pixels wide on %d", wide, width)
		}
		takePictures(b, "suite", width)
	}
	if b.Count("#runs tbody a") != 5 || b.Count("img, main script") > 0 {
		t.Error("the reports are not linked, or hostile content came alive")
	}
	quietBench(t, b, "the index")
}
