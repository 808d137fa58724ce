package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/test/bufconn"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/plugins/internal/wire"
	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
	"github.com/nat-go/nat-go/plugins/sdk"
	"github.com/nat-go/nat-go/ttc"
)

// neighbours is the test plugin's builder, served in memory.
type neighbours struct{}

func (neighbours) Build(_ context.Context, g *ttc.Group, out builders.Output) error {
	for e, ex := range g.Examples {
		for i := 0; i+1 < len(ex.Candidates); i++ {
			a, b := &ex.Candidates[i], &ex.Candidates[i+1]
			ref := func(p builders.Part, i int) builders.Content {
				return builders.Content{Ref: builders.Ref{Part: p, Example: e, Candidate: i}}
			}
			if err := out.Record(&builders.Preference{
				Head:          builders.Head{Example: e, Turn: a.Turn},
				Prompt:        ref(builders.CandidatePrompt, i),
				Chosen:        ref(builders.CandidateOutput, i),
				Rejected:      ref(builders.CandidateOutput, i+1),
				Reward:        a.Score - b.Score,
				ScoreName:     a.Step,
				ChosenScore:   a.Score,
				RejectedScore: b.Score,
				ChosenIndex:   a.Index,
				RejectedIndex: b.Index,
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// BenchmarkDataPlane sends groups of 16 and 48 KiB through a process and through memory: the difference in CPU time,
// for host and plugin together, is the cost of the process.
func BenchmarkDataPlane(b *testing.B) {
	for _, size := range []int{2 << 10, 6 << 10} {
		groups := make([]*ttc.Group, 256)
		bytes := 0
		for i := range groups {
			groups[i] = group(i, 8, size)
			bytes += sizeOf(groups[i])
		}
		b.Run(fmt.Sprintf("process/%dKiB", size>>7), func(b *testing.B) {
			p, err := Start(b.Context(), Spec{Name: "test", Path: testPlugin}, zerolog.Nop())
			if err != nil {
				b.Fatal(err)
			}
			pump(b, p, groups, bytes, syscall.RUSAGE_CHILDREN)
		})
		b.Run(fmt.Sprintf("memory/%dKiB", size>>7), func(b *testing.B) {
			lis := bufconn.Listen(1 << 20)
			served := make(chan struct{})
			go func() {
				defer close(served)
				_ = sdk.ServeListener(sdk.Plugin{Name: "test", Version: "1", Builders: []sdk.Factory{
					sdk.New(builders.Info{
						Name:  "pairs",
						Kinds: []builders.Kind{builders.KindPreference},
					}, func(*struct{}) (builders.Builder, error) { return neighbours{}, nil }),
				}}, lis)
			}()
			p, err := Connect(b.Context(), Spec{Name: "test"},
				func(ctx context.Context) (net.Conn, error) { return lis.DialContext(ctx) }, zerolog.Nop())
			if err != nil {
				b.Fatal(err)
			}
			pump(b, p, groups, bytes, syscall.RUSAGE_CHILDREN)
			lis.Close()
			<-served
		})
	}
}

// pump sends all groups b.N times and reports the CPU time per byte.
func pump(b *testing.B, p *Plugin, groups []*ttc.Group, bytes int, children int) {
	s, err := p.Open(b.Context(), "pairs", "mine", []byte("{}"))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(bytes))
	self, kids := cpu(b, syscall.RUSAGE_SELF), cpu(b, children)
	b.ResetTimer()
	go func() {
		defer s.CloseSend()
		for range b.N {
			for _, g := range groups {
				if s.Send(b.Context(), g) != nil {
					return
				}
			}
		}
	}()
	for {
		r, err := s.Recv(b.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || len(r.Records) != 7 {
			b.Fatal(err, len(r.Records))
		}
		r.Release() // as a run does
	}
	b.StopTimer()
	s.Close()
	p.Close() // a child's time only counts once it has exited
	total := cpu(b, syscall.RUSAGE_SELF) - self + cpu(b, children) - kids
	b.ReportMetric(float64(total)/float64(b.N)/float64(bytes), "cpu-ns/B")
}

func cpu(b *testing.B, who int) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkStart measures the time from nothing to the first record.
func BenchmarkStart(b *testing.B) {
	g := group(0, 2, 10)
	for b.Loop() {
		p, err := Start(b.Context(), Spec{Name: "test", Path: testPlugin}, zerolog.Nop())
		if err != nil {
			b.Fatal(err)
		}
		s, err := p.Open(b.Context(), "pairs", "mine", []byte("{}"))
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Send(b.Context(), g); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Recv(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		s.Close()
		p.Close()
		b.StartTimer()
	}
}

// BenchmarkPoison sends four thousand small groups, all in flight at once, through a builder that kills its process at
// one of them: the difference from the undisturbed run is the cost of finding it. That cost is one start and a round
// trip for each group that was in flight; bisection would take twelve starts, each of some 20 ms in Go and some 200 ms
// in Python.
func BenchmarkPoison(b *testing.B) {
	groups := faultGroups(maxJobs)
	for name, config := range map[string]string{"undisturbed": "{}", "poison": `{"at":"ex30","do":"kill"}`} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p, err := Start(b.Context(), Spec{Name: "test", Path: testPlugin}, zerolog.Nop())
				if err != nil {
					b.Fatal(err)
				}
				s, err := p.Open(b.Context(), "pairs", "mine", []byte(config))
				if err != nil {
					b.Fatal(err)
				}
				go func() {
					defer s.CloseSend()
					for _, g := range groups {
						if s.Send(b.Context(), g) != nil {
							return
						}
					}
				}()
				for n := 0; ; n++ {
					_, err := s.Recv(b.Context())
					if errors.Is(err, io.EOF) && n == len(groups) {
						break
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				s.Close()
				p.Close()
			}
		})
	}
}

// BenchmarkRawFrames is the baseline for BenchmarkDataPlane's throughput: frames of plain bytes sent to a process that
// discards them.
func BenchmarkRawFrames(b *testing.B) {
	p, err := Start(b.Context(), Spec{Name: "raw", Path: testPlugin, Args: []string{"raw"}}, zerolog.Nop())
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	// Stock gRPC.
	stream, err := p.instances[0].inc.rpc.Build(b.Context(), grpc.ForceCodecV2(encoding.GetCodecV2("proto")))
	if err != nil {
		b.Fatal(err)
	}
	if err := stream.Send(&pb.BuildRequest{Session: "s"}); err != nil {
		b.Fatal(err)
	}
	frame := &pb.BuildRequest{Parts: []*pb.GroupPart{{Text: make([]byte, wire.FrameBytes)}}}
	b.SetBytes(wire.FrameBytes)
	answered := make(chan struct{}, 1<<20)
	go func() {
		for {
			if _, err := stream.Recv(); err != nil {
				return
			}
			answered <- struct{}{}
		}
	}()
	b.ResetTimer()
	for range b.N {
		if err := stream.Send(frame); err != nil {
			b.Fatal(err)
		}
	}
	for range b.N {
		<-answered
	}
	b.StopTimer()
	_ = stream.CloseSend()
}
