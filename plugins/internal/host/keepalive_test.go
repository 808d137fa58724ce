package host

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
	"github.com/nat-go/nat-go/plugins/sdk"
)

// TestHoleKeepalive: a host that pings an idle plugin is cut off by go-plugin's own server for pinging too often, along
// with all streams of the connection; the SDK's server accepts the pings.
func TestHoleKeepalive(t *testing.T) {
	p := sdk.Plugin{Name: "test", Version: "1"}
	for name, serve := range map[string]func(net.Listener) (stop func()){
		"stock": func(lis net.Listener) func() {
			s := plugin.DefaultGRPCServer(nil)
			pb.RegisterBuilderServer(s, waiting{})
			go func() { _ = s.Serve(lis) }()
			return s.Stop
		},
		"sdk": func(lis net.Listener) func() {
			served := make(chan struct{})
			go func() { defer close(served); _ = sdk.ServeListener(p, lis) }()
			return func() { lis.Close(); <-served }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lis := bufconn.Listen(1 << 16)
				stop := serve(lis)
				conn, err := grpc.NewClient("passthrough:memory",
					grpc.WithTransportCredentials(insecure.NewCredentials()),
					grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
						return lis.DialContext(ctx)
					}),
					grpc.WithKeepaliveParams(keepalive.ClientParameters{
						Time:                10 * time.Second,
						Timeout:             3 * time.Second,
						PermitWithoutStream: true,
					}))
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				stream, err := pb.NewBuilderClient(conn).Build(ctx) // the session is never named, so it stays idle
				if err != nil {
					t.Fatal(err)
				}
				_, err = stream.Recv()
				cut := status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "too_many_pings")
				switch {
				case name == "stock" && !cut:
					t.Logf("%s: %v", closedUpstream, err)
				case name == "sdk" && status.Code(err) != codes.DeadlineExceeded:
					t.Errorf("an idle stream ended with %v", err)
				}
				cancel()
				conn.Close()
				stop()
			})
		})
	}
}

// waiting is a service whose streams wait.
type waiting struct{ pb.UnimplementedBuilderServer }

func (waiting) Build(s pb.Builder_BuildServer) error {
	<-s.Context().Done()
	return s.Context().Err()
}
