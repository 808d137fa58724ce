package main

import (
	"go/ast"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestNamesHaveImporters finds exported constants, functions and variables of packages outside the promised API that no
// other package names: they can be unexported. Tests count as importers, as do the programs in testdata. A type may stay
// for the sake of the signatures that name it, a constant with its siblings, and what every adapter has: New and Type.
func TestNamesHaveImporters(t *testing.T) {
	if testing.Short() {
		t.Skip("it loads every package with its tests")
	}
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes |
			packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps,
		Tests: true, BuildFlags: []string{"-tags=tokenizers"}, Dir: filepath.Join("..", ".."),
	}, "./...", "./plugins/internal/host/testdata/plugin", "./plugins/internal/kit/testdata/bad",
		"./cmd/nat-go/internal/e2e/testdata/acme")
	if err != nil {
		t.Fatal(err)
	}
	declared, used := map[string]string{}, map[string]bool{} // by place
	for _, p := range pkgs {
		takeNames(p, declared, used)
	}
	if len(used) < 1000 {
		t.Fatalf("only %d names are used by other packages: these are not all packages", len(used))
	}
	for place, name := range declared {
		if !used[place] {
			t.Errorf("%s: no other package names %s: unexport it", place, name)
		}
	}
}

// takeNames adds what a package declares, and what it uses of others.
func takeNames(p *packages.Package, declared map[string]string, used map[string]bool) {
	path := strings.TrimSuffix(strings.TrimPrefix(p.PkgPath, module), "_test")
	for _, o := range p.TypesInfo.Uses {
		if of := o.Pkg(); of != nil && of != p.Types && strings.TrimPrefix(of.Path(), module) != path ||
			strings.HasSuffix(p.PkgPath, "_test") {
			used[p.Fset.Position(o.Pos()).String()] = true
		}
	}
	if slices.Contains(promised, path) || p.Types.Name() == "main" {
		return
	}
	add := func(id *ast.Ident) {
		if ast.IsExported(id.Name) && id.Name != "New" && id.Name != "Type" {
			declared[p.Fset.Position(id.Pos()).String()] = path + "." + id.Name
		}
	}
	for _, f := range p.Syntax {
		if strings.HasSuffix(p.Fset.Position(f.Pos()).Filename, "_test.go") {
			continue
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add(d.Name)
				}
			case *ast.GenDecl:
				if v, ok := d.Specs[0].(*ast.ValueSpec); ok && len(d.Specs) == 1 {
					for _, id := range v.Names {
						add(id)
					}
				}
			}
		}
	}
}
