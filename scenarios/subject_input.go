package scenarios

// What a real service takes: records made from samples of its own, in a topic with a name of its own.

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/format"
	"github.com/dlqbench/dlqbench/internal/samples"
)

// Input is where the subject's records come from, and what they are made of.
type Input struct {
	// Topic is the input topic of a subject that can't be told another; default: {{.RunID}}.input.
	Topic string `json:"topic,omitempty" jsonschema:"minLength=1"`
	// Samples is a file with a record in each line, as JSON: absolute, or relative to subject.yaml. Its records take
	// turns, each with an id of its own. Default: records of dlqbench's own.
	Samples string `json:"samples,omitempty" jsonschema:"minLength=1"`
	// Lines says what a line is: value (default), the record's value; or envelope, an object with the members value, key
	// and headers.
	Lines string `json:"lines,omitempty" jsonschema:"enum=value,enum=envelope"`
	// Format is how the values are written: json (default), or json-schema, avro, protobuf, with a Schema.
	Format string `json:"format,omitempty" jsonschema:"enum=json,enum=json-schema,enum=avro,enum=protobuf"`
	// Schema is the file with the schema: absolute, or relative to subject.yaml. The subject finds it in the run's schema
	// registry ({{.SchemaRegistryURL}}).
	Schema string `json:"schema,omitempty" jsonschema:"minLength=1"`
	// Message is the full name of the Protobuf message; default: the first of the file.
	Message string `json:"message,omitempty"`
	// Framing says what precedes a value with a schema: confluent (default), a zero byte and the schema's id; or none.
	Framing string `json:"framing,omitempty" jsonschema:"enum=confluent,enum=none"`
	// ID is required with Samples.
	ID InputID `json:"id,omitempty"`
	// Header: false, if the records must not have the header dlqbench-id, by which records without a readable value are
	// followed.
	Header bool `json:"header,omitempty"`
}

// InputID is where a record carries its identity.
type InputID struct {
	// At is the path to a string or a whole number in the value, such as $.order.id.
	At string `json:"at" jsonschema:"required"`
	// As is how ids are written: uuid (version 8), int64 (a whole number of 16 digits, below 2^53), or text (24 capitals
	// and digits). Default: uuid, if all samples have UUIDs there; int64, if all have whole numbers or digits there; else
	// text.
	As string `json:"as,omitempty" jsonschema:"enum=text,enum=uuid,enum=int64"`
}

func defaultInput() Input {
	return Input{Lines: samples.LinesValue, Format: format.JSON, Framing: format.FramingConfluent, Header: true}
}

// UnmarshalJSON reads an input over its defaults.
func (i *Input) UnmarshalJSON(data []byte) error {
	type plain Input
	filled := plain(defaultInput())
	if err := json.Unmarshal(data, &filled); err != nil {
		return err
	}
	*i = Input(filled)
	return nil
}

// checkInput reads the samples. Folder is what their path is relative to.
func (c *checker) checkInput(s *SubjectFile, folder string) {
	if s.Input == nil || !c.allSound("/input") {
		return
	}
	if s.Input.Samples == "" {
		for _, name := range []string{"lines", "id", "format", "schema", "message", "framing"} {
			if c.has("/input/" + name) {
				c.at("/input/"+name, name+" is about samples: add samples, such as samples: orders.jsonl")
			}
		}
		return
	}
	if !c.has("/input/id") {
		c.at("/input/id", "id is missing in input: the place of a record's id, such as id: {at: $.order.id}")
		return
	}
	place, err := samples.ParsePlace(s.Input.ID.At)
	if err != nil {
		c.at("/input/id/at", err.Error())
		return
	}
	path := s.Input.Samples
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	options := samples.Options{Lines: s.Input.Lines, ID: place, As: history.IDForm(s.Input.ID.As)}
	if s.Format = c.readSchema(s.Input, folder); s.Format != nil {
		options.Format = s.Format
	}
	if s.Format == nil && s.Input.Format != format.JSON {
		return
	}
	if s.Samples = c.readSamples(path, options); s.Samples == nil {
		return
	}
	for _, name := range s.Samples.HeaderNames() {
		_, named := s.RecordHeaders[name]
		switch {
		case ownHeader.MatchString(name):
			c.at("/input/samples", fmt.Sprintf("the samples have the header %s, which every record has of its own here: "+
				"take it out of %s", name, path))
		case named:
			c.at("/input/samples",
				fmt.Sprintf("the samples have the header %s, and so has record_headers: keep one", name))
		}
	}
	dialect, err := deadletter.Named(string(s.Contract.DLQ.Envelope))
	if err == nil && dialect.Traits().JSON && s.Contract.DLQ.KeepsValue {
		c.at("/input", fmt.Sprintf("dead letters with the envelope %s hold values that were decoded and encoded again, "+
			"which can't be compared with samples yet: leave input out, or withdraw the promise (dlq: {keeps_value: false})",
			s.Contract.DLQ.Envelope))
	}
}

