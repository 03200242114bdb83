package scenarios

// How deep a file is nested is looked at before it is parsed: the parser takes time that grows with the square of the
// depth, so that a few thousand brackets would keep it busy for minutes.

// nestingLimit is far beyond what the schema can use.
const nestingLimit = 64

// tooDeep returns where the text is nested deeper than the limit, as far as brackets and the dashes of one line tell.
// Brackets in quotes count too: nobody writes so many.
func tooDeep(text string) (line, column int, deep bool) {
	brackets, dashes, leading := 0, 0, true
	line = 1
	for _, r := range text {
		column++
		switch r {
		case '\n':
			line, column, dashes, leading = line+1, 0, 0, true
		case '[', '{':
			brackets++
		case ']', '}':
			brackets = max(brackets-1, 0)
		}
		switch r {
		case '-', '?', ':':
			if leading {
				dashes++
			}
		case ' ', '\t', '\n':
		default:
			leading = false
		}
		if brackets > nestingLimit || dashes > nestingLimit {
			return line, column, true
		}
	}
	return 0, 0, false
}
