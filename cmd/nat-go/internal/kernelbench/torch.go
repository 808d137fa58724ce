package kernelbench

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

//go:embed torch.py
var torchScript string

// torch is a Python process that computes the same losses on request, so that its rounds can be interleaved with the
// kernels'. It uses the fastest of several forms that torch.compile fuses. Its allocator is configured to keep memory,
// because by default torch spends most of its time in page faults, which would distort the comparison in the kernels'
// favour.
type torch struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
	version string
}

func startTorch(ctx context.Context, python string, v, rows int) (*torch, error) {
	t := &torch{}
	t.cmd = exec.CommandContext(ctx, python, "-c", torchScript, strconv.Itoa(v),
		strconv.Itoa(rows)) //nolint:gosec // the user names it
	t.cmd.Env = append(os.Environ(), "MALLOC_MMAP_MAX_=0", "MALLOC_TRIM_THRESHOLD_=17179869184",
		"MALLOC_TOP_PAD_=1073741824", "OMP_WAIT_POLICY=PASSIVE")
	t.cmd.Stderr = os.Stderr
	out, err := t.cmd.StdoutPipe()
	if err == nil {
		t.in, err = t.cmd.StdinPipe()
	}
	if err == nil {
		err = t.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("can't run %s: %w", python, err)
	}
	t.out = bufio.NewScanner(out) //nolint:forbidigo // the script is part of this package
	if !t.out.Scan() {
		t.stop()
		return nil, fmt.Errorf("%s doesn't run torch: install it there (%s -m pip install torch), or specify another Python with --torch", python, python)
	}
	t.version = strings.TrimSpace(t.out.Text())
	return t, nil
}

// errNotCompiled means that this torch can't compile, because it is too old or the machine lacks a C++ compiler.
var errNotCompiled = errors.New("torch.compile doesn't work on this machine")

// seconds returns the processor time that torch's fastest compiled form of the kernel takes with one thread.
func (t *torch) seconds(k kernel) (float64, error) {
	what := "forward"
	if k.grad {
		what = "backward"
	}
	answer, err := t.ask("time %s %g 1", what, k.beta)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(answer, 64)
}

// ask sends a line to the torch process and returns the answer.
func (t *torch) ask(format string, args ...any) (string, error) {
	line := fmt.Sprintf(format, args...)
	if _, err := fmt.Fprintln(t.in, line); err != nil {
		return "", fmt.Errorf("torch ended: %w", err)
	}
	if !t.out.Scan() {
		return "", fmt.Errorf("torch exited: %s", line)
	}
	answer, rest, _ := strings.Cut(t.out.Text(), " ")
	if answer != "ok" {
		return "", fmt.Errorf("%w: %s", errNotCompiled, rest)
	}
	return rest, nil
}

func (t *torch) stop() {
	_ = t.in.Close()
	_ = t.cmd.Wait() // wait: the process ends with its input, or is killed when the context is done
}
