package external

import (
	"fmt"
	"io"
)

// Secret is a password, a token or a private key. However it is printed, logged or encoded, it shows as "[secret]";
// only Reveal gives its text. The zero value is an empty one.
type Secret struct {
	// text is a pointer because fmt prints the fields of a struct that is an unexported field of another struct without
	// calling their methods. It prints a pointer there as an address.
	text *string
}

const hidden = "[secret]"

// NewSecret hides a text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{text: &text}
}

// Reveal returns the text, for callers that have to send it.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Empty reports whether there is no text.
func (s Secret) Empty() bool { return s.text == nil }

// String returns "[secret]".
func (s Secret) String() string { return hidden }

// GoString returns "[secret]".
func (s Secret) GoString() string { return hidden }

// Format writes "[secret]", whatever the verb.
func (s Secret) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, hidden) }

// MarshalText returns "[secret]".
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// MarshalJSON returns "[secret]" in quotes.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }
