package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nat-go/nat-go/plugins/wire"
)

// process is our own runner.Runner. go-plugin sees one line of its standard output, the handshake, and nothing of its
// standard error; both are drained here to the end, whatever comes. It can be killed at any time: no call of go-plugin's is
// in the way.
type process struct {
	name    string
	cmd     *exec.Cmd
	runDir  string
	sockets string // the only folder it may listen in
	limit   int64  // resident bytes
	pump    *logPump

	handshake, stderr   *io.PipeReader // what go-plugin reads
	handshakeW, stderrW *io.PipeWriter

	mu       sync.Mutex
	pid      int
	killed   error // why we killed it
	startErr error // what was wrong with the file or the handshake
	exit     error // how it ended, set before done
	reaped   bool
	peak     int64

	done chan struct{} // closed when the process is gone and its output is drained
}

func newProcess(name, runDir string, limit int64, pump *logPump) *process {
	p := &process{name: name, runDir: runDir, limit: limit, pump: pump, done: make(chan struct{})}
	p.handshake, p.handshakeW = io.Pipe()
	p.stderr, p.stderrW = io.Pipe()
	return p
}

// Start runs the command. The thread that forks is the one that waits for the child and it stays locked to its goroutine:
// the parent-death signal is sent when the forking thread ends, not when the host does.
func (p *process) Start(context.Context) error {
	stdout, stdoutW, err := os.Pipe()
	if err != nil {
		return p.failStart(err)
	}
	stderr, stderrW, err := os.Pipe()
	if err != nil {
		closeAll(stdout, stdoutW)
		return p.failStart(err)
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = nil, stdoutW, stderrW
	p.cmd.SysProcAttr = sysProcAttr()
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := p.start()
		closeAll(stdoutW, stderrW)
		started <- err
		if err == nil {
			p.wait(stdout, stderr)
		}
	}()
	if err := <-started; err != nil {
		closeAll(stdout, stderr)
		return p.failStart(err)
	}
	mark := filepath.Join(p.runDir, identity(p.pid))
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		p.kill(err)
		return err
	}
	if p.limit > 0 {
		limitMemory(p.pid, p.limit)
	}
	go p.watchMemory()
	return nil
}

func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed != nil {
		return p.killed
	}
	if err := p.cmd.Start(); err != nil {
		return execError(p.cmd.Path, err)
	}
	p.pid = p.cmd.Process.Pid
	return nil
}

func (p *process) failStart(err error) error {
	p.mu.Lock()
	p.startErr, p.exit, p.reaped = err, err, true
	p.mu.Unlock()
	p.handshakeW.Close()
	p.stderrW.Close()
	close(p.done)
	return err
}

// wait drains the output and waits for the end.
func (p *process) wait(stdout, stderr *os.File) {
	var pumps sync.WaitGroup
	pumps.Go(func() { p.readStdout(stdout) })
	pumps.Go(func() { p.pump.drain(stderr, "stderr") })
	err := waitGroup(p.cmd)
	p.mu.Lock()
	p.reaped = true
	p.mu.Unlock()
	// A process that left the group may still hold the pipes.
	late := time.AfterFunc(time.Second, func() { closeAll(stdout, stderr) })
	pumps.Wait()
	late.Stop()
	closeAll(stdout, stderr)
	os.Remove(filepath.Join(p.runDir, p.mark()))
	p.mu.Lock()
	p.exit = p.killed
	if p.exit == nil {
		p.exit = exitError(err)
	}
	p.mu.Unlock()
	p.handshakeW.Close()
	p.stderrW.Close()
	close(p.done)
}

// mark is the name of the process's file in the run directory. The process has ended: only its number is known for sure.
func (p *process) mark() string {
	files, _ := os.ReadDir(p.runDir)
	prefix := strconv.Itoa(p.pid) + "."
	for _, f := range files {
		if strings.HasPrefix(f.Name(), prefix) {
			return f.Name()
		}
	}
	return prefix + "0"
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		f.Close()
	}
}

