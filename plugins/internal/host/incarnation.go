package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/nat-go/nat-go/internal/process"
	"github.com/nat-go/nat-go/plugins/internal/wire"
	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
)

// incarnation is a single run of a plugin's process. It is not restarted after a failure.
type incarnation struct {
	conn   *grpc.ClientConn
	rpc    pb.BuilderClient
	desc   wire.Description
	proc   *program       // nil if the host didn't start the plugin
	client *plugin.Client // nil if proc is nil

	woken atomic.Int32 // number of times the process was sent SIGCONT

	connsMu sync.Mutex
	conns   []*grpc.ClientConn // connections to close, because go-plugin forgets one whose first call failed

	endOnce sync.Once
	cause   error         // set before dead is closed
	dead    chan struct{} // closed when the incarnation must no longer be used
	gone    chan struct{} // closed when all resources of the incarnation are released
}

// Handshake lets go-plugin and a plugin recognise each other.
var Handshake = plugin.HandshakeConfig{
	ProtocolVersion: wire.ProtocolVersion, MagicCookieKey: wire.CookieName, MagicCookieValue: wire.CookieValue,
}

// connector starts and connects to a plugin.
type connector func(ctx context.Context, number int) (*incarnation, error)

// dialOptions returns the codec and the size limits for messages to and from a plugin.
func dialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.ForceCodecV2(wire.Codec),
		grpc.MaxCallRecvMsgSize(2*wire.FrameLimitBytes), grpc.MaxCallSendMsgSize(8*wire.FrameLimitBytes))}
}

// seeConn records the connection on which a stream is opened.
func (inc *incarnation) seeConn(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer,
	opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	inc.connsMu.Lock()
	if !slices.Contains(inc.conns, cc) {
		inc.conns = append(inc.conns, cc)
	}
	inc.connsMu.Unlock()
	return streamer(ctx, desc, cc, method, opts...)
}

func (inc *incarnation) clientConfig(
	spec *Spec, runDir string, log zerolog.Logger, pump *logPump,
) *plugin.ClientConfig {
	return &plugin.ClientConfig{
		HandshakeConfig:  Handshake,
		VersionedPlugins: map[int]plugin.PluginSet{wire.ProtocolVersion: {}},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		// longer than launch's timeout, whose error names the setting
		StartTimeout:     spec.StartTimeout + time.Minute,
		Logger:           hostLogger(log),
		SkipHostEnv:      true,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: runDir},
		SyncStdout:       &syncWriter{pump: pump, stream: "stdout"},
		SyncStderr:       &syncWriter{pump: pump, stream: "stderr"},
		GRPCDialOptions:  append(dialOptions(), grpc.WithStreamInterceptor(inc.seeConn)),
	}
}

// launch starts a process.
func (p *Plugin) launch(ctx context.Context, number int) (*incarnation, error) {
	if err := p.runDir.restore(); err != nil {
		return nil, p.startError(err)
	}
	file, args, err := p.spec.program(ctx, p.runDir.path)
	if err != nil {
		return nil, p.startError(err)
	}
	log := p.log.With().Str("plugin", p.spec.Name).Int("incarnation", number).Logger()
	pump := newLogPump(log, p.secrets)
	proc := &program{name: p.spec.Name, limit: p.spec.Memory, pump: pump, done: make(chan struct{})}
	proc.handshake, proc.handshakeW = io.Pipe()
	proc.stderr, proc.stderrW = io.Pipe()
	inc := &incarnation{proc: proc, dead: make(chan struct{}), gone: make(chan struct{})}
	config := inc.clientConfig(&p.spec, p.runDir.path, log, pump)
	config.RunnerFunc = func(_ hclog.Logger, cmd *exec.Cmd, sockets string) (runner.Runner, error) {
		proc.sockets = sockets
		proc.config = p.spec.command(file, args, cmd.Env)
		proc.config.With = p.runDir.mark
		return proc, nil
	}
	inc.client = plugin.NewClient(config)

	// From here on, the plugin has StartTimeout to describe itself; killing it ends all calls that are waiting for it.
	deadline := time.AfterFunc(p.spec.StartTimeout, func() {
		proc.kill(fmt.Errorf("not ready within %s (plugins.%s.start_timeout)", p.spec.StartTimeout, p.spec.Name))
	})
	defer deadline.Stop()
	defer context.AfterFunc(ctx, func() { proc.kill(ctx.Err()) })()

	err = inc.connect(ctx, p.spec.StartTimeout)
	if err != nil {
		err = inc.startError(err)
		inc.fail(err)
		<-inc.gone // wait: fail kills the process
		return nil, p.startError(p.mask(err), pump.lastLines()...)
	}
	log = log.With().Int("pid", proc.pid()).Logger()
	pump.mu.Lock()
	pump.log = log // with the process id, which may become known only after the first lines
	pump.mu.Unlock()
	log.Debug().Str("version", inc.desc.Version).Msg("plugin started")
	go func() {
		<-proc.done // wait: until the process ends
		inc.fail(proc.exit)
	}()
	return inc, nil
}

