package document

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// mostMarkdown is the maximum size of a document in bytes: GitHub accepts 1 MiB for the summary of one step. Folded
// parts that do not fit are left out.
const mostMarkdown = 900 << 10

// markdown collects the parts of a document, separated by empty lines.
type markdown struct{ strings.Builder }

// Markdown writes a document in GitHub's flavour. Texts from runs cannot open an element, break out of a table or a
// code block, create a link, or mention anyone.
func Markdown(w io.Writer, doc Document) error {
	m := &markdown{}
	m.part("## " + verdict(doc.Mark, doc.Word, doc.Title) + "\n")
	for _, lead := range doc.Lead {
		m.part(mdText(lead) + "\n")
	}
	if len(doc.About) > 0 {
		m.part(md(strings.Join(doc.About, " · ")) + "\n")
	}
	for _, section := range doc.Sections {
		m.section(section)
	}
	if _, err := io.WriteString(w, m.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// verdict returns a title preceded by the verdict.
func verdict(mark Mark, word, title string) string {
	if word != "" {
		title = word + ": " + title
	}
	return strings.TrimSpace(mark.look().emoji + " " + md(title))
}

// part appends a part unless it is empty.
func (m *markdown) part(part string) {
	if strings.TrimSpace(part) == "" {
		return
	}
	if m.Len() > 0 {
		m.WriteString("\n")
	}
	m.WriteString(part)
}

func (m *markdown) section(section Section) {
	content := m.blocks(section.Blocks)
	switch {
	case content == "":
	case section.Folded:
		m.fold(None, aside(section.Title, section.Aside), content)
	case section.Title != "":
		m.part("### " + verdict(section.Mark, section.Word, aside(section.Title, section.Aside)) + "\n\n" + content)
	default:
		m.part(content)
	}
}

func (m *markdown) blocks(blocks []Block) string {
	inner := &markdown{}
	for _, block := range blocks {
		switch block := block.(type) {
		case Heading:
			inner.part("#### " + md(string(block)) + "\n")
		case Paragraph:
			inner.part(mdText(block.Text) + "\n")
		case List:
			inner.part(mdList(block))
		case KeyValues:
			inner.part(mdKeyValues(block))
		case Code:
			inner.part(fenced(string(block)))
		case Details:
			title := verdict(block.Mark, "", block.Title)
			if block.Word != "" {
				title += ": " + md(block.Word)
			}
			if m.Len()+inner.Len() > mostMarkdown {
				inner.part(title + ": there is no more room here; it is in the report.\n")
				continue
			}
			inner.fold(block.Mark, block.Title+colon(block.Word), m.blocks(block.Blocks))
		case Table:
			inner.part(mdTable(block))
		case Timeline:
			inner.part(mdTimeline(block))
		}
	}
	return inner.String()
}

// aside returns a title followed by its explanation.
func aside(title, words string) string {
	if words == "" {
		return title
	}
	return title + " (" + words + ")"
}

func colon(word string) string {
	if word == "" {
		return ""
	}
	return ": " + word
}

func (m *markdown) fold(mark Mark, title, content string) {
	if content == "" {
		return
	}
	summary := strings.TrimSpace(mark.look().emoji + " " + inElement(title))
	m.part("<details><summary>" + summary + "</summary>\n\n" + content + "\n</details>\n")
}

func mdList(list List) string {
	var b strings.Builder
	bullet := "-"
	if list.Tasks {
		bullet = "- [ ]"
	}
	for _, item := range list.Items {
		fmt.Fprintf(&b, "%s %s\n", bullet, mdText(item.Text))
		for _, more := range item.Below {
			fmt.Fprintf(&b, "  - %s\n", mdText(more))
		}
	}
	return b.String()
}

func mdKeyValues(block KeyValues) string {
	var b strings.Builder
	for _, one := range block.Items {
		fmt.Fprintf(&b, "- **%s**: %s", md(one.Key), mdText(one.Value))
		if one.Note != "" {
			b.WriteString(", " + md(one.Note))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func mdTable(t Table) string {
	if len(t.Rows) == 0 {
		return ""
	}
	head, rule, marked := "|", "|", t.marked()
	if marked {
		head, rule = "| |", "|---|"
	}
	for _, column := range t.Columns {
		head += " " + md(column.Title) + " |"
		if column.Figure {
			rule += "---:|"
		} else {
			rule += "---|"
		}
	}
	var b strings.Builder
	b.WriteString(head + "\n" + rule + "\n")
	for _, row := range t.Rows {
		b.WriteString("|")
		if marked {
			b.WriteString(" " + row.Mark.look().emoji + " |")
		}
		for i, cell := range row.Cells {
			words := mdText(cell)
			if row.Strong && i == 0 && !strings.Contains(words, "*") {
				words = "**" + words + "**"
			}
			b.WriteString(" " + words + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func mdText(text Text) string {
	var b strings.Builder
	for _, span := range text {
		switch span.Style {
		case StyleBreak:
			b.WriteString("<br>")
		case StyleBold:
			b.WriteString("**" + md(span.Text) + "**")
		case StyleCode:
			b.WriteString(code(span.Text))
		default:
			if span.address() {
				b.WriteString("[" + md(span.Text) + "](" + span.Link + ")")
				continue
			}
			b.WriteString(md(span.Text))
		}
	}
	return b.String()
}

// inElement escapes a text inside an HTML element on its own line, where Markdown syntax has no meaning but mentions
// still do.
func inElement(s string) string {
	return strings.ReplaceAll(html.EscapeString(Visible(s, Whole)), "@", "@"+wedge)
}

// wedge is a zero-width space that prevents GitHub from interpreting a text.
const wedge = "&#8203;"

// md escapes a one-line text for use within a line, inside or outside a table. Besides Markdown syntax, it disables
// what GitHub recognizes in plain text: mentions, references to issues, mathematics, and addresses that become links.
// GitHub finds these after it resolves escapes, so only a character in between prevents them.
func md(s string) string {
	return strings.NewReplacer(
		"&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "@"+wedge, "#", `\#`+wedge, "://", ":"+wedge+"//", "www.",
		"www"+wedge+".",
		`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "|", `\|`, "~", `\~`, "$", `\$`, "!", `\!`,
		"GH-", "GH"+wedge+"-",
	).Replace(Visible(s, Whole))
}

// code returns s as a code span that is valid in a table. The fence is longer than any run of backticks inside.
func code(s string) string {
	s = strings.ReplaceAll(Visible(s, Whole), "|", `\|`)
	fence := strings.Repeat("`", longestRun(s)+1)
	return fence + " " + s + " " + fence
}

// fenced returns a code block whose fence is longer than any run of backticks inside.
func fenced(block string) string {
	block = visibleLines(block)
	fence := strings.Repeat("`", max(3, longestRun(block)+1))
	return fence + "text\n" + block + "\n" + fence + "\n"
}

// longestRun returns the length of the longest run of backticks in s.
func longestRun(s string) int {
	longest, run := 0, 0
	for _, r := range s {
		if r != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}
