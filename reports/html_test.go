package reports

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/reports/document"
)

// parsedPage is a parsed HTML report: its raw texts (scripts, styles) and its elements.
type parsedPage struct {
	scripts  []string
	styles   []string
	elements map[string]int
	words    string
}

// parsePage parses the page as a browser would for our subset of HTML: raw text elements end only at their end tag.
// Every other element and attribute must be one that the template writes.
func parsePage(t interface{ Fatalf(string, ...any) }, document string) parsedPage {
	var out parsedPage
	rest := out.takeRawTexts(t, document)
	decoder := xml.NewDecoder(strings.NewReader(rest))
	decoder.Strict, decoder.AutoClose, decoder.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	out.elements = map[string]int{}
	var words strings.Builder
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the page can't be parsed: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			out.elements[token.Name.Local]++
			checkElement(t, token)
		case xml.CharData:
			words.Write(token)
		case xml.Comment, xml.ProcInst:
			t.Fatalf("the page holds a comment or instruction: %v", token)
		}
	}
	out.words = words.String()
	return out
}

// takeRawTexts removes scripts and styles from the page and returns the rest. As in a browser, text after <script or
// <style, in any spelling, ends at the next end tag of that name.
func (p *parsedPage) takeRawTexts(t interface{ Fatalf(string, ...any) }, document string) string {
	lower := strings.ToLower(document)
	if len(lower) != len(document) {
		t.Fatalf("the page holds letters whose lower case has another length: choose another text for this test")
	}
	var rest strings.Builder
	for at := 0; ; {
		script, style := strings.Index(lower[at:], "<script"), strings.Index(lower[at:], "<style")
		if script < 0 && style < 0 {
			rest.WriteString(document[at:])
			return rest.String()
		}
		into, element, start := &p.scripts, "script", script
		if script < 0 || style >= 0 && style < script {
			into, element, start = &p.styles, "style", style
		}
		open := at + start + strings.IndexByte(document[at+start:], '>') + 1
		length := strings.Index(lower[open:], "</"+element)
		if length < 0 {
			t.Fatalf("a <%s> has no end", element)
		}
		*into = append(*into, document[open:open+length])
		rest.WriteString(document[at : at+start])
		at = open + length + len("</"+element) + 1
	}
}

// docsPage matches the only addresses outside a page that it may lead to.
var docsPage = regexp.MustCompile(`^` + regexp.QuoteMeta(docs) + `[a-z-]+\.md(#[a-z-]+)?$`)

func checkElement(t interface{ Fatalf(string, ...any) }, e xml.StartElement) {
	elements := strings.Fields(`html head meta title link body a header div p span nav main section h1 h2 h3 ul ol li
		code button dl dt dd small
		details summary b strong em i figure figcaption noscript label select option pre br svg rect table caption thead
		tbody tr th td footer
		form input g path circle text desc`)
	attributes := strings.Fields(`lang charset http-equiv content name rel href class aria-label aria-hidden
		aria-labelledby aria-pressed id tabindex
		type data-copy data-unfold data-chart data-figure value open role scope for viewBox preserveAspectRatio x y width
		height title
		hidden aria-live aria-describedby aria-controls placeholder autocomplete spellcheck data-record data-id data-key
		data-partition data-offset
		d cx cy r rx text-anchor`)
	if !slices.Contains(elements, e.Name.Local) {
		t.Fatalf("the page has an element <%s>", e.Name.Local)
	}
	for _, a := range e.Attr {
		if !slices.Contains(attributes, a.Name.Local) {
			t.Fatalf("<%s> has an attribute %s=%q", e.Name.Local, a.Name.Local, a.Value)
		}
		if a.Name.Local == "href" && !strings.HasPrefix(a.Value, "#") &&
			(e.Name.Local != "link" || !strings.HasPrefix(a.Value, "data:image/svg+xml,")) &&
			(e.Name.Local != "a" || !docsPage.MatchString(a.Value)) {
			t.Fatalf("<%s> leads to %q", e.Name.Local, a.Value)
		}
	}
}

