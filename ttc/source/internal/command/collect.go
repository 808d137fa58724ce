package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/process"
	"github.com/nat-go/nat-go/ttc/source/internal/nat"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// The files of a collection run, in its folder.
const (
	outputDir = "output"
	logFile   = "output.log"
	doneFile  = "done"
	markFile  = "process" // the mark that identifies the program's processes
)

// secretFiles are the files in which `nat eval` writes its configuration, with variables substituted, next to its
// output.
var secretFiles = []string{"config_original.yml", "config_effective.yml", "config_metadata.json"}

// collect runs the program as many times as the config specifies, each time in dir/run<k>, and returns the outputs in
// order. Completed runs are not repeated. The program's output goes to dir/run<k>/output.log.
func collect(ctx context.Context, cfg Config, dir string) ([]string, error) {
	var paths []string
	for run := range cfg.Runs {
		c := collector{cfg: &cfg, run: run, dir: filepath.Join(dir, "run"+strconv.Itoa(run))}
		path, err := c.collect(ctx)
		if err != nil {
			return paths, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

type collector struct {
	cfg *Config
	run int
	dir string
}

func (c *collector) collect(ctx context.Context) (string, error) {
	out, err := filepath.Abs(filepath.Join(c.dir, outputDir))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(c.dir, doneFile)); err == nil {
		return c.found(out)
	}
	if err := c.endOrphans(); err != nil {
		return "", err
	}
	if err := os.RemoveAll(c.dir); err != nil { // left by an interrupted run
		return "", err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", err
	}
	argv, cleanup, err := c.command(ctx, out)
	if err != nil {
		return "", err
	}
	defer cleanup()
	err = c.start(ctx, argv)
	if err := errors.Join(err, removeSecrets(out)); err != nil { // remove secrets even if the program failed
		return "", err
	}
	path, err := c.found(out)
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(filepath.Join(c.dir, doneFile), nil, 0o644)
}

// found returns the path of a run's output file. It returns an error unless there is exactly one.
func (c *collector) found(out string) (string, error) {
	paths, err := source.Expand([]string{out}, nat.FileName)
	if err != nil || len(paths) != 1 {
		what := fmt.Sprintf("%s succeeded, but the folder contains %d files called %s", c.cfg.Command[0], len(paths),
			nat.FileName)
		return "", source.Failure(out, what,
			"The program must write it to {output_dir}; what it printed is in "+filepath.Join(c.dir, logFile), err)
	}
	return paths[0], nil
}

func removeSecrets(dir string) error {
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && slices.Contains(secretFiles, d.Name()) {
			return os.Remove(path)
		}
		return err
	})
}

// command returns the command line for this run. Call cleanup when it has ended.
func (c *collector) command(ctx context.Context, out string) (argv []string, cleanup func(), err error) {
	vars := []string{"{output_dir}", out, "{run}", strconv.Itoa(c.run)}
	cleanup = func() {}
	if strings.Contains(strings.Join(c.cfg.Command, " "), "{config}") {
		if c.cfg.NATConfig == "" {
			return nil, cleanup, errors.New("sources: the command needs a configuration for {config}: set nat_config")
		}
		text, err := writeCopy(ctx, c.cfg.NATConfig, out, c.cfg.StepTypes)
		if err != nil {
			return nil, cleanup, err
		}
		path, err := temporary(text)
		if err != nil {
			return nil, cleanup, err
		}
		cleanup = func() { os.Remove(path) }
		vars = append(vars, "{config}", path)
	}
	return lists.Map(c.cfg.Command, strings.NewReplacer(vars...).Replace), cleanup, nil
}

// temporary writes a file that only its owner can read.
func temporary(text []byte) (string, error) {
	f, err := os.CreateTemp("", "nat-go-*.yml") //nolint:forbidigo // the program gets the name
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// start runs the program and waits for it to end.
func (c *collector) start(ctx context.Context, argv []string) error {
	if c.cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.cfg.Timeout)
		defer cancel()
	}
	log, err := os.Create(filepath.Join(c.dir, logFile))
	if err != nil {
		return err
	}
	defer log.Close()
	// The mark lets a later nat-go end the program's processes if this process is killed.
	mark := process.NewMark()
	if err := os.WriteFile(filepath.Join(c.dir, markFile), []byte(mark), 0o600); err != nil {
		return err
	}
	p, err := process.Start(process.Config{
		Args: argv, Env: os.Environ(), Mark: mark,
		Stdout: func(r io.Reader) { _, _ = io.Copy(log, r) }, // output that can't be copied is drained
	})
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("cannot find %s: install it, or specify its path in the source's command: %w", argv[0], err)
	}
	if err != nil {
		return err
	}
	err = p.Run(ctx, c.cfg.StopTimeout)
	if left := p.Left(); len(left) > 0 {
		fmt.Fprintf(log, "\nnat-go: cannot end processes %v, which %s started\n", left, argv[0])
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%s did not end within %s; its output is in %s", argv[0], c.cfg.Timeout, log.Name())
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		return fmt.Errorf("%s failed (%w): %s", argv[0], err, lastLine(log.Name()))
	}
}

// endOrphans ends the processes that remain from a program whose nat-go was killed, because they would write into the
// next run's folder.
func (c *collector) endOrphans() error {
	mark, err := durable.ReadFile(filepath.Join(c.dir, markFile), int64(len(process.NewMark())))
	if err != nil || len(mark) != len(process.NewMark()) {
		return nil // no earlier run left a mark
	}
	if left := (&process.Tree{Mark: string(mark)}).Stop(context.Background(), c.cfg.StopTimeout); len(left) > 0 {
		return fmt.Errorf("cannot stop the interrupted run's program, which is still running: "+
			"processes %v write to %s", left, c.dir)
	}
	return nil
}

// lastLine returns the last line of the program's output, and the path of the full output.
func lastLine(path string) string {
	f, err := durable.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, size-2000), io.SeekStart)
	}
	b, _ := io.ReadAll(f) // after an error, the part already read serves as an excerpt
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(b), "?")), "\n")
	return fmt.Sprintf("%q; the full output is in %s", lines[len(lines)-1], path)
}
