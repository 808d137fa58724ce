package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/nat-go/nat-go/plugins/internal/host"
	"github.com/nat-go/nat-go/plugins/internal/wire"
	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
)

// serveRaw serves the protocol without the SDK, so that it can be violated.
//
// With packed, every message is a GiB that gzip makes small.
func serveRaw(packed bool) {
	newServer := plugin.DefaultGRPCServer
	if packed {
		newServer = func(o []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(
				append(o, grpc.RPCCompressor(bomb{}))...,
			) //nolint:staticcheck // the only way to compress for who didn't ask
		}
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  host.Handshake,
		VersionedPlugins: map[int]plugin.PluginSet{1: {"builder": &raw{}}},
		GRPCServer:       newServer,
	})
}

// bomb packs any message as a GiB of zeros.
type bomb struct{}

func (bomb) Type() string { return "gzip" }

func (bomb) Do(w io.Writer, _ []byte) error {
	var member bytes.Buffer
	z := gzip.NewWriter(&member)
	z.Write(make([]byte, 16<<20))
	z.Close()
	_, err := w.Write(bytes.Repeat(member.Bytes(), 64))
	return err
}

type raw struct {
	plugin.NetRPCUnsupportedPlugin
	pb.UnimplementedBuilderServer
	config struct{ At, Do string }
}

func (r *raw) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	pb.RegisterBuilderServer(s, r)
	return nil
}

func (r *raw) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil
}

func (r *raw) Describe(context.Context, *pb.DescribeRequest) (*pb.DescribeResponse, error) {
	return &pb.DescribeResponse{
		Name:     "raw",
		Version:  "1",
		Builders: []*pb.BuilderInfo{{Name: "pairs", Kinds: []pb.Kind{pb.Kind_KIND_PREFERENCE}}},
	}, nil
}

func (r *raw) Validate(context.Context, *pb.ValidateRequest) (*pb.ValidateResponse, error) {
	return &pb.ValidateResponse{}, nil
}

func (r *raw) Open(_ context.Context, q *pb.OpenRequest) (*pb.OpenResponse, error) {
	json.Unmarshal(q.Config, &r.config)
	if r.config.Do == "hang in open" {
		select {}
	}
	return &pb.OpenResponse{Session: "s"}, nil
}

func (r *raw) Drain(context.Context, *pb.DrainRequest) (*pb.DrainResponse, error) {
	if r.config.Do == "hang in drain" {
		select {}
	}
	return &pb.DrainResponse{}, nil
}

func (r *raw) Close(context.Context, *pb.CloseRequest) (*pb.CloseResponse, error) {
	return &pb.CloseResponse{}, nil
}

// within is a stream that respects its credit.
type within struct {
	pb.Builder_BuildServer
	credit uint32
	ahead  []*pb.BuildRequest // read while waiting for credit
}

func (w *within) Recv() (m *pb.BuildRequest, err error) {
	if len(w.ahead) > 0 {
		m, w.ahead = w.ahead[0], w.ahead[1:]
		return m, nil
	}
	m, err = w.Builder_BuildServer.Recv()
	w.credit += m.GetCredit()
	return m, err
}

// answer sends a frame with parts.
func (w *within) answer(parts ...*pb.ResultPart) error {
	for w.credit == 0 {
		m, err := w.Builder_BuildServer.Recv()
		if err != nil {
			return err
		}
		w.credit += m.GetCredit()
		w.ahead = append(w.ahead, m)
	}
	w.credit--
	return w.Send(&pb.BuildResponse{Parts: parts})
}

func (r *raw) Build(s pb.Builder_BuildServer) error {
	stream := &within{Builder_BuildServer: s, credit: wire.InitialCredit}
	if _, err := stream.Recv(); err != nil {
		return err
	}
	keys := map[uint64]string{}
	for {
		m, err := stream.Recv()
		if err == io.EOF {
			if r.config.Do == "never end" {
				<-stream.Context().Done()
			}
			return nil
		}
		if err != nil {
			return err
		}
		if len(m.Parts) > 0 && r.config.Do != "never grant" {
			if err := stream.Send(&pb.BuildResponse{Credit: 1}); err != nil {
				return err
			}
		}
		for _, p := range m.Parts {
			if p.Begin && p.Key > 0 {
				start := uint32(0)
				if p.Key > 1 {
					start = p.Ends[p.Key-2]
				}
				keys[p.Group] = string(p.Text[start:p.Ends[p.Key-1]])
			}
			if !p.End {
				continue
			}
			if err := r.answer(stream, p.Group, keys[p.Group]); err != nil {
				return err
			}
		}
	}
}

