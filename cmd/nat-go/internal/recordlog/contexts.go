package recordlog

import (
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/history"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// contexts hashes the contexts of a group's records, hashing each distinct text once.
type contexts struct {
	hasher history.Hasher
	texts  []textHashes
	tools  []chat.Tool // the tools that were hashed last
	root   ttc.History // hash of tools
	known  bool        // whether tools and root are set
}

// textHashes holds the hashes of a passage's messages. For a plain text, it holds the hash of the text as a user
// message and the hash of the text as an assistant message.
type textHashes struct {
	messages        []history.Message
	user, assistant history.Message
	known           bool
}

// begin discards the text hashes of the last group.
func (c *contexts) begin() { c.texts, c.known = c.texts[:0], false }

// after returns the hash of a conversation that has tools but no messages yet.
func (c *contexts) after(tools []chat.Tool) ttc.History {
	if c.known && len(tools) == len(c.tools) && (len(tools) == 0 || &tools[0] == &c.tools[0]) {
		return c.root
	}
	c.root, c.tools, c.known = c.hasher.Tools(tools), tools, true
	return c.root
}

// of returns the hashes of the passage with index i in the group's text table.
func (c *contexts) of(ts texts, i int32) *textHashes {
	if n := len(ts) - len(c.texts); n > 0 {
		old := len(c.texts)
		c.texts = slices.Grow(c.texts, n)[:len(ts)]
		clear(c.texts[old:])
	}
	t := &c.texts[i]
	if t.known {
		return t
	}
	t.known = true
	p := &ts[i].passage
	if p.IsText() {
		t.user, t.assistant = c.hasher.Text("user", p.Text), c.hasher.Text("assistant", p.Text)
		return t
	}
	t.messages = make([]history.Message, len(p.Nodes))
	for n := range p.Nodes {
		t.messages[n] = c.hasher.Message(&p.Nodes[n].Message)
	}
	return t
}

// Contexts appends, for each turn that record i trains, a hash of the turn and everything that precedes it in the
// record. For a preference, the hashes of the turns on the chosen side precede the hashes of the turns on the rejected
// side. For a rollout, the first hash is the hash of the prompt, which is everything before the first sampled turn. For
// a state, the only hash covers the whole conversation.
func (g *Group) Contexts(i int, dst []ttc.History) []ttc.History {
	r, s, c := &g.Records[i], g.sides[i], &g.contexts
	root := c.after(r.Origin.Tools)
	if s.messages < 0 {
		if p := c.of(g.texts, s.prompt); r.Prompt.IsText() {
			root = history.Then(root, p.user)
		} else {
			for _, m := range p.messages {
				root = history.Then(root, m)
			}
		}
		dst = c.side(g.texts, s.chosen, root, dst)
		return c.side(g.texts, s.rejected, root, dst)
	}
	if r.Messages.IsText() {
		return dst
	}
	if r.Record.Kind() == builders.KindState { // a state's prompt is the whole conversation
		for _, m := range c.of(g.texts, s.messages).messages {
			root = history.Then(root, m)
		}
		return append(dst, root)
	}
	trains := trainedIn(r)
	prompt := r.Record.Kind() == builders.KindRollout
	for n, m := range c.of(g.texts, s.messages).messages {
		turn := isSampled(&r.Messages.Nodes[n])
		if turn && prompt {
			dst, prompt = append(dst, root), false
		}
		root = history.Then(root, m)
		if turn && (trains == nil || trains[n]) {
			dst = append(dst, root)
		}
	}
	return dst
}

// trainedIn returns, for each message in a demonstration, whether it is trained on. It returns nil for records of other
// kinds. In a rollout or a distillation, all sampled messages count as trained.
func trainedIn(r *builders.Resolved) []bool {
	d, ok := r.Record.(*builders.Demonstration)
	if !ok {
		return nil
	}
	return d.Train.Turns(r.Messages.Nodes, d.Trained)
}

// side appends the hashes of the assistant turns on one side of a preference.
func (c *contexts) side(ts texts, i int32, before ttc.History, dst []ttc.History) []ttc.History {
	h := c.of(ts, i)
	if ts[i].passage.IsText() {
		return append(dst, history.Then(before, h.assistant))
	}
	for n, m := range h.messages {
		before = history.Then(before, m)
		if ts[i].passage.Nodes[n].Message.Role == "assistant" {
			dst = append(dst, before)
		}
	}
	return dst
}

func isSampled(n *ttc.Node) bool { return n.Message.Role == "assistant" && n.Sampled != ttc.No }
