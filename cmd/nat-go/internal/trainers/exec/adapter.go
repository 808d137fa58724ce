package exec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
)

// The files of a job, below the run folder.
const (
	folder     = "trainer"
	outputFile = "output.log"
	pidFile    = "pid"
	exitFile   = "exit"
	keyFile    = "key"
	lockFile   = "lock"
)

// Adapter starts a program and looks after it.
type Adapter struct {
	conf *Config
	env  trainers.Env
}

// Kind describes the adapter.
func Kind() trainers.Kind {
	return trainers.Kind{
		Type:   Type,
		Doc:    "a local program: TRL, NeMo RL, verl, or your own",
		Format: func(conf any) string { return conf.(*Config).Format },
		Config: func() any { return new(Config) },
		Open:   func(conf any, env trainers.Env) (trainers.Adapter, error) { return New(conf.(*Config), env), nil },
		Limits: func(conf any) trainers.Limits { return conf.(*Config).Limits() },
	}
}

// New makes an adapter. It starts nothing.
func New(conf *Config, env trainers.Env) *Adapter { return &Adapter{conf: conf, env: env} }

// dir is where the job's files are.
func (a *Adapter) dir() string { return filepath.Join(a.env.RunDir, folder) }

// Check looks for the program and the shell.
func (a *Adapter) Check(context.Context) error {
	for _, name := range []string{"/bin/sh", a.conf.Command[0]} {
		if strings.Contains(name, "{") { // a variable of the run
			continue
		}
		if _, err := osexec.LookPath(name); err != nil {
			return &trainers.Error{Op: "start the trainer", Why: err.Error(), Fix: "install it, or give its path in command", Fault: trainers.Local, Err: err}
		}
	}
	return nil
}

// script runs the program and notes its exit status; $0 is the folder of the job. It stays when the group is asked to end,
// so that the status of a program that ends in its own time is noted, too.
const script = `trap : TERM INT HUP; cd "$0" && echo $$ > pid.new && mv pid.new pid || exit 125; cd "$1" || { echo 125 > "$0/exit"; exit; }; shift
"$@"; s=$?; echo $s > "$0/exit.new" && mv "$0/exit.new" "$0/exit"`

