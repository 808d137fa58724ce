package conformance

import (
	"context"
	"net"
	"testing"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/test/bufconn"

	"github.com/nat-go/nat-go/plugins/internal/host"
	"github.com/nat-go/nat-go/plugins/sdk"
	"github.com/nat-go/nat-go/ttc"
)

// Harness serves a plugin in memory and returns the host's side of it. Everything except the process is real, including
// the protocol, frames, credits and checks.
func Harness(t testing.TB, p sdk.Plugin) *host.Plugin {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	served := make(chan struct{})
	go func() { defer close(served); _ = sdk.ServeListener(p, lis) }()
	h, err := host.Connect(context.Background(), host.Spec{Name: p.Name},
		func(ctx context.Context) (net.Conn, error) { return lis.DialContext(ctx) }, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.Close()
		lis.Close()
		<-served
	})
	return h
}

// BuildWith sends groups through a builder of an in-memory plugin. Config is JSON or YAML. If the builder fails on a
// group, the group's result holds the error.
func BuildWith(t testing.TB, p sdk.Plugin, builder, config string, groups ...*ttc.Group) []host.Result {
	t.Helper()
	rs, err := Build(t.Context(), Harness(t, p), builder, []byte(config), groups)
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// Test runs the checks against a program, each as a separate test.
func Test(t *testing.T, opt Options) {
	t.Helper()
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			one := opt
			one.Only = []string{name}
			report, err := Run(t.Context(), one, nil)
			if err != nil {
				t.Fatal(err)
			}
			switch c := report.Checks[0]; c.Status {
			case Fail:
				t.Errorf("expected a plugin that %s: %s", c.Wants, c.Detail)
			case Skip:
				t.Skip(c.Detail)
			}
		})
	}
}
