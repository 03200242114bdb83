package scenarios

// Overrides from the command line: --set path=value changes the tree of a file before it is checked, so that an
// override is held to everything that the file is held to, and what is wrong with it is shown in the argument. The
// value null takes a key out.

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
)

// setFlag begins the File of problems in an override.
const setFlag = "--set "

// takeOut is the value that takes a key out, so that its default holds, or another key can have its place.
const takeOut = "null"

var setPath = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*(\[[0-9]+\])*(\.[A-Za-z_][A-Za-z0-9_-]*(\[[0-9]+\])*)*$`)
var setStep = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_-]*|[0-9]+`)

// Apply returns the text of a scenario with overrides "path=value" applied: "workload.rate=500/s", "faults[0].for=2s";
// the value is YAML. Without overrides it is data itself; with them comments are lost and the first lines tell what was
// set. The error is a *Problems.
func Apply(name string, data []byte, sets []string) ([]byte, error) {
	d := parseDocument(name, data)
	for _, set := range sets {
		d.set(set)
	}
	if problems := sorted(d.problems); problems != nil {
		return nil, problems
	}
	return d.text(data, sets, "")
}

// text is the document as it is after overrides and with another subject; data is what it was.
func (d *document) text(data []byte, sets []string, subject string) ([]byte, error) {
	if len(sets) == 0 && subject == "" {
		return data, nil
	}
	text, err := yaml.Marshal(d.root.ordered())
	if err != nil {
		return nil, fmt.Errorf("writing the scenario with its overrides: %w", err)
	}
	var head strings.Builder
	if subject != "" {
		fmt.Fprintf(&head, "# --subject %s\n", subject)
	}
	for _, set := range sets {
		fmt.Fprintf(&head, "# %s%s\n", setFlag, strings.ReplaceAll(set, "\n", " "))
	}
	return append([]byte(head.String()), text...), nil
}

// ordered returns the tree as values that keep the order of the keys.
func (n *node) ordered() any {
	switch n.kind {
	case mappingNode:
		all := yaml.MapSlice{}
		for _, name := range n.names {
			all = append(all, yaml.MapItem{Key: name, Value: n.fields[name].ordered()})
		}
		return all
	case listNode:
		all := []any{}
		for _, item := range n.items {
			all = append(all, item.ordered())
		}
		return all
	}
	return n.scalar
}

// set applies one override; what is wrong with it becomes a problem of the document.
func (d *document) set(argument string) {
	if d.root == nil {
		return // the file was no mapping: reported already
	}
	at := func(offset int) place {
		return place{file: setFlag + argument, line: 1, column: utf8.RuneCountInString(argument[:offset]) + 1,
			source: argument}
	}
	path, text, found := strings.Cut(argument, "=")
	if !found || !setPath.MatchString(path) {
		d.add(at(0), "write it as path=value, such as --set workload.rate=500/s or --set faults[0].for=2s", "")
		return
	}
	if text == takeOut {
		if message := d.root.without(setStep.FindAllString(path, -1)); message != "" {
			d.add(at(0), message, "")
		}
		return
	}
	value, problems := overrideValue(argument, text, at(len(path)+1))
	d.problems = append(d.problems, problems...)
	parent := d.root
	steps := setStep.FindAllStringIndex(path, -1)
	for i, step := range steps {
		name, here := path[step[0]:step[1]], at(step[0])
		next := &node{kind: mappingNode, fields: map[string]*node{}}
		if i == len(steps)-1 {
			next = value
		} else if existing := parent.child(name); existing != nil {
			parent = existing
			continue
		}
		next.key = here
		if next != value {
			next.at = here
		}
		if message := parent.put(name, next); message != "" {
			d.add(here, message, "")
			return
		}
		parent = next
	}
}

// without takes out the key that the steps lead to; it returns why it can't.
func (n *node) without(steps []string) string {
	parent, last := n, len(steps)-1
	for _, step := range steps[:last] {
		if parent = parent.child(step); parent == nil {
			break
		}
	}
	if parent == nil || parent.kind != mappingNode || parent.fields[steps[last]] == nil {
		return fmt.Sprintf("there is no key %s to take out", strings.Join(steps, "."))
	}
	delete(parent.fields, steps[last])
	parent.names = slices.DeleteFunc(parent.names, func(name string) bool { return name == steps[last] })
	return ""
}

// put sets a key of a mapping, replaces an entry of a list or appends one; it returns why it can't.
func (n *node) put(name string, value *node) string {
	index, err := strconv.Atoi(name)
	switch {
	case n.kind == mappingNode && err != nil:
		if n.fields[name] == nil {
			n.names = append(n.names, name)
		}
		n.fields[name] = value
	case n.kind == listNode && err == nil && index < len(n.items):
		n.items[index] = value
	case n.kind == listNode && err == nil && index == len(n.items):
		n.items = append(n.items, value)
	case n.kind == listNode && err == nil:
		return fmt.Sprintf("there is no entry [%d]: the list has %d, counted from 0", index, len(n.items))
	case n.kind == listNode:
		return fmt.Sprintf("%s can't be set here: this is a list, write [0] for its first entry", name)
	case err == nil:
		return fmt.Sprintf("[%d] can't be set here: this is no list", index)
	default:
		return fmt.Sprintf("%s can't be set here: what is before it has no keys", name)
	}
	return ""
}

// overrideValue parses the text after the = as YAML; every place in it is moved into the argument.
func overrideValue(argument, text string, begin place) (*node, []Problem) {
	d := &document{name: setFlag + argument}
	d.split(text)
	file, err := parseYAML(text)
	switch {
	case err != nil:
		d.problems = append(d.problems, d.syntax(err))
	case len(file.Docs) == 0 || file.Docs[0].Body == nil:
		d.add(d.place(1, 1), "there is no value behind the =", "")
	default:
		d.root = d.convert(file.Docs[0].Body, d.nodePlace(file.Docs[0].Body))
	}
	if d.root == nil {
		d.root = &node{bad: true}
	}
	d.root.shift(begin)
	for i := range d.problems {
		d.problems[i].Column += begin.column - 1
		d.problems[i].Line, d.problems[i].Source = 1, begin.source
	}
	return d.root, d.problems
}

func (n *node) shift(begin place) {
	for _, p := range []*place{&n.key, &n.at} {
		p.file, p.line, p.source = begin.file, 1, begin.source
		p.column = max(p.column, 1) + begin.column - 1
	}
	for _, child := range n.fields {
		child.shift(begin)
	}
	for _, item := range n.items {
		item.shift(begin)
	}
}
