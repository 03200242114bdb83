package document

import (
	"reflect"
	"strings"
	"testing"
)

// parts is a document in which each part differs between a terminal and Markdown, or is limited.
func parts() Document {
	return Document{Mark: Pass, Word: "PASS", Title: "parts", Lead: []Text{Plain("All is well.")},
		About: []string{"2 runs", "seed 42"}, Sections: []Section{
			{Title: "Advice", Aside: "by weight", Blocks: []Block{List{Most: 2, Items: []Item{
				{Text: Plain("first"), Below: []Text{Plain("as it helps")}}, {Text: Plain("second")}, {Text: Plain("third")}}}}},
			{Title: "Facts", Blocks: []Block{KeyValues{Items: []KeyValue{
				{Key: "rate", Value: Plain("5/s"), Note: "median"}, {Key: "retries", Value: Plain("7")}}}}},
			{Title: "Cells", Blocks: []Block{Table{Most: 2, Columns: []Column{{Title: "cell"}, {Title: "p99", Figure: true}},
				Rows: []Row{{Mark: Pass, Cells: []Text{Plain("one"), Plain("5 ms")}},
					{Mark: Fail, Strong: true, Cells: []Text{Plain("two"), Plain("500 ms")}},
					{Mark: Pass, Cells: []Text{Plain("three"), Plain("6 ms")}}}}}},
			{Title: "Causes", Blocks: []Block{Heading("Below"), Paragraph{Text: Plain("More of it.")}}},
			{Title: "Nothing below", Blocks: []Block{Table{}}},
			{Title: "run 2", Mark: Fail, Word: "FAIL", Blocks: []Block{Paragraph{Text: Marked("lost", Fail)}}},
			{Title: "Evidence", Aside: "of both", Folded: true, Blocks: []Block{Paragraph{Text: Plain("Folded away.")},
				Details{Mark: Fail, Word: "lost", Title: "no-loss", Blocks: []Block{Code("GET @x\n")}}}},
		}}
}

const partsOnTerminal = ` PASS  parts
 All is well.
 2 runs · seed 42

Advice (by weight)
 • first
     as it helps
 • second
 … and 1 more in the report

Facts
rate     5/s, median
retries  7

Cells       p99
 ✓ one     5 ms
 ✗ two   500 ms
 … and 1 more in the report

Causes

Below
 More of it.

 FAIL  run 2
 lost
`

const partsInMarkdown = `## ✅ PASS: parts

All is well.

2 runs · seed 42

### Advice (by weight)

- first
  - as it helps
- second
- third

### Facts

- **rate**: 5/s, median
- **retries**: 7

### Cells

| | cell | p99 |
|---|---|---:|
| ✅ | one | 5 ms |
| ❌ | **two** | 500 ms |
| ✅ | three | 6 ms |

### Causes

#### Below

More of it.

### ❌ FAIL: run 2

**lost**

<details><summary>Evidence (of both)</summary>

Folded away.

<details><summary>❌ no-loss: lost</summary>

` + "```text\nGET @x\n```" + `

</details>

</details>
`

// TestParts checks how each part is written for a terminal and in Markdown.
func TestParts(t *testing.T) {
	if got := rendered(t, parts(), onTerminal(80, false)); got != partsOnTerminal {
		t.Errorf("on a terminal:\n%s\nwant:\n%s", got, partsOnTerminal)
	}
	if got := rendered(t, parts(), Markdown); got != partsInMarkdown {
		t.Errorf("in Markdown:\n%s\nwant:\n%s", got, partsInMarkdown)
	}
}

// TestFlat checks that a document within another one keeps its content, folded where it was.
func TestFlat(t *testing.T) {
	doc := parts()
	doc.Sections = doc.Sections[3:]
	got := doc.Flat()
	want := []Block{
		Paragraph{Text: Plain("All is well.")}, Paragraph{Text: Plain("2 runs · seed 42"), Soft: true},
		Heading("Causes"), Heading("Below"), Paragraph{Text: Plain("More of it.")}, Heading("run 2"),
		Paragraph{Text: Marked("lost", Fail)}, Details{Title: "Evidence", Blocks: doc.Sections[3].Blocks},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got:\n%v\nwant:\n%v", got, want)
	}
}

// TestTerminalLeavesOutTheLastSpareColumnFirst checks that no more spare columns are left out than necessary.
func TestTerminalLeavesOutTheLastSpareColumnFirst(t *testing.T) {
	doc := Document{Sections: []Section{{Blocks: []Block{Table{
		Columns: []Column{{Title: "cell"}, {Title: "median", Spare: true}, {Title: "p99", Spare: true}},
		Rows:    []Row{{Cells: []Text{Plain("max_in_flight=2000"), Plain("5.20 ms"), Plain("500.20 ms ± 3 %")}}}}}}}}
	const want = "\n cell                median\n max_in_flight=2000  5.20 ms\n"
	if got := rendered(t, doc, onTerminal(40, false)); !strings.HasSuffix(got, want) {
		t.Errorf("got:\n%s\nwant at the end:\n%s", got, want)
	}
}

