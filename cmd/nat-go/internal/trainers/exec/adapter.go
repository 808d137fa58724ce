package exec

import (
	"cmp"
	"context"
	"encoding/json"
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

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/httpclient"
	"github.com/nat-go/nat-go/internal/process"
)

// The job's files, in the folder for the trainer's files.
const (
	outputFile = "output.log"
	pidFile    = "pid"
	exitFile   = "exit"
	bornFile   = "submission.json"
	lockFile   = "lock"
	beganFile  = "began"
)

// Adapter starts a program and monitors it.
type Adapter struct {
	conf *Config
	env  trainers.Env
}

// Factory returns the factory for the adapter.
func Factory() trainers.Factory {
	return trainers.Factory{
		Type: Type, Doc: "a local program: TRL, NeMo RL, verl, or your own",
		Format: func(conf any) string { return conf.(*Config).Format }, New: func() any { return new(Config) },
		Open:   func(conf any, env trainers.Env) (trainers.Adapter, error) { return New(conf.(*Config), env), nil },
		Limits: func(conf any) trainers.Limits { return conf.(*Config).Limits() },
	}
}

// New makes an adapter. It doesn't start anything.
func New(conf *Config, env trainers.Env) *Adapter { return &Adapter{conf: conf, env: env} }

// dir returns the folder of the job's files.
func (a *Adapter) dir() string { return runfolder.Folder(a.env.RunDir).Trainer() }

// Check looks for the program and the shell.
func (a *Adapter) Check(context.Context) error {
	for _, name := range []string{"/bin/sh", a.conf.Command[0]} {
		if strings.Contains(name, "{") { // the name contains a variable, whose value is known only in Submit
			continue
		}
		if _, err := osexec.LookPath(name); err != nil {
			return trainers.LocalError("start the trainer", "install the program, or specify its path in command", err)
		}
	}
	return nil
}

// script runs the program in the folder $0 and records its exit status. The shell itself starts and remains in the
// job's folder, so that it can write there even if the run folder is moved. It ignores the signals that end the
// group, so that it can record the status of a program that takes time to exit. It creates the file "began" before it
// starts the program, so if that file is missing after all processes were killed, the program never started.
const script = `trap : TERM INT HUP; echo $$ > pid.new && mv pid.new pid || exit 125
(d=$PWD; cd "$0" && : > "$d/began" || exit 125; exec "$@"); s=$?; echo $s > exit.new && mv exit.new exit`

// submissionRecord describes a submission. It is written to submission.json before the program starts.
type submissionRecord struct {
	Key  string `json:"key"`
	Host string `json:"host"`
	Boot string `json:"boot,omitempty"` // id of the machine's boot at the time of submission, if known
	Mark string `json:"mark"`           // identifies the job's processes
	// inode of the lock file; in a copy of the folder, the lock file has a different inode and isn't locked
	Lock uint64 `json:"lock"`
}

