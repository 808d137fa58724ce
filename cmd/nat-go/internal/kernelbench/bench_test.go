package kernelbench

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// small returns the options of a measurement of little data.
func small(rounds int) Options {
	return Options{Vocab: []int{1000}, Threads: []int{1, 2}, MiB: 1, Rounds: rounds, Budget: time.Minute}
}

func TestRun(t *testing.T) {
	var b bytes.Buffer
	if err := Run(t.Context(), &b, small(2)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"forward, KL", "gradient", "of both"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	b.Reset()
	o := small(1)
	o.JSON = true
	if err := Run(t.Context(), &b, o); err != nil ||
		!strings.HasPrefix(b.String(), "{") {
		t.Errorf("JSON: %v %s", err, b.String())
	}
}

// TestTorch checks that another program's rounds are timed alongside ours, and that it is an error if that program
// ends.
func TestTorch(t *testing.T) {
	python := filepath.Join(t.TempDir(), "python")
	script := "#!/bin/sh\necho 9.9\nwhile read how rest; do [ $how = time ] && echo ok 0.5 || echo ok; done\n"
	if err := os.WriteFile(python, []byte(script), 0o755); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	var b bytes.Buffer
	o := small(2)
	o.Torch = python
	if err := Run(t.Context(), &b, o); err != nil || !strings.Contains(b.String(), "compiled torch 9.9 takes") {
		t.Errorf("%v\n%s", err, b.String())
	}
	old := "#!/bin/sh\necho 9.9\nwhile read how rest; do [ $how = load ] && echo ok || echo no compiler; done\n"
	if err := os.WriteFile(python, []byte(old), 0o755); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	rep, err := measure(t.Context(), o)
	if err != nil || !strings.Contains(rep.NotCompiled, "compiler") || rep.Grid[0].OfForward != 0 {
		t.Errorf("without a compiler: %v %+v", err, rep)
	}
	for want, text := range map[string]string{
		"doesn't run torch": "#!/bin/sh\n",
		"torch ended":       "#!/bin/sh\necho 9.9\n",
	} {
		t.Run(want, func(t *testing.T) {
			if err := os.WriteFile(python, []byte(text), 0o755); err != nil { //nolint:gosec // it is run
				t.Fatal(err)
			}
			if err := Run(t.Context(), &b, o); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
		})
	}
}

// TestTorchRunsTheFormItNames checks, with a torch that computes nothing, that the fastest form is the one that runs
// afterwards: when each closure ran the loop's last form, gradients looked six times as slow as they are.
func TestTorchRunsTheFormItNames(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	check := `
import sys, time
from unittest.mock import MagicMock
torch = MagicMock(__version__="9.9")
sys.modules.update({"torch": torch, "torch.nn": torch.nn, "torch.nn.functional": torch.nn.functional})
script, sys.argv = sys.argv[1], ["torch.py", "4", "2"]
exec(script)
ran = []
def form(name, seconds):
    return lambda z, t, beta: (ran.append(name), time.sleep(seconds))
for fast in "abc":
    candidates = lambda what: {name: form(name, 0 if name == fast else 0.05) for name in "abc"}
    name, run = choose("forward", 0.5)
    ran.clear()
    run()
    print(fast, name, *ran)
`
	cmd := exec.CommandContext(t.Context(), python, "-c", check, torchScript)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	want := "9.9\na a a\nb b b\nc c c\n"
	if err != nil || string(out) != want {
		t.Errorf("%v\n%s\ngot\n%s\nwant\n%s", err, errs.String(), out, want)
	}
}

// TestGrid checks that every point of the grid is measured, beside torch on the same arrays, and that no row takes the
// float64 path.
func TestGrid(t *testing.T) {
	python := filepath.Join(t.TempDir(), "python")
	script := `#!/bin/sh
echo 9.9
while read how rest; do case $how in time) echo ok 0.5;; load) [ -s "$rest" ] || exit 1; echo ok;; *) echo ok form;; esac; done
`
	if err := os.WriteFile(python, []byte(script), 0o755); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	o := small(2)
	o.Torch, o.Threads = python, o.Threads[:1]
	rep, err := measure(t.Context(), o)
	if err != nil || len(rep.Grid) != len(grid()) {
		t.Fatalf("%d points, want %d (%v)", len(rep.Grid), len(grid()), err)
	}
	for _, p := range rep.Grid {
		clipped := strings.HasPrefix(p.Name, "clip")
		if p.Slow > 0 || p.Forward <= 0 || p.Gradient <= 0 || (p.OfGradient > 1) == clipped {
			t.Errorf("%+v", p)
		}
	}
}
