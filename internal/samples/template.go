package samples

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"text/template"

	"github.com/brianvoe/gofakeit/v7"
)

// Templated is the number of records that are made from a template.
const Templated = 1000

// errTooLong ends a template that writes more than a file of samples may have.
var errTooLong = fmt.Errorf("its records have more than %d MiB together", maxFile>>20)

// FromTemplate makes Templated records from a template of Go's text/template, one in each line as Read takes them. Its
// functions are those of gofakeit, with data that is the same each time; json, which writes a value as JSON; and list,
// which makes a list of texts. $number counts the records from 0. JSON may have several lines, other values (plain) may
// not.
func FromTemplate(text string, plain bool) ([]byte, error) {
	parsed, err := template.New("template").Funcs(fakes(gofakeit.New(1))).Parse(
		fmt.Sprintf("{{range $number := %d}}%s\x00{{end}}", Templated, strings.TrimRight(text, "\r\n\t ")))
	if err != nil {
		return nil, err
	}
	var written limited
	if err := parsed.Execute(&written, nil); err != nil {
		return nil, err
	}
	var lines bytes.Buffer
	for record := range bytes.SplitSeq(bytes.TrimSuffix(written.Bytes(), []byte{0}), []byte{0}) {
		switch {
		case plain && bytes.ContainsRune(record, '\n'):
			return nil, fmt.Errorf("it makes several lines, such as %.40q: a record of this format is one line", record)
		case plain || json.Compact(&lines, record) != nil:
			lines.Write(bytes.ReplaceAll(record, []byte("\n"), []byte(" "))) // Read tells what is wrong with it
		}
		lines.WriteByte('\n')
	}
	return lines.Bytes(), nil
}

// limited refuses to grow beyond the size of a file of samples.
type limited struct{ bytes.Buffer }

// Write implements io.Writer.
func (l *limited) Write(text []byte) (int, error) {
	if l.Len()+len(text) > maxFile {
		return 0, errTooLong
	}
	return l.Buffer.Write(text)
}

// fakes are the functions of a template: the methods of a faker that return a value, and perhaps an error.
func fakes(faker *gofakeit.Faker) template.FuncMap {
	functions := template.FuncMap{
		"json": func(value any) (string, error) {
			text, err := json.Marshal(value)
			return string(text), err
		},
		"list": func(texts ...string) []string { return texts },
	}
	failure := reflect.TypeFor[error]()
	of := reflect.ValueOf(faker)
	for i := range of.NumMethod() {
		kind := of.Method(i).Type()
		if kind.NumOut() == 1 && kind.Out(0) != failure || kind.NumOut() == 2 && kind.Out(1) == failure {
			functions[of.Type().Method(i).Name] = of.Method(i).Interface()
		}
	}
	// These depend on the time of day, and a run that is repeated must have the same records.
	delete(functions, "PastDate")
	delete(functions, "FutureDate")
	return functions
}

// TemplateProblem is what is wrong with a template, by its line.
func TemplateProblem(err error) Problem {
	var at int
	text := err.Error()
	if _, rest, found := strings.Cut(text, "template: template:"); found {
		if _, err := fmt.Sscanf(rest, "%d", &at); err == nil {
			text = strings.TrimLeft(rest, "0123456789: ")
		}
	}
	if errors.Is(err, errTooLong) {
		text = errTooLong.Error()
	}
	return Problem{Line: max(at, 1), Column: 1, Message: "the template: " + text}
}
