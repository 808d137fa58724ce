package runfolder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/internal/durable"
)

// Holder identifies the process that holds a run's lock, or that died while holding it.
type Holder struct {
	Command string    `json:"command"` // the command line, without nat-go and some of the arguments
	Process int       `json:"process"`
	Host    string    `json:"host"`
	Since   time.Time `json:"since"`
	Placing *Placing  `json:"placing,omitempty"`
}

func (h *Holder) String() string {
	return fmt.Sprintf("`nat-go %s` (process %d on %s, since %s)", h.Command, h.Process, h.Host,
		h.Since.Format(time.DateTime))
}

// attempts returns the number of times to retry taking a lock whose recorded holder is h. Retries are a millisecond
// apart.
func (h *Holder) attempts() int {
	if h == nil { // the holder has just taken the lock, or is releasing it
		return 20
	}
	// The holder was killed. A process that the holder was just starting inherits the lock, and releases it on exec.
	if host, err := os.Hostname(); err == nil && host == h.Host && unix.Kill(h.Process, 0) == unix.ESRCH {
		return 5000
	}
	return 0
}

// Lock is the lock on a run folder, which every process that writes to the folder must hold. The lock is released
// when the process ends, even if the process is killed.
type Lock struct {
	Folder Folder
	// Left is the previous holder if it was interrupted while working, and nil otherwise.
	Left *Holder

	file     *os.File
	writeErr error // error from writing the holder; not fatal, so that a user can free space on a full disk
	keep     bool  // whether Close must keep the holder in the lock file, because some files haven't been renamed yet
	holder   Holder
}

// Busy is the error for a run folder that is locked by another process.
type Busy struct {
	Folder Folder
	Holder *Holder // nil means unknown
}

func (e *Busy) Error() string {
	who := "another nat-go"
	if e.Holder != nil {
		who = e.Holder.String()
	}
	return fmt.Sprintf("%s is working on the run in %s: wait for it to end", who, e.Folder)
}

// lockFile returns the path of the lock file. The file remains when the lock is released, because waiting processes
// have it open.
func (f Folder) lockFile() string { return f.path(".lock") }

// Lock takes the lock for a command. If another process holds it, the error wraps a *Busy.
func (f Folder) Lock(command string) (*Lock, error) {
	for {
		l, err := f.tryLock(command)
		switch {
		case errors.As(err, new(*Busy)):
			return nil, exit.With(exit.Usage, err)
		case err != nil:
			return nil, exit.Environmentf("cannot lock the run folder: %w", err)
		case l != nil:
			return l, nil
		}
	}
}

// pause is the time that LockSoon waits between attempts.
const pause = 50 * time.Millisecond

