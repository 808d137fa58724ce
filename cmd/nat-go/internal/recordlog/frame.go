package recordlog

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// decode decodes a payload. The group's text table, records and strings share the payload's memory.
func (g *Group) decode(payload []byte, most Large) error {
	room := listsIn(int64(len(payload)), most)
	return (&codec{buf: payload, reading: true, room: &room}).group(g)
}

// read reads a frame into g, from a log of which at most left bytes remain. It returns the frame's size.
func (g *Group) read(in io.Reader, most Large, left int64) (size int64, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, short(err)
	}
	n := binary.LittleEndian.Uint64(head[:])
	if err := most.checkFrame(n, left); err != nil {
		return 0, err
	}
	g.frame = slices.Grow(g.frame[:0], int(n)+frameTail)[:n+frameTail]
	if _, err := io.ReadFull(in, g.frame); err != nil {
		return 0, short(err)
	}
	payload, sum := g.frame[:n], g.frame[n:]
	if xxh3.Hash(payload) != binary.LittleEndian.Uint64(sum) {
		return 0, errors.New("invalid checksum of a frame")
	}
	return int64(n) + frameHead + frameTail, g.decode(payload, most)
}

// short returns errShort for the end of a file, and any other error unchanged.
func short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errShort
	}
	return err
}

// group codes the payload of a group's frame.
func (c *codec) group(g *Group) error {
	c.turn, c.score = "", ""
	c.string(&g.Key)
	c.origins(g)
	for _, part := range [...]func(*codec, *Group) error{
		(*codec).texts, (*codec).records, (*codec).books, (*codec).changes,
	} {
		if err := part(c, g); err != nil {
			return err
		}
	}
	if c.reading && c.err == nil && c.left() > 0 {
		return fmt.Errorf("%d unread bytes after the group", c.left())
	}
	return c.err
}

func (c *codec) origins(g *Group) {
	if c.reading {
		for i := range reused(c, &g.origins) {
			g.origins[i] = builders.Origin{}
			c.origin(&g.origins[i])
		}
		return
	}
	if c.number == nil {
		c.number = map[*builders.Origin]uint64{}
	}
	clear(c.number)
	c.used = c.used[:0]
	for i := range g.Records {
		o := g.Records[i].Origin
		if _, ok := c.number[o]; !ok {
			c.number[o] = uint64(len(c.used))
			c.used = append(c.used, o)
		}
	}
	length[builders.Origin](c, len(c.used))
	for _, o := range c.used {
		c.origin(o)
	}
}

// maxCounted is larger than any count in a group's accounts, and small enough that sums of counts don't overflow.
const maxCounted = 1 << 48

// maxRuns bounds the number of inputs, each of which takes memory.
const maxRuns = 1 << 20

// Bits for the optional fields of an origin.
const (
	knownSampling = 1 << iota
	knownTopK
	knownTruth = 1 << 6
)

// The positions of gaps and proofs in an origin's two flag bytes. The lowest gaps share a byte with the fidelity. The
// other gaps and the proofs share a byte with the bits for optional fields.
const (
	gapsShift     = 2
	gapsInFirst   = 6
	proofsShift   = 2
	proofsMask    = 3
	moreGapsShift = 4
	moreGapsMask  = 3
)

func knownFields(o *builders.Origin) (what byte) {
	if o.Sampling != nil {
		what |= knownSampling
	}
	if o.TeacherTopK != nil {
		what |= knownTopK
	}
	if o.Truth != nil {
		what |= knownTruth
	}
	return what | byte(o.Proofs)<<proofsShift | byte(o.Gaps>>gapsInFirst)<<moreGapsShift
}

func (c *codec) origin(o *builders.Origin) {
	integer(c, &o.Run)
	integer(c, &o.Row)
	for _, s := range [...]*string{&o.Example, &o.Task, &o.Trial, &o.File} {
		c.string(s)
	}
	integer(c, &o.Offset)
	c.string(&o.Policy)
	first, what := byte(o.Fidelity)|byte(o.Gaps)<<gapsShift, knownFields(o)
	octet(c, &first)
	if octet(c, &what); c.reading {
		if o.Run < 0 || o.Run >= maxRuns || o.Row < 0 {
			c.err = fmt.Errorf("invalid example: row %d of input %d", o.Row, o.Run)
		}
		o.Fidelity = ttc.Fidelity(first & (1<<gapsShift - 1))
		o.Gaps = ttc.Gaps(first>>gapsShift) | ttc.Gaps(what>>moreGapsShift&moreGapsMask)<<gapsInFirst
		o.Proofs = ttc.Proofs(what >> proofsShift & proofsMask)
		if what&knownSampling != 0 {
			o.Sampling = new(ttc.Sampling)
		}
		if what&knownTopK != 0 {
			o.TeacherTopK = new(int)
		}
	}
	if s := o.Sampling; s != nil {
		c.float(&s.Temperature)
		c.float(&s.TopP)
		c.bool(&s.Processed)
	}
	if o.TeacherTopK != nil {
		integer(c, o.TeacherTopK)
	}
	if what&knownTruth != 0 {
		raw(c, &o.Truth)
	}
	tools := list(c, &o.Tools)
	for i := range tools {
		c.string(&tools[i].Name)
		raw(c, &tools[i].Raw)
	}
	c.string(&o.Builder)
}

