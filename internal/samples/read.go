package samples

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dlqbench/dlqbench/history"
)

// The bounds of a file. A line is smaller than the largest record that brokers accept by default, with room for the
// headers of a dead letter.
const (
	MaxLine     = 900 << 10
	maxFile     = 64 << 20
	maxLines    = 100_000
	maxKey      = 1 << 10
	maxHeaders  = 64
	maxHeader   = 4 << 10
	maxKeys     = 64 << 10 // bytes of all different keys, which the history's header lists
	maxProblems = 20
	maxSource   = 400 // characters of a line in a problem
)

// The shapes of lines.
const (
	// LinesValue: a line is the value itself. LinesEnvelope: it is an object with the members value, key and headers.
	LinesValue    = "value"
	LinesEnvelope = "envelope"
)

// Options say how a file is read.
type Options struct {
	// Lines is the shape of the lines.
	Lines string
	// Plain is what the values are, if they are not JSON.
	Plain Plain
	// ID finds the record's identity in the value: a Place in JSON, a Pattern in other values.
	ID Finder
	// As is how ids are written. "" stands for UUIDs if all samples have UUIDs there, for numbers if all have whole
	// numbers or digits there, else for text.
	As history.IDForm
	// Format is how the records' values are written, and Key how their keys are; nil stands for the JSON of the file,
	// and for text.
	Format, Key Format
}

// Format writes keys or values in another format than that of the file.
type Format interface {
	// Encode returns what the JSON of a sample stands for, without its frame; the record's id, which is in it, may be
	// written once more. The error says how it does not fit.
	Encode(value, id []byte) ([]byte, error)
	// IsJSON reports whether that is JSON.
	IsJSON() bool
	// NamesSchema reports whether records name their schema.
	NamesSchema() bool
}

// Problem is what is wrong with a line. Line counts from 1, and is 0 if the file as a whole is meant. Column counts
// characters from 1. Source is the line, or the part of it that ends near the column, if it is very long.
type Problem struct {
	Line, Column int
	Source       string
	Message      string
}

// Read reads a file with a record in each line. It returns the problems that it found, or a set without any.
func Read(from io.Reader, options Options) (*Set, []Problem) {
	r := &reader{options: options, set: &Set{plain: options.Plain != ""}, keys: map[string]int32{}, uuids: true,
		random: true, digits: true}
	whole := sha256.New()
	r.lines(io.TeeReader(io.LimitReader(from, maxFile+1), whole))
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	if len(r.set.samples) == 0 {
		return nil, []Problem{{Message: "the file has no records: write one in each line, as JSON"}}
	}
	r.set.Form = options.As
	if options.As == "" {
		r.set.Form = r.form()
	}
	fmt.Fprint(whole, options.Lines, options.ID, r.set.Form, options.Plain)
	r.set.format = options.Format
	r.encodeKeys(whole)
	if options.Format != nil {
		r.encode(whole)
	}
	whole.Sum(r.set.digest[:0])
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	return r.set, nil
}

// encode puts the value of every sample into the format of the records, and the result into the digest.
func (r *reader) encode(digest io.Writer) {
	for i := range r.set.samples {
		one := &r.set.samples[i]
		text := one.pieces
		encoded, err := r.set.encode(r.options.Format, text)
		if err != nil {
			if r.problem(r.numbers[i], 1, string(text.join(nil)), err.Error()); len(r.problems) == maxProblems {
				return
			}
			continue
		}
		one.pieces, one.text = encoded, text
		encoded.digest(digest)
	}
}

// digest writes what tells the pieces from others.
func (p pieces) digest(digest io.Writer) {
	fmt.Fprintf(digest, "%q", p.join(nil))
	if slices.ContainsFunc(p.as, func(as history.IDWriting) bool { return as != history.IDAppended }) {
		fmt.Fprintf(digest, "%d", p.as)
	}
}