// Submit starts the program.
func (a *Adapter) Submit(_ context.Context, data trainers.DataSet, key string) (trainers.JobRef, error) {
	fail := func(err error) (trainers.JobRef, error) {
		return trainers.JobRef{}, trainers.LocalError("start the trainer", "", err)
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
		return fail(fmt.Errorf("trainer of this run is still running; its files are in %s", dir))
	}
	if err := os.RemoveAll(dir); err != nil { // the folder may contain files of a failed submission
		return fail(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fail(err)
	}
	b := submissionRecord{Key: key, Host: hostname(), Boot: process.Boot()}
	pid, err := a.start(dir, &b, argv, environ)
	if err != nil {
		return fail(err)
	}
	return b.ref(data, pid), nil
}

// start starts the program, and returns its process group without waiting. The shell also records the group in the
// folder, for a nat-go process that continues after a crash, but that may take a while on a busy machine.
func (a *Adapter) start(dir string, b *submissionRecord, argv, environ []string) (pid int, err error) {
	work := cmp.Or(a.conf.WorkDir, ".")
	if work, err = filepath.Abs(work); err != nil {
		return 0, err
	}
	out, err := os.OpenFile(filepath.Join(dir, outputFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	held, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return 0, err
	}
	defer held.Close()
	// Only processes that test whether the lock is free can hold it now, and they release it immediately.
	if err := durable.Lock(held, unix.LOCK_EX); err != nil {
		return 0, fmt.Errorf("cannot lock %s: %w", held.Name(), err)
	}
	b.Lock, b.Mark = inode(held.Name()), process.NewMark()
	text, err := json.Marshal(b)
	if err != nil {
		return 0, err
	}
	if err := durable.WriteFile(filepath.Join(dir, bornFile), append(text, '\n')); err != nil {
		return 0, err
	}
	p, err := process.Start(process.Config{
		Args: append([]string{"/bin/sh", "-c", script, work}, argv...), Dir: dir, Env: environ, Mark: b.Mark,
		Files:  []*os.File{held}, // inherited by the trainer's processes, which thereby hold the lock
		Output: out, Survives: true,
	})
	if err != nil {
		return 0, err
	}
	return p.PID(), nil // no need to wait, because the shell records the exit status in the folder
}

// ref returns the reference for a submission's job.
func (b *submissionRecord) ref(data trainers.DataSet, pid int) trainers.JobRef {
	return trainers.JobRef{
		RunID: data.RunID, Backend: backend, ID: strconv.Itoa(pid),
		Metadata: map[string]string{"host": b.Host, "key": b.Key},
	}
}

// Find looks for the program that a submission started.
func (a *Adapter) Find(ctx context.Context, data trainers.DataSet, key string) (trainers.JobRef, bool, error) {
	none := func(err error) (trainers.JobRef, bool, error) {
		if err != nil {
			err = trainers.LocalError("look for the trainer of this run", "", err)
		}
		return trainers.JobRef{}, false, err
	}
	vars, err := a.conf.variables(data)
	if err != nil {
		return none(err)
	}
	a.env.RunDir = vars["run_dir"]
	dir := a.dir()
	b, err := readBorn(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && b.Key != key:
		return none(nil)
	case err != nil:
		return none(err)
	}
	pid, err := recordedGroup(ctx, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist): // the program may have been started there after the folder was copied
		return none(b.elsewhere(dir))
	case err != nil:
		return none(err)
	case neverBegan(dir): // the shell was killed before the program began, so the job doesn't exist
		return none(b.elsewhere(dir))
	}
	return b.ref(data, pid), true, nil
}

// neverBegan reports whether all of the job's processes were killed before its program began.
func neverBegan(dir string) bool {
	return !alive(dir) && missing(filepath.Join(dir, exitFile)) && missing(filepath.Join(dir, beganFile))
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// maxNote is the maximum size of the adapter's files about the job. Reading a larger file is an error, because the
// trainer has probably overwritten it.
const maxNote = 1 << 20

func readBorn(dir string) (*submissionRecord, error) {
	text, err := durable.ReadFile(filepath.Join(dir, bornFile), maxNote)
	if err != nil {
		return nil, err
	}
	b := new(submissionRecord)
	return b, json.Unmarshal(text, b)
}

// elsewhere returns the error for a folder from which the program can't be observed, because the program is on another
// machine or the folder is a copy. A machine is identified by its name, which differs in a container, or by its boot,
// which changes on a restart.
func (b *submissionRecord) elsewhere(dir string) error {
	if host := hostname(); b.Host != host && (b.Boot == "" || b.Boot != process.Boot()) {
		return fmt.Errorf("cannot observe a program on %s from %s: run the command there", b.Host, host)
	}
	if inode(filepath.Join(dir, lockFile)) != b.Lock {
		return errors.New("cannot observe the program from a copy of its folder: use the original folder")
	}
	return nil
}

func hostname() string {
	host, _ := os.Hostname()
	return cmp.Or(host, "unknown")
}

func inode(path string) uint64 {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0
	}
	return uint64(st.Ino) //nolint:unconvert // its type differs by platform
}

// recordedGroup returns the process group recorded by the shell. It waits if a live shell has not recorded the group
// yet.
func recordedGroup(ctx context.Context, dir string) (int, error) {
	for {
		living := alive(dir) // must be checked before the file is read, because the shell may write it in between
		pid, err := readInt(filepath.Join(dir, pidFile))
		if err == nil || !errors.Is(err, fs.ErrNotExist) || !living {
			return pid, err
		}
		if !httpclient.Sleep(ctx, 10*time.Millisecond) {
			return 0, ctx.Err()
		}
	}
}

// alive reports whether one of the job's processes is alive and holds the lock.
func alive(dir string) bool {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil
}

// Status reads the exit status, if there is one, and the progress at the end of the output.
func (a *Adapter) Status(_ context.Context, job trainers.JobRef) (trainers.JobStatus, error) {
	dir := a.dir()
	living := alive(dir) // must be checked before the file is read, because the program may end in between
	code, err := readInt(filepath.Join(dir, exitFile))
	st := trainers.JobStatus{
		State: trainers.Running, Message: "the trainer is running",
		Metadata: map[string]any{"pid": job.ID, "output": filepath.Join(dir, outputFile)},
	}
	readProgress(filepath.Join(dir, outputFile), &st)
	if err == nil {
		a.ended(dir, code, &st)
		return st, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		if living {
			return st, nil
		}
		err = unseen(dir)
	}
	if err != nil {
		return st, trainers.LocalError("get the status of the trainer", "", err)
	}
	a.vanished(dir, &st)
	return st, nil
}

// vanished sets the status of a trainer whose processes have ended without recording an exit status, because the
// trainer or the shell that records the status was killed. The folder doesn't show whether the program was killed
// before or after its first instruction, and a program that may have started is not restarted unless requested.
func (a *Adapter) vanished(dir string, st *trainers.JobStatus) {
	folder := runfolder.Folder(a.env.RunDir)
	output, err := os.Stat(filepath.Join(dir, outputFile))
	st.State = trainers.Failed
	switch {
	case cancelled(dir):
		st.State, st.Message = trainers.Canceled, "the trainer was cancelled"
	case missing(filepath.Join(dir, beganFile)):
		st.Message = "the trainer was killed before it began, so none of it has run: `nat-go finetune resume " +
			string(folder) + "` starts it"
	case err == nil && output.Size() == 0:
		st.Message = "the trainer was killed as it began, before it printed anything; it is unknown whether its " +
			"first instruction ran, so it is not restarted automatically: to restart it, remove " + folder.Job() +
			" and resume the run"
	default:
		st.Message = "the trainer was killed, or it ended and the shell that records its exit status was killed"
	}
}

// NeverBegan reports whether all of the job's processes were killed before its program began.
func (a *Adapter) NeverBegan(trainers.JobRef) bool {
	dir := a.dir()
	return neverBegan(dir) && !cancelled(dir) && unseen(dir) == nil
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
		st.Detail = lastLines(filepath.Join(dir, outputFile), 5, a.conf.secrets())
	}
}

