package reports

// Tests of a bench's report in a real browser.

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/browsertest"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// openBench renders the bench to a file and opens it.
func openBench(t *testing.T, b *browsertest.Browser, bench Bench) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	must.Do(t, os.WriteFile(path, []byte(renderBench(t, bench, BenchHTML)), 0o644))
	b.OpenFile(path)
}

// quiet checks that the page logged nothing and made no requests.
func quietBench(t *testing.T, b *browsertest.Browser, of string) {
	t.Helper()
	if console := b.Console(); len(console) > 0 {
		t.Errorf("%s writes to the console: %q", of, console)
	}
	if requests := b.Requests(); len(requests) != 1 {
		t.Errorf("%s asks for more than itself: %q", of, requests)
	}
}

func TestBrowserBenchReport(t *testing.T) {
	b := browsertest.Open(t)
	benches := benchFixtures()
	benches["hostile"] = injectedBench(
		"</script><script>document.title=\"owned\"</script><img src=x onerror=\"document.title='owned'\">" + hostile)
	for name, bench := range benches {
		openBench(t, b, bench)
		for _, width := range []int64{1200, 480} {
			b.Viewport(width, 900)
			if wide := browsertest.Eval[int](b, "document.documentElement.scrollWidth"); wide > int(width) {
				t.Errorf("%s is %d pixels wide on %d", name, wide, width)
			}
			takePictures(b, name, width)
		}
		quietBench(t, b, name)
		if title := browsertest.Eval[string](b, "document.title"); strings.HasPrefix(title, "owned") ||
			b.Count("img, main script") > 0 {
			t.Errorf("%s: hostile content came alive", name)
		}
	}
}

// takePictures saves screenshots in the folder that PICTURES names.
func takePictures(b *browsertest.Browser, name string, width int64) {
	dir := os.Getenv("PICTURES")
	if dir == "" {
		return
	}
	for _, scheme := range []string{"light", "dark"} {
		b.Media("screen", scheme)
		b.Screenshot(filepath.Join(dir, fmt.Sprintf("bench-%s-%s-%d.png", name, scheme, width)))
	}
}

func TestBrowserBenchReportWorks(t *testing.T) {
	b := browsertest.Open(t)
	openBench(t, b, matrixBench())
	blank := `Array.from(document.querySelectorAll(".chart:not(.away) canvas")).filter((c) => {
		const d = new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer);
		return d.every((v) => v === d[0]);
	}).length`
	if n := b.Count("#trade-offs canvas"); n != 2 {
		t.Errorf("%d trade-offs are drawn, want 2", n)
	}
	shown := func(selector string) int {
		return browsertest.Eval[int](b, `Array.from(document.querySelectorAll("`+selector+
			`")).filter((e) => e.getClientRects().length > 0).length`)
	}
	if n := shown(".choice"); n != 1 {
		t.Errorf("%d latencies are shown at once, want 1", n)
	}
	browsertest.Eval[bool](b, "(() => { const s = document.getElementById(\"which\"); s.value = \"curves-dead_letter\"; "+
		"s.dispatchEvent(new Event(\"change\")); return true })()")
	if n := shown("#figure-curves-dead_letter [data-series]"); n != 6 {
		t.Errorf("%d curves of dead letters are shown, want 6", n)
	}
	if n := browsertest.Eval[int](b, blank); n > 0 {
		t.Errorf("%d plots are blank", n)
	}
	picture := `document.querySelector("#figure-curves-dead_letter canvas").toDataURL()`
	all := browsertest.Eval[string](b, picture)
	b.Click(`#figure-curves-dead_letter [data-series="2"]`)
	if browsertest.Eval[string](b, picture) == all || b.Count(`[data-series="2"][aria-pressed="false"]`) != 3 {
		t.Error("a click on a cell does not hide its curve everywhere")
	}
	b.Click(`#cells tbody tr:first-child a`)
	b.Until(`document.getElementById("cell-1").open`)
	before := browsertest.Eval[string](b, "getComputedStyle(document.body).backgroundColor")
	b.Click("#theme")
	if after := browsertest.Eval[string](b, "getComputedStyle(document.body).backgroundColor"); after == before {
		t.Error("the other colours are the same")
	}
	b.Media("print", "dark")
	if n := shown(".choice"); n != 3 {
		t.Errorf("on paper %d latencies are shown, want all 3", n)
	}
	quietBench(t, b, "the report")
}

// The counterpart of the test above: requests that the policy must block are seen to be blocked, so a quiet page is
// meaningful.
func TestBrowserBenchPolicyStopsScripts(t *testing.T) {
	b := browsertest.Open(t)
	path := filepath.Join(t.TempDir(), "report.html")
	document := strings.Replace(renderBench(t, matrixBench(), BenchHTML), "</main>",
		"<script>document.title=\"owned\"</script><img src=\"x\" onerror=\"document.title='owned'\"></main>", 1)
	must.Do(t, os.WriteFile(path, []byte(document), 0o644))
	b.OpenFile(path)
	if title := browsertest.Eval[string](b, "document.title"); title == "owned" {
		t.Error("the policy let a script run")
	}
	if console := strings.Join(b.Console(), "\n"); !strings.Contains(console, "Content Security Policy") {
		t.Errorf("the console does not tell that something was stopped: %q", console)
	}
}
