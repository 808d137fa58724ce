package kit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/nat-go/nat-go/plugins/internal/wire"
	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
)

// stream opens a session and its stream without the host's own client.
func (s *subject) stream(ctx context.Context, minor uint32) (pb.Builder_BuildClient, error) {
	m, err := s.open(ctx, "check", minor)
	if err != nil {
		return nil, err
	}
	stream, err := s.rpc.Build(ctx)
	if err != nil {
		return nil, err
	}
	return stream, stream.Send(&pb.BuildRequest{Session: m.GetSession()})
}

// checkSlowConsumer grants no credit: a plugin may send only the four frames of its initial credit.
func checkSlowConsumer(ctx context.Context, k *kit) error {
	return k.with(ctx, func(s *subject) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := s.stream(ctx, wire.Minor)
		if err != nil {
			return err
		}
		credit := make(chan struct{}, 1<<16)
		for range wire.InitialCredit {
			credit <- struct{}{}
		}
		go func() { // sends as fast as the plugin's credit allows
			w := wire.NewGroupWriter(func(m *pb.BuildRequest) error {
				select {
				case <-credit:
					return stream.Send(m)
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			groups := s.samples()
			for n := range 20_000 {
				if w.Group(uint64(n+1), groups[n%len(groups)]) != nil || n%50 == 0 && w.Flush() != nil {
					return
				}
			}
		}()
		frames := 0
		quiet := time.AfterFunc(1500*time.Millisecond, cancel)
		defer quiet.Stop()
		for {
			m, err := stream.Recv()
			if ctx.Err() != nil {
				return nil // the plugin correctly waits for credit
			}
			if err != nil {
				return err
			}
			for range m.GetCredit() {
				select {
				case credit <- struct{}{}:
				default:
				}
			}
			if len(m.GetParts()) > 0 {
				frames++
			}
			if frames > wire.InitialCredit {
				return fmt.Errorf("unexpected frames: got %d with credit for %d", frames, wire.InitialCredit)
			}
		}
	})
}

func checkMalformed(ctx context.Context, k *kit) error {
	return k.with(ctx, func(s *subject) error {
		for name, bad := range map[string]*pb.BuildRequest{
			"an unknown session":          {Session: "no such session"},
			"a group without a beginning": {Parts: []*pb.GroupPart{{Group: 1, End: true}}},
			"a text that doesn't exist": {Parts: []*pb.GroupPart{{
				Group: 1, Begin: true, End: true, Key: 7, Examples: []*pb.Example{{Id: 9}},
			}}},
			"a text that ends beyond the data": {Parts: []*pb.GroupPart{{
				Group: 1, Begin: true, End: true, Text: []byte("x"), Ends: []uint32{99},
				Examples: []*pb.Example{{Id: 1}},
			}}},
		} {
			if err := s.malformed(ctx, name, bad); err != nil {
				return err
			}
			if err := s.alive(ctx); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})
}

// malformed sends a malformed request, in a new session unless the request names one.
func (s *subject) malformed(ctx context.Context, name string, bad *pb.BuildRequest) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	stream, err := s.rpc.Build(ctx)
	if err != nil {
		return err
	}
	if bad.Session == "" {
		m, err := s.open(ctx, "", 0)
		if err != nil {
			return err
		}
		if err := stream.Send(&pb.BuildRequest{Session: m.GetSession()}); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	if err := stream.Send(bad); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	_ = stream.CloseSend()
	for {
		done, err := answer(stream)
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%s was accepted instead of rejected", name)
		case ctx.Err() != nil:
			return fmt.Errorf("%s was not rejected: the stream neither failed nor ended", name)
		case err != nil || done.GetError() != nil:
			return nil
		}
	}
}

// answer skips the records of the next group and returns the end of its results.
func answer(stream pb.Builder_BuildClient) (*pb.Done, error) {
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		for _, part := range m.GetParts() {
			if part.GetDone() != nil {
				return part.GetDone(), nil
			}
		}
	}
}

func checkCancellation(ctx context.Context, k *kit) error {
	return k.with(ctx, func(s *subject) error {
		for range 3 {
			limited, cancel := context.WithCancel(ctx)
			stream, err := s.stream(limited, wire.Minor)
			if err != nil {
				cancel()
				return err
			}
			w := wire.NewGroupWriter(stream.Send)
			for n, g := range s.samples() {
				if err := w.Group(uint64(n+1), g); err != nil {
					break
				}
			}
			_ = w.Flush()
			cancel()
			if err := s.alive(ctx); err != nil {
				return err
			}
		}
		rs, err := s.build(ctx, s.samples())
		if err == nil && len(rs) != len(s.samples()) {
			err = fmt.Errorf("%d results after the cancelled streams", len(rs))
		}
		return err
	})
}

// checkVersionSkew acts as a host with the next minor version: it announces that version, and its messages contain a
// field that doesn't exist yet.
func checkVersionSkew(ctx context.Context, k *kit) error {
	return k.with(ctx, func(s *subject) error {
		unknown := protowire.AppendBytes(protowire.AppendTag(nil, 90, protowire.BytesType), []byte("later"))
		describe := &pb.DescribeRequest{ProtocolMinor: wire.Minor + 1}
		describe.ProtoReflect().SetUnknown(unknown)
		if _, err := s.rpc.Describe(ctx, describe); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		stream, err := s.stream(ctx, wire.Minor+1)
		if err != nil {
			return err
		}
		w := wire.NewGroupWriter(func(m *pb.BuildRequest) error {
			m.ProtoReflect().SetUnknown(unknown)
			for _, part := range m.Parts {
				part.ProtoReflect().SetUnknown(unknown)
				for _, ex := range part.Examples {
					ex.ProtoReflect().SetUnknown(unknown)
				}
			}
			return stream.Send(m)
		})
		if err := w.Group(1, s.samples()[0]); err != nil {
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
		_, err = answer(stream)
		return err
	})
}

func checkDrain(ctx context.Context, k *kit) error {
	return k.with(ctx, func(s *subject) error {
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if _, err := s.rpc.Drain(limited, &pb.DrainRequest{}); err != nil {
			return fmt.Errorf("draining an idle plugin: %w", err)
		}
		m, err := s.open(limited, "", 0)
		if err == nil && m.GetSession() != "" {
			return errors.New("unexpected session after Drain")
		}
		return nil
	})
}
