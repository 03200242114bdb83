package web

// This file tests the page in a real browser: a whole drill, with the responder next to the injector.

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/drill"
	"github.com/dlqbench/dlqbench/internal/testkit/browsertest"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// quiet fails the test if a page logged an error or contacted another server.
func quiet(t *testing.T, b *browsertest.Browser, s *Server) {
	t.Helper()
	if console := b.Console(); len(console) > 0 {
		t.Errorf("the page writes to the console: %q", console)
	}
	for _, url := range b.Requests() {
		if !strings.HasPrefix(url, s.base()+"/") {
			t.Errorf("the page asks for %s", url)
		}
	}
}

// opened opens a role's page. Another page may redirect to it, so its content may be missing at first.
func opened(b *browsertest.Browser, link string) {
	b.Navigate(link)
	b.Until(`document.querySelector("#stage")?.textContent === "open" && document.querySelector("#drawing svg") !== null`)
}

func TestAWholeDrillInABrowser(t *testing.T) {
	b := browsertest.Open(t)
	f := newFake(t)
	s := serve(t, f, Options{})
	opened(b, s.Link(drill.RoleInjector))
	b.Until(`document.querySelectorAll("#fault option").length === 5`)
	if got := b.Text("#scenario"); got != "orders: the downstream fails" {
		t.Errorf("the scenario is %q", got)
	}
	for _, one := range []struct {
		selector string
		want     int
	}{{".charts canvas", 3}, {"#tiles > div", 6}, {`.node[data-part^="instance "]`, 3}, {`.node[data-part^="broker "]`, 3},
		{"#processes li", 3}, {"#fault option:disabled", 1}, {".mark", 0}} {
		if got := b.Count(one.selector); got != one.want {
			t.Errorf("the page has %d of %s, want %d", got, one.selector, one.want)
		}
	}

	// Inject: the form has the catalogue's fields and defaults.
	b.Type("#by", "Ada")
	b.Press("\r")
	b.Until(`document.querySelector("#people").textContent === "Ada, injector"`)
	browsertest.Eval[bool](b, "(s => { s.value = \"network.latency\"; s.dispatchEvent(new Event(\"change\")); return "+
		"true })(document.querySelector(\"#fault\"))")
	if got := browsertest.Eval[string](b,
		"document.querySelector(\"#p-network-latency\").value + \" \" + document.querySelector(\"#p-network-link\").value"); got != "200ms downstream" {
		t.Errorf("the defaults are %q", got)
	}
	browsertest.Eval[bool](b, `(document.querySelector("#p-network-latency").value = "soon", true)`)
	b.Click("#break button.danger")
	if len(f.broken()) > 0 {
		t.Error("a latency of \"soon\" was taken")
	}
	browsertest.Eval[bool](b, `(document.querySelector("#p-network-latency").value = "350ms", true)`)
	b.Click("#break button.danger")
	b.Until("document.querySelectorAll(\"#broken li\").length === 1 && " +
		"document.querySelectorAll(\".broken-flow\").length === 3 && document.querySelectorAll(\".mark\").length > 0")
	if got := f.broken()[0]; got.What != "downstream delayed by 350ms" || got.By.Name != "Ada" {
		t.Errorf("it broke %q by %v", got.What, got.By)
	}
	if got := b.Text("#broken"); !strings.Contains(got, "not noticed yet") {
		t.Errorf("what is broken is told as %q", got)
	}

	// Notice, decide, lift.
	b.Type("#notice-text", "latency is up")
	b.Click("#notice button")
	b.Until(`document.querySelector("#broken").textContent.includes("noticed after")`)
	b.Type("#note-text", "we wait a minute")
	b.Press("\r")
	b.Until(`document.querySelector("#log [data-action=note] .text")?.textContent === "Ada: we wait a minute"`)
	b.Click(`#processes li:nth-child(2) [data-action="kill"]`)
	b.Until(`document.querySelectorAll(".node.down").length === 1`)
	// a click on a component of the drawing selects the faults in the catalogue that apply to it
	b.Click(`[data-part="instance 1"]`)
	b.Click("#broken button")
	b.Until(`document.querySelectorAll("#broken li").length === 0 && document.querySelectorAll(".mark").length === 0`)
	b.Click("#heal-all button")
	b.Until(`document.querySelectorAll(".node.down").length === 0`)
	quiet(t, b, s)

	// Stop asks for confirmation.
	b.Click("#stop")
	b.Click("#sure-no")
	if f.State(drill.RoleInjector).Result != nil {
		t.Error("who goes on drilling stopped the drill")
	}
	b.Click("#stop")
	b.Click("#sure-yes")
	b.Until(`!document.querySelector("#over").hidden`)
	if got := b.Text("#over-faults"); !strings.Contains(got, "by hand, Ada") {
		t.Errorf("the faults are told as %q", got)
	}
	if got := b.Text("#over"); !strings.Contains(got, "stopped by Ada") ||
		!strings.Contains(got, "downstream-latency") || !strings.Contains(got, "recorded.yaml") {
		t.Errorf("the end is told as %q", got)
	}
	quiet(t, b, s)
	b.Navigate(s.base() + browsertest.Eval[string](b, `new URL(document.querySelector("#over-links a").href).pathname`))
	if got := b.Text("h1"); got != "debrief.html" {
		t.Errorf("the debrief is %q", got)
	}
	quiet(t, b, s)
}

