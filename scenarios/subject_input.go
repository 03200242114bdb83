package scenarios

// What a real service takes: records made from samples of its own, in a topic with a name of its own.

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/format"
	"github.com/dlqbench/dlqbench/internal/samples"
)

// Input is where the subject's records come from, and what they are made of.
type Input struct {
	// Topic is the input topic of a subject that can't be told another; default: {{.RunID}}.input.
	Topic string `json:"topic,omitempty" jsonschema:"minLength=1"`
	// Topics are several input topics, in the place of Topic. Records go to them in turn. Names of dead-letter and retry
	// topics with {{.InputTopic}} in them stand for one topic of each.
	Topics []TopicInput `json:"topics,omitempty" jsonschema:"minItems=1,maxItems=16"`
	MadeFrom
	// Registry is a schema registry of your own; default: one that exists for the run.
	Registry *OwnRegistry `json:"registry,omitempty"`
	// Header: false, if the records must not have the header dlqbench-id, by which records without a readable value are
	// followed.
	Header bool `json:"header,omitempty"`
}

// TopicInput is one of several input topics.
type TopicInput struct {
	// Topic is its name.
	Topic string `json:"topic"`
	// MadeFrom is what its records are made from, if it is not what Input says for all.
	MadeFrom
}

// MadeFrom is what records are made from.
type MadeFrom struct {
	// Samples is a file with a record in each line, as JSON: absolute, or relative to subject.yaml. Its records take
	// turns, each with an id of its own. Default: records of dlqbench's own.
	Samples string `json:"samples,omitempty" jsonschema:"minLength=1"`
	// Template is a file with one record, in the place of Samples: a template of Go's text/template with the functions of
	// gofakeit, such as {{FirstName}} or {{Price 1 500}}. 1,000 samples are made from it, the same each time.
	Template string `json:"template,omitempty" jsonschema:"minLength=1"`
	// AsyncAPI is a document with examples of the records, in the place of Samples.
	AsyncAPI *AsyncAPI `json:"asyncapi,omitempty"`
	// Lines says what a line is: value (default), the record's value; or envelope, an object with the members value, key
	// and headers.
	Lines string `json:"lines,omitempty" jsonschema:"enum=value,enum=envelope"`
	FormatSpec
	// CloudEvents are the attributes of the events that the framings cloudevents-binary and cloudevents-structured make
	// of the values.
	CloudEvents CloudEvents `json:"cloudevents,omitempty"`
	// Key is how the keys of the samples are written; default: text as it is, other JSON as it is written.
	Key *FormatSpec `json:"key,omitempty"`
	// ID is required with Samples, Template and AsyncAPI.
	ID InputID `json:"id,omitempty"`
}

// FormatSpec is how values or keys are written.
type FormatSpec struct {
	// Format: json (default), or json-schema, avro, protobuf, with a Schema; or for values that are not JSON text, or
	// bytes, which samples have in base64.
	Format string `json:"format,omitempty" jsonschema:"enum=json,enum=json-schema,enum=avro,enum=protobuf,enum=text,enum=bytes"`
	// Schema is the file with the schema: absolute, or relative to subject.yaml. The subject finds it in the run's schema
	// registry ({{.SchemaRegistryURL}}).
	Schema string `json:"schema,omitempty" jsonschema:"minLength=1"`
	// Message is the full name of the Protobuf message; default: the first of the file.
	Message string `json:"message,omitempty"`
	// Framing says how a record names its schema: confluent (default with a schema), a zero byte and the schema's id
	// before the value; confluent-headers, its GUID in a header; apicurio, an id of eight bytes; apicurio-headers; none.
	// cloudevents-binary and cloudevents-structured make events of the values.
	Framing string `json:"framing,omitempty" jsonschema:"enum=confluent,enum=confluent-headers,enum=apicurio,enum=apicurio-headers,enum=cloudevents-binary,enum=cloudevents-structured,enum=none"`
}

// CloudEvents are the attributes of events (CloudEvents 1.0) that are the same for all of them. The id of an event is
// that of its record.
type CloudEvents struct {
	// Type is required, such as com.example.order.created.
	Type string `json:"type" jsonschema:"required,minLength=1"`
	// Source: default /dlqbench.
	Source string `json:"source,omitempty" jsonschema:"minLength=1"`
}

