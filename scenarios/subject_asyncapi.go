package scenarios

// Records from an AsyncAPI document (asyncapi.com), versions 2 and 3: the examples of a message, its schema, and the
// topic of its channel. The other parts of a document are not read.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/dlqbench/dlqbench/internal/format"
)

// AsyncAPI says which message of an AsyncAPI document the records are.
type AsyncAPI struct {
	// File is the document, in YAML or JSON: absolute, or relative to subject.yaml.
	File string `json:"file" jsonschema:"required,minLength=1"`
	// Channel is the name of the channel, or its address.
	Channel string `json:"channel" jsonschema:"required,minLength=1"`
	// Message is the name of the message; default: the only one of the channel.
	Message string `json:"message,omitempty" jsonschema:"minLength=1"`
}

// asyncMessage is what an AsyncAPI document says of a message.
type asyncMessage struct {
	// topic is that of the channel, "" if the document does not say it.
	topic string
	// text has the examples, one in each line, as envelopes with value and headers; places are where they are.
	text   []byte
	places []place
	// kind is the format of the values; schema the text of the schema, "" if there is none to hold values against.
	kind, schema string
}

// asyncDocument is a document that is being read.
type asyncDocument struct {
	*document
	spec AsyncAPI
	v3   bool
}

// readAsyncAPI reads a message; nil if something is wrong, which is among the problems then.
func readAsyncAPI(spec AsyncAPI, file string) (*asyncMessage, []Problem) {
	data, err := readLimited(file)
	if err != nil {
		return nil, []Problem{{File: file, Message: fmt.Sprintf("reading the AsyncAPI document: %v", err)}}
	}
	d := &asyncDocument{document: parseForeign(file, data), spec: spec}
	if d.root == nil || len(d.problems) > 0 {
		return nil, d.problems
	}
	m := d.message()
	if len(d.problems) > 0 {
		return nil, d.problems
	}
	return m, nil
}

func readLimited(file string) ([]byte, error) {
	from, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%w: the path is relative to the folder of subject.yaml", err)
	}
	defer from.Close()
	return io.ReadAll(io.LimitReader(from, maxFile+1))
}

// message reads what the spec names.
func (d *asyncDocument) message() *asyncMessage {
	version := d.root.get("/asyncapi")
	if version == nil || !strings.HasPrefix(version.text, "2.") && !strings.HasPrefix(version.text, "3.") {
		d.add(d.root.at, "this is no AsyncAPI document of version 2 or 3: it has no line such as asyncapi: 3.0.0", "")
		return nil
	}
	d.v3 = strings.HasPrefix(version.text, "3.")
	name, channel := d.channel()
	if channel == nil {
		return nil
	}
	m := &asyncMessage{topic: d.topicOf(name, channel)}
	message := d.choose(channel)
	if message == nil {
		return nil
	}
	payload := d.schemaOf(m, message)
	d.examples(m, message, payload)
	return m
}

// channel returns the channel and its name.
func (d *asyncDocument) channel() (string, *node) {
	channels := d.root.get("/channels")
	if channels == nil {
		d.add(d.root.at, "the document has no channels", "")
		return "", nil
	}
	var known []string
	for _, name := range channels.names {
		channel := d.follow(channels.fields[name])
		if channel == nil {
			continue
		}
		address := name
		if given := channel.child("address"); given != nil {
			address = given.text
		}
		if name == d.spec.Channel || address == d.spec.Channel {
			return name, channel
		}
		known = append(known, name)
	}
	d.add(channels.at, fmt.Sprintf("the document has no channel %q", d.spec.Channel), hint(d.spec.Channel, known))
	return "", nil
}

// topicOf is the topic of a channel: that of its binding to Kafka, else its address, which is its name in version 2.
// An address with parameters is none.
func (d *asyncDocument) topicOf(name string, channel *node) string {
	topic := name
	if d.v3 {
		topic = ""
		if address := channel.child("address"); address != nil {
			topic = address.text
		}
	}
	if bound := channel.get("/bindings/kafka/topic"); bound != nil {
		topic = bound.text
	}
	if strings.Contains(topic, "{") {
		return ""
	}
	return topic
}

// choose returns the message that the spec names, or the only one.
func (d *asyncDocument) choose(channel *node) *node {
	var names []string
	all := map[string]*node{}
	add := func(name string, message *node) {
		target := d.follow(message)
		if target == nil {
			return
		}
		for _, key := range []string{"messageId", "name"} {
			if given := target.child(key); given != nil && name == "" {
				name = given.text
			}
		}
		if ref := message.child("$ref"); ref != nil && name == "" {
			name = path.Base(ref.text)
		}
		if name == "" {
			name = strconv.Itoa(len(names) + 1)
		}
		if all[name] == nil {
			names = append(names, name)
		}
		all[name] = target
	}
	for _, operation := range []string{"publish", "subscribe"} {
		switch message := channel.get("/" + operation + "/message"); {
		case message == nil:
		case message.child("oneOf") != nil:
			for _, one := range message.child("oneOf").items {
				add("", one)
			}
		default:
			add("", message)
		}
	}
	if messages := channel.child("messages"); messages != nil {
		for _, name := range messages.names {
			add(name, messages.fields[name])
		}
	}
	wanted := d.spec.Message
	if wanted == "" && len(names) == 1 {
		wanted = names[0]
	}
	switch {
	case len(d.problems) > 0:
	case len(names) == 0:
		d.add(channel.at, fmt.Sprintf("the channel %q has no message", d.spec.Channel), "")
	case wanted == "":
		d.add(channel.at, fmt.Sprintf("the channel %q has several messages: name one in subject.yaml "+
			"(input.asyncapi.message): %s", d.spec.Channel, strings.Join(names, ", ")), "")
	case all[wanted] == nil:
		d.add(channel.at, fmt.Sprintf("the channel %q has no message %q: it has %s", d.spec.Channel, wanted,
			strings.Join(names, ", ")), hint(wanted, names))
	}
	return all[wanted]
}

