package reports

import (
	"regexp"
	"strings"
	"testing"
)

func TestMarkdownStaysInShape(t *testing.T) {
	document := render(t, injected(hostile+"\n\n</details>\n````\n| x |"), Markdown)
	if got := strings.Count(document, "<details>"); got != strings.Count(document, "</details>")-strings.Count(document,
		`\n</details>`) {
		t.Errorf("details elements are not balanced:\n%s", document)
	}
	// Without the code blocks and spans, only our own elements are left, and no one is mentioned.
	prose := regexp.MustCompile("(?s)(`{3,})text\n.*?\n`{3,}\n").ReplaceAllString(document, "")
	prose = regexp.MustCompile("(``+) .*? (``+)").ReplaceAllString(prose, "")
	for _, element := range regexp.MustCompile(`<[^>\s]*`).FindAllString(prose, -1) {
		switch element {
		case "<details", "</details", "<summary", "</summary", "<br":
		default:
			t.Errorf("the element %s got through", element)
		}
	}
	if regexp.MustCompile(`@[a-z]`).MatchString(prose) {
		t.Error("someone is mentioned")
	}
	for line := range strings.SplitSeq(prose, "\n") {
		if strings.HasPrefix(line, "|") && !strings.HasSuffix(line, "|") {
			t.Errorf("a table row is broken: %s", line)
		}
	}
}
