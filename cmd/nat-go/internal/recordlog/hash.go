package recordlog

import (
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
)

// Hash is a 128-bit xxh3 hash. It distinguishes texts but does not withstand an attacker: an author of the input can
// make two of their own records look the same and so lose one of them, which is counted.
type Hash [16]byte

// Hashes identify records when curation compares them.
type Hashes struct {
	Content Hash // kind and all sides: equal for duplicates
	// Of a Preference; for other kinds, Prompt covers their messages before the first assistant turn.
	Prompt, Chosen, Rejected Hash
}

// Hashes returns the hashes of every record of the group, each distinct text hashed once. They are valid until the
// next call.
func (g *Group) Hashes() []Hashes {
	g.hashTexts()
	g.hashes = slices.Grow(g.hashes[:0], len(g.Records))[:len(g.Records)]
	var buf []byte
	for i := range g.hashes {
		h, s := &g.hashes[i], g.sides[i]
		*h = Hashes{Prompt: g.hashOf(s.prompt), Chosen: g.hashOf(s.chosen), Rejected: g.hashOf(s.rejected)}
		if s.messages >= 0 {
			h.Prompt = openingHash(g.Records[i].Messages)
		}
		buf = g.appendContent(buf[:0], i)
		h.Content = Hash(xxh3.Hash128(buf).Bytes())
	}
	return g.hashes
}

// Contents is like Hashes, but returns only the field Content of each. It is valid until the next call.
func (g *Group) Contents() []Hash {
	g.hashTexts()
	g.contents = slices.Grow(g.contents[:0], len(g.Records))[:len(g.Records)]
	var buf []byte
	for i := range g.contents {
		buf = g.appendContent(buf[:0], i)
		g.contents[i] = Hash(xxh3.Hash128(buf).Bytes())
	}
	return g.contents
}

func (g *Group) hashTexts() {
	for i := range g.texts {
		g.texts[i].hash = xxh3.Hash128(g.texts[i].raw).Bytes()
	}
}

// hashOf returns the hash of a text, or zero without one.
func (g *Group) hashOf(text int32) (h Hash) {
	if text >= 0 {
		h = g.texts[text].hash
	}
	return h
}

// appendContent appends the fields that the content hash of a record covers.
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

// appendOwn appends the fields besides the messages that identify a record of one of these kinds. Rollouts with the
// same content are still separate samples: how often a model says something matters for advantages. So a rollout is
// identified by its position.
func appendOwn(buf []byte, res *builders.Resolved) []byte {
	c := codec{buf: buf}
	switch r := res.Record.(type) {
	case *builders.Demonstration:
		c.buf = append(c.buf, policy(r))
		for i := range r.Trained {
			c.bool(&r.Trained[i])
		}
	case *builders.Rollout:
		if r.Reward != nil {
			c.float(r.Reward)
		}
		c.string(&r.Task)
		integer(&c, &res.Origin.Run)
		integer(&c, &res.Origin.Row)
		c.string(&res.Origin.Trial)
	case *builders.Distillation:
		for i := range r.Sites {
			c.site(&r.Sites[i])
		}
	}
	return c.buf
}

// openingHash hashes the messages before the first assistant turn, which the sides of a split must not share.
func openingHash(p builders.Passage) Hash {
	n := 0
	for n < len(p.Nodes) && p.Nodes[n].Message.Role != "assistant" {
		n++
	}
	var c codec
	c.passage(&builders.Passage{Text: p.Text, Nodes: p.Nodes[:n:n]})
	return Hash(xxh3.Hash128(c.buf).Bytes())
}
