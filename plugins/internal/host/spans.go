package host

import (
	"fmt"
	"unsafe"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
)

// spans tracks the memory taken by the messages that a group's records refer to. A reference takes a few bytes, however
// large its target. Resolving thousands of records from one long session, each with all preceding messages, takes
// gigabytes. A target shared by several records is counted once.
type spans struct {
	group *ttc.Group
	seen  map[builders.Ref]bool
	bytes int64
}

// add counts the targets of a record's references, which must exist.
func (s *spans) add(r builders.Record) {
	for _, c := range builders.Contents(r) {
		r := c.Ref
		if r.Part != builders.NodeSpan || s.seen[r] {
			continue // a candidate's text is in memory once, regardless of the number of references
		}
		if s.seen == nil {
			s.seen = map[builders.Ref]bool{}
		}
		s.seen[r] = true
		nodes := s.group.Examples[r.Example].Graph.Nodes
		length := 0
		for n := r.Last; n >= 0; n = nodes[n].Parent {
			length++
		}
		for n := r.Last; length > r.Skip; n = nodes[n].Parent {
			s.bytes += nodeBytes(&nodes[n])
			length--
		}
	}
}

// nodeBytes returns a message's approximate memory: the message itself, and its encoding in the record log.
func nodeBytes(n *ttc.Node) int64 {
	m := &n.Message
	size := int(unsafe.Sizeof(*n)) + len(m.Text) + len(m.Reasoning) + 5*len(n.TokenIDs) + 5*len(n.LogProbs)
	for i := range m.Parts {
		size += len(m.Parts[i].Text) + len(m.Parts[i].Raw)
	}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		size += len(c.Name) + len(c.Arguments) + len(c.Parsed)
	}
	return int64(size)
}

// check returns an error if the messages take more than the limit. setting is the name of the setting that determines
// the limit.
func (s *spans) check(limit int, setting string) error {
	if s.bytes <= int64(limit) {
		return nil
	}
	return fmt.Errorf("messages that the group's records refer to, with their predecessors, take more than %d MiB; "+
		"the limit is %s", limit>>20, setting)
}