// LockSoon takes the lock for a short task. If another process holds it, LockSoon retries until patience has elapsed or
// ctx is done.
func (f Folder) LockSoon(ctx context.Context, command string, patience time.Duration) (*Lock, error) {
	for end := time.Now().Add(patience); ; {
		l, err := f.Lock(command)
		if !errors.As(err, new(*Busy)) || time.Now().After(end) {
			return l, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// tryLock takes the lock. It returns nil without an error if the file was replaced in the meantime.
func (f Folder) tryLock(command string) (*Lock, error) {
	file, err := os.OpenFile(f.lockFile(), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, err
	}
	left, busy, readErr := attempt(file, unix.LOCK_EX)
	for i := 0; busy && readErr == nil && i < left.attempts(); i++ {
		time.Sleep(time.Millisecond)
		left, busy, readErr = attempt(file, unix.LOCK_EX)
	}
	if busy {
		file.Close()
		return nil, &Busy{f, left}
	}
	l := &Lock{Folder: f, Left: left, file: file} // on a file system without locks, runs are not locked
	if readErr != nil || !l.isLinked() {
		file.Close()
		return nil, readErr
	}
	l.Left = f.settle(l.Left)
	host, _ := os.Hostname()
	l.holder = Holder{Command: command, Process: os.Getpid(), Host: host, Since: time.Now().UTC().Truncate(time.Second)}
	l.writeErr = l.write(&l.holder)
	return l, nil
}

// attempt tries to lock the file, and reads its holder; see readHolder.
func attempt(file *os.File, how int) (left *Holder, busy bool, err error) {
	busy = errors.Is(durable.Lock(file, how|unix.LOCK_NB), unix.EWOULDBLOCK)
	left, err = readHolder(file, busy)
	return left, busy, err
}

// maxHolder is the maximum number of bytes of a lock file that are read.
const maxHolder = 1 << 20

// readHolder returns the process that holds the lock, or that was interrupted while holding it, or nil if there is no
// such process or it is unknown.
func readHolder(f *os.File, busy bool) (*Holder, error) {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("not a regular file: %s", f.Name())
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.NewSectionReader(f, 0, maxHolder))
	if err != nil || len(text) == 0 {
		return nil, err
	}
	h := new(Holder)
	if json.Unmarshal(text, h) != nil {
		if busy { // the holder is still writing its entry
			return nil, nil
		}
		return &Holder{Command: "?"}, nil // the holder died while writing its entry
	}
	return h, nil
}

// write replaces the content of the lock file with the holder. If h is nil, the file becomes empty.
func (l *Lock) write(h *Holder) error {
	var text []byte
	if h != nil {
		var err error
		if text, err = json.Marshal(h); err != nil {
			return err
		}
	}
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := l.file.WriteAt(text, 0)
	return err
}

// isLinked reports whether the folder still contains the locked file, and not another file with the same name.
func (l *Lock) isLinked() bool {
	held, err := l.file.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(l.Folder.lockFile())
	return err == nil && os.SameFile(held, now)
}

// Check returns an error if the run folder has been removed or replaced since it was locked.
func (l *Lock) Check() error {
	if l.isLinked() {
		return nil
	}
	return exit.Environmentf("run folder %s was removed or replaced while nat-go was working in it: start a new run", l.Folder)
}

// Finished records that the work announced by Place is done, and that no work of an earlier holder remains unfinished.
func (l *Lock) Finished() { l.keep, l.Left = false, nil }

// Close releases the lock. Calling it again has no effect.
func (l *Lock) Close() {
	if l == nil || l.file == nil {
		return
	}
	if !l.keep {
		left := l.Left
		if left != nil && !left.converts() { // for other commands, missing files already show the interruption
			left = nil
		}
		_ = l.write(left) // if writing fails, the next holder treats this command as interrupted
	}
	// A process that is just being started has a copy of the file descriptor, so closing the file wouldn't release the
	// lock.
	_ = unix.Flock(int(l.file.Fd()), unix.LOCK_UN)
	l.file.Close()
	l.file = nil
}

// LeftBy returns the process that was interrupted while working in the folder, or nil if none was. If another process
// holds the lock, it returns a *Busy error.
func (f Folder) LeftBy() (*Holder, error) {
	file, err := os.OpenFile(f.lockFile(), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	h, busy, err := attempt(file, unix.LOCK_SH)
	if busy {
		return nil, &Busy{f, h}
	}
	if h != nil && h.converts() && h.Placing == nil {
		return nil, err // the interrupted command didn't change anything
	}
	return h, err
}

// Create creates the folder and locks it, so that two runs never share one. If the folder has already been used (see
// Used), Create returns an error, and doesn't change anything in it.
func (f Folder) Create(command string) (*Lock, error) {
	if err := f.refuseUsed(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(string(f), 0o755); err != nil {
		return nil, exit.Environmentf("cannot create the run folder: %w", err)
	}
	l, err := f.Lock(command)
	if errors.As(err, new(*Busy)) {
		return nil, exit.Usagef("%w, or choose another --run-id", err)
	}
	if err != nil {
		return nil, err
	}
	if err = f.refuseUsed(); err == nil {
		if err = l.Sweep(); err == nil {
			err = os.MkdirAll(f.Records(), 0o755)
		}
		if err != nil {
			err = exit.Environmentf("cannot create the run folder: %w", err)
		}
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (f Folder) refuseUsed() error {
	used, err := f.Used()
	switch {
	case err != nil:
		return exit.Environmentf("cannot create the run folder: %w", err)
	case used:
		if _, err := f.LeftBy(); errors.As(err, new(*Busy)) {
			return exit.Usagef("%w, or choose another --run-id", err)
		}
		return exit.Usagef("run folder %s already exists: choose another --run-id, or continue it with "+
			"`nat-go finetune resume %s`", f, f)
	}
	return nil
}

// Locked reports whether the folder has ever been locked.
func (f Folder) Locked() bool { return Has(f.lockFile()) }

// Used reports whether the folder contains more than the lock, the configuration, the empty record folder and the
// temporary files of a run that died too early to be resumed. A folder that isn't empty and has no lock doesn't belong
// to a run, so it also counts as used.
func (f Folder) Used() (bool, error) {
	top, err := os.ReadDir(string(f))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(top) == 0 {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !f.Locked() {
		return true, nil
	}
	for _, e := range top {
		switch p := f.path(e.Name()); {
		case p == f.Records(), p == f.Config(), p == f.lockFile(), durable.Temporary(e.Name()):
		default:
			return true, nil
		}
	}
	records, err := os.ReadDir(f.Records())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for _, e := range records {
		if !durable.Temporary(e.Name()) {
			return true, nil
		}
	}
	return false, err
}

// Sweep removes the temporary files of a command that was killed. It does not search the trainer's and the agent's
// folders.
func (l *Lock) Sweep() error {
	f := l.Folder
	for _, t := range []struct {
		path  string
		depth int // number of folder levels below path to sweep
	}{{string(f), 0}, {f.Records(), 0}, {f.Dataset(), 1}, {f.Batches(), 2}, {f.Teacher(), 1}} {
		if err := sweep(t.path, t.depth); err != nil {
			return err
		}
	}
	return nil
}

func sweep(dir string, depth int) error {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() { // a link may lead to a folder that isn't the run's
		return nil
	}
	if err := durable.Sweep(dir); err != nil || depth == 0 {
		return err
	}
	inner, err := os.ReadDir(dir)
	for _, e := range inner {
		if err == nil && e.IsDir() {
			err = sweep(filepath.Join(dir, e.Name()), depth-1)
		}
	}
	return err
}

// converting is the prefix of Holder.Command for commands that write formats to a complete run.
const converting = "dataset convert"

// LockToConvert locks a complete run, so that the given formats of its data set can be written. If an earlier
// conversion was interrupted, it must be repeated, so formats must include all formats that it was writing.
func (f Folder) LockToConvert(formats []string) (*Lock, error) {
	command := converting
	for _, name := range formats {
		command += " --format " + name
	}
	if _, err := f.ReadManifest(); errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Usagef("run in %s is not complete: `nat-go finetune resume %s` continues it", f, f)
	} else if err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	l, err := f.Lock(command)
	if err != nil {
		return nil, err
	}
	if err := l.RefuseConverting(formats); err != nil {
		l.Close()
		return nil, err
	}
	err = l.writeErr
	if err == nil {
		err = l.Sweep()
	}
	if err != nil {
		l.Close()
		return nil, exit.Environmentf("cannot write to the run folder: %w", err)
	}
	return l, nil
}

// converts reports whether the holder's command writes formats to a complete run.
func (h *Holder) converts() bool { return strings.HasPrefix(h.Command, converting+" ") }

// RefuseConverting returns an error if the last holder was interrupted while converting to a format other than those
// in again, which lists the formats to write now.
func (l *Lock) RefuseConverting(again []string) error {
	if l.Left == nil {
		return nil
	}
	words, ok := strings.CutPrefix(l.Left.Command, converting+" --format ")
	if !ok {
		return nil
	}
	for _, name := range strings.Split(words, " --format ") {
		if !slices.Contains(again, name) {
			return exit.Usagef("%s was interrupted in %s: rerun that command first", l.Left, l.Folder)
		}
	}
	return nil
}
