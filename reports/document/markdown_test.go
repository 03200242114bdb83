package document

import (
	"math"
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

// TestMarkdownCharts checks that only a timeline that asks for it becomes charts, with the windows shaded, gaps bridged,
// empty curves left out, and no text from outside in the chart's own grammar.
func TestMarkdownCharts(t *testing.T) {
	timeline := Timeline{Time: Numbers{0, 1, 2, 3}, Windows: []Window{{Name: "a\n```", From: 1, To: 2}},
		Charts: []Chart{{Title: "Latency", Unit: "ms", Curves: []Curve{{Label: "p99 ]", Values: Numbers{1, math.NaN(), 7, 2}},
			{Label: "nothing", Values: Numbers{0, 0, 0, 0}}}}, {Title: "Empty", Curves: []Curve{{Values: Numbers{0, 0, 0, 0}}}}}}
	if got := mdTimeline(timeline); got != "" {
		t.Errorf("a timeline that is not for Markdown is\n%s", got)
	}
	timeline.InMarkdown = true
	got := mdTimeline(timeline)
	for _, want := range []string{"**Latency**: 🟦 p99 \\]; shaded: a fault was in force; where there is no value",
		"    x-axis \"seconds\" 0 --> 3\n    y-axis ms 0 --> 7\n    bar [0, 7, 7, 0]\n    line [1, 1, 7, 2]\n```\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the chart has no %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "Empty") || strings.Contains(got, "nothing") || strings.Count(got, "```") != 2 {
		t.Errorf("the charts are\n%s", got)
	}
}
