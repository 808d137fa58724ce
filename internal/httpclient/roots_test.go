package httpclient

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestCheckRoots names certificates that are endless, or aren't files, and those that a machine has.
func TestCheckRoots(t *testing.T) {
	dir := t.TempDir()
	pipes, sound := filepath.Join(dir, "pipes"), filepath.Join(dir, "sound")
	for _, d := range []string{pipes, sound} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	pipe, huge, device := filepath.Join(pipes, "pipe"), filepath.Join(dir, "huge"), filepath.Join(dir, "device")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(huge, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, 40<<30); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", device); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(sound, "a.pem"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		variable, value string
		refused         bool
	}{
		"a pipe":              {"SSL_CERT_FILE", pipe, true},
		"a device":            {"SSL_CERT_FILE", device, true},
		"a folder":            {"SSL_CERT_FILE", dir, true},
		"a huge file":         {"SSL_CERT_FILE", huge, true},
		"none":                {"SSL_CERT_FILE", filepath.Join(dir, "none"), false},
		"a file":              {"SSL_CERT_FILE", filepath.Join(sound, "a.pem"), false},
		"a folder with pipes": {"SSL_CERT_DIR", sound + ":" + pipes, true},
		"a pipe as a folder":  {"SSL_CERT_DIR", pipe, false},
		"folders":             {"SSL_CERT_DIR", sound + ":" + filepath.Join(dir, "none"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SSL_CERT_FILE", "")
			t.Setenv("SSL_CERT_DIR", "")
			t.Setenv(c.variable, c.value)
			_, err := New(Options{Base: "https://127.0.0.1:1"})
			if (err != nil) != c.refused || err != nil && !strings.HasPrefix(err.Error(), c.variable+": ") {
				t.Errorf("%v", err)
			}
			if _, err := New(Options{Base: "http://127.0.0.1:1"}); err != nil {
				t.Errorf("without TLS: %v", err)
			}
		})
	}
}