// InputID is where a record carries its identity.
type InputID struct {
	// At is the path to a string or a whole number in the value, such as $.order.id. Other strings with the same text get
	// the id, too, unless it consists of digits alone. At is required, unless Format is text or bytes.
	At string `json:"at,omitempty" jsonschema:"minLength=1"`
	// Match is a regular expression (RE2) that finds the id in values of the format text or bytes: its group, or else all
	// that it matches.
	Match string `json:"match,omitempty" jsonschema:"minLength=1,maxLength=1024"`
	// As is how ids are written: uuid (version 8), uuid4 (the same, as version 4), int64 (a whole number of 16 digits,
	// below 2^53), or text (24 capitals and digits). Default: uuid4, if all samples have UUIDs of version 4 there; uuid,
	// if all have UUIDs; int64, if all have whole numbers or digits there; else text.
	As string `json:"as,omitempty" jsonschema:"enum=text,enum=uuid,enum=uuid4,enum=int64"`
}

// where says where ids stand.
func (i InputID) where() string {
	if i.Match != "" {
		return "where " + i.Match + " matches"
	}
	return "at " + i.At
}

func defaultInput() Input {
	return Input{MadeFrom: MadeFrom{Lines: samples.LinesValue}, Header: true}
}

// UnmarshalJSON reads an input over its defaults.
func (i *Input) UnmarshalJSON(data []byte) error {
	type plain Input
	*i = defaultInput()
	return json.Unmarshal(data, (*plain)(i))
}

// own returns the names of the input topics as the file has them, none if it has none.
func (i *Input) own() []string {
	switch {
	case i == nil:
		return nil
	case i.Topic != "":
		return []string{i.Topic}
	}
	var names []string
	for _, one := range i.Topics {
		names = append(names, one.Topic)
	}
	return names
}

// UnmarshalJSON reads a name, or a mapping over its defaults.
func (t *TopicInput) UnmarshalJSON(data []byte) error {
	*t = TopicInput{MadeFrom: MadeFrom{Lines: samples.LinesValue}}
	if json.Unmarshal(data, &t.Topic) == nil {
		return nil
	}
	type plain TopicInput
	return json.Unmarshal(data, (*plain)(t))
}

// SchemaText is the JSON Schema of both written forms.
func (TopicInput) SchemaText() string {
	return `{
		"description": "An input topic: its name, or a mapping with what its records are made from.",
		"oneOf": [
			{"type": "string", "minLength": 1},
			{"type": "object", "required": ["topic"], "additionalProperties": false, "properties": {
				"topic": {"type": "string", "minLength": 1, "description": "Name of the topic."},
				"samples": {"type": "string", "minLength": 1, "description": "As input.samples."},
				"template": {"type": "string", "minLength": 1, "description": "As input.template."},
				"asyncapi": {"$ref": "#/$defs/AsyncAPI", "description": "As input.asyncapi."},
				"lines": {"type": "string", "enum": ["value", "envelope"], "default": "value", "description": "As input.lines."},
				"format": {"type": "string", "enum": ["json", "json-schema", "avro", "protobuf", "text", "bytes"],
					"description": "As input.format."},
				"schema": {"type": "string", "minLength": 1, "description": "As input.schema."},
				"message": {"type": "string", "description": "As input.message."},
				"framing": {"type": "string", "enum": ["confluent", "confluent-headers", "apicurio", "apicurio-headers",
					"cloudevents-binary", "cloudevents-structured", "none"], "description": "As input.framing."},
				"cloudevents": {"$ref": "#/$defs/CloudEvents", "description": "As input.cloudevents."},
				"key": {"$ref": "#/$defs/FormatSpec", "description": "As input.key."},
				"id": {"$ref": "#/$defs/InputID", "description": "As input.id."}
			}}
		]
	}`
}

// Files are the paths of the files that the input names, by their keys.
func (i *Input) Files() map[string]string {
	if i == nil {
		return nil
	}
	files := map[string]string{}
	i.MadeFrom.files("input", files)
	for n := range i.Topics {
		i.Topics[n].files(fmt.Sprintf("input.topics[%d]", n), files)
	}
	if i.Registry != nil {
		files["input.registry.credentials_file"] = i.Registry.CredentialsFile
		files["input.registry.ca_file"] = i.Registry.CAFile
	}
	maps.DeleteFunc(files, func(_, file string) bool { return file == "" })
	return files
}

