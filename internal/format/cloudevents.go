package format

import (
	"encoding/json"
	"fmt"
)

// Event is what CloudEvents say of themselves besides their id, which is that of the record.
type Event struct{ Type, Source string }

// event is the binary mode of CloudEvents over Kafka (CloudEvents 1.0, Kafka protocol binding 3.2): the attributes are
// headers with the prefix ce_, and the value is the data. A schema is named by its address in the registry.
func event(f *Format, _ string, schema Named) Frame {
	contentType := "application/json"
	if f.kind == Avro || f.kind == Protobuf {
		contentType = "application/" + f.kind
	}
	headers := []Header{
		{Name: "ce_specversion", Value: []byte("1.0")}, {Name: "ce_id", IsID: true},
		{Name: "ce_type", Value: []byte(f.event.Type)}, {Name: "ce_source", Value: []byte(f.event.Source)},
		{Name: "content-type", Value: []byte(contentType)},
	}
	if f.Schema != nil {
		address := fmt.Appendf(nil, "%s/schemas/ids/%d", schema.URL, schema.ID)
		headers = append(headers, Header{Name: "ce_dataschema", Value: address})
	}
	return Frame{Headers: headers}
}

// structuredEvent is their structured mode (3.3): the value is the event as JSON, as a header says.
func structuredEvent(*Format, string, Named) Frame {
	return Frame{Headers: []Header{{Name: "content-type", Value: []byte("application/cloudevents+json; charset=UTF-8")}}}
}

// wrapEvent returns an event whose data is the value (JSON event format, 3.1).
func wrapEvent(f *Format, value, id []byte) []byte {
	text := func(of string) []byte {
		quoted, _ := json.Marshal(of) // text is always encoded
		return quoted
	}
	attributes := fmt.Appendf(nil, `{"specversion":"1.0","id":"%s","source":%s,"type":%s`, id, text(f.event.Source),
		text(f.event.Type))
	return fmt.Appendf(attributes, `,"datacontenttype":"application/json","data":%s}`, value)
}
