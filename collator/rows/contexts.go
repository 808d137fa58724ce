package rows

import (
	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/history"
	"github.com/nat-go/nat-go/ttc"
)

// Contexts appends a hash for each trained turn, in row order. The hash covers the turn and everything before it in the
// row. For a preference, the chosen side comes first. For a prompt to be sampled from, there is a single hash. The
// row's format must preserve the whole input when read back (see Whole).
func (r *Row) Contexts(h *history.Hasher, dst []ttc.History) []ttc.History {
	at := h.Tools(r.Tools)
	if r.Kind == builders.KindRollout || r.Kind == builders.KindState {
		at, _ = walk(h, at, r.Prompt, "user", false, nil)
		return append(dst, at)
	}
	if r.Trained != nil {
		for i := range r.Trained {
			n := &r.Completion.Nodes[0]
			if i < len(r.Prompt.Nodes) {
				n = &r.Prompt.Nodes[i]
			}
			if at = h.Add(at, &n.Message); r.Trained[i] {
				dst = append(dst, at)
			}
		}
		return dst
	}
	at, dst = walk(h, at, r.Prompt, "user", r.WholePrompt, dst)
	if r.Kind == builders.KindPreference && r.Label == nil {
		_, dst = walk(h, at, r.Chosen, "assistant", true, dst)
		_, dst = walk(h, at, r.Rejected, "assistant", true, dst)
		return dst
	}
	_, dst = walk(h, at, r.Completion, "assistant", true, dst)
	return dst
}

// walk extends a hash with a passage, treating plain text as a message with the given role. If trained is set, it
// appends the hash after each assistant turn.
func walk(
	h *history.Hasher, at ttc.History, p builders.Passage, role string, trained bool, dst []ttc.History,
) (ttc.History, []ttc.History) {
	if p.IsText() {
		if at = history.Then(at, h.Text(role, p.Text)); trained && role == "assistant" {
			dst = append(dst, at)
		}
		return at, dst
	}
	for i := range p.Nodes {
		m := &p.Nodes[i].Message
		if at = h.Add(at, m); trained && m.Role == "assistant" {
			dst = append(dst, at)
		}
	}
	return at, dst
}
