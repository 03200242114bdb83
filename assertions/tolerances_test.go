package assertions

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// All tolerances and their lengths are defined in tolerances.go.
func TestTolerancesAreInOnePlace(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			declared, ok := node.(*ast.GenDecl)
			if !ok || declared.Tok != token.CONST {
				return true
			}
			ast.Inspect(declared, func(node ast.Node) bool {
				if used, ok := node.(*ast.SelectorExpr); ok && isTime(used) {
					found[file]++
					if file != "tolerances.go" {
						t.Errorf("%s: a constant of time; it belongs to tolerances.go, with its reason", fset.Position(used.Pos()))
					}
				}
				return true
			})
			return true
		})
	}
	if found["tolerances.go"] < 20 {
		t.Errorf("found %d times in tolerances.go: this test looks for the wrong thing", found["tolerances.go"])
	}
}

func isTime(used *ast.SelectorExpr) bool {
	from, ok := used.X.(*ast.Ident)
	return ok && from.Name == "time" && slices.Contains([]string{"Microsecond", "Millisecond", "Second", "Minute"},
		used.Sel.Name)
}
