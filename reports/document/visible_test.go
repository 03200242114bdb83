package document

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain ünïcode \u05e9\u05dc\u05d5\u05dd \u6f22\u5b57": "plain ünïcode \u05e9\u05dc\u05d5\u05dd \u6f22\u5b57",
		"a\nb\r\tc":                    `a\nb\r\tc`,
		"\x00\x1b[2J\x7f":              `\x00\x1b[2J\x7f`,
		"\xff\xfe":                     `\xff\xfe`,
		"\u0085\u009b":                 `\u{0085}\u{009B}`,
		"\u202eabc\u2066":              `\u{202E}abc\u{2066}`,
		"\u200b\ufeff\u2028":           `\u{200B}\u{FEFF}\u{2028}`,
		"\ue000\ufffe\U000E0041\ufe0f": `\u{E000}\u{FFFE}\u{E0041}\u{FE0F}`,
		"\ufffd":                       "\ufffd",
	} {
		if got := Visible(in, 100); got != want {
			t.Errorf("Visible(%q) = %q, want %q", in, got, want)
		}
	}
	if got, want := Visible(strings.Repeat("é", 4096), 10), strings.Repeat("é", 10)+
		"… (4,086 more characters)"; got != want {
		t.Errorf("a long text is shown as %q, want %q", got, want)
	}
}

func TestVisibleShowsOnlyWhatIsSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		out := Visible(in, 50)
		if !utf8.ValidString(out) || Visible(out, 1<<20) != out {
			t.Fatalf("Visible(%q) = %q, which itself holds something that is not seen", in, out)
		}
	})
}