func TestHTMLPolicyAllowsExactlyWhatIsEmbedded(t *testing.T) {
	for name, run := range fixtures() {
		html := render(t, run, HTML)
		page := parsePage(t, html)
		scripts := page.scripts
		if hasCurves(run.Verdict) {
			scripts = scripts[1:] // the data
		}
		if wanted := 1; len(page.styles) != wanted || len(scripts) != wanted && len(scripts) != 4 {
			t.Fatalf("%s has %d scripts and %d styles, want 4 (plots, figures, timeline, page) or the page's alone, and 1",
				name, len(scripts), len(page.styles))
		}
		var hashes []string
		for _, script := range scripts {
			hashes = append(hashes, sourceHash(script))
		}
		want := "default-src 'none'; style-src " + sourceHash(page.styles[0]) + "; script-src " + strings.Join(hashes, " ") +
			"; img-src data:; base-uri 'none'; form-action 'none'"
		if !strings.Contains(strings.NewReplacer("&#39;", "'", "&#43;", "+").Replace(html), `content="`+want+`"`) {
			t.Errorf("%s: the policy is not %s", name, want)
		}
		if at := strings.Index(html, "Content-Security-Policy"); at > strings.Index(html, "<style") {
			t.Errorf("%s: the policy comes after what it should guard", name)
		}
	}
}

func TestHTMLHostileContentStaysText(t *testing.T) {
	clean := parsePage(t, render(t, injected("harmless"), HTML))
	for _, payload := range []string{hostile, "</script><script>alert(1)//", "<!--<script>", `"><svg onload=alert(1)>`,
		"javascript:alert(1)", "]]>", "\u2028\u2029", strings.Repeat("<b>", 1400)} {
		page := parsePage(t, render(t, injected(payload), HTML))
		if len(page.scripts) != 5 || !slices.Equal(page.scripts[1:], clean.scripts[1:]) {
			t.Errorf("%.30q changed the scripts", payload)
		}
		for element, n := range clean.elements {
			if page.elements[element] != n {
				t.Errorf("%.30q changed the number of <%s> from %d to %d", payload, element, n, page.elements[element])
			}
		}
		if !strings.Contains(page.words, visible(payload, maxName)) {
			t.Errorf("%.30q is not shown as text", payload)
		}
	}
}

func TestHTMLHostileContentProperty(t *testing.T) {
	clean := parsePage(t, render(t, injected("harmless"), HTML))
	rapid.Check(t, func(t *rapid.T) {
		payload := rapid.OneOf(rapid.StringOfN(rapid.RuneFrom(nil, unicode.Hebrew, unicode.Han, unicode.Cc, unicode.Cf,
			unicode.Punct), 1, 60, -1), rapid.StringOfN(rapid.RuneFrom([]rune(`<>/"'=&;!-scriptonload{}[]()`+"\x00\n`$")), 1, 60,
			-1)).Draw(t, "payload")
		var b strings.Builder
		if err := HTML(&b, injected(payload)); err != nil {
			t.Fatalf("rendering: %v", err)
		}
		page := parsePage(t, b.String())
		if len(page.scripts) != 5 || page.elements["span"] != clean.elements["span"] {
			t.Fatalf("%q changed the page", payload)
		}
		if err := json.Unmarshal([]byte(page.scripts[0]), &map[string]any{}); err != nil {
			t.Fatalf("%q broke the data: %v", payload, err)
		}
	})
}

func TestHTMLAsksNobody(t *testing.T) {
	html := render(t, failRun(), HTML)
	page := parsePage(t, html)
	for _, source := range append(page.styles, page.scripts[2:]...) {
		for _, word := range []string{"http:", "https:", "url(", "@import", "fetch(", "XMLHttpRequest", "WebSocket",
			"innerHTML", "insertAdjacentHTML", "document.write", "eval("} {
			if strings.Contains(source, word) {
				t.Errorf("the page's own code says %q", word)
			}
		}
	}
	for _, word := range []string{"innerHTML", "fetch(", "XMLHttpRequest", "eval(", "new Function"} {
		if strings.Contains(page.scripts[1], word) {
			t.Errorf("the plot library says %q", word)
		}
	}
}

