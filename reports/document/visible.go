package document

// Text that comes from records, logs and brokers is not to be trusted with the reader's terminal, browser or CI. Here
// it is made harmless before any format escapes it for itself: invisible characters, and those that change how others
// are displayed, are written out.

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dlqbench/dlqbench/internal/units"
)

// Whole is the length up to which a text is shown whole whatever it is: longer ones are cut in every format.
const Whole = 4096

// Visible returns s as text of one line that shows everything it holds: control characters, bytes that are not UTF-8,
// and the invisible characters that reorder or hide text are written as escapes. At most limit characters are kept; the
// text then says how many were left out.
func Visible(s string, limit int) string {
	var b strings.Builder
	b.Grow(min(len(s), limit+1))
	shown := 0
	for at := 0; at < len(s); {
		if shown == limit {
			fmt.Fprintf(&b, "… (%s more characters)", units.Count(int64(utf8.RuneCountInString(s[at:]))))
			break
		}
		shown++
		if c := s[at]; c >= ' ' && c <= '~' {
			b.WriteByte(c)
			at++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[at:])
		b.WriteString(visibleRune(r, size, s[at]))
		at += size
	}
	return b.String()
}

func visibleRune(r rune, size int, first byte) string {
	switch {
	case r == utf8.RuneError && size == 1:
		return fmt.Sprintf(`\x%02x`, first)
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r < 0x20 || r == 0x7f:
		return fmt.Sprintf(`\x%02x`, r)
	case hidden(r):
		return fmt.Sprintf(`\u{%04X}`, r)
	}
	return string(r)
}

// hidden tells characters that are not seen themselves: the C1 controls, format characters (bidirectional overrides,
// zero-width joiners, tags), line and paragraph separators, and what is no character at all.
func hidden(r rune) bool {
	if r >= 0x80 && r <= 0x9f || r&0xfffe == 0xfffe || r >= 0xfdd0 && r <= 0xfdef {
		return true
	}
	return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Cs, unicode.Co, unicode.Variation_Selector)
}
