package tokenizer

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// runLib runs lib.sh with its own cache and returns the last line of its output.
func runLib(t *testing.T, cache string, env ...string) (last, stderr string, err error) {
	t.Helper()
	cmd := exec.Command("sh", "lib.sh")
	cmd.Env = append(os.Environ(), append(env, "XDG_CACHE_HOME="+cache)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1], errs.String(), err
}

// TestLibScript checks that the script agrees with go.mod, finds the cached library, and describes the problem with an
// unusable library.
func TestLibScript(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no sh")
	}
	cache := t.TempDir()
	dir := filepath.Join(cache, "nat-go", "libtokenizers", "v1.27.0", runtime.GOOS+"-"+runtime.GOARCH)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "libtokenizers.a"), []byte("cached"), 0o644); err != nil {
		t.Fatal(err)
	}
	if last, stderr, err := runLib(t, cache, "NATGO_TOKENIZERS_LIB="); err != nil || last != dir {
		t.Errorf("got %q, %v: %s", last, err, stderr)
	}
	_, stderr, err := runLib(t, cache, "NATGO_TOKENIZERS_LIB="+dir)
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 3 ||
		!strings.Contains(stderr, "does not link with tokenizers_version_") {
		t.Errorf("a file that is not a library: %v, %s", err, stderr)
	}
}

// TestLibScriptWaits checks that a waiting run reports which process it is waiting for, and for how long, and that the
// lock of a process that has ended is released, even if another program now has the same process id.
func TestLibScriptWaits(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no sh")
	}
	for name, test := range map[string]struct {
		holder []string
		says   string
	}{
		"alive": {[]string{"sh", "-c", "sleep 60; :", "lib.sh"}, "), which began "},
		"gone":  {[]string{"sleep", "60"}, "giving up the lock of process "},
	} {
		t.Run(name, func(t *testing.T) {
			holder := exec.Command(test.holder[0], test.holder[1:]...)
			if err := holder.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = holder.Process.Kill()
				_ = holder.Wait()
			})
			cache, bin := t.TempDir(), t.TempDir()
			lock := filepath.Join(cache, "nat-go", "libtokenizers", "v1.27.0", runtime.GOOS+"-"+runtime.GOARCH, "lock")
			if err := os.MkdirAll(lock, 0o755); err != nil {
				t.Fatal(err)
			}
			for path, text := range map[string]string{
				filepath.Join(lock, "pid"): strconv.Itoa(holder.Process.Pid), filepath.Join(bin,
					"cargo"): "#!/bin/sh\nexit 1\n",
			} {
				if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "sh", "lib.sh")
			cmd.Env = append(os.Environ(), "NATGO_TOKENIZERS_LIB=", "XDG_CACHE_HOME="+cache,
				"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			said, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(said)
			for lines.Scan() && !strings.Contains(lines.Text(), test.says) {
			}
			if !strings.Contains(lines.Text(), test.says) {
				t.Errorf("it did not say %q", test.says)
			}
			_ = cmd.Process.Signal(os.Interrupt)
			_, _ = io.Copy(io.Discard, said)
			_ = cmd.Wait()
		})
	}
}