func TestHTMLHasTheCounterexamples(t *testing.T) {
	page := parsePage(t, render(t, failRun(), HTML))
	for _, want := range []string{
		"commit-after-dlq is violated: commit-before-dlq, 14 times, e.g. record 9001",
		"dlqbench run dlq-publish-failure --subject examples/early/subject.yaml --seed 42",
		"612 commits", "31 not judged: the machine stalled", "Offset 1353 of partition 3 was committed 1.52 s before",
		"1.52 s after the first mark",
		"events left out", "12 more, counted but not kept", "the scenario has no replay phase", "28,810", "96.03 %",
		"requests answered", "1,204",
		"latency.success.p99 < 500ms", "p99.9", "380 µs", "embedded (kfake), 3 brokers", "dlqbench-7f3a-input, 6 partitions",
	} {
		if !strings.Contains(page.words, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

func TestHTMLWithoutMeasurements(t *testing.T) {
	page := parsePage(t, render(t, inconclusiveRun(), HTML))
	if page.elements["figure"] > 0 {
		t.Error("there are charts of nothing")
	}
	if !strings.Contains(page.words, "INCONCLUSIVE") || !strings.Contains(page.words, "not injected") {
		t.Error("the verdict or the faults are missing")
	}
}

// bigRun is larger in every respect than a real run.
func bigRun() Run {
	run := failRun()
	v := *run.Verdict
	v.Invariants = nil
	// Its counterexamples alone would make a page of more than 100 MB.
	line := assertions.Line{Kind: "dead letter", Text: strings.Repeat("<&>", 1400)}
	for range 16 {
		r := assertions.Result{Name: "commit-after-dlq", Status: assertions.Fail, Judged: 1_000_000, Of: "commits"}
		for range 5 {
			a := assertions.Anomaly{Name: "commit-before-dlq", Count: 1_000_000}
			for range assertions.MaxCounterexamples {
				w := commitCounterexample()
				w.Trace = slices.Repeat([]assertions.Line{line}, 300)
				a.Counterexamples = append(a.Counterexamples, w)
			}
			r.Anomalies = append(r.Anomalies, a)
		}
		v.Invariants = append(v.Invariants, r)
	}
	m := *run.Measurements
	series := m.Series
	m.Series = measure.Series{Step: 100 * time.Millisecond}
	for range 500 {
		m.Series.Sent = append(m.Series.Sent, series.Sent...)
		m.Series.SuccessP99 = append(m.Series.SuccessP99, series.SuccessP99...)
	}
	v.Series = m.Series
	return Run{Verdict: &v, Measurements: &m, Header: run.Header}
}

func TestHTMLOfABigRunStaysSmall(t *testing.T) {
	html := render(t, bigRun(), HTML)
	if len(html) > 3<<20 {
		t.Errorf("the report of a big run has %d bytes, more than 3 MiB", len(html))
	}
	page := parsePage(t, html)
	// Every anomaly has at least one counterexample, whatever the size of the first ones.
	if got, want := strings.Count(page.words, "Offset 1353 of partition 3 was committed"), 16*5; got < want {
		t.Errorf("%d counterexamples are told, want at least %d: one of each anomaly", got, want)
	}
	data := drawnIn(t, page)
	if n := len(data.Time); n > maxPoints || n < maxPoints/2 {
		t.Errorf("the curves have %d points, want at most %d and not far fewer", n, maxPoints)
	}
	for label, curve := range data.curves {
		if len(curve) != len(data.Time) {
			t.Errorf("the curve %s has %d points for %d times", label, len(curve), len(data.Time))
		}
	}
}

// drawn is the data of the charts in the form that the scripts read, with the curves of the timeline by their label.
type drawn struct {
	Time    []float64
	Figures []document.Figure
	curves  map[string][]*float64
}

func drawnIn(t *testing.T, page parsedPage) drawn {
	t.Helper()
	var data struct {
		Figures  []document.Figure
		Timeline struct {
			Time   []float64
			Charts []struct {
				ID     string
				Curves []struct {
					Label  string
					Values []*float64
				}
			}
		}
	}
	must.Do(t, json.Unmarshal([]byte(page.scripts[0]), &data))
	out := drawn{Time: data.Timeline.Time, Figures: data.Figures, curves: map[string][]*float64{}}
	for _, chart := range data.Timeline.Charts {
		for _, curve := range chart.Curves {
			out.curves[chart.ID+" "+curve.Label] = curve.Values
		}
	}
	return out
}

func TestChartsShowGapsAsNull(t *testing.T) {
	data := drawnIn(t, parsePage(t, render(t, passRun(), HTML)))
	if data.curves["latency p50"][0] != nil || data.curves["latency p99"][0] != nil {
		t.Error("a step with no success has a latency")
	}
	if v := data.curves["latency p50"][100]; v == nil || *v < 100 {
		t.Error("the latency under the fault is missing")
	}
	if v := data.curves["rates sent"][50]; v == nil || math.Abs(*v-2000) > 100 {
		t.Errorf("the rate sent is not per second")
	}
}

func TestPercentileCurvesAgreeWithTheHistograms(t *testing.T) {
	run := passRun()
	data := drawnIn(t, parsePage(t, render(t, run, HTML)))
	titles := map[string]string{}
	for key := range run.Measurements.Histograms {
		title, _ := latencyTitle(key)
		titles[title] = key
	}
	figures := percentiles(run.Verdict).Figures
	if len(figures) != len(titles) || len(data.Figures) != len(figures) {
		t.Fatalf("%d figures on the page of %d, want one for each of %d latencies", len(data.Figures), len(figures),
			len(titles))
	}
	for i, figure := range figures {
		for _, curve := range data.Figures[i].Series {
			phase := strings.Replace(string(curve.Name), "whole run", measure.PhaseAll, 1)
			h := run.Measurements.Histograms[titles[figure.Title]][phase]
			last := 0.0
			for i, nines := range curve.X {
				if curve.Y[i] < last {
					t.Fatalf("%s in %s falls at %.2f", figure.Title, phase, nines)
				}
				last = curve.Y[i]
				if nines == 2 {
					if want := float64(h.ValueAtPercentile(99)) / 1e3; math.Abs(last-want) > want/1000 {
						t.Errorf("%s in %s has p99 %g, want %g", figure.Title, phase, last, want)
					}
				}
			}
			if want := float64(h.Max()) / 1e3; math.Abs(last-want) > want/1000 {
				t.Errorf("%s in %s ends at %g, want its largest value %g", figure.Title, phase, last, want)
			}
		}
	}
}

func TestThinningKeepsTotalsAndPeaks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		every := rapid.IntRange(1, 9).Draw(t, "every")
		values := rapid.SliceOfN(rapid.Float64Range(0, 1000), every, 40*every).Draw(t, "values")
		values = values[:len(values)/every*every]
		total, thinned := 0.0, 0.0
		for _, v := range values {
			total += v
		}
		for _, v := range thin(values, len(values), every, mean, 1) {
			thinned += float64(v) * float64(every)
		}
		if math.Abs(total-thinned) > 1e-6*math.Max(1, total) {
			t.Fatalf("a total of %g became %g", total, thinned)
		}
		peaks := thin(values, len(values), every, highest, 1)
		if got := slices.Max(peaks); float64(got) != slices.Max(values) {
			t.Fatalf("the peak %g became %g", slices.Max(values), got)
		}
	})
	gaps := thin([]float64{math.NaN(), 3, math.Inf(1), math.NaN(), math.NaN()}, 8, 2, highest, 1)
	if got, _ := json.Marshal(gaps); string(got) != "[3,null,null,null]" {
		t.Errorf("gaps became %s", got)
	}
}