// answer sends one pair for a group: candidate 0 against candidate 1.
func (r *raw) answer(stream *within, group uint64, key string) error {
	part := &pb.ResultPart{Group: group, Done: &pb.Done{Records: 1}, Pairs: &pb.Pairs{
		Example: []uint32{0}, Prompt: []uint32{0}, Chosen: []uint32{0}, Rejected: []uint32{1}, Reward: []float64{-1},
	}}
	if key == r.config.At || r.config.At == "*" {
		switch r.config.Do {
		case "wrong id":
			part.Group += 100
		case "twice":
			if err := stream.answer(part); err != nil {
				return err
			}
		case "late": // the answer has the number of the next group
			time.Sleep(time.Second)
			part.Group++
		case "huge":
			part.Text = make([]byte, 64<<20)
			part.Ends = []uint32{64 << 20}
		case "end":
			return io.EOF
		case "miscount":
			part.Done.Records = 5
		case "bad text":
			part.Ends = []uint32{9}
		case "ignore credit": // complete answers, more than a host holds for a slow consumer
			part.Text, part.Ends = make([]byte, 1<<20), []uint32{1 << 20}
			return stream.Send(&pb.BuildResponse{Parts: []*pb.ResultPart{part}})
		case "beyond credit": // parts of one group, ignoring the credit granted, and only then its end
			for i := range uint32(200) {
				if err := stream.Send(&pb.BuildResponse{Parts: []*pb.ResultPart{{Group: group, Part: i}}}); err != nil {
					return err
				}
			}
			part.Part = 200
		case "empty texts":
			for i := uint32(0); ; i++ {
				if err := stream.answer(&pb.ResultPart{
					Group: group,
					Part:  i,
					Ends:  make([]uint32, 1<<20),
				}); err != nil {
					return err
				}
			}
		case "empty parts", "empty sites", "empty drops", "empty ends":
			parts := make([]*pb.ResultPart, 4<<20)
			empty := &pb.ResultPart{} // shared, so that the plugin needs no memory for them
			for i := range parts {
				parts[i] = empty
			}
			switch r.config.Do {
			case "empty ends":
				parts = []*pb.ResultPart{{Group: group, Ends: make([]uint32, 8<<20-64)}}
			case "empty drops":
				drops := make([]*pb.Drop, 4<<20)
				none := &pb.Drop{}
				for i := range drops {
					drops[i] = none
				}
				parts = []*pb.ResultPart{{Group: group, Drops: drops}}
			case "empty sites":
				sites := make([]*pb.Site, 4<<20)
				none := &pb.Site{}
				for i := range sites {
					sites[i] = none
				}
				parts = []*pb.ResultPart{{
					Group: group,
					Records: []*pb.Record{
						{Kind: &pb.Record_Distillation{Distillation: &pb.Distillation{Sites: sites}}},
					},
				}}
			}
			if err := stream.Send(&pb.BuildResponse{Parts: parts}); err != nil {
				return err
			}
			select {}
		case "trickle messages", "trickle parts", "trickle records", "trickle credit", "trickle drops":
			return trickle(stream, r.config.Do, group)
		case "too much credit":
			if err := stream.Send(&pb.BuildResponse{Credit: 1 << 30}); err != nil {
				return err
			}
		}
	}
	return stream.answer(part)
}

// trickle sends something every now and then, for ever, within its credit.
func trickle(stream *within, what string, group uint64) error {
	credit := make(chan struct{}, 1<<10)
	for range stream.credit {
		credit <- struct{}{}
	}
	go func() {
		for {
			m, err := stream.Builder_BuildServer.Recv()
			if err != nil {
				return
			}
			for range m.Credit {
				credit <- struct{}{}
			}
		}
	}()
	for i := uint32(0); ; i++ {
		m := &pb.BuildResponse{}
		part := &pb.ResultPart{Group: group, Part: i}
		switch what {
		case "trickle parts":
			m.Parts = []*pb.ResultPart{part}
		case "trickle records":
			part.Records = []*pb.Record{{Kind: &pb.Record_Demonstration{Demonstration: &pb.Demonstration{}}}}
			m.Parts = []*pb.ResultPart{part}
		case "trickle drops":
			part.Drops = []*pb.Drop{{}}
			m.Parts = []*pb.ResultPart{part}
		case "trickle credit":
			if i < 500 {
				m.Credit = 1
			}
		}
		if len(m.Parts) > 0 {
			<-credit
		}
		if err := stream.Send(m); err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
