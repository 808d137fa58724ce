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

// root is the folder of the module.
const root = "../../../.."

var findingCode = regexp.MustCompile(`^NG\d{4}$`)

// spelledCodes walks the module's Go source, excluding tests, for codes that are spelled out: finding codes written as
// a literal, and literals converted to a ledger.Reason. It returns the files of each.
func spelledCodes(t *testing.T) map[string][]string {
	t.Helper()
	spelled := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		name := e.Name()
		switch {
		case err != nil:
			return err
		// examples are third parties, with reasons of their own
		case e.IsDir() && (name != ".." && strings.HasPrefix(name, ".") || name == "testdata" || name == "examples"):
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, code := range literals(file) {
			spelled[code] = append(spelled[code], path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return spelled
}

// literals lists the codes that are spelled out in a file.
func literals(file *ast.File) (codes []string) {
	add := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil && s != "" {
				codes = append(codes, s)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if s, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && findingCode.MatchString(s) {
				add(n)
			}
		case *ast.CallExpr: // ledger.Reason("...")
			if len(n.Args) == 1 && isReason(n.Fun) {
				add(n.Args[0])
			}
		case *ast.ValueSpec: // X ledger.Reason = "..."
			if isReason(n.Type) {
				for _, v := range n.Values {
					add(v)
				}
			}
		case *ast.KeyValueExpr: // Reason: "..."
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Reason" {
				add(n.Value)
			}
		}
		return true
	})
	return codes
}

func isReason(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return e.Sel.Name == "Reason"
	case *ast.Ident:
		return e.Name == "Reason"
	}
	return false
}

// TestEveryCodeIsSpelledOutOnce checks that each code is spelled out in only one place in the source, and that its page
// is registered.
func TestEveryCodeIsSpelledOutOnce(t *testing.T) {
	spelled := spelledCodes(t)
	if len(spelled) < 150 {
		t.Fatalf("the walk found only %d codes", len(spelled))
	}
	for code, where := range spelled {
		if _, ok := Code(code); !ok && !strings.Contains(code, "/") {
			t.Errorf("%s has no page that is registered here; it is in %v", code, where)
		}
		if len(where) > 1 {
			t.Errorf("%s is spelled out more than once: %v", code, where)
		}
	}
	for _, c := range codes() {
		if len(spelled[c.Code]) == 0 {
			t.Errorf("%s has a page, but no source spells it out", c.Code)
		}
	}
}

func TestPagesAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range codes() {
		if c.Text == "" || c.Help == "" || c.Area == "" || !strings.HasSuffix(c.Text, ".") ||
			!strings.HasSuffix(c.Help, ".") {
			t.Errorf("%+v is not a complete page", c)
		}
		if seen[c.Code] {
			t.Errorf("%s is there twice", c.Code)
		}
		seen[c.Code] = true
	}
	if got := strings.Count(Page(codes()), "\n| `"); got != len(codes()) {
		t.Errorf("the page explains %d of %d codes: an area has no line in page.md", got, len(codes()))
	}
}

// TestCodeParsesOnePage checks that a single page equals its entry in the whole list, and that finding it doesn't parse
// the others.
func TestCodeParsesOnePage(t *testing.T) {
	for _, want := range codes() {
		if got, ok := Code(want.Code); !ok || got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if len(singles()) != len(codes()) {
		t.Errorf("%d single pages, %d in the list", len(singles()), len(codes()))
	}
	if n := testing.AllocsPerRun(1, func() { index()["tie"]() }); n > 2000 {
		t.Errorf("finding and parsing a page takes %v allocations", n)
	}
}

func TestFind(t *testing.T) {
	one, err := Find("tie")
	if err != nil || len(one) != 1 || !strings.Contains(Text(one, 0), "What to do:") {
		t.Error(one, err)
	}
	all, err := Find("")
	if err != nil || len(all) != len(codes()) {
		t.Error(len(all), err)
	}
	for _, p := range all {
		if !strings.Contains(Text(all, 0), p.Code) {
			t.Errorf("%s is not listed", p.Code)
		}
	}
	gate, err := Find("dataset")
	if err != nil || !slices.ContainsFunc(gate, func(p ledger.Code) bool { return p.Code == "NG5001" }) ||
		len(gate) == len(all) {
		t.Error(gate, err)
	}
	for what, want := range map[string]string{
		"tied":       "did you mean tie?",
		"duplicat":   "did you mean duplicate?",
		"acme/short": "acme",
		"ng5001":     "NG5001",
		"zzzzzzzz":   "lists all",
	} {
		t.Run(what, func(t *testing.T) {
			if _, err := Find(what); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
}