func TestLedgerAddsUp(t *testing.T) {
	for open, want := range map[int64]string{0: " unfinished", 12: "; 12 not accounted for", -7: "; 7 ended in two ways"} {
		l := measure.Ledger{Acknowledged: 1000 + open, Succeeded: 900, Logical: 20, DeadLettered: 70, Unfinished: 10}
		if got := oldConservation(l); !strings.HasSuffix(got, want) {
			t.Errorf("open %d: the balance says %q, want %q", open, got, want)
		}
		if got, want := len(ledgerBar(l).Parts), 4+min(1, max(0, int(open))); got != want {
			t.Errorf("open %d: %d parts, want %d", open, got, want)
		}
	}
}

// verdict.json has the whole content of the page: a page made from the file, without the run's history or directory,
// is the same.
func TestHTMLSaysNothingThatTheVerdictDoesNot(t *testing.T) {
	for name, run := range fixtures() {
		var v assertions.Verdict
		must.Do(t, json.Unmarshal([]byte(render(t, run, JSON)), &v))
		run.Dir, run.Verdict = "", complete(run.Verdict) // NaN is 0 in the file
		want, got := strings.Split(render(t, run, HTML), "\n"), strings.Split(render(t, Run{Verdict: &v}, HTML), "\n")
		if len(got) != len(want) {
			t.Fatalf("%s: made of verdict.json, it has %d lines, and had %d", name, len(got), len(want))
		}
		for i, w := range want {
			g := got[i]
			// JSON cannot hold bytes that are not UTF-8. They come back as the replacement character.
			if w = strings.ReplaceAll(w, `\xff`, "\uFFFD"); g != w && !strings.Contains(w, "\uFFFD") {
				t.Fatalf("%s: made of verdict.json, line %d is\n%s\nwhich was\n%s", name, i+1, g, w)
			}
		}
	}
}

