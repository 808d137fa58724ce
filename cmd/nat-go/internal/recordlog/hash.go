package recordlog

import (
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
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
			var c codec
			c.passage(&builders.Passage{Text: p.Text, Nodes: p.Nodes[:n:n]})
			h.Prompt = Hash(xxh3.Hash128(c.buf).Bytes())
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
	var c codec
	for i := range g.contents {
		c.buf = g.appendContent(c.buf[:0], i)
		h := Hash(xxh3.Hash128(c.buf).Bytes())
		if rec := &g.Records[i]; rec.Record.Kind() == builders.KindRollout {
			same := sameRollout{h, rec.Origin.Builder}
			if n := times[same]; n > 0 {
				integer(&c, &n)
				h = Hash(xxh3.Hash128(c.buf).Bytes())
			}
			times[same]++
		}
		g.contents[i] = h
	}
	return g.contents
}

// sameRollout identifies the rollouts that one builder made from one example and that say the same, such as equal
// answers among its candidates. The second and later ones are hashed with their number, so that no rollout counts as
// a duplicate of another. Rollouts of different builders get the same numbers, because they are the same samples.
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
// content are still separate samples, because advantages depend on how often a model says something. So these fields
// include the position of a rollout's example in the inputs; see sameRollout for rollouts of the same example.
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
