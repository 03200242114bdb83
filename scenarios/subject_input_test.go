package scenarios

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/samples"
)

const service = "name: s\nkind: process\ncommand: [s]\n"

// inFolder writes files and returns their folder.
func inFolder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestInputIsReadBesideItsSubject(t *testing.T) {
	dir := inFolder(t, map[string]string{
		"subject.yaml":  service + "input: {samples: orders.jsonl, id: {at: $.id}}\n",
		"orders.jsonl":  "{\"id\":\"0b7e4a52-91d3-4c1f-8a60-5b1f0a3a9f10\"}\n",
		"enveloped.yml": service + "input: {samples: e.jsonl, lines: envelope, id: {at: $.id, as: text}, header: false}\n",
		"e.jsonl":       `{"key":"k","value":{"id":"a"}}`,
		"numbers.yaml":  service + "input: {samples: n.jsonl, id: {at: $.id, as: int64}}\n", "n.jsonl": `{"id":7}`,
	})
	subject, err := LoadSubject(filepath.Join(dir, "subject.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if subject.Samples.Len() != 1 || subject.Samples.Form != history.IDUUID4 || !subject.Input.Header ||
		subject.Input.Lines != samples.LinesValue {
		t.Errorf("read as %+v, %+v", subject.Input, subject.Samples)
	}
	text, err := subject.Describe()
	if err != nil || !strings.HasPrefix(text.Promises[0], "Its records are made from the 1 of orders.jsonl in turn, each "+
		"with a fresh UUID of version 4 at $.id.") {
		t.Errorf("described as %q, %v", text.Promises, err)
	}
	subject, err = LoadSubject(filepath.Join(dir, "numbers.yaml"))
	if err != nil || subject.Samples.Form != history.IDInt64 {
		t.Fatalf("read as %+v, %v", subject, err)
	}
	if text, err = subject.Describe(); err != nil ||
		!strings.Contains(text.Promises[0], "with a fresh whole number of 16 "+
			"digits at $.id.") {
		t.Errorf("described as %q, %v", text.Promises, err)
	}
	subject, err = LoadSubject(filepath.Join(dir, "enveloped.yml"))
	if err != nil || subject.Input.Header || !subject.Samples.HasKeys() || subject.Samples.Form != history.IDText {
		t.Errorf("read as %+v, %v", subject, err)
	}
}

func TestProblemsOfInputNameTheirPlace(t *testing.T) {
	dir := inFolder(t, map[string]string{
		"good.tmpl": "{\n  \"id\": {{json (UUID)}},\n  \"n\": {{Number 1 9}}\n}\n", "bad.tmpl": "{\n\"id\": {{Frist}}}",
		"good.jsonl": `{"id":"a"}`, "empty.jsonl": "\n", "bad.jsonl": "{\"id\":\"a\"}\n{\"id\":7}\n",
		"numbers.jsonl": `{"id":7}`,
		"keys.jsonl":    `{"key":"k","value":{"id":"a"}}`, "k.avsc": `"string"`,
		"framed.jsonl":  `{"headers":{"ce_type":"x"},"value":{"id":"a"}}`,
		"a.avsc":        `{"type":"record","name":"A","fields":[{"name":"id","type":"string"}]}`,
		"more.jsonl":    `{"id":"a","n":1}`,
		"n.avsc":        `{"type":"record","name":"A","fields":[{"name":"id","type":"long"}]}`,
		"int.avsc":      `{"type":"record","name":"A","fields":[{"name":"id","type":"int"}]}`,
		"float.avsc":    `{"type":"record","name":"A","fields":[{"name":"id","type":"float"}]}`,
		"int.proto":     `syntax = "proto3"; message A { int32 id = 1; }`,
		"long.proto":    `syntax = "proto3"; message A { int64 id = 1; }`,
		"headers.jsonl": `{"headers":{"type":"order","trace-1":"x"},"value":{"id":"a"}}`,
	})
	for _, one := range [][2]string{
		{"input: {samples: none.jsonl, id: {at: $.id}}",
			"subject.yaml:4:18: there is no file " + filepath.Join(dir, "none.jsonl")},
		{"input: {samples: ., id: {at: $.id}}", "is not a file"},
		{"input: {samples: good.jsonl, id: {at: id}}", `subject.yaml:4:39: "id" is not a place in a JSON value`},
		{"input: {template: good.tmpl, id: {at: $.id}}", ""},
		{"input: {template: none.tmpl, id: {at: $.id}}", "subject.yaml:4:19: there is no file"},
		{"input: {template: good.tmpl, samples: good.jsonl, id: {at: $.id}}", "samples and template exclude each other"},
		{"input: {template: bad.tmpl, id: {at: $.id}}", `bad.tmpl:2:1: the template: function "Frist" not defined`},
		{"input: {template: good.tmpl, id: {at: $.no}}", "good.tmpl:1:"},
		{"input: {samples: good.jsonl}", "subject.yaml:4:1: id is missing in input"},
		{"input: {samples: good.jsonl, id: {at: $.id}, format: avro}",
			"subject.yaml:4:54: avro needs the file with the schema"},
		{"input: {samples: good.jsonl, id: {at: $.id}, schema: a.avsc}", "schema goes with a format that has a schema"},
		{"input: {samples: good.jsonl, id: {at: $.id}, framing: none}", ""},
		{"input: {samples: good.jsonl, id: {at: $.id}, framing: confluent}", "framing goes with a format that has a schema"},
		{"input: {samples: good.jsonl, id: {at: $.id}, framing: cloudevents-binary}",
			"subject.yaml:4:55: cloudevents-binary needs the type of the events"},
		{"input: {samples: good.jsonl, id: {at: $.id}, framing: cloudevents-structured, cloudevents: {type: t}}", ""},
		{"input: {samples: good.jsonl, id: {at: $.id}, cloudevents: {type: t}}", "cloudevents goes with framing"},
		{"input: {samples: good.jsonl, id: {at: $.id}, framing: cloudevents-binary, cloudevents: {source: /s}}", "type"},
		{"input: {samples: good.jsonl, id: {at: $.id}, format: avro, schema: a.avsc, framing: cloudevents-structured, " +
			"cloudevents: {type: t}}",
			"cloudevents-structured holds values of JSON"},
		{"input: {samples: good.jsonl, id: {at: $.id}, key: {format: avro, schema: k.avsc}}",
			"good.jsonl:1:1: the record has no key"},
		{"input: {samples: keys.jsonl, lines: envelope, id: {at: $.id}, key: {format: avro}}",
			"avro needs the file with the schema"},
		{"input: {samples: keys.jsonl, lines: envelope, id: {at: $.id}, key: {format: avro, schema: none.avsc}}",
			"subject.yaml:4:91: there is no file"},
		{"input: {samples: keys.jsonl, lines: envelope, id: {at: $.id}, key: {format: avro, schema: k.avsc}}", ""},
		{"input: {samples: keys.jsonl, lines: envelope, id: {at: $.id}, key: {format: avro, schema: a.avsc}}",
			"keys.jsonl:1:1: the key: the value does not fit the schema"},
		{"input: {samples: keys.jsonl, lines: envelope, id: {at: $.id}, key: {framing: cloudevents-binary}}",
			"is about values"},
		{"input: {samples: framed.jsonl, lines: envelope, id: {at: $.id}, framing: cloudevents-binary, cloudevents: {type: t}}",
			"the framing gives records the header ce_type"},
		{"input: {topic: orders, key: {format: json}}", "key is about samples"},
		{"input: {samples: good.jsonl, id: {at: $.id}, format: avro, schema: none.avsc}",
			"subject.yaml:4:68: there is no file"},
		{"input: {samples: good.jsonl, id: {at: $.id}, format: avro, schema: good.jsonl}", "this is no Avro schema"},
		{"input: {samples: good.jsonl, id: {at: $.id}, format: avro, schema: a.avsc, message: X}",
			"message goes with format: protobuf"},
		{"input: {samples: good.jsonl, id: {at: $.id}, format: avro, schema: a.avsc}", ""},
		{"input: {samples: bad.jsonl, id: {at: $.id}, format: avro, schema: a.avsc}", "bad.jsonl:2:7: $.id is a number here"},
		{"input: {samples: more.jsonl, id: {at: $.id}, format: avro, schema: a.avsc}",
			"more.jsonl:1:1: the value does not fit the schema: it has no field n"},
		{"input: {samples: numbers.jsonl, id: {at: $.id}, format: avro, schema: n.avsc}", ""},
		{"input: {samples: good.jsonl, id: {match: a}, format: text}", ""},
		{"input: {samples: good.jsonl, id: {match: zz}, format: text}", "good.jsonl:1:1: zz matches nothing here"},
		{"input: {samples: good.jsonl, id: {match: a}, format: bytes}", "good.jsonl:1:1: the value is not base64"},
		{"input: {samples: good.jsonl, id: {match: a}}", "subject.yaml:4:42: match goes with format: text"},
		{"input: {samples: good.jsonl, id: {at: $.id}, format: text}", "a regular expression finds the id: add match"},
		{"input: {samples: good.jsonl, id: {at: $.id, match: a}, format: text}", "at is a place in JSON"},
		{"input: {samples: good.jsonl, id: {as: text}}", "id needs the place of a record's id"},
		{"input: {samples: good.jsonl, id: {match: (}, format: text}", "this is not a regular expression"},
		{"input: {samples: good.jsonl, id: {match: a}, format: text, schema: a.avsc}",
			"schema goes with a format that has a schema"},
		{"input: {samples: good.jsonl, id: {match: a}, format: text, framing: confluent}", "have no framing"},
		{"input: {samples: keys.jsonl, lines: envelope, id: {at: $.id}, key: {format: text}}",
			"keys without a format are text already"},
		{"input: {samples: numbers.jsonl, id: {at: $.id}, format: protobuf, schema: long.proto}", ""},
		{"input: {samples: numbers.jsonl, id: {at: $.id}, format: avro, schema: int.avsc}",
			"numbers.jsonl:1:1: the field of the id takes no number of 16 digits"},
		{"input: {samples: numbers.jsonl, id: {at: $.id}, format: protobuf, schema: int.proto}",
			"numbers.jsonl:1:1: the field of the id takes no number of 16 digits"},
		{"input: {samples: numbers.jsonl, id: {at: $.id}, format: avro, schema: float.avsc}",
			"numbers.jsonl:1:1: the id is not written as text, nor as a number of 64 bits"},
		{"input: {topic: orders, format: avro}", "format is about samples"},
		{"input: {topic: orders}", ""},
		{"input: {topic: \"{{.RunID}}.orders\"}", ""},
		{"input: {topic: orders, lines: envelope}", "subject.yaml:4:31: lines is about samples"},
		{"input: {topic: orders, id: {at: $.id}}", "id is about samples"},
		{"input: {topic: \"my orders\"}", `subject.yaml:4:16: "my orders" can't be the name of a topic`},
		{"input: {topic: \"{{.Topic}}\"}", "there is no value {{.Topic}}"},
		{"input: {topic: ..}", `".." can't be the name of a topic`},
		{"input: {topic: orders}\ncontract: {dlq: {topic: orders}}",
			"subject.yaml:5:25: orders is the input topic already: name another one as dead-letter topic"},
		{"contract: {dlq: {topic: \"{{.InputTopic}}\"}}", "is the input topic already"},
		{"contract: {retry: topics, retry_topics: [again, again]}", "subject.yaml:4:49: again is the retry topic 1 already"},
		{"input: {topic: orders}\nreplay: {to: orders}", ""},
		{"contract: {dlq: {enabled: false}, poison: dead-letter}",
			"there are no dead letters with dlq.enabled: false: write poison: skip"},
		{"contract: {dlq: {enabled: false}, poison: halt}", ""},
		{"contract: {group_type: share, poison: halt}", "no member can halt at it"},
		{"contract: {dlq: {enabled: false}, poison: skip}", ""},
		{"topics: [results, results]", "subject.yaml:4:19: results is the further topic already"},
		{"topics: [\"{{.InputTopic}}\"]", "is the input topic already"},
		{"topics: [\"no such\"]", "can't be the name of a topic"},
		{"replay: {to: \"{{.DLQTopic}}\"}", "is the dead-letter topic already"},
		{"input: {samples: empty.jsonl, id: {at: $.id}}", "empty.jsonl: the file has no records"},
		{"input: {samples: bad.jsonl, id: {at: $.id}}", "bad.jsonl:2:7: $.id is a number here, but text in line 1"},
		{"input: {samples: good.jsonl, id: {at: $.key}}", `good.jsonl:1:1: there is no $.key: the value has no member "key"`},
		{"record_headers: {type: x}\ninput: {samples: headers.jsonl, lines: envelope, id: {at: $.id}}",
			"record_headers: keep one"},
		{"input: {samples: headers.jsonl, lines: envelope, id: {at: $.id}}", "have the header trace-1"},
		{"input: {samples: good.jsonl, id: {at: $.id, as: int32}}", "subject.yaml:4:49"},
		{"input: {samples: good.jsonl, id: {at: $.id, as: int64}}",
			`good.jsonl:1:7: $.id is "a", neither a number nor a string of digits`},
		{"input: {samples: numbers.jsonl, id: {at: $.id, as: uuid}}", "numbers.jsonl:1:7: $.id is a number, not a string"},
		{"input: {samples: numbers.jsonl, id: {at: $.id, as: int64}}", ""},
		{"input: {samples: numbers.jsonl, id: {at: $.id}}", ""},
		{"contract: {dlq: {envelope: hexkit}}\ninput: {samples: good.jsonl, id: {at: $.id}}", ""},
	} {
		text, want := one[0], one[1]
		_, err := ParseSubject(filepath.Join(dir, "subject.yaml"), []byte(service+text+"\n"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s\n%v\nwant %q", text, err, want)
		}
	}
}

func TestSamplesFitScenarios(t *testing.T) {
	dir := inFolder(t, map[string]string{
		"hidden.yaml": service + "input: {samples: s.jsonl, id: {at: $.id}, header: false}\n", "s.jsonl": `{"id":"a"}`,
		"keys.yaml":    service + "input: {samples: k.jsonl, lines: envelope, id: {at: $.id}}\n",
		"k.jsonl":      `{"key":"k","value":{"id":"a"}}`,
		"headers.yaml": service + "input: {samples: h.jsonl, lines: envelope, id: {at: $.id}}\n",
		"h.jsonl":      `{"headers":{"type":"y"},"value":{"id":"a"}}`,
		"avro.yaml":    service + "input: {samples: s.jsonl, id: {at: $.id}, format: avro, schema: a.avsc}\n",
		"a.avsc":       `{"type":"record","name":"A","fields":[{"name":"id","type":"string"}]}`,
		"grows.yaml":   service + "input: {samples: g.jsonl, id: {at: $.id}, format: avro, schema: g.avsc}\n",
		"g.jsonl":      `{"id":"a","note":""}`,
		"g.avsc":       `{"type":"record","name":"A","fields":[{"name":"id","type":"string"},{"name":"note","type":"string","default":""}]}`,
		"wire.yaml":    service + "observe: wire\ninput: {samples: g.jsonl, id: {at: $.id}}\n",
		"skips.yaml":   service + "observe: wire\ninput: {samples: g.jsonl, id: {at: $.id}}\ncontract: {poison: skip}\n",
	})
	const scenario = "name: x\ndescription: x\nworkload: {rate: 10/s, duration: 1s, %s}\n"
	for _, one := range []struct{ subject, load, want string }{
		{"hidden.yaml", "garbage: 1%", "can only be followed by the header dlqbench-id"},
		{"hidden.yaml", "tombstones: 1%", "can only be followed by the header dlqbench-id"},
		{"hidden.yaml", "malformed: {share: 1%}", "can only be followed by the header dlqbench-id"},
		{"keys.yaml", "malformed: {share: 1%}", ""},
		{"avro.yaml", "malformed: {share: 1%}", ""},
		{"avro.yaml", "malformed: {share: 1%, how: [truncated, unknown-schema-id]}", ""},
		{"avro.yaml", "malformed: {share: 1%, how: [truncated, not-json]}", "the fault not-json, which values of the"},
		{"grows.yaml", "malformed: {share: 1%, how: [old-schema, oversized-field]}", ""},
		{"avro.yaml", "malformed: {share: 1%, how: [old-schema]}",
			"its schema a.avsc has no field that an earlier version could"},
		{"avro.yaml", "malformed: {share: 1%, how: [oversized-field]}", "sample 1 has no text and no number beside its id"},
		{"wire.yaml", "malformed: {share: 1%, how: [oversized-field]}", ""},
		{"skips.yaml", "malformed: {share: 1%, how: [oversized-field]}", "with observe: wire and poison: skip nothing shows"},
		{"skips.yaml", "malformed: {share: 1%}", ""},
		{"keys.yaml", "malformed: {share: 1%, how: [old-schema]}", "the fault old-schema, which values of the"},
		{"keys.yaml", "malformed: {share: 1%, how: [unknown-schema-id]}", "the fault unknown-schema-id, which values of the"},
		{"hidden.yaml", "headers: 2", ""},
		{"avro.yaml", "large: {share: 1%, size: 2KiB}", "has no text that can grow"},
		{"grows.yaml", "large: {share: 1%, size: 2KiB}", ""},
		{"hidden.yaml", "large: {share: 1%, size: 2KiB}", ""},
		{"keys.yaml", "garbage: 1%", ""},
		{"keys.yaml", "keys: {hot: 50%}", "samples have keys of their own"},
		{"keys.yaml", "record_headers: {type: x}", ""},
		{"headers.yaml", "record_headers: {type: x}", "gives its records the header type, which the subject's samples have"},
	} {
		_, _, err := ParseForSubject("x.yaml", fmt.Appendf(nil, scenario, one.load), nil, filepath.Join(dir, one.subject))
		if one.want == "" && err != nil || one.want != "" && (err == nil || !strings.Contains(err.Error(), one.want)) {
			t.Errorf("%s with %s: %v, want %q", one.subject, one.load, err, one.want)
		}
	}
}

func TestAnswersAgreeWithClasses(t *testing.T) {
	const contract = "contract: {classes: {retryable: [503, 429, timeout, reset], permanent: [400], logical: [422]}}\n"
	for _, one := range []struct{ text, want string }{
		{"downstreams: [{http: {}}]", ""},
		{contract + "downstreams: [{http: {answers: {transient: {status: 503}}}}]", ""},
		{contract + "downstreams: [{http: {answers: {transient: {status: 500}}}}]",
			"subject.yaml:5:53: transient is answered 500, which contract.classes does not list: add 500 to retryable"},
		{"downstreams: [{http: {answers: {transient: {status: 500}}}}]", ""},
		{contract + "downstreams: [{http: {answers: {logical: {status: 429}}}}]",
			"rate-limited and logical are both answered 429, but one is retryable and the other logical"},
		{"contract: {classes: {retryable: [400, 503]}}\ndownstreams: [{http: {answers: {permanent: {status: 400}}}}]",
			"permanent is answered 400, which contract.classes.retryable lists"},
		{"downstreams: [{http: {answers: {transient: {status: 429}}}}]", ""},
		{"downstreams: [{http: {answers: {logical: {status: 200, body: declined}}}}]", ""},
		{contract + "downstreams: [{http: {answers: {logical: {status: 200, body: declined}}}}]",
			"leave contract.classes.logical out"},
		{"contract: {classes: {retryable: [500, timeout]}}\ndownstreams: [{http: {}}]",
			"transient is answered 503, which contract.classes does not list: add 503 to retryable, or answer"},
		{"contract: {classes: {retryable: [503, timeout], permanent: [], logical: [409, 422]}}\ndownstreams: [{http: {}}]",
			""},
		{"downstreams: [{http: {answers: {permanent: {status: 200}}}}]", "200 tells nobody that it failed"},
		{"downstreams: [{http: {answers: {success: {status: 302}}}}]", "302 is no success"},
		{"downstreams: [{http: {answers: {logical: {status: 302}}}}]", "302 is a redirection"},
	} {
		_, err := ParseSubject("subject.yaml", []byte(service+one.text+"\n"))
		if one.want == "" && err != nil || one.want != "" && (err == nil || !strings.Contains(err.Error(), one.want)) {
			t.Errorf("%s\n%v\nwant %q", one.text, err, one.want)
		}
	}
}

func TestStatusesOfAnswersDecideClasses(t *testing.T) {
	subject, err := ParseSubject("subject.yaml", []byte(service+`
downstreams:
  - http: {answers: {transient: {status: 500}, permanent: {status: 422}, logical: {status: 409}}}
contract: {classes: {retryable: [500, 503, timeout], permanent: [422, 429, 418], logical: [409]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	contract, err := subject.HistoryContract()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(contract.Retryable, []history.Outcome{history.OutcomeTransient, history.OutcomeTimeout}) ||
		!slices.Equal(contract.Permanent, []history.Outcome{history.OutcomePermanent, history.OutcomeRateLimited}) ||
		!slices.Equal(contract.Logical, []history.Outcome{history.OutcomeLogical}) {
		t.Errorf("classes %v, %v, %v", contract.Retryable, contract.Permanent, contract.Logical)
	}
	text, err := subject.Describe()
	if err != nil || !slices.ContainsFunc(text.Promises, func(line string) bool {
		return strings.HasPrefix(line, "Retried: 500, time-outs. Final at once: 422, 429. Business failures: 409")
	}) {
		t.Errorf("described as %q, %v", text.Promises, err)
	}
}

// A promise says nothing of business failures and dead letters to a consumer that knows none.
func TestPromisesOfAConsumerWithoutDeadLetters(t *testing.T) {
	subject, err := ParseSubject("subject.yaml", []byte(service+`
contract: {classes: {retryable: [503], permanent: [400, 422]}, ordering: partition, dlq: {enabled: false}}
`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := subject.Describe()
	for _, want := range []string{"Retried: 503. Final at once: 400, 422.",
		"Records of a partition are processed in order: the next is begun once the one before is finished."} {
		if err != nil || !slices.Contains(text.Promises, want) {
			t.Errorf("described as %q, %v; want %q", text.Promises, err, want)
		}
	}
}

func TestProblemsOfDownstreams(t *testing.T) {
	for _, one := range [][2]string{
		{"downstreams: []", "there is no downstream in the list"},
		{"downstreams: [{http: {}}, {http: {}}]", "subject.yaml:4:27: downstreams[0] is called http already"},
		{"downstreams: [{amqp: {}}]", "amqp"},
		{"observe: wire\ndownstreams: [{http: {}}]", "observe: wire says"},
		{"downstreams: [{http: {id: {in: cookie}}}]", "cookie"},
		{"downstreams: [{http: {id: {in: path, name: x}}}]", "a path has no names"},
		{"downstreams: [{http: {id: {in: query, at: $.x}}}]", "it goes with in: body"},
		{"downstreams: [{http: {id: {in: body, at: x}}}]", "is not a place in a JSON value"},
		{"downstreams: [{http: {batch: true, id: {in: path}}}]", "the ids of all records are in the body"},
		{"downstreams: [{http: {batch: true, attempt: {first: /a, last: /b}}}]", "with batch, each call is an attempt"},
		{"downstreams: [{postgres: {}}, {http: {batch: true}}]", "leave batch out, or let it decide"},
		{"downstreams: [{http: {batch: true}}]\ncontract: {attempts: {calls: 2}}", "leave calls out, or batch"},
		{"downstreams: [{http: {}}, {postgres: {batch: true}}]", "leave batch out, or let it decide"},
		{"downstreams: [{postgres: {batch: true}}]\ncontract: {attempts: {calls: 2}}", "leave calls out, or batch"},
		{"downstreams: [{http: {items: {body: '{{.Items}}', transient: a, permanent: b}}}]", "add batch: true"},
		{"downstreams: [{http: {batch: true, items: {body: '{{.Items}}', transient: a}}}]", "permanent"},
		{"downstreams: [{http: {batch: true, items: {body: '{{.Succeeded}}', transient: a, permanent: b}}}]",
			"does not tell which records failed"},
		{"downstreams: [{http: {batch: true, items: {body: '{{.Failed}} {{.ID}}', transient: a, permanent: b}}}]",
			"the body of an answer with items knows no other values than"},
		{"downstreams: [{http: {batch: true, items: {body: '{{.Failed}}', transient: a, permanent: '{{.Items}}'}}}]",
			"an item knows no other values than {{.ID}}, {{.Index}} and {{.Error}}"},
		{"downstreams: [{http: {batch: true, items: {body: '{{.Failed}}', success: '{{.Error}}', transient: a, " +
			"permanent: b}}}]", "a success has no {{.Error}}"},
		{"downstreams: [{http: {batch: true, forward: 'http://127.0.0.1:1', items: {body: '{{.Failed}}', transient: a, " +
			"permanent: b}}}]", "leave items out, or forward"},
		{"downstreams: [{http: {batch: true, items: {body: '{{.Failed}}', transient: a, permanent: b, headers: " +
			"{Content-Length: x}}}}]", "the header Content-Length is set by dlqbench"},
		{"downstreams: [{http: {attempt: {first: /a}}}]", "last"},
		{"downstreams: [{http: {attempt: {first: get /a, last: /b}}}]", "first"},
		{"downstreams: [{http: {attempt: {first: GET /a?x, last: /b}}}]", "told by its method and path alone"},
		{"downstreams: [{http: {attempt: {first: /a, last: /a}}}]", "so each call is an attempt"},
		{"downstreams: [{http: {attempt: {first: /healthz, last: /a}}}]", "dlqbench answers /healthz itself"},
		{"downstreams: [{postgres: {}}, {http: {attempt: {first: /a, last: /b}}}]", "are no attempts"},
		{"downstreams: [{http: {attempt: {first: /a, last: /b}}}]\ncontract: {retry: topics, retry_topics: [r]}",
			"two copies of a record at once"},
		{"downstreams: [{http: {attempt: {first: GET /a, last: /b}, routes: [{path: /a, status: 404}]}}]",
			"404 is no success, but these calls belong to attempts"},
		{"downstreams: [{http: {routes: [{path: /a, status: 301, attempt: true}]}}]",
			"301 is no success, but these calls belong to attempts"},
		{"downstreams: [{postgres: {}}, {http: {routes: [{path: /a, attempt: true}]}}]", "are no attempts"},
		{"downstreams: [{http: {routes: [{path: token}]}}]", "path"},
		{"downstreams: [{http: {routes: [{path: /a?b}]}}]", "a route is told by its path alone"},
		{"downstreams: [{http: {routes: [{path: /a, headers: {Content-Length: x}}]}}]", "Content-Length is set by dlqbench"},
		{"downstreams: [{http: {answers: {success: {headers: {\"a b\": x}}}}}]", "can't be the name of an HTTP header"},
		{"downstreams: [{http: {answers: {success: {headers: {X: \"a\\r\\nb\"}}}}}]", "is one line"},
		{"downstreams: [{http: {answers: {success: {body: \"{{.Error}}\"}}}}]", "a success has no {{.Error}}"},
		{"downstreams: [{http: {answers: {transient: {body: \"{{.Key}}\"}}}}]", "knows no other values"},
		{"downstreams: [{http: {answers: {timeout: {status: 504}}}}]", "timeout"},
		{"downstreams: [{http: {answers: {transient: {body: " + strings.Repeat("x", 70_000) + "}}}}]", "64 KiB at most"},
	} {
		text, want := one[0], one[1]
		_, err := ParseSubject("subject.yaml", []byte(service+text+"\n"))
		var problems *Problems
		if !errors.As(err, &problems) || len(problems.Problems) > 2 || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s\n%.600v\nwant a problem with %q", text, err, want)
		}
	}
}

// The link to the schema registry exists only where the records have a schema.
func TestRegistryHasALink(t *testing.T) {
	dir := inFolder(t, map[string]string{
		"avro.yaml": service + "input: {samples: s.jsonl, id: {at: $.id}, format: avro, schema: a.avsc}\n",
		"json.yaml": service + "input: {samples: s.jsonl, id: {at: $.id}}\n", "s.jsonl": `{"id":"a"}`,
		"keys.jsonl": `{"key":"k","value":{"id":"a"}}`, "k.avsc": `"string"`,
		"framed.jsonl": `{"headers":{"ce_type":"x"},"value":{"id":"a"}}`,
		"a.avsc":       `{"type":"record","name":"A","fields":[{"name":"id","type":"string"}]}`,
	})
	const scenario = "name: x\ndescription: x\nworkload: {rate: 10/s, duration: 2s}\n" +
		"faults: [{at: 0s, for: 1s, network: {link: registry, down: true}}]\n"
	for subject, want := range map[string]string{"avro.yaml": "", "json.yaml": "which the subject does not ask"} {
		_, _, err := ParseForSubject("x.yaml", []byte(scenario), nil, filepath.Join(dir, subject))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", subject, err, want)
		}
	}
}
