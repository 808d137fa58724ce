package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/nat-go/nat-go/plugins/internal/wire"
	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
)

// Serve runs the plugin and does not return: it serves a host or, if started by hand, runs the command line.
func Serve(p Plugin) { ServeArgs(p, os.Args[1:]) }

// ServeArgs is like Serve, for programs that have already parsed some of their arguments.
func ServeArgs(p Plugin, args []string) {
	if os.Getenv(wire.CookieName) != wire.CookieValue {
		os.Exit(commandLine(p, args, os.Stdout, os.Stderr))
	}
	signal.Ignore(os.Interrupt) // an interrupt is meant for the host, which stops the plugin itself
	go exitWithParent(os.Getppid())
	if err := serveHost(p, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serveHost does the work of hashicorp/go-plugin's Serve without linking that library: it listens in the host's folder,
// announces its address in the handshake (a line on standard output), and serves until the host shuts it down.
func serveHost(p Plugin, stdout io.Writer) error {
	versions := strings.Split(os.Getenv("PLUGIN_PROTOCOL_VERSIONS"), ",")
	if v := strconv.Itoa(wire.ProtocolVersion); !slices.Contains(versions, v) {
		return fmt.Errorf("host speaks unsupported protocol versions %q: this plugin speaks %s", versions, v)
	}
	lis, err := listen(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"))
	if err != nil {
		return err
	}
	defer lis.Close()
	s := hostServer(p)
	if _, err := fmt.Fprintf(stdout, "1|%d|unix|%s|grpc|\n", wire.ProtocolVersion, lis.Addr()); err != nil {
		return err
	}
	return s.Serve(lis)
}

// listen creates a socket in a folder. Closing the listener removes the socket.
func listen(dir string) (net.Listener, error) {
	f, err := os.CreateTemp(dir, "plugin") //nolint:forbidigo // only for its name, which the socket gets
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil { // only the file's name was needed
		return nil, err
	}
	return net.Listen("unix", f.Name())
}

// hostServer serves a plugin, plus the go-plugin services that a host needs: health and shutdown.
func hostServer(p Plugin) *grpc.Server {
	s := newServer()
	pb.RegisterBuilderServer(s, NewService(p))
	h := health.NewServer()
	h.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(s, h)
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "plugin.GRPCController", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "Shutdown",
			Handler: func(_ any, _ context.Context, _ func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				go s.Stop()
				return &emptypb.Empty{}, nil
			},
		}},
	}, nil)
	return s
}

// newServer returns a server with a receive limit well above a frame's size (gRPC's default is 4 MiB) that accepts the
// host's pings (gRPC's default policy would close the connection).
func newServer() *grpc.Server {
	return grpc.NewServer(
		grpc.ForceServerCodecV2(wire.Codec),
		grpc.MaxRecvMsgSize(8*wire.FrameLimitBytes),
		grpc.MaxSendMsgSize(wire.FrameLimitBytes),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime:             5 * time.Second,
			PermitWithoutStream: true,
		}),
	)
}

// exitWithParent ends the process when its parent ends. On Linux, the kernel can do this on behalf of the host; other
// systems lack this feature.
func exitWithParent(parent int) {
	for range time.Tick(time.Second) {
		if os.Getppid() != parent {
			os.Exit(3)
		}
	}
}

// debug serves until it is interrupted, and prints the address that a host can connect to.
func (p *Plugin) debug(w io.Writer) error {
	dir, err := os.MkdirTemp("", "natgo")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	lis, err := listen(filepath.Clean(dir))
	if err != nil {
		return err
	}
	defer lis.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := hostServer(*p)
	defer context.AfterFunc(ctx, s.Stop)()
	fmt.Fprintf(w, "Serving, process %d. In another terminal:\n\n  export %s=%s=unix:%s\n\nand run nat-go. "+
		"Interrupt to end.\n", os.Getpid(), wire.ReattachVariable, p.Name, lis.Addr())
	return s.Serve(lis)
}

// ServeListener serves the plugin on a listener, such as one in memory for tests, until it is closed.
func ServeListener(p Plugin, lis net.Listener) error {
	s := newServer()
	defer s.Stop()
	pb.RegisterBuilderServer(s, NewService(p))
	return s.Serve(lis)
}
