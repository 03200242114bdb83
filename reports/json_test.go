package reports

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// verdictSchema compiles the committed schema, which is the published one.
func verdictSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	file := must.Get(os.ReadFile("verdict.schema.json"))(t)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(file))
	if err != nil {
		t.Fatalf("reading the schema: %v", err)
	}
	compiler := jsonschema.NewCompiler()
	must.Do(t, compiler.AddResource(VerdictSchemaID, document))
	schema, err := compiler.Compile(VerdictSchemaID)
	if err != nil {
		t.Fatalf("compiling the schema: %v", err)
	}
	return schema
}

func TestVerdictsValidate(t *testing.T) {
	schema := verdictSchema(t)
	runs := fixtures()
	runs["empty"] = Run{Verdict: &assertions.Verdict{Verdict: assertions.Inconclusive}}
	runs["hostile"] = injected(hostile)
	for name, run := range runs {
		instance, err := jsonschema.UnmarshalJSON(bytes.NewBufferString(render(t, run, JSON)))
		if err != nil {
			t.Fatalf("%s is no JSON: %v", name, err)
		}
		if err := schema.Validate(instance); err != nil {
			t.Errorf("%s does not validate: %v", name, err)
		}
	}
}

func TestVerdictSchemaRefuses(t *testing.T) {
	schema := verdictSchema(t)
	for name, spoil := range map[string]func(map[string]any){
		"a status that is none":    func(v map[string]any) { v["verdict"] = "maybe" },
		"no invariants":            func(v map[string]any) { delete(v, "invariants") },
		"invariants that are null": func(v map[string]any) { v["invariants"] = nil },
		"a seed in words":          func(v map[string]any) { v["seed"] = "forty-two" },
		"a fault without window":   func(v map[string]any) { delete(v["faults"].([]any)[0].(map[string]any), "planned") },
	} {
		var v map[string]any
		must.Do(t, json.Unmarshal([]byte(render(t, failRun(), JSON)), &v))
		spoil(v)
		if schema.Validate(v) == nil {
			t.Errorf("the schema accepts %s", name)
		}
	}
}

func TestJSONReadsBack(t *testing.T) {
	want := complete(failRun().Verdict)
	var got assertions.Verdict
	must.Do(t, json.Unmarshal([]byte(render(t, failRun(), JSON)), &got))
	// Hostile bytes that are not UTF-8 cannot survive JSON. Everything else must.
	got.Invariants[9].Anomalies, want.Invariants[9].Anomalies = nil, nil
	got.Logs, want.Logs = nil, nil
	got.Roots, want.Roots = got.Roots[:1], want.Roots[:1]
	// Curves are written with fewer digits than they have, and NaN is not equal to itself. So the test compares what
	// is written after reading with the original text.
	if g, w := jsonOf(t, got.Series)+jsonOf(t, got.Percentiles),
		jsonOf(t, want.Series)+jsonOf(t, want.Percentiles); g != w || len(g) < 10_000 {
		t.Errorf("the curves read back are %.300s, want %.300s", g, w)
	}
	got.Series, want.Series, got.Percentiles, want.Percentiles = measure.Series{}, measure.Series{}, nil, nil
	for i := range reflect.TypeOf(got).NumField() {
		if g, w := reflect.ValueOf(got).Field(i).Interface(),
			reflect.ValueOf(*want).Field(i).Interface(); !reflect.DeepEqual(g, w) {
			t.Errorf("%s read back is %.300v, want %.300v", reflect.TypeOf(got).Field(i).Name, g, w)
		}
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	out := must.Get(json.Marshal(v))(t)
	return string(out)
}

// A curve takes one line of the file, because people read the file for other content.
func TestJSONWritesNumbersOnOneLine(t *testing.T) {
	run := failRun()
	run.Verdict.Reasons = []string{"a list [\n1,\n2\n] in a text stays"}
	out := render(t, run, JSON)
	if lines := strings.Count(out, "\n"); lines > 6000 {
		t.Errorf("the file has %d lines", lines)
	}
	for _, want := range []string{`"lag": [0, `, `"counts": [
      [],`, `a list [\n1,\n2\n] in a text stays`} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not hold %q", want)
		}
	}
}

func TestJSONDoesNotChangeTheVerdict(t *testing.T) {
	v := &assertions.Verdict{Invariants: []assertions.Result{{Anomalies: []assertions.Anomaly{{Counterexamples: []assertions.Counterexample{{}}}}}}}
	render(t, Run{Verdict: v}, JSON)
	if v.Reasons != nil || v.Invariants[0].Anomalies[0].Counterexamples[0].Trace != nil {
		t.Error("JSON has filled in the caller's own verdict")
	}
}

func TestWithoutVerdict(t *testing.T) {
	var b bytes.Buffer
	for name, err := range map[string]error{
		"Terminal": Terminal(&b, Run{}, false, false), "JSON": JSON(&b, Run{}), "JUnit": JUnit(&b, Run{}),
		"Markdown": Markdown(&b, Run{}), "HTML": HTML(&b, Run{}), "WriteAll": WriteAll(t.TempDir(), Run{}),
	} {
		if err == nil {
			t.Errorf("%s made a report of nothing", name)
		}
	}
	if b.Len() > 0 {
		t.Errorf("something was written: %q", b.String())
	}
}
