package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/plugins/internal/wire"
	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
	"github.com/nat-go/nat-go/ttc"
)

// service implements the protocol for a plugin.
type service struct {
	pb.UnimplementedBuilderServer
	plugin Plugin

	mu       sync.Mutex
	sessions map[string]builders.Builder
	opened   int
	draining bool
	streams  sync.WaitGroup
}

// NewService returns the protocol's service for a plugin, for programs that serve it themselves.
func NewService(p Plugin) pb.BuilderServer {
	return &service{plugin: p, sessions: map[string]builders.Builder{}}
}

func (s *service) Describe(context.Context, *pb.DescribeRequest) (*pb.DescribeResponse, error) {
	d := s.plugin.describe()
	return d.Describe(), nil
}

func (s *service) Validate(_ context.Context, r *pb.ValidateRequest) (*pb.ValidateResponse, error) {
	_, found, err := s.open(r.GetBuilder(), r.GetConfig())
	if err != nil {
		return nil, err
	}
	return &pb.ValidateResponse{Findings: wire.Findings(found)}, nil
}

func (s *service) open(builder string, config []byte) (_ builders.Builder, found []finding.Finding, err error) {
	f, err := s.plugin.factory(builder)
	if err != nil {
		return nil, nil, status.Error(codes.NotFound, err.Error())
	}
	defer func() {
		if p := recover(); p != nil {
			err = status.Errorf(codes.Internal, "builder %s panicked on its config: %v\n%s", builder, p, debug.Stack())
		}
	}()
	b, found := f.Open(config)
	return b, found, nil
}

func (s *service) Open(_ context.Context, r *pb.OpenRequest) (*pb.OpenResponse, error) {
	b, found, err := s.open(r.GetBuilder(), r.GetConfig())
	if err != nil {
		return nil, err
	}
	out := &pb.OpenResponse{Findings: wire.Findings(found)}
	if b == nil {
		return out, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return nil, status.Error(codes.Unavailable, "the plugin is draining")
	}
	s.opened++
	out.Session = strconv.Itoa(s.opened)
	s.sessions[out.Session] = b
	return out, nil
}

func (s *service) Close(_ context.Context, r *pb.CloseRequest) (*pb.CloseResponse, error) {
	s.mu.Lock()
	b := s.sessions[r.GetSession()]
	delete(s.sessions, r.GetSession())
	s.mu.Unlock()
	var err error
	if c, ok := b.(io.Closer); ok {
		err = c.Close()
	}
	return &pb.CloseResponse{}, err
}

func (s *service) Drain(ctx context.Context, _ *pb.DrainRequest) (*pb.DrainResponse, error) {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	idle := make(chan struct{})
	go func() { s.streams.Wait(); close(idle) }()
	select {
	case <-idle:
		return &pb.DrainResponse{}, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

func (s *service) session(id string) (builders.Builder, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.sessions[id]
	switch {
	case s.draining:
		return nil, status.Error(codes.Unavailable, "the plugin is draining")
	case !ok:
		return nil, status.Errorf(codes.NotFound, "no session %q", id)
	}
	s.streams.Add(1)
	return b, nil
}

func (s *service) Build(stream pb.Builder_BuildServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	b, err := s.session(first.GetSession())
	if err != nil {
		return err
	}
	defer s.streams.Done()
	// The reader ends when the handler returns, because that cancels the stream's context.
	c := &conn{stream: stream, credit: make(chan struct{}, maxCredit), frames: make(chan frame, wire.InitialCredit)}
	c.addCredit(wire.InitialCredit)
	go c.read()
	return c.build(b)
}

// conn is one Build stream. Its reader doesn't wait for the builder, so credits are always received.
type conn struct {
	stream pb.Builder_BuildServer
	sendMu sync.Mutex
	credit chan struct{} // one token per frame that the plugin may send
	frames chan frame    // groups received but not yet built; bounded by the credits
	err    error         // the reader's error, set before frames is closed
}

// frame holds the groups that a request frame completes.
type frame struct {
	groups  []*ttc.Group
	numbers []uint64
}

// maxCredit is the maximum number of unused credits that a host may grant; the plugin ignores the excess.
const maxCredit = 1 << 10

func (c *conn) addCredit(n uint32) {
	for range n {
		select {
		case c.credit <- struct{}{}:
		default:
			return
		}
	}
}

func (c *conn) send(m *pb.BuildResponse) error {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	return c.stream.Send(m)
}

func (c *conn) read() {
	defer close(c.frames)
	var r wire.GroupReader
	for {
		m, err := c.stream.Recv()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				c.err = err
			}
			return
		}
		c.addCredit(m.GetCredit())
		if len(m.GetParts()) == 0 {
			continue
		}
		var f frame
		for _, p := range m.GetParts() {
			g, err := r.Part(p)
			if err != nil {
				c.err = status.Error(codes.InvalidArgument, err.Error())
				return
			}
			if g != nil {
				f.groups, f.numbers = append(f.groups, g), append(f.numbers, p.GetGroup())
			}
		}
		if f.groups == nil { // the frame holds only a piece of a large group
			if c.err = c.send(&pb.BuildResponse{Credit: 1}); c.err != nil {
				return
			}
			continue
		}
		select {
		case c.frames <- f:
		case <-c.stream.Context().Done():
			c.err = c.stream.Context().Err()
			return
		}
	}
}

// flushAfter is the maximum time for which results wait until their frame is full.
const flushAfter = 100 * time.Millisecond

// build answers the groups in order.
func (c *conn) build(b builders.Builder) error {
	ctx := c.stream.Context()
	w := wire.NewRecordWriter(func(m *pb.BuildResponse) error {
		select {
		case <-c.credit:
			return c.send(m)
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	flushed := time.Now()
	for f := range c.frames {
		if err := c.send(&pb.BuildResponse{Credit: 1}); err != nil {
			return err
		}
		for i, g := range f.groups {
			w.Begin(f.numbers[i], g)
			failure, stack := c.buildGroup(ctx, b, w, f.numbers[i], g)
			if err := w.Done(failure, stack); err != nil {
				return err
			}
			// Send finished results soon, because the host considers a silent plugin stuck.
			last := i == len(f.groups)-1 && len(c.frames) == 0
			if now := time.Now(); last || now.Sub(flushed) > flushAfter {
				flushed = now
				if err := w.Flush(); err != nil {
					return err
				}
			}
		}
	}
	if c.err != nil {
		return c.err
	}
	return w.Flush()
}

// buildGroup calls the builder and turns its error or panic into the group's failure.
func (c *conn) buildGroup(
	ctx context.Context, b builders.Builder, w *wire.RecordWriter, number uint64, g *ttc.Group,
) (failure, stack string) {
	defer func() {
		if p := recover(); p != nil {
			failure, stack = fmt.Sprintf("panic: %v", p), string(debug.Stack())
		}
	}()
	ctx = context.WithValue(ctx, progressKey{}, func(done, total int64) {
		_ = c.send(&pb.BuildResponse{Progress: &pb.Progress{Group: number, Done: uint64(done), Total: uint64(total)}})
	})
	if err := b.Build(ctx, g, w); err != nil {
		return err.Error(), ""
	}
	return "", ""
}

type progressKey struct{}

// Progress reports to the host that the builder is working on ctx's group. done is the number of finished items out
// of total, which is 0 if unknown. A builder that needs minutes for a group should call it regularly; otherwise, the
// host considers the process stuck.
func Progress(ctx context.Context, done, total int64) {
	if f, ok := ctx.Value(progressKey{}).(func(done, total int64)); ok {
		f(done, total)
	}
}
