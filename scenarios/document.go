package scenarios

// A YAML file as a tree in which every key and value knows its place. Strict: one document, text keys, no key twice, no
// anchors and tags; what is refused is a problem, and the rest of the tree is kept so that one pass finds everything.

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// What is larger was not written by hand: maxFile bounds a scenario or subject file in bytes, maxLines in lines,
// because the parser takes time and memory that grow with the square of the number of keys in a block.
const (
	maxFile  = 256 << 10
	maxLines = 5000
)

// place is where a key or value stands.
type place struct {
	file         string
	line, column int
	source       string
}

func (p place) problem(message string) Problem {
	return Problem{File: p.file, Line: p.line, Column: p.column, Source: p.source, Message: message}
}

// node is a value of the tree: a mapping (keys), a list (items) or a scalar.
type node struct {
	// key is the place of its key, at the place of the value itself. For the entry of a list they are the same.
	key, at place
	kind    nodeKind
	names   []string
	fields  map[string]*node
	items   []*node
	scalar  any
	text    string
	// bad: something in it was reported already; it is left out when the tree is decoded.
	bad bool
}

type nodeKind int

const (
	scalarNode nodeKind = iota
	mappingNode
	listNode
)

// document is a file under examination: its tree and what was found wrong so far.
type document struct {
	name  string
	lines []string
	// widths are the lines' numbers of characters: there may be a hundred thousand values in one long line.
	widths   []int
	root     *node
	problems []Problem
	// nulls: a value may be null, as in documents that others define.
	nulls bool
}

// parseDocument reads the text; root is nil when it is no YAML at all.
func parseDocument(name string, data []byte) *document {
	d := &document{name: name}
	d.read(data)
	return d
}

// parseForeign reads a document that others define, such as AsyncAPI, in YAML or JSON.
func parseForeign(name string, data []byte) *document {
	d := &document{name: name, nulls: true}
	d.read(data)
	return d
}

func (d *document) read(data []byte) {
	if len(data) > maxFile {
		d.problems = append(d.problems,
			Problem{File: d.name, Message: fmt.Sprintf("the file has %d bytes; more than 256 KiB is not read", len(data))})
		return
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	// YAML's line breaks are CRLF, LF and CR alone (YAML 1.2.2, 5.4): the parser counts all three.
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	d.split(text)
	if len(d.lines) > maxLines {
		d.problems = append(d.problems, d.place(maxLines+1, 1).problem(fmt.Sprintf("the file has %d lines; more than %d "+
			"are not read", len(d.lines), maxLines)))
		return
	}
	if line, column, ok := firstInvalid(text); !ok {
		d.problems = append(d.problems, d.place(line, column).problem("the file is no valid UTF-8 text here"))
		return
	}
	if line, column, deep := tooDeep(text); deep {
		d.problems = append(d.problems, d.place(line, column).problem("the file is nested too deeply here"))
		return
	}
	file, err := parseYAML(text)
	if err != nil {
		d.problems = append(d.problems, d.syntax(err))
		return
	}
	d.build(file)
}

func (d *document) split(text string) {
	d.lines = strings.Split(text, "\n")
	for _, line := range d.lines {
		d.widths = append(d.widths, utf8.RuneCountInString(line))
	}
}

func firstInvalid(text string) (line, column int, ok bool) {
	line, column = 1, 1
	for i, r := range text {
		if _, size := utf8.DecodeRuneInString(text[i:]); r == utf8.RuneError && size == 1 {
			return line, column, false
		}
		if column++; r == '\n' {
			line, column = line+1, 1
		}
	}
	return 0, 0, true
}

// parseYAML parses; the parser panics on some malformed texts, which must not end the program that reports them.
func parseYAML(text string) (file *ast.File, err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			err = errors.New("the file is not YAML")
		}
	}()
	return parser.ParseBytes([]byte(text), 0, parser.AllowDuplicateMapKey())
}

func (d *document) syntax(err error) Problem {
	var positioned yaml.Error
	if !errors.As(err, &positioned) || positioned.GetToken() == nil {
		return Problem{File: d.name, Message: err.Error()}
	}
	return d.tokenPlace(positioned.GetToken()).problem("this is not YAML: " + positioned.GetMessage())
}

func (d *document) place(line, column int) place {
	p := place{file: d.name, line: max(line, 1), column: max(column, 1)}
	if p.line <= len(d.lines) {
		p.source = d.lines[p.line-1]
		// The parser places an absent value behind the end of its line.
		p.column = min(p.column, d.widths[p.line-1]+1)
	}
	return p
}

func (d *document) tokenPlace(t *token.Token) place {
	if t == nil || t.Position == nil {
		return d.place(1, 1)
	}
	return d.place(t.Position.Line, t.Position.Column)
}

func (d *document) add(at place, message, hint string) {
	problem := at.problem(message)
	problem.Hint = hint
	d.problems = append(d.problems, problem)
}

func (d *document) build(file *ast.File) {
	var bodies []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.CommentType {
			bodies = append(bodies, doc.Body)
		}
	}
	if len(bodies) == 0 {
		d.add(d.place(1, 1), "the file is empty", "")
		return
	}
	if len(bodies) > 1 {
		d.add(d.tokenPlace(bodies[1].GetToken()), "a second document begins here: write one per file", "")
	}
	d.root = d.convert(bodies[0], d.place(1, 1))
	if d.root.kind != mappingNode {
		if !d.root.bad {
			d.add(d.root.at, "the file must be a mapping: keys and values such as name: smoke", "")
		}
		d.root = nil
	}
}

