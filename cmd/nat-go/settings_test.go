package main

import (
	"fmt"
	"go/ast"
	"go/types"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// notRead lists the files of settings that none of our code needs to read, with the reason.
var notRead = map[string]string{
	"cmd/nat-go/internal/config/eval.go":       "NAT's section: what NAT would refuse is reported before it is started",
	"cmd/nat-go/internal/config/finetuning.go": "NAT's section, too",
}

// natTrainer lists keys of NAT's trainers and builders that its configurations have and that mean nothing to ours.
var natTrainer = []string{"Reward (reward)", "Name (name)"}

// TestSettingsAreRead finds configuration keys that are decoded but never read.
func TestSettingsAreRead(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	pkgs, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax |
		packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps |
		packages.NeedExportFile}, module+"...")
	if err != nil {
		t.Fatal(err)
	}
	settings, read := map[string]string{}, map[string]bool{}
	for _, p := range pkgs {
		for _, e := range p.Errors {
			t.Errorf("%s: %v", p.PkgPath, e)
		}
		// A field is identified by its position: one from another package has no other identity.
		place := func(f types.Object) string {
			at := p.Fset.Position(f.Pos())
			dir := strings.TrimPrefix(f.Pkg().Path(), module)
			return fmt.Sprintf("%s/%s:%d", dir, filepath.Base(at.Filename), at.Line)
		}
		for _, s := range p.TypesInfo.Selections {
			if f, ok := s.Obj().(*types.Var); ok && f.Pkg() != nil {
				read[place(f)] = true
			}
		}
		for _, file := range p.Syntax {
			ast.Inspect(file, func(n ast.Node) bool {
				if f, ok := n.(*ast.Field); ok && f.Tag != nil && len(f.Names) == 1 {
					tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
					key, _, _ := strings.Cut(tag.Get("yaml"), ",")
					if key != "" && key != "-" && tag.Get("json") == "" { // if it has one it is sent to a service
						settings[place(p.TypesInfo.Defs[f.Names[0]])] = f.Names[0].Name + " (" + key + ")"
					}
				}
				return true
			})
		}
	}
	if len(settings) < 100 {
		t.Fatalf("%d settings were found", len(settings))
	}
	for at, name := range settings {
		file, _, _ := strings.Cut(at, ":")
		if !read[at] && notRead[file] == "" && !slices.Contains(natTrainer, name) {
			t.Errorf("%s: nothing reads %s: read it, remove it, or say in notRead what it is for", at, name)
		}
	}
}

// TestRegistriesAreComplete finds packages that provide a component but are missing from the program's list.
func TestRegistriesAreComplete(t *testing.T) {
	var listed []string
	for _, name := range []string{"cmd/nat-go/internal/builtin", "builders/builtin", "ttc/source/readers"} {
		listed = append(listed, list(t, module+name)[0].Imports...)
	}
	found := 0
	pkgs, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedTypes | packages.NeedExportFile},
		module+"ttc/source/...", module+"builders/...", module+"cmd/nat-go/internal/trainers/...")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pkgs {
		for _, name := range []string{"Factory", "Info"} {
			f, ok := p.Types.Scope().Lookup(name).(*types.Func)
			if ok && f.Signature().Params().Len() == 0 { // if it has parameters, it helps others make theirs
				found++
				if !slices.Contains(listed, p.PkgPath) {
					t.Errorf("%s has a func %s and no line in the list of its kind", p.PkgPath, name)
				}
			}
		}
	}
	if found < 12 {
		t.Errorf("%d components were found", found)
	}
}
