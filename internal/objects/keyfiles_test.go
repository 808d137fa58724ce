package objects

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestKeyFiles names files for credentials and tokens that are endless, or aren't files: each is refused at once, with
// the name of the variable or setting.
func TestKeyFiles(t *testing.T) {
	dir := t.TempDir()
	pipe, link, huge := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "huge")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(huge, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, 64<<30); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE",
		"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
	} {
		for _, path := range []string{pipe, link, huge, dir} {
			t.Run(name+" "+filepath.Base(path), func(t *testing.T) {
				for key, value := range map[string]string{
					"HOME":                        dir,
					"AWS_ENDPOINT_URL":            "http://127.0.0.1:1",
					"AWS_SHARED_CREDENTIALS_FILE": dir + "/none",
					name:                          path,
				} { // the library reads them from the environment itself
					t.Setenv(key, value)
				}
				s := New(os.Getenv)
				defer s.Close()
				done := make(chan error, 1)
				go func() {
					_, err := s.Stat(t.Context(), "s3://bucket/object")
					done <- err
				}()
				select {
				case err := <-done:
					if err == nil || !strings.Contains(err.Error(), name) {
						t.Errorf("%v", err)
					}
				case <-time.After(20 * time.Second):
					t.Error("it waits")
				}
			})
		}
	}
	t.Run("in the home folder", func(t *testing.T) {
		if err := os.Mkdir(filepath.Join(dir, ".aws"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(pipe, filepath.Join(dir, ".aws", "credentials")); err != nil {
			t.Fatal(err)
		}
		t.Setenv("HOME", dir)
		s := New(func(string) string { return "" })
		defer s.Close()
		if _, err := s.Stat(t.Context(), "s3://bucket/object"); err == nil ||
			!strings.Contains(err.Error(), "~/.aws/credentials") {
			t.Errorf("%v", err)
		}
	})
	t.Run("one of several tokens of a sign-on", func(t *testing.T) {
		home := t.TempDir()
		cache := filepath.Join(home, ".aws", "sso", "cache")
		if err := os.MkdirAll(cache, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(pipe, filepath.Join(cache, "a.json")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(cache, "b.json"), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("HOME", home)
		s := New(func(string) string { return "" })
		defer s.Close()
		if _, err := s.Stat(t.Context(), "s3://bucket/object"); err == nil ||
			!strings.Contains(err.Error(), "~/.aws/sso/cache") {
			t.Errorf("%v", err)
		}
	})
}
