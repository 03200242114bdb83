package external

import (
	"fmt"
	"strings"

	"github.com/magiconair/properties"
)

// read reads the entries of a properties file. It determines their line numbers because the library does not keep
// them. The library parses each line, with its escapes.
func (s *settings) read(text string) {
	for _, line := range logicalLines(text) {
		key, value, ok := property(line.text)
		if !ok { // shows nothing of the line, which may be part of a secret
			s.problems = append(s.problems, finding{line.number, "this is no property: key=value is needed (a backslash " +
				"begins an escape: write it twice; at the end of a line it says that the next one belongs to it)"})
			continue
		}
		if earlier, twice := s.given[key]; twice {
			s.notes = append(s.notes,
				finding{line.number, fmt.Sprintf("%s is given in line %d already: this one counts", shown(key), earlier.line)})
		}
		s.given[key] = entry{value: value, line: line.number}
	}
}

// property reads one logical line.
func property(line string) (key, value string, ok bool) {
	if strings.ContainsAny(line[:1], "=:") {
		return "", "", false // here the library would leak a goroutine
	}
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true} // a password may well have ${ in it
	read, err := loader.LoadBytes([]byte(line))
	if err != nil || read.Len() != 1 {
		return "", "", false
	}
	key = read.Keys()[0]
	value, _ = read.Get(key)
	return key, value, value != "" || strings.ContainsAny(line, "=:")
}

// logicalLine is a line together with its continuation lines, and the number of the first.
type logicalLine struct {
	text   string
	number int
}

// logicalLines splits a properties file. It leaves out blank lines and comments. A line that ends with a backslash
// (an odd number of them) continues in the next one, which then is not a comment.
func logicalLines(text string) (lines []logicalLine) {
	text = strings.TrimPrefix(text, "\ufeff")
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	continued := false
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimLeft(line, " \t\f")
		switch {
		case continued:
			lines[len(lines)-1].text += "\n" + line
		case trimmed == "" || trimmed[0] == '#' || trimmed[0] == '!':
			continue
		default:
			lines = append(lines, logicalLine{trimmed, i + 1})
		}
		backslashes := len(line) - len(strings.TrimRight(line, `\`))
		continued = backslashes%2 == 1
	}
	return lines
}
