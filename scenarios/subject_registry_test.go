package scenarios

import (
	"encoding/base64"
	"maps"
	"path/filepath"
	"strings"
	"testing"
)

func TestAccessToARegistry(t *testing.T) {
	dir := inFolder(t, map[string]string{"secret": "user:pa:ss\n", "token": "abc.def\n", "two": "a:b\nc:d", "empty": "\n",
		"nobody": ":x"})
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("user:pa:ss"))
	lookup := func(name string) (string, bool) { return "tok", name == "SET" }
	for want, one := range map[string]OwnRegistry{
		"":           {},
		basic:        {CredentialsFile: "secret"},
		"Bearer tok": {CredentialsEnv: "SET"}, "Bearer abc.def": {CredentialsFile: filepath.Join(dir, "token")},
	} {
		if got, roots, err := one.Access(dir, lookup); err != nil || got != want || roots != nil {
			t.Errorf("%+v: %q, %v, %v; want %q", one, got, roots, err, want)
		}
	}
	for want, one := range map[string]OwnRegistry{
		"not one line": {CredentialsFile: "two"}, "are not one line": {CredentialsFile: "empty"},
		"UNSET is not set": {CredentialsEnv: "UNSET"}, "no such file": {CredentialsFile: "gone"},
		"no user": {CredentialsFile: "nobody"}, "no certificate": {CAFile: "secret"},
	} {
		_, _, err := one.Access(dir, lookup)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "pa:ss") {
			t.Errorf("%+v: %v, want %q", one, err, want)
		}
	}
}

func TestProblemsOfARegistryNameTheirPlace(t *testing.T) {
	dir := inFolder(t, map[string]string{"a.jsonl": `{"id":"a"}`, "secret": "user:pass",
		"a.avsc": `{"type":"record","name":"A","fields":[{"name":"id","type":"string"}]}`})
	for registry, want := range map[string]string{
		"{url: \"https://r.example:8081/api\", credentials_file: secret}":    "",
		"{url: \"r.example:8081\"}":                                          "subject.yaml:9:19: this is not the address",
		"{url: \"https://user:pass@r.example\"}":                             "has no credentials",
		"{url: \"https://r.example?x=y\"}":                                   "ends before ?",
		"{url: \"https://r\", credentials_file: secret, credentials_env: X}": "exclude each other",
		"{url: \"https://r\", credentials_env: DLQBENCH_UNSET}":              "DLQBENCH_UNSET is not set",
		"{url: \"https://r\", credentials_file: gone}":                       "no such file",
		"{credentials_file: secret}":                                         "url",
		"{url: \"https://r\"}\n  framing: apicurio":                          "Apicurio's ids are known",
	} {
		text := service + "input:\n  samples: a.jsonl\n  id: {at: $.id}\n  format: avro\n  schema: a.avsc\n  registry: " +
			registry + "\n"
		_, err := ParseSubject(filepath.Join(dir, "subject.yaml"), []byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s\n%v\nwant %q", registry, err, want)
		}
	}
	text := service + "input: {samples: a.jsonl, id: {at: $.id}, registry: {url: \"https://r\"}}\n"
	_, err := ParseSubject(filepath.Join(dir, "subject.yaml"), []byte(text))
	if err == nil || !strings.Contains(err.Error(), "registry is about records with a schema") {
		t.Error(err)
	}
}

// A variable for the address of the registry alone is left out where none is: clients would take an empty one for it.
func TestWithoutARegistryNoVariableHasItsAddress(t *testing.T) {
	subject, err := ParseSubject("subject.yaml", []byte(service+"env: {A: \"{{.SchemaRegistryURL}}\", B: \"\", "+
		"C: \"{{ .SchemaRegistryURL }}\", D: \"x{{.SchemaRegistryURL}}\"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]map[string]string{
		"":         {"B": "", "D": "x"},
		"http://r": {"A": "http://r", "B": "", "C": "http://r", "D": "xhttp://r"},
	} {
		rendered, err := subject.Render(Values{SchemaRegistryURL: url})
		if err != nil || !maps.Equal(rendered.Env, want) {
			t.Errorf("%q: %v %v, want %v", url, rendered.Env, err, want)
		}
	}
}