func (m *MadeFrom) files(at string, files map[string]string) {
	files[at+".samples"], files[at+".template"], files[at+".schema"] = m.Samples, m.Template, m.Schema
	if m.AsyncAPI != nil {
		files[at+".asyncapi.file"] = m.AsyncAPI.File
	}
	if m.Key != nil {
		files[at+".key.schema"] = m.Key.Schema
	}
}

// Paths are the paths of all files that the subject names, as they are written.
func (s *SubjectFile) Paths() []string {
	paths := slices.Collect(maps.Values(s.Input.Files()))
	for _, downstream := range s.Downstreams {
		if downstream.GRPC != nil && downstream.GRPC.Schema != "" {
			paths = append(paths, downstream.GRPC.Schema)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(paths)))
}

// Made is what the records of an input topic are made from, as it was read.
type Made struct {
	// From is what the file says, at a place in it.
	From    *MadeFrom
	at      string
	Samples *samples.Set
	// Format and KeyFormat are those of values and keys; nil if they are as in the samples.
	Format, KeyFormat *format.Format
}

// checkInput reads the samples. Folder is what their paths are relative to.
func (c *checker) checkInput(s *SubjectFile, folder string) {
	if s.Input == nil || !c.allSound("/input") {
		return
	}
	c.refuseIf(s.Input.Topic != "" && len(s.Input.Topics) > 0, "/input/topics",
		"topics are several, in the place of topic: write one of the two")
	known := len(c.problems)
	if s.Made = c.readInputs(s, folder); s.Made == nil {
		return
	}
	if c.checkRegistry(s, folder); len(c.problems) > known {
		return
	}
	sets := make([]*samples.Set, len(s.Made))
	versions(s.Made)
	for i, one := range s.Made {
		if sets[i] = one.Samples; sets[i].Form != sets[0].Form {
			c.at(one.at, "the ids here are written as %s, and those of %s as %s, but the ids of a run have one form: name a "+
				"field with such ids, or write id: {as: …} in both", sets[i].Form, s.Input.own()[0], sets[0].Form)
			return
		}
	}
	s.Samples = samples.InTurn(sets...)
	for i := range s.Made {
		s.Made[i].Samples = s.Samples.Part(i)
		c.checkSampleHeaders(s, &s.Made[i])
	}
}

// versions gives all ids the usual version if all are UUIDs and only the samples of some topics have version 4.
func versions(made []Made) {
	usual := func(m Made) bool { return m.Samples.Form == history.IDUUID }
	if !slices.ContainsFunc(made, usual) {
		return
	}
	for _, one := range made {
		if one.Samples.Form == history.IDUUID4 && one.From.ID.As == "" {
			one.Samples.Form = history.IDUUID
		}
	}
}

// readInputs reads what the records are made from: one for all topics, or one for each. It is nil if there is nothing
// to read, or something is wrong.
func (c *checker) readInputs(s *SubjectFile, folder string) []Made {
	known := len(c.problems)
	common := Made{From: &s.Input.MadeFrom, at: inputPath}
	if c.readMade(s, &common, folder); len(c.problems) > known {
		return nil
	}
	all, apart := []Made{}, false
	for i := range s.Input.Topics {
		one := Made{From: &s.Input.Topics[i].MadeFrom, at: fmt.Sprintf("/input/topics/%d", i)}
		c.readMade(s, &one, folder)
		switch {
		case one.Samples != nil:
			apart = true
		case common.Samples != nil:
			one = common
		}
		all = append(all, one)
	}
	if !apart {
		all = []Made{common}
	}
	for _, one := range all {
		c.refuseIf(one.Samples == nil && apart && len(c.problems) == known, one.at, "nothing says what the records of this "+
			"topic are made from: write samples for it, such as {topic: orders, samples: orders.jsonl, id: {at: $.id}}, or "+
			"under input for all that have none")
	}
	if len(c.problems) > known || all[0].Samples == nil {
		return nil
	}
	return all
}

