package deadletter

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"
)

// OwnHeadersPrefix is the prefix of the name of a service's own dialect: key, value and headers are kept, and headers
// named by the service hold the metadata. The name is "headers:FIELD=HEADER,…", with the fields of OwnHeaderFields.
const OwnHeadersPrefix = "headers:"

// OwnHeaderFields returns the fields that custom headers can hold. Numbers are in decimal or 4 or 8 bytes,
// big-endian. The time is RFC 3339 or milliseconds since 1970. The rest is UTF-8.
func OwnHeaderFields() []string {
	return []string{"topic", "partition", "offset", "attempts", "reason", "class", "time"}
}

// OwnHeadersName returns the name of the dialect that keeps each field in the header of that name. The error names an
// unknown field, a header that is used twice or cannot be represented in the name, or a missing topic. Without the
// topic, no field of a dead letter could be checked.
func OwnHeadersName(headers map[string]string) (string, error) {
	var parts []string
	seen := map[string]string{}
	for _, field := range OwnHeaderFields() {
		header, named := headers[field]
		switch {
		case !named:
			continue
		case header == "" || strings.ContainsAny(header, ",="):
			return "", fmt.Errorf(
				"%s: %q is not a header name that can be used here: it is empty, or has a comma or an equals sign", field, header)
		case seen[header] != "":
			return "", fmt.Errorf("%s and %s are both the header %q: each needs one of its own", seen[header], field, header)
		}
		seen[header] = field
		parts = append(parts, field+"="+header)
	}
	for field := range headers {
		if !slices.Contains(OwnHeaderFields(), field) {
			return "", fmt.Errorf("%q is not a field of a dead letter: known are %s", field,
				strings.Join(OwnHeaderFields(), ", "))
		}
	}
	if headers["topic"] == "" {
		return "", fmt.Errorf("name the header that holds the source topic (topic), or write envelope: none")
	}
	return OwnHeadersPrefix + strings.Join(parts, ","), nil
}

// parseOwnHeaders parses a name from OwnHeadersName.
func parseOwnHeaders(name string) (Dialect, error) {
	names := map[string]string{}
	for part := range strings.SplitSeq(strings.TrimPrefix(name, OwnHeadersPrefix), ",") {
		field, header, _ := strings.Cut(part, "=")
		names[field] = header
	}
	if _, err := OwnHeadersName(names); err != nil {
		return nil, fmt.Errorf("reading the envelope %q: %w", name, err)
	}
	var own headers
	for i, one := range []headerField{
		{part: partTopic, form: formName}, {part: partPartition, form: formLenient}, {part: partOffset, form: formLenient},
		{part: partAttempts, form: formLenient}, {part: partReason, form: formText}, {part: partClass, form: formText},
		{part: partTime, form: formLenient},
	} {
		if header, written := names[OwnHeaderFields()[i]]; written {
			one.header = header
			own.fields = append(own.fields, one)
		}
	}
	return own, nil
}

// anyNumber decodes a number ≥ 0 in decimal, or as 4 or 8 bytes, big-endian. It returns -1 if the value is neither.
func (f *fields) anyNumber(field int, value []byte, bits int) int64 {
	if n, ok := number(string(value), 0, bits); ok {
		f.note(field, true)
		return n
	}
	n := int64(-1)
	switch len(value) {
	case 4:
		n = int64(int32(binary.BigEndian.Uint32(value)))
	case 8:
		n = int64(binary.BigEndian.Uint64(value))
	}
	ok := n >= 0 && (bits == 63 || n < 1<<bits)
	f.note(field, ok)
	if !ok {
		return -1
	}
	return n
}

// time decodes RFC 3339, or milliseconds since 1970 in decimal or as 8 bytes. It returns the zero time if the value
// is none of them.
func (f *fields) time(field int, value []byte) time.Time {
	if at, err := time.Parse(time.RFC3339Nano, string(value)); err == nil {
		f.note(field, true)
		return at
	}
	ms := f.anyNumber(field, value, 63)
	if ms < 0 {
		return time.Time{}
	}
	return fromMillis(ms)
}
