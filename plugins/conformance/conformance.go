package conformance

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/test/bufconn"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/plugins/internal/host"
	"github.com/nat-go/nat-go/plugins/internal/kit"
	"github.com/nat-go/nat-go/plugins/sdk"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Options selects the program to test, the checks, and the checks' configs and groups.
type Options struct {
	Path         string                           // the program
	Args         []string                         // its arguments
	Env          []string                         // names of additional environment variables to pass on
	StartTimeout time.Duration                    // time limit for the plugin to describe itself; default 20 s
	Configs      map[string][]byte                // config per builder, as JSON; {} if missing
	Groups       func(builders.Unit) []*ttc.Group // groups to build from; if nil, the built-in samples
	Only         []string                         // names of checks; if empty, all
}

// Names lists the checks in order.
func Names() []string { return kit.Names() }

// Test runs the checks against a program, each as a separate test.
func Test(t *testing.T, opt Options) {
	t.Helper()
	names := opt.Only
	if len(names) == 0 {
		names = Names()
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			report, err := kit.Run(t.Context(), kit.Options{
				Spec:    host.Spec{Path: opt.Path, Args: opt.Args, Env: opt.Env, StartTimeout: opt.StartTimeout},
				Configs: opt.Configs, Groups: opt.Groups, Only: []string{name},
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range report.Checks {
				switch c.Status {
				case kit.Fail:
					t.Errorf("expected a plugin that %s: %s", c.Wants, c.Detail)
				case kit.Skip:
					t.Skip(c.Detail)
				}
			}
		})
	}
}

// Result is a builder's result for a group. If Err is set, the builder failed and the group is dropped.
type Result struct {
	Group   *ttc.Group
	Records []builders.Record
	Drops   []ledger.Drop
	Counts  map[string]int64
	Err     error
}

// BuildWith sends groups through a builder of a plugin that is served in memory, and returns their results in order.
// Everything except the process is real, including the protocol, its limits and the host's checks of records. Config is
// JSON or YAML.
func BuildWith(t testing.TB, p sdk.Plugin, builder, config string, groups ...*ttc.Group) []Result {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	served := make(chan struct{})
	go func() { defer close(served); _ = sdk.ServeListener(p, lis) }()
	t.Cleanup(func() { lis.Close(); <-served })
	h, err := host.Connect(context.Background(), host.Spec{Name: p.Name},
		func(ctx context.Context) (net.Conn, error) { return lis.DialContext(ctx) }, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	built, err := kit.Build(t.Context(), h, builder, []byte(config), groups)
	if err != nil {
		t.Fatal(err)
	}
	results := make([]Result, len(built))
	for i, b := range built {
		results[i] = Result{Group: b.Group, Records: b.Records, Drops: b.Drops, Counts: map[string]int64{}, Err: b.Err}
		for _, c := range b.Counts {
			results[i].Counts[c.Name] += c.N
		}
	}
	return results
}
