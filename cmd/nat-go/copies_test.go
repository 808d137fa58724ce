package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNoSecondCopies finds copies of what belongs in a struct tag alone: defaults, which a function would repeat, and
// allowed values, which `validate:"oneof=..."` has.
func TestNoSecondCopies(t *testing.T) {
	enum := regexp.MustCompile("`[^`]*\\benum:\"")
	files := 0
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && e.Name() != ".." && strings.HasPrefix(e.Name(), "."):
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		files++
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Name.Name == "DefaultConfig" {
					t.Errorf("%s: DefaultConfig repeats the tags; schema.New makes a config with their defaults", path)
				}
			case *ast.Field:
				if n.Tag != nil && enum.MatchString(n.Tag.Value) {
					t.Errorf("%s: the tag enum is validate:\"oneof=...\"", path)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Errorf("the walk saw %d files", files)
	}
}
