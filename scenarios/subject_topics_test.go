package scenarios

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/format"
)

// topicFiles are samples and schemas beside a subject with this input.
func topicFiles(t *testing.T, input string) string {
	t.Helper()
	dir := inFolder(t, map[string]string{
		"subject.yaml": service + input + "\n",
		"order.avsc":   `{"type":"record","name":"A","fields":[{"name":"id","type":"string"}]}`,
		"orders.jsonl": "{\"id\":\"a\"}\n{\"id\":\"b\"}\n", "refunds.jsonl": `{"key":"k","value":{"refund":{"id":"r"}}}`,
		"random.jsonl":  `{"id":"0b7e4a52-91d3-4c1f-8a60-5b1f0a3a9f10"}`,
		"timed.jsonl":   `{"id":"01890a5d-ac96-774b-bcce-b302099a8057"}`,
		"numbers.jsonl": `{"id":7}`, "framed.jsonl": `{"headers":{"ce_type":"x"},"value":{"id":"a"}}`,
	})
	return filepath.Join(dir, "subject.yaml")
}

const (
	avroOrders  = "{topic: orders, samples: orders.jsonl, format: avro, schema: order.avsc, id: {at: $.id}}"
	jsonRefunds = "{topic: refunds, samples: refunds.jsonl, lines: envelope, id: {at: $.refund.id}}"
)

// Each topic may have records of its own. One that has none has those of the input.
func TestTopicsHaveRecordsOfTheirOwn(t *testing.T) {
	for input, want := range map[string][]string{
		"input: {topics: [" + avroOrders + ", " + jsonRefunds + "]}": {
			"Its records in orders are made from the 2 of orders.jsonl in turn, as Avro, each with a fresh id of 24 letters " +
				"and digits at $.id.",
			"Its records in refunds are made from the 1 of refunds.jsonl in turn, each with a fresh id of 24 letters and " +
				"digits at $.refund.id."},
		"input: {samples: orders.jsonl, id: {at: $.id}, topics: [plain, " + jsonRefunds + "]}": {
			"Its records in plain are made from the 2 of orders.jsonl in turn, each with a fresh id of 24 letters and digits " +
				"at $.id.",
			"Its records in refunds are made from the 1 of refunds.jsonl in turn, each with a fresh id of 24 letters and " +
				"digits at $.refund.id."},
		"input: {samples: orders.jsonl, id: {at: $.id}, topics: [a, {topic: b}]}": {
			"Its records are made from the 2 of orders.jsonl in turn, each with a fresh id of 24 letters and digits at $.id."},
	} {
		subject, err := LoadSubject(topicFiles(t, input))
		if err != nil {
			t.Errorf("%s: %v", input, err)
			continue
		}
		text, err := subject.Describe()
		if err != nil || len(text.Promises) < len(want) || !slices.Equal(text.Promises[:len(want)], want) {
			t.Errorf("%s\nis described as %q, %v", input, text.Promises, err)
		}
	}
	subject, err := LoadSubject(topicFiles(t, "input: {topics: ["+avroOrders+", "+jsonRefunds+"]}"))
	if err != nil {
		t.Fatal(err)
	}
	if names := subject.Input.own(); !slices.Equal(names, []string{"orders", "refunds"}) {
		t.Errorf("the topics are %v", names)
	}
	if formats := subject.Formats(); len(formats) != 1 || formats[0].Part() != format.Value || len(subject.Made) != 2 ||
		subject.Made[1].Format != nil || subject.Samples.Len() != 3 {
		t.Errorf("read as %+v with %+v", formats, subject.Made)
	}
	if paths := subject.Paths(); !slices.Equal(paths, []string{"order.avsc", "orders.jsonl", "refunds.jsonl"}) {
		t.Errorf("its files are %v", paths)
	}
}

// UUIDs of several versions are written in one of them, which is that of version 4 only if all are.
func TestTopicsWithUUIDsHaveOneVersion(t *testing.T) {
	const random = "{topic: a, samples: random.jsonl, id: {at: $.id}}"
	const timed = "{topic: b, samples: timed.jsonl, id: {at: $.id}}"
	for input, want := range map[string]history.IDForm{
		"input: {topics: [" + random + ", " + timed + "]}": history.IDUUID,
		"input: {topics: [" + timed + ", " + random + "]}": history.IDUUID,
		"input: {topics: [" + random + "]}":                history.IDUUID4,
	} {
		subject, err := LoadSubject(topicFiles(t, input))
		if err != nil || subject.Samples.Form != want {
			t.Errorf("%s: %v, ids as %s", input, err, subject.Samples.Form)
		}
	}
}

func TestProblemsOfTopicsWithRecordsOfTheirOwn(t *testing.T) {
	for _, one := range [][2]string{
		{"input: {topics: [orders, " + jsonRefunds + "]}", "subject.yaml:4:18: nothing says what the records of this topic"},
		{"input: {topics: [{samples: orders.jsonl, id: {at: $.id}}]}", "topic is missing"},
		{"input: {topics: [{topic: a, samples: orders.jsonl}]}", "id is missing in input"},
		{"input: {topics: [{topic: a, id: {at: $.id}}]}", "id is about samples"},
		{"input: {topics: [{topic: a, patterns: orders.jsonl}]}", "unknown key patterns"},
		{"input: {topics: [{topic: a, samples: none.jsonl, id: {at: $.id}}]}", "there is no file"},
		{"input: {topics: [{topic: a, samples: orders.jsonl, id: {at: x}}]}", "is not a place in a JSON value"},
		{"input: {topics: [{topic: a, samples: orders.jsonl, format: avro, id: {at: $.id}}]}",
			"avro needs the file with the schema"},
		{"input: {topics: [" + jsonRefunds + ", {topic: n, samples: numbers.jsonl, id: {at: $.id}}]}",
			"the ids here are written as int64, and those of refunds as text"},
		{"input: {topics: [{topic: a, samples: numbers.jsonl, id: {at: $.none}}]}", `numbers.jsonl:1:1: there is no $.none`},
		{"input: {topics: [" + jsonRefunds + ", {topic: refunds}], samples: orders.jsonl, id: {at: $.id}}",
			"refunds is the input topic already"},
		{"input: {topics: [{topic: a, samples: framed.jsonl, lines: envelope, framing: cloudevents-binary, cloudevents: " +
			"{type: a}, id: {at: $.id}}]}",
			"the framing gives records the header ce_type"},
	} {
		input, want := one[0], one[1]
		_, err := LoadSubject(topicFiles(t, input))
		var problems *Problems
		if !errors.As(err, &problems) || len(problems.Problems) != 1 || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%.900v\nwant a problem with %q", input, err, want)
		}
	}
}
