package sft

import (
	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders/internal/emit"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// contentOf returns a hash of a choice's content, which is equal for choices with the same text.
func contentOf(g *ttc.Group, c *choice) xxh3.Uint128 {
	ex := g.Examples[c.example]
	h := xxh3.New()
	if c.candidate >= 0 {
		cand := &ex.Candidates[c.candidate]
		emit.HashTexts(h, cand.Output, cand.Prompt.Text)
		for i := range cand.Prompt.Messages {
			addMessage(h, &cand.Prompt.Messages[i])
		}
		return h.Sum128()
	}
	for i := range ex.Graph.Nodes {
		n := &ex.Graph.Nodes[i]
		emit.HashNumber(h, n.Parent)
		addMessage(h, &n.Message)
	}
	return h.Sum128()
}

// addMessage adds a message's content. It omits call ids, which differ from rollout to rollout.
func addMessage(h *xxh3.Hasher, m *chat.Message) {
	emit.HashTexts(h, m.Role, m.Reasoning, m.Text)
	emit.HashNumber(h, len(m.Parts))
	for _, p := range m.Parts {
		emit.HashTexts(h, p.Type, p.Text, string(p.Raw))
	}
	emit.HashNumber(h, len(m.ToolCalls))
	for i := range m.ToolCalls {
		emit.HashTexts(h, m.ToolCalls[i].Name, m.ToolCalls[i].Arguments)
	}
}
