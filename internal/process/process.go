package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Config configures a program to start.
type Config struct {
	Args []string // the program and its arguments
	Path string   // the program's file, if Args[0] is only its display name
	Dir  string   // working directory; if empty, this program's
	Env  []string // the program's whole environment, except for the mark
	Mark string   // identifies the program's processes; if empty, a new mark is made (see NewMark)
	With string   // an additional mark, shared with other processes; may be empty

	// Stdout and Stderr read the program's output, each in its own goroutine, until the end. Output that they don't
	// read is drained. If Stdout is nil, standard output is discarded. If Stderr is nil, standard error goes to the
	// same destination as standard output. Output, which replaces both, is a file to which the program writes directly.
	Stdout, Stderr func(io.Reader)
	Output         *os.File

	// Group gives the program its own process group, but leaves it in nat-go's session. Because Linux divides processor
	// time between sessions (autogroup), two programs that constantly exchange work are slower in different sessions.
	Group bool

	Input    bool       // the program reads its input from a pipe, Process.Stdin; otherwise its input is empty
	Files    []*os.File // additional open files: descriptors 3, 4, ...
	Confined bool       // the program cannot read nat-go's memory and environment; see the package comment
	// Survives keeps the program running after nat-go exits, and its children after the program exits by itself.
	Survives bool
}

// Process is a started program.
type Process struct {
	Stdin io.WriteCloser // the program's input; nil unless Config.Input is set

	cmd      *exec.Cmd
	pid      int
	mark     string
	started  uint64
	survives bool // see Config.Survives

	mu     sync.Mutex
	reaped bool
	cause  error
	exit   error
	left   []int

	over chan struct{}
	done chan struct{}
}

// drainTimeout is the time for which an undetected process may hold the pipes open after the program has ended.
const drainTimeout = time.Second

// Start starts a program.
func Start(c Config) (*Process, error) {
	p := &Process{survives: c.Survives, over: make(chan struct{}), done: make(chan struct{})}
	p.mark = cmp.Or(c.Mark, NewMark())
	path := cmp.Or(c.Path, c.Args[0])
	p.cmd = exec.Command(path, c.Args[1:]...)
	p.cmd.Args[0] = c.Args[0]
	p.cmd.Dir, p.cmd.Env, p.cmd.ExtraFiles = c.Dir, withMarks(c.Env, c.With, p.mark), c.Files
	p.cmd.SysProcAttr = attributes(&c)

	var pipes plumbing
	if err := pipes.lay(p.cmd, &c); err != nil {
		pipes.close()
		return nil, err
	}
	if pipes.stdin != nil {
		p.Stdin = pipes.stdin
	}
	started := make(chan error)
	// The kernel sends the parent-death signal when the thread that forked ends, not when this program does. The
	// goroutine is therefore locked to its thread until the child has ended.
	goInThread(func() {
		if c.Confined {
			confine() // confines the thread and its children
		}
		var err error
		p.cmd, err = launch(p.cmd, c.With, p.mark)
		closeAll(pipes.theirs...)
		if err == nil {
			p.pid = p.cmd.Process.Pid
			p.started = startTime(p.pid)
		}
		started <- err
		if err == nil {
			p.wait(&pipes)
		}
	})
	if err := <-started; err != nil {
		closeAll(pipes.ours...)
		return nil, err
	}
	return p, nil
}

// goInThread runs f in a goroutine with a separate thread, which ends when f returns. It is never the main thread:
// programs in the domain of a process's main thread may read that process, so a program confined there could read this
// one.
func goInThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if !isMainThread() {
			f()
			return
		}
		defer runtime.UnlockOSThread()
		locked := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(locked)
			f()
		}()
		<-locked
	}()
}

// plumbing holds the pipes between this program (ours) and a child (theirs).
type plumbing struct {
	theirs, ours []*os.File
	stdin        *os.File
	readers      []func(io.Reader) // one reader for each file in ours
}

func (l *plumbing) lay(cmd *exec.Cmd, c *Config) error {
	if c.Input {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		l.theirs, l.stdin, cmd.Stdin = append(l.theirs, r), w, r
	}
	if c.Output != nil {
		cmd.Stdout, cmd.Stderr = c.Output, c.Output
		return nil
	}
	if c.Stdout != nil {
		w, err := l.output(c.Stdout)
		if err != nil {
			return err
		}
		cmd.Stdout, cmd.Stderr = w, w
	}
	if c.Stderr != nil {
		w, err := l.output(c.Stderr)
		if err != nil {
			return err
		}
		cmd.Stderr = w
	}
	return nil
}

