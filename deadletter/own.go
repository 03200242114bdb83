package deadletter

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// OwnHeadersPrefix is the prefix of the name of a service's own dialect: headers named by the service hold the
// metadata, or members of the dead letter's value, which is then JSON. The name is "headers:FIELD=PLACE,…", with the
// fields of OwnHeaderFields. A place is a header, or a path such as $.error.message.
const OwnHeadersPrefix = "headers:"

// The fields that hold the record's value: as JSON or text, or in base64.
const (
	ownValue  = "value"
	ownBase64 = "value_base64"
)

// placeInValue is the beginning of the path to a member of the dead letter's value.
const placeInValue = "$."

// OwnHeaderFields returns the fields that a service's own dialect can have. Numbers are in decimal or 4 or 8 bytes,
// big-endian. The time is RFC 3339 or milliseconds since 1970. The rest is UTF-8. The last two hold the record's value,
// in the value of the dead letter: as JSON or text, or in base64.
func OwnHeaderFields() []string {
	return []string{"topic", "partition", "offset", "attempts", "reason", "class", "time", ownValue, ownBase64}
}

// OwnHeadersName returns the name of the dialect that keeps each field in the place of that name. The error names an
// unknown field, a place that is used twice, cannot be represented in the name or cannot hold the field, or a missing
// topic. Without the topic and the value, no field of a dead letter could be checked.
func OwnHeadersName(places map[string]string) (string, error) {
	var parts []string
	seen := map[string]string{}
	for _, field := range OwnHeaderFields() {
		place, named := places[field]
		isPath := strings.HasPrefix(place, placeInValue)
		switch {
		case !named:
			continue
		case place == "" || strings.ContainsAny(place, ",="):
			return "", fmt.Errorf(
				"%s: %q is not a header name that can be used here: it is empty, or has a comma or an equals sign", field, place)
		case (field == ownValue || field == ownBase64) && !isPath:
			return "", fmt.Errorf("%s: %q is not a path into the value of the dead letter, such as $.original", field, place)
		case isPath && slices.Contains(strings.Split(place, "."), ""):
			return "", fmt.Errorf("%s: %q is not a path of names with a dot between them, such as $.error.message", field, place)
		case seen[place] != "":
			return "", fmt.Errorf("%s and %s are both in %q: each needs a place of its own", seen[place], field, place)
		}
		seen[place] = field
		parts = append(parts, field+"="+place)
	}
	for field := range places {
		if !slices.Contains(OwnHeaderFields(), field) {
			return "", fmt.Errorf("%q is not a field of a dead letter: known are %s", field,
				strings.Join(OwnHeaderFields(), ", "))
		}
	}
	switch inJSON, inBase64 := places[ownValue], places[ownBase64]; {
	case inJSON != "" && inBase64 != "":
		return "", fmt.Errorf("%s and %s exclude each other: the record's value is in one place", ownValue, ownBase64)
	case inJSON+inBase64+places["topic"] == "":
		return "", errors.New("name where the source topic is (topic), or the record's value (value), or write envelope: " +
			"none")
	}
	return OwnHeadersPrefix + strings.Join(parts, ","), nil
}

// own is a service's own dialect. The fields whose header is a path are members of the dead letter's value.
type own struct {
	headers
	// value is the path to the record's value, "" if the dead letter has it as its own. base64: it is in base64.
	value  string
	base64 bool
}

// parseOwn parses a name from OwnHeadersName.
func parseOwn(name string) (Dialect, error) {
	places := map[string]string{}
	for part := range strings.SplitSeq(strings.TrimPrefix(name, OwnHeadersPrefix), ",") {
		field, place, _ := strings.Cut(part, "=")
		places[field] = place
	}
	if _, err := OwnHeadersName(places); err != nil {
		return nil, fmt.Errorf("reading the envelope %q: %w", name, err)
	}
	one := own{value: places[ownValue] + places[ownBase64], base64: places[ownBase64] != ""}
	for i, field := range []headerField{
		{part: partTopic, form: formName}, {part: partPartition, form: formLenient}, {part: partOffset, form: formLenient},
		{part: partAttempts, form: formLenient}, {part: partReason, form: formText}, {part: partClass, form: formText},
		{part: partTime, form: formLenient},
	} {
		if place, written := places[OwnHeaderFields()[i]]; written {
			field.header = place
			one.fields = append(one.fields, field)
		}
	}
	return one, nil
}

