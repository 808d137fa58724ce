package wire

import (
	"fmt"
	"sync"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
)

// Codec is gRPC's own codec for protocol buffers, with two differences: it rejects messages from the other side that
// would take too much memory (checkShape), and it stores frames in its own buffers. gRPC doesn't pool buffers of this
// size, and clears each buffer before overwriting it, which takes as long as copying it.
var Codec encoding.CodecV2 = codec{}

type codec struct{}

func (codec) Name() string { return grpcproto.Name }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("expected a message, got %T", v)
	}
	buf := frames.Get(proto.Size(m))
	if _, err := (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend((*buf)[:0], m); err != nil {
		frames.Put(buf)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(buf, &frames)}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("expected a message, got %T", v)
	}
	buf := data.MaterializeToBuffer(&frames)
	defer buf.Free()
	if _, ours := v.(*pb.BuildRequest); !ours { // a host's groups have their own limit
		if err := checkShape(m.ProtoReflect().Descriptor(), buf.ReadOnlyData()); err != nil {
			return err
		}
	}
	return proto.Unmarshal(buf.ReadOnlyData(), m)
}

// frames keeps frame buffers for reuse. Smaller buffers are cheap to allocate, and larger ones don't recur.
var frames framePool

type framePool struct{ pool sync.Pool }

const (
	smallFrame = 16 << 10
	keptFrame  = FrameBytes + FrameBytes/8 // a frame may exceed FrameBytes by one element
)

func (p *framePool) Get(n int) *[]byte {
	if n < smallFrame || n > keptFrame {
		return new(make([]byte, n))
	}
	if b, ok := p.pool.Get().(*[]byte); ok {
		*b = (*b)[:n]
		return b
	}
	return new(make([]byte, n, keptFrame))
}

func (p *framePool) Put(b *[]byte) {
	if cap(*b) == keptFrame {
		p.pool.Put(b)
	}
}
