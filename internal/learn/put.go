package learn

// Adding entries to a subject file, whose text stays as it is otherwise.

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/dlqbench/dlqbench/scenarios"
)

// entry is a key of a subject file, and what is put there.
type entry struct {
	// path leads to the key, such as contract, dlq, topic.
	path []string
	// value is what stands behind the key: in one line, or lines of their own after a line break.
	value string
	// seen says what it was found from.
	seen string
}

// put adds an entry to the file, at the beginning of the mapping that it belongs to. The error reports a file that
// cannot be read.
func put(file []byte, e entry) ([]byte, error) {
	parsed, err := parser.ParseBytes(file, 0)
	if err != nil {
		return nil, fmt.Errorf("reading the subject file: %w", err)
	}
	if len(parsed.Docs) == 0 || parsed.Docs[0].Body == nil {
		return append(file, e.block(0, "")...), nil
	}
	within, depth := mappingOf(parsed.Docs[0].Body), 0
	for depth < len(e.path)-1 {
		inner := member(within, e.path[depth])
		if inner == nil {
			break
		}
		within, depth = mappingOf(inner.Value), depth+1
		if within == nil {
			return nil, fmt.Errorf("%s in the subject file holds no keys", strings.Join(e.path[:depth], "."))
		}
	}
	if within.IsFlowStyle {
		text := e.flow(depth)
		if len(within.Values) > 0 {
			text += ", "
		}
		return behind(file, within.Start.Position, text), nil
	}
	first := within.Values[0]
	indent := strings.Repeat(" ", first.Key.GetToken().Position.Column-1)
	if depth > 0 {
		return atLine(file, first.Key.GetToken().Position.Line, e.block(depth, indent)), nil
	}
	if contract := member(within, "contract"); contract != nil && e.path[0] != "contract" {
		return atLine(file, contract.Key.GetToken().Position.Line, e.block(0, "")), nil
	}
	if len(file) > 0 && file[len(file)-1] != '\n' {
		file = append(slices.Clip(file), '\n')
	}
	return append(slices.Clip(file), e.block(0, "")...), nil
}

// mappingOf returns a node as a mapping, nil if it is none.
func mappingOf(node ast.Node) *ast.MappingNode {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n
	case *ast.MappingValueNode:
		return &ast.MappingNode{BaseNode: n.BaseNode, Start: n.Start, Values: []*ast.MappingValueNode{n}}
	case *ast.AnchorNode:
		return mappingOf(n.Value)
	case *ast.TagNode:
		return mappingOf(n.Value)
	}
	return nil
}

// member returns the entry of a mapping with this key, nil if there is none.
func member(of *ast.MappingNode, key string) *ast.MappingValueNode {
	for _, one := range of.Values {
		if one.Key.GetToken().Value == key {
			return one
		}
	}
	return nil
}

// flow is the entry in a mapping in braces, which holds the keys of the path from depth on.
func (e entry) flow(depth int) string {
	last := len(e.path) - 1
	text := e.path[last] + ": " + e.value
	for i := last - 1; i >= depth; i-- {
		text = e.path[i] + ": {" + text + "}"
	}
	return text
}

// block is the entry in lines of its own.
func (e entry) block(depth int, indent string) []byte {
	var text bytes.Buffer
	for ; depth < len(e.path)-1; depth++ {
		text.WriteString(indent + e.path[depth] + ":\n")
		indent += "  "
	}
	for _, line := range scenarios.Hanging("", e.seen, textWidth-len(indent)) {
		if line != "" {
			text.WriteString(indent + "# " + line + "\n")
		}
	}
	value := strings.ReplaceAll(e.value, "\n", "\n"+indent)
	if !strings.HasPrefix(value, "\n") {
		value = " " + value
	}
	text.WriteString(indent + e.path[depth] + ":" + value + "\n")
	return text.Bytes()
}

// behind inserts a text behind the character at a position. Columns count characters, from 1.
func behind(file []byte, at *token.Position, text string) []byte {
	lines := bytes.SplitAfter(file, []byte("\n"))
	line := []rune(string(lines[at.Line-1]))
	lines[at.Line-1] = []byte(string(line[:at.Column]) + text + string(line[at.Column:]))
	return bytes.Join(lines, nil)
}

// atLine inserts a text before a line, and before the comments directly above it.
func atLine(file []byte, number int, text []byte) []byte {
	lines := bytes.SplitAfter(file, []byte("\n"))
	at := number - 1
	for at > 0 && bytes.HasPrefix(bytes.TrimSpace(lines[at-1]), []byte("#")) {
		at--
	}
	return slices.Concat(bytes.Join(lines[:at], nil), text, bytes.Join(lines[at:], nil))
}
