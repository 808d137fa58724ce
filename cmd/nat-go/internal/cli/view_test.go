package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestBrowserGetsNoTokenInItsArguments: all users of a machine can read the arguments of a program; the link comes in a
// file that only its owner can read, and that is gone afterwards.
func TestBrowserGetsNoTokenInItsArguments(t *testing.T) {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	dir := t.TempDir()
	script := "#!/bin/sh\nls -ld \"$1\" >" + dir + "/mode\ncat \"$1\" >" + dir + "/page\n" +
		"echo \"$@\" >" + dir + "/new\nmv " + dir + "/new " + dir + "/arguments\n"
	if err := os.WriteFile(filepath.Join(dir, program), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("DISPLAY", ":9")
	const token = "c0ffee0123456789"
	cleanUp := openBrowser("http://127.0.0.1:9/?token=" + token)
	read := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(dir, name))
		return string(b)
	}
	for until := time.Now().Add(20 * time.Second); read("arguments") == "" && time.Now().Before(until); {
		time.Sleep(10 * time.Millisecond)
	}
	arguments := strings.TrimSpace(read("arguments"))
	if arguments == "" || strings.Contains(arguments, token) {
		t.Errorf("it was started with %q", arguments)
	}
	if mode := read("mode"); !strings.HasPrefix(mode, "-rw-------") || !strings.Contains(read("page"), token) {
		t.Errorf("%s: %s", mode, read("page"))
	}
	cleanUp()
	if _, err := os.Stat(arguments); !os.IsNotExist(err) {
		t.Errorf("%s: %v", arguments, err)
	}
}
