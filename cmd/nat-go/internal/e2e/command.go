package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Canary is part of every secret in these tests. It must not appear in anything printed or stored.
const Canary = "canary-7f3a"

// Result is the outcome of a command.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Finish runs a command and checks that it doesn't print a secret.
func Finish(t *testing.T, cmd *exec.Cmd) Result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	r := Result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
	if strings.Contains(r.Stdout+r.Stderr, Canary) {
		t.Errorf("a secret was printed:\n%s\n%s", r.Stdout, r.Stderr)
	}
	return r
}

// Start starts a command.
func Start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

// Children returns the processes started by any thread of a process.
func Children(t *testing.T, pid int) (out []int) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		text, _ := os.ReadFile(list) // the process may be gone
		for _, f := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(f); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}
