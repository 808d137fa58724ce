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
	"text/template"

	"github.com/nat-go/nat-go/examples"
)

//go:embed template
var templates embed.FS

// Langs are the languages that New writes plugins in.
var Langs = []string{"go", "python"}

var validName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,40}$`)

// New writes a plugin into a new folder with its name, and returns the folder. replace is the path of a nat-go checkout
// to build against; empty: the published module. version is that of nat-go's module.
func New(dir, name, lang, replace, version string) (string, error) {
	if !validName.MatchString(name) {
		return "", fmt.Errorf("%q is not a valid plugin name: lower-case letters, digits, - and _, at most 41, a letter first", name)
	}
	out := filepath.Join(dir, name)
	if err := os.Mkdir(out, 0o755); err != nil {
		if errors.Is(err, os.ErrExist) {
			return "", fmt.Errorf("%s is there already; choose another name or remove it", out)
		}
		return "", err
	}
	data := struct{ Name, Ident, Replace, Version string }{name, strings.ReplaceAll(name, "-", "_"), replace, version}
	if err := writeTemplates(out, path.Join("template", lang), data); err != nil {
		return "", err
	}
	if lang != "python" {
		return out, nil
	}
	// The Python plugin is the example under a different name.
	rename := strings.NewReplacer("best-of-n", name, "best_of_n", data.Ident)
	for _, f := range []string{"best_of_n.py", "test_best_of_n.py", "pyproject.toml"} {
		text, err := examples.Python.ReadFile("python-builder/" + f)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(out, rename.Replace(f)), []byte(rename.Replace(string(text))),
			0o644); err != nil {
			return "", err
		}
	}
	return out, nil
}

func writeTemplates(out, from string, data any) error {
	return fs.WalkDir(templates, from, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := templates.ReadFile(p)
		if err != nil {
			return err
		}
		t, err := template.New(p).Delims("<<", ">>").Parse(string(text))
		if err != nil {
			return err
		}
		f, err := os.Create(filepath.Join(out, strings.TrimSuffix(path.Base(p), ".tmpl")))
		if err != nil {
			return err
		}
		return errors.Join(t.Execute(f, data), f.Close())
	})
}
