package sdk

import (
	"context"
	"net"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
	"github.com/nat-go/nat-go/plugins/wire"
)

// Serve runs the plugin and does not return: it serves a host, or, started by hand, runs the command line.
func Serve(p Plugin) { ServeArgs(p, os.Args[1:]) }

// ServeArgs is Serve for programs that have read some of their arguments themselves.
func ServeArgs(p Plugin, args []string) {
	if os.Getenv(wire.Handshake.MagicCookieKey) != wire.Handshake.MagicCookieValue {
		os.Exit(commandLine(p, args, os.Stdout, os.Stderr))
	}
	go exitWithParent(os.Getppid())
	plugin.Serve(serveConfig(p, nil))
	os.Exit(0)
}

func serveConfig(p Plugin, test *plugin.ServeTestConfig) *plugin.ServeConfig {
	return &plugin.ServeConfig{
		HandshakeConfig: wire.Handshake,
		VersionedPlugins: map[int]plugin.PluginSet{
			wire.ProtocolVersion: {wire.ServiceName: &grpcPlugin{plugin: p}},
		},
		GRPCServer: newServer,
		Logger:     hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: os.Stderr, JSONFormat: true}),
		Test:       test,
	}
}

// newServer has a receive limit well above a frame's size (grpc's own is 4 MiB) and takes the host's pings (grpc's own
// policy closes the connection on them).
func newServer(opts []grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append(opts,
		grpc.ForceServerCodecV2(wire.Codec),
		grpc.MaxRecvMsgSize(8*wire.FrameLimitBytes),
		grpc.MaxSendMsgSize(wire.FrameLimitBytes),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	)...)
}

type grpcPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	plugin Plugin
}

func (g *grpcPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	pb.RegisterBuilderServer(s, newService(g.plugin))
	return nil
}

func (g *grpcPlugin) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil // the host has its own
}

// exitWithParent ends the process when its parent has ended. Linux does this by a signal that the host asks for; other
// systems have none.
func exitWithParent(parent int) {
	for range time.Tick(time.Second) {
		if os.Getppid() != parent {
			os.Exit(3)
		}
	}
}

// ServeListener serves the plugin on a listener, until it is closed: in memory, for tests.
func ServeListener(p Plugin, lis net.Listener) error {
	s := newServer(nil)
	defer s.Stop()
	pb.RegisterBuilderServer(s, newService(p))
	return s.Serve(lis)
}
