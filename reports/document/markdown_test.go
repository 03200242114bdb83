package document

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Outside code, none of these may be left from a hostile text. Inside code they have no meaning.
func TestMarkdownEscapes(t *testing.T) {
	for in, want := range map[string]string{
		"a|b":                 `a\|b`,
		"`x`":                 "\\`x\\`",
		"<img src=x>":         "&lt;img src=x&gt;",
		"&lt;":                "&amp;lt;",
		"@team":               "@&#8203;team",
		"#12":                 `\#&#8203;12`,
		"[a](b)":              `\[a\](b)`,
		"https://a.example":   "https:&#8203;//a.example",
		"www.a.example":       "www&#8203;.a.example",
		"![x]":                `\!\[x\]`,
		"$x$ ~y~ *z* _w_ \\q": `\$x\$ \~y\~ \*z\* \_w\_ \\q`,
		"GH-1":                "GH&#8203;-1",
		"12.2 – 14.0 s":       "12.2 – 14.0 s",
	} {
		if got := md(in); got != want {
			t.Errorf("md(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestMarkdownCodeCannotBeLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(rapid.SampledFrom([]string{"`", "```", "````", "|", `\`, " ", "a", "\n"})).Draw(t, "pieces")
		payload := strings.Join(pieces, "")
		span := code(payload)
		fence := span[:len(span)-len(strings.TrimLeft(span, "`"))]
		inside := strings.TrimSuffix(strings.TrimPrefix(span, fence), fence)
		if strings.Contains(inside, fence) || strings.Contains(span, "\n") {
			t.Fatalf("the code span %q can be left", span)
		}
		if regexp.MustCompile(`(^|[^\\])\|`).MatchString(inside) {
			t.Fatalf("the code span %q breaks a table", span)
		}
		block := fenced(payload)
		lines := strings.Split(strings.TrimSuffix(block, "\n"), "\n")
		fence = strings.TrimSuffix(lines[0], "text")
		for _, line := range lines[1 : len(lines)-1] {
			if strings.HasPrefix(strings.TrimSpace(line), fence) {
				t.Fatalf("the code block %q can be left", block)
			}
		}
	})
}
