package kit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/nat-go/nat-go/internal/process"
	"github.com/nat-go/nat-go/plugins/internal/host"
	"github.com/nat-go/nat-go/plugins/internal/wire"
)

// pluginProcess is a plugin that a check starts without the host, as any parent could.
type pluginProcess struct {
	*process.Process
	line string // the handshake
	dir  string
}

// command returns the plugin's command line.
func (k *kit) command() ([]string, error) {
	spec := k.opt.Spec
	path, err := spec.Path, error(nil)
	if spec.Self {
		path, err = os.Executable()
	}
	args := []string{path}
	if spec.Module != "" {
		args = append(args, host.ModuleArgs(spec.Module)...)
	}
	return append(args, spec.Args...), err
}

// start starts the plugin, through a shell script if one is given: $0 and its arguments are the plugin's command line.
func (k *kit) start(script string) (*pluginProcess, error) {
	args, err := k.command()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("/tmp", "natgo-verify")
	if err != nil {
		return nil, err
	}
	c := process.Config{
		Args: args,
		Env: append(processEnv(), wire.CookieName+"="+wire.CookieValue,
			"PLUGIN_PROTOCOL_VERSIONS=1", "PLUGIN_UNIX_SOCKET_DIR="+dir),
	}
	if script != "" {
		c.Args = append([]string{"/bin/sh", "-c", script}, c.Args...)
	}
	line := make(chan string, 1)
	c.Stdout = func(r io.Reader) {
		s, _ := bufio.NewReader(io.LimitReader(r, maxHandshake)).ReadString('\n') //nolint:forbidigo // has a limit
		line <- s
	}
	c.Stderr = func(io.Reader) {} // the output is drained and discarded
	c.Survives = true             // the plugin must end by itself
	p, err := process.Start(c)
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	out := &pluginProcess{Process: p, dir: dir}
	select {
	case out.line = <-line:
		return out, nil
	case <-time.After(k.opt.Spec.StartTimeout):
		out.end()
		return nil, errors.New("no handshake when a parent other than the host starts the plugin")
	}
}

const maxHandshake = 64 << 10

func (p *pluginProcess) tree() *process.Tree { return &process.Tree{Session: p.PID(), Mark: p.Mark()} }

// end ends the process and its descendants.
func (p *pluginProcess) end() {
	p.Kill(errors.New("check is over"))
	<-p.Done()
	p.tree().Kill()
	os.RemoveAll(p.dir)
}

// endsWithin reports whether the process ends, without being killed, within d.
func (p *pluginProcess) endsWithin(d time.Duration) bool {
	select {
	case <-p.Done():
		return true
	case <-time.After(d):
		return false
	}
}

func checkShutdown(ctx context.Context, k *kit) error {
	p, err := k.start("")
	if err != nil {
		return err
	}
	defer p.end()
	f := strings.Split(p.line, "|")
	if len(f) < 4 {
		return fmt.Errorf("invalid handshake %q", p.line)
	}
	conn, err := grpc.NewClient("unix:"+f[3], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err = conn.Invoke(ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
	if code := status.Code(err); code == codes.Unimplemented || code == codes.DeadlineExceeded {
		return fmt.Errorf("cannot call plugin.GRPCController/Shutdown: %w", err)
	}
	if !p.endsWithin(5 * time.Second) { // the call itself may fail, because the process is ending
		return errors.New("still running 5 s after plugin.GRPCController/Shutdown")
	}
	return nil
}

func checkSigterm(_ context.Context, k *kit) error {
	p, err := k.start("")
	if err != nil {
		return err
	}
	defer p.end()
	_ = syscall.Kill(p.PID(), syscall.SIGTERM)
	if !p.endsWithin(5 * time.Second) {
		return errors.New("still running 5 s after SIGTERM")
	}
	return nil
}

// checkParentDeath starts the plugin from a shell and kills the shell. On Linux, nat-go's host makes the kernel kill
// the plugin, but other systems don't support that, and other hosts may not do it.
func checkParentDeath(_ context.Context, k *kit) error {
	p, err := k.start(`"$0" "$@" & wait`)
	if err != nil {
		return err
	}
	defer p.end()
	_ = syscall.Kill(p.PID(), syscall.SIGKILL) // kill only the shell
	for end := time.Now().Add(5 * time.Second); len(p.tree().Members()) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			return errors.New("still running 5 s after its parent ended: a plugin must watch its parent's process " +
				"id, and exit when that changes")
		}
	}
	return nil
}

func checkByHand(ctx context.Context, k *kit) error {
	args, err := k.command()
	if err != nil {
		return err
	}
	var out []byte
	p, err := process.Start(process.Config{
		Args: args, Env: processEnv(),
		Stdout: func(r io.Reader) { out, _ = io.ReadAll(io.LimitReader(r, 1<<20)) },
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err = p.Run(ctx, 0)
	switch {
	case ctx.Err() != nil:
		return errors.New("without the handshake's cookie, the plugin neither serves nor exits")
	case err == nil:
		return errors.New("without the handshake's cookie, the plugin exits with status 0, as if it had succeeded")
	case len(bytes.TrimSpace(out)) == 0:
		return errors.New("without the handshake's cookie, the plugin exits without a message")
	}
	return nil
}