// For a missing event, the banner says since when it is certain not to come, and why.
func TestBannerSaysSinceWhenSomethingIsMissing(t *testing.T) {
	for how, want := range map[assertions.Missing]string{
		assertions.MissingCommitted: "21.350 s on the run's clock, in the phase drain (2.75 s into it): committed past, " +
			"so it is not delivered again",
		assertions.MissingDrained: "21.350 s on the run's clock, in the phase drain (2.75 s into it): the drain ended, " +
			"and it was still missing",
		assertions.MissingReplayed: "21.350 s on the run's clock, in the phase drain (2.75 s into it): the replay ended, " +
			"and it was still missing",
		assertions.MissingAudited: "21.350 s on the run's clock, in the phase drain (2.75 s into it): the audit looked " +
			"for it, and it was not there",
	} {
		run := failRun()
		run.Verdict.Roots[0].Example = assertions.Occurrence{
			Record: 7, Partition: 3, Offset: 12, At: 21350 * ms, Phase: "drain", Missing: how,
		}
		if words := parsePage(t, render(t, run, HTML)).words; !strings.Contains(words, want) {
			t.Errorf("%s: the banner does not say %q", how, want)
		}
	}
}

// sourceHash returns the hash of a script or style in the form of a content security policy.
func sourceHash(source string) string {
	sum := sha256.Sum256([]byte(source))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// A reader sees when it happened first, then what was and what was not judged. Of each anomaly one example is unfolded.
func TestHTMLOrder(t *testing.T) {
	page := runPage(withInstances(failRun(), 2))
	var titles []string
	for _, section := range page.Sections {
		titles = append(titles, section.Title)
	}
	if got := strings.Join(titles, ", "); got != ", Timeline, Invariants, Not judged, Thresholds, Latency, Records, "+
		"Problem records, Faults, Resources, Run" {
		t.Errorf("the sections are %s", got)
	}
	for _, block := range page.Sections[2].Blocks {
		of, _ := block.(document.Details)
		anomalies, open := 0, 0
		for _, inner := range of.Blocks {
			switch inner := inner.(type) {
			case document.Heading:
				anomalies++
			case document.Details:
				if inner.Open {
					open++
				}
			}
		}
		if of.Mark == document.Fail && (anomalies == 0 || open != anomalies) {
			t.Errorf("%s: %d of %d anomalies have an example unfolded", of.Title, open, anomalies)
		}
	}
	unjudged, _ := page.Sections[3].Blocks[0].(document.Table)
	for _, r := range failRun().Verdict.Invariants {
		idle := r.Status == assertions.NotApplicable && r.Unjudged != assertions.Inapplicable
		named := func(row document.Row) bool { return row.Cells[0][0].Text == r.Name }
		if idle && !slices.ContainsFunc(unjudged.Rows, named) {
			t.Errorf("%s was not judged, and the page does not say so", r.Name)
		}
	}
}
