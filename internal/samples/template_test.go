package samples

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
)

func TestFromTemplate(t *testing.T) {
	const text = `{
  "order": {"id": "{{UUID}}", "total": {{Price 1 500}}, "name": {{json (FirstName)}}, "note": "a\nb",
    "by": "{{RandomString (list "card" "invoice")}}"},
  "line": {{$number}}
}
`
	lines, err := FromTemplate(text, false)
	if err != nil {
		t.Fatal(err)
	}
	again, err := FromTemplate(text, false)
	if err != nil || !bytes.Equal(lines, again) {
		t.Errorf("another time, other records are made (%v)", err)
	}
	set, problems := Read(bytes.NewReader(lines), Options{Lines: LinesValue, ID: place(t, "$.order.id")})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if set.Form != history.IDUUID4 || len(set.samples) != Templated {
		t.Errorf("%d samples, ids as %s", len(set.samples), set.Form)
	}
	totals := map[float64]bool{}
	for i, line := range bytes.Split(bytes.TrimSpace(lines), []byte("\n")) {
		var one struct {
			Order struct {
				Total      float64
				Name, Note string
			}
			Line int
		}
		if err := json.Unmarshal(line, &one); err != nil || one.Line != i || one.Order.Name == "" ||
			one.Order.Note != "a\nb" {
			t.Fatalf("line %d, %s: %v", i, line, err)
		}
		totals[one.Order.Total] = true
	}
	if len(totals) < Templated/2 {
		t.Errorf("%d different prices in %d records", len(totals), Templated)
	}
}

func TestPlainTemplate(t *testing.T) {
	lines, err := FromTemplate("{{UUID}};{{Number 1 9}}\n", true)
	if err != nil || bytes.Count(lines, []byte("\n")) != Templated {
		t.Errorf("%d lines, %v", bytes.Count(lines, []byte("\n")), err)
	}
}

func TestTemplatesThatDoNotWork(t *testing.T) {
	for text, want := range map[string]string{
		"{\n\"id\": {{NoSuchThing}}\n}":   `2: the template: function "NoSuchThing" not defined`,
		"{\n\n\"id\": {{Price 1}}\n}":     "3: the template: ",
		"{{range 6000}}0123456789{{end}}": "",
		"{{range 7000}}0123456789{{end}}": "1: the template: its records have more than 64 MiB together",
		"{{PastDate}}":                    `1: the template: function "PastDate" not defined`,
		"{{if}}":                          "1: the template: ",
	} {
		_, err := FromTemplate(text, false)
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", text, err)
		case want != "" && err == nil:
			t.Errorf("%q is taken", text)
		case want != "":
			told := TemplateProblem(err)
			if got := strings.TrimSpace(string(rune('0'+told.Line)) + ": " + told.Message); !strings.HasPrefix(got, want) {
				t.Errorf("%q is told as %q, want %q", text, got, want)
			}
		}
	}
	if _, err := FromTemplate("a\nb", true); err == nil || !strings.Contains(err.Error(), "several lines") {
		t.Errorf("two lines: %v", err)
	}
}