// Submit starts the program.
func (a *Adapter) Submit(_ context.Context, data trainers.DataSet, key string) (trainers.JobRef, error) {
	fail := func(err error) (trainers.JobRef, error) {
		return trainers.JobRef{}, &trainers.Error{Op: "start the trainer", Why: err.Error(), Fault: trainers.Local, Err: err}
	}
	vars, err := a.conf.variables(data)
	if err != nil {
		return fail(err)
	}
	argv, err := a.conf.command(vars)
	if err != nil {
		return fail(err)
	}
	environ, err := a.conf.environ(vars, os.LookupEnv)
	if err != nil {
		return fail(err)
	}
	a.env.RunDir = vars["run_dir"]
	dir := a.dir()
	if alive(dir) {
		return fail(fmt.Errorf("a trainer of this run is still running; its files are in %s", dir))
	}
	if err := os.RemoveAll(dir); err != nil { // of a submission that came to nothing
		return fail(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fail(err)
	}
	if err := os.WriteFile(filepath.Join(dir, keyFile), []byte(key+"\n"), 0o644); err != nil {
		return fail(err)
	}
	if err := a.start(dir, argv, environ); err != nil {
		return fail(err)
	}
	a.env.Log.Info().Str("program", argv[0]).Str("output", filepath.Join(dir, outputFile)).Msg("started the trainer")
	return a.ref(data, dir, key)
}

func (a *Adapter) start(dir string, argv, environ []string) error {
	work := a.conf.WorkDir
	if work == "" {
		work = "."
	}
	work, err := filepath.Abs(work)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(filepath.Join(dir, outputFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	held, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer held.Close()
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("lock %s: %w", held.Name(), err)
	}
	cmd := osexec.Command("/bin/sh", append([]string{"-c", script, dir, work}, argv...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environ, out, out
	cmd.ExtraFiles = []*os.File{held} // the group holds the lock from now on
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // reaps it; its status is in the folder
	return nil
}

// ref waits for the shell to note its process group, which takes milliseconds.
func (a *Adapter) ref(data trainers.DataSet, dir, key string) (trainers.JobRef, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	for range 500 {
		if pid, err := readInt(filepath.Join(dir, pidFile)); err == nil {
			return trainers.JobRef{RunID: data.RunID, Backend: Backend, ID: strconv.Itoa(pid), Metadata: map[string]string{
				"host": host, "key": key,
			}}, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return trainers.JobRef{}, &trainers.Error{Op: "start the trainer", Why: "the shell did not note its process", Fault: trainers.Local, Unsettled: true}
}

// Find looks for the program that a submission started.
func (a *Adapter) Find(_ context.Context, data trainers.DataSet, key string) (trainers.JobRef, bool, error) {
	vars, err := a.conf.variables(data)
	if err != nil {
		return trainers.JobRef{}, false, err
	}
	a.env.RunDir = vars["run_dir"]
	dir := a.dir()
	have, err := os.ReadFile(filepath.Join(dir, keyFile))
	if errors.Is(err, fs.ErrNotExist) || err == nil && strings.TrimSpace(string(have)) != key {
		return trainers.JobRef{}, false, nil
	}
	if err != nil {
		return trainers.JobRef{}, false, &trainers.Error{Op: "look for the trainer of this run", Why: err.Error(), Fault: trainers.Local, Err: err}
	}
	if _, err := os.Stat(filepath.Join(dir, pidFile)); errors.Is(err, fs.ErrNotExist) && !alive(dir) {
		return trainers.JobRef{}, false, nil
	}
	ref, err := a.ref(data, dir, key)
	return ref, err == nil, err
}

// alive says whether a process of the group lives: it holds the lock.
func alive(dir string) bool {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil
}

// Status reads the exit status, or, while there is none, the end of the output.
func (a *Adapter) Status(_ context.Context, job trainers.JobRef) (trainers.JobStatus, error) {
	dir := a.dir()
	living := alive(dir) // before the exit status is looked for: a program that ends between the two has one
	code, err := readInt(filepath.Join(dir, exitFile))
	st := trainers.JobStatus{State: trainers.Running, Message: "the trainer is running", Metadata: map[string]any{"pid": job.ID, "output": filepath.Join(dir, outputFile)}}
	readProgress(filepath.Join(dir, outputFile), &st)
	switch {
	case err == nil:
		a.ended(dir, code, &st)
	case !errors.Is(err, fs.ErrNotExist):
		return st, &trainers.Error{Op: "get the status of the trainer", Why: err.Error(), Fault: trainers.Local, Err: err}
	case living:
	default:
		if host, _ := os.Hostname(); job.Metadata["host"] != host {
			return st, &trainers.Error{Op: "get the status of the trainer", Why: "it was started on " + job.Metadata["host"], Fix: "ask there", Fault: trainers.Local}
		}
		st.State, st.Message = trainers.Failed, "the trainer is gone and left no exit status: it was killed"
		if cancelled(dir) {
			st.State, st.Message = trainers.Canceled, "the trainer was cancelled"
		}
	}
	return st, nil
}

func (a *Adapter) ended(dir string, code int, st *trainers.JobStatus) {
	st.Metadata["exit_status"] = code
	switch {
	case cancelled(dir):
		st.State, st.Message = trainers.Canceled, "the trainer was cancelled"
	case code == 0:
		st.State, st.Message = trainers.Completed, "the trainer ended with exit status 0"
	default:
		st.State, st.Message = trainers.Failed, fmt.Sprintf("the trainer ended with exit status %d", code)
		if code > 128 {
			st.Message += fmt.Sprintf(" (signal %s)", syscall.Signal(code-128))
		}
		st.Detail = lastLines(filepath.Join(dir, outputFile), 5)
	}
}

// cancelFile says that a job was cancelled by us.
const cancelFile = "cancelled"

func cancelled(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, cancelFile))
	return err == nil
}

// Cancel asks the process group to end, and kills it when it does not in time.
func (a *Adapter) Cancel(ctx context.Context, _ trainers.JobRef) error {
	dir := a.dir()
	fail := func(err error) error {
		return &trainers.Error{Op: "cancel the trainer", Why: err.Error(), Fault: trainers.Local, Err: err}
	}
	if _, err := readInt(filepath.Join(dir, exitFile)); err == nil || !alive(dir) {
		return nil // it has ended
	}
	pid, err := readInt(filepath.Join(dir, pidFile))
	if err != nil {
		return fail(err)
	}
	if err := os.WriteFile(filepath.Join(dir, cancelFile), nil, 0o644); err != nil {
		return fail(err)
	}
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := syscall.Kill(-pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fail(err)
		}
		if gone(ctx, dir, a.conf.StopTimeout) {
			return nil
		}
	}
	return fail(fmt.Errorf("process group %d outlives a kill", pid))
}

// gone waits for the group to let go of the lock.
func gone(ctx context.Context, dir string, limit time.Duration) bool {
	end := time.Now().Add(limit)
	for alive(dir) {
		if ctx.Err() != nil || time.Now().After(end) {
			return false
		}
		time.Sleep(20 * time.Millisecond)
	}
	return true
}

func readInt(path string) (int, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

var _ interface {
	trainers.Adapter
	trainers.Finder
	trainers.Tailer
} = (*Adapter)(nil)
