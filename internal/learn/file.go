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
