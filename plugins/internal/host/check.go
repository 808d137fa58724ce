package host

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// checkRecord returns the reason a record is invalid: its kind was not declared, something it refers to does not exist,
// or one of its own strings or values is malformed. The gate checks whether its numbers make sense; --compat nat skips
// the gate.
func checkRecord(g *ttc.Group, r builders.Record, kinds []builders.Kind) (ledger.Reason, error) {
	if !slices.Contains(kinds, r.Kind()) {
		return ledger.BadRecord, fmt.Errorf("undeclared record kind %v", r.Kind())
	}
	if h := r.Header(); h.Example < 0 || h.Example >= len(g.Examples) {
		return builders.BadReference, fmt.Errorf("invalid example index %d: expected less than "+
			"%d", h.Example, len(g.Examples))
	}
	if err := builders.CheckRefs(g, r); err != nil {
		return builders.BadReference, err
	}
	if err := builders.CheckTexts(r); err != nil {
		return ledger.BadRecord, err
	}
	return "", nil
}

// Limits on the text in a plugin's drops. Reasons and units are codes; variable text belongs in the detail.
const (
	maxReason = 64
	maxDetail = 1000
	// maxDropped bounds the number of drops in a group: a larger number is implausible.
	maxDropped = 1 << 32
)

// units lists the valid values of a drop's unit.
var units = []string{"candidate", "example", "group", "pair", "record", "rollout", "site", "step", "turn"}

// cleanDrop prepares a plugin's drop for the ledger: the host sets the stage and the builder, and an unknown reason is
// prefixed with the plugin's name. A detail keeps its line breaks, since the list of drops is JSON.
func cleanDrop(d *ledger.Drop, spec Spec, builder string) {
	d.Stage, d.Builder, d.Format = ledger.Build, builder, ""
	d.Count = max(d.Count, 0)
	if !slices.Contains(units, d.Unit) {
		d.Unit = "record"
	}
	d.Detail = cut(d.Detail, maxDetail)
	if spec.Known != nil && spec.Known(d.Reason) {
		return
	}
	plugin, reason := spec.Name, cut(code(string(d.Reason)), maxReason)
	reason = cmp.Or(reason, "unspecified")
	if !strings.HasPrefix(reason, plugin+"/") {
		reason = plugin + "/" + reason
	}
	d.Reason = ledger.Reason(reason)
}

// code turns a string into a valid code.
func code(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f {
			return '_'
		}
		return r
	}, s)
}

func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}

// countDrops returns an error if more drops are reported than a group could have.
func countDrops(drops []ledger.Drop) error {
	var n int64
	for i := range drops {
		if n += min(drops[i].N(), maxDropped); n >= maxDropped {
			return fmt.Errorf("%d or more drops for one group, more than a group can have",
				int64(maxDropped))
		}
	}
	return nil
}

// groupDrop returns the drop of a whole group for one builder.
func groupDrop(g *ttc.Group, builder string, reason ledger.Reason, detail string) ledger.Drop {
	d := ledger.Drop{
		Stage:   ledger.Build,
		Reason:  reason,
		Unit:    "group",
		Builder: builder,
		Index:   -1,
		Detail:  firstLine(detail),
	}
	if len(g.Examples) > 0 {
		ex := g.Examples[0]
		d.Run, d.Example, d.File, d.Offset = ex.Run, ex.ID, ex.File, ex.Offset
	}
	return d
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// sizeOf returns a group's approximate size in bytes.
func sizeOf(g *ttc.Group) int {
	n := len(g.Key)
	for _, ex := range g.Examples {
		n += 64 + len(ex.ID) + len(ex.RawID)
		for i := range ex.Graph.Nodes {
			nd := &ex.Graph.Nodes[i]
			m := &nd.Message
			n += 64 + len(m.Text) + len(m.Reasoning) + 4*len(nd.TokenIDs) + 4*len(nd.LogProbs)
			for j := range m.Parts {
				n += len(m.Parts[j].Raw) + len(m.Parts[j].Text)
			}
			for j := range m.ToolCalls {
				n += len(m.ToolCalls[j].Arguments) + len(m.ToolCalls[j].Parsed) + 32
			}
		}
		for i := range ex.Tools {
			n += len(ex.Tools[i].Raw)
		}
		var last *ttc.Prompt
		for i := range ex.Candidates {
			c := &ex.Candidates[i]
			n += 64 + len(c.Output) + len(c.Metadata)
			if last == nil || last.Text != c.Prompt.Text {
				n += len(c.Prompt.Text)
			}
			for j := range c.Prompt.Messages {
				n += len(c.Prompt.Messages[j].Text)
			}
			last = &c.Prompt
		}
		for i := range ex.Steps {
			n += 32 + len(ex.Steps[i].Raw)
		}
	}
	return n
}

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
		ref := c.Ref
		if ref.Part != builders.NodeSpan || s.seen[ref] {
			continue // a candidate's text is in memory once, regardless of the number of references
		}
		if s.seen == nil {
			s.seen = map[builders.Ref]bool{}
		}
		s.seen[ref] = true
		nodes := s.group.Examples[ref.Example].Graph.Nodes
		length := 0
		for n := ref.Last; n >= 0; n = nodes[n].Parent {
			length++
		}
		for n := ref.Last; length > ref.Skip; n = nodes[n].Parent {
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