// readSchema reads the schema of the records; nil if they have none, or something is wrong with it.
func (c *checker) readSchema(input *Input, folder string) *format.Format {
	if input.Format == format.JSON {
		for _, name := range []string{"schema", "message", "framing"} {
			if c.has("/input/" + name) {
				c.at("/input/"+name, name+" goes with a format that has a schema: add format: avro, protobuf or json-schema")
			}
		}
		return nil
	}
	switch {
	case input.Schema == "":
		c.at("/input/format", fmt.Sprintf("%s needs the file with the schema, such as schema: orders.avsc", input.Format))
		return nil
	case input.Message != "" && input.Format != format.Protobuf:
		c.at("/input/message", "message goes with format: protobuf")
		return nil
	}
	path := input.Schema
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	read, err := format.Load(format.Options{
		Kind: input.Format, File: path, Message: input.Message, Framing: input.Framing,
	})
	if err != nil {
		c.at("/input/schema", err.Error())
		return nil
	}
	return read
}

// readSamples reads a file; nil if something is wrong with it.
func (c *checker) readSamples(path string, options samples.Options) *samples.Set {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		c.at("/input/samples", fmt.Sprintf("there is no file %s: the path is relative to the folder of this file", path))
		return nil
	case err == nil && !info.Mode().IsRegular():
		c.at("/input/samples", fmt.Sprintf("%s is not a file: name one with a record in each line", path))
		return nil
	}
	data, err := os.Open(path)
	if err != nil {
		c.at("/input/samples", fmt.Sprintf("reading the samples: %v", err))
		return nil
	}
	defer data.Close()
	set, problems := samples.Read(data, options)
	for _, one := range problems {
		c.problems = append(c.problems, Problem{File: path, Line: one.Line, Column: one.Column, Source: one.Source,
			Message: one.Message})
	}
	return set
}

// unfitInput says why records made from the subject's samples can't be what the scenario is about; "" if they can.
func (s *Scenario) unfitInput(subject *SubjectFile) string {
	if subject.Input == nil {
		return ""
	}
	load := s.Workload
	_, missing := load.Malformed.Ways(subject.Samples.Shape())
	switch {
	case !subject.Input.Header && (load.Tombstones > 0 || load.Garbage > 0 || load.Malformed != nil):
		return s.Name + " sends records without a readable value, which can only be followed by the header dlqbench-id: " +
			"leave input.header: false out, or run another scenario"
	case missing != "":
		return fmt.Sprintf("%s has records with the fault %s, which values of the subject's format can't have: run another "+
			"scenario", s.Name, missing)
	case subject.Samples != nil && subject.Samples.HasKeys() && load.Keys.Hot > 0:
		return s.Name + " is about one key with most of the records, but the subject's samples have keys of their own: " +
			"leave their keys out, or run another scenario"
	case subject.Samples != nil && load.Large != nil && !subject.Samples.Enlarge(int(load.Large.Size)):
		return s.Name + " has large records, but the schema of the subject's samples has no text that can grow: run " +
			"another scenario"
	}
	for _, name := range slices.Sorted(maps.Keys(load.RecordHeaders)) {
		if subject.Samples != nil && slices.Contains(subject.Samples.HeaderNames(), name) {
			return fmt.Sprintf("%s gives its records the header %s, which the subject's samples have, too: take it out of the "+
				"samples, or run another scenario", s.Name, name)
		}
	}
	return ""
}
