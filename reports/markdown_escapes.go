package reports

import (
	"html"
	"strings"
)

// inElement escapes a text inside an HTML element of its own line, where Markdown's signs mean nothing but mentions
// still do.
func inElement(s string) string {
	return strings.ReplaceAll(html.EscapeString(s), "@", "@"+wedge)
}

// wedge keeps GitHub from making more of a text than it is: a space without width.
const wedge = "&#8203;"

// md escapes a text of one line for the middle of a line, inside or outside a table. Besides Markdown's own signs it
// takes from GitHub what it makes of plain text: mentions, references to issues, mathematics, and addresses that become
// links. These are found after escapes are resolved, so only a character in between keeps them off.
func md(s string) string {
	return strings.NewReplacer(
		"&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "@"+wedge, "#", `\#`+wedge, "://", ":"+wedge+"//", "www.",
		"www"+wedge+".",
		`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "|", `\|`, "~", `\~`, "$", `\$`, "!", `\!`,
		"GH-", "GH"+wedge+"-",
	).Replace(s)
}

// code returns s as a code span that fits in a table: the fence is longer than any run of backticks inside.
func code(s string) string {
	s = strings.ReplaceAll(text(s), "|", `\|`)
	fence := strings.Repeat("`", longestRun(s)+1)
	return fence + " " + s + " " + fence
}

// fenced returns a code block whose fence is longer than any run of backticks inside.
func fenced(language, block string) string {
	fence := strings.Repeat("`", max(3, longestRun(block)+1))
	return fence + language + "\n" + block + fence + "\n"
}

// longestRun is the length of the longest run of backticks in s.
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
