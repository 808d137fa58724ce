package claudecode

import (
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/calls"
	"github.com/nat-go/nat-go/ttc/chat"
)

// rebuild gives a call the messages that its chain of parents says it had.
func (t *transcript) rebuild(a *answer, c *calls.Call) {
	c.Gaps |= ttc.RebuiltHistory
	if shape, ok := t.requests.shapeOf(a); ok {
		c.Tools = shape.tools
		if shape.system >= 0 {
			c.Input = append(c.Input, shape.system)
		}
	} else if a.prompt != "" {
		c.Input = append(c.Input, t.systemMessage(t.prefixes[a.prompt]+a.prompt))
	} else {
		c.Gaps |= ttc.NoSystem
	}
	if c.Tools == nil {
		c.Tools = a.tools
	}
	if c.Tools == nil {
		c.Tools = t.firstTools(a)
	}
	if c.Tools == nil {
		c.Gaps |= ttc.NoTools
	}
	h := history{t: t, placed: map[*record]bool{}, given: map[*answer]bool{a: true}}
	for _, rec := range t.walk(a.first) {
		h.add(rec)
	}
	h.flush()
	c.Input = append(c.Input, h.out...)
}

// firstTools are the tools that the next snapshot has: the first ones of a session have only the system prompt.
func (t *transcript) firstTools(a *answer) []chat.Tool {
	for _, other := range t.answers {
		if other.agent == a.agent && other.path == a.path && other.tools != nil {
			return other.tools
		}
	}
	if a.path == t.path {
		return t.tools
	}
	return nil
}

// walk is the chain of parents of a line, first to last, without the line. It ends where it would go round.
func (t *transcript) walk(of *record) []*record {
	seen := map[*record]bool{of: true}
	var out []*record
	for rec := t.records[of.parent]; rec != nil && !seen[rec]; rec = t.records[rec.parent] {
		seen[rec] = true
		out = append(out, rec)
	}
	slices.Reverse(out)
	return out
}

// root is the first line of a chain.
func (t *transcript) root(of *record) string {
	if chain := t.walk(of); len(chain) > 0 {
		return chain[0].uuid
	}
	return of.uuid
}

// history puts a list of messages together as Claude Code does: the lines of an answer are one message, the results of
// its calls follow it whichever line they hang from, attachments go before what the user says, or onto the result they
// follow.
type history struct {
	t        *transcript
	out      []calls.Ref
	placed   map[*record]bool
	given    map[*answer]bool
	attached []string
	said     []calls.Ref
	boundary *record
}

func (h *history) add(rec *record) {
	switch {
	case h.placed[rec]:
	case rec.boundary:
		h.boundary = rec
	case rec.answer != nil:
		h.answer(rec.answer)
	case rec.hasResults && len(rec.results) == len(rec.given):
		h.flush() // of a call that isn't in the chain
		h.out = append(h.out, rec.results...)
		h.placed[rec] = true
	case rec.attached != "":
		h.attached = append(h.attached, rec.attached)
	default:
		h.said = append(h.said, rec.given...)
	}
	if h.boundary != nil && rec.uuid == h.boundary.anchor {
		h.preserved()
	}
}

// preserved puts in what a compaction kept word for word.
func (h *history) preserved() {
	boundary := h.boundary
	h.boundary = nil
	for _, id := range boundary.preserved {
		if rec := h.t.records[id]; rec != nil {
			h.add(rec)
		}
	}
}

func (h *history) answer(a *answer) {
	if h.given[a] {
		return
	}
	h.given[a] = true
	h.flush()
	h.out = append(h.out, a.ref0)
	var results []*record
	for _, call := range h.t.out.At(a.ref0).ToolCalls {
		for _, rec := range h.t.results[call.ID] {
			if !h.placed[rec] && rec.agent == a.agent {
				h.placed[rec] = true
				results = append(results, rec)
			}
		}
	}
	slices.SortFunc(results, func(x, y *record) int { return x.place - y.place })
	for _, rec := range results {
		h.out = append(h.out, rec.results...)
	}
}

// flush ends a run of what isn't the model's.
func (h *history) flush() {
	attached := strings.Join(h.attached, "\n")
	h.attached = h.attached[:0]
	if attached != "" && len(h.said) == 0 && len(h.out) > 0 {
		last := h.t.out.At(h.out[len(h.out)-1])
		if text, ok := calls.Plain(&last.Message); ok && last.Role == "tool" {
			last.Form, last.Text, last.Parts = chat.Text, text+"\n\n"+attached, nil
			h.out[len(h.out)-1] = h.t.out.Message(last)
			return
		}
	}
	var texts []string
	if attached != "" {
		texts = append(texts, attached)
	}
	said := h.said
	h.said = nil
	for _, ref := range said {
		m := h.t.out.At(ref)
		text, ok := calls.Plain(&m.Message)
		if !ok || m.Role != "user" {
			h.user(texts)
			texts = nil
			h.out = append(h.out, ref)
			continue
		}
		texts = append(texts, text)
	}
	h.user(texts)
}

func (h *history) user(texts []string) {
	if texts != nil {
		h.out = append(
			h.out,
			h.t.out.Message(
				calls.Message{Message: chat.Message{Role: "user", Form: chat.Text, Text: strings.Join(texts, "\n")}},
			),
		)
	}
}
