package recordlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/coder"
	"github.com/nat-go/nat-go/ttc"
)

// codec writes a group's values to a frame or reads them from one.
type codec struct {
	coder.Coder

	// The last record's turn name and score name. Adjacent records usually have the same names, and repeating the names
	// would take up a fifth of the log.
	turn, score string

	// The group's origins, in order of first use, and their numbers. Used only when writing.
	used   []*builders.Origin
	number map[*builders.Origin]uint64
}

// roomPerByte is the maximum memory that a frame's lists may take, per byte of the frame. In a run's frames, a node or
// a preference with only its scores takes the most memory, about thirty times its encoded size.
const roomPerByte = 64

// listsIn returns how much memory the lists of a frame of n bytes may take.
func listsIn(n int64, most Large) int64 { return min(most.Lists, n*roomPerByte) }

// decode decodes a payload. The group's text table, records and strings share the payload's memory.
func (g *Group) decode(payload []byte, most Large) error {
	room := listsIn(int64(len(payload)), most)
	return (&codec{Coder: coder.Reader(payload, &room)}).group(g)
}

// read reads a frame into g, from a log with at most left remaining bytes. It returns the frame's size.
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

// short returns coder.ErrShort for the end of a file, and any other error unchanged.
func short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return coder.ErrShort
	}
	return err
}

// group codes the payload of a group's frame.
func (c *codec) group(g *Group) error {
	c.turn, c.score = "", ""
	c.String(&g.Key)
	c.origins(g)
	for _, part := range [...]func(*codec, *Group) error{
		(*codec).texts, (*codec).records, (*codec).books, (*codec).changes,
	} {
		if err := part(c, g); err != nil {
			return err
		}
	}
	if c.Reading && c.Err == nil && c.Left() > 0 {
		return fmt.Errorf("%d unread bytes after the group", c.Left())
	}
	return c.Err
}

