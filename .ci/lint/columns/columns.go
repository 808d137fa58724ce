// Package columns refuses lines of more than 120 columns, a tab being four. Rows of literals in tables of data may be longer, and
// lines that carry a string literal too long to fit by itself.
package columns

import (
	"bufio"
	_ "embed"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/tools/go/analysis"
)

const (
	limit    = 120
	tabWidth = 4
)

// debt lists how many long lines each file may still have: "count path", one a line. It may only shrink.
//
//go:embed debt.txt
var debt string

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
		allowed := allowance(file.Name())
		switch {
		case len(long) > allowed:
			for _, n := range long {
				pass.Reportf(file.LineStart(n), "line is longer than %d columns (%d such lines here, %d allowed)", limit, len(long), allowed)
			}
		case len(long) < allowed:
			pass.Reportf(file.Pos(0), "%d long lines are left here and .ci/lint/columns/debt.txt allows %d: lower it", len(long), allowed)
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

// literalLines are the lines inside raw strings, and those of single literals that alone fill half of a line.
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

// allowance is how many long lines the debt list grants a file.
func allowance(name string) int {
	name = filepath.ToSlash(name)
	for row := range strings.Lines(debt) {
		count, path, ok := strings.Cut(strings.TrimSpace(row), " ")
		if ok && strings.HasSuffix(name, "/"+path) {
			if n, err := strconv.Atoi(count); err == nil {
				return n
			}
			panic(fmt.Sprintf("debt.txt: %q is not a number", count))
		}
	}
	return 0
}
