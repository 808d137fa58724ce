package claudecode

import (
	"slices"
	"strings"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
)

// rebuild sets a call's messages based on its parent chain, and its tools based on a logged request or a snapshot.
func (t *transcript) rebuild(a *answer, c *calls.Call) {
	c.Gaps |= ttc.RebuiltHistory
	var system calls.Walk
	if shape, ok := t.requests.shapeOf(a); ok {
		c.Tools = shape.tools
		if shape.system >= 0 {
			system = t.out.Extend(system, shape.system)
		}
	} else if a.prompt != "" {
		system = t.out.Extend(system, t.systemMessage(t.prefixes[a.prompt]+a.prompt))
	} else {
		c.Gaps |= ttc.NoSystem
	}
	if c.Tools == nil {
		c.Tools = t.toolsAt(a)
	}
	if c.Tools == nil {
		c.Gaps |= ttc.NoTools
	}
	c.After = t.historyOf(a, system).end()
}

// toolsAt returns the tools from the snapshot before an answer or, without one, from the first snapshot that
// contains tools, because a session's first snapshots contain only the system prompt.
func (t *transcript) toolsAt(a *answer) []chat.Tool {
	if a.tools != nil {
		return a.tools
	}
	if t.snapshots == nil {
		t.snapshots = map[place][]chat.Tool{}
		for _, other := range t.answers {
			if at := (place{other.agent, other.path}); t.snapshots[at] == nil {
				t.snapshots[at] = other.tools
			}
		}
	}
	if tools := t.snapshots[place{a.agent, a.path}]; tools != nil {
		return tools
	}
	if a.path == t.path {
		return t.tools
	}
	return nil
}

// place identifies the answers of one agent in one file.
type place struct{ agent, path string }

// walk returns a line's parent chain, first to last, without the line itself. If the chain contains the second
// argument, the result starts just after it. The walk stops at a cycle. whole reports whether the walk reached the
// second argument or, if that is nil, a line whose parent isn't in the session.
func (t *transcript) walk(of, from *record) (chain []*record, whole bool) {
	seen := map[*record]bool{of: true}
	rec := t.records[of.parent]
	for ; rec != nil && rec != from && !seen[rec]; rec = t.records[rec.parent] {
		seen[rec] = true
		chain = append(chain, rec)
	}
	t.out.Give(len(chain))
	slices.Reverse(chain)
	return chain, rec == from
}

// root returns the uuid of the first line of a chain.
func (t *transcript) root(of *record) string {
	var chain []*record
	seen := map[*record]bool{}
	for rec := of; rec != nil && !seen[rec]; rec = t.records[rec.parent] {
		seen[rec] = true
		of = rec
		if known, ok := t.roots[rec]; ok {
			of = known
			break
		}
		chain = append(chain, rec)
	}
	for _, rec := range chain {
		t.roots[rec] = of
	}
	return of.uuid
}

// history assembles a list of messages as Claude Code does. The lines of an answer form one message. The results of
// the answer's calls follow that message, whichever lines contain the results. Attachments go before the user's text
// or into the result that they follow. An answer's history usually extends the history of the previous answer.
type history struct {
	t        *transcript
	at       *record    // the last line; nil if there are none
	to       *answer    // the answer that the history belongs to
	met      bool       // the history's lines include the answer itself
	out      calls.Walk // the messages
	placed   map[*record]bool
	given    map[*answer]bool
	attached []string
	said     []calls.Ref
	boundary *record
}

// historyKey is the key under which a chain's latest history is stored.
type historyKey struct {
	agent  string
	system calls.Walk
}

// historyOf returns the history that led to an answer. It extends the previous answer's history if the chain continues
// from that answer.
func (t *transcript) historyOf(a *answer, system calls.Walk) *history {
	key := historyKey{a.agent, system}
	if h := t.histories[key]; h != nil && h.at != nil && !h.given[a] {
		if chain, whole := t.walk(a.first, h.at); whole && h.follow(chain, a) {
			return h
		}
		delete(t.histories, key)
	}
	h := &history{t: t, out: system, placed: map[*record]bool{}, given: map[*answer]bool{}}
	chain, whole := t.walk(a.first, nil)
	if h.follow(chain, a) && whole {
		t.histories[key] = h
	}
	return h
}

// follow adds the lines of a chain that leads to an answer. It returns false if the chain contains lines of the answer
// itself. This history omits those lines, but the histories of later answers include them, so later histories can't
// extend this one.
func (h *history) follow(chain []*record, to *answer) bool {
	h.to, h.met = to, false
	for _, rec := range chain {
		h.add(rec)
		h.at = rec
	}
	return !h.met
}

// end returns the messages so far, including pending ones, without changing the history.
func (h *history) end() calls.Walk {
	ended := *h
	ended.flush()
	return ended.out
}

func (h *history) add(rec *record) {
	switch {
	case h.placed[rec]:
	case rec.boundary:
		h.boundary = rec
		h.placed[rec] = true // a compaction may list itself as preserved
	case rec.answer != nil:
		h.answer(rec.answer)
	case len(rec.results) > 0 && len(rec.results) == len(rec.given):
		h.flush() // the results are for a call that isn't in the chain
		h.append(rec.results...)
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

// preserved inserts the messages that a compaction kept verbatim.
func (h *history) preserved() {
	boundary := h.boundary
	h.boundary = nil
	h.t.out.Give(len(boundary.preserved))
	for _, id := range boundary.preserved {
		if rec := h.t.records[id]; rec != nil {
			h.add(rec)
		}
	}
}

func (h *history) answer(a *answer) {
	if a == h.to {
		h.met = true
		return
	}
	if h.given[a] {
		return
	}
	h.given[a] = true
	h.flush()
	h.append(a.ref0)
	var results []*record
	for _, call := range h.t.out.At(a.ref0).ToolCalls {
		if h.t.out.Give(len(h.t.results[call.ID])); h.t.out.TooLarge() {
			return
		}
		for _, rec := range h.t.results[call.ID] {
			if !h.placed[rec] && rec.agent == a.agent {
				h.placed[rec] = true
				results = append(results, rec)
			}
		}
	}
	slices.SortFunc(results, func(x, y *record) int { return x.place - y.place })
	for _, rec := range results {
		h.append(rec.results...)
	}
}

// flush appends the messages collected from consecutive lines that are not the model's.
func (h *history) flush() {
	attached := strings.Join(h.attached, "\n")
	h.attached = nil
	if ref, before, ok := h.t.out.Last(h.out); ok && attached != "" && len(h.said) == 0 {
		last := h.t.out.At(ref)
		if text, ok := calls.Plain(&last.Message); ok && last.Role == "tool" {
			last.Form, last.Text, last.Parts = chat.Text, text+"\n\n"+attached, nil
			h.out = h.t.out.Extend(before, h.t.out.Message(last))
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
			h.append(ref)
			continue
		}
		texts = append(texts, text)
	}
	h.user(texts)
}

func (h *history) user(texts []string) {
	if texts != nil {
		h.append(h.t.out.Message(exchange.TextMessage("user", strings.Join(texts, "\n"))))
	}
}

func (h *history) append(refs ...calls.Ref) {
	h.out = h.t.out.Extend(h.out, refs...)
}