func (c *codec) origins(g *Group) {
	if c.Reading {
		for i := range coder.Reused(&c.Coder, &g.origins) {
			g.origins[i] = builders.Origin{}
			origin(&c.Coder, &g.origins[i])
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
	coder.Length[builders.Origin](&c.Coder, len(c.used))
	for _, o := range c.used {
		origin(&c.Coder, o)
	}
}

// maxCounted is larger than any count in a group's accounts, and small enough that sums of counts don't overflow.
const maxCounted = 1 << 48

// maxRuns is the maximum number of inputs. It bounds memory use, because each input takes memory.
const maxRuns = 1 << 20

func origin(c *coder.Coder, o *builders.Origin) {
	coder.Integer(c, &o.Run)
	coder.Integer(c, &o.Row)
	for _, s := range [...]*string{&o.Example, &o.Task, &o.Trial, &o.File, &o.Policy, &o.Builder} {
		c.String(s)
	}
	coder.Integer(c, &o.Offset)
	coder.Octet(c, &o.Fidelity)
	coder.Octet(c, &o.Gaps)
	coder.Octet(c, &o.Proofs)
	if coder.Optional(c, &o.Sampling) {
		c.Float(&o.Sampling.Temperature)
		c.Float(&o.Sampling.TopP)
		c.Bool(&o.Sampling.Processed)
	}
	if coder.Optional(c, &o.TeacherTopK) {
		coder.Integer(c, o.TeacherTopK)
	}
	value(c, &o.Truth)
	tools := coder.List(c, &o.Tools)
	for i := range tools {
		c.String(&tools[i].Name)
		value(c, &tools[i].Raw)
	}
	if c.Reading && c.Err == nil && (o.Run < 0 || o.Run >= maxRuns || o.Row < 0 || o.Fidelity > ttc.IDsLogProbs) {
		c.Err = fmt.Errorf("invalid example: row %d of input %d, fidelity %d", o.Row, o.Run, o.Fidelity)
	}
}

// texts codes the text table. Each entry is written as text.raw, from which the entry's hash is also computed.
func (c *codec) texts(g *Group) error {
	for i := range coder.Reused(&c.Coder, (*[]text)(&g.texts)) {
		t := &g.texts[i]
		if !c.Reading {
			c.Lists += t.lists
			c.Append(uint64(len(t.raw)))
			c.Buf = append(c.Buf, t.raw...)
			continue
		}
		*t = text{raw: c.Take(c.Next())}
		of, before := coder.Reader(t.raw, c.Room), *c.Room
		passage(&of, &t.passage)
		if t.lists = before - *c.Room; of.Err != nil {
			return of.Err
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
	if n := coder.Length[preferenceRecord](&c.Coder, len(g.Records)); c.Reading {
		g.Records = slices.Grow(g.Records[:0], n)[:n]
		g.sides = slices.Grow(g.sides[:0], n)[:n]
		g.prefs = slices.Grow(g.prefs[:0], n)
		g.contexts.begin()
	}
	for i := range g.Records {
		r := &g.Records[i]
		at := c.number[r.Origin]
		if coder.Natural(&c.Coder, &at); c.Reading && at >= uint64(len(g.origins)) {
			return fmt.Errorf("record %d: unknown origin %d: the group has %d origins", i, at, len(g.origins))
		}
		if err := c.record(g, i); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
		if c.Reading {
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
	if !c.Reading {
		r := g.Records[i].Record
		h = *r.Header()
		what = byte(r.Kind()) | byte(h.Edits)<<editsShift
	}
	coder.Octet(&c.Coder, &what)
	coder.Natural(&c.Coder, &h.Example)
	c.Same(&h.Turn, &c.turn)
	value(&c.Coder, &h.Metadata)
	if c.Reading {
		h.Edits = builders.Edits(what >> editsShift)
		r := g.newRecord(builders.Kind(what & kindMask))
		if r == nil {
			return fmt.Errorf("unknown kind %d", what&kindMask)
		}
		*r.Header() = h
		g.Records[i].Record, g.sides[i] = r, sides{-1, -1, -1, -1}
	}
	c.body(g.Records[i].Record, &g.sides[i], len(g.texts))
	return c.Err
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
		for _, i := range [...]*int32{&s.prompt, &s.chosen, &s.rejected} {
			side(&c.Coder, i, texts)
		}
		c.Float(&r.Reward)
		c.Same(&r.ScoreName, &c.score)
		c.Float(&r.ChosenScore)
		c.Float(&r.RejectedScore)
		coder.Integer(&c.Coder, &r.ChosenIndex)
		coder.Integer(&c.Coder, &r.RejectedIndex)
		c.String(&r.ChosenPolicy)
		c.String(&r.RejectedPolicy)
	case *builders.Demonstration:
		side(&c.Coder, &s.messages, texts)
		what := policy(r)
		if coder.Octet(&c.Coder, &what); c.Reading {
			r.Train, r.MaskReasoning = builders.Train(what&^maskReasoning), what&maskReasoning != 0
		}
		for i := range coder.List(&c.Coder, &r.Trained) {
			c.Bool(&r.Trained[i])
		}
		c.Float(&r.Weight)
		if coder.Optional(&c.Coder, &r.Score) {
			c.Float(r.Score)
		}
	case *builders.Rollout:
		side(&c.Coder, &s.messages, texts)
		if coder.Optional(&c.Coder, &r.Reward) {
			c.Float(r.Reward)
		}
		c.String(&r.Task)
	case *builders.Distillation:
		side(&c.Coder, &s.messages, texts)
		for i := range coder.NotNil(&c.Coder, &r.Sites) {
			site(&c.Coder, &r.Sites[i])
		}
	case *builders.State:
		side(&c.Coder, &s.messages, texts)
		c.String(&r.Task)
	}
}

// side codes a text's index, which must be less than texts.
func side(c *coder.Coder, i *int32, texts int) {
	if coder.Natural(c, i); c.Reading && (*i < 0 || int(*i) >= texts) {
		c.Fail()
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

func site(c *coder.Coder, s *builders.Site) {
	for _, n := range [...]*int{&s.Call, &s.CallSeq, &s.Result} {
		coder.Integer(c, n)
	}
	coder.Octet(c, &s.Target)
	for _, text := range [...]*string{&s.Tool, &s.Error, &s.Hint, &s.HintSource} {
		c.String(text)
	}
	coder.Octet(c, &s.HintKind)
}

// books codes the group's drops, accounts and counts.
func (c *codec) books(g *Group) error {
	for i := range coder.List(&c.Coder, &g.Drops) {
		d := &g.Drops[i]
		c.JSON(d)
		if c.Reading && c.Err == nil && (d.Run < 0 || d.Run >= maxRuns || d.Count < 0 || d.Count > maxCounted) {
			c.Err = fmt.Errorf("invalid drop: %d items of input %d", d.Count, d.Run)
		}
		if c.Err != nil {
			return fmt.Errorf("drop %d: %w", i, c.Err)
		}
	}
	for i := range coder.Reused(&c.Coder, &g.Accounts) {
		a := &g.Accounts[i]
		c.Kept((*string)(&a.Stage))
		c.Kept(&a.Unit)
		coder.Integer(&c.Coder, &a.In)
		coder.Integer(&c.Coder, &a.Out)
		if c.Reading && (a.In < 0 || a.Out < 0 || a.In > maxCounted || a.Out > maxCounted) {
			return fmt.Errorf("invalid account: %d in and %d out", a.In, a.Out)
		}
	}
	for i := range coder.Reused(&c.Coder, &g.Counts) {
		n := &g.Counts[i]
		c.Kept(&n.Builder)
		c.Kept(&n.Name)
		coder.Integer(&c.Coder, &n.N)
	}
	return nil
}

// change is a changed context in one of the group's records.
type change struct {
	record int
	builders.Change
}

// changes codes the contexts that differ from the recorded ones. If none do, as is usual, it writes nothing.
func (c *codec) changes(g *Group) error {
	var all []change
	if !c.Reading {
		for i := range g.Records {
			for _, x := range g.Records[i].Changes {
				all = append(all, change{i, x})
			}
		}
	}
	if c.Err != nil || c.Reading && c.Left() == 0 || !c.Reading && all == nil {
		return c.Err
	}
	for i := range coder.List(&c.Coder, &all) {
		x := &all[i]
		coder.Natural(&c.Coder, &x.record)
		coder.Natural(&c.Coder, &x.Turn)
		coder.Octet(&c.Coder, &x.By)
		coder.Natural(&c.Coder, &x.Was)
		if !c.Reading {
			continue
		}
		if x.record < 0 || x.record >= len(g.Records) || x.Turn < 0 {
			return fmt.Errorf("invalid context change in record %d of %d", x.record, len(g.Records))
		}
		to := &g.Records[x.record].Changes
		*to = append(*to, x.Change)
	}
	return c.Err
}
