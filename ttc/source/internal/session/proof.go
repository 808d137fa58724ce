package session

import (
	"cmp"
	"slices"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// maxProofBytes limits the total size of the prompts that are checked for one example, because each call's prompt is
// rendered in full. Claims for additional calls aren't checked.
const maxProofBytes = 16 << 20

// check checks the claims for an example's answers. A refuted claim lowers the fidelity of both the answer and the
// example.
func (s *Source) check(ex *calls.Example) {
	room := maxProofBytes
	proven := ^ttc.Proofs(0)
	for i := range ex.Answers {
		a := &ex.Answers[i]
		if a.Fidelity == ttc.Partial { // Partial is the lowest fidelity
			proven = 0
			continue
		}
		claim := claimOf(ex, a)
		if room -= size(claim); room < 0 {
			proven = 0
			continue
		}
		p, refuted := s.prove(claim)
		if proven &= p; p != 0 {
			s.tally.S.Prove(p)
		}
		if refuted != 0 {
			a.Gaps |= refuted
			a.Fidelity = ttc.Partial
			ex.Gaps |= refuted
			ex.Fidelity = ttc.Partial
		}
	}
	if len(ex.Answers) > 0 {
		ex.Proofs = proven & (ttc.PromptProven | ttc.IDsProven)
	}
}

// claimOf returns the claim for an answer.
func claimOf(ex *calls.Example, a *calls.Answer) *source.Claim {
	nodes := ex.Graph.Nodes
	n := &nodes[a.Node]
	c := &source.Claim{
		Model: n.Policy, Tools: ex.Tools, PromptTokens: a.PromptTokens, Answer: &n.Message, IDs: n.TokenIDs,
	}
	c.Model = cmp.Or(c.Model, ex.Policy)
	if a.PromptTokens > 0 {
		for at := n.Parent; at >= 0; at = nodes[at].Parent {
			c.Given = append(c.Given, nodes[at].Message)
		}
		slices.Reverse(c.Given)
	}
	return c
}

// size returns the number of bytes of text in a claim's prompt.
func size(c *source.Claim) (n int) {
	for i := range c.Given {
		m := &c.Given[i]
		n += len(m.Text) + len(m.Reasoning)
		for k := range m.Parts {
			n += len(m.Parts[k].Raw)
		}
		for k := range m.ToolCalls {
			n += len(m.ToolCalls[k].Arguments)
		}
	}
	return n
}
