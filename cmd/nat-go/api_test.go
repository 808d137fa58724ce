package main

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"go/types"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// promised lists the packages of the supported Go API. A type that their exported signatures name is promised with them,
// so it has to live in one of them too.
var promised = []string{
	"ttc", "ttc/chat", "ttc/chat/template", "ttc/json", "ttc/ledger", "ttc/pyvalue",
	"builders", "builders/finding", "builders/schema",
	"builders/dpo", "builders/divergence", "builders/grpo", "builders/sdpo", "builders/sft", "builders/states",
	"pairs", "plugins/sdk", "plugins/proto", "plugins/proto/nat/builder/v1", "plugins/conformance",
	"collator", "collator/tokenizer", "collator/batch", "kernels",
}

// doors are the packages through which the program gets what lies in a room's internal folder. They can be imported,
// because Go knows no other way, and promise nothing.
var doors = []string{
	"ttc/source", "ttc/source/readers", "ttc/group",
	"builders/yamldoc", "builders/builtin", "plugins/host",
	"collator/rows", "collator/turns", "collator/loss", "collator/teacher", "collator/tokenview",
}

// TestPromisedSignatures finds types in exported signatures of the promised API that are not promised themselves.
func TestPromisedSignatures(t *testing.T) {
	var paths []string
	for _, p := range promised {
		paths = append(paths, module+p)
	}
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedDeps |
			packages.NeedExportFile,
	}, paths...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pkgs {
		for _, e := range p.Errors {
			t.Errorf("%s: %v", p.PkgPath, e)
		}
		w := &signatures{found: map[string]string{}, seen: map[types.Type]bool{}}
		scope := p.Types.Scope()
		for _, name := range scope.Names() {
			if obj := scope.Lookup(name); obj.Exported() {
				w.object(obj, name)
			}
		}
		for named, where := range w.found {
			t.Errorf("%s.%s names %s, which is not promised", strings.TrimPrefix(p.PkgPath, module), where, named)
		}
	}
}

// promise is what the comment of a promised package says about its stability.
const promise = "Part of the supported Go API (v0)."

// docLines is how long `go doc` of a promised package may be: people read what fits on a screen.
const docLines = 60

// TestPackagesAreListed checks that what can be imported is promised or a door, and that the promised packages
// have the comment, the page and the example that their readers need.
func TestPackagesAreListed(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range list(t, module+"...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		parts := strings.Split(name, "/")
		if p.Name == "main" || len(p.GoFiles) == 0 || slices.Contains(parts, "internal") || parts[0] == "examples" {
			continue
		}
		seen[name] = true
		said := strings.Count(packageComment(t, p), promise)
		switch {
		case slices.Contains(promised, name):
			if said != 1 {
				t.Errorf("%s: the package comment should say once: %s", name, promise)
			}
			checkPromised(t, p, name)
		case said != 0:
			t.Errorf("%s says that it is promised and isn't on the list", name)
		case !slices.Contains(doors, name):
			t.Errorf("%s can be imported: move it behind the door of its room, into internal", name)
		}
	}
	for _, name := range slices.Concat(promised, doors) {
		if !seen[name] {
			t.Errorf("%s is listed and not there", name)
		}
	}
}

// TestPackageCommentsAreInDocGo checks this so that anyone who opens a package knows where its one idea is written
// down.
func TestPackageCommentsAreInDocGo(t *testing.T) {
	for _, p := range list(t, module+"...") {
		if p.Name == "main" || len(p.GoFiles) == 0 || strings.HasPrefix(p.ImportPath, module+"plugins/proto/") {
			continue // a program's is next to main, generated code has its own
		}
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil,
				parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if f.Doc != nil && name != "doc.go" {
				t.Errorf("%s: %s has the comment of the package; doc.go should", p.ImportPath, name)
			}
		}
		if !strings.HasPrefix(packageComment(t, p), "Package "+p.Name+" ") {
			t.Errorf("%s has no comment in doc.go", p.ImportPath)
		}
	}
}

// checkPromised checks that a promised package has what its readers need. Generated code needs only its comment.
func checkPromised(t *testing.T, p pkg, name string) {
	t.Helper()
	if name == "plugins/proto/nat/builder/v1" {
		return
	}
	out, err := exec.Command("go", "doc", p.ImportPath).Output()
	if err != nil {
		t.Fatalf("go doc %s: %v", name, err)
	}
	if n := strings.Count(string(out), "\n"); n > docLines {
		t.Errorf("go doc %s has %d lines, more than %d", name, n, docLines)
	}
	tests, err := filepath.Glob(filepath.Join(p.Dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, path := range tests {
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(f.Name.Name, "_test") {
			files = append(files, f)
		}
	}
	if !slices.ContainsFunc(doc.Examples(files...), func(e *doc.Example) bool { return e.Output != "" }) {
		t.Errorf("%s has no example that runs: write one in example_test.go, with its output", name)
	}
}

// packageComment returns the comment of a package on one line.
func packageComment(t *testing.T, p pkg) string {
	t.Helper()
	var text []string
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil,
			parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, strings.Fields(f.Doc.Text())...)
	}
	return strings.Join(text, " ")
}

// signatures collects the types of this module that exported declarations name but that are outside the promised
// packages.
type signatures struct {
	found map[string]string // type -> the declaration that names it
	seen  map[types.Type]bool
}

func (w *signatures) object(obj types.Object, where string) {
	w.walk(obj.Type(), where)
	tn, ok := obj.(*types.TypeName)
	if !ok {
		return
	}
	if !tn.IsAlias() {
		w.walk(obj.Type().Underlying(), where)
	}
	if named, ok := obj.Type().(*types.Named); ok {
		for m := range named.Methods() {
			if m.Exported() {
				w.walk(m.Type(), fmt.Sprintf("%s.%s", where, m.Name()))
			}
		}
	}
}

func (w *signatures) walk(t types.Type, where string) {
	switch t := t.(type) {
	case *types.Named:
		w.named(t.Obj(), where)
		for arg := range t.TypeArgs().Types() {
			w.walk(arg, where)
		}
		return
	case *types.Alias:
		w.named(t.Obj(), where)
		w.walk(types.Unalias(t), where)
		return
	}
	if w.seen[t] {
		return
	}
	w.seen[t] = true
	switch t := t.(type) {
	case *types.Pointer:
		w.walk(t.Elem(), where)
	case *types.Slice:
		w.walk(t.Elem(), where)
	case *types.Array:
		w.walk(t.Elem(), where)
	case *types.Chan:
		w.walk(t.Elem(), where)
	case *types.Map:
		w.walk(t.Key(), where)
		w.walk(t.Elem(), where)
	case *types.Signature:
		w.tuple(t.Params(), where)
		w.tuple(t.Results(), where)
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() {
				w.walk(f.Type(), where+"."+f.Name())
			}
		}
	case *types.Interface:
		for m := range t.Methods() {
			if m.Exported() {
				w.walk(m.Type(), where+"."+m.Name())
			}
		}
	}
}

func (w *signatures) tuple(vars *types.Tuple, where string) {
	for v := range vars.Variables() {
		w.walk(v.Type(), where)
	}
}

func (w *signatures) named(obj *types.TypeName, where string) {
	if obj.Pkg() == nil {
		return
	}
	name, ours := strings.CutPrefix(obj.Pkg().Path(), module)
	if ours && !slices.Contains(promised, name) {
		w.found[name+"."+obj.Name()] = where
	}
}