func TestTheRespondersPageInABrowser(t *testing.T) {
	b := browsertest.Open(t)
	f := newFake(t)
	s := serve(t, f, Options{Apart: true})
	must.Get(f.Break(t.Context(), drill.Actor{Role: drill.RoleInjector},
		map[string]any{"downstream": map[string]any{"outage": true}}))(t)
	opened(b, s.base()+"/")
	if got := browsertest.Eval[string](b, "location.pathname + document.querySelector(\".badge\").textContent"); got !=
		"/responder/responder" {
		t.Errorf("the address leads to %s", got)
	}
	b.Until(`document.querySelectorAll("#processes button:not([hidden])").length > 0`)
	for _, hidden := range []string{"#break", ".mark", ".broken-flow", "#broken li"} {
		if got := browsertest.Eval[int](b, `[...document.querySelectorAll("`+hidden+
			`")].filter((e) => e.getClientRects().length > 0).length`); got != 0 {
			t.Errorf("the responder sees %d of %s", got, hidden)
		}
	}
	if text := browsertest.Eval[string](b, "document.documentElement.outerHTML"); strings.Contains(text,
		secret) || strings.Contains(text, "outage") {
		t.Error("the page tells what was broken")
	}
	if got := b.Text("#heal-command"); got != s.HealCommand(drill.RoleResponder, false) {
		t.Errorf("the responder's command is %q", got)
	}
	b.Click("#heal-all button")
	b.Until(`document.querySelector("#log [data-action=heal-all]") !== null`)
	if len(f.broken()) > 0 {
		t.Error("the responder's red button heals nothing")
	}
	quiet(t, b, s)
	// The injector's page opens with its token, which then disappears from the address bar.
	opened(b, s.Link(drill.RoleInjector))
	if got := browsertest.Eval[string](b, "location.href"); got != s.base()+"/injector/" {
		t.Errorf("the token stays in %s", got)
	}
	b.Until(`!document.querySelector("#break").parentElement.hidden`)
	quiet(t, b, s)
}

// A schema registry has a place in the drawing, also beside a store and on a phone, and faults of it are marked there.
func TestFaultsOfTheRegistryAreMarkedInABrowser(t *testing.T) {
	b := browsertest.Open(t)
	f := newFake(t)
	f.registry = true
	s := serve(t, f, Options{})
	for _, width := range []int64{1280, 420} {
		for _, stored := range []bool{false, true} {
			f.mu.Lock()
			f.store = stored
			f.mu.Unlock()
			b.Viewport(width, 900)
			opened(b, s.Link(drill.RoleInjector))
			b.Until(`document.querySelector('.node[data-part="registry"]')?.textContent.includes("requests")`)
			broken := must.Get(f.Break(t.Context(), drill.Actor{Role: drill.RoleInjector},
				map[string]any{"network": map[string]any{"link": "registry", "latency": "1s"}}))(t)
			b.Until(`document.querySelectorAll('.node.hit[data-part="registry"]').length === 1`)
			if got := b.Count(".node.hit"); got != 1 {
				t.Errorf("at %d pixels, %d parts are marked", width, got)
			}
			if folder := os.Getenv("PICTURES"); folder != "" {
				b.Glimpse(filepath.Join(folder, fmt.Sprintf("registry-%d-%v.png", width, stored)))
			}
			must.Do(t, f.Heal(t.Context(), drill.Actor{Role: drill.RoleInjector}, broken.ID))
			b.Until(`document.querySelectorAll(".node.hit").length === 0`)
		}
	}
	quiet(t, b, s)
}

