// Package columns refuses lines of more than 120 columns, a tab being four. Lines with a string literal too long to fit
// on its own may be longer.
package columns

import (
	"bufio"
	"go/ast"
	"go/token"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/tools/go/analysis"
)

const (
	limit    = 120
	tabWidth = 4
)

// Analyzer reports lines that are too long.
var Analyzer = &analysis.Analyzer{
	Name: "columns",
	Doc:  "reports lines of more than 120 columns",
	Run:  run,
}

func run(pass *analysis.Pass) (any, error) {
	for _, f := range pass.Files {
		file := pass.Fset.File(f.Pos())
		if ast.IsGenerated(f) || !strings.HasSuffix(file.Name(), ".go") {
			continue
		}
		long, err := longLines(pass.Fset, f, file)
		if err != nil {
			return nil, err
		}
		for _, n := range long {
			pass.Reportf(file.LineStart(n), "line is longer than %d columns", limit)
		}
	}
	return nil, nil
}

// longLines lists the lines of a file that are too long, by number.
func longLines(fset *token.FileSet, f *ast.File, file *token.File) ([]int, error) {
	r, err := os.Open(file.Name())
	if err != nil {
		return nil, err
	}
	defer r.Close()
	exempt := literalLines(fset, f)
	var long []int
	in := bufio.NewScanner(r)
	in.Buffer(nil, 16<<20)
	for n := 1; in.Scan(); n++ {
		if width(in.Text()) > limit && !exempt[n] {
			long = append(long, n)
		}
	}
	return long, in.Err()
}

// literalLines returns the lines inside raw strings, and those of single literals that alone fill half of a line.
func literalLines(fset *token.FileSet, f *ast.File) map[int]bool {
	out := map[int]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		from, to := fset.Position(lit.Pos()).Line, fset.Position(lit.End()).Line
		if from != to || lit.Value[0] == '`' {
			for l := from; l <= to; l++ {
				out[l] = true
			}
		} else if utf8.RuneCountInString(lit.Value) > limit/2 {
			out[from] = true
		}
		return true
	})
	return out
}

func width(s string) int {
	tabs := len(s) - len(strings.TrimLeft(s, "\t"))
	return tabs*tabWidth + utf8.RuneCountInString(s[tabs:])
}