// TestTerminalPacksInOneColumn checks that rows that are too wide to stand side by side stand below each other, and
// that at most two lines of remarks follow.
func TestTerminalPacksInOneColumn(t *testing.T) {
	table := Table{Pack: true, Columns: []Column{{}, {Figure: true}, {Below: true}}}
	for _, name := range []string{"no-loss", "ordering", "duplicates"} {
		table.Rows = append(table.Rows, Row{Mark: Pass, Cells: []Text{Plain(name), Plain("30,000 records"),
			Plain("31 not judged as unread")}})
	}
	const want = "\n ✓ no-loss     30,000 records\n ✓ ordering    30,000 records\n ✓ duplicates  30,000 records\n" +
		"   no-loss: 31 not judged as unread;\n   ordering: 31 not judged as unread; …\n"
	got := rendered(t, Document{Sections: []Section{{Blocks: []Block{table}}}}, onTerminal(40, false))
	if !strings.HasSuffix(got, want) {
		t.Errorf("got:\n%s\nwant at the end:\n%s", got, want)
	}
	const beside = "\n ✓ no-loss   30,000 records  ✓ duplicates  30,000 records\n ✓ ordering  30,000 records\n" +
		"   no-loss: 31 not judged as unread; ordering: 31 not judged as unread;\n" +
		"   duplicates: 31 not judged as unread\n"
	got = rendered(t, Document{Sections: []Section{{Blocks: []Block{table}}}}, onTerminal(80, false))
	if !strings.HasSuffix(got, beside) {
		t.Errorf("got:\n%s\nwant at the end:\n%s", got, beside)
	}
}

// TestSpread checks which cells of a page are split into a value and its spread.
func TestSpread(t *testing.T) {
	for _, one := range []struct {
		cell Text
		want []string
	}{
		{Plain("211 ms ± 4 %"), []string{"211 ms", "4 %"}},
		{Plain("211 ms"), []string{"211 ms"}},
		{Marked("211 ms ± 4 %", Fail), []string{""}},
		{Text{{Text: "211 ms"}, {Text: " ± 4 %"}}, []string{""}},
		{nil, []string{""}},
	} {
		if got := spread(one.cell); !reflect.DeepEqual(got, one.want) {
			t.Errorf("%v is split into %q, want %q", one.cell, got, one.want)
		}
	}
}

// TestTexts checks small rules of texts, titles and sections.
func TestTexts(t *testing.T) {
	want := Text{{Text: "a"}, {Style: StyleBreak}, {Text: "b"}}
	if got := Lines(Plain("a"), nil, Plain("b")); !reflect.DeepEqual(got, want) {
		t.Errorf("lines are %v, want %v", got, want)
	}
	if got := slug("What to change (p99)"); got != "what-to-change-p99" {
		t.Errorf("the anchor is %q", got)
	}
	row, item := []Row{{}}, []Item{{}}
	for _, one := range []struct {
		block Block
		empty bool
	}{
		{Table{}, true}, {Table{Rows: row}, false}, {List{}, true}, {List{Items: item}, false}, {KeyValues{}, true},
		{KeyValues{Items: []KeyValue{{}}}, false}, {Figures{}, true}, {Figures{Figures: []Figure{{}}}, false},
		{Paragraph{}, false},
	} {
		if got := (Section{Blocks: []Block{one.block}}).empty(); got != one.empty {
			t.Errorf("a section with %#v: empty is %v, want %v", one.block, got, one.empty)
		}
	}
}

// TestTerminalTall checks a table that is too wide for its columns side by side, below a title that is too long for the
// line of their titles, and the colours of marks.
func TestTerminalTall(t *testing.T) {
	table := Table{Columns: []Column{{Title: "cell"}, {Title: "p99"}}, Rows: []Row{{Mark: Fail,
		Cells: []Text{Plain("max_in_flight=2000, slow"), Marked("500.20 ms ± 3 %", Fail)}}}}
	doc := Document{Sections: []Section{{Title: "All cells of the matrix", Blocks: []Block{table}}}}
	for columns, want := range map[int]string{
		40: "\nAll cells of the matrix\n       p99\n ✗ max_in_flight=2000, slow\n       500.20 ms ± 3 %\n",
		80: "\nAll cells of the matrix      p99\n ✗ max_in_flight=2000, slow  500.20 ms ± 3 %\n",
	} {
		if got := rendered(t, doc, onTerminal(columns, false)); !strings.HasSuffix(got, want) {
			t.Errorf("%d columns:\n%s\nwant at the end:\n%s", columns, got, want)
		}
	}
	doc.Sections[0].Title += " that the bench ran"
	const want = "\nAll cells of the matrix that the bench ran\n   cell "
	if got := rendered(t, doc, onTerminal(80, false)); !strings.Contains(got, want) {
		t.Errorf("got:\n%s\nwant in it:\n%s", got, want)
	}
	if got := rendered(t, doc, onTerminal(80, true)); !strings.Contains(got, "\x1b[1;31m500.20 ms") {
		t.Errorf("what failed is not red: %q", got)
	}
}

// A trace keeps to the width of the terminal: what does not fit stands below the beginning of its text.
func TestTraceOnTerminal(t *testing.T) {
	trace := Trace{Events: []Event{
		{Time: "1.799 s", Kind: "fault", Text: "in force: dlq down: connections closed and refused"},
		{Between: "2 events"}, {Time: "1.883 s", Kind: "commit-request", Text: "asks to commit", Marked: true},
	}}
	want := `
       1.799 s  fault              in force: dlq down:
                                   connections closed and
                                   refused
   … 2 events
 ▶     1.883 s  commit-request     asks to commit
`
	got := rendered(t, Document{Sections: []Section{{Blocks: []Block{trace}}}}, onTerminal(60, false))
	if got != want {
		t.Errorf("a trace is written as\n%s\nwant\n%s", got, want)
	}
}
