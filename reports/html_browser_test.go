package reports

// Tests of the report in a real browser: opened from a file, clicked through, inspected. These tests are skipped,
// with the reason, if there is no Chromium.

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/browsertest"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// Keys that are not characters, with their names in the browser's protocol.
const (
	keyEnter  = "\r"
	keyEscape = "\u001b"
)

// openReport writes a page to a file and opens it. The page must make no requests and write nothing to the console.
func openReport(t *testing.T, b *browsertest.Browser, name, document string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".html")
	must.Do(t, os.WriteFile(path, []byte(document), 0o644))
	b.OpenFile(path)
	b.Until(`document.documentElement.classList.contains("js")`)
}

// quiet fails the test if the page logged or requested anything.
func quiet(t *testing.T, b *browsertest.Browser, name string) {
	t.Helper()
	if console := b.Console(); len(console) > 0 {
		t.Errorf("%s writes to the console: %q", name, console)
	}
	if requests := b.Requests(); len(requests) != 1 || !strings.HasPrefix(requests[0], "file://") {
		t.Errorf("%s asks for %q, not for itself alone", name, requests)
	}
}

// blankCharts returns the charts that are empty: no pixel differs from the first.
const blankCharts = `Array.from(document.querySelectorAll("canvas")).filter((c) => {
	const d = new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer);
	return d.every((v) => v === d[0]);
}).map((c) => c.closest("figure")).filter((f) => !f.classList.contains("away")).
  map((f) => f.dataset.chart || f.dataset.figure)`

func TestBrowserShowsEveryRunQuietly(t *testing.T) {
	b := browsertest.Open(t)
	runs := fixtures()
	runs["hostile"] = injected(
		"</script><script>document.title=\"owned\"</script><img src=x onerror=\"document.title='owned'\">" + hostile)
	for name, run := range runs {
		for _, width := range []int64{1200, 420} {
			b.Viewport(width, 900)
			openReport(t, b, name, render(t, run, HTML))
			if blank := browsertest.Eval[[]string](b, blankCharts); len(blank) > 0 {
				t.Errorf("%s: the charts %q are blank", name, blank)
			}
			if charts := b.Count("canvas"); name != "hostile" && (charts > 0) != hasCurves(run.Verdict) {
				t.Errorf("%s has %d charts", name, charts)
			}
			if title := browsertest.Eval[string](b, "document.title"); strings.HasPrefix(title, "owned") || b.Count("img") > 0 {
				t.Errorf("%s: hostile content came alive", name)
			}
			if wide := browsertest.Eval[int](b, "document.documentElement.scrollWidth"); wide > int(width) {
				t.Errorf("%s is %d pixels wide on a screen of %d", name, wide, width)
			}
			quiet(t, b, name)
		}
	}
}

// The counterpart of the test above: requests that the policy must block are seen to be blocked, so a silent console
// is meaningful.
func TestBrowserPolicyStopsScripts(t *testing.T) {
	b := browsertest.Open(t)
	openReport(t, b, "spoiled", strings.Replace(render(t, passRun(), HTML), "</main>",
		`<script>document.title="owned"</script><img src="x" onerror="document.title='owned'"></main>`, 1))
	if strings.HasPrefix(browsertest.Eval[string](b, "document.title"), "owned") {
		t.Error("the policy let a script run")
	}
	if !strings.Contains(strings.Join(b.Console(), " "), "Content Security Policy") {
		t.Errorf("the console does not tell that something was stopped: %q", b.Console())
	}
}

