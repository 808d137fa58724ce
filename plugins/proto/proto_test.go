package proto

import (
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
)

var update = flag.Bool("update", false, "write testdata/descriptor.txt: only for additions, see README.md")

// describe writes everything that the wire depends on, one line each, sorted.
func describe(f protoreflect.FileDescriptor) []string {
	var out []string
	var message func(protoreflect.MessageDescriptor)
	message = func(m protoreflect.MessageDescriptor) {
		for i := range m.Fields().Len() {
			d := m.Fields().Get(i)
			typ := d.Kind().String()
			if d.Message() != nil {
				typ = string(d.Message().Name())
			} else if d.Enum() != nil {
				typ = string(d.Enum().Name())
			}
			out = append(out,
				fmt.Sprintf("message %s %d %s %s %s presence=%v packed=%v", m.FullName(), d.Number(), d.Name(),
					d.Cardinality(), typ, d.HasPresence(), d.IsPacked()))
		}
		for i := range m.Messages().Len() {
			message(m.Messages().Get(i))
		}
	}
	for i := range f.Messages().Len() {
		message(f.Messages().Get(i))
	}
	for i := range f.Enums().Len() {
		e := f.Enums().Get(i)
		for j := range e.Values().Len() {
			v := e.Values().Get(j)
			out = append(out, fmt.Sprintf("enum %s %d %s", e.FullName(), v.Number(), v.Name()))
		}
	}
	for i := range f.Services().Len() {
		s := f.Services().Get(i)
		for j := range s.Methods().Len() {
			m := s.Methods().Get(j)
			out = append(out,
				fmt.Sprintf("rpc %s(%s stream=%v) returns (%s stream=%v)", m.FullName(), m.Input().Name(),
					m.IsStreamingClient(), m.Output().Name(), m.IsStreamingServer()))
		}
	}
	sort.Strings(out)
	return out
}

// TestDescriptorIsFrozen: the protocol is frozen, so anything that a released plugin or host may rely on is never
// changed or removed. Every addition is a minor version of its own.
func TestDescriptorIsFrozen(t *testing.T) {
	const golden = "testdata/descriptor.txt"
	now := describe(pb.File_nat_builder_v1_builder_proto)
	if *update {
		if err := os.WriteFile(golden, []byte(strings.Join(now, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	frozen := strings.Split(strings.TrimSpace(string(text)), "\n")
	have := map[string]bool{}
	for _, l := range now {
		have[l] = true
	}
	for _, l := range frozen {
		if !have[l] {
			t.Errorf("changed or removed: %s", l)
		}
		delete(have, l)
	}
	for l := range have {
		t.Errorf("added: %s\n(raise wire.Minor, say in the proto since which minor it is there, then `go test ./plugins/proto -update`)", l)
	}
	if name := pb.File_nat_builder_v1_builder_proto.Path(); name != "nat/builder/v1/builder.proto" {
		t.Errorf("it is compiled as %s: a proto file's name is global in a Go program", name)
	}
}
