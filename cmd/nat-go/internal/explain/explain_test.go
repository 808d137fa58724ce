package explain

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/ttc/ledger"
)

// root is the module's folder.
const root = "../../../.."

var findingCode = regexp.MustCompile(`^NG\d{4}$`)

// usedCodes walks the module's Go source, tests and the registry aside, for what is meant to have a page: finding codes
// written as a literal, and literals that are made a ledger.Reason.
func usedCodes(t *testing.T) map[string][]string {
	t.Helper()
	used := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && e.Name() != ".." && strings.HasPrefix(e.Name(), "."), e.IsDir() && (e.Name() == "testdata" || e.Name() == "examples"): // examples are third parties: their reasons are their own
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		case strings.HasSuffix(filepath.ToSlash(path), "ttc/ledger/codes.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, code := range literals(file) {
			used[code] = append(used[code], path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return used
}

// literals lists the codes in a file.
func literals(file *ast.File) (codes []string) {
	add := func(e ast.Expr, any bool) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil && (any || findingCode.MatchString(s)) {
				codes = append(codes, s)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			add(n, false)
		case *ast.CallExpr: // ledger.Reason("...")
			if len(n.Args) == 1 && isReason(n.Fun) {
				add(n.Args[0], true)
			}
		case *ast.ValueSpec: // X ledger.Reason = "..."
			if isReason(n.Type) {
				for _, v := range n.Values {
					add(v, true)
				}
			}
		case *ast.KeyValueExpr: // Reason: "..."
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Reason" {
				add(n.Value, true)
			}
		}
		return true
	})
	return codes
}

func isReason(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Reason"
}

func TestEveryCodeInTheSourceHasAPage(t *testing.T) {
	used := usedCodes(t)
	if len(used["NG5001"]) == 0 {
		t.Fatal("the walk sees no codes")
	}
	for code, where := range used {
		if _, ok := ledger.Explain(code); !ok && !strings.Contains(code, "/") {
			t.Errorf("%s has no page; it is used in %v", code, where)
		}
	}
}

func TestEveryFindingWithAPageIsMade(t *testing.T) {
	used := usedCodes(t)
	for _, c := range ledger.Codes() {
		if findingCode.MatchString(c.Code) && len(used[c.Code]) == 0 {
			t.Errorf("%s has a page, but nothing reports it", c.Code)
		}
	}
}

// TestEveryReasonConstantHasAPage reads the registry's own source: a constant without an entry in the list.
func TestEveryReasonConstantHasAPage(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), root+"/ttc/ledger/codes.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Reason" {
			for _, v := range spec.Values {
				code, err := strconv.Unquote(v.(*ast.BasicLit).Value)
				if _, known := ledger.Explain(code); err != nil || !known {
					t.Errorf("%s has no page", code)
				}
				n++
			}
		}
		return true
	})
	if n < 20 {
		t.Errorf("only %d constants found", n)
	}
}

func TestPagesAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range ledger.Codes() {
		if c.Text == "" || c.Help == "" || c.Area == "" || !strings.HasSuffix(c.Text, ".") || !strings.HasSuffix(c.Help, ".") {
			t.Errorf("%+v is not a whole page", c)
		}
		if seen[c.Code] {
			t.Errorf("%s is there twice", c.Code)
		}
		seen[c.Code] = true
	}
}

func TestFind(t *testing.T) {
	one, err := Find("tie")
	if err != nil || len(one) != 1 || !strings.Contains(Text(one), "What to do:") {
		t.Error(one, err)
	}
	all, err := Find("")
	if err != nil || len(all) != len(ledger.Codes()) {
		t.Error(len(all), err)
	}
	for _, p := range all {
		if !strings.Contains(Text(all), p.Code) {
			t.Errorf("%s is not listed", p.Code)
		}
	}
	gate, err := Find("dataset")
	if err != nil || !slices.ContainsFunc(gate, func(p Page) bool { return p.Code == "NG5001" }) || len(gate) == len(all) {
		t.Error(gate, err)
	}
	for what, want := range map[string]string{"tied": "did you mean tie?", "duplicat": "did you mean duplicate?", "acme/short": "acme", "ng5001": "NG5001", "zzzzzzzz": "lists all"} {
		if _, err := Find(what); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