// cancelFile marks a job that nat-go cancelled.
const cancelFile = "cancelled"

func cancelled(dir string) bool { return runfolder.Has(filepath.Join(dir, cancelFile)) }

// Cancel asks the program and all processes that it started to end, and kills those that don't end in time.
func (a *Adapter) Cancel(ctx context.Context, _ trainers.JobRef) error {
	dir := a.dir()
	fail := func(err error) error { return trainers.LocalError("cancel the trainer", "", err) }
	living := alive(dir)
	if _, err := readInt(filepath.Join(dir, exitFile)); err == nil {
		return nil // the program has already ended
	}
	if !living {
		if err := unseen(dir); err != nil {
			return fail(err)
		}
		return nil
	}
	pid, err := recordedGroup(ctx, dir)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, cancelFile), nil, 0o644)
	}
	if err != nil {
		return fail(err)
	}
	var mark string
	if b, err := readBorn(dir); err == nil {
		mark = b.Mark
	}
	// End all processes started by the program, in any group or session, because launchers put their workers into
	// separate groups.
	tree := process.Tree{Session: pid, Mark: mark}
	if left := tree.Stop(ctx, a.conf.StopTimeout); len(left) > 0 {
		return fail(fmt.Errorf("cannot kill the trainer's processes %v", left))
	}
	if !waitReleased(ctx, dir, lockTimeout) {
		return fail(fmt.Errorf("trainer was stopped, but an unknown process that it started still has %s open", filepath.Join(dir, lockFile)))
	}
	return nil
}

// unseen is called for a program whose lock is free and whose exit status is missing. It returns the reason why the
// program's state is unknown here, or nil if the program has ended.
func unseen(dir string) error {
	b, err := readBorn(dir)
	if err != nil {
		return err
	}
	return b.elsewhere(dir)
}

// lockTimeout is the maximum time that the lock may be held after all detected processes have ended.
const lockTimeout = 2 * time.Second

// waitReleased waits for the processes to release the lock, and reports whether they did within the limit.
func waitReleased(ctx context.Context, dir string, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for alive(dir) {
		if !httpclient.Sleep(ctx, 20*time.Millisecond) {
			return false
		}
	}
	return true
}

func readInt(path string) (int, error) {
	b, err := durable.ReadFile(path, maxNote)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

var _ interface {
	trainers.Adapter
	trainers.Finder
	trainers.Starter
	trainers.Tailer
} = (*Adapter)(nil)
