// Package format writes samples in the format of a service's records: JSON as it is, JSON with a schema, Avro or
// Protobuf, with a schema from a file, framed as the serializers of schema registries do, or as CloudEvents. It knows
// neither runs nor samples.
package format

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/twmb/franz-go/pkg/sr"
)

// Kinds of formats.
const (
	JSON       = "json"
	JSONSchema = "json-schema"
	Avro       = "avro"
	Protobuf   = "protobuf"
	// Text and Bytes are as they are: nothing is written in another format.
	Text  = "text"
	Bytes = "bytes"
)

// maxSchema is the largest schema file in bytes.
const maxSchema = 4 << 20

// Options say how records are written.
type Options struct {
	Kind string
	// Part is the key or the value; "" is the value.
	Part string
	// File is the path of the schema; JSON has none. Text is the schema itself, in place of the file.
	File, Text string
	// Message is the full name of the Protobuf message; "" is the first of the file.
	Message string
	// Framing must fit (see Fits).
	Framing string
	// Event is for the framings of CloudEvents.
	Event Event
}

// Format writes the keys or the values of records.
type Format struct {
	// Schema is what the registry gives out; nil for JSON without one.
	Schema     *sr.Schema
	options    Options
	kind, part string
	name       string // of the framing
	framing    framing
	event      Event
	// place is where in its file the Protobuf message is, in Confluent's encoding, and message its simple name.
	place   []byte
	message string
	encode  func(value []byte) ([]byte, error)
}

// Load reads a schema, if the format has one. The error says what is wrong with the file.
func Load(options Options) (*Format, error) {
	f := &Format{options: options, kind: options.Kind, part: cmp.Or(options.Part, Value), name: options.Framing,
		framing: framingOf(options.Framing), event: options.Event}
	if options.Kind == JSON {
		f.encode = func(value []byte) ([]byte, error) { return value, nil }
		return f, nil
	}
	text := options.Text
	var err error
	if text == "" {
		if text, err = read(options.File); err != nil {
			return nil, err
		}
	}
	f.Schema = &sr.Schema{Schema: text}
	switch options.Kind {
	case Avro:
		err = f.avro()
	case JSONSchema:
		err = f.jsonSchema(options.File)
	case Protobuf:
		err = f.protobuf(options.File, options.Message)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the schema %s: %w", cmp.Or(options.File, "of the document"), err)
	}
	return f, nil
}

// read returns the text of a schema file.
func read(file string) (string, error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("there is no file %s: the path is relative to the folder of this file", file)
	case err == nil && !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a file: name the one with the schema", file)
	case err == nil && info.Size() > maxSchema:
		return "", fmt.Errorf("%s has more than %d MiB, which no schema needs", file, maxSchema>>20)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading the schema: %w", err)
	}
	return string(text), nil
}

// Part is the part of the record that has the format.
func (f *Format) Part() string { return f.part }

// IsJSON reports whether what is written is JSON.
func (f *Format) IsJSON() bool { return f.kind == JSON || f.kind == JSONSchema }

// Encode returns what the JSON of a sample stands for, without its frame. A framing may write the record's id into it
// once more. The error says how the value does not fit the schema.
func (f *Format) Encode(value, id []byte) ([]byte, error) {
	encoded, err := f.encode(value)
	if err != nil || f.framing.wrap == nil {
		return encoded, err
	}
	return f.framing.wrap(f, encoded, id), nil
}
