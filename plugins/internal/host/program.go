package host

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nat-go/nat-go/internal/lines"
	"github.com/nat-go/nat-go/internal/process"
	"github.com/nat-go/nat-go/plugins/internal/wire"
)

// program implements runner.Runner. It passes only the handshake, which is the first line of standard output, to
// go-plugin, and reads standard output and standard error to the end. It can be killed at any time, even before it is
// started and while go-plugin is waiting.
type program struct {
	name    string
	config  process.Config // set before Start
	sockets string         // the only folder that the plugin may listen in
	limit   int64          // maximum number of resident bytes
	pump    *logPump

	handshake, stderr   *io.PipeReader // the output that go-plugin reads
	handshakeW, stderrW *io.PipeWriter

	mu       sync.Mutex
	proc     *process.Process // nil before the process is started
	killed   error            // reason why the host killed the process
	startErr error            // reason why the start failed, if the file or the handshake is invalid
	exit     error            // how the process ended; set before done is closed

	ended sync.Once
	done  chan struct{} // closed when the process is gone and its output drained, or when it will never be started
}

// Start runs the command.
func (p *program) Start(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed != nil {
		return p.killed
	}
	c := p.config
	c.Stdout, c.Stderr = p.readStdout, func(r io.Reader) { p.pump.drain(r, "stderr") }
	proc, err := process.Start(c)
	if err != nil {
		p.startErr = execError(c.Path, err)
		p.finish(p.startErr)
		return p.startErr
	}
	p.proc = proc
	if p.limit > 0 {
		limitMemory(proc.PID(), p.limit)
	}
	go p.wait()
	if p.limit > 0 {
		go p.watchMemory(proc.PID())
	}
	return nil
}

func (p *program) wait() {
	go func() {
		<-p.proc.Over() // wait: until the process ends
		p.pump.end()
	}()
	err := p.proc.Err()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed == nil {
		hint := ""
		if s, ok := process.Signal(err); ok && s == syscall.SIGKILL {
			hint = "; unless a user killed it, the system may have been out of memory"
		}
		err = &endError{"its process " + process.Ended(err) + hint, err}
	}
	if left := p.proc.Left(); len(left) > 0 {
		p.pump.warn(fmt.Sprintf("the plugin has ended, but processes that it started can't be stopped: %d", left))
	}
	p.finish(err)
}

// finish records that the program has ended, or will never start. The caller holds the lock.
func (p *program) finish(err error) {
	p.ended.Do(func() {
		p.pump.end()
		p.exit = err
		p.handshakeW.Close()
		p.stderrW.Close()
		close(p.done)
	})
}

// endError describes how a process ended.
type endError struct {
	text string
	exit error
}

func (e *endError) Error() string { return e.text }

// outside reports whether a failure may have a cause outside the plugin: a signal that users and systems commonly
// send.
func outside(err error) bool {
	var e *endError
	if !errors.As(err, &e) {
		return false
	}
	s, ok := process.Signal(e.exit)
	return ok && (s == syscall.SIGKILL || s == syscall.SIGTERM || s == syscall.SIGINT || s == syscall.SIGHUP)
}

// readStdout reads the handshake from the first line and drains the rest.
func (p *program) readStdout(r io.Reader) {
	first := true
	for line, err := range lines.Read(pacedReader{r, p.pump}, maxLineBytes) {
		if !first {
			p.pump.handleLine(line, err, "stdout")
			continue
		}
		first = false
		// Don't pass an invalid line to go-plugin, which stops reading a line after 64 KiB.
		if bad := p.checkHandshake(string(line)); bad != nil {
			p.fail(bad)
		} else {
			_, _ = p.handshakeW.Write(append(bytes.TrimSpace(line), '\n'))
		}
	}
}

// maxHandshake is the maximum length of a handshake line, which is far more than a socket's path and a certificate
// take.
const maxHandshake = 16 << 10

// checkHandshake checks core|app|net|addr|protocol before go-plugin sees it, so that the user gets a useful error.
func (p *program) checkHandshake(line string) error {
	f := strings.Split(strings.TrimSpace(line), "|")
	if len(f) < 5 || len(line) > maxHandshake {
		const maxQuoted = 200
		if len(line) > maxQuoted {
			line = line[:maxQuoted] + "..."
		}
		return fmt.Errorf("invalid handshake %q in the first line of output: a plugin must print nothing before "+
			"it serves, and must serve when NATGO_PLUGIN_COOKIE is set", line)
	}
	if f[0] != "1" || f[4] != "grpc" {
		return fmt.Errorf("unsupported core protocol of go-plugin: %s over %s; nat-go speaks 1 over grpc", f[0], f[4])
	}
	if f[1] != strconv.Itoa(wire.ProtocolVersion) {
		return fmt.Errorf("unsupported version %s of nat-go's builder protocol; this nat-go speaks %d: update the "+
			"older one", f[1], wire.ProtocolVersion)
	}
	if f[2] != "unix" {
		return fmt.Errorf("invalid address %s %s: a plugin must listen on a unix socket in "+
			"PLUGIN_UNIX_SOCKET_DIR", f[2], f[3])
	}
	if filepath.Dir(filepath.Clean(f[3])) != filepath.Clean(p.sockets) {
		return fmt.Errorf("invalid address %s: expected a socket in PLUGIN_UNIX_SOCKET_DIR=%s", f[3], p.sockets)
	}
	return nil
}

// fail records why the start failed and kills the process.
func (p *program) fail(err error) {
	p.mu.Lock()
	p.startErr = cmp.Or(p.startErr, err)
	p.mu.Unlock()
	p.kill(err)
}

// kill ends the process and its child processes, or prevents its start. Only the first reason is kept.
func (p *program) kill(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if within(p.done, 0) {
		return
	}
	p.killed = cmp.Or(p.killed, why)
	if p.proc == nil {
		p.finish(p.killed)
		return
	}
	p.proc.Kill(why)
}

// pid returns the process id, or 0 before the process is started.
func (p *program) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proc == nil {
		return 0
	}
	return p.proc.PID()
}

// watchMemory samples the resident memory and kills the process if it exceeds the limit.
func (p *program) watchMemory(pid int) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-tick.C:
		}
		if n, ok := residentBytes(pid); ok && n > p.limit {
			p.kill(fmt.Errorf("process used %d MiB of memory; the limit is %d MiB (plugins.%s.memory)",
				n>>20, p.limit>>20, p.name))
			return
		}
	}
}

// Wait returns when the process is gone.
func (p *program) Wait(context.Context) error {
	<-p.done // wait: go-plugin calls Wait once the process's output has ended
	return p.exit
}

// Kill kills the process and waits for it to end, but not indefinitely: a process blocked in the kernel may take a
// while.
func (p *program) Kill(context.Context) error {
	p.kill(errStopped)
	if !within(p.done, 5*time.Second) {
		return errors.New("cannot end the process")
	}
	return nil
}

// within reports whether a channel is closed within d.
func within(c <-chan struct{}, d time.Duration) bool {
	select {
	case <-c:
		return true
	default:
	}
	select {
	case <-c:
		return true
	case <-time.After(d):
		return false
	}
}

// The remaining methods of runner.Runner.

func (p *program) Stdout() io.ReadCloser           { return p.handshake }
func (p *program) Stderr() io.ReadCloser           { return p.stderr }
func (p *program) Name() string                    { return p.name }
func (p *program) ID() string                      { return strconv.Itoa(p.pid()) }
func (p *program) Diagnose(context.Context) string { return "" }

func (p *program) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

func (p *program) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}
