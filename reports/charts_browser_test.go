package reports

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/browsertest"
)

// timeCanvases returns what the charts on the time axis show, one text per chart.
const timeCanvases = `Array.from(document.querySelectorAll("#timeline canvas")).map((c) => c.toDataURL())`

// drag selects a part of the named chart with the mouse. from and to are shares of its width.
func drag(chart string, from, to float64) string {
	return fmt.Sprintf(`(() => {
		const over = document.querySelector('[data-chart="%s"] .u-over'), box = over.getBoundingClientRect();
		const send = (on, type, share) => on.dispatchEvent(new MouseEvent(type, {
			bubbles: true, clientX: box.left + box.width * share, clientY: box.top + box.height / 2, movementX: 1, button: 0,
			  buttons: 1,
		}));
		send(over, "mouseenter", %g); send(over, "mousemove", %g); send(over, "mousedown", %g); send(over, "mousemove", %g);
		send(document, "mouseup", %g);
		return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))));
	})()`, chart, from, from, from, to, to)
}

const settled = `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`

func openCharts(t *testing.T, run Run) *browsertest.Browser {
	t.Helper()
	b := browsertest.Open(t)
	b.Viewport(1200, 900)
	openReport(t, b, "charts", render(t, run, HTML))
	return b
}

func TestBrowserZoomsAllChartsTogether(t *testing.T) {
	b := openCharts(t, failRun())
	whole := browsertest.Eval[[]string](b, timeCanvases)
	if len(whole) != 5 {
		t.Fatalf("%d charts on the time axis", len(whole))
	}
	if got := b.Text(".timebar .range"); got != "whole run, 22.2 s" {
		t.Errorf("at first it shows %q", got)
	}
	for _, chart := range []string{"rates", "latency", "lag", "failures", "harness"} {
		browsertest.Eval[bool](b, drag(chart, 0.25, 0.5))
		// A quarter of the whole, starting at a quarter. The mouse is accurate to one pixel.
		var from, to float64
		if _, err := fmt.Sscanf(b.Text(".timebar .range"), "%f to %f s", &from, &to); err != nil ||
			from < 5.4 || from > 5.7 || to < 10.9 || to > 11.3 {
			t.Errorf("dragging in %s shows %q", chart, b.Text(".timebar .range"))
		}
		for i, canvas := range browsertest.Eval[[]string](b, timeCanvases) {
			if canvas == whole[i] {
				t.Errorf("dragging in %s leaves chart %d as it was", chart, i+1)
			}
		}
		if left := browsertest.Eval[int](b,
			"Array.from(document.querySelectorAll(\"#timeline .u-select\")).filter((s) => s.offsetWidth > 0).length"); left > 0 {
			t.Errorf("dragging in %s leaves %d selections", chart, left)
		}
		browsertest.Eval[bool](b, fmt.Sprintf("document.querySelector('[data-chart=\"%s\"] .u-over').dispatchEvent(new "+
			"MouseEvent(\"dblclick\", {bubbles: true}))", chart))
		browsertest.Eval[bool](b, settled)
		if got := b.Text(".timebar .range"); got != "whole run, 22.2 s" {
			t.Errorf("a double click in %s shows %q", chart, got)
		}
		if !slices.Equal(browsertest.Eval[[]string](b, timeCanvases), whole) {
			t.Errorf("a double click in %s does not bring the charts back", chart)
		}
	}
	quiet(t, b, "charts")
}

func TestBrowserMovesChartsByKeyboard(t *testing.T) {
	b := openCharts(t, failRun())
	browsertest.Eval[any](b, `document.querySelector(".charts").focus()`)
	for _, step := range []struct{ keys, want string }{
		{"+", "5.55 to 16.65 s"}, {"\u0302", "2.78 to 13.88 s"}, // ArrowLeft
		{"\u0303", "5.55 to 16.65 s"}, {"-", "whole run, 22.2 s"}, {"+", "5.55 to 16.65 s"}, {"0", "whole run, 22.2 s"},
	} {
		b.Press(step.keys)
		if got := b.Text(".timebar .range"); got != step.want {
			t.Errorf("%q shows %q, want %q", step.keys, got, step.want)
		}
	}
	browsertest.Eval[any](b, `document.querySelector('.timebar button[aria-label="Zoom in"]').click()`)
	if got := b.Text(".timebar .range"); got != "5.55 to 16.65 s" {
		t.Errorf("the button shows %q", got)
	}
	// The table has the same content for readers who cannot see the curves, and follows the selection.
	browsertest.Eval[any](b, `document.querySelector("#timeline .fold").open = true`)
	b.Until(`document.querySelector("#timeline table.curves")`)
	caption := b.Text("#timeline table.curves caption")
	if rows := b.Count("#timeline table.curves tbody tr"); rows < 20 || rows > 40 ||
		!strings.HasPrefix(caption, "From 5.55 to 16.65 s") {
		t.Errorf("the table has %d rows and says %q", rows, caption)
	}
	browsertest.Eval[any](b, `document.querySelector('.timebar button[aria-label="Show the whole run"]').click()`)
	if caption := b.Text("#timeline table.curves caption"); !strings.HasPrefix(caption, "From 0.00 to 22.20 s") {
		t.Errorf("the table does not follow: %q", caption)
	}
	if labels := b.Count(`#timeline .plot[role="img"][aria-label*="up to"]`); labels != 5 {
		t.Errorf("%d of 5 charts say what they show", labels)
	}
	quiet(t, b, "charts")
}

