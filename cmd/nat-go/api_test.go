package main

import (
	"fmt"
	"go/types"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// promised are the packages of the Go API we promise. A type that their exported signatures name is promised with them, so it
// has to live in one of them too.
var promised = []string{
	"ttc", "ttc/chat", "ttc/chat/template", "ttc/json", "ttc/ledger", "ttc/pyvalue",
	"builders", "builders/finding", "pairs", "plugins/sdk", "plugins/proto", "plugins/proto/nat/builder/v1",
	"collator", "collator/tokenizer", "collator/batch", "collator/turns", "kernels",
}

// TestPromisedSignatures finds types in exported signatures of the promised API that are not promised themselves.
func TestPromisedSignatures(t *testing.T) {
	var paths []string
	for _, p := range promised {
		paths = append(paths, module+p)
	}
	pkgs, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedDeps |
		packages.NeedExportFile}, paths...)
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

// signatures collects the types of this module outside the promised packages that exported declarations name.
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
