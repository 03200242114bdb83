package scenarios

// The same strictness for files of other kinds, such as dlqbench.yaml: whoever owns one brings its JSON Schema and its
// type, and gets the tree in which every key and value knows its place.

import (
	"cmp"
	"strings"
)

// Strict is a file that was held to a JSON Schema, and what was found wrong with it so far.
type Strict struct{ checker *checker }

// DecodeStrict decodes a YAML file over what into holds, as strictly as a scenario: one document, text keys, no key
// twice, nothing that the JSON Schema does not know. The name stands in problems. What is wrong is gathered in the
// Strict, and left out of into; an error is one of the schema.
func DecodeStrict(name string, data, schema []byte, into any) (*Strict, error) {
	d := parseDocument(name, data)
	if err := d.decode(schema, into); err != nil {
		return nil, err
	}
	return &Strict{checker: newChecker(d, nil)}, nil
}

// Has tells whether there is something at the path ("/waive/0/until").
func (s *Strict) Has(path string) bool { return s.checker.root != nil && s.checker.has(path) }

// Sound tells that nothing was found wrong with what is at the path, and that it is there.
func (s *Strict) Sound(path string) bool { return s.Has(path) && s.checker.sound(path) }

// Where is the place of what is at the path, or of the nearest thing around it: a Problem without a message.
func (s *Strict) Where(path string) Problem {
	if s.checker.root == nil {
		return s.checker.place(1, 1).problem("")
	}
	n := s.checker.root.nearest(path)
	if s.checker.root.get(path) == nil {
		return n.key.problem("")
	}
	return n.at.problem("")
}

// Complain reports what is wrong at the path, unless something was found wrong there already; the hint may be "".
func (s *Strict) Complain(path, message, hint string) {
	if s.checker.root != nil {
		s.checker.hinted(path, message, hint)
	}
}

// Unknown reports a word at the path that is none of those that are known, and suggests the nearest.
func (s *Strict) Unknown(path, message, word string, known []string) {
	s.Complain(path, message, cmp.Or(hint(word, known), "known: "+strings.Join(known, ", ")))
}

// Threshold holds the text at the path to the language of thresholds; what is wrong is shown at its place inside the
// text.
func (s *Strict) Threshold(path, expression string) {
	if err := compileThreshold(expression); err != nil && s.checker.root != nil {
		s.checker.threshold(path, expression, err)
	}
}

// Add adds problems of other files that this one names.
func (s *Strict) Add(problems ...Problem) {
	s.checker.problems = append(s.checker.problems, problems...)
}

// Relative is a path that the file names, relative to the working directory.
func (s *Strict) Relative(path string) string { return Beside(s.checker.name, path) }

// Subject reads the subject file that is named at the path. It reports what is wrong with it, and returns nil then.
func (s *Strict) Subject(path, file string) *SubjectFile {
	return s.checker.loadSubject(path, file)
}

// Err is a *Problems with everything that is wrong, in the order of the lines; nil if nothing is.
func (s *Strict) Err() error {
	if problems := sorted(s.checker.problems); problems != nil {
		return problems
	}
	return nil
}

// KeyAt is the line and the column of a key in a file, such as "/contract/dlq", or of the nearest key around it; 1 and
// 1 if there is none.
func KeyAt(data []byte, path string) (line, column int) {
	d := parseDocument("", data)
	if d.root == nil {
		return 1, 1
	}
	at := d.root.nearest(strings.TrimSuffix(path, "/")).key
	return max(at.line, 1), max(at.column, 1)
}