// People's input and the run's name stay text, whatever they contain.
func TestHostileWordsStayWordsInABrowser(t *testing.T) {
	b := browsertest.Open(t)
	f := newFake(t)
	f.hostile = `</title><script>document.title="owned"</script><img src=x onerror="document.title='owned'">`
	s := serve(t, f, Options{})
	ada := drill.Actor{Name: f.hostile, Role: drill.RoleInjector}
	must.Do(t, f.Note(ada, f.hostile+"\u202egnp"))
	must.Get(f.Break(t.Context(), ada,
		map[string]any{"network": map[string]any{"link": f.hostile, "latency": "1s"}}))(t)
	opened(b, s.Link(drill.RoleInjector))
	b.Until("document.querySelectorAll(\"#log [data-action=note]\").length === 1 && document.querySelectorAll(\"#broken " +
		"li\").length === 1")
	b.Type("#note-text", f.hostile)
	b.Press("\r")
	b.Until(`document.querySelectorAll("#log [data-action=note]").length === 2`)
	must.Do(t, f.Stop(ada))
	b.Until(`!document.querySelector("#over").hidden`)
	if got := browsertest.Eval[string](b,
		"document.title + document.querySelectorAll(\"img, script:not([src])\").length"); strings.HasPrefix(got,
		"owned") || !strings.HasSuffix(got, "0") {
		t.Errorf("hostile words came alive: %q", got)
	}
	quiet(t, b, s)
}

// When the connection is lost, the page says so, reconnects by itself and shows what happened meanwhile, without
// repeating anything.
func TestALostConnectionIsToldAndFoundAgainInABrowser(t *testing.T) {
	b := browsertest.Open(t)
	f := newFake(t)
	s := serve(t, f, Options{})
	opened(b, s.Link(drill.RoleInjector))
	channel := s.channels[drill.RoleInjector]
	channel.close() // ends all streams and refuses new ones
	b.Until(
		`!document.querySelector("#lost").hidden && document.querySelector("#lost").textContent.includes("Connection ` +
			`lost") && document.querySelector("#link").dataset.state === "lost"`)
	must.Get(f.Break(t.Context(), drill.Actor{Role: drill.RoleInjector},
		map[string]any{"downstream": true}))(t)
	channel.mu.Lock()
	channel.closed = false
	channel.mu.Unlock()
	b.Until(
		`document.querySelector("#lost").hidden && document.querySelector("#link").dataset.state === "live" && ` +
			`document.querySelectorAll("#broken li").length === 1`)
	if got := b.Count("#log li"); got != 2 {
		t.Errorf("the log has %d lines, want 2", got)
	}
}

// Everything can be reached and operated with the keyboard alone, and has a name for screen readers.
func TestThePageIsUsedWithTheKeyboardInABrowser(t *testing.T) {
	b := browsertest.Open(t)
	f := newFake(t)
	s := serve(t, f, Options{})
	opened(b, s.Link(drill.RoleInjector))
	b.Until(`document.querySelectorAll("#fault option").length === 5`)
	unnamed := browsertest.Eval[string](
		b, `[...document.querySelectorAll("button, input:not([type=hidden]), select, textarea, [role=button], [tabindex='0']")].filter((e) => e.getClientRects().length &&
		!(e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || (e.labels && e.labels.length) || e.textContent.trim())).map((e) => e.outerHTML).join("\n")`)
	if unnamed != "" {
		t.Errorf("these have no name: %s", unnamed)
	}
	reached := map[string]bool{}
	for range 80 {
		b.Press("\t")
		where := browsertest.Eval[string](b,
			"(e => e.id || e.dataset.part || e.dataset.action || e.textContent.trim())(document.activeElement)")
		reached[where] = true
		if browsertest.Eval[bool](b, "document.activeElement !== document.body && "+
			"getComputedStyle(document.activeElement).outlineStyle === \"none\" && !document.activeElement.matches(\".node\")") {
			t.Errorf("the focus on %s is not to be seen", where)
		}
	}
	for _, want := range []string{"Heal everything", "downstream", "instance 0", "notice-text", "fault", "Inject",
		"kill", "note-text", "stop", "log"} {
		if !reached[want] {
			t.Errorf("%q is not reached with the Tab key; reached: %v", want, reached)
		}
	}
	browsertest.Eval[bool](b, `(document.querySelector('[data-part="downstream"]').focus(), true)`)
	b.Press("\r")
	b.Until(`document.activeElement.id === "fault" && document.querySelector("#fault").value === "downstream.outage"`)
	browsertest.Eval[bool](b, `(document.querySelector("#break button.danger").focus(), true)`)
	b.Press("\r")
	b.Until(`document.querySelectorAll("#broken li").length === 1`)
	browsertest.Eval[bool](b, `(document.querySelector("#broken button").focus(), true)`)
	// The focus survives new frames.
	was := browsertest.Eval[string](b, `document.querySelector("#broken .about").textContent`)
	b.Until(`document.querySelector("#broken .about").textContent !== ` + quoted(was))
	if got := browsertest.Eval[string](b, `document.activeElement.textContent`); got != "Heal" {
		t.Errorf("the focus went to %q", got)
	}
	quiet(t, b, s)
}