// encodeKeys puts the keys into their format, and the result into the digest.
func (r *reader) encodeKeys(digest io.Writer) {
	for _, key := range r.set.keys {
		r.set.written = append(r.set.written, []byte(key))
	}
	for i := 0; i < len(r.set.samples) && r.options.Key != nil && len(r.problems) < maxProblems; i++ {
		one := &r.set.samples[i]
		if one.Key.Kind == KeyNull {
			continue
		}
		if one.Key.Kind == KeyUnsaid {
			r.problem(r.numbers[i], 1, string(one.join(nil)), "the record has no key, but keys have a format (input.key): add "+
				`lines: envelope, and a member "key" to each line; null stands for no key`)
			continue
		}
		encoded, err := r.set.encode(r.options.Key, one.Key.around)
		if err != nil {
			r.problem(r.numbers[i], 1, string(one.Key.around.join(nil)), "the key: "+err.Error())
			continue
		}
		if one.Key.around = encoded; one.Key.Kind == KeyOwn {
			r.set.written[one.Key.Index] = encoded.join(nil)
		}
		encoded.digest(digest)
	}
}

type reader struct {
	options  Options
	set      *Set
	keys     map[string]int32
	keyBytes int
	numbers  []int // of the samples' lines
	// uuids, random and digits: all ids so far are UUIDs, those of version 4, or whole numbers and digits.
	uuids, random, digits bool
	// withNumber and withText are the first lines with a number and with a string that is not all digits; 0: none.
	withNumber, withText int
	problems             []Problem
	// over: the file is of another kind, so that reading on would tell nothing new.
	over bool
}

// lines reads line by line, and stops where reading on would tell nothing new.
func (r *reader) lines(from io.Reader) {
	buffered, size := bufio.NewReaderSize(from, MaxLine+2), 0
	for number := 1; len(r.problems) < maxProblems && !r.over; number++ {
		line, err := buffered.ReadSlice('\n')
		size += len(line)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			r.problem(number, 1, string(line[:80]), fmt.Sprintf("this line has more than %d KiB, which a record can't have",
				MaxLine>>10))
			return
		case size > maxFile:
			r.problem(0, 0, "", fmt.Sprintf("the file has more than %d MiB: a few hundred samples are enough, as they take "+
				"turns", maxFile>>20))
			return
		case err != nil && !errors.Is(err, io.EOF):
			r.problem(0, 0, "", fmt.Sprintf("reading it: %v", err))
			return
		}
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		line = bytes.TrimRight(line, "\r\n")
		if r.options.Plain != PlainText || r.options.Lines == LinesEnvelope {
			line = bytes.TrimSpace(line)
		}
		if len(line) > 0 {
			if len(r.set.samples) == maxLines {
				r.problem(number, 1, "", fmt.Sprintf("the file has more than %d records: a few hundred are enough, as they take "+
					"turns", maxLines))
				return
			}
			r.line(number, bytes.Clone(line))
		}
		if err != nil {
			return
		}
	}
}

func (r *reader) problem(line, column int, source, message string) {
	if runes := []rune(source); len(runes) > maxSource {
		from := max(0, min(column-maxSource/2, len(runes)-maxSource))
		source, column = string(runes[from:from+maxSource]), column-from
	}
	r.problems = append(r.problems, Problem{Line: line, Column: column, Source: source, Message: message})
}

// line reads a record.
func (r *reader) line(number int, text []byte) {
	plain := r.options.Plain != ""
	if column, reason := invalid(text); reason != "" && (!plain || r.options.Lines == LinesEnvelope) {
		r.over = len(r.set.samples) == 0
		r.problem(number, column, string(text), reason)
		return
	}
	parts, err := envelope{value: text}, error(nil)
	switch {
	case plain:
		parts, err = r.options.Plain.open(text, r.options.Lines)
	case r.options.Lines == LinesEnvelope:
		parts, err = openEnvelope(text)
	}
	if err != nil {
		r.problem(number, 1, string(text), err.Error())
		return
	}
	sample, at, err := r.sample(number, parts)
	if err != nil {
		reason := err.Error()
		if plain {
			at = 0 // the value is not the line
		}
		if r.options.Lines != LinesEnvelope && looksLikeEnvelope(text) {
			reason += "; if the record is in this line's member value, write lines: envelope"
		}
		r.problem(number, utf8.RuneCount(text[:parts.at+at])+1, string(text), reason)
		return
	}
	r.set.samples, r.numbers = append(r.set.samples, sample), append(r.numbers, number)
}