// readMade reads what the records are made from, if the file says it at that place.
func (c *checker) readMade(s *SubjectFile, made *Made, folder string) {
	from, at := made.From, made.at
	if from.Source() == "" {
		names := []string{"lines", "id", "format", "schema", "message", "framing", "cloudevents", "key"}
		if at == inputPath {
			names = append(names, "registry")
		}
		for _, name := range names {
			c.refuseIf(c.has(at+"/"+name) && (name != "registry" || !s.Input.apart()), at+"/"+name,
				"%s is about samples: add samples, such as samples: orders.jsonl", name)
		}
		return
	}
	if !c.has(at + "/id") {
		c.at(at+"/id", "id is missing in input: the place of a record's id, such as id: {at: $.order.id}")
		return
	}
	place := c.readID(from, at)
	if place == nil {
		return
	}
	known := len(c.problems)
	described := c.readDocument(s, from, at, folder)
	options := samples.Options{Lines: from.Lines, Plain: from.plain(), ID: place, As: history.IDForm(from.ID.As)}
	if made.Format = c.readSchema(from, at, at, folder, described); made.Format != nil {
		options.Format = made.Format
	}
	if from.Key != nil {
		if made.KeyFormat = c.readSchema(from, at, at+"/key", folder, nil); made.KeyFormat != nil {
			options.Key = made.KeyFormat
		}
	}
	if len(c.problems) > known {
		return
	}
	path := within(folder, from.Source())
	switch {
	case described != nil:
		made.Samples = c.readExamples(described, options, at)
	case from.Template != "":
		made.Samples = c.readTemplate(path, options, at)
	default:
		made.Samples = c.readSamples(path, options, at)
	}
}

// inputPath is where the input stands in a subject file.
const inputPath = "/input"

// apart reports whether a topic has records of its own.
func (i *Input) apart() bool {
	return slices.ContainsFunc(i.Topics, func(one TopicInput) bool { return one.Source() != "" })
}

// plain is what the values are, if they are not JSON.
func (m *MadeFrom) plain() samples.Plain {
	if m.Format == format.Text || m.Format == format.Bytes {
		return samples.Plain(m.Format)
	}
	return ""
}

// readID reads where the id stands; nil if that is wrong.
func (c *checker) readID(input *MadeFrom, base string) samples.Finder {
	at, match := base+"/id/at", base+"/id/match"
	switch plain := input.plain(); {
	case plain != "" && input.ID.Match == "":
		c.at(base+"/id", `with format: %s, a regular expression finds the id: add match, such as match: "order=([^;]+)"`,
			plain)
	case plain != "" && input.ID.At != "":
		c.at(at, "at is a place in JSON, and values are %s: leave it out", plain)
	case plain == "" && input.ID.Match != "":
		c.at(match, "match goes with format: text and format: bytes: write the place of the id, such as at: $.order.id")
	case plain == "" && input.ID.At == "":
		c.at(base+"/id", "id needs the place of a record's id, such as at: $.order.id")
	case plain != "":
		pattern, err := samples.ParsePattern(input.ID.Match)
		if err == nil {
			return pattern
		}
		c.at(match, "%s", err)
	default:
		place, err := samples.ParsePlace(input.ID.At)
		if err == nil {
			return place
		}
		c.at(at, "%s", err)
	}
	return nil
}

// checkSampleHeaders holds the headers of samples against the others that records get.
func (c *checker) checkSampleHeaders(s *SubjectFile, made *Made) {
	names := made.Samples.HeaderNames()
	for _, name := range made.frameHeaders() {
		c.refuseIf(slices.Contains(names, name) || s.RecordHeaders[name] != "", made.at,
			"the framing gives records the header %s, which they have already: take it out of the samples and of record_headers",
			name)
	}
	for _, name := range names {
		_, named := s.RecordHeaders[name]
		switch {
		case ownHeader.MatchString(name):
			c.at(made.at+"/samples", "the samples have the header %s, which every record has of its own here: take it out of %s",
				name, made.From.Source())
		case named:
			c.at(made.at+"/samples", "the samples have the header %s, and so has record_headers: keep one", name)
		}
	}
}

// Source is the file with the samples, or with what they are made from.
func (m *MadeFrom) Source() string {
	if m.AsyncAPI != nil {
		return m.AsyncAPI.File
	}
	return cmp.Or(m.Samples, m.Template)
}