func TestBrowserFindsRecords(t *testing.T) {
	b := browsertest.Open(t)
	openReport(t, b, "fail", render(t, failRun(), HTML))
	search := func(words, want string) {
		t.Helper()
		b.Press("/")
		if focus := browsertest.Eval[string](b, "document.activeElement.id"); focus != "search" {
			t.Fatalf("/ focuses %q", focus)
		}
		b.Press(words)
		if got := b.Text("#hit-count"); got != want {
			t.Errorf("%q: %q, want %q", words, got, want)
		}
		if live := browsertest.Eval[string](b, "document.getElementById(\"hit-count\").getAttribute(\"aria-live\")"); live !=
			"polite" {
			t.Errorf("the number of hits is not announced")
		}
	}
	search("record:9105", "1 hit") // only named in the index
	b.Press(keyEnter)
	if !browsertest.Eval[bool](b,
		`document.querySelector("tr.hit").dataset.record === "9105" && `+
			`document.querySelector("tr.hit").closest("details").open`) {
		t.Error("Enter does not lead to the record")
	}
	b.Press(keyEscape)
	if b.Count("#found[hidden]") != 1 || browsertest.Eval[string](b, `document.getElementById("search").value`) != "" {
		t.Error("Esc does not clear the search")
	}
	b.Press(keyEscape)
	browsertest.Eval[any](b, "document.activeElement.blur()")
	search("key-000505", "1 hit")
	b.Press(keyEscape)
	browsertest.Eval[any](b, "document.activeElement.blur()")
	// traces, rows of the index and of the ledger
	search("partition 3", fmt.Sprintf("%d hits", b.Count(`[data-partition="3"]`)))
	b.Press(keyEscape)
	browsertest.Eval[any](b, "document.activeElement.blur()")
	search("DLQB7Q2M4X9K000FXV4T9003", "1 hit")
	b.Press(keyEscape)
	browsertest.Eval[any](b, "document.activeElement.blur()")
	search("refused 9001", "1 hit") // words of a trace's events
	b.Click("#hits button")
	b.Until(`document.querySelector("details.evidence.hit").dataset.record === "9001"`)
	b.Press(keyEscape) // with the focus on the hit
	if b.Count("#found[hidden]") != 1 {
		t.Error("Esc does not clear the search when a hit has the focus")
	}
	quiet(t, b, "fail")
}

func TestBrowserControls(t *testing.T) {
	b := browsertest.Open(t)
	openReport(t, b, "fail", render(t, failRun(), HTML))
	for _, want := range []string{"fail", "commit-after-dlq is violated: commit-before-dlq, 14 times", "record 9001",
		"10.410 s on the run's clock, in the phase fault (3.21 s into it)"} {
		if words := strings.ToLower(b.Text(".banner")); !strings.Contains(words, want) {
			t.Errorf("the banner does not say %q: %q", want, words)
		}
	}
	b.Click(".banner [data-copy]")
	b.Until(`["Copied", "Selected"].includes(document.querySelector(".banner [data-copy]").textContent)`)
	colours := browsertest.Eval[[]string](b, `[".facts > div", ".facts > .fail", "#resources .facts > .inconclusive"].map((s) =>
		getComputedStyle(document.querySelector(s + " dd")).color)`)
	if slices.Sort(colours); len(slices.Compact(colours)) != 3 {
		t.Errorf("figures that are bad, not as they should be, or neither have the colours %q", colours)
	}
	if b.Count(".evidence .seq svg") < 2 {
		t.Error("the traces are not drawn")
	}
	b.Click(".plainform > summary")
	if list := b.Text(".plainform[open] .bio"); !strings.Contains(list, "the write to dlq-3 is refused") {
		t.Errorf("the list beside the diagram says %q", list)
	}
	b.Click("#invariants .spare:has(> .body > pre) > summary")
	if log := b.Text("#invariants .spare[open] pre"); !strings.Contains(log, "WRN dead letter refused") {
		t.Errorf("the log says %q", log)
	}
	b.Click(`.banner a[href^="#w-"]`)
	if focus := browsertest.Eval[string](b, "document.activeElement.tagName"); focus != "SUMMARY" {
		t.Errorf("the first violation's link focuses %q", focus)
	}
	b.Click("[data-unfold]")
	// a click may be sent before the page has processed the previous one
	b.Until("document.querySelectorAll(\"#invariants .evidence:not([open])\").length === 0")
	quiet(t, b, "fail")
}

const background = "getComputedStyle(document.body).backgroundColor"

func TestBrowserColours(t *testing.T) {
	b := browsertest.Open(t)
	openReport(t, b, "fail", render(t, failRun(), HTML))
	light := browsertest.Eval[string](b, background)
	b.Click("#theme")
	dark := browsertest.Eval[string](b, background)
	if dark == light || browsertest.Eval[string](b, "document.getElementById(\"theme\").getAttribute(\"aria-pressed\")") !=
		"true" {
		t.Errorf("the button does not make it dark: %s after %s", dark, light)
	}
	if blank := browsertest.Eval[[]string](b, blankCharts); len(blank) > 0 {
		t.Errorf("in the dark the charts %q are blank", blank)
	}
	b.Media("print", "dark")
	if paper := browsertest.Eval[string](b, background); paper != "rgb(255, 255, 255)" {
		t.Errorf("paper is %s", paper)
	}
	b.Media("", "dark")
	b.Click("#theme")
	if got := browsertest.Eval[string](b, background); got != light {
		t.Errorf("on a dark system the button does not make it light: %s", got)
	}
	openReport(t, b, "again", render(t, failRun(), HTML))
	if got := browsertest.Eval[string](b, background); got != dark {
		t.Errorf("a dark system gets %s; what was chosen before must be forgotten", got)
	}
	quiet(t, b, "fail")
}