func (l *plumbing) output(reader func(io.Reader)) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	l.theirs, l.ours, l.readers = append(l.theirs, w), append(l.ours, r), append(l.readers, reader)
	return w, nil
}

func (l *plumbing) close() {
	closeAll(l.theirs...)
	closeAll(l.ours...)
	if l.stdin != nil {
		l.stdin.Close()
	}
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// wait drains the output, waits for the program to end, and ends its remaining processes unless they may survive.
func (p *Process) wait(pipes *plumbing) {
	var readers sync.WaitGroup
	for i, read := range pipes.readers {
		readers.Go(func() {
			read(pipes.ours[i])
			_, _ = io.Copy(io.Discard, pipes.ours[i])
		})
	}
	var left []int
	err := await(p.cmd, func() {
		close(p.over)
		p.mu.Lock()
		p.reaped = true
		all := p.cause != nil || !p.survives
		p.mu.Unlock()
		if all {
			left = p.tree().Kill()
		}
	})
	late := time.AfterFunc(drainTimeout, func() { closeAll(pipes.ours...) })
	readers.Wait()
	late.Stop()
	closeAll(pipes.ours...)
	if pipes.stdin != nil {
		pipes.stdin.Close()
	}
	p.mu.Lock()
	p.exit, p.left = err, left
	p.mu.Unlock()
	close(p.done)
}

func (p *Process) tree() *Tree {
	return &Tree{Session: p.pid, Mark: p.mark, ours: true, since: p.started}
}

// PID returns the id of the program's process, which is also the id of its session or group.
func (p *Process) PID() int { return p.pid }

// Mark returns the mark that identifies the program's processes.
func (p *Process) Mark() string { return p.mark }

// Done returns a channel that is closed when the program and, unless they may survive, its descendants have ended,
// and the program's output has been read.
func (p *Process) Done() <-chan struct{} { return p.done }

// Over returns a channel that is closed when the program itself has ended; its children may still be running, and there
// may be unread output.
func (p *Process) Over() <-chan struct{} { return p.over }

// Err returns the reason why the program was killed or stopped. Otherwise, it returns nil or an *exec.ExitError. It
// waits for Done.
func (p *Process) Err() error {
	<-p.done
	if p.cause != nil {
		return p.cause
	}
	return p.exit
}

// Left lists processes of the program that could not be ended. It waits for Done.
func (p *Process) Left() []int {
	<-p.done
	return p.left
}

// Kill kills the program and its descendants, without waiting for them to end. Only the first cause is recorded.
func (p *Process) Kill(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return
	}
	p.cause = cmp.Or(p.cause, cause)
	// Kill everything that can be found now, because some processes can be found only while their parent is running.
	// Processes missed here are killed after the program has ended.
	tree := p.tree()
	tree.signal(syscall.SIGKILL)
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
}

// Stop asks the program and its descendants to end, and kills the processes that do not end in time. It returns when
// they have ended.
func (p *Process) Stop(cause error, patience time.Duration) {
	p.mu.Lock()
	if p.cause == nil && !p.reaped {
		p.cause = cause
	}
	if !p.reaped {
		p.tree().signal(syscall.SIGTERM)
	}
	p.mu.Unlock()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.Kill(cause)
		<-p.done
	}
}

// Run waits for the program to end, and stops it if ctx is done first.
func (p *Process) Run(ctx context.Context, patience time.Duration) error {
	select {
	case <-p.done:
	case <-ctx.Done():
		p.Stop(context.Cause(ctx), patience)
	}
	return p.Err()
}

// Ended describes how a program ended on its own. err is the result of Err.
func Ended(err error) string {
	var e *exec.ExitError
	switch {
	case err == nil:
		return "ended (exit status 0)"
	case errors.As(err, &e):
		if s, ok := Signal(err); ok {
			return fmt.Sprintf("was terminated by signal %d (%s)", int(s), s)
		}
		return fmt.Sprintf("ended (%s)", e)
	}
	return "ended: " + err.Error()
}

// Signal returns the signal that ended a program. err is the result of Err.
func Signal(err error) (syscall.Signal, bool) {
	var e *exec.ExitError
	if !errors.As(err, &e) {
		return 0, false
	}
	st, ok := e.Sys().(syscall.WaitStatus)
	return st.Signal(), ok && st.Signaled()
}