// readDocument reads an AsyncAPI document, and takes over the topic of the channel and the format of the message; nil
// if there is none, or something is wrong.
func (c *checker) readDocument(s *SubjectFile, from *MadeFrom, at, folder string) *asyncMessage {
	if from.AsyncAPI == nil {
		return nil
	}
	for _, name := range []string{"samples", "template", "lines", "schema"} {
		if c.has(at + "/" + name) {
			c.at(at+"/"+name, "%s and asyncapi exclude each other: the document has examples and their schema", name)
			return nil
		}
	}
	described, problems := readAsyncAPI(*from.AsyncAPI, within(folder, from.AsyncAPI.File))
	c.problems = append(c.problems, problems...)
	if described == nil {
		return nil
	}
	if len(s.Input.Topics) == 0 {
		s.Input.Topic = cmp.Or(s.Input.Topic, described.topic)
	}
	if c.has(at+"/format") && from.Format != described.kind &&
		(described.kind != format.JSON || from.Format != format.JSONSchema) {
		c.at(at+"/format", "the document says %s: leave format out", described.kind)
		return nil
	}
	from.Format = cmp.Or(from.Format, described.kind)
	return described
}

// readExamples reads the examples of a document; nil if something is wrong with them. Values of JSON must fit the
// schema, if there is one.
func (c *checker) readExamples(described *asyncMessage, options samples.Options,
	at string) *samples.Set {
	options.Lines = samples.LinesEnvelope
	set, problems := samples.Read(bytes.NewReader(described.text), options)
	if described.kind == format.JSON && described.schema != "" && options.Format == nil && len(problems) == 0 {
		checked, err := format.Load(format.Options{Kind: format.JSONSchema, Text: described.schema})
		if err != nil {
			c.at(at+"/asyncapi", "the payload of the message: %v", err)
			return nil
		}
		options.Format = checked
		_, problems = samples.Read(bytes.NewReader(described.text), options)
	}
	for _, one := range problems {
		place := described.places[max(min(one.Line, len(described.places))-1, 0)]
		c.problems = append(c.problems, place.problem(one.Message))
	}
	if len(problems) > 0 {
		return nil
	}
	return set
}

// readSchema reads the schema of the values, at base, or of the keys, at base/key; nil if they are as in the file,
// or something is wrong. Described is the document that has the schema of the values, nil if a file has.
func (c *checker) readSchema(input *MadeFrom, base, at, folder string, described *asyncMessage) *format.Format {
	spec, part := input.FormatSpec, format.Value
	if at != base {
		spec, part = *input.Key, format.Key
	}
	options := format.Options{Kind: cmp.Or(spec.Format, format.JSON), Part: part, File: spec.Schema, Message: spec.Message,
		Framing: spec.Framing, Event: format.Event{Type: input.CloudEvents.Type,
			Source: cmp.Or(input.CloudEvents.Source, "/dlqbench")}}
	if described != nil {
		options.Text = described.schema
	}
	if options.Framing == "" {
		options.Framing = input.usualFraming(options.Kind, part)
	}
	events := options.Framing == format.FramingEvent || options.Framing == format.FramingEventStructured
	unfit := format.Fits(options.Kind, options.Framing, part)
	isPlain := options.Kind == format.Text || options.Kind == format.Bytes
	switch {
	case isPlain && part == format.Key:
		c.at(at+"/format", "keys without a format are text already: leave key out")
		return nil
	case isPlain && input.AsyncAPI != nil:
		c.at(at+"/format", "the examples of the document are JSON: leave format: %s out, or write samples", options.Kind)
		return nil
	case (options.Kind == format.JSON || isPlain) && (spec.Schema != "" || spec.Message != ""):
		for _, name := range []string{"schema", "message"} {
			c.refuseIf(c.has(at+"/"+name), at+"/"+name,
				"%s goes with a format that has a schema: add format: avro, protobuf or json-schema", name)
		}
		return nil
	case unfit != "":
		c.at(at+"/framing", "%s", unfit)
		return nil
	case events && !c.has(base+"/cloudevents"):
		c.at(at+"/framing", "%s needs the type of the events: add cloudevents: {type: com.example.order}", options.Framing)
		return nil
	case !events && part == format.Value && c.has(base+"/cloudevents"):
		c.at(base+"/cloudevents", "cloudevents goes with framing: cloudevents-binary or cloudevents-structured")
		return nil
	case options.Kind != format.JSON && !isPlain && spec.Schema == "" && options.Text == "":
		c.at(at+"/format", "%s needs the file with the schema, such as schema: orders.avsc", options.Kind)
		return nil
	case spec.Message != "" && options.Kind != format.Protobuf:
		c.at(at+"/message", "message goes with format: protobuf")
		return nil
	case isPlain || options.Kind == format.JSON && !events && part == format.Value:
		return nil
	}
	if spec.Schema != "" {
		options.File = within(folder, spec.Schema)
	}
	read, err := format.Load(options)
	if err != nil {
		c.at(at+"/schema", "%s", err)
		return nil
	}
	return read
}