// faintTexts returns the texts whose contrast with the background is below 4.5 : 1 (WCAG 2.1, AA; 3 : 1 for large
// ones), as "words: ratio".
const faintTexts = `(() => {
	const channel = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4);
	const light = (c) => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
	const parse = (s) => { const n = s.match(/[\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
	const over = (a, b) => [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
	const behind = (e) => {
		const layers = [];
		for (; e; e = e.parentElement) {
			const c = parse(getComputedStyle(e).backgroundColor);
			if (c[3] > 0) layers.push(c);
			if (c[3] === 1) break;
		}
		return layers.reverse().reduce((under, c) => over(c, under), [255, 255, 255, 1]);
	};
	const out = [];
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walker.nextNode()) {
		const e = walker.currentNode.parentElement, words = walker.currentNode.textContent.trim();
		if (!words || !e.checkVisibility() || e.closest("svg, script, style, .uplot, [aria-pressed=false]")) continue;
		const style = getComputedStyle(e), back = behind(e), front = over(parse(style.color), back);
		const a = light(front), b = light(back), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && +style.fontWeight >= 700);
		if (ratio < (large ? 3 : 4.5)) out.push(words.slice(0, 40) + ": " + ratio.toFixed(2));
	}
	return [...new Set(out)];
})()`

func TestBrowserTextsCanBeRead(t *testing.T) {
	b := browsertest.Open(t)
	for name, run := range fixtures() {
		for _, scheme := range []string{"light", "dark"} {
			b.Media("", scheme)
			openReport(t, b, name, render(t, run, HTML))
			if b.Count("[data-unfold]") > 0 {
				b.Click("[data-unfold]")
			}
			if faint := browsertest.Eval[[]string](b, faintTexts); len(faint) > 0 {
				t.Errorf("%s, %s: too faint: %q", name, scheme, faint)
			}
		}
	}
}

// A screen reader uses landmarks, headings in order, and names. A keyboard user needs a visible focus.
func TestBrowserCanBeUsedWithoutEyesOrMouse(t *testing.T) {
	b := browsertest.Open(t)
	openReport(t, b, "fail", render(t, failRun(), HTML))
	for _, landmark := range []string{"header", "nav", "main", "footer", "[role=search]"} {
		if b.Count(landmark) != 1 {
			t.Errorf("%d × %s", b.Count(landmark), landmark)
		}
	}
	levels := browsertest.Eval[[]int](b, `Array.from(document.querySelectorAll("h1, h2, h3, h4"), (h) => +h.tagName[1])`)
	for i, level := range levels {
		if i > 0 && level > levels[i-1]+1 {
			t.Errorf("heading %d is of level %d after one of level %d", i+1, level, levels[i-1])
		}
	}
	if len(levels) == 0 || levels[0] != 1 || slices.Contains(levels[1:], 1) {
		t.Errorf("the headings have the levels %v", levels)
	}
	nameless := browsertest.Eval[[]string](
		b, `Array.from(document.querySelectorAll("button, a, input, select, svg[role=img], [role=region]")).filter((e) =>
		e.checkVisibility() && !(e.textContent.trim() || e.getAttribute("aria-label") ||
		  e.getAttribute("aria-labelledby") || (e.labels && e.labels.length))).map((e) => e.outerHTML.slice(0, 80))`)
	if len(nameless) > 0 {
		t.Errorf("these have no name: %q", nameless)
	}
	tables := browsertest.Eval[[]string](b, `Array.from(document.querySelectorAll("table")).filter((e) =>
		!e.caption && !e.closest("[aria-label]") || e.querySelector("th:not([scope])")).
		  map((e) => e.outerHTML.slice(0, 120))`)
	if len(tables) > 0 {
		t.Errorf("tables without a caption, or with heads without a scope: %q", tables)
	}
	b.Press("\t")
	if !browsertest.Eval[bool](b,
		"document.activeElement.classList.contains(\"skip\") && document.activeElement.getBoundingClientRect().left >= 0") {
		t.Error("the first stop of the keyboard is not the way past the navigation")
	}
	b.Press("\t")
	if outline := browsertest.Eval[string](b, `getComputedStyle(document.activeElement).outlineStyle`); outline == "none" {
		t.Error("the focus can't be seen")
	}
}
