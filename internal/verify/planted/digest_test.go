package planted

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the digests again")

// A measurement of a bug is valid for one version of the code that plants it. If a digest in digests.txt did not match
// the code, outdated counts would be kept.
func TestDigestsAreCurrent(t *testing.T) {
	code := parse(t)
	var want strings.Builder
	for _, bug := range All() {
		fmt.Fprintf(&want, "%s %s\n", bug.Name, code.digest(t, bug))
	}
	if *update {
		if err := os.WriteFile("digests.txt", []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if digests != want.String() {
		t.Errorf("digests.txt is not that of the code: go test ./internal/verify/planted -run TestDigestsAreCurrent -update")
	}
	for _, bug := range All() {
		if len(bug.Digest()) != digestLength {
			t.Errorf("%s has the digest %q", bug.Name, bug.Digest())
		}
	}
}

// A bug's digest changes with the code that plants it and with everything that this code calls. It does not change with
// wording or with another bug.
func TestDigestFollowsTheCode(t *testing.T) {
	const before = `package planted
func list() []Bug {
	made := func(name, what string, plant int) Bug { return Bug{Name: name} }
	return []Bug{made("one", "says this", parker{}.Park()), made("two", "says that", 2)}
}
type parker struct{}
// Park is described.
func (parker) Park() int { return deep() }
func deep() int { return 1 }`
	of := func(text, name, what string) string {
		return parseTexts(t, map[string]string{"a.go": text}).digest(t, Bug{Name: name, What: what})
	}
	one, two := of(before, "one", "says this"), of(before, "two", "says that")
	for _, c := range []struct {
		what, from, to, says   string
		oneChanges, twoChanges bool
	}{
		{"what its helper's helper does", "return 1", "return 3", "says this", true, false},
		{"how all of the list are made", "Name: name", "Name: name, What: what", "says this", true, true},
		{"another bug", `"says that", 2`, `"says that", 4`, "says this", false, true},
		{"a comment", "is described", "is told", "says this", false, false},
		{"a line break", `"says that", 2`, "\"says that\",\n2,\n", "says this", false, false},
		{"its description", "says this", "says it better", "says it better", false, false},
	} {
		after := strings.Replace(before, c.from, c.to, 1)
		if got := of(after, "one", c.says) != one; got != c.oneChanges {
			t.Errorf("%s changed: the digest of the first bug does, too: %v", c.what, got)
		}
		if got := of(after, "two", "says that") != two; got != c.twoChanges {
			t.Errorf("%s changed: the digest of the second bug does, too: %v", c.what, got)
		}
	}
}

// code holds the declarations of the package.
type code struct {
	files *token.FileSet
	// of maps names to their declarations. A type's methods are among its declarations.
	of map[string][]ast.Node
	// lists are the functions, in file order.
	lists []*ast.FuncDecl
}

func parse(t *testing.T) *code {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, file := range files {
		if text, err := os.ReadFile(file); err != nil {
			t.Fatal(err)
		} else if !strings.HasSuffix(file, "_test.go") {
			texts[file] = string(text)
		}
	}
	return parseTexts(t, texts)
}

func parseTexts(t *testing.T, texts map[string]string) *code {
	t.Helper()
	c := &code{files: token.NewFileSet(), of: map[string][]ast.Node{}}
	for name, text := range texts {
		file, err := parser.ParseFile(c.files, name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range file.Decls {
			c.declare(declared)
		}
	}
	return c
}

func (c *code) declare(declared ast.Decl) {
	switch d := declared.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv == nil {
			c.lists = append(c.lists, d)
		} else {
			ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					name = id.Name
				}
				return true
			})
		}
		c.of[name] = append(c.of[name], d)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				c.of[s.Name.Name] = append(c.of[s.Name.Name], s)
			case *ast.ValueSpec:
				for _, name := range s.Names {
					c.of[name.Name] = append(c.of[name.Name], s)
				}
			}
		}
	}
}

// digest covers the bug's entry in its list, the statements that the list runs for all of its entries, and every
// declaration that these need.
func (c *code) digest(t *testing.T, bug Bug) string {
	t.Helper()
	nodes := c.entry(bug.Name)
	if len(nodes) == 0 {
		t.Fatalf("%s is in no list of the package by its name", bug.Name)
	}
	seen := map[string]bool{"Bug": true}
	for at := 0; at < len(nodes); at++ {
		ast.Inspect(nodes[at], func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && !seen[id.Name] {
				seen[id.Name] = true
				nodes = append(nodes, c.of[id.Name]...)
			}
			return true
		})
	}
	var texts []string
	for _, node := range nodes {
		var text bytes.Buffer
		if err := printer.Fprint(&text, c.files, node); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, strings.ReplaceAll(tokens(text.Bytes()), strconv.Quote(bug.What), `""`))
	}
	slices.Sort(texts)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(texts, "\n"))))[:digestLength]
}

// tokens is the code without comments, and independent of where lines and strings are broken.
func tokens(code []byte) string {
	var lexer scanner.Scanner
	files := token.NewFileSet()
	lexer.Init(files.AddFile("", files.Base(), len(code)), code, nil, 0)
	var words []string
	for {
		_, kind, text := lexer.Scan()
		n := len(words)
		switch {
		case kind == token.EOF:
			return strings.Join(words, " ")
		case kind == token.SEMICOLON:
			continue
		case kind == token.STRING && n > 1 && words[n-1] == "+" && strings.HasSuffix(words[n-2], `"`) && text[0] == '"':
			words = append(words[:n-2], words[n-2][:len(words[n-2])-1]+text[1:])
			continue
		case n > 0 && words[n-1] == "," && (kind == token.RBRACE || kind == token.RPAREN):
			words = words[:n-1]
		}
		words = append(words, cmp.Or(text, kind.String()))
	}
}

// entry returns the statements before a list of bugs and the list's entry with the name.
func (c *code) entry(name string) (nodes []ast.Node) {
	for _, list := range c.lists {
		ast.Inspect(list.Body, func(n ast.Node) bool {
			all, ok := n.(*ast.CompositeLit)
			if !ok || !isList(all) {
				return true
			}
			for _, entry := range all.Elts {
				if !says(entry, name) {
					continue
				}
				for _, statement := range list.Body.List {
					if _, end := statement.(*ast.ReturnStmt); !end {
						nodes = append(nodes, statement)
					}
				}
				nodes = append(nodes, entry)
			}
			return true
		})
	}
	return nodes
}

func isList(literal *ast.CompositeLit) bool {
	array, ok := literal.Type.(*ast.ArrayType)
	if !ok {
		return false
	}
	element, ok := array.Elt.(*ast.Ident)
	return ok && element.Name == "Bug"
}

func says(n ast.Node, name string) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		found = found || ok && literal.Value == strconv.Quote(name)
		return true
	})
	return found
}
