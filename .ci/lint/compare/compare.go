// Package compare refuses reflect.DeepEqual in tests: cmp.Diff shows what differs.
package compare

import (
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Analyzer reports comparisons that don't show what differs.
var Analyzer = &analysis.Analyzer{
	Name: "compare",
	Doc:  "reports reflect.DeepEqual in tests",
	Run:  run,
}

func run(pass *analysis.Pass) (any, error) {
	for _, f := range pass.Files {
		if !strings.HasSuffix(pass.Fset.Position(f.Pos()).Filename, "_test.go") {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			fn, ok := pass.TypesInfo.Uses[sel.Sel].(*types.Func)
			if ok && fn.FullName() == "reflect.DeepEqual" {
				pass.Reportf(sel.Pos(), "use cmp.Diff, which shows what differs, or cmp.Equal")
			}
			return true
		})
	}
	return nil, nil
}
