package host

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/plugins/internal/wire"
	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
	"github.com/nat-go/nat-go/plugins/sdk"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// everything emits each kind of record, a drop and a count for each example.
type everything struct{}

func (everything) Build(_ context.Context, g *ttc.Group, out builders.Output) error {
	for e := range g.Examples {
		head := builders.Head{Example: e, Turn: "t", Metadata: []byte(`{}`)}
		ms := builders.Content{
			Ref:      builders.Ref{Part: builders.InlineMessages},
			Messages: []chat.Message{{Role: "user", Form: chat.Text, Text: "hi"}},
		}
		for _, r := range []builders.Record{
			&builders.Preference{
				Head:     head,
				Prompt:   builders.Content{Text: "p"},
				Chosen:   builders.Content{Text: "c"},
				Rejected: builders.Content{Text: "r"},
				Reward:   1,
			},
			&builders.Demonstration{Head: head, Messages: ms, Weight: 1},
			&builders.Rollout{Head: head, Messages: ms, Task: "task"},
			&builders.Distillation{Head: head, Messages: ms, Sites: []builders.Site{{Hint: "h", Tool: "search"}}},
		} {
			if err := out.Record(r); err != nil {
				return err
			}
		}
		if err := out.Drop(ledger.Drop{Reason: "odd", Unit: "turn", Index: -1}); err != nil {
			return err
		}
	}
	return (neighbours{}).Build(context.Background(), g, countOnly{out})
}

// countOnly passes counts and records on and reports how many came.
type countOnly struct{ builders.Output }

func (c countOnly) Record(r builders.Record) error {
	if err := c.Output.Record(r); err != nil {
		return err
	}
	return c.Count("pairs", 1)
}

// skewed is the codec of a plugin whose peer is a minor version away: either the host is newer than the plugin, or the
// plugin is newer than the host. Every message that the newer side sends has a field that the older one does not know.
type skewed struct {
	encoding.CodecV2
	newerPlugin, newerHost bool
}

func (s skewed) Marshal(v any) (mem.BufferSlice, error) {
	m := proto.Clone(v.(proto.Message))
	if s.newerPlugin {
		later(m.ProtoReflect())
	}
	return s.CodecV2.Marshal(m)
}

func (s skewed) Unmarshal(data mem.BufferSlice, v any) error {
	err := s.CodecV2.Unmarshal(data, v)
	if s.newerHost {
		later(v.(proto.Message).ProtoReflect())
	}
	return err
}

// later turns a message into one of the next minor version.
func later(m protoreflect.Message) {
	m.SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 90, protowire.BytesType), []byte("later")))
	if f := m.Descriptor().Fields().ByName("protocol_minor"); f != nil {
		m.Set(f, protoreflect.ValueOfUint32(uint32(m.Get(f).Uint())+1))
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				later(v.List().Get(i).Message())
			}
		case f.Message() != nil:
			later(v.Message())
		}
		return true
	})
}

// TestVersionSkew checks that a host works with a plugin that is one minor version ahead of it, and with one that is
// one behind.
func TestVersionSkew(t *testing.T) {
	t.Parallel()
	ex := branched("a", 1)
	ex.Candidates = group(0, 3, 10).Examples[0].Candidates
	groups := []*ttc.Group{{Key: "g", Examples: []*ttc.Example{ex}}}
	var want []Result
	for _, codec := range []skewed{{wire.Codec, false, false}, {wire.Codec, true, false}, {wire.Codec, false, true}} {
		name := fmt.Sprintf("plugin newer %v, host newer %v", codec.newerPlugin, codec.newerHost)
		lis := bufconn.Listen(1 << 16)
		server := grpc.NewServer(grpc.ForceServerCodecV2(codec))
		pb.RegisterBuilderServer(server, sdk.NewService(sdk.Plugin{Name: "test", Version: "1", Builders: []sdk.Factory{
			sdk.New(builders.Info{
				Name: "all",
				Kinds: []builders.Kind{
					builders.KindPreference, builders.KindDemonstration, builders.KindRollout,
					builders.KindDistillation,
				},
			},
				func(*struct{}) (builders.Builder, error) { return everything{}, nil }),
		}}))
		go func() { _ = server.Serve(lis) }()
		p, err := Connect(t.Context(), Spec{Name: "test"},
			func(ctx context.Context) (net.Conn, error) { return lis.DialContext(ctx) }, zerolog.Nop())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if minor := p.ProtocolMinor(); minor > wire.Minor != codec.newerPlugin {
			t.Errorf("%s: the plugin says minor %d", name, minor)
		}
		s, err := p.Open(t.Context(), "all", "mine", []byte("{}"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := collect(t, s, groups)
		if err != nil || got[0].Err != nil || len(got[0].Records) != 6 {
			t.Fatalf("%s: %+v %v", name, got, err)
		}
		if want == nil {
			want = got
		}
		if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Result{}, ttc.Graph{}),
			cmpopts.IgnoreFields(Result{}, "Group")); d != "" {
			t.Errorf("%s:\n%s", name, d)
		}
		s.Close()
		p.Close()
		server.Stop()
	}
}
