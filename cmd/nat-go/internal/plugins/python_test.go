package plugins

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/internal/pythontest"
	"github.com/nat-go/nat-go/plugins/host"
)

// acme is a Python package that declares a builder that reports where its module is and what another module contains.
var acme = map[string]string{
	"acme_pkg/__init__.py": "import os, pathlib\npathlib.Path(os.environ['HOME'], 'imported').touch()\n" +
		"__version__ = '1.2'\n",
	"acme_pkg/words/more.py": "word = 'first'\n",
	"acme_pkg/data.txt":      "x",
	"acme_pkg/builders.py": `from natgo.builder import builder
from acme_pkg.words.more import word

@builder(name="best", kinds=["demonstration"], doc=f"{word} {__file__}")
def best(group):
    return []
`,
}

// TestPythonModule checks that a Python module is served by its interpreter. Locked by all files of its package, it
// runs as a checked copy; a file that was changed, added or removed is refused by name before anything in the package
// has run.
func TestPythonModule(t *testing.T) {
	sdk := filepath.Join(root(t), "plugins", "python")
	python := pythontest.Builders(t, filepath.Join(sdk, "tests", "builders", "requirements.txt"))
	dir, home := t.TempDir(), t.TempDir()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", home)
	t.Setenv("PYTHONPATH", sdk+":"+dir)
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range acme {
		put(name, text)
	}
	configured := []config.Plugin{{
		Name: "acme", Python: "acme_pkg.builders", Interpreter: python, StartTimeout: time.Minute,
		Env: []string{"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"},
	}}
	imported := filepath.Join(home, "imported")
	// start starts the plugin and returns its builder's doc, or what went wrong.
	start := func(lock *Lock) string {
		t.Helper()
		os.Remove(imported)
		spec, err := Spec("acme", configured, lock)
		if err != nil {
			t.Fatal(err)
		}
		p, err := host.Start(t.Context(), spec, zerolog.Nop())
		if err != nil {
			return err.Error()
		}
		defer p.Close()
		if lock.Plugins["acme"] == nil {
			sum, files, err := Sums(t.Context(), spec)
			if err != nil || len(files) != len(acme) {
				t.Fatal(files, err)
			}
			lock.Add(spec, p, sum, files)
		}
		return p.Describe()[0].Doc
	}
	lockDir := t.TempDir()
	lock, err := ReadLock(lockDir)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := start(lock), "first "+filepath.Join(dir, "acme_pkg", "builders.py"); got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	if err := lock.Write(); err != nil {
		t.Fatal(err)
	}
	if lock, err = ReadLock(lockDir); err != nil {
		t.Fatal(err)
	}
	if e := lock.Plugins["acme"]; e.Version != "1.2" || e.SHA256["python"] == "" || e.Files["acme_pkg/data.txt"] == "" {
		t.Errorf("%+v", e)
	}
	if got := start(lock); !strings.HasPrefix(got, "first ") || strings.Contains(got, dir) {
		t.Errorf("locked, it runs as %s", got)
	}
	put("acme_pkg/__pycache__/x.pyc", "what Python leaves there does not count")
	if got := start(lock); !strings.HasPrefix(got, "first ") {
		t.Error(got)
	}
	for _, c := range []struct{ name, text, want string }{
		{"acme_pkg/words/more.py", "word = 'second'\n", "words/more.py has sha256 "},
		{"acme_pkg/data.txt", "y", "data.txt has sha256 "},
		{"acme_pkg/json.py", "", "acme_pkg/json.py, which nat-go.lock doesn't list"},
		{"acme_pkg/words/more.py", "", "acme_pkg/words/more.py, which nat-go.lock lists"},
	} {
		t.Run(c.name, func(t *testing.T) {
			put(c.name, c.text)
			if c.text == "" && acme[c.name] != "" {
				os.Remove(filepath.Join(dir, c.name))
			}
			if got := start(lock); !strings.Contains(got, c.want) || !strings.Contains(got, "nat-go plugins lock") {
				t.Errorf("%s: %s", c.name, got)
			}
			if _, err := os.Stat(imported); err == nil {
				t.Errorf("%s: the package was run", c.name)
			}
			os.Remove(filepath.Join(dir, c.name))
			if acme[c.name] != "" {
				put(c.name, acme[c.name])
			}
		})
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "acme_pkg", "elsewhere")); err != nil {
		t.Fatal(err)
	}
	if got := start(lock); !strings.Contains(got, "elsewhere: a locked package may hold only files and folders") {
		t.Error(got)
	}
}

// TestPythonInterpreter checks that the interpreter is the configured one, or else that of the active environment, and
// that what can't be served is reported.
func TestPythonInterpreter(t *testing.T) {
	c := config.Plugin{Name: "acme", Python: "no_such_pkg.builders"}
	t.Setenv("VIRTUAL_ENV", "")
	if _, err := Locate(c); err == nil || !strings.Contains(err.Error(), "plugins.acme.interpreter") {
		t.Error(err)
	}
	t.Setenv("VIRTUAL_ENV", "/some/env")
	if found, err := Locate(c); err != nil || found.Path != "/some/env/bin/python" {
		t.Error(found, err)
	}
	spec, err := Spec("acme", []config.Plugin{c}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = host.Start(t.Context(), spec, zerolog.Nop())
	if err == nil || !strings.Contains(err.Error(), "cannot find file /some/env") {
		t.Error(err)
	}
	sdk := filepath.Join(root(t), "plugins", "python")
	c.Interpreter = pythontest.Builders(t, filepath.Join(sdk, "tests", "builders", "requirements.txt"))
	c.Env, c.StartTimeout = []string{"PYTHONPATH"}, time.Minute
	for path, want := range map[string]string{
		"": "has no module natgo.builder, which serves the module", sdk: "finds no module no_such_pkg",
	} {
		t.Run(path, func(t *testing.T) {
			t.Setenv("PYTHONPATH", path)
			if spec, err = Spec("acme", []config.Plugin{c}, nil); err != nil {
				t.Fatal(err)
			}
			if _, _, err := Sums(t.Context(), spec); err == nil || !strings.Contains(err.Error(), want) {
				t.Error(err)
			}
		})
	}
}
