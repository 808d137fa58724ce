package plugins

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/plugins/host"
)

// TestBeside checks that a script comes with the files that it may import, and that a change in one of them is noticed;
// a compiled program has none.
func TestBeside(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	script := write("main.sh", "#!/bin/sh\nexit 3\n")
	write("lib.sh", "x")
	write("notes.txt", "x")
	if err := os.Mkdir(filepath.Join(dir, "folder.sh"), 0o700); err != nil {
		t.Fatal(err)
	}
	got, err := SiblingSums(script)
	if err != nil || len(got) != 1 || len(got["lib.sh"]) != 64 {
		t.Fatal(got, err)
	}
	for _, path := range []string{write("a.out", "\x7fELF"), write("b.out", ""), write("plain", "#!/bin/sh\n")} {
		if got, err := SiblingSums(path); err != nil || got != nil {
			t.Error(path, got, err)
		}
	}
	sum, err := durable.Sum(script)
	if err != nil {
		t.Fatal(err)
	}
	lock := &Lock{path: filepath.Join(dir, lockFile), Plugins: map[string]*Entry{
		"acme": {SHA256: map[string]string{platformOf(host.Spec{}): sum}, Files: got},
	}}
	spec := host.Spec{Name: "acme", Path: script}
	if err := lock.pin(&spec); err != nil {
		t.Fatal(err)
	}
	start := func(want string) {
		t.Helper()
		p, err := host.Start(t.Context(), spec, zerolog.Nop())
		if err == nil {
			p.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	start("exit status 3") // it runs, but isn't a plugin
	write("lib.sh", "y")
	start("lib.sh has sha256")
	spec.Beside = map[string]string{"../lib.sh": sum}
	start(`invalid name "../lib.sh" of a file next to`)
}