// At the cursor, all charts show their values and the faults in force.
func TestBrowserCursorReadsAllCharts(t *testing.T) {
	b := openCharts(t, failRun())
	browsertest.Eval[bool](b, `(() => {
		const over = document.querySelector('[data-chart="lag"] .u-over'), box = over.getBoundingClientRect();
		for (const type of ["mouseenter", "mousemove"]) over.dispatchEvent(new MouseEvent(type, {bubbles: true,
		  clientX: box.left + box.width * 0.452, clientY: box.top + 9, movementX: 1}));
		return `+settled+`;
	})()`)
	if got := b.Text(".timebar .moment"); !regexp.MustCompile(`^10\.0\d s · fault · F1 dlq-refuses · F2 slow-downstream$`).
		MatchString(got) {
		t.Errorf("at the cursor it says %q", got)
	}
	empty := browsertest.Eval[[]string](b, "Array.from(document.querySelectorAll('#timeline .legend "+
		"button[aria-pressed=\"true\"]')).filter((x) => !x.querySelector(\"output\").textContent).map((x) => x.textContent)")
	if len(empty) > 0 {
		t.Errorf("nothing is read at the cursor for %q", empty)
	}
}

func TestBrowserComparesIntendedWithServiceTime(t *testing.T) {
	run := failRun()
	curves := run.Verdict.Percentiles["success"]
	run.Verdict.Percentiles["service"] = curves
	b := openCharts(t, run)
	const success = "#figure-percentiles-1"
	shown := func() string {
		return browsertest.Eval[string](b, `document.querySelector("`+success+` canvas").toDataURL()`)
	}
	if got := b.Text("#latency .key"); !strings.Contains(got, "what a user waits") {
		t.Errorf("it explains itself with %q", got)
	}
	before := shown()
	phases := b.Count(success + " .legend button")
	if want := len(curves.Phases); phases != want {
		t.Errorf("%d phases can be chosen, want %d: each with both of its curves", phases, want)
	}
	browsertest.Eval[any](b, `document.querySelector("`+success+` .legend button").click()`)
	browsertest.Eval[bool](b, settled)
	if shown() == before {
		t.Error("a phase that is switched off is still there")
	}
	browsertest.Eval[bool](b, "(() => { const pick = document.getElementById(\"which\"); pick.value = "+
		"\"percentiles-2\"; pick.dispatchEvent(new Event(\"change\")); return true; })()")
	if got := b.Text("#figure-percentiles-2 figcaption"); !strings.Contains(got, "intended send time to acknowledged") {
		t.Errorf("another latency is explained with %q", got)
	}
	if b.Count(success+".away") != 1 {
		t.Error("two latencies are shown at once")
	}
	quiet(t, b, "charts")
}

// The colours follow the theme, and paper is white.
func TestBrowserDrawsChartsInTheThemesColours(t *testing.T) {
	b := openCharts(t, failRun())
	light := browsertest.Eval[[]string](b, timeCanvases)
	b.Media("screen", "dark")
	b.Until(`document.querySelectorAll("#timeline canvas").length === 5`)
	browsertest.Eval[bool](b, settled)
	dark := browsertest.Eval[[]string](b, timeCanvases)
	for i := range light {
		if light[i] == dark[i] {
			t.Errorf("chart %d is the same in the dark", i+1)
		}
	}
	browsertest.Eval[bool](b, `(() => { dispatchEvent(new Event("beforeprint")); return `+settled+`; })()`)
	if !slices.Equal(browsertest.Eval[[]string](b, timeCanvases), light) {
		t.Error("on paper the charts are not as they are in the light")
	}
}

// The usage of each instance is drawn on the same time axis, and readable at the cursor.
func TestBrowserDrawsInstances(t *testing.T) {
	b := openCharts(t, withInstances(failRun(), 2))
	if got := len(browsertest.Eval[[]string](b, timeCanvases)); got != 7 {
		t.Errorf("%d charts on the time axis", got)
	}
	browsertest.Eval[bool](b, `(() => {
		const over = document.querySelector('[data-chart="memory"] .u-over'), box = over.getBoundingClientRect();
		for (const type of ["mouseenter", "mousemove"]) over.dispatchEvent(new MouseEvent(type, {bubbles: true,
		  clientX: box.left + box.width * 0.25, clientY: box.top + 9, movementX: 1}));
		return `+settled+`;
	})()`)
	for chart, want := range map[string]string{"memory": `^instance 015\d MiBinstance 115\d MiB$`,
		"processors": `^instance 00\.10?instance 10\.20?$`} {
		if got := b.Text(`[data-chart="` + chart + `"] .legend`); !regexp.MustCompile(want).MatchString(
			strings.ReplaceAll(got, "\n", "")) {
			t.Errorf("at the cursor %s reads %q", chart, got)
		}
	}
	quiet(t, b, "charts")
}