func quoted(text string) string { return "`" + text + "`" }

// On a narrow screen nothing overflows, and the red button is visible at any scroll position.
func TestNarrowScreensInABrowser(t *testing.T) {
	b := browsertest.Open(t)
	f := newFake(t)
	f.store, f.registry = true, true
	s := serve(t, f, Options{})
	for _, width := range []int64{360, 420, 760, 1024, 1920} {
		b.Viewport(width, 800)
		opened(b, s.Link(drill.RoleInjector))
		if got := browsertest.Eval[int64](b, `document.documentElement.scrollWidth`); got > width {
			t.Errorf("at %d pixels the page is %d wide", width, got)
		}
		for _, to := range []string{"0", "document.body.scrollHeight"} {
			if !browsertest.Eval[bool](b, `(scrollTo(0, `+to+"), (r => r.top >= 0 && r.bottom <= innerHeight && "+
				"document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2).textContent.includes(\"Heal "+
				"everything\"))(document.querySelector(\"#heal-all button\").getBoundingClientRect()))") {
				t.Errorf("at %d pixels, scrolled to %s, the red button is out of sight", width, to)
			}
		}
		quiet(t, b, s)
	}
}

// Faults without effect are reported when the drill is over, and a person who may not inject faults is told why.
func TestWhatDidNothingAndWhyNothingMayBeBrokenInABrowser(t *testing.T) {
	b := browsertest.Open(t)
	f := newFake(t)
	f.unbreakable = "this Kafka is another's"
	f.faults = append(f.faults, drill.Fault{ID: "f1", Name: "produce-error", What: "refused", ToNotice: true,
		Idle: "no request matched"})
	s := serve(t, f, Options{})
	opened(b, s.Link(drill.RoleInjector))
	if got := b.Text("#unbreakable"); !strings.Contains(got, f.unbreakable) ||
		browsertest.Eval[bool](b,
			"document.querySelector(\"#unbreakable\").hidden || !document.querySelector(\"#break\").closest(\"section\").hidden") {
		t.Errorf("who may break nothing reads %q, or has the form all the same", got)
	}
	must.Do(t, f.Stop(drill.Actor{Name: "Ada", Role: drill.RoleInjector}))
	b.Until(`!document.querySelector("#over").hidden`)
	if got := b.Text("#over-faults"); !strings.Contains(got, "It did nothing: no request matched") ||
		!strings.Contains(got, "none") || strings.Contains(got, "never") {
		t.Errorf("of what did nothing it says %q", got)
	}
	if browsertest.Eval[bool](b, `!document.querySelector("#unbreakable").hidden`) {
		t.Error("when the drill is over it still says why nothing can be broken")
	}
	quiet(t, b, s)
}

// The page is looked at on each screen, in both colour schemes, on paper, by keyboard and by axe-core, for each role
// and when the drill is over.
func TestThePageIsInspectedInABrowser(t *testing.T) {
	b := browsertest.Open(t)
	f := newFake(t)
	s := serve(t, f, Options{})
	ada := drill.Actor{Name: "Ada", Role: drill.RoleInjector}
	must.Get(f.Break(t.Context(), ada, map[string]any{"downstream": true}))(t)
	must.Do(t, f.Join(ada))
	for _, role := range roles() {
		opened(b, s.Link(role))
		b.Inspect("drill-" + string(role))
	}
	must.Do(t, f.Stop(ada))
	b.Navigate(s.Link(drill.RoleInjector))
	b.Until(`!document.querySelector("#over").hidden`)
	b.Inspect("drill-over")
}

// The picture of the documentation is made here, and the page still looks like it.
func TestThePictureOfTheDocumentationInABrowser(t *testing.T) {
	b := browsertest.Open(t)
	f := newFake(t)
	s := serve(t, f, Options{})
	ada := drill.Actor{Name: "Ada", Role: drill.RoleInjector}
	must.Do(t, f.Join(ada))
	must.Get(f.Break(t.Context(), ada,
		map[string]any{"network": map[string]any{"link": "downstream", "latency": "350ms"}}))(t)
	b.Viewport(1440, 1000)
	opened(b, s.Link(drill.RoleInjector))
	b.Until(`document.querySelectorAll(".broken-flow").length === 3 && document.querySelectorAll("#broken li").length === 1`)
	b.Looks("../../../docs/drill.png")
}
