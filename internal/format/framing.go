package format

import "slices"

// Framings. FramingNone adds nothing; each of the others has a file of its own.
const (
	FramingNone             = "none"
	FramingConfluent        = "confluent"
	FramingConfluentHeaders = "confluent-headers"
	FramingApicurio         = "apicurio"
	FramingApicurioHeaders  = "apicurio-headers"
	FramingEvent            = "cloudevents-binary"
	FramingEventStructured  = "cloudevents-structured"
)

// The parts of a record that have a format.
const (
	Key   = "key"
	Value = "value"
)

// Named is a schema as a registry knows it.
type Named struct {
	// ID counts from 1. GUID is "" in a registry that has none.
	ID   int
	GUID string
	// URL is the address of the registry, as the reader of the record sees it.
	URL string
}

// Frame is what a framing adds to a record: bytes before the key or value, and headers beside it.
type Frame struct {
	Head    []byte
	Headers []Header
}

// Header is a header of a frame. IsID: its value is the record's id.
type Header struct {
	Name  string
	Value []byte
	IsID  bool
}

// framing is how a record tells which schema it has. A nil function does nothing.
type framing struct {
	// kinds are the formats that it can be used with; nil: those with a schema.
	kinds []string
	// keys: it is for keys, too.
	keys bool
	// names: what it adds depends on the schema's name in the registry.
	names bool
	// frame returns what is added to the part of a record.
	frame func(f *Format, part string, schema Named) Frame
	// wrap puts the JSON of a value into another one.
	wrap func(f *Format, value, id []byte) []byte
}

// framingOf returns the framing with that name.
func framingOf(name string) framing {
	switch name {
	case FramingConfluent:
		return framing{keys: true, names: true, frame: confluent}
	case FramingConfluentHeaders:
		return framing{keys: true, names: true, frame: confluentHeaders}
	case FramingApicurio:
		return framing{keys: true, names: true, frame: apicurio}
	case FramingApicurioHeaders:
		return framing{keys: true, names: true, frame: apicurioHeaders}
	case FramingEvent:
		return framing{kinds: []string{JSON, JSONSchema, Avro, Protobuf}, names: true, frame: event}
	case FramingEventStructured:
		return framing{kinds: []string{JSON, JSONSchema}, frame: structuredEvent, wrap: wrapEvent}
	}
	return framing{kinds: []string{JSON, JSONSchema, Avro, Protobuf, Text, Bytes}, keys: true}
}

// Fits says what keeps records of a format from having a framing; "" if nothing does. Part is what has the format.
func Fits(kind, name, part string) string {
	f := framingOf(name)
	switch {
	case part == Key && !f.keys:
		return name + " is about values: keys have another framing, or none"
	case name != FramingNone && (kind == Text || kind == Bytes):
		return "values of format: " + kind + " have no framing: leave it out"
	case f.kinds == nil && kind == JSON:
		return "framing goes with a format that has a schema: add format: avro, protobuf or json-schema"
	case f.kinds != nil && !slices.Contains(f.kinds, kind):
		return name + " holds values of JSON: write format: json or json-schema, or framing: " + FramingEvent
	}
	return ""
}

// absent names a schema that no registry has: ids count from 1.
func absent(registry string) Named {
	return Named{ID: 1<<31 - 1, GUID: "ffffffff-ffff-4fff-bfff-ffffffffffff", URL: registry}
}

// Frame returns what the records of a schema with that name have.
func (f *Format) Frame(schema Named) Frame {
	if f.framing.frame == nil {
		return Frame{}
	}
	return f.framing.frame(f, f.part, schema)
}

// Absent returns what records have that name a schema which the registry does not have.
func (f *Format) Absent(registry string) Frame { return f.Frame(absent(registry)) }

// NamesSchema reports whether records name their schema.
func (f *Format) NamesSchema() bool { return f.framing.names && f.Schema != nil }

// Apicurio reports whether ids are Apicurio's.
func (f *Format) Apicurio() bool {
	return f.name == FramingApicurio || f.name == FramingApicurioHeaders
}

// NeedsGUID reports whether records name their schema by its GUID.
func (f *Format) NeedsGUID() bool { return f.name == FramingConfluentHeaders }
