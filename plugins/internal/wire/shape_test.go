package wire

import (
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
)

// TestShape checks that a message that would take far more memory than it has bytes is refused before it is decoded,
// because of what it contains at any depth.
func TestShape(t *testing.T) {
	many := make([]byte, 4<<20) // empty occurrences of field 2: tag 0x12, length 0
	for i := range many {
		many[i] = []byte{0x12, 0x00}[i%2]
	}
	for name, c := range map[string]struct {
		data []byte
		into proto.Message
		ok   bool
	}{
		"parts":    {many, &pb.BuildResponse{}, false},
		"findings": {[]byte(nil), &pb.ValidateResponse{}, true},
		"text": {
			mustMarshal(t, &pb.BuildResponse{Parts: []*pb.ResultPart{{Text: make([]byte, 7<<20)}}}),
			&pb.BuildResponse{},
			true,
		},
		"columns": {
			mustMarshal(t,
				&pb.BuildResponse{Parts: []*pb.ResultPart{{Pairs: &pb.Pairs{Example: make([]uint32, 1<<20)}}}}),
			&pb.BuildResponse{},
			true,
		},
		"deep": {
			mustMarshal(t, &pb.BuildResponse{
				Parts: []*pb.ResultPart{{Records: []*pb.Record{{Kind: &pb.Record_Demonstration{
					Demonstration: &pb.Demonstration{Messages: &pb.Content{Messages: repeated(&pb.Message{}, 1<<20)}},
				}}}}},
			}),
			&pb.BuildResponse{},
			false,
		},
		"groups": {mustMarshal(t, &pb.BuildRequest{Parts: repeated(&pb.GroupPart{}, 1<<20)}), &pb.BuildRequest{}, true},
		"cut":    {many[:len(many)-1], &pb.BuildResponse{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := Codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(c.data)}, c.into)
			if (err == nil) != c.ok {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

func mustMarshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func repeated[T any](v T, n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = v
	}
	return out
}