// convert turns a node of the parser into one of the tree.
func (d *document) convert(from ast.Node, key place) *node {
	n := &node{key: key, at: key}
	if from == nil {
		return n
	}
	n.at = d.tokenPlace(from.GetToken())
	switch v := from.(type) {
	case *ast.MappingNode:
		d.mapping(n, v.Values, v.GetToken(), v.IsFlowStyle)
	case *ast.MappingValueNode:
		d.mapping(n, []*ast.MappingValueNode{v}, v.GetToken(), v.IsFlowStyle)
	case *ast.SequenceNode:
		n.kind = listNode
		for _, item := range v.Values {
			at := d.nodePlace(item)
			n.items = append(n.items, d.convert(item, at))
		}
	default:
		d.scalar(n, from)
	}
	return n
}

// nodePlace is where a value begins; a block mapping begins at its first key, not at the colon that is its token.
func (d *document) nodePlace(from ast.Node) place {
	switch v := from.(type) {
	case *ast.MappingNode:
		if !v.IsFlowStyle && len(v.Values) > 0 {
			return d.tokenPlace(v.Values[0].Key.GetToken())
		}
	case *ast.MappingValueNode:
		return d.tokenPlace(v.Key.GetToken())
	}
	return d.tokenPlace(from.GetToken())
}

func (d *document) mapping(n *node, values []*ast.MappingValueNode, start *token.Token, flow bool) {
	n.kind, n.fields = mappingNode, map[string]*node{}
	if !flow && len(values) > 0 {
		start = values[0].Key.GetToken()
	}
	n.at = d.tokenPlace(start)
	for _, value := range values {
		at := d.tokenPlace(value.Key.GetToken())
		name, ok := keyText(value.Key)
		if !ok {
			d.add(at, "keys are plain text here: no anchors, merges, numbers or nested keys", "")
			continue
		}
		if earlier, twice := n.fields[name]; twice {
			d.add(at, fmt.Sprintf("the key %s is here twice: it was set in line %d already", name, earlier.key.line), "")
			continue
		}
		n.names = append(n.names, name)
		n.fields[name] = d.convert(value.Value, at)
	}
}

func keyText(key ast.MapKeyNode) (string, bool) {
	switch v := key.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.MergeKeyNode, *ast.MappingKeyNode, *ast.AliasNode, *ast.AnchorNode, *ast.TagNode:
		return "", false
	}
	return key.GetToken().Value, true
}

func (d *document) scalar(n *node, from ast.Node) {
	refuse := func(message string) {
		n.bad = true
		d.add(n.at, message, "")
	}
	n.text = from.GetToken().Value
	switch v := from.(type) {
	case *ast.NullNode:
		if d.nulls {
			return
		}
		refuse("there is no value here: write one, or leave the key out")
	case *ast.StringNode:
		n.scalar, n.text = v.Value, v.Value
	case *ast.LiteralNode:
		n.scalar, n.text = v.Value.Value, v.Value.Value
	case *ast.BoolNode:
		n.scalar = v.Value
	case *ast.IntegerNode:
		n.scalar = v.Value
	case *ast.FloatNode:
		if n.scalar = v.Value; math.IsInf(v.Value, 0) || math.IsNaN(v.Value) {
			refuse("this number is too large")
		}
	case *ast.InfinityNode, *ast.NanNode:
		refuse("this is not a number that can be used here")
	case *ast.AnchorNode, *ast.AliasNode:
		refuse("anchors and aliases are not read here: write the value out")
	case *ast.TagNode:
		refuse("tags are not read here: write the plain value")
	default:
		refuse(fmt.Sprintf("a %s can't stand here", strings.ToLower(from.Type().String())))
	}
}

// get returns the node at the path ("/faults/0/kafka/error"), nil if there is none.
func (n *node) get(path string) *node {
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if n == nil || part == "" {
			return n
		}
		n = n.child(unescape(part))
	}
	return n
}

func (n *node) child(name string) *node {
	if n.kind == listNode {
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i >= len(n.items) {
			return nil
		}
		return n.items[i]
	}
	return n.fields[name]
}

// nearest returns the deepest node on the path.
func (n *node) nearest(path string) *node {
	for path != "" {
		if found := n.get(path); found != nil {
			return found
		}
		path = path[:strings.LastIndex(path, "/")]
	}
	return n
}

func escape(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

func unescape(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
}

// value returns the tree as plain values; what is bad is left out of mappings. An entry of a list stays, so that the
// others keep their numbers; if only sound values are asked for, a bad one becomes nil.
func (n *node) value(sound bool) any {
	switch n.kind {
	case mappingNode:
		all := map[string]any{}
		for name, child := range n.fields {
			if !child.bad {
				all[name] = child.value(sound)
			}
		}
		return all
	case listNode:
		all := make([]any, len(n.items))
		for i, item := range n.items {
			if !sound || !item.bad {
				all[i] = item.value(sound)
			}
		}
		return all
	}
	return n.scalar
}
