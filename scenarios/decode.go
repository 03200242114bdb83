package scenarios

// From text to a checked scenario or subject: read, override, hold to the schema, decode over the defaults, check what
// the schema can't say. A step looks only at what the steps before it found sound, so that one mistake is one problem.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Load reads the scenario file. The error is a *Problems when something is wrong with it.
func Load(path string) (*Scenario, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the scenario: %w", err)
	}
	return Parse(path, data)
}

// Parse decodes and checks a scenario. The name stands in problems, and subject.file is relative to its folder.
// The error is a *Problems with everything that is wrong.
func Parse(name string, data []byte) (*Scenario, error) {
	scenario, _, err := ParseWith(name, data, nil)
	return scenario, err
}

// ParseWith is Parse with overrides "path=value" (see Apply), in order; it also returns the text with them applied. The
// error is a *Problems with everything that is wrong in the file or in an override.
func ParseWith(name string, data []byte, sets []string) (*Scenario, []byte, error) {
	return ParseForSubject(name, data, sets, "")
}

// ParseForSubject is ParseWith with a subject.yaml, if not "", in the place of the scenario's own subject; it gets as
// many instances as that has. The scenario is checked against it, and its problems are reported too.
func ParseForSubject(name string, data []byte, sets []string, subject string) (*Scenario, []byte, error) {
	d := parseDocument(name, data)
	written := d.instances().whole()
	for _, set := range sets {
		d.set(set)
	}
	if subject != "" {
		d.replaceSubject(subject)
	}
	d.fit(written, subject)
	scenario := defaultScenario()
	if err := d.decode(scenarioSchema, &scenario); err != nil {
		return nil, nil, err
	}
	if d.root != nil {
		scenario.fill(d.root)
		folder := filepath.Dir(name)
		if subject != "" {
			folder = ""
		}
		c := newChecker(d, &scenario)
		c.check(folder)
		if subject != "" && c.file != nil {
			c.checkFits(name, data, sets)
		}
	}
	if problems := sorted(d.problems); problems != nil {
		return nil, nil, problems
	}
	source, err := d.text(data, sets, subject)
	return &scenario, source, err
}

// LoadSubject reads the subject file. The error is a *Problems when something is wrong with it.
func LoadSubject(path string) (*SubjectFile, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the subject: %w", err)
	}
	return ParseSubject(path, data)
}

// FilesOf returns the paths of the files that a run reads: the scenario, unless it is a shipped one, and the subject
// file, "" for none, with those that it names. The manifest of pods is not among them.
func FilesOf(scenario, subject string) ([]string, error) {
	var files []string
	if _, shipped := Shipped(scenario); !shipped {
		files = append(files, scenario)
	}
	if subject == "" {
		return files, nil
	}
	described, err := LoadSubject(subject)
	if err != nil {
		return nil, err
	}
	files = append(files, subject)
	for _, path := range described.Paths() {
		files = append(files, Beside(subject, path))
	}
	return files, nil
}

// Beside is a path that a file names, relative to the working directory.
func Beside(file, path string) string { return within(filepath.Dir(file), path) }

// within is a path that a file in the folder names.
func within(folder, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// ParseSubject decodes and checks a subject file. The error is a *Problems with everything that is wrong.
func ParseSubject(name string, data []byte) (*SubjectFile, error) {
	d := parseDocument(name, data)
	subject := defaultSubject()
	if err := d.decode(subjectSchema, &subject); err != nil {
		return nil, err
	}
	if d.root != nil {
		subject.fillExternal(d.root)
		subject.PortNames = portNames(d.root)
		d.checkSubject(&subject, filepath.Dir(name))
	}
	if problems := sorted(d.problems); problems != nil {
		return nil, problems
	}
	return &subject, nil
}

// decode holds the tree to the schema and decodes what is sound of it over what into holds.
func (d *document) decode(schemaText []byte, into any) error {
	if d.root == nil {
		return nil
	}
	shape, err := compileSchema(schemaText)
	if err != nil {
		return err
	}
	d.validate(shape)
	text, err := json.Marshal(d.root.value(true))
	if err != nil {
		return fmt.Errorf("decoding %s: %w", d.name, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		d.add(d.place(1, 1), fmt.Sprintf("decoding the file: %v", err), "")
	}
	return nil
}

// replaceSubject puts a subject file in the place of the scenario's subject, with the number of instances that was
// written there.
func (d *document) replaceSubject(path string) {
	if d.root == nil {
		return
	}
	at := place{file: "--subject " + path}
	entry := func(value any) *node { return &node{key: at, at: at, scalar: value, text: fmt.Sprint(value)} }
	subject := &node{key: at, at: at, kind: mappingNode, fields: map[string]*node{"file": entry(path)},
		names: []string{"file"}}
	instances := any(1)
	if d.root.get("/subject/file") != nil {
		instances = 2
	}
	if written := d.instances(); written != nil {
		instances = written.scalar
	}
	subject.fields["instances"], subject.names = entry(instances), append(subject.names, "instances")
	d.root.put("subject", subject)
}

// instances is where the scenario's number of instances is written; nil if it is not.
func (d *document) instances() *node {
	if d.root == nil {
		return nil
	}
	for _, from := range []string{"/subject/instances", "/subject/reference/instances"} {
		if written := d.root.get(from); written != nil && !written.bad {
			return written
		}
	}
	return nil
}

// whole is a whole number that is written in the document; -1 for no number.
func (n *node) whole() int {
	if n == nil || n.bad {
		return -1
	}
	if number, err := strconv.Atoi(fmt.Sprint(n.scalar)); err == nil {
		return number
	}
	return -1
}

// fill adds the defaults that depend on what else is written.
func (s *Scenario) fill(root *node) {
	s.Topics.DLQ.Partitions = cmp.Or(s.Topics.DLQ.Partitions, s.Topics.Input.Partitions)
	s.Topics.Retry.Partitions = cmp.Or(s.Topics.Retry.Partitions, s.Topics.Input.Partitions)
	if len(s.Workload.Steps) > 0 {
		s.Workload.Duration = 0
		for _, step := range s.Workload.Steps {
			s.Workload.Duration += step.For
		}
	}
	if root.get("/workload/outcomes") == nil {
		s.Workload.Outcomes.Success = 100
	}
	if s.Subject.File == "" && s.Subject.Reference == nil && s.Services == nil {
		reference := defaultReference()
		s.Subject.Reference = &reference
	}
	if s.Subject.File != "" && s.Subject.Instances == 0 {
		s.Subject.Instances = 2
	}
}

// InstanceCount returns the number of the subject's instances.
func (s *Scenario) InstanceCount() int {
	if s.Graph != nil {
		return s.Graph.Instances()
	}
	if s.Services != nil {
		return s.FirstOf(len(s.Services))
	}
	if s.Subject.Reference != nil {
		return s.Subject.Reference.Instances
	}
	return s.Subject.Instances
}

// MaxInstances returns how many instances the run can have at once: InstanceCount and what all faults that scale up
// add.
func (s *Scenario) MaxInstances() int {
	count := s.InstanceCount()
	for _, fault := range s.Written() {
		if fault.Subject != nil {
			count += fault.Subject.ScaleUp
		}
	}
	return count
}
