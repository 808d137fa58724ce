// Command bad is a plugin that misbehaves in the one way named by its first argument.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/plugins/internal/host"
	"github.com/nat-go/nat-go/plugins/internal/wire"
	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
	"github.com/nat-go/nat-go/plugins/sdk"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

var how = "good"

func main() {
	if len(os.Args) > 1 {
		how = strings.TrimPrefix(os.Args[1], "--how=")
	}
	info := builders.Info{
		Name:      "best",
		Stability: "beta",
		Doc:       "the best candidate of each turn",
		Kinds:     []builders.Kind{builders.KindDemonstration},
	}
	name := "bad"
	switch how {
	case "handshake":
		fmt.Println("loading...")
	case "describe":
		info.Stability = "rock solid"
	case "describe-again":
		info.Doc = fmt.Sprint("process ", os.Getpid())
	case "sigterm":
		signal.Ignore(syscall.SIGTERM)
	case "by-hand":
		if os.Getenv(wire.CookieName) == "" {
			select {}
		}
	case "schema", "unknown-builder", "bad-config", "slow-consumer", "malformed", "cancellation", "version-skew",
		"drain", "shutdown", "validate", "parent-death":
		serveOdd(sdk.Plugin{Name: name, Version: "1.0.0", Builders: []sdk.Factory{sdk.New(info, newBest)}})
		return
	}
	sdk.Serve(sdk.Plugin{Name: name, Version: "1.0.0", Builders: []sdk.Factory{sdk.New(info, newBest)}})
}

type config struct {
	Least float64 `yaml:"least" default:"0" validate:"gte=0,lte=1" doc:"lowest score that is good enough"`
}

func newBest(c *config) (builders.Builder, error) { return best{*c}, nil }

type best struct{ config }

var (
	built    atomic.Int64
	sessions atomic.Int64
	last     atomic.Value
)

func (b best) Build(_ context.Context, g *ttc.Group, out builders.Output) error {
	n := built.Add(1)
	texts := 0
	for _, ex := range g.Examples {
		for i := range ex.Candidates {
			texts += len(ex.Candidates[i].Output)
		}
	}
	isEmpty := len(g.Examples[0].Candidates) == 0
	switch how {
	case "builds":
		return errors.New("I don't build")
	case "kinds":
		return errors.Join(b.build(g, out, 0), out.Record(&builders.Rollout{}))
	case "references":
		return errors.Join(b.build(g, out, 0),
			out.Record(
				demonstration(0, builders.Content{Ref: builders.Ref{Part: builders.CandidateOutput, Candidate: 99}}),
			))
	case "drops":
		return errors.Join(b.build(g, out, 0), out.Drop(ledger.Drop{Detail: "why not"}))
	case "pure": // the same for the first twelve groups in each process
		if n > 12 && n <= 24 && g.Key == "task5" {
			return b.build(g, out, 1)
		}
	case "order":
		before, _ := last.Swap(g.Key).(string)
		if before > g.Key && g.Key == "task5" {
			return b.build(g, out, 1)
		}
	case "processes":
		if g.Key == "task5" {
			return b.build(g, out, float64(os.Getpid()))
		}
	case "sessions":
		defer sessions.Add(-1)
		if sessions.Add(1) > 1 {
			return errors.New("one at a time, please")
		}
		time.Sleep(2 * time.Millisecond)
	case "empty-group":
		if isEmpty {
			os.Exit(1)
		}
	case "huge-group":
		if texts > 1<<20 {
			os.Exit(1)
		}
	case "unicode":
		for e, ex := range g.Examples {
			for i := range ex.Candidates {
				if err := out.Record(
					demonstration(e, builders.Content{Text: strings.ToValidUTF8(ex.Candidates[i].Output, "\uFFFD")}),
				); err != nil {
					return err
				}
			}
		}
		return nil
	case "many-groups":
		if n > 1900 { // more than any other check sends to one process
			os.Exit(1)
		}
	case "stdout":
		if n == 1 {
			fmt.Println("building")
		}
	case "stderr":
		for range 2000 {
			fmt.Fprintln(os.Stderr, "building", g.Key)
		}
	}
	return b.build(g, out, 0)
}

