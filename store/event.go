package store

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// These are the limits for an event to be stored as JSON. Databases reject deeper nesting and cannot index longer
// patterns.
const (
	maxDepth   = 200
	maxPattern = 500
	maxNumber  = 300
)

// OriginalEvent returns the event of a record's value in a form that databases can store, for people to read and to
// filter by pattern. The value itself is stored beside it, byte for byte. JSON that names this pattern, or any JSON if
// pattern is "", is its own event. Anything else becomes the payload (JSON) or payloadBase64 of an object like the
// management schema's originalEvent, with eventId and pattern.
func OriginalEvent(value []byte, pattern, eventID string) json.RawMessage {
	payload, kept := keepable(value)
	if kept && (pattern == "" || EventPattern(payload) == pattern) {
		return payload
	}
	event := struct {
		EventID string          `json:"eventId,omitempty"`
		Pattern string          `json:"pattern,omitempty"`
		Payload json.RawMessage `json:"payload,omitempty"`
		Base64  string          `json:"payloadBase64,omitempty"`
	}{EventID: EncodeText(eventID), Pattern: clip(EncodeText(pattern), maxPattern)}
	if kept {
		event.Payload = payload
	} else {
		event.Base64 = base64.StdEncoding.EncodeToString(value)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(event); err != nil {
		// Strings and valid JSON can always be encoded.
		return json.RawMessage(`{}`)
	}
	return bytes.TrimSpace(out.Bytes())
}

// EventPattern is the pattern that an event names, as its index sees it: original_event->>'pattern'. It is "" if the
// event names none.
func EventPattern(event json.RawMessage) string {
	var pattern string
	if json.Unmarshal(Field(event, "pattern"), &pattern) != nil {
		return ""
	}
	return DecodeText(pattern)
}

// Field returns the raw value of a field of a JSON object, or nil.
func Field(object json.RawMessage, name string) json.RawMessage {
	if !bytes.Contains(object, []byte(`"`+name+`"`)) {
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil {
		return nil
	}
	return fields[name]
}

// clip cuts a text to a number of whole characters.
func clip(text string, characters int) string {
	if len(text) <= characters || utf8.RuneCountInString(text) <= characters {
		return text
	}
	return string([]rune(text)[:characters])
}

// patternLength is the number of characters that the index stores of the event's pattern, which may be any JSON.
func patternLength(event json.RawMessage) int {
	raw := Field(event, "pattern")
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	return utf8.RuneCountInString(text)
}

// keepable returns value as JSON that every database accepts. It returns false if value is not JSON, or not JSON that
// they accept.
func keepable(value []byte) (json.RawMessage, bool) {
	if !utf8.Valid(value) || !json.Valid(value) || !shallow(value) {
		return nil, false
	}
	kept := escapeJSON(value)
	return kept, patternLength(kept) <= maxPattern
}

// shallow reports whether valid JSON is within the databases' limits for nesting and for the length of numbers.
func shallow(value []byte) bool {
	depth, digits, quoted := 0, 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > maxDepth {
				return false
			}
		case c == ']' || c == '}':
			depth--
		case c == 'e' && digits > 0, c == 'E' && digits > 0:
			// No database supports an exponent of more than three digits.
			if exponent := strings.TrimLeft(string(value[i+1:min(len(value), i+8)]), "+-0"); len(exponent) > 3 &&
				strings.IndexFunc(exponent[:4], notDigit) < 0 {
				return false
			}
		case c >= '0' && c <= '9':
			if digits++; digits > maxNumber {
				return false
			}
			continue
		}
		if c := value[i]; c != '.' && c != '-' {
			digits = 0
		}
	}
	return true
}

func notDigit(r rune) bool { return r < '0' || r > '9' }

// escapeJSON replaces the characters that JSON may contain but a jsonb column cannot: \u0000 becomes the code point
// that EncodeText uses, and an unpaired surrogate becomes U+FFFD. Private code points that look like escapes are
// ambiguous here; the value has the bytes.
func escapeJSON(value []byte) json.RawMessage {
	if !bytes.Contains(value, []byte(`\u`)) {
		return slices.Clone(value)
	}
	kept := make([]byte, 0, len(value))
	for i := 0; i < len(value); i++ {
		if value[i] != '\\' {
			kept = append(kept, value[i])
			continue
		}
		if value[i+1] != 'u' {
			kept = append(kept, value[i], value[i+1])
			i++
			continue
		}
		unit := hex4(value[i+2 : i+6])
		pair := rune(0)
		if i+12 <= len(value) && value[i+6] == '\\' && value[i+7] == 'u' {
			pair = hex4(value[i+8 : i+12])
		}
		switch {
		case unit == 0:
			kept = utf8.AppendRune(kept, escapes)
		case unit >= 0xD800 && unit < 0xDC00 && pair >= 0xDC00 && pair < 0xE000:
			kept = append(kept, value[i:i+12]...)
			i += 6
		case unit >= 0xD800 && unit < 0xE000:
			kept = utf8.AppendRune(kept, utf8.RuneError)
		default:
			kept = append(kept, value[i:i+6]...)
		}
		i += 5
	}
	return kept
}

// hex4 is the code unit of four hexadecimal digits, which valid JSON guarantees.
func hex4(digits []byte) rune {
	var unit rune
	for _, c := range digits {
		switch {
		case c >= 'a':
			unit = unit<<4 | rune(c-'a'+10)
		case c >= 'A':
			unit = unit<<4 | rune(c-'A'+10)
		default:
			unit = unit<<4 | rune(c-'0')
		}
	}
	return unit
}