func exitError(err error) error {
	var e *exec.ExitError
	switch {
	case err == nil:
		return errors.New("its process ended (exit status 0)")
	case errors.As(err, &e):
		if st, ok := e.Sys().(syscall.WaitStatus); ok && st.Signaled() {
			hint := ""
			if st.Signal() == syscall.SIGKILL {
				hint = "; if nobody killed it, the system may have been out of memory"
			}
			return fmt.Errorf("its process was ended by signal %d (%s)%s", int(st.Signal()), st.Signal(), hint)
		}
		return fmt.Errorf("its process ended (%s)", e)
	default:
		return fmt.Errorf("its process ended: %w", err)
	}
}

// readStdout takes the handshake from the first line and drains the rest.
func (p *process) readStdout(r io.Reader) {
	lines := newLineReader(r)
	line, err := lines.next()
	if len(line) > 0 {
		if bad := p.checkHandshake(string(line)); bad != nil {
			p.fail(bad)
		} else {
			_, _ = p.handshakeW.Write(append(append([]byte(nil), line...), '\n'))
		}
	}
	for err == nil {
		if line, err = lines.next(); len(line) > 0 {
			p.pump.line(line, "stdout")
		}
	}
}

// checkHandshake checks core|app|net|addr|protocol before go-plugin sees it, so that the user gets a useful error.
func (p *process) checkHandshake(line string) error {
	f := strings.Split(strings.TrimSpace(line), "|")
	if len(f) < 5 {
		const maxQuoted = 200
		if len(line) > maxQuoted {
			line = line[:maxQuoted] + "..."
		}
		return fmt.Errorf("its first line of output is no handshake: %q; a plugin must print nothing before it serves, and must serve when NATGO_PLUGIN_COOKIE is set", line)
	}
	if f[0] != "1" || f[4] != "grpc" {
		return fmt.Errorf("it speaks go-plugin's core protocol %s over %s; nat-go speaks 1 over grpc", f[0], f[4])
	}
	if f[1] != strconv.Itoa(wire.ProtocolVersion) {
		return fmt.Errorf("it speaks version %s of nat-go's builder protocol; this nat-go speaks %d: update whichever is older", f[1], wire.ProtocolVersion)
	}
	if f[2] != "unix" {
		return fmt.Errorf("it listens on %s %s; a plugin must listen on a unix socket in PLUGIN_UNIX_SOCKET_DIR", f[2], f[3])
	}
	if filepath.Dir(filepath.Clean(f[3])) != filepath.Clean(p.sockets) {
		return fmt.Errorf("it listens at %s, outside its folder PLUGIN_UNIX_SOCKET_DIR=%s", f[3], p.sockets)
	}
	return nil
}

// fail records what was wrong with the start and kills the process.
func (p *process) fail(err error) {
	p.mu.Lock()
	if p.startErr == nil {
		p.startErr = err
	}
	p.mu.Unlock()
	p.kill(err)
}

// kill ends the process group. The first reason counts.
func (p *process) kill(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return
	}
	if p.killed == nil {
		p.killed = why
	}
	if p.pid > 0 {
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	}
}

// watchMemory samples the resident memory.
func (p *process) watchMemory() {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-tick.C:
		}
		n, ok := residentBytes(p.pid)
		if !ok {
			continue
		}
		p.mu.Lock()
		p.peak = max(p.peak, n)
		p.mu.Unlock()
		if p.limit > 0 && n > p.limit {
			p.kill(fmt.Errorf("it used %d MiB of memory; its limit is %d MiB (plugins.%s.memory)", n>>20, p.limit>>20, p.name))
			return
		}
	}
}

// Wait returns when the process is gone.
func (p *process) Wait(context.Context) error {
	<-p.done
	return p.exit
}

// Kill kills the process and waits for its end, but not for ever: a process in the kernel's hands may take its time.
func (p *process) Kill(context.Context) error {
	p.kill(errStopped)
	select {
	case <-p.done:
		return nil
	case <-time.After(5 * time.Second):
		return errors.New("the process does not end")
	}
}

// The rest of runner.Runner.

func (p *process) Stdout() io.ReadCloser           { return p.handshake }
func (p *process) Stderr() io.ReadCloser           { return p.stderr }
func (p *process) Name() string                    { return p.name }
func (p *process) ID() string                      { return strconv.Itoa(p.pid) }
func (p *process) Diagnose(context.Context) string { return "" }

func (p *process) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

func (p *process) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}
