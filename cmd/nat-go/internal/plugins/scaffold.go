package plugins

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/nat-go/nat-go/examples"
)

//go:embed template
var templates embed.FS

// Langs lists the languages of the plugins that New writes.
var Langs = []string{"go", "python"}

// New writes a plugin into a new folder named after it, and returns the folder. replace is the path of a nat-go
// checkout to build against; empty means the published module. version is the nat-go module's version.
func New(dir, name, lang, replace, version string) (string, error) {
	if !regexp.MustCompile(`^[a-z][a-z0-9_-]{0,40}$`).MatchString(name) {
		return "", fmt.Errorf("invalid plugin name %q: use up to 41 lower-case letters, digits, - and _, starting with a letter", name)
	}
	out := filepath.Join(dir, name)
	if err := os.Mkdir(out, 0o755); err != nil {
		if errors.Is(err, os.ErrExist) {
			return "", fmt.Errorf("%s exists already: choose another name, or remove it", out)
		}
		return "", err
	}
	ident := strings.ReplaceAll(name, "-", "_")
	if replace != "" {
		replace = "\n\nreplace github.com/nat-go/nat-go => " + replace
	}
	fill := strings.NewReplacer("<<name>>", name, "<<ident>>", ident, "<<version>>", version, "<<replace>>", replace)
	if err := writeTemplates(out, path.Join("template", lang), fill); err != nil {
		return "", err
	}
	if lang != "python" {
		return out, nil
	}
	// The Python plugin is a renamed copy of the example.
	rename := strings.NewReplacer("best-of-n", name, "best_of_n", ident)
	for _, f := range []string{"best_of_n.py", "test_best_of_n.py", "pyproject.toml"} {
		text, err := examples.Python.ReadFile("python-builder/" + f)
		if err == nil {
			err = os.WriteFile(filepath.Join(out, rename.Replace(f)), []byte(rename.Replace(string(text))), 0o644)
		}
		if err != nil {
			return "", err
		}
	}
	return out, nil
}

// writeTemplates expands the templates in one folder and writes the results to another. It only substitutes values
// and doesn't use package text/template, which would keep the linker from removing unused exported methods.
func writeTemplates(out, from string, fill *strings.Replacer) error {
	return fs.WalkDir(templates, from, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := templates.ReadFile(p)
		if err != nil {
			return err
		}
		name := filepath.Join(out, strings.TrimSuffix(path.Base(p), ".tmpl"))
		return os.WriteFile(name, []byte(fill.Replace(string(text))), 0o666)
	})
}
