package store

import (
	"strings"
	"unicode/utf8"
)

// escapes is where the bytes that a database can't keep in a text are put: 256 code points at the end of a private use
// area.
const escapes = 0x10F000

// EncodeText turns a text into one that every database can keep: UTF-8 without NUL. Each byte that can't stay becomes
// one code point of a private use area, so that DecodeText gives back every byte. A text that can stay is returned as
// it is.
func EncodeText(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return r == 0 || isEscape(r) }) {
		return text
	}
	var kept strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == 0 || isEscape(r) || r == utf8.RuneError && size == 1 {
			for _, b := range []byte(text[i : i+size]) {
				kept.WriteRune(escapes + rune(b))
			}
		} else {
			kept.WriteString(text[i : i+size])
		}
		i += size
	}
	return kept.String()
}

// DecodeText undoes EncodeText.
func DecodeText(kept string) string {
	if !strings.ContainsFunc(kept, isEscape) {
		return kept
	}
	text := make([]byte, 0, len(kept))
	for _, r := range kept {
		if isEscape(r) {
			text = append(text, byte(r-escapes))
		} else {
			text = utf8.AppendRune(text, r)
		}
	}
	return string(text)
}

func isEscape(r rune) bool { return r >= escapes && r <= escapes+0xFF }