// usualFraming is the framing of a format for which none is written: that of the values for keys, if it is for keys.
func (m *MadeFrom) usualFraming(kind, part string) string {
	switch {
	case kind == format.JSON || kind == format.Text || kind == format.Bytes:
		return format.FramingNone
	case part == format.Key && m.Framing != "":
		if format.Fits(kind, m.Framing, part) != "" {
			return format.FramingNone
		}
		return m.Framing
	}
	return format.FramingConfluent
}

// Formats are the formats of its records' keys and values that have a schema.
func (s *SubjectFile) Formats() (all []*format.Format) {
	for i := range s.Made {
		all = append(all, s.Made[i].Formats()...)
	}
	return all
}

// Formats are the formats of keys and values that have a schema.
func (m *Made) Formats() []*format.Format {
	return slices.DeleteFunc([]*format.Format{m.Format, m.KeyFormat}, func(one *format.Format) bool {
		return one == nil || one.Schema == nil
	})
}

// frameHeaders are the names of the headers that the framings give records.
func (m *Made) frameHeaders() (names []string) {
	for _, one := range []*format.Format{m.Format, m.KeyFormat} {
		if one == nil {
			continue
		}
		for _, header := range one.Absent("").Headers {
			names = append(names, header.Name)
		}
	}
	return names
}

