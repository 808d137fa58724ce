package sft

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// contentOf returns a hash of a choice's content, which is equal for choices with the same text.
func contentOf(g *ttc.Group, c *choice) xxh3.Uint128 {
	ex := g.Examples[c.example]
	h := xxh3.New128()
	if c.candidate >= 0 {
		cand := &ex.Candidates[c.candidate]
		addText(h, cand.Output)
		addText(h, cand.Prompt.Text)
		for i := range cand.Prompt.Messages {
			addMessage(h, &cand.Prompt.Messages[i])
		}
		return h.Sum128()
	}
	for i := range ex.Graph.Nodes {
		n := &ex.Graph.Nodes[i]
		addNumber(h, n.Parent)
		addMessage(h, &n.Message)
	}
	return h.Sum128()
}

// addMessage adds a message's content. It omits call ids, which differ from rollout to rollout.
func addMessage(h *xxh3.Hasher128, m *chat.Message) {
	addText(h, m.Role)
	addText(h, m.Reasoning)
	addText(h, m.Text)
	addNumber(h, len(m.Parts))
	for _, p := range m.Parts {
		addText(h, p.Type)
		addText(h, p.Text)
		addText(h, string(p.Raw))
	}
	addNumber(h, len(m.ToolCalls))
	for i := range m.ToolCalls {
		addText(h, m.ToolCalls[i].Name)
		addText(h, m.ToolCalls[i].Arguments)
	}
}

func addText(h *xxh3.Hasher128, text string) {
	addNumber(h, len(text))
	h.WriteString(text)
}

func addNumber(h *xxh3.Hasher128, n int) {
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(n)))
}