// maxRefs bounds how many references lead to one another.
const maxRefs = 32

// follow returns what a node refers to, within the document; itself, if it is no reference.
func (d *asyncDocument) follow(n *node) *node {
	for range maxRefs {
		ref := n.child("$ref")
		if ref == nil || n.kind != mappingNode {
			return n
		}
		pointer, within := strings.CutPrefix(ref.text, "#")
		pointer, err := url.PathUnescape(pointer)
		if !within || err != nil {
			d.add(ref.at, "references to other files are not read: write the part into this document, or give samples and a "+
				"schema (input.samples, input.schema)", "")
			return nil
		}
		if n = d.root.get(pointer); n == nil {
			d.add(ref.at, fmt.Sprintf("there is no %s in this document", ref.text), "")
			return nil
		}
	}
	d.add(n.at, "the references here lead in a circle", "")
	return nil
}

// schemaOf reads the schema of the message's payload, and returns its node, nil if there is none.
func (d *asyncDocument) schemaOf(m *asyncMessage, message *node) *node {
	m.kind = format.JSON
	payload := message.child("payload")
	if payload == nil {
		return nil
	}
	if payload = d.follow(payload); payload == nil {
		return nil
	}
	written := message.child("schemaFormat")
	if inner := payload.child("schema"); d.v3 && inner != nil && payload.child("schemaFormat") != nil {
		written = payload.child("schemaFormat")
		if payload = d.follow(inner); payload == nil {
			return nil
		}
	}
	var text bytes.Buffer
	schema := true
	if written != nil {
		switch kind := strings.ToLower(written.text); {
		case strings.Contains(kind, "avro"):
			m.kind = format.Avro
		case strings.Contains(kind, "protobuf"):
			m.kind = format.Protobuf
		case !strings.Contains(kind, "aai.asyncapi") && !strings.Contains(kind, "schema+"):
			schema = false // OpenAPI and RAML
		}
	}
	switch {
	case !schema:
	case payload.kind == scalarNode:
		text.WriteString(payload.text)
	default:
		d.write(&text, payload, m.kind != format.Avro, nil)
	}
	m.schema = text.String()
	return payload
}

// maxInlined bounds the text of a schema after what it refers to is written in its place, in bytes.
const maxInlined = 4 << 20

// write writes a node as JSON, in its order. With refs, what is referred to stands in the place of a reference; above
// are the nodes around.
func (d *asyncDocument) write(to *bytes.Buffer, n *node, refs bool, above []*node) {
	if len(d.problems) > 0 {
		return
	}
	if refs {
		from := n
		if n = d.follow(n); n == nil {
			return
		}
		if slices.Contains(above, n) {
			d.add(from.at, "the schema contains itself here, which can't be written out: give samples and a schema "+
				"(input.samples, input.schema)", "")
			return
		}
		above = append(slices.Clip(above), n)
	}
	if to.Len() > maxInlined {
		d.add(n.at, fmt.Sprintf("the schema has more than %d MiB when what it refers to is written out", maxInlined>>20), "")
		return
	}
	switch n.kind {
	case mappingNode:
		for i, name := range n.names {
			to.WriteByte("{,"[min(i, 1)])
			quoted, _ := json.Marshal(name) // text is always encoded
			to.Write(append(quoted, ':'))
			d.write(to, n.fields[name], refs, above)
		}
		if len(n.names) == 0 {
			to.WriteByte('{')
		}
		to.WriteByte('}')
	case listNode:
		to.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				to.WriteByte(',')
			}
			d.write(to, item, refs, above)
		}
		to.WriteByte(']')
	default:
		to.Write(n.scalarJSON())
	}
}

// scalarJSON is a scalar as JSON: a number as it is written, if JSON writes it so.
func (n *node) scalarJSON() []byte {
	switch n.scalar.(type) {
	case string, bool, nil:
	default:
		if json.Valid([]byte(n.text)) {
			return []byte(n.text)
		}
	}
	text, err := json.Marshal(n.scalar)
	if err != nil {
		return []byte("null") // it is none of the kinds that a document has
	}
	return text
}

// examples writes the examples of a message, or of its payload, as lines.
func (d *asyncDocument) examples(m *asyncMessage, message, payload *node) {
	var lines bytes.Buffer
	line := func(value, headers *node) {
		m.places = append(m.places, value.at)
		lines.WriteString(`{"value":`)
		d.write(&lines, value, false, nil)
		if headers != nil {
			lines.WriteString(`,"headers":`)
			d.write(&lines, headers, false, nil)
		}
		lines.WriteString("}\n")
	}
	if examples := message.child("examples"); examples != nil {
		for _, example := range examples.items {
			if value := example.child("payload"); value != nil {
				line(value, example.child("headers"))
			}
		}
	}
	if payload != nil && len(m.places) == 0 && payload.child("examples") != nil {
		for _, value := range payload.child("examples").items {
			line(value, nil)
		}
	}
	if len(m.places) == 0 && len(d.problems) == 0 {
		d.add(message.at, "the message has no examples with a payload: add some to it (examples: [{payload: …}]), or give "+
			"samples (input.samples)", "")
	}
	m.text = lines.Bytes()
}
