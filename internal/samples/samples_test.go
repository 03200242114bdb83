package samples

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/history"
)

func place(t testing.TB, text string) Place {
	t.Helper()
	p, err := ParsePlace(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlacesAreFound(t *testing.T) {
	const value = ` {"a.b": {"c": ["x", {"d": "é\"q"}]}, "order" : {"lines":[1e999, {"id":"no"}], "id" : "yes"}, "n": 5} `
	for text, want := range map[string]string{
		"$.order.id": "yes", "$['order']['id']": "yes", `$["order"].id`: "yes", "$['a.b'].c[0]": "x",
		"$['a.b'].c[1].d": `é"q`, "$.order.lines[1].id": "no",
	} {
		got, err := place(t, text).Find([]byte(value))
		if err != nil || got.Text != want || got.Number {
			t.Errorf("%s leads to %+v, %v; want %q", text, got, err, want)
			continue
		}
		var decoded string
		if json.Unmarshal([]byte(value[got.From:got.To]), &decoded) != nil || decoded != want {
			t.Errorf("%s stands in %q", text, value[got.From:got.To])
		}
	}
	for text, want := range map[string]string{"$.n": "5", "$.order.lines[0]": "1e999"} {
		got, err := place(t, text).Find([]byte(value))
		if err != nil || got.Text != want || !got.Number || value[got.From:got.To] != want {
			t.Errorf("%s leads to %+v, %v; want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"$.order":          "$.order is an object, neither a string nor a number",
		"$.missing":        `no member "missing", only "a.b", "order", "n"`,
		"$.order.lines[2]": "the value.order.lines has no element 2: it has 2, numbered from 0", "$.n.x": "it is a number",
		"$[0]": "the value has no element 0: it is an object",
	} {
		if _, err := place(t, text).Find([]byte(value)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q in it", text, err, want)
		}
	}
}

func TestPathsThatLeadToNoPlaceAreRefused(t *testing.T) {
	for _, text := range []string{
		"", "$", "order.id", "$order", "$.", "$..id", "$.*", "$.a[*]", "$.a[-1]", "$.a[", "$.a['b", "$.a['b\"]", `$['a\'b']`,
		"$.a[1]b", "$.a[0:2]", "$.a[?(@.b)]", "$" + strings.Repeat(".a", 33),
	} {
		if p, err := ParsePlace(text); err == nil {
			t.Errorf("%q is read as %+v", text, p)
		}
	}
}

func read(t testing.TB, text string, options Options) (*Set, []Problem) {
	t.Helper()
	return Read(strings.NewReader(text), options)
}

func TestEverythingButTheIDIsKept(t *testing.T) {
	ids := history.NewIDsAs("run", history.IDUUID, 0)
	rapid.Check(t, func(t *rapid.T) {
		space := func() string { return rapid.StringMatching(`[ \t]{0,3}`).Draw(t, "space") }
		text := func() string { return string(must(json.Marshal(rapid.String().Draw(t, "text")))) }
		before := "{" + space() + `"note"` + space() + ":" + text() + "," + space() + `"order":{"amount":1.50E+3,"id":` +
			space()
		after := space() + `,"last":` + text() + "}" + space() + "}"
		set, problems := Read(strings.NewReader(before+text()+after+"\n"), Options{ID: must(ParsePlace("$.order.id"))})
		if problems != nil {
			t.Fatalf("%+v", problems)
		}
		seq := rapid.Int32Min(0).Draw(t, "seq")
		got := string(set.AppendValue(nil, 0, ids, seq, 0))
		if want := before + `"` + ids.Token(seq) + `"` + strings.TrimRight(after, " \t"); got != want {
			t.Fatalf("made %q, want %q", got, want)
		}
		if len(got) != set.Room(0, ids, 0) {
			t.Fatalf("%d bytes need room for %d", len(got), set.Room(0, ids, 0))
		}
		large := set.AppendValue(nil, 0, ids, seq, 5000)
		if !json.Valid(large) || len(large) != max(5000, len(got)) {
			t.Fatalf("filled up to %d bytes", len(large))
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Events often name what they are about twice, around their payload and in it, and services tell records apart by
// either. Digits alone may be the same by chance.
func TestTextsLikeTheIDGetIt(t *testing.T) {
	for _, one := range []struct{ sample, want string }{
		{`{"id":"o-1","n":"long","about":{"o-1":["o-1","o-12"],"id":"\u006f-1"}}`,
			`{"id":"ID","n":"long","about":{"o-1":["ID","o-12"],"id":"ID"}}`},
		{`{"about":{"id":"o-1"},"id":"o-1","n":"long"}`, `{"about":{"id":"ID"},"id":"ID","n":"long"}`},
		{`{"id":"1","n":"1","of":1}`, `{"id":"ID","n":"1","of":1}`},
		{`{"id":"","n":""}`, `{"id":"ID","n":""}`},
		{`{"id":"1.5","n":1.5}`, `{"id":"ID","n":1.5}`},
	} {
		set, problems := read(t, one.sample, Options{ID: place(t, "$.id"), As: history.IDText})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		ids := history.NewIDsAs("run", set.Form, 10)
		want := strings.ReplaceAll(one.want, "ID", string(ids.Append(nil, 5)))
		if got := string(set.AppendValue(nil, 0, ids, 5, 0)); got != want || len(got) != set.Room(0, ids, 0) {
			t.Errorf("the value is %s, want %s", got, want)
		}
		// A longer text is in the place of another one, not of the id.
		if changed := set.changed(&set.samples[0], true, []byte("ER")); strings.Contains(one.sample, "long") &&
			string(changed.join([]byte("ID"))) != strings.Replace(one.want, "long", "longER", 1) {
			t.Errorf("the value is changed to %s", changed.join([]byte("ID")))
		}
	}
}

func TestEnvelopes(t *testing.T) {
	const lines = `{"key": "o-1", "headers": {"type": "order", "ref": "o-1", "none": null}, "value": {"id": "o-1"}}
{"value": {"id": "o-2"}, "key": "customer-7"}

{"key": null, "value": {"id": "o-3"}}
{"key": {"tenant": 5}, "value": {"id": "o-4"}}
{"headers": {}, "value": {"id": "o-5"}}
{"value": {"id": "o-6"}, "key": "customer-7"}
`
	set, problems := read(t, "\ufeff"+strings.ReplaceAll(lines, "\n", "\r\n"),
		Options{Lines: LinesEnvelope, ID: place(t, "$.id")})
	if problems != nil {
		t.Fatalf("%+v", problems)
	}
	var kinds []string
	for i := range set.Len() {
		key := set.At(int32(i)).Key
		kinds = append(kinds, fmt.Sprintf("{%d %d}", key.Kind, key.Index))
	}
	if want := []string{"{3 0}", "{2 0}", "{1 0}", "{2 1}", "{0 0}", "{2 0}"}; !slices.Equal(kinds, want) {
		t.Errorf("keys %v, want %v", kinds, want)
	}
	if want := []string{"customer-7", `{"tenant": 5}`}; !slices.Equal(set.Keys(), want) || !set.HasKeys() {
		t.Errorf("keys %q", set.Keys())
	}
	headers := set.At(0).Headers
	if len(headers) != 3 || string(headers[0].Value) != "order" || headers[0].IsID || !headers[1].IsID ||
		headers[2].Value != nil {
		t.Errorf("headers %+v", headers)
	}
	if set.Form != history.IDText {
		t.Errorf("ids are written as %s", set.Form)
	}
	if value := set.AppendValue(nil, 1, history.NewIDs("r"), 1, 0); string(value) != `{"id": "`+
		history.NewIDs("r").Token(1)+`"}` {
		t.Errorf("made %s", value)
	}
}

func TestFormOfIDsFollowsTheSamples(t *testing.T) {
	const random, text = `{"id":"0B7E4A52-91d3-4c1f-8a60-5b1f0a3a9f10"}`, `{"id":"o-1"}`
	const uuid = `{"id":"01890A5D-AC96-774b-bcce-b302099a8057"}`
	const number, digits = `{"id":1017}`, `{"id":"01017"}`
	for lines, want := range map[string]history.IDForm{
		uuid: history.IDUUID, random: history.IDUUID4, random + "\n" + uuid: history.IDUUID,
		uuid + "\n" + random: history.IDUUID, random + "\n" + text: history.IDText, number: history.IDInt64,
		digits: history.IDInt64, number + "\n" + digits: history.IDInt64, digits + "\n" + text: history.IDText,
		`{"id":""}`: history.IDText, digits + "\n" + uuid: history.IDText,
	} {
		set, problems := read(t, lines, Options{ID: place(t, "$.id")})
		if problems != nil || set.Form != want {
			t.Errorf("%s: %+v, %+v, want %s", lines, set, problems, want)
		}
	}
	set, _ := read(t, text, Options{ID: place(t, "$.id"), As: history.IDUUID})
	other, _ := read(t, text, Options{ID: place(t, "$.id")})
	if set.Form != history.IDUUID || set.Digest() == other.Digest() {
		t.Errorf("form %s, digest %s", set.Form, set.Digest())
	}
}

func TestProblemsNameTheirLine(t *testing.T) {
	for name, one := range map[string]struct {
		text, lines  string
		line, column int
		want         string
	}{
		"no field": {"{\"id\":\"a\"}\n\n{\"ID\":\"b\"}", "", 3, 1,
			`there is no $.id: the value has no member "id", only "ID"`},
		"a list":         {`{"id":[17]}`, "", 1, 7, "$.id is an array, neither a string nor a number"},
		"a fraction":     {`{"id":1.5}`, "", 1, 7, "$.id is 1.5, but a number is an id only if it consists of digits alone"},
		"a number later": {"{\"id\":\"a\"}\n{\"id\": 17}", "", 2, 8, "$.id is a number here, but text in line 1"},
		"text later": {"{\"é\":1,\"id\":17}\n{\"é\":1,\"id\":\"a\"}", "", 2, 13,
			`$.id is "a" here, but a number in line 1`},
		"in an envelope": {`{"key":"é","value":{"id":-1}}`, LinesEnvelope, 1, 26, "$.id is -1"},
		"not JSON":       {"{\"id\":\"a\"}\n{\"id\":é}", "", 2, 7, "not one JSON value"},
		"an array":       {"[\n{\"id\":\"a\"}\n]", "", 1, 1, "jq -c"},
		"two values":     {`{"id":"a"} {"id":"b"}`, "", 1, 12, "not one JSON value"},
		"not UTF-8":      {"{\"id\":\"é\xff\"}", "", 1, 9, "not UTF-8"},
		"empty":          {" \n\n", "", 0, 0, "the file has no records"},
		"an envelope":    {`{"key":"k","value":{"id":"a"}}`, "", 1, 1, "write lines: envelope"},
		"no value":       {`{"key":"k"}`, LinesEnvelope, 1, 1, "no member value"},
		"no object":      {`"text"`, LinesEnvelope, 1, 1, "this is a string"},
		"unknown member": {`{"payload":{"id":"a"}}`, LinesEnvelope, 1, 1, `no member "payload"`},
		"twice":          {`{"value":{"id":"a"},"value":1}`, LinesEnvelope, 1, 1, `"value" is there twice`},
		"a header":       {`{"headers":{"n":5},"value":{"id":"a"}}`, LinesEnvelope, 1, 1, `the header "n" is a number`},
		"no headers":     {`{"headers":[],"value":{"id":"a"}}`, LinesEnvelope, 1, 1, "headers are an object"},
		"a long key": {`{"key":"` + strings.Repeat("k", maxKey+1) + `","value":{"id":"a"}}`, LinesEnvelope, 1, 1,
			"the key has 1025 bytes"},
		"a long line": {"{\"id\":\"a\"}\n\"" + strings.Repeat("x", MaxLine+10), "", 2, 1, "more than 900 KiB"},
	} {
		set, problems := read(t, one.text, Options{Lines: one.lines, ID: place(t, "$.id")})
		if set != nil || len(problems) != 1 || problems[0].Line != one.line || problems[0].Column != one.column ||
			!strings.Contains(problems[0].Message, one.want) {
			t.Errorf("%s: %+v, want line %d, column %d, %q", name, problems, one.line, one.column, one.want)
		}
	}
}

// A form that was asked for is needed from every sample.
func TestSamplesFitTheFormOfIDs(t *testing.T) {
	const uuid, text, number, digits = `{"id":"0b7e4a52-91d3-4c1f-8a60-5b1f0a3a9f10"}`, `{"id":"o-1"}`, `{"id":17}`,
		`{"id":"17"}`
	for _, one := range []struct {
		as   history.IDForm
		line string
		want string
	}{
		{history.IDInt64, number, ""}, {history.IDInt64, digits, ""}, {history.IDText, digits, ""},
		{history.IDUUID, text, ""}, {history.IDText, uuid, ""},
		{history.IDInt64, text, `$.id is "o-1", neither a number nor a string of digits, as ids with as: int64 are: write ` +
			`as: text`},
		{history.IDInt64, uuid, "or as: uuid for a UUID"},
		{history.IDInt64, `{"id":""}`, `$.id is "", neither a number nor a string of digits`},
		{history.IDInt64, `{"id":"-17"}`, "neither a number nor a string of digits"},
		{history.IDInt64, `{"id":1e3}`, "$.id is 1e3, but a number is an id only if it consists of digits alone"},
		{history.IDInt64, `{"id":null}`, "$.id is null, neither a string nor a number"},
		{history.IDText, number, "$.id is a number, not a string, as ids with as: text are: write as: int64"},
		{history.IDUUID, number, "ids with as: uuid are"}, {history.IDUUID4, number, "ids with as: uuid4 are"},
	} {
		set, problems := read(t, digits+"\n"+one.line, Options{ID: place(t, "$.id"), As: one.as})
		if one.want == "" && (problems != nil || set.Form != one.as) || one.want != "" && (len(problems) != 1 ||
			problems[0].Line != 2 || problems[0].Column != 7 || !strings.Contains(problems[0].Message, one.want)) {
			t.Errorf("%s as %s: %+v, want line 2, column 7, %q", one.line, one.as, problems, one.want)
		}
	}
}

// A number stays a number, and a string a string, whatever the file has.
func TestNumbersAreReplacedByNumbers(t *testing.T) {
	const lines = `{"value":{"n":17,"id":  17 },"key":"17","headers":{"ref":"17","n":"117"}}
{"value":{"id":"0018"},"key":18}
{"value":{"id":18},"key":18}
`
	set, problems := read(t, lines, Options{Lines: LinesEnvelope, ID: place(t, "$.id"), As: history.IDInt64})
	if problems != nil {
		t.Fatalf("%+v", problems)
	}
	ids := history.NewIDsAs("run", history.IDInt64, 10)
	for i, want := range []string{`{"n":17,"id":  ` + ids.Token(0) + ` }`, `{"id":"` + ids.Token(1) + `"}`,
		`{"id":` + ids.Token(2) + `}`} {
		got := string(set.AppendValue(nil, int32(i), ids, int32(i), 0))
		if got != want || len(got) != set.Room(int32(i), ids, 0) {
			t.Errorf("made %s, want %s", got, want)
		}
	}
	if headers := set.At(0).Headers; !headers[0].IsID || headers[1].IsID || set.At(0).Key.Kind != KeyID ||
		set.At(1).Key.Kind != KeyOwn || set.At(2).Key.Kind != KeyID {
		t.Errorf("headers %+v, keys %v, %v, %v", headers, set.At(0).Key, set.At(1).Key, set.At(2).Key)
	}
	if large := set.AppendValue(nil, 2, ids, 2, 500); len(large) != 500 || !json.Valid(large) {
		t.Errorf("filled up to %d bytes: %.60s", len(large), large)
	}
}

func TestProblemsAndFilesAreBounded(t *testing.T) {
	_, problems := read(t, "{\"id\":\"a\"}\n"+strings.Repeat("nothing\n", 5000), Options{ID: place(t, "$.id")})
	if len(problems) != maxProblems {
		t.Errorf("%d problems are told", len(problems))
	}
	_, problems = read(t, strings.Repeat("{\"id\":\"a\"}\n", maxLines+1), Options{ID: place(t, "$.id")})
	if len(problems) != 1 || problems[0].Line != maxLines+1 {
		t.Errorf("too many lines: %+v", problems)
	}
	line := []byte(`{"id":"a","pad":"` + strings.Repeat("x", MaxLine-100) + "\"}\n")
	_, problems = Read(bytes.NewReader(bytes.Repeat(line, maxFile/len(line)+2)), Options{ID: place(t, "$.id")})
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "64 MiB") {
		t.Errorf("a file that is too large: %+v", problems)
	}
}
