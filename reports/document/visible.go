package document

// Text from records, logs and brokers must not be trusted with the reader's terminal, browser or CI. This file makes
// it harmless before each format escapes it: invisible characters, and characters that change the display of others,
// are written as escapes.

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dlqbench/dlqbench/internal/units"
)

// Whole is the maximum length of texts that are always shown whole. Longer texts are cut in every format.
const Whole = 4096

// Visible returns s as a one-line text that shows all its content. Control characters, bytes that are not UTF-8, and
// invisible characters that reorder or hide text are written as escapes. At most limit characters are kept; the text
// then says how many were left out.
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

// hidden reports whether a character is invisible: the C1 controls, format characters (bidirectional overrides,
// zero-width joiners, tags), line and paragraph separators, and code points that are not characters.
func hidden(r rune) bool {
	if r >= 0x80 && r <= 0x9f || r&0xfffe == 0xfffe || r >= 0xfdd0 && r <= 0xfdef {
		return true
	}
	return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Cs, unicode.Co, unicode.Variation_Selector)
}