func (b best) build(g *ttc.Group, out builders.Output, more float64) error {
	for e, ex := range g.Examples {
		for i := range ex.Candidates {
			if ex.Candidates[i].Score < b.Least {
				continue
			}
			d := demonstration(e,
				builders.Content{Ref: builders.Ref{Part: builders.CandidateOutput, Example: e, Candidate: i}})
			d.Weight += more
			if err := out.Record(d); err != nil {
				return err
			}
		}
	}
	return nil
}

func demonstration(e int, c builders.Content) *builders.Demonstration {
	return &builders.Demonstration{Head: builders.Head{Example: e}, Messages: c, Weight: 1}
}

// serveOdd serves a good plugin that breaks the protocol in one place.
func serveOdd(p sdk.Plugin) {
	if os.Getenv(wire.CookieName) == "" {
		fmt.Fprintln(os.Stderr, "this is a plugin")
		os.Exit(1)
	}
	if how != "parent-death" {
		parent := os.Getppid()
		go func() {
			for ; os.Getppid() == parent; time.Sleep(100 * time.Millisecond) {
			}
			os.Exit(1)
		}()
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  host.Handshake,
		VersionedPlugins: map[int]plugin.PluginSet{1: {"builder": &odd{good: p}}},
		GRPCServer: func(o []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(o, grpc.MaxRecvMsgSize(64<<20))...)
		},
	})
	if how == "shutdown" {
		time.Sleep(time.Minute)
	}
}

type odd struct {
	plugin.NetRPCUnsupportedPlugin
	good sdk.Plugin
}

func (o *odd) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	pb.RegisterBuilderServer(s, &oddService{BuilderServer: sdk.NewService(o.good)})
	return nil
}

func (o *odd) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil
}

type oddService struct {
	pb.BuilderServer
	said atomic.Bool
}

func (s *oddService) Describe(ctx context.Context, r *pb.DescribeRequest) (*pb.DescribeResponse, error) {
	d, err := s.BuilderServer.Describe(ctx, r)
	switch {
	case err != nil:
	case how == "schema":
		d.Builders[0].ConfigSchema = []byte(`{"type": 7`)
	case how == "version-skew" && r.GetProtocolMinor() > wire.Minor:
		return nil, errors.New("your version is too new for me")
	}
	return d, err
}

func (s *oddService) Validate(ctx context.Context, r *pb.ValidateRequest) (*pb.ValidateResponse, error) {
	if how == "bad-config" {
		return &pb.ValidateResponse{}, nil
	}
	if how == "validate" && string(r.GetConfig()) == "{}" && s.said.Swap(true) {
		return &pb.ValidateResponse{
			Findings: []*pb.Finding{{Message: "again?", Severity: pb.Severity_SEVERITY_WARNING}},
		}, nil
	}
	return s.BuilderServer.Validate(ctx, r)
}

func (s *oddService) Open(ctx context.Context, r *pb.OpenRequest) (*pb.OpenResponse, error) {
	if how == "unknown-builder" && r.GetBuilder() != "best" {
		r.Builder = "best"
	}
	return s.BuilderServer.Open(ctx, r)
}

func (s *oddService) Drain(ctx context.Context, r *pb.DrainRequest) (*pb.DrainResponse, error) {
	if how == "drain" {
		return &pb.DrainResponse{}, nil
	}
	return s.BuilderServer.Drain(ctx, r)
}

func (s *oddService) Build(stream pb.Builder_BuildServer) error {
	err := s.BuilderServer.Build(&oddStream{Builder_BuildServer: stream})
	switch {
	case how == "malformed" && err != nil && stream.Context().Err() == nil:
		os.Exit(1)
	case how == "cancellation" && stream.Context().Err() != nil:
		os.Exit(1)
	}
	return err
}

// oddStream grants itself credit.
type oddStream struct{ pb.Builder_BuildServer }

func (s *oddStream) Recv() (*pb.BuildRequest, error) {
	m, err := s.Builder_BuildServer.Recv()
	if err == nil && how == "slow-consumer" && m.GetSession() == "" {
		m.Credit += 10
	}
	return m, err
}
