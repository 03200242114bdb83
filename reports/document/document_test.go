package document

import (
	"io"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

const hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\" onmouseover=\"alert(3)' " +
	"\u202egnp.exe \x00\x1b[31m\x9b2J\xff\u200b `rm` | @everyone #1 {{.}} \n# title\n```\n"

// sample is a document with every kind of element.
func sample() Document {
	return Document{
		Kind: "sample", Mark: Fail, Word: "FAIL", Title: "everything", Foot: "The end.", About: []string{"4 runs", "seed 42"},
		Search: "record:812 or any words", Banner: []Block{KeyValues{Items: []KeyValue{
			{Key: "Since when", Value: Text{{Text: "F1", Style: StyleTag, Link: "#fault-1", Note: "a fault"}}}}}},
		Lead: []Text{Plain("no-loss is violated: 3 records were lost, which took the consumer 211 ms and the reader 1.5 s.")},
		Sections: []Section{
			{Blocks: []Block{KeyValues{Big: true, Items: []KeyValue{{Key: "Best throughput", Value: Plain("1,990/s"),
				Note: "± 3 %", Mark: Pass}, {Key: "Report",
				Value: Command("runs/" + strings.Repeat("long-", 30) + "/report.html")}}}}},
			{Title: "Cells", Aside: "medians", Blocks: []Block{Heading("By name"), Table{
				Columns: []Column{{Title: "cell"}, {Title: "state"}, {Title: "throughput", Figure: true},
					{Title: "p99", Figure: true, Spare: true}, {Title: "drain", Figure: true}, {Title: "why", Below: true, Most: 1}},
				Rows: []Row{
					{Mark: Pass, Cells: []Text{Link("max_in_flight=8, slow", "#cell-1"), Plain("ok"), Plain("1,990/s ± 3 %"),
						Plain("211 ms ± 4 %"), Plain("2.78 s ± 39 %"), nil}},
					{Mark: Fail, Strong: true, Cells: []Text{Plain("max_in_flight=2000, slow"), Marked("broken", Fail),
						Plain("12,975/s ± 3 %"), Plain("–"), nil, Lines(Plain("one reason"), Plain("another"), Command("dlqbench run"))}},
				}}, Paragraph{Text: Bold("That is all."), Soft: true}}},
			{Title: "What to change", Blocks: []Block{List{Items: []Item{{Text: Plain("Keep it."),
				Below: []Text{Plain("It works.")}}}}}},
			{Title: "Nothing", Blocks: []Block{Table{Columns: []Column{{Title: "none"}}}}},
			{Title: "Evidence", Folded: true, Blocks: []Block{
				Details{Mark: Pass, Word: "pass", Title: "no-loss", Note: "nothing is lost", Aside: "612 records"},
				Details{Title: "record 812", Find: Find{"record": "812"}, Spare: true, Blocks: []Block{sampleTrace()}},
				Bar{Whole: 10, Parts: []Part{{To: 4, Shape: "good", Name: "succeeded", Value: "4", Note: "40 %"}}},
				KeyValues{Across: true, Items: []KeyValue{{Key: "Sent", Value: Plain("10")}}},
				Timeline{Time: Numbers{0.5}, End: 1, Windows: []Window{{Label: "F1", Name: "a fault", To: 1}}, Charts: []Chart{
					{ID: "rates", Title: "Rates", Curves: []Curve{{Label: "sent", Column: "Sent/s", Values: Numbers{math.NaN()}}}}}},
				Details{ID: "cell-1", Mark: Pass, Word: "ok", Title: "cell 1", Aside: "5 runs", Open: true,
					Blocks: []Block{Code("line 1\nline 2"), Details{Title: "inner",
						Blocks: []Block{Paragraph{Text: Plain("folded twice")}}}}},
				Figures{Choose: true, Figures: []Figure{{ID: "one", Title: "p99", Note: "by cell", Words: "one cell",
					X: Axis{Title: "rate", Unit: "/s", High: 10}, Y: Axis{Title: "p99", Unit: "s", Low: 0.1, High: 1, Log: true},
					Series: []Series{{Label: "1", Name: "cell 1", X: []float64{1, 2}, Y: []float64{0.2, 0.3}},
						{Label: "1", Name: "cell 1", X: []float64{1}, Y: []float64{0.2}, Around: []float64{1, 1, 0.2, 0.2},
							Shape: "front"}}}}}},
			},
		},
	}
}

func sampleTrace() Trace {
	return Trace{ID: "w-1", Title: "The same as a list", Events: []Event{{Between: "1.52 s"},
		{Time: "7.412 s", Delta: "+1 ms", Text: "sent", Kind: "send", Marked: true, Aside: Marked("late", Fail)}},
		Drawing: &Drawing{Title: "Sequence", Lanes: []Lane{{Name: "dlq", Role: "dead-letter topic", Full: "dlqbench.dlq"}},
			Rows:    []Step{{Class: "event", Time: "7.412 s", Faults: "F1", Label: "offset 12"}, {Across: "1.52 s later"}},
			Bracket: &Bracket{Apart: "1.52 s", Badges: []Point{{X: 1, Y: 2}}}}}
}

func rendered(t *testing.T, doc Document, to func(io.Writer, Document) error) string {
	t.Helper()
	var b strings.Builder
	must.Do(t, to(&b, doc))
	return b.String()
}

func onTerminal(columns int, color bool) func(io.Writer, Document) error {
	return func(w io.Writer, doc Document) error { return Terminal(w, doc, columns, color) }
}

// At each width every line fits, each figure is whole, and nothing that a terminal shows is lost.
func TestTerminalFits(t *testing.T) {
	for columns := leastColumns; columns <= mostColumns+20; columns++ {
		out := rendered(t, sample(), onTerminal(columns, false))
		for line := range strings.Lines(out) {
			if width := ansi.StringWidth(strings.TrimSuffix(line, "\n")); width > min(columns, mostColumns) &&
				!strings.Contains(line, "report.html") {
				t.Errorf("%d columns: a line is %d wide: %s", columns, width, line)
			}
		}
		for _, whole := range []string{"1,990/s ± 3 %", "12,975/s ± 3 %", "2.78 s ± 39 %", "211 ms", "1.5 s", "FAIL",
			"seed 42",
			strings.Repeat("long-", 30), "max_in_flight=2000, slow", "one reason", "… and 2 more in the report", "It works."} {
			if !strings.Contains(out, whole) {
				t.Errorf("%d columns: %q is missing:\n%s", columns, whole, out)
			}
		}
		if strings.Contains(out, "Nothing") || strings.Contains(out, "Evidence") {
			t.Errorf("the title of an empty or folded part is shown:\n%s", out)
		}
		if got := rendered(t, sample(), onTerminal(columns, true)); ansi.Strip(got) != out || got == out {
			t.Errorf("%d columns: colour changes the words, or there is none:\n%s", columns, got)
		}
	}
}

// Rows that passed stand side by side if there is room, with remarks on them below.
func TestTerminalPacks(t *testing.T) {
	doc := Document{Word: "PASS", Mark: Pass, Title: "packed",
		Sections: []Section{{Title: "Invariants", Blocks: []Block{Table{
			Pack: true, Columns: []Column{{}, {Figure: true}, {Below: true}}, Rows: []Row{
				{Mark: Pass, Cells: []Text{Plain("no-loss"), Plain("30,000 records"), nil}},
				{Mark: Pass, Cells: []Text{Plain("backoff"), Plain("4,210 gaps"), Plain("31 not judged")}},
				{Mark: Fail, Cells: []Text{Plain("ordering"), Plain("2 records"), Plain("swapped")}},
			}}}}}}
	out := rendered(t, doc, onTerminal(80, false))
	if want := "\nInvariants\n ✗ ordering  2 records\n     swapped\n ✓ no-loss  30,000 records  ✓ backoff  4,210 gaps\n" +
		"   backoff: 31 not judged\n"; !strings.HasSuffix(out, want) {
		t.Errorf("got:\n%s\nwant at the end:\n%s", out, want)
	}
}

// If any string of a document is hostile, no format lets an active element through.
func TestHostileStringsStayText(t *testing.T) {
	doc := sample()
	spoil(reflect.ValueOf(&doc).Elem())
	unseen := regexp.MustCompile(`[\x00-\x09\x0b-\x1f\x7f-\x{9f}\x{200b}\x{202e}]`)
	for name, to := range map[string]func(io.Writer, Document) error{"terminal": onTerminal(80, false),
		"Markdown": Markdown} {
		got := rendered(t, doc, to)
		if at := unseen.FindStringIndex(got); at != nil {
			t.Errorf("the %s lets a character act at %v", name, at)
		}
	}
	prose := regexp.MustCompile("(?s)`{4,}text\n.*?\n`{4,}\n").ReplaceAllString(rendered(t, doc, Markdown), "")
	prose = regexp.MustCompile("`{4} .*? `{4}").ReplaceAllString(prose, "")
	if alive := regexp.MustCompile(`<(script|img)|@[a-z]|\n# `).FindString(prose); alive != "" {
		t.Errorf("Markdown holds %q", alive)
	}
	page := rendered(t, doc, HTML)
	content := page[strings.Index(page, "<body"):strings.Index(page, "<script type=")]
	for _, alive := range []string{"<script", "<img", `" onmouseover`} {
		if strings.Contains(content, alive) {
			t.Errorf("the page holds %q", alive)
		}
	}
	if at := unseen.FindStringIndex(strings.ReplaceAll(content, "\t", "")); at != nil {
		t.Errorf("the page holds a character that is not seen: %q", content[max(0, at[0]-80):at[1]])
	}
	if n := strings.Count(page, "<script"); n != 5 {
		t.Errorf("%d scripts, want the page's own 5", n)
	}
}

// spoil replaces every string that comes from products by a hostile one.
func spoil(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(hostile)
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; !slices.Contains([]string{"ID", "Link", "Unit", "Shape", "Class", "Anchor",
				"Head", "Path"}, name) {
				spoil(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			spoil(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			v.SetMapIndex(key, reflect.ValueOf(hostile))
		}
	case reflect.Pointer:
		spoil(v.Elem())
	case reflect.Interface:
		inner := reflect.New(v.Elem().Type()).Elem()
		inner.Set(v.Elem())
		spoil(inner)
		v.Set(inner)
	}
}

// The policy names exactly the page's own style and scripts, and the page makes no requests.
func TestPageStandsAlone(t *testing.T) {
	page := rendered(t, sample(), HTML)
	style := between(page, "<style>", "</style>")
	var scripts []string
	for _, part := range strings.Split(page, "<script>")[1:] {
		script, _, _ := strings.Cut(part, "</script>")
		scripts = append(scripts, script)
	}
	if len(scripts) != 4 || !strings.Contains(page, `type="application/json"`) {
		t.Fatalf("%d scripts, want those of the plots, the figures, the timeline and the page", len(scripts))
	}
	policy := strings.ReplaceAll(
		strings.ReplaceAll(between(page, `Content-Security-Policy" content="`, `"`), "&#39;", "'"),
		"&#43;", "+")
	for _, source := range append(scripts, style) {
		if !strings.Contains(policy, sourceHash(source)) {
			t.Errorf("the policy does not allow a part of the page: %s", policy)
		}
	}
	doc := sample()
	doc.Sections = doc.Sections[:2]
	if page := rendered(t, doc, HTML); strings.Count(page, "<script") != 1 || strings.Contains(page, PlotScript) {
		t.Error("a page without figures has more than its own script")
	}
}

func between(s, from, to string) string {
	_, rest, _ := strings.Cut(s, from)
	out, _, _ := strings.Cut(rest, to)
	return out
}

// Folded parts that do not fit into a comment are left out, and named.
func TestMarkdownKeepsWithinItsLimit(t *testing.T) {
	doc := Document{Word: "FAIL", Title: "long"}
	for range 3 {
		doc.Sections = append(doc.Sections, Section{Blocks: []Block{
			Details{Title: "run", Blocks: []Block{Code(strings.Repeat(strings.Repeat("x", 1000)+"\n", 500))}}}})
	}
	out := rendered(t, doc, Markdown)
	if len(out) > mostMarkdown+600_000 || strings.Count(out, "<details>") != 2 ||
		!strings.Contains(out, "run: there is no more room here; it is in the report.") {
		t.Errorf("%d bytes with %d folded parts", len(out), strings.Count(out, "<details>"))
	}
}