// connect does the handshake and asks the plugin to describe itself.
func (inc *incarnation) connect(ctx context.Context, timeout time.Duration) error {
	c, err := inc.client.Client()
	if err != nil {
		return err
	}
	inc.conn = c.(*plugin.GRPCClient).Conn
	return inc.describe(ctx, timeout)
}

func (inc *incarnation) describe(ctx context.Context, timeout time.Duration) error {
	inc.rpc = pb.NewBuilderClient(inc.conn)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	m, err := inc.rpc.Describe(ctx, &pb.DescribeRequest{ProtocolMinor: wire.Minor})
	if err != nil {
		return fmt.Errorf("cannot get the plugin's description: %w", rpcError(err))
	}
	if inc.desc, err = wire.ReadDescription(m); err != nil {
		return protocolErrorf("cannot read the plugin's description: %w", err)
	}
	return checkDescription(inc.desc)
}

const maxSchemaBytes = 1 << 20

func checkDescription(d wire.Description) error {
	if len(d.Builders) == 0 {
		return protocolErrorf("description lists no builders")
	}
	seen := map[string]bool{}
	for _, b := range d.Builders {
		switch {
		case b.Name == "":
			return protocolErrorf("a builder has no name")
		case seen[b.Name]:
			return protocolErrorf("duplicate builder %q", b.Name)
		case len(b.Kinds) == 0:
			return protocolErrorf("builder %q declares no record kinds", b.Name)
		case len(b.ConfigSchema) > maxSchemaBytes:
			return protocolErrorf("config schema of builder %q has %d bytes; the limit is %d",
				b.Name, len(b.ConfigSchema), maxSchemaBytes)
		}
		seen[b.Name] = true
	}
	return nil
}

// startError returns the error that the process reported, if any, instead of go-plugin's.
func (inc *incarnation) startError(err error) error {
	p := inc.proc
	patience := goneWait
	if p.pid() == 0 { // nothing was started
		patience = 0
	}
	if answered(err) || !within(p.done, patience) {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.startErr != nil {
		return p.startErr
	}
	return p.exit
}

// goneWait is how long to wait for a process to end after it broke its connection or was killed. That usually takes
// milliseconds, but may take longer on a busy machine.
const goneWait = 10 * time.Second

// answered reports whether an error came from the plugin itself, which means that its process is alive.
func answered(err error) bool {
	s, ok := status.FromError(err)
	return errors.Is(err, errProtocol) || ok && s.Code() != codes.Unavailable && s.Code() != codes.Canceled
}

// fail ends the incarnation. Only the first cause is recorded.
func (inc *incarnation) fail(cause error) { inc.end(cause, 0) }

// close shuts the incarnation down gracefully. The plugin may finish its work within the given time.
func (inc *incarnation) close(timeout time.Duration) {
	if inc.proc != nil && !within(inc.dead, 0) { // don't drain a process that the host didn't start
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		_, _ = inc.rpc.Drain(ctx, &pb.DrainRequest{})
		cancel()
	}
	inc.end(errStopped, timeout)
	<-inc.gone // wait: end kills the process after the timeout
}

// end releases the incarnation. The process is killed after the given time if it has not ended at go-plugin's request.
func (inc *incarnation) end(cause error, patience time.Duration) {
	inc.endOnce.Do(func() {
		inc.cause = cause
		close(inc.dead)
		go func() {
			defer close(inc.gone)
			if inc.proc == nil {
				inc.conn.Close()
				return
			}
			if patience == 0 {
				inc.proc.kill(cause)
			} else {
				kill := time.AfterFunc(patience, func() { inc.proc.kill(cause) })
				defer kill.Stop()
			}
			inc.client.Kill() // now that the process is dead, this closes the connection and removes the socket
			inc.connsMu.Lock()
			for _, c := range inc.conns {
				c.Close()
			}
			inc.connsMu.Unlock()
			<-inc.proc.done // wait: the process ends, or is killed after patience
		}()
	})
}

// reason returns the cause of the process's failure or, if it didn't fail, the call's error, reworded. After a
// failure, the call's own error ("connection reset") is not helpful.
func (inc *incarnation) reason(err error) error {
	patience := goneWait
	if inc.proc == nil || answered(err) {
		patience = 0
	}
	if within(inc.dead, patience) {
		return inc.cause
	}
	return rpcError(err)
}

// rpcError rewords a call's error for users.
func rpcError(err error) error {
	if s, ok := status.FromError(err); ok {
		return &callError{s}
	}
	return err
}

type callError struct{ status *status.Status }

func (e *callError) Error() string {
	return fmt.Sprintf("%s (%s)", e.status.Message(), strings.ToLower(e.status.Code().String()))
}

// GRPCStatus makes a callError a gRPC error.
func (e *callError) GRPCStatus() *status.Status { return e.status }

// crash returns the error for the user if the process ended, was killed, or broke the protocol while it was working.
func (inc *incarnation) crash(p *Plugin, err error) error {
	pid, lines := 0, []string(nil)
	if inc.proc != nil {
		pid = inc.proc.pid()
		within(inc.proc.done, goneWait)
		lines = inc.proc.pump.lastLines()
	}
	return fmt.Errorf("plugin %s (pid %d) failed: %w%s", p.spec.Name, pid, p.mask(err), tail(lines))
}

// watch checks on a plugin that promised to answer pings. Two missed answers in a row mean that it is stuck.
func (inc *incarnation) watch(every time.Duration) {
	health := grpc_health_v1.NewHealthClient(inc.conn)
	missed := 0
	for {
		asked := monotonic()
		if within(inc.dead, every) {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), every)
		_, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: plugin.GRPCServiceName})
		cancel()
		missed++
		if late := monotonic() - asked - 2*every; err == nil || late > stall {
			missed = 0 // the plugin answered, or the host was suspended
		}
		if missed == 2 && inc.wake() {
			missed = 0
		}
		if missed == 2 {
			inc.fail(fmt.Errorf("no answer to two health checks in %s: the process is stuck or stopped", 2*every))
			return
		}
	}
}

