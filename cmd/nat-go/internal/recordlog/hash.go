package recordlog

import (
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/coder"
	"github.com/nat-go/nat-go/internal/history"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// Hash is a 128-bit xxh3 hash. It isn't cryptographic, so the author of an input can make two of its records look the
// same. If curation removes duplicates, it drops and counts one of the two.
type Hash [16]byte

// Hashes holds the hashes by which curation compares a record with others.
type Hashes struct {
	Content Hash // hash that is equal for duplicate records; see appendContent
	// Hashes of the sides of a Preference. For other kinds, Prompt covers the messages before the first assistant turn,
	// and the other hashes are zero.
	Prompt, Chosen, Rejected Hash
}

// Hashes returns the hashes of every record in the group, hashing each distinct text once. They are valid until the
// next call.
func (g *Group) Hashes() []Hashes {
	contents := g.Contents()
	g.hashes = slices.Grow(g.hashes[:0], len(g.Records))[:len(g.Records)]
	for i := range g.hashes {
		h, s := &g.hashes[i], g.sides[i]
		*h = Hashes{
			Content: contents[i],
			Prompt:  g.hashOf(s.prompt), Chosen: g.hashOf(s.chosen), Rejected: g.hashOf(s.rejected),
		}
		if s.messages >= 0 {
			// The training and validation sets must not share the messages before the first assistant turn.
			p, n := g.Records[i].Messages, 0
			for n < len(p.Nodes) && p.Nodes[n].Message.Role != "assistant" {
				n++
			}
			var c coder.Coder
			passage(&c, &builders.Passage{Text: p.Text, Nodes: p.Nodes[:n:n]})
			h.Prompt = Hash(xxh3.Hash128(c.Buf).Bytes())
		}
	}
	return g.hashes
}

// Contents is like Hashes, but returns only the Content hashes.
func (g *Group) Contents() []Hash {
	for i := range g.texts {
		g.texts[i].hash = xxh3.Hash128(g.texts[i].raw).Bytes()
	}
	g.contents = slices.Grow(g.contents[:0], len(g.Records))[:len(g.Records)]
	times := map[sameRollout]int{}
	var c coder.Coder
	for i := range g.contents {
		c.Buf = g.appendContent(c.Buf[:0], i)
		h := Hash(xxh3.Hash128(c.Buf).Bytes())
		if rec := &g.Records[i]; rec.Record.Kind() == builders.KindRollout {
			same := sameRollout{h, rec.Origin.Builder}
			if n := times[same]; n > 0 {
				coder.Integer(&c, &n)
				h = Hash(xxh3.Hash128(c.Buf).Bytes())
			}
			times[same]++
		}
		g.contents[i] = h
	}
	return g.contents
}

// sameRollout identifies rollouts with the same content that one builder made from one example, such as equal answers
// among its candidates. The second and later ones are hashed with their number, so that no rollout counts as a
// duplicate of another. Rollouts of different builders get the same numbers, because they are the same samples.
type sameRollout struct {
	content Hash
	builder string
}

// hashOf returns the hash of a text, or zero if the index is negative.
func (g *Group) hashOf(text int32) (h Hash) {
	if text >= 0 {
		h = g.texts[text].hash
	}
	return h
}

// appendContent appends the input for a record's content hash. That input consists of the record's kind, the hashes of
// its passages and, for kinds with messages, the fields that appendOwn appends.
func (g *Group) appendContent(buf []byte, i int) []byte {
	r, s := &g.Records[i], g.sides[i]
	buf = append(buf, byte(r.Record.Kind()))
	if s.messages >= 0 {
		return appendOwn(append(buf, g.texts[s.messages].hash[:]...), r)
	}
	for _, side := range [...]int32{s.prompt, s.chosen, s.rejected} {
		h := g.hashOf(side)
		buf = append(buf, h[:]...)
	}
	return buf
}

// appendOwn appends the fields that distinguish records of the same kind with the same messages. Rollouts with the same
// content are still separate samples, because advantages depend on how often a model gives an answer. Therefore, these
// fields include the position of a rollout's example in the inputs; see sameRollout for rollouts of the same example.
func appendOwn(buf []byte, res *builders.Resolved) []byte {
	c := coder.Coder{Buf: buf}
	switch r := res.Record.(type) {
	case *builders.Demonstration:
		c.Buf = append(c.Buf, policy(r))
		for i := range r.Trained {
			c.Bool(&r.Trained[i])
		}
	case *builders.Rollout:
		if r.Reward != nil {
			c.Float(r.Reward)
		}
		c.String(&r.Task)
		coder.Integer(&c, &res.Origin.Run)
		coder.Integer(&c, &res.Origin.Row)
		c.String(&res.Origin.Trial)
	case *builders.Distillation:
		for i := range r.Sites {
			site(&c, &r.Sites[i])
		}
	}
	return c.Buf
}

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