// texts codes the text table. Each entry is written as text.raw, from which the entry's hash is also computed.
func (c *codec) texts(g *Group) error {
	for i := range reused(c, (*[]text)(&g.texts)) {
		t := &g.texts[i]
		if !c.reading {
			c.lists += t.lists
			c.append(uint64(len(t.raw)))
			c.buf = append(c.buf, t.raw...)
			continue
		}
		*t = text{raw: c.take(c.next())}
		of, before := codec{buf: t.raw, reading: true, room: c.room}, *c.room
		of.passage(&t.passage)
		if t.lists = before - *c.room; of.err != nil {
			return of.err
		}
	}
	return nil
}

// preferenceRecord has the in-memory size of a preference, the most common kind of record. length uses it for records.
type preferenceRecord struct {
	_ builders.Preference
	_ builders.Resolved
	_ sides
}

func (c *codec) records(g *Group) error {
	if n := length[preferenceRecord](c, len(g.Records)); c.reading {
		g.Records = slices.Grow(g.Records[:0], n)[:n]
		g.sides = slices.Grow(g.sides[:0], n)[:n]
		g.prefs = slices.Grow(g.prefs[:0], n)
		g.contexts.begin()
	}
	for i := range g.Records {
		r := &g.Records[i]
		at := c.number[r.Origin]
		if natural(c, &at); c.reading && at >= uint64(len(g.origins)) {
			return fmt.Errorf("record %d: unknown origin %d: the group has %d origins", i, at, len(g.origins))
		}
		if err := c.record(g, i); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
		if c.reading {
			r.Origin, r.Changes = &g.origins[at], nil
			g.texts.fill(r, g.sides[i])
		}
	}
	return nil
}

// A record's kind and edits share a byte.
const (
	editsShift = 4
	kindMask   = 1<<editsShift - 1
)

func (c *codec) record(g *Group, i int) error {
	var h builders.Head
	var what byte
	if !c.reading {
		r := g.Records[i].Record
		h = *r.Header()
		what = byte(r.Kind()) | byte(h.Edits)<<editsShift
	}
	octet(c, &what)
	natural(c, &h.Example)
	c.same(&h.Turn, &c.turn)
	raw(c, &h.Metadata)
	if c.reading {
		h.Edits = builders.Edits(what >> editsShift)
		r := g.newRecord(builders.Kind(what & kindMask))
		if r == nil {
			return fmt.Errorf("unknown kind %d", what&kindMask)
		}
		*r.Header() = h
		g.Records[i].Record, g.sides[i] = r, sides{-1, -1, -1, -1}
	}
	c.body(g.Records[i].Record, &g.sides[i], len(g.texts))
	return c.err
}

// newRecord returns an empty record, or nil if the kind is unknown. Preferences, by far the most common kind, share one
// allocation per group.
func (g *Group) newRecord(kind builders.Kind) builders.Record {
	switch kind {
	case builders.KindPreference:
		g.prefs = append(g.prefs, builders.Preference{})
		return &g.prefs[len(g.prefs)-1]
	case builders.KindDemonstration:
		return &builders.Demonstration{}
	case builders.KindRollout:
		return &builders.Rollout{}
	case builders.KindDistillation:
		return &builders.Distillation{}
	case builders.KindState:
		return &builders.State{}
	}
	return nil
}