// maxWakes is the maximum number of times that a stopped process is sent SIGCONT.
const maxWakes = 3

// wake resumes a process that was stopped (SIGSTOP), and reports whether it did; if it did, the groups in progress
// did not cause the failure. A process that is stopped repeatedly counts as stuck.
func (inc *incarnation) wake() bool {
	if inc.proc == nil || !process.Stopped(inc.proc.pid()) || inc.woken.Add(1) > maxWakes {
		return false
	}
	inc.proc.pump.warn("the plugin's process was stopped by a signal; sending SIGCONT")
	_ = syscall.Kill(inc.proc.pid(), syscall.SIGCONT)
	return true
}

// program returns the file to run and its arguments.
func (s *Spec) program(ctx context.Context, runDir string) (file string, args []string, err error) {
	if s.Module != "" {
		return s.module(ctx, runDir)
	}
	file, err = s.binary(runDir)
	return file, s.Args, err
}

// command returns the configuration of the process.
func (s *Spec) command(file string, args, handshakeEnv []string) process.Config {
	c := process.Config{
		Path: file, Args: append([]string{file}, args...), Dir: s.Dir, Env: slices.Clone(handshakeEnv), Group: true,
		Confined: true,
	}
	if s.Self {
		c.Args[0] = os.Args[0] // shown in process lists
	}
	granted := map[string]bool{}
	for _, name := range append(baseEnv, s.Env...) {
		if v, ok := os.LookupEnv(name); ok && !granted[name] {
			granted[name] = true
			c.Env = append(c.Env, name+"="+v)
		}
	}
	c.Env = append(c.Env, "NATGO_PLUGIN="+s.Name)
	if !s.Self {
		if abs, err := exec.LookPath(s.Path); err == nil {
			c.Env = append(c.Env, "NATGO_PLUGIN_PATH="+abs) // the file that runs may be a copy
		}
	}
	if s.Memory > 0 {
		c.Env = append(c.Env, fmt.Sprintf("GOMEMLIMIT=%d", s.Memory/10*9))
	}
	return c
}

// dialed returns a connector to a plugin that the host didn't start, and therefore doesn't stop.
func dialed(dial func(context.Context) (net.Conn, error), timeout time.Duration) connector {
	return func(ctx context.Context, _ int) (*incarnation, error) {
		opts := append(dialOptions(),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }),
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.FailOnNonTempDialError(true)) //nolint:staticcheck // go-plugin sets it, too
		conn, err := grpc.NewClient("passthrough:plugin", opts...)
		if err != nil {
			return nil, err
		}
		inc := &incarnation{conn: conn, dead: make(chan struct{}), gone: make(chan struct{})}
		if err := inc.describe(ctx, timeout); err != nil {
			inc.fail(err)
			<-inc.gone // wait: fail closes the connection
			return nil, err
		}
		return inc, nil
	}
}

// ReattachAddress returns the address that the environment specifies for attaching to the named plugin, or an empty
// string.
func ReattachAddress(name string) string {
	for entry := range strings.SplitSeq(os.Getenv(wire.ReattachVariable), ",") {
		if n, addr, ok := strings.Cut(entry, "="); ok && strings.TrimSpace(n) == name {
			return strings.TrimSpace(addr)
		}
	}
	return ""
}

// reattach connects to a plugin that was started by hand with --debug.
func (p *Plugin) reattach(ctx context.Context, number int) (*incarnation, error) {
	path, ok := strings.CutPrefix(p.spec.Reattach, "unix:")
	if !ok {
		return nil, p.startError(fmt.Errorf("invalid plugin address %q: expected unix:/path, as printed by --debug",
			p.spec.Reattach))
	}
	dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", path) }
	inc, err := dialed(dial, p.spec.StartTimeout)(ctx, number)
	if err != nil {
		return nil, p.startError(fmt.Errorf("cannot attach to %s: %w", p.spec.Reattach, err))
	}
	return inc, nil
}
