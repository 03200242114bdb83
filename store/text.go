package store

import (
	"strings"
	"unicode/utf8"
)

// escapes is the start of the code points for bytes that a database cannot store in a text: 256 code points at the end
// of a private use area.
const escapes = 0x10F000

// EncodeText turns a text into one that every database can store: UTF-8 without NUL. Each byte that cannot be stored
// becomes one code point of a private use area, so that DecodeText restores every byte. A text that can be stored is
// returned unchanged.
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

// Cut is EncodeText for a text of which so many characters are kept. It is cut to the length of its column in the
// management schema in every store, so that an entry is the same in all.
func Cut(text string, characters int) string { return clip(EncodeText(text), characters) }

// DecodeText reverses EncodeText.
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
