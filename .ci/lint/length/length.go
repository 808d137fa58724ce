// Package length refuses functions of more than 60 lines, tests and generated code apart.
package length

import (
	"go/ast"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

const limit = 60

// long are the functions that may be longer, by package. The package's comment says why.
var long = map[string][]string{
	"builders/internal/natcompat":    {"mergeLo", "mergeHi"},
	"cmd/nat-go/internal/cli":        {"feeds"},
	"ttc/json":                       {"scan"},
	"ttc/source/internal/claudecode": {"parseLine"},
}

// Analyzer reports functions that are too long.
var Analyzer = &analysis.Analyzer{
	Name: "length",
	Doc:  "reports functions of more than 60 lines",
	Run:  run,
}

func run(pass *analysis.Pass) (any, error) {
	allowed := long[strings.TrimPrefix(pass.Pkg.Path(), "github.com/nat-go/nat-go/")]
	for _, f := range pass.Files {
		if ast.IsGenerated(f) || strings.HasSuffix(pass.Fset.Position(f.Pos()).Filename, "_test.go") {
			continue
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || slices.Contains(allowed, fn.Name.Name) {
				continue
			}
			lines := pass.Fset.Position(fn.End()).Line - pass.Fset.Position(fn.Pos()).Line + 1
			if lines > limit {
				pass.Reportf(fn.Pos(), "%s has %d lines, more than %d", fn.Name.Name, lines, limit)
			}
		}
	}
	return nil, nil
}