// readSamples reads a file; nil if something is wrong with it.
func (c *checker) readSamples(path string, options samples.Options, at string) *samples.Set {
	if !c.isFile(path, at+"/samples", "a record in each line") {
		return nil
	}
	data, err := os.Open(path)
	if err != nil {
		c.at(at+"/samples", "reading the samples: %v", err)
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

// readTemplate makes samples from a template; nil if something is wrong with it.
func (c *checker) readTemplate(path string, options samples.Options, at string) *samples.Set {
	if c.has(at + "/samples") {
		c.at(at+"/template", "samples and template exclude each other: write one of the two")
		return nil
	}
	if !c.isFile(path, at+"/template", "one record as a template") {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		c.at(at+"/template", "reading the template: %v", err)
		return nil
	}
	complain := func(one samples.Problem) {
		c.problems = append(c.problems, Problem{File: path, Line: one.Line, Column: one.Column, Source: one.Source,
			Message: one.Message})
	}
	lines, err := samples.FromTemplate(string(text), options.Plain != "")
	if err != nil {
		one := samples.TemplateProblem(err)
		written := strings.Split(string(text), "\n")
		one.Source = written[min(one.Line, len(written))-1]
		complain(one)
		return nil
	}
	set, problems := samples.Read(bytes.NewReader(lines), options)
	if len(problems) > 0 { // the others are likely the same
		one := problems[0]
		one.Message = fmt.Sprintf("record %d that is made from the template: %s", one.Line, one.Message)
		one.Line = 1
		complain(one)
	}
	return set
}

// isFile reports what is wrong if the path is not that of a file, which should have what it is to have.
func (c *checker) isFile(path, at, has string) bool {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		c.at(at, "there is no file %s: the path is relative to the folder of this file", path)
		return false
	case err == nil && !info.Mode().IsRegular():
		c.at(at, "%s is not a file: name one with %s", path, has)
		return false
	}
	return true
}

// OldFormat is the format of the values with an earlier version of their schema, which lacks a field. The error says
// why there is none.
func (m *Made) OldFormat() (*format.Format, error) {
	if m.Format == nil || m.Samples == nil {
		return nil, errors.New("the subject has no schema")
	}
	older := m.Format.Older()
	if len(older) == 0 {
		return nil, fmt.Errorf("its schema %s has no field that an earlier version could lack: one with a default (Avro), "+
			"one that is not required (Protobuf, JSON schema)", filepath.Base(cmp.Or(m.From.Schema, m.From.Source())))
	}
	earlier := make([]samples.Format, len(older))
	for i, one := range older {
		earlier[i] = one
	}
	index, err := m.Samples.Age(earlier...)
	if err != nil {
		return nil, fmt.Errorf("no earlier version of its schema fits the samples: %w", err)
	}
	return older[index], nil
}

// SendsOldSchema reports whether records are written with an earlier version of the subject's schema.
func (s *Scenario) SendsOldSchema() bool { return s.Workload.Malformed.sends(samples.OldSchema) }

// unfitRefusable says why records that a consumer may process or refuse can't be made of the subject's samples, or not
// be judged; "" if they can.
func (s *Scenario) unfitRefusable(subject *SubjectFile) string {
	old, oversized := s.SendsOldSchema(), s.Workload.Malformed.sends(samples.OversizedField)
	shape, poison := subject.Samples.Shape(), history.Poison(subject.Contract.Poison)
	if (old || oversized) && subject.Observe == ObserveWire &&
		(poison == history.PoisonSkip || poison == history.PoisonHalt) {
		return fmt.Sprintf("%s has records that a consumer may process or refuse, and with observe: wire and poison: %s "+
			"nothing shows which of both it did: leave old-schema and oversized-field out of malformed.how, or run another "+
			"scenario", s.Name, poison)
	}
	var err error
	how := samples.OldSchema
	for i := range subject.Made {
		if old && shape.Named && err == nil {
			_, err = subject.Made[i].OldFormat()
		}
	}
	if err == nil && oversized && subject.Samples != nil && !shape.Plain {
		how, err = samples.OversizedField, subject.Samples.Oversize()
	}
	if err != nil {
		return fmt.Sprintf("%s has records with the fault %s, but %v: leave it out of malformed.how, or run another scenario",
			s.Name, how, err)
	}
	return ""
}

// originUnknown reports whether a dead letter does not show which of several input topics its record came from.
func (s *SubjectFile) originUnknown() bool {
	return len(s.Input.own()) > 1 && s.Replay.To == "" && s.Replay.Command == nil && !s.Contract.DLQ.Envelope.namesTopic()
}

// unfitInput says why records made from the subject's samples can't be what the scenario is about; "" if they can.
func (s *Scenario) unfitInput(subject *SubjectFile) string {
	if s.asksRegistry() && len(subject.Formats()) == 0 {
		return s.Name + " is about the schema registry, which the subject does not ask: add input.format and input.schema " +
			"to its file if its records have a schema, or run another scenario"
	}
	load := s.Workload
	if load.Repeated > 0 && subject.Contract.GroupType == string(history.GroupShare) {
		return s.Name + " has records that are produced twice, and " + repeatedInShare + ", or run another scenario"
	}
	if subject.Input == nil {
		return s.unfitRefusable(subject)
	}
	_, missing := load.Malformed.Ways(subject.Samples.Shape())
	switch {
	case !subject.Input.Header && (load.Tombstones > 0 || load.Garbage > 0 || load.Malformed != nil):
		return s.Name + " sends records without a readable value, which can only be followed by the header dlqbench-id: " +
			"leave input.header: false out, or run another scenario"
	case s.Replay != nil && subject.originUnknown():
		return s.Name + " replays dead letters, and nothing in them says to which of the input topics: write " +
			"replay.command, a tool that knows, or an envelope, or run another scenario"
	case missing != "":
		return fmt.Sprintf("%s has records with the fault %s, which values of the subject's format can't have: run another "+
			"scenario", s.Name, missing)
	case load.Keys.Binary > 0 && slices.ContainsFunc(subject.Made, func(one Made) bool { return one.KeyFormat != nil }):
		return s.Name + " has keys of arbitrary bytes, which the format of the subject's keys does not have: run another " +
			"scenario"
	case subject.Samples != nil && subject.Samples.HasKeys() && load.Keys.Hot > 0:
		return s.Name + " is about one key with most of the records, but the subject's samples have keys of their own: " +
			"leave their keys out, or run another scenario"
	case subject.Samples != nil && load.Large != nil && !subject.Samples.Enlarge(int(load.Large.Size)):
		return s.Name + " has large records, but the format of the subject's samples has no text that can grow: run " +
			"another scenario"
	}
	if why := s.unfitRefusable(subject); why != "" {
		return why
	}
	for _, name := range slices.Sorted(maps.Keys(load.RecordHeaders)) {
		if subject.Samples != nil && slices.Contains(subject.Samples.HeaderNames(), name) {
			return fmt.Sprintf("%s gives its records the header %s, which the subject's samples have, too: take it out of the "+
				"samples, or run another scenario", s.Name, name)
		}
	}
	return ""
}