// invalid says what keeps a line from being one JSON value, and in which column.
func invalid(text []byte) (column int, reason string) {
	if !utf8.Valid(text) {
		valid := 0
		for rest := text; len(rest) > 0; {
			r, size := utf8.DecodeRune(rest)
			if r == utf8.RuneError && size == 1 {
				break
			}
			valid, rest = valid+1, rest[size:]
		}
		return valid + 1, "this is not UTF-8 text, as JSON is"
	}
	var value json.RawMessage
	err := json.Unmarshal(text, &value)
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return 0, ""
	}
	column = utf8.RuneCount(text[:max(min(int(syntax.Offset)-1, len(text)), 0)]) + 1
	return column, fmt.Sprintf("this line is not one JSON value: %v; write each record in a line of its own "+
		"(jq -c '.[]' makes such lines of an array)", err)
}

var (
	uuidText    = regexp.MustCompile(`^(?i:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$`)
	randomUUID  = regexp.MustCompile(`^.{14}4.{4}[89abAB]`) // of version 4
	wholeNumber = regexp.MustCompile(`^[0-9]+$`)
)

// form is the form of ids that fits all samples.
func (r *reader) form() history.IDForm {
	switch {
	case r.digits:
		return history.IDInt64
	case r.uuids && r.random:
		return history.IDUUID4
	case r.uuids:
		return history.IDUUID
	}
	return history.IDText
}

// fits reports why an id can't stand where a sample has this string or number, in line number.
func (r *reader) fits(number int, spot Spot) error {
	place, whole := r.options.ID, wholeNumber.MatchString(spot.Text)
	switch {
	case spot.Number && r.withNumber == 0:
		r.withNumber = number
	case !spot.Number && !whole && r.withText == 0:
		r.withText = number
	}
	r.uuids, r.digits = r.uuids && uuidText.MatchString(spot.Text), r.digits && whole
	r.random = r.random && randomUUID.MatchString(spot.Text)
	switch as := r.options.As; {
	case spot.Number && !whole:
		return fmt.Errorf("%s is %.40s, but a number is an id only if it consists of digits alone: name the place where the "+
			"record's id stands", place, spot.Text)
	case spot.Number && (as == history.IDText || as.UUID()):
		return fmt.Errorf("%s is a number, not a string, as ids with as: %s are: write as: int64", place, as)
	case !spot.Number && !whole && as == history.IDInt64:
		return fmt.Errorf("%s is %.60q, neither a number nor a string of digits, as ids with as: int64 are: write as: text, "+
			"or as: uuid for a UUID", place, spot.Text)
	case as == "" && spot.Number && r.withText > 0:
		return fmt.Errorf("%s is a number here, but text in line %d: all ids of a run are written in one way, so split "+
			"the file", place, r.withText)
	case as == "" && r.withText == number && r.withNumber > 0:
		return fmt.Errorf("%s is %.60q here, but a number in line %d: all ids of a run are written in one way, so split "+
			"the file", place, spot.Text, r.withNumber)
	}
	return nil
}

// sample finds the id in the value of line number, and wherever another text in it, the key or a header is the same. An
// error is about what begins at that byte of the value.
func (r *reader) sample(number int, parts envelope) (one Sample, at int, err error) {
	spot, err := r.options.ID.Find(parts.value)
	if err == nil {
		err = r.fits(number, spot)
	}
	if err != nil {
		return Sample{}, spot.From, err
	}
	text, quote := spot.Text, 1
	if spot.Number || r.set.plain {
		quote = 0
	}
	if one.pieces = textPieces(parts.value[:spot.From+quote], parts.value[spot.To-quote:]); !r.set.plain &&
		text != "" && !wholeNumber.MatchString(text) { // the same digits may be another number by chance
		one.pieces = around(parts.value, func(other span) bool { return other.isText && other.text == text })
	}
	for _, header := range parts.headers {
		header.IsID = text != "" && string(header.Value) == text
		one.Headers = append(one.Headers, header)
		if !slices.Contains(r.set.headers, header.Name) {
			r.set.headers = append(r.set.headers, header.Name)
		}
	}
	one.Key, err = r.keyOf(parts, text)
	return one, 0, err
}