// body codes the part of a record after the head, by kind. texts is the size of the group's text table.
func (c *codec) body(r builders.Record, s *sides, texts int) {
	switch r := r.(type) {
	case *builders.Preference:
		for _, side := range [...]*int32{&s.prompt, &s.chosen, &s.rejected} {
			c.side(side, texts)
		}
		c.float(&r.Reward)
		c.same(&r.ScoreName, &c.score)
		c.float(&r.ChosenScore)
		c.float(&r.RejectedScore)
		integer(c, &r.ChosenIndex)
		integer(c, &r.RejectedIndex)
		c.string(&r.ChosenPolicy)
		c.string(&r.RejectedPolicy)
	case *builders.Demonstration:
		c.side(&s.messages, texts)
		what := policy(r)
		if octet(c, &what); c.reading {
			r.Train, r.MaskReasoning = builders.Train(what&^maskReasoning), what&maskReasoning != 0
		}
		for i := range list(c, &r.Trained) {
			c.bool(&r.Trained[i])
		}
		c.float(&r.Weight)
		c.floatPtr(&r.Score)
	case *builders.Rollout:
		c.side(&s.messages, texts)
		c.floatPtr(&r.Reward)
		c.string(&r.Task)
	case *builders.Distillation:
		c.side(&s.messages, texts)
		for i := range notNil(c, &r.Sites) {
			c.site(&r.Sites[i])
		}
	case *builders.State:
		c.side(&s.messages, texts)
		c.string(&r.Task)
	}
}

// side codes a text's index, which must be less than texts.
func (c *codec) side(i *int32, texts int) {
	if natural(c, i); c.reading && (*i < 0 || int(*i) >= texts) {
		c.fail()
	}
}

// maskReasoning is the bit for masked reasoning in a demonstration's loss policy.
const maskReasoning = 1 << 7

// policy returns a demonstration's loss policy as one byte.
func policy(d *builders.Demonstration) byte {
	if d.MaskReasoning {
		return byte(d.Train) | maskReasoning
	}
	return byte(d.Train)
}

func (c *codec) site(s *builders.Site) {
	for _, n := range [...]*int{&s.Call, &s.CallSeq, &s.Result} {
		integer(c, n)
	}
	octet(c, &s.Target)
	for _, text := range [...]*string{&s.Tool, &s.Error, &s.Hint, &s.HintSource} {
		c.string(text)
	}
	octet(c, &s.HintKind)
}

// books codes the group's drops, accounts and counts.
func (c *codec) books(g *Group) error {
	for i := range list(c, &g.Drops) {
		if err := c.drop(&g.Drops[i]); err != nil {
			return fmt.Errorf("drop %d: %w", i, err)
		}
	}
	for i := range reused(c, &g.Accounts) {
		a := &g.Accounts[i]
		c.kept((*string)(&a.Stage))
		c.kept(&a.Unit)
		integer(c, &a.In)
		integer(c, &a.Out)
		if c.reading && (a.In < 0 || a.Out < 0 || a.In > maxCounted || a.Out > maxCounted) {
			return fmt.Errorf("invalid account: %d in and %d out", a.In, a.Out)
		}
	}
	for i := range reused(c, &g.Counts) {
		n := &g.Counts[i]
		c.kept(&n.Builder)
		c.kept(&n.Name)
		integer(c, &n.N)
	}
	return nil
}

func (c *codec) drop(d *ledger.Drop) (err error) {
	var line []byte
	if !c.reading {
		line, err = json.Marshal(d)
	}
	if raw(c, &line); err != nil || !c.reading || c.err != nil {
		return err
	}
	if err := json.Unmarshal(line, d); err != nil {
		return err
	}
	if d.Run < 0 || d.Run >= maxRuns || d.Count < 0 || d.Count > maxCounted {
		return fmt.Errorf("invalid drop: %d items of input %d", d.Count, d.Run)
	}
	return nil
}

// change is a changed context in one of the group's records.
type change struct {
	record int
	builders.Change
}

func (c *codec) change(x *change) {
	natural(c, &x.record)
	natural(c, &x.Turn)
	octet(c, &x.By)
	natural(c, &x.Was)
}

// changes codes the contexts that differ from the recorded ones. If none do, as is usual, it writes nothing.
func (c *codec) changes(g *Group) error {
	var all []change
	if !c.reading {
		for i := range g.Records {
			for _, x := range g.Records[i].Changes {
				all = append(all, change{i, x})
			}
		}
	}
	if c.err != nil || c.reading && c.left() == 0 || !c.reading && all == nil {
		return c.err
	}
	for i := range list(c, &all) {
		x := &all[i]
		if c.change(x); !c.reading {
			continue
		}
		if x.record < 0 || x.record >= len(g.Records) || x.Turn < 0 {
			return fmt.Errorf("invalid context change in record %d of %d", x.record, len(g.Records))
		}
		to := &g.Records[x.record].Changes
		*to = append(*to, x.Change)
	}
	return c.err
}
