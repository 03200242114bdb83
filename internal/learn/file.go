package learn

// The subject file with what was learned.

import (
	"bytes"
	"strings"

	"github.com/dlqbench/dlqbench/scenarios"
)

// textWidth is the longest text of a comment in a line, in columns.
const textWidth = 116

// Contract returns the lines as the contract of a subject file.
func Contract(lines []Line) string {
	var text strings.Builder
	text.WriteString("contract:\n")
	for _, line := range lines {
		if line.Seen != "" {
			for _, part := range scenarios.Hanging("", line.Seen, textWidth) {
				text.WriteString("  # " + part + "\n")
			}
		}
		if line.Key == "" {
			continue
		}
		sign := ""
		if line.Open {
			sign = "# "
		}
		entry := line.Key + ": " + line.Value
		if strings.HasPrefix(line.Value, "\n") {
			entry = line.Key + ":" + line.Value
		}
		text.WriteString("  " + sign + strings.ReplaceAll(entry, "\n", "\n"+sign) + "\n")
	}
	return text.String()
}

// Splice returns the subject file with another contract: in the place of its own, or at its end.
func Splice(file []byte, contract string) []byte {
	out, done := replace(file, "contract", contract)
	if !done {
		if len(out) > 0 && out[len(out)-1] != '\n' {
			out = append(out, '\n')
		}
		out = append(out, contract...)
	}
	return out
}

// replace returns the file with another text in the place of an entry, and reports whether it has that entry. Comments
// before the entry behind it are that entry's, and stay.
func replace(file []byte, key, text string) (replaced []byte, done bool) {
	var out, held bytes.Buffer
	inside := false
	for _, line := range bytes.SplitAfter(file, []byte("\n")) {
		switch {
		case bytes.HasPrefix(line, []byte(key+":")):
			inside, done = true, true
			out.WriteString(text)
		case inside && belongs(line):
			held.Reset()
		case inside && (len(bytes.TrimSpace(line)) == 0 || line[0] == '#'):
			held.Write(line)
		default:
			inside = false
			out.Write(held.Bytes())
			held.Reset()
			out.Write(line)
		}
	}
	out.Write(bytes.TrimLeft(held.Bytes(), "\r\n"))
	return out.Bytes(), done
}

// belongs reports whether a line is part of the entry above it: it is indented, an item of a list, or the end of a
// mapping in braces.
func belongs(line []byte) bool {
	return len(bytes.TrimSpace(line)) > 0 && bytes.ContainsAny(line[:1], " \t-}")
}

// file returns the subject with the proposed contract, and with further lines.
func (l *learned) file(more ...Line) (*scenarios.SubjectFile, error) {
	return scenarios.ParseSubject(l.path, Splice(l.text, Contract(append(append([]Line(nil), l.lines...), more...))))
}

// changed returns the entries of a file, without the contract, that are not in the one before, or are other there, with
// the comments above them.
func changed(before, after []byte) string {
	known := map[string]bool{}
	for _, one := range entriesOf(before) {
		known[one.text] = true
	}
	var text strings.Builder
	for _, one := range entriesOf(after) {
		if !known[one.text] && !strings.HasPrefix(one.text, "contract:") {
			text.WriteString(one.above + one.text)
		}
	}
	return text.String()
}

// part is an entry at the top of a file, and the comments directly above it.
type part struct{ above, text string }

func entriesOf(file []byte) (all []part) {
	above, inside := "", false
	for line := range strings.Lines(string(file)) {
		switch {
		case len(strings.TrimSpace(line)) == 0:
			above = ""
		case strings.HasPrefix(line, "#"):
			above += line
		case inside && belongs([]byte(line)):
			all[len(all)-1].text += line
		default:
			all = append(all, part{above, line})
			above, inside = "", true
		}
	}
	return all
}
