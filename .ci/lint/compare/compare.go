// Package compare refuses comparisons in tests that don't show what differs: reflect.DeepEqual and printed values.
// cmp.Diff shows it.
package compare

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Analyzer reports comparisons that don't show what differs.
var Analyzer = &analysis.Analyzer{
	Name: "compare",
	Doc:  "reports reflect.DeepEqual and comparisons of printed values in tests",
	Run:  run,
}

func run(pass *analysis.Pass) (any, error) {
	for _, f := range pass.Files {
		if !strings.HasSuffix(pass.Fset.Position(f.Pos()).Filename, "_test.go") {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if function(pass, n) == "reflect.DeepEqual" {
					pass.Reportf(n.Pos(), "use cmp.Diff, which shows what differs, or cmp.Equal")
				}
			case *ast.BinaryExpr:
				if (n.Op == token.EQL || n.Op == token.NEQ) && (printed(pass, n.X) || printed(pass, n.Y)) {
					pass.Reportf(n.Pos(), "compare the values with cmp.Diff, not what they print")
				}
			}
			return true
		})
	}
	return nil, nil
}

// function returns the full name of the function that an expression names; empty: none.
func function(pass *analysis.Pass, e ast.Expr) string {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	fn, ok := pass.TypesInfo.Uses[sel.Sel].(*types.Func)
	if !ok {
		return ""
	}
	return fn.FullName()
}

// printed reports whether an expression prints values by fmt.Sprint. That of an error prints the message it has.
func printed(pass *analysis.Pass, e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok || function(pass, call.Fun) != "fmt.Sprint" {
		return false
	}
	return len(call.Args) != 1 || !types.Implements(pass.TypesInfo.TypeOf(call.Args[0]), errorType)
}

var errorType = types.Universe.Lookup("error").Type().Underlying().(*types.Interface)
