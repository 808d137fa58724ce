package view

import (
	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/internal/history"
	"github.com/nat-go/nat-go/ttc"
)

// turn is one of the model's turns in a demonstration. It is either trained on or only context.
type turn struct {
	Message int  `json:"message"` // message index, starting at 0
	Trained bool `json:"trained"`
	// number, starting at 1, of the record that trains the turn instead of this one; 0 if no record does
	In      uint64 `json:"in,omitempty"`
	Changed string `json:"changed,omitempty"` // how the turn's context differs from the recorded one
}

// turns returns a demonstration's turns, trained or not. A turn that several branches of an example share is trained on
// in only one of their records. In the others, In is the number of that record.
func (r *Run) turns(g *keptGroup, at int) (list []turn) {
	own := &g.Records[at]
	d, ok := own.Record.(*builders.Demonstration)
	if !ok || own.Messages.IsText() {
		return nil
	}
	trained, n := d.Train.Turns(own.Messages.Nodes, d.Trained), 0
	elsewhere := false
	for i := range own.Messages.Nodes {
		if node := &own.Messages.Nodes[i]; node.Message.Role != "assistant" || node.Sampled == ttc.No {
			continue
		}
		t := turn{Message: i, Trained: trained[i]}
		for _, c := range own.Changes {
			if trained[i] && c.Turn == n {
				t.Changed = c.By.String()
			}
		}
		if trained[i] {
			n++
		}
		elsewhere = elsewhere || !trained[i]
		list = append(list, t)
	}
	if elsewhere {
		r.trainedIn(list, g, at)
	}
	return list
}

// trainedIn sets In for the turns that g.Records[at] doesn't train. It looks for those turns in the group's other kept
// demonstrations from the same example.
func (r *Run) trainedIn(list []turn, g *keptGroup, at int) {
	own := &g.Records[at]
	var h history.Hasher
	in := map[ttc.History]uint64{}
	for i := range g.Records {
		other := &g.Records[i]
		d, ok := other.Record.(*builders.Demonstration)
		if !ok || i == at || other.Messages.IsText() || other.Origin.Example != own.Origin.Example ||
			!r.decision(g.first+uint64(i)).Kept() {
			continue
		}
		trained := d.Train.Turns(other.Messages.Nodes, d.Trained)
		for k, hash := range hashes(&h, other) {
			if _, known := in[hash]; trained[k] && !known {
				in[hash] = g.first + uint64(i) + 1
			}
		}
	}
	of := hashes(&h, own)
	for i := range list {
		if t := &list[i]; !t.Trained {
			t.In = in[of[t.Message]]
		}
	}
}

// hashes returns a hash for each message in a record. The hash covers the tools, the message and all messages before
// it.
func hashes(h *history.Hasher, r *builders.Resolved) []ttc.History {
	return h.Graph(h.Tools(r.Origin.Tools), &ttc.Graph{Nodes: r.Messages.Nodes})
}

// branch is another record from the same example, with a conversation that differs from some message onward.
type branch struct {
	Record   uint64 `json:"record"` // record number, starting at 1
	Builder  string `json:"builder"`
	Parts    int    `json:"parts"`    // number of initial messages that both conversations share
	Messages int    `json:"messages"` // number of messages in the branch
	Sampled  int    `json:"sampled"`  // number of sampled messages after the first Parts
}

// maxBranches is the maximum number of branches listed for a record.
const maxBranches = 200

// branches lists up to maxBranches records in a record's group that come from the same example but have different
// conversations.
func (g *keptGroup) branches(at int) (list []branch) {
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
			continue // this is the same record, or a copy by another builder
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
	return list
}
