package wire

import (
	"encoding/binary"
	"errors"

	"google.golang.org/protobuf/proto"

	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
	"github.com/nat-go/nat-go/ttc"
)

// ExampleCodec encodes single examples as bytes. The bytes contain the data that plugins don't get (the hashes of the
// recorded messages and the reference value for checkers), and protocol frames, each preceded by its length. Decoding
// restores the example exactly. It is not safe for concurrent use.
type ExampleCodec struct {
	w   *GroupWriter
	dst []byte
	one [1]*ttc.Example
}

// NewExampleCodec returns a codec.
func NewExampleCodec() *ExampleCodec {
	c := &ExampleCodec{}
	c.w = NewGroupWriter(func(m *pb.BuildRequest) (err error) {
		c.dst = binary.BigEndian.AppendUint32(c.dst, uint32(proto.Size(m)))
		c.dst, err = proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(c.dst, m)
		return err
	})
	return c
}

// Append appends an example.
func (c *ExampleCodec) Append(dst []byte, ex *ttc.Example) ([]byte, error) {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(ex.Recorded)))
	for _, h := range ex.Recorded {
		dst = binary.BigEndian.AppendUint64(dst, uint64(h))
	}
	dst = append(binary.BigEndian.AppendUint32(dst, uint32(len(ex.Truth))), ex.Truth...)
	c.dst, c.one[0] = dst, ex
	err := c.w.Group(1, &ttc.Group{Examples: c.one[:]})
	if err == nil {
		err = c.w.Flush()
	}
	c.one[0] = nil
	return c.dst, err
}

// Decode returns the example encoded in data. The example does not share memory with data.
func (c *ExampleCodec) Decode(data []byte) (*ttc.Example, error) {
	var r GroupReader
	var recorded []ttc.History
	if len(data) >= 4 {
		n := uint64(binary.BigEndian.Uint32(data))
		for data = data[4:]; n > 0 && len(data) >= 8; n-- {
			recorded, data = append(recorded, ttc.History(binary.BigEndian.Uint64(data))), data[8:]
		}
	}
	var truth []byte
	if len(data) >= 4 {
		n := min(int(binary.BigEndian.Uint32(data)), len(data)-4)
		truth, data = append(truth, data[4:4+n]...), data[4+n:]
	}
	for len(data) >= 4 {
		n := binary.BigEndian.Uint32(data)
		if uint64(n) > uint64(len(data)-4) {
			break
		}
		var m pb.BuildRequest
		if err := proto.Unmarshal(data[4:4+n], &m); err != nil {
			return nil, err
		}
		data = data[4+n:]
		for _, p := range m.Parts {
			g, err := r.Part(p)
			if err != nil {
				return nil, err
			}
			if g != nil && len(g.Examples) == 1 && len(data) == 0 {
				g.Examples[0].Recorded, g.Examples[0].Truth = recorded, truth
				return g.Examples[0], nil
			}
		}
	}
	return nil, errors.New("invalid data: cut off, or not a single example")
}