// keyOf returns the key of a record with that id.
func (r *reader) keyOf(parts envelope, id string) (key Key, err error) {
	switch written := textOf(parts.key); {
	case !parts.hasKey:
		return Key{Kind: KeyUnsaid}, nil
	case parts.key == nil:
		return Key{Kind: KeyNull}, nil
	case r.options.Key != nil:
		key.around = textPieces(parts.key)
		if id != "" {
			key.around = around(parts.key, func(one span) bool { return one.text == id })
		}
		if key.Kind = KeyID; len(key.around.parts) == 1 {
			key.Kind = KeyOwn
			key.Index, err = r.key(string(parts.key))
		}
	case id != "" && string(written) == id:
		key.Kind, key.around = KeyID, textPieces(nil, nil)
	default:
		key.Kind = KeyOwn
		key.Index, err = r.key(string(written))
	}
	return key, err
}

// key returns the index of a key.
func (r *reader) key(text string) (int32, error) {
	if index, known := r.keys[text]; known {
		return index, nil
	}
	if r.keyBytes += len(text); r.keyBytes > maxKeys {
		return 0, fmt.Errorf("the different keys up to here have more than %d KiB: use fewer samples, or leave the keys out",
			maxKeys>>10)
	}
	index := int32(len(r.set.keys))
	r.keys[text], r.set.keys = index, append(r.set.keys, text)
	return index, nil
}

// looksLikeEnvelope reports whether a line would be one with lines: envelope.
func looksLikeEnvelope(text []byte) bool {
	_, err := openEnvelope(text)
	return err == nil
}

// envelope is the parts of a line.
type envelope struct {
	value   []byte
	at      int // where in the line the value begins
	hasKey  bool
	key     []byte // JSON, nil for null
	headers []Header
}

// openEnvelope reads a line with the members value, key and headers.
func openEnvelope(text []byte) (e envelope, err error) {
	members, err := membersOf(text)
	if err != nil {
		return e, fmt.Errorf("with lines: envelope each line is an object such as "+
			`{"key": "k", "headers": {"h": "v"}, "value": {…}}: %w`, err)
	}
	for _, member := range members {
		switch member.name {
		case "value":
			e.value, e.at = member.raw, member.at
		case "key":
			if e.hasKey = true; string(member.raw) != "null" {
				e.key = member.raw
			}
		case "headers":
			if e.headers, err = headersOf(member.raw); err != nil {
				return e, err
			}
		default:
			return e, fmt.Errorf("an envelope has no member %q: its members are value, key and headers", member.name)
		}
	}
	switch {
	case e.value == nil:
		return e, errors.New("the envelope has no member value: the record itself")
	case len(textOf(e.key)) > maxKey:
		return e, fmt.Errorf("the key has %d bytes, and can have %d at most", len(textOf(e.key)), maxKey)
	}
	return e, nil
}

// headersOf reads an object of header names and values.
func headersOf(raw []byte) ([]Header, error) {
	members, err := membersOf(raw)
	if err != nil {
		return nil, fmt.Errorf(`headers are an object of names and texts, such as {"type": "order"}: %w`, err)
	}
	var headers []Header
	for _, member := range members {
		header := Header{Name: member.name}
		switch {
		case member.raw[0] == '"':
			header.Value = textOf(member.raw)
		case string(member.raw) != "null":
			return nil, fmt.Errorf("the header %q is %s: write it as text, or as null", member.name, kindOf(member.raw))
		}
		if len(member.name)+len(header.Value) > maxHeader {
			return nil, fmt.Errorf("the header %.40q has more than %d KiB", member.name, maxHeader>>10)
		}
		headers = append(headers, header)
	}
	if len(headers) > maxHeaders {
		return nil, fmt.Errorf("the record has %d headers, and can have %d at most", len(headers), maxHeaders)
	}
	return headers, nil
}

// textOf returns the text of a JSON string, and any other value as it is written.
func textOf(raw []byte) []byte {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []byte(text)
	}
	return raw
}

type member struct {
	name string
	raw  []byte
	at   int // where in the object raw begins
}

// membersOf returns the members of a JSON object, in their order.
func membersOf(text []byte) ([]member, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	token, err := decoder.Token()
	if err != nil || token != json.Delim('{') {
		return nil, fmt.Errorf("this is %s", kindOf(text))
	}
	var all []member
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		one := member{name: name.(string)}
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			return nil, err
		}
		one.at = int(decoder.InputOffset()) - len(raw)
		if one.raw = raw; slices.ContainsFunc(all, func(other member) bool { return other.name == one.name }) {
			return nil, fmt.Errorf("the member %q is there twice", strings.ToValidUTF8(one.name, "?"))
		}
		all = append(all, one)
	}
	return all, nil
}
