package divergence

import (
	"cmp"
	"context"
	"fmt"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/internal/emit"
	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// branches pairs the answer from which each session continued with its abandoned answers.
func (b *Builder) branches(ctx context.Context, g *ttc.Group, out *emit.Output) {
	for e, ex := range g.Examples {
		if out.Over(ctx) {
			return
		}
		why := pairs.SingleBranch
		made := false
		for _, f := range pairs.Forks(&ex.Graph) {
			n, refused := b.fork(e, ex, f, out)
			made = made || n > 0
			why = cmp.Or(refused, why)
		}
		if !made {
			out.Drop(builders.NewDrop(ex, "example", why))
		}
	}
}

// fork builds the pairs at a fork. It returns the number of pairs and, if any pair was refused, the reason.
func (b *Builder) fork(e int, ex *ttc.Example, f pairs.Fork, out *emit.Output) (n int, why ledger.Reason) {
	refuse := func(reason ledger.Reason, detail string, a ...any) {
		why = reason
		d := builders.NewDrop(ex, "pair", reason)
		d.Detail = fmt.Sprintf(detail, a...)
		out.Drop(d)
	}
	if f.Why != "" {
		refuse(f.Why, "after message %d", f.At)
		return 0, why
	}
	kept := branchOf(e, ex, f, f.Kept)
	for _, end := range f.Left {
		left := branchOf(e, ex, f, end)
		chosen := kept.first(left.turns)
		if reason := b.pairRefusal(chosen, left); reason != "" {
			refuse(reason, "message %d against %d", f.Kept, end)
			continue
		}
		n++
		out.Record(&builders.Preference{
			Head: builders.Head{
				Example:  e,
				Turn:     fmt.Sprint(chosen.walk[chosen.from]),
				Metadata: fmt.Appendf(nil, `{"fork":%d,"kept":%d,"left":%d}`, f.At, f.Kept, end),
			},
			Prompt: emit.Span(e, chosen.walk[chosen.from-1], 0),
			Chosen: chosen.content(), Rejected: left.content(),
			Reward: 1, ScoreName: "kept", ChosenScore: 1,
			ChosenIndex: int64(chosen.walk[chosen.from]), RejectedIndex: int64(left.walk[left.from]),
			ChosenPolicy: chosen.policy(), RejectedPolicy: left.policy(),
		})
	}
	return n, why
}

// branch is one continuation of a session after a fork.
type branch struct {
	example int
	ex      *ttc.Example
	walk    []int // nodes from the root to the model's last message
	from    int   // position in walk of the first message after the fork
	turns   int   // number of model turns after the fork
	length  int   // number of bytes that the model wrote after the fork
}

func branchOf(e int, ex *ttc.Example, f pairs.Fork, last int) branch {
	br := branch{example: e, ex: ex, walk: ex.Graph.Branch(last), from: len(ex.Graph.Branch(f.At))}
	return br.first(len(br.walk))
}

// first returns the branch up to the given number of model turns.
func (br branch) first(turns int) branch {
	out := branch{example: br.example, ex: br.ex, from: br.from}
	for i, n := range br.walk {
		node := &br.ex.Graph.Nodes[n]
		if i < br.from || node.Message.Role != "assistant" || node.Sampled == ttc.No && i > br.from {
			continue
		}
		if out.turns == turns {
			break
		}
		out.turns++
		out.length += textBytes(&node.Message)
		out.walk = br.walk[:i+1]
	}
	return out
}

// content returns the messages after the fork. An abandoned answer is written inline, because it isn't marked as
// sampled, although the model wrote it.
func (br branch) content() builders.Content {
	last := br.walk[len(br.walk)-1]
	if br.ex.Graph.Nodes[last].Sampled == ttc.No {
		return emit.Inline(br.ex.Graph.Nodes[last].Message)
	}
	return emit.Span(br.example, last, br.from)
}

func (br branch) policy() string {
	return cmp.Or(br.ex.Graph.Nodes[br.walk[br.from]].Policy, br.ex.Policy)
}

// pairRefusal returns the reason two branches can't be paired, if any.
func (b *Builder) pairRefusal(chosen, left branch) ledger.Reason {
	switch {
	case chosen.length == 0 || left.length == 0:
		return ledger.EmptyResponse
	case pairs.SameWalk(&chosen.ex.Graph, chosen.walk[chosen.from:], left.walk[left.from:]):
		return ledger.SameText
	}
	return b.tooLong(chosen.length, left.length)
}
