package view

import (
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/ttc"
)

// branch is another record from the same example, with a conversation that differs from some message onward.
type branch struct {
	Record   uint64 `json:"record"` // from 1
	Builder  string `json:"builder"`
	Parts    int    `json:"parts"`    // number of initial messages that both conversations share
	Messages int    `json:"messages"` // number of messages in the branch
	Sampled  int    `json:"sampled"`  // number of sampled messages after the first Parts
}

// maxBranches is the maximum number of branches listed for a record.
const maxBranches = 200

// branches lists up to maxBranches records in a record's group that come from the same example but have different
// conversations.
func (r *Run) branches(ordinal uint64) (list []branch, err error) {
	if r.plain != nil {
		return nil, nil
	}
	g, at, err := r.group(ordinal)
	if err != nil {
		return nil, err
	}
	own := &g.Records[at]
	for i := range g.Records {
		other := &g.Records[i]
		if own.Messages.IsText() || other.Messages.IsText() || other.Origin.Example != own.Origin.Example {
			continue
		}
		a, b := own.Messages.Nodes, other.Messages.Nodes
		parts := 0
		for parts < min(len(a), len(b)) && curate.SameMessage(&a[parts].Message, &b[parts].Message) {
			parts++
		}
		if parts == len(a) && parts == len(b) {
			continue // the same record, or a copy by another builder
		}
		x := branch{
			Record: g.first + uint64(i) + 1, Builder: text(other.Origin.Builder), Parts: parts, Messages: len(b),
		}
		for k := range b[parts:] {
			if b[parts+k].Sampled == ttc.Yes {
				x.Sampled++
			}
		}
		if list = append(list, x); len(list) == maxBranches {
			break
		}
	}
	return list, nil
}
