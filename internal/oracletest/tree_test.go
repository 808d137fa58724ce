package oracletest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestTestsAreSafeWithoutData looks through all Go files of the module that import testing for two mistakes with which
// tests fail on a machine that lacks something: a function given to sync.Once, OnceFunc, OnceValue or OnceValues that
// uses the test's t, whose Skip or Fatal there ends the caller's goroutine and makes every later call panic; and a way
// to the oracle data around this package, which skips.
func TestTestsAreSafeWithoutData(t *testing.T) {
	root := module(t)
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if d.IsDir() && rel != "." && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") &&
			d.Name() != ".ci") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" || d.IsDir() {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if !imports(file, "testing") || filepath.Dir(rel) == filepath.Join("internal", "oracletest") {
			return nil
		}
		files++
		for pos, mistake := range mistakes(file) {
			t.Errorf("%s:%d: %s", rel, set.Position(pos).Line, mistake)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Errorf("looked at %d files, expected at least 100", files)
	}
}

// TestMistakesAreFound tests the finder on the mistakes that were made.
func TestMistakesAreFound(t *testing.T) {
	for name, test := range map[string]struct {
		body string
		want int
	}{
		"skip":      {`sync.OnceValues(func() (int, error) { t.Skip(); return 0, nil })`, 1},
		"helper":    {`sync.OnceValue(func() string { return oracletest.Path(t, "a") })`, 1},
		"once":      {`var once sync.Once; once.Do(func() { t.Fatal() })`, 1},
		"named":     {`load := func() { t.Fatal() }; sync.OnceFunc(load)`, 1},
		"variable":  {`os.Getenv("NATGO_CONFORMANCE")`, 1},
		"folder":    {`read("../../../shared/conformance")`, 1},
		"parts":     {`filepath.Join(root, "shared", "conformance")`, 1},
		"error":     {`sync.OnceFunc(func() { t.Error() })`, 0},
		"own t":     {`sync.OnceFunc(func() { run(func(t *testing.T) { t.Fatal() }) })`, 0},
		"in a test": {`once := sync.OnceValue(load); if once() == 0 { t.Skip() }`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := parser.ParseFile(token.NewFileSet(), "x_test.go",
				"package x\n\nfunc x(t testing.TB) {\n"+test.body+"\n}\n", parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if got := mistakes(file); len(got) != test.want {
				t.Errorf("found %v, expected %d", got, test.want)
			}
		})
	}
}

func imports(file *ast.File, path string) bool {
	for _, imp := range file.Imports {
		if imp.Path.Value == strconv.Quote(path) {
			return true
		}
	}
	return false
}

// mistakes returns what is wrong in a file, by place.
func mistakes(file *ast.File) map[token.Pos]string {
	out := map[token.Pos]string{}
	for _, decl := range file.Decls {
		literals := map[string]*ast.FuncLit{} // by the variable that holds it
		ast.Inspect(decl, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if literal, ok := n.Rhs[0].(*ast.FuncLit); ok {
					if name, ok := n.Lhs[0].(*ast.Ident); ok {
						literals[name.Name] = literal
					}
				}
			case *ast.CallExpr:
				if literal := once(n, literals); literal != nil {
					if pos := ends(literal, testers(decl)); pos.IsValid() {
						out[pos] = "this may end the test inside sync.Once, and then every later call panics: decide outside"
					}
				}
				if around(n.Args) {
					out[n.Pos()] = "oracle data is reached through oracletest.Path, Glob, Template and Masks, which skip"
				}
			}
			return true
		})
	}
	return out
}

// once returns the function that is given to sync.OnceFunc, OnceValue, OnceValues or the Do of a sync.Once.
func once(call *ast.CallExpr, literals map[string]*ast.FuncLit) *ast.FuncLit {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) != 1 {
		return nil
	}
	x, ok := f.X.(*ast.Ident)
	if isOnce := ok && x.Name == "sync" && strings.HasPrefix(f.Sel.Name, "Once"); !isOnce && f.Sel.Name != "Do" {
		return nil
	}
	if name, ok := call.Args[0].(*ast.Ident); ok {
		return literals[name.Name]
	}
	literal, _ := call.Args[0].(*ast.FuncLit)
	return literal
}

// around reports whether a call's arguments name the folder of the oracle data, or the variable that does.
func around(args []ast.Expr) bool {
	last := ""
	for _, arg := range args {
		literal, ok := arg.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			last = ""
			continue
		}
		text, _ := strconv.Unquote(literal.Value)
		if text == variable || strings.Contains(text, "shared/conformance") || last == "shared" &&
			text == "conformance" {
			return true
		}
		last = text
	}
	return false
}

// testers returns the names of a declaration's parameters that are a testing.TB, *testing.T, B or F.
func testers(n ast.Node) map[string]bool {
	out := map[string]bool{}
	ast.Inspect(n, func(n ast.Node) bool {
		if f, ok := n.(*ast.FuncType); ok {
			for _, field := range f.Params.List {
				for _, name := range field.Names {
					out[name.Name] = out[name.Name] || fromTesting(field.Type)
				}
			}
		}
		return true
	})
	return out
}

func fromTesting(e ast.Expr) bool {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	f, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := f.X.(*ast.Ident)
	return ok && x.Name == "testing"
}

// continues has the methods of testing.TB that return to their caller.
var continues = map[string]bool{
	"Error": true, "Errorf": true, "Log": true, "Logf": true, "Fail": true, "Failed": true, "Helper": true,
	"Name":    true,
	"Context": true, "Cleanup": true,
}

// ends returns where a function may end the test around it: where it calls a method of t that may not return, or hands
// t on. A function inside it with a parameter t is another test.
func ends(literal *ast.FuncLit, testers map[string]bool) (pos token.Pos) {
	ast.Inspect(literal.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			for _, field := range n.Type.Params.List {
				if fromTesting(field.Type) {
					return false
				}
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && testers[x.Name] && continues[n.Sel.Name] {
				return false
			}
		case *ast.Ident:
			if testers[n.Name] {
				pos = n.Pos()
			}
		}
		return true
	})
	return pos
}
