// Package format writes samples in the format of a service's records: JSON as it is, JSON with a schema, Avro or
// Protobuf, with a schema from a file, framed as Confluent's serializers frame it. It knows neither runs nor samples.
package format

import (
	"encoding/binary"
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
)

// Framings. FramingConfluent puts a zero byte and the schema's id before the value, as the serializers of the schema
// registry do (docs.confluent.io, "Wire format"); FramingNone nothing.
const (
	FramingConfluent = "confluent"
	FramingNone      = "none"
)

// SchemaID is the id that the schema has in the run's registry, the first that a registry gives.
const SchemaID = 1

// maxSchema is the largest schema file in bytes.
const maxSchema = 4 << 20

// Options say how records are written.
type Options struct {
	Kind string
	// File is the path of the schema; JSON has none.
	File string
	// Message is the full name of the Protobuf message; "" is the first of the file.
	Message string
	Framing string
}

// Format writes records.
type Format struct {
	// Schema is what the registry gives out.
	Schema sr.Schema
	frame  []byte
	encode func(value []byte) ([]byte, error)
}

// Load reads a schema. The error says what is wrong with the file.
func Load(options Options) (*Format, error) {
	info, err := os.Stat(options.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no file %s: the path is relative to the folder of this file", options.File)
	case err == nil && !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file: name the one with the schema", options.File)
	case err == nil && info.Size() > maxSchema:
		return nil, fmt.Errorf("%s has more than %d MiB, which no schema needs", options.File, maxSchema>>20)
	}
	text, err := os.ReadFile(options.File)
	if err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	f := &Format{Schema: sr.Schema{Schema: string(text)}}
	var inner []byte // between the schema's id and the value
	switch options.Kind {
	case Avro:
		err = f.avro()
	case JSONSchema:
		err = f.jsonSchema(options.File)
	case Protobuf:
		inner, err = f.protobuf(options.File, options.Message)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the schema %s: %w", options.File, err)
	}
	if options.Framing == FramingConfluent {
		f.frame = append(binary.BigEndian.AppendUint32([]byte{0}, SchemaID), inner...)
	}
	return f, nil
}

// Head is the number of bytes before each value that name its schema.
func (f *Format) Head() int { return len(f.frame) }

// Encode returns the record that a JSON value stands for. The error says how the value does not fit the schema.
func (f *Format) Encode(value []byte) ([]byte, error) {
	encoded, err := f.encode(value)
	if err != nil {
		return nil, err
	}
	return append(append([]byte(nil), f.frame...), encoded...), nil
}
