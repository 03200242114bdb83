package main

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// vt emulates what a terminal shows: as much of a VT220 as programs that redraw a screen need. An unknown sequence is
// an error.
type vt struct {
	testing.TB
	rows, columns         int
	main, alt             [][]string
	onAlt                 bool
	row, column           int
	top, bottom           int // of the scroll region
	savedRow, savedColumn int
	hiddenCursor          bool
	last                  string
	// colored reports whether any colour was set.
	colored bool
}

func newVT(t testing.TB, rows, columns int) *vt {
	v := &vt{TB: t, rows: rows, columns: columns, bottom: rows - 1}
	v.main, v.alt = v.blank(), v.blank()
	return v
}

func (v *vt) blank() [][]string {
	grid := make([][]string, v.rows)
	for i := range grid {
		grid[i] = make([]string, v.columns)
	}
	return grid
}

func (v *vt) grid() [][]string {
	if v.onAlt {
		return v.alt
	}
	return v.main
}

// text is the content of the screen, without trailing blanks.
func (v *vt) text() string {
	var lines []string
	for _, cells := range v.grid() {
		var line strings.Builder
		for _, cell := range cells {
			switch cell {
			case "":
				line.WriteByte(' ')
			case wide:
			default:
				line.WriteString(cell)
			}
		}
		lines = append(lines, strings.TrimRight(line.String(), " "))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// wide marks the second cell of a wide character.
const wide = "\x00"

func (v *vt) write(text string) {
	for text != "" {
		if text[0] == 0x1b {
			text = v.escape(text[1:])
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		v.rune(r)
		text = text[size:]
	}
}

func (v *vt) rune(r rune) {
	switch r {
	case '\r':
		v.column = 0
	case '\n':
		v.feed()
	case '\b':
		v.column = max(v.column-1, 0)
	case '\t':
		v.column = min(v.column/8*8+8, v.columns-1)
	case 0x07:
	default:
		v.put(string(r))
	}
}

func (v *vt) put(cell string) {
	width := ansi.StringWidth(cell)
	if width == 0 {
		return
	}
	if v.column+width > v.columns {
		v.column = 0
		v.feed()
	}
	v.grid()[v.row][v.column] = cell
	if width == 2 {
		v.grid()[v.row][v.column+1] = wide
	}
	v.column += width
	v.last = cell
}

func (v *vt) feed() {
	if v.row == v.bottom {
		v.scroll(1)
		return
	}
	v.row = min(v.row+1, v.rows-1)
}

// scroll moves the lines of the region up by the number, or down if it is negative.
func (v *vt) scroll(by int) {
	grid := v.grid()
	for range max(by, -by) {
		if by > 0 {
			copy(grid[v.top:v.bottom], grid[v.top+1:v.bottom+1])
			grid[v.bottom] = make([]string, v.columns)
		} else {
			copy(grid[v.top+1:v.bottom+1], grid[v.top:v.bottom])
			grid[v.top] = make([]string, v.columns)
		}
	}
}

// escape executes the sequence at the start and returns the text after it.
func (v *vt) escape(text string) string {
	if text == "" {
		return ""
	}
	switch text[0] {
	case '[':
		end := strings.IndexFunc(text[1:], func(r rune) bool { return r >= '@' && r <= '~' })
		if end < 0 {
			return "" // incomplete
		}
		v.control(text[1:1+end], text[1+end])
		return text[2+end:]
	case ']', 'P', '_':
		if _, after, found := strings.Cut(text, "\x1b\\"); found {
			return after
		}
		_, after, _ := strings.Cut(text, "\a")
		return after
	case 'M':
		if v.row == v.top {
			v.scroll(-1)
		} else {
			v.row = max(v.row-1, 0)
		}
	case '7':
		v.savedRow, v.savedColumn = v.row, v.column
	case '8':
		v.row, v.column = v.savedRow, v.savedColumn
	case '=', '>':
	default:
		v.Errorf("an unknown sequence: ESC %q", text[0])
	}
	return text[1:]
}

func (v *vt) control(parameters string, final byte) {
	if strings.ContainsAny(parameters, "?<>=$ ") {
		v.mode(parameters, final)
		return
	}
	at := func(i, otherwise int) int {
		list := strings.Split(parameters, ";")
		if i >= len(list) || list[i] == "" {
			return otherwise
		}
		n, err := strconv.Atoi(list[i])
		if err != nil {
			v.Errorf("an unknown sequence: CSI %s%c", parameters, final)
		}
		return n
	}
	by := max(at(0, 1), 1)
	line := v.grid()[v.row]
	switch final {
	case 'm':
		v.colored = v.colored || strings.Trim(parameters, "0;") != ""
	case 'H':
		v.row, v.column = v.inRows(at(0, 1)-1), v.inColumns(at(1, 1)-1)
	case 'A':
		v.row = v.inRows(v.row - by)
	case 'B':
		v.row = v.inRows(v.row + by)
	case 'C':
		v.column = v.inColumns(v.column + by)
	case 'D':
		v.column = v.inColumns(v.column - by)
	case 'G':
		v.column = v.inColumns(by - 1)
	case 'Z': // back to the previous tab stop
		v.column = max((v.column-1)/8-(by-1), 0) * 8
	case 'd':
		v.row = v.inRows(by - 1)
	case 'r':
		v.top, v.bottom = at(0, 1)-1, v.inRows(at(1, v.rows)-1)
		v.row, v.column = 0, 0
	case 'S':
		v.scroll(by)
	case 'T':
		v.scroll(-by)
	case 'K':
		v.erase(line, at(0, 0))
	case 'J':
		for row, cells := range v.grid() {
			if mode := at(0, 0); mode == 2 || mode == 0 && row > v.row || mode == 1 && row < v.row {
				clear(cells)
			}
		}
		if at(0, 0) != 2 {
			v.erase(line, at(0, 0))
		}
	case 'X':
		clear(line[min(v.column, len(line)):min(v.column+by, v.columns)])
	case 'P':
		copy(line[v.column:], line[min(v.column+by, v.columns):])
		clear(line[max(v.columns-by, v.column):])
	case '@':
		copy(line[min(v.column+by, v.columns):], line[v.column:])
		clear(line[v.column:min(v.column+by, v.columns)])
	case 'L', 'M':
		top := v.top
		v.top = v.row
		if final == 'L' {
			by = -by
		}
		v.scroll(by)
		v.top = top
	case 'b':
		for range by {
			v.put(v.last)
		}
	default:
		v.Errorf("an unknown sequence: CSI %s%c", parameters, final)
	}
}

func (v *vt) inRows(row int) int       { return min(max(row, 0), v.rows-1) }
func (v *vt) inColumns(column int) int { return min(max(column, 0), v.columns-1) }

func (v *vt) erase(line []string, mode int) {
	column := min(v.column, v.columns)
	switch mode {
	case 0:
		clear(line[column:])
	case 1:
		clear(line[:min(column+1, v.columns)])
	case 2:
		clear(line)
	}
}

// mode handles the private modes that change the display, and ignores queries and optional features.
func (v *vt) mode(parameters string, final byte) {
	if final != 'h' && final != 'l' {
		return
	}
	switch parameters {
	case "?1049":
		if final == 'h' && !v.onAlt {
			v.savedRow, v.savedColumn = v.row, v.column
			v.alt = v.blank()
		}
		if final == 'l' && v.onAlt {
			v.row, v.column = v.savedRow, v.savedColumn
		}
		v.onAlt = final == 'h'
	case "?25":
		v.hiddenCursor = final == 'l'
	}
}

// resize changes the window size like a terminal does: content that does not fit is lost.
func (v *vt) resize(rows, columns int) {
	old := *v
	v.rows, v.columns, v.top, v.bottom = rows, columns, 0, rows-1
	v.main, v.alt = v.blank(), v.blank()
	for row := range min(rows, old.rows) {
		copy(v.main[row], old.main[row])
		copy(v.alt[row], old.alt[row])
	}
	v.row, v.column = v.inRows(v.row), v.inColumns(v.column)
}

func TestVT(t *testing.T) {
	for name, test := range map[string]struct{ written, want string }{
		"lines":            {"one\r\ntwo", "one\ntwo"},
		"wrap":             {"0123456789ab", "0123456789\nab"},
		"scroll":           {"1\r\n2\r\n3\r\n4\r\n5", "2\n3\n4\n5"},
		"place":            {"\x1b[2;3Hx\x1b[1Gy\x1b[4dz", "\ny x\n\n z"},
		"move":             {"abc\x1b[2Dx\x1b[By\x1b[A\x1b[3Cz", "axc   z\n  y"},
		"erase":            {"abcdef\x1b[3G\x1b[K\r\nabcdef\x1b[3G\x1b[1K\r\nabcdef\x1b[2G\x1b[2X", "ab\n   def\na  def"},
		"erase the rest":   {"1\r\n2\r\n3\x1b[2;1H\x1b[J", "1"},
		"delete, insert":   {"abcdef\x1b[2G\x1b[2P\r\nabcdef\x1b[2G\x1b[2@", "adef\na  bcdef"},
		"a region":         {"1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[S", "1\n3\n\n4"},
		"reverse":          {"1\r\n2\r\n3\x1b[2;4r\x1b[2;1H\x1bMx", "1\nx\n2\n3"},
		"wide":             {"漢x", "漢x"},
		"colour":           {"\x1b[1;31mred\x1b[m", "red"},
		"the other screen": {"main\x1b[?1049hother\x1b[?1049l!", "main!"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVT(t, 4, 10)
			v.write(test.written)
			if got := v.text(); got != test.want {
				t.Errorf("it shows\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}