// Traits implements Dialect.
func (o own) Traits() Traits {
	traits := o.headers.Traits()
	traits.NoTopic = !slices.ContainsFunc(o.fields, func(f headerField) bool { return f.part == partTopic })
	if o.value != "" {
		traits.Fields, traits.JSON = append(traits.Fields, o.value), true
	}
	return traits
}

// Open implements Opener.
func (o own) Open(letter *kgo.Record) (Failure, []string) {
	unfolded := *letter
	unfolded.Headers = slices.Clip(letter.Headers)
	for i := range o.fields {
		if content := member(letter.Value, o.fields[i].header); content != nil {
			unfolded.Headers = append(unfolded.Headers, kgo.RecordHeader{Key: o.fields[i].header, Value: textOf(content)})
		}
	}
	failure, missing := o.headers.Open(&unfolded)
	if _, found := o.held(letter); !found {
		missing = append(missing, o.value)
	}
	return failure, missing
}

// Prepare implements Opener. If the value cannot be extracted, the record has that of the dead letter.
func (o own) Prepare(letter *kgo.Record) *kgo.Record {
	failure, _ := o.Open(letter)
	value, found := o.held(letter)
	if !found {
		value = letter.Value
	}
	return &kgo.Record{Key: letter.Key, Value: value, Headers: ownHeaders(letter.Headers, o), Topic: failure.Topic,
		Partition: failure.Partition}
}

// Seal implements Sealer.
func (o own) Seal(record *kgo.Record, failure Failure) *kgo.Record {
	letter := o.headers.Seal(record, failure)
	content := map[string]any{}
	letter.Headers = slices.DeleteFunc(letter.Headers, func(header kgo.RecordHeader) bool {
		place := strings.HasPrefix(header.Key, placeInValue) && o.IsFailureHeader(header.Key)
		if place {
			put(content, header.Key, string(header.Value))
		}
		return place
	})
	switch {
	case o.base64:
		put(content, o.value, record.Value)
	case o.value != "" && (record.Value == nil || json.Valid(record.Value) && utf8.Valid(record.Value)):
		put(content, o.value, json.RawMessage(record.Value))
	case o.value != "":
		put(content, o.value, string(record.Value))
	}
	if len(content) > 0 {
		letter.Value, _ = json.Marshal(content) // texts, and JSON that was checked
	}
	return letter
}

// held returns the record's value. It is not found if the dead letter should have it at a place where it is not.
func (o own) held(letter *kgo.Record) (value []byte, found bool) {
	if o.value == "" {
		return letter.Value, true
	}
	content := member(letter.Value, o.value)
	switch {
	case content == nil:
		return nil, false
	case string(content) == "null":
		return nil, true
	case o.base64:
		value, err := base64.StdEncoding.DecodeString(string(textOf(content)))
		return value, err == nil
	}
	return textOf(content), true
}

// member returns the member of a value to which a path leads, as it is written there; nil if there is none.
func member(value []byte, path string) json.RawMessage {
	rest, isPath := strings.CutPrefix(path, placeInValue)
	if !isPath {
		return nil
	}
	content := json.RawMessage(value)
	for name := range strings.SplitSeq(rest, ".") {
		var members map[string]json.RawMessage
		if json.Unmarshal(content, &members) != nil || members[name] == nil {
			return nil
		}
		content = members[name]
	}
	return content
}

// textOf returns the text of a string, and anything else as it is written.
func textOf(content json.RawMessage) []byte {
	var text string
	if content[0] == '"' && json.Unmarshal(content, &text) == nil {
		return []byte(text)
	}
	return content
}

// put puts a member where a path leads.
func put(members map[string]any, path string, content any) {
	names := strings.Split(strings.TrimPrefix(path, placeInValue), ".")
	for _, name := range names[:len(names)-1] {
		inner, is := members[name].(map[string]any)
		if !is {
			inner = map[string]any{}
			members[name] = inner
		}
		members = inner
	}
	members[names[len(names)-1]] = content
}
