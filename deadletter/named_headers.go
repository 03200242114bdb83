package deadletter

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// OwnHeaders is a custom dialect of a service: key, value and headers are kept, and headers named by the service hold
// the metadata. Its name is written "headers:FIELD=HEADER,…", with the fields of OwnHeaderFields.
type OwnHeaders struct {
	// fields and headers are parallel, in the order of OwnHeaderFields.
	fields, headers []string
}

// OwnHeadersPrefix is the prefix of the name of such a dialect.
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
func parseOwnHeaders(name string) (OwnHeaders, error) {
	headers := map[string]string{}
	for part := range strings.SplitSeq(strings.TrimPrefix(name, OwnHeadersPrefix), ",") {
		field, header, _ := strings.Cut(part, "=")
		headers[field] = header
	}
	if _, err := OwnHeadersName(headers); err != nil {
		return OwnHeaders{}, fmt.Errorf("reading the envelope %q: %w", name, err)
	}
	var own OwnHeaders
	for _, field := range OwnHeaderFields() {
		if header, named := headers[field]; named {
			own.fields, own.headers = append(own.fields, field), append(own.headers, header)
		}
	}
	return own, nil
}

// Traits implements Dialect.
func (d OwnHeaders) Traits() Traits {
	has := func(field string) bool { return slices.Contains(d.fields, field) }
	return Traits{Fields: d.headers, Position: has("partition") && has("offset"), Attempts: has("attempts"), Headers: true}
}

// Seal implements Sealer.
func (d OwnHeaders) Seal(record *kgo.Record, failure Failure) *kgo.Record {
	e := wrap(record, d, len(d.headers), 64+len(failure.Reason)+len(failure.Class)+len(failure.Topic))
	for i, field := range d.fields {
		switch name := d.headers[i]; field {
		case "topic":
			e.string(name, failure.Topic)
		case "partition":
			e.decimal(name, int64(failure.Partition))
		case "offset":
			e.decimal(name, failure.Offset)
		case "attempts":
			e.decimal(name, int64(failure.Attempts))
		case "reason":
			e.string(name, failure.Reason)
		case "class":
			e.string(name, failure.Class)
		case "time":
			e.string(name, failure.Time.UTC().Format(time.RFC3339Nano))
		}
	}
	return &kgo.Record{Key: record.Key, Value: record.Value, Headers: e.headers, Partition: failure.Partition,
		Timestamp: failure.Time}
}

// Open implements Opener.
func (d OwnHeaders) Open(letter *kgo.Record) (Failure, []string) {
	failure, found := unknownFailure(letter), fields(0)
	for i := range letter.Headers {
		field := slices.Index(d.headers, letter.Headers[i].Key)
		if field < 0 {
			continue
		}
		value := letter.Headers[i].Value
		switch d.fields[field] {
		case "topic":
			failure.Topic = found.name(field, value)
		case "partition":
			failure.Partition = int32(found.anyNumber(field, value, 31))
		case "offset":
			failure.Offset = found.anyNumber(field, value, 63)
		case "attempts":
			failure.Attempts = int32(max(found.anyNumber(field, value, 31), 0)) // 0 if the record couldn't be read
		case "reason":
			failure.Reason = found.text(field, value)
		case "class":
			failure.Class = found.text(field, value)
		case "time":
			failure.Time = found.time(field, value)
		}
	}
	return failure, found.missing(d.headers)
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

// Prepare implements Opener.
func (d OwnHeaders) Prepare(letter *kgo.Record) *kgo.Record { return backToSource(d, letter) }

// IsFailureHeader implements Opener.
func (d OwnHeaders) IsFailureHeader(name string) bool { return slices.Contains(d.headers, name) }
