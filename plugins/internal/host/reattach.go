package host

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"

	"github.com/nat-go/nat-go/plugins/internal/wire"
)

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

// reattach connects to a plugin that was started by hand with --debug. The host never kills such a plugin.
func (p *Plugin) reattach(ctx context.Context, number int) (*incarnation, error) {
	path, ok := strings.CutPrefix(p.spec.Reattach, "unix:")
	if !ok {
		return nil, p.startError(fmt.Errorf("invalid plugin address %q: expected unix:/path, as printed by --debug",
			p.spec.Reattach))
	}
	addr := &net.UnixAddr{Name: path, Net: "unix"}
	inc := &incarnation{number: number, dead: make(chan struct{}), gone: make(chan struct{})}
	pump := newLogPump(p.log.With().Str("plugin", p.spec.Name).Logger(), p.secrets)
	config := inc.clientConfig(&p.spec, p.runDir.path, p.log, pump)
	ended := make(chan struct{})
	config.Plugins = plugin.PluginSet{}
	config.Reattach = &plugin.ReattachConfig{
		Protocol: plugin.ProtocolGRPC, ProtocolVersion: wire.ProtocolVersion, Addr: addr, Test: true,
		ReattachFunc: func() (runner.AttachedRunner, error) { return attached{path: path, ended: ended}, nil },
	}
	inc.client = plugin.NewClient(config)
	go func() { <-inc.dead; close(ended) }() // wait: until the incarnation ends
	if err := inc.connect(ctx, p.spec.StartTimeout); err != nil {
		inc.fail(err)
		<-inc.gone // wait: fail closes the connection
		return nil, p.startError(fmt.Errorf("cannot attach to %s: %w", p.spec.Reattach, err))
	}
	return inc, nil
}

// attached is the runner for a process that we didn't start.
type attached struct {
	sameAddresses
	path  string
	ended chan struct{}
}

func (a attached) Wait(context.Context) error { <-a.ended; return nil } // wait: until the incarnation ends
func (a attached) Kill(context.Context) error { return nil }
func (a attached) ID() string                 { return a.path }
