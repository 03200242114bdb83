package samples

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
)

func pattern(t testing.TB, text string) Pattern {
	t.Helper()
	p, err := ParsePattern(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A value that is not JSON is kept byte for byte, but for its id.
func TestPlainValues(t *testing.T) {
	binary := "\x00\xff id=o-1\x80"
	for name, c := range map[string]struct {
		plain       Plain
		lines, file string
		match, want string
	}{
		"text":           {PlainText, LinesValue, "  2026;o-1;12.50 \r\n\n", `^[^;]*;([^;]+)`, "  2026;ID;12.50 "},
		"whole match":    {PlainText, LinesValue, "id o-1 o-1", `o-\d`, "id ID o-1"},
		"text like JSON": {PlainText, LinesValue, `{"id":17}`, `\d+`, `{"id":ID}`},
		"text, envelope": {PlainText, LinesEnvelope, ` {"key":"o-1","value":"a\n\u00e9 o-1"} `, `o-\d`, "a\né ID"},
		"bytes": {PlainBytes, LinesValue, base64.StdEncoding.EncodeToString([]byte(binary)), `id=([a-z0-9-]+)`,
			"\x00\xff id=ID\x80"},
		"bytes, envelope": {PlainBytes, LinesEnvelope,
			`{"value":"` + base64.StdEncoding.EncodeToString([]byte(binary)) + `"}`,
			`(?s)^.{6}(.{3})`, "\x00\xff id=ID\x80"},
	} {
		set, problems := read(t, c.file, Options{Plain: c.plain, Lines: c.lines, ID: pattern(t, c.match)})
		if problems != nil {
			t.Errorf("%s: %+v", name, problems)
			continue
		}
		ids := history.NewIDsAs("run", set.Form, 10)
		if got := string(set.AppendValue(nil, 0, ids, 3, 0)); got != strings.ReplaceAll(c.want, "ID", ids.Token(3)) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if set.Shape() != (Shape{Plain: true}) || set.Enlarge(1000) {
			t.Errorf("%s has the shape %+v, or grows", name, set.Shape())
		}
		cut := set.AppendMalformed(nil, Truncated, 0, ids, 3)
		if _, found := ids.Find(cut); found || !bytes.HasPrefix(set.AppendValue(nil, 0, ids, 3, 0), cut) {
			t.Errorf("%s is truncated to %q", name, cut)
		}
	}
}

func TestProblemsOfPlainValues(t *testing.T) {
	for _, c := range []struct {
		plain             Plain
		lines, file, want string
	}{
		{PlainText, LinesValue, "a o-1\nb", "o-(.) matches nothing here"},
		{PlainText, LinesEnvelope, "{\"value\":\"o-1\"}\n{\"value\":17}", "the value is a number"},
		{PlainText, LinesEnvelope, "{\"value\":\"o-1\"}\no-1", "this line is not one JSON value"},
		{PlainBytes, LinesValue, "by0x\n?", "the value is not base64"},
	} {
		_, problems := read(t, c.file, Options{Plain: c.plain, Lines: c.lines, ID: pattern(t, "o-(.)")})
		if len(problems) != 1 || problems[0].Line != 2 || !strings.Contains(problems[0].Message, c.want) {
			t.Errorf("%q: %+v, want %q", c.file, problems, c.want)
		}
	}
	for text, want := range map[string]string{
		"(": "not a regular expression", "(a)(b)": "one group", strings.Repeat("a", 2000): "at most 1024",
	} {
		if _, err := ParsePattern(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v", text, err)
		}
	}
}

// FuzzPlain: whatever is read makes records that have their id, and are the sample otherwise.
func FuzzPlain(f *testing.F) {
	f.Add([]byte("a o-1\n"), `o-(\d)`, false, false)
	f.Add([]byte(`{"value":"by0x"}`), `(?s)..(.)`, true, true)
	f.Fuzz(func(t *testing.T, file []byte, expression string, isBytes, enveloped bool) {
		p, err := ParsePattern(expression)
		if err != nil {
			return
		}
		options := Options{Plain: PlainText, Lines: LinesValue, ID: p, As: history.IDText}
		if isBytes {
			options.Plain = PlainBytes
		}
		if enveloped {
			options.Lines = LinesEnvelope
		}
		set, problems := Read(bytes.NewReader(file), options)
		if set == nil {
			if len(problems) == 0 || problems[0].Message == "" {
				t.Fatalf("refused with %+v", problems)
			}
			return
		}
		ids := history.NewIDsAs("run", set.Form, set.Len())
		for i := range set.Len() {
			value := set.AppendValue(nil, int32(i), ids, int32(i), 0)
			if seq, found := ids.Find(value); !found || seq != int32(i) && !bytes.Contains(file, []byte("DLQB")) {
				t.Fatalf("found %d, %v in %q", seq, found, value)
			}
		}
	})
}
