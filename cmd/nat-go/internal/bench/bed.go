package bench

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
)

// Bed is a folder in which runs are executed and measured.
type Bed struct {
	Program string // path of nat-go
	Dir     string
	Input   string
	Bytes   int64 // size of the input
}

// newBed creates a folder below dir and generates an input in it. If dir is empty, it uses an in-memory file system
// where possible, so that the disk is not measured. Close removes the folder.
func newBed(program, dir string, s Shape) (*Bed, error) {
	if dir == "" {
		if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
			dir = "/dev/shm"
		}
	}
	dir, err := os.MkdirTemp(dir, "nat-go-bench")
	if err != nil {
		return nil, err
	}
	b := &Bed{Program: program, Dir: dir, Input: filepath.Join(dir, "workflow_output.json")}
	f, err := os.Create(b.Input)
	if err == nil {
		err = errors.Join(Generate(f, s), f.Close())
	}
	var info os.FileInfo
	if err == nil {
		info, err = os.Stat(b.Input)
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	b.Bytes = info.Size()
	return b, nil
}

// Close removes the folder.
func (b *Bed) Close() error { return os.RemoveAll(b.Dir) }

// Run executes a run on the input and returns its usage and the size in bytes of the data set it wrote. It then removes
// the data set.
func (b *Bed) Run(ctx context.Context) (Usage, int64, error) { return b.run(ctx, "--from", b.Input) }

func (b *Bed) run(ctx context.Context, input ...string) (Usage, int64, error) {
	out := filepath.Join(b.Dir, "out")
	defer os.RemoveAll(out)
	args := append([]string{
		"finetune", "run", "--builder", "dpo", "--output-dir", out, "--run-id", "bench", "--dry-run",
		"--format", "customizer",
	}, input...)
	u, err := measure(exec.CommandContext(ctx, b.Program, args...))
	if err != nil {
		return u, 0, err
	}
	return u, size(runfolder.Folder(filepath.Join(out, "bench")).Dataset()), nil
}

// RunPipe executes a run on input that is piped as it is generated, so the input may be larger than any disk. It
// returns the run's usage and the input size in bytes.
func (b *Bed) RunPipe(ctx context.Context, s Shape) (Usage, int64, error) {
	pipe := filepath.Join(b.Dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		return Usage{}, 0, fmt.Errorf("cannot create a pipe: %w", err)
	}
	defer os.Remove(pipe)
	var sent int64
	fed := make(chan error, 1)
	go func() {
		f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
		if err == nil {
			w := &counter{w: f}
			err = errors.Join(Generate(w, s), f.Close())
			sent = w.n
		}
		fed <- err // wait: the channel is buffered and gets only one value
	}()
	u, _, err := b.run(ctx, "--from", pipe, "--source", "workflow_output")
	if err != nil {
		return u, 0, err
	}
	return u, sent, <-fed // wait: the run has read the pipe to its end
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// Floor returns the time needed to write and sync the given number of bytes in the bed's folder, which is a lower
// bound for a run that writes that many bytes.
func (b *Bed) Floor(bytes int64) (time.Duration, error) {
	f, err := os.CreateTemp(b.Dir, "floor") //nolint:forbidigo // this measures the disk
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	block := []byte(strings.Repeat("nat-go writes rows in blocks like this one. ", 1<<20/44+1))[:1<<20]
	began := time.Now()
	for left := bytes; left > 0 && err == nil; left -= int64(len(block)) {
		_, err = f.Write(block[:min(left, int64(len(block)))])
	}
	err = errors.Join(err, f.Sync(), f.Close())
	return time.Since(began), err
}

func size(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			if info, err := e.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

//go:embed time_nat.py
var natScript []byte

// PythonVariable is the environment variable that specifies the Python interpreter in whose environment NAT is
// installed (nvidia-nat-core, nvidia-nat-eval, nvidia-nat-nemo-customizer). If it is not set, python3 is tried.
const PythonVariable = "NATGO_NAT_PYTHON"

// findPython returns a Python interpreter that can import NAT, or "" and the reason why it didn't find one.
func findPython(ctx context.Context) (python, why string) {
	named := os.Getenv(PythonVariable)
	python = cmp.Or(named, "python3")
	const needed = "import nat.plugins.customizer.dpo.trainer_adapter, nat.plugins.eval.utils.intermediate_step_adapter"
	text, err := exec.CommandContext(ctx, python, "-W", "ignore", "-c", needed).CombinedOutput()
	switch {
	case err == nil:
		return python, ""
	case named == "":
		return "", "NAT is not installed here; " + PythonVariable + " can specify a Python that has it"
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return "", fmt.Sprintf("NAT can't be imported by %s, as set in %s: %s", named, PythonVariable,
		cmp.Or(lines[len(lines)-1], err.Error()))
}

// RunNAT does the same as Run, but with NAT's own code. The returned wall time excludes Python's start-up and imports,
// which take several seconds. The processor time includes them.
func (b *Bed) RunNAT(ctx context.Context, python string) (Usage, error) {
	script, out := filepath.Join(b.Dir, "time_nat.py"), filepath.Join(b.Dir, "nat")
	defer os.RemoveAll(out)
	if err := errors.Join(os.MkdirAll(out, 0o755), os.WriteFile(script, natScript, 0o600)); err != nil {
		return Usage{}, err
	}
	cmd := exec.CommandContext(ctx, python, script, b.Input, out)
	var text bytes.Buffer
	cmd.Stdout = &text
	u, err := measure(cmd)
	if err != nil {
		return u, err
	}
	var seconds float64
	if _, err := fmt.Sscan(text.String(), &seconds, &u.Peak); err != nil {
		return u, fmt.Errorf("cannot read NAT's timing from %q: %w", text.String(), err)
	}
	u.Wall = time.Duration(seconds * float64(time.Second))
	return u, nil
}
