package recordlog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// appendGroup appends the payload of a group's frame.
func (e *encoder) group(g *Group) error {
	e.string(g.Key)
	e.origins(g)
	list[text](e, len(g.texts))
	for i := range g.texts {
		e.lists += g.texts[i].lists
		e.uint(uint64(len(g.texts[i].raw)))
		e.buf = append(e.buf, g.texts[i].raw...)
	}
	list[preferenceRecord](e, len(g.Records))
	e.turn, e.score = "", ""
	index := originIndex(g)
	for i := range g.Records {
		e.uint(uint64(index[g.Records[i].Origin]))
		e.record(g.Records[i].Record, g.sides[i])
	}
	list[ledger.Drop](e, len(g.Drops))
	for i := range g.Drops {
		line, err := json.Marshal(&g.Drops[i])
		if err != nil {
			return err
		}
		e.raw(line)
	}
	list[ledger.Account](e, len(g.Accounts))
	for _, a := range g.Accounts {
		e.string(string(a.Stage))
		e.string(a.Unit)
		e.int(a.In)
		e.int(a.Out)
	}
	list[Count](e, len(g.Counts))
	for _, c := range g.Counts {
		e.string(c.Builder)
		e.string(c.Name)
		e.int(c.N)
	}
	e.changes(g)
	return nil
}

// change is a changed context of a record of the group. Its size bounds how many a frame can hold.
type change struct {
	record int //nolint:unused // counts towards the size
	builders.Change
}

// changes appends how contexts differ from what was recorded, if any do: in most groups none does.
func (e *encoder) changes(g *Group) {
	n := 0
	for i := range g.Records {
		n += len(g.Records[i].Changes)
	}
	if n == 0 {
		return
	}
	list[change](e, n)
	for i := range g.Records {
		for _, c := range g.Records[i].Changes {
			e.uint(uint64(i))
			e.uint(uint64(c.Turn))
			e.byte(byte(c.By))
			e.uint(uint64(c.Was))
		}
	}
}

// changes reads what encoder.changes appended.
func (g *Group) changes(d *decoder) error {
	if d.err != nil || d.left() == 0 {
		return d.err
	}
	for range count[change](d) {
		i := d.uint()
		c := builders.Change{Turn: int(d.uint()), By: builders.Changed(d.byte()), Was: ttc.History(d.uint())}
		if i >= uint64(len(g.Records)) || c.Turn < 0 {
			return fmt.Errorf("a context of record %d is changed, and there are %d records", i, len(g.Records))
		}
		g.Records[i].Changes = append(g.Records[i].Changes, c)
	}
	return d.err
}

// originIndex numbers the origins in order of first use.
func originIndex(g *Group) map[*builders.Origin]int {
	index := map[*builders.Origin]int{}
	for i := range g.Records {
		if _, ok := index[g.Records[i].Origin]; !ok {
			index[g.Records[i].Origin] = len(index)
		}
	}
	return index
}

// maxCounted is more than the books of any group count, so that their sums don't overflow.
const maxCounted = 1 << 48

// maxRuns bounds the number of inputs, for each of which something is kept in memory.
const maxRuns = 1 << 20

// What is known about an origin, in one byte.
const (
	knownSampling = 1 << iota
	knownTopK
)

func knownFields(o *builders.Origin) (what byte) {
	if o.Sampling != nil {
		what |= knownSampling
	}
	if o.TeacherTopK != nil {
		what |= knownTopK
	}
	return what | byte(o.Proofs)<<proofsShift | byte(o.Gaps>>gapsInFirst)<<moreGapsShift
}

func (e *encoder) origins(g *Group) {
	index := originIndex(g)
	all := make([]*builders.Origin, len(index))
	for o, i := range index {
		all[i] = o
	}
	list[builders.Origin](e, len(all))
	for _, o := range all {
		e.int(int64(o.Run))
		e.int(o.Row)
		e.string(o.Example)
		e.string(o.Task)
		e.string(o.Trial)
		e.string(o.File)
		e.int(o.Offset)
		e.string(o.Policy)
		e.byte(byte(o.Fidelity) | byte(o.Gaps)<<gapsShift)
		e.byte(knownFields(o))
		if s := o.Sampling; s != nil {
			e.float(s.Temperature)
			e.float(s.TopP)
			e.bool(s.Processed)
		}
		if o.TeacherTopK != nil {
			e.int(int64(*o.TeacherTopK))
		}
		list[chat.Tool](e, len(o.Tools))
		for _, t := range o.Tools {
			e.string(t.Name)
			e.raw(t.Raw)
		}
		e.string(o.Builder)
	}
}

// Where proofs and gaps are: the first gaps in the byte of the fidelity, the others in the byte of what is known.
const (
	gapsShift     = 2
	gapsInFirst   = 6
	proofsShift   = 2
	proofsMask    = 3
	moreGapsShift = 4
)

func (d *decoder) fidelity() (ttc.Fidelity, ttc.Gaps) {
	b := d.byte()
	return ttc.Fidelity(b & (1<<gapsShift - 1)), ttc.Gaps(b >> gapsShift)
}

func (d *decoder) origins(old []builders.Origin) []builders.Origin {
	n := count[builders.Origin](d)
	list := slices.Grow(old[:0], n)[:n]
	for i := range list {
		o := &list[i]
		*o = builders.Origin{
			Run: int(d.int()), Row: d.int(), Example: d.string(), Task: d.string(), Trial: d.string(),
			File: d.string(), Offset: d.int(), Policy: d.string(),
		}
		if o.Run < 0 || o.Run >= maxRuns || o.Row < 0 {
			d.err = fmt.Errorf("an example is row %d of input %d", o.Row, o.Run)
		}
		o.Fidelity, o.Gaps = d.fidelity()
		what := d.byte()
		o.Proofs = ttc.Proofs(what >> proofsShift & proofsMask)
		o.Gaps |= ttc.Gaps(what>>moreGapsShift) << gapsInFirst
		if what&knownSampling != 0 {
			o.Sampling = &ttc.Sampling{Temperature: d.float(), TopP: d.float(), Processed: d.bool()}
		}
		if what&knownTopK != 0 {
			k := int(d.int())
			o.TeacherTopK = &k
		}
		if n := count[chat.Tool](d); n > 0 {
			o.Tools = make([]chat.Tool, n)
			for t := range o.Tools {
				o.Tools[t] = chat.Tool{Name: d.string(), Raw: d.raw()}
			}
		}
		o.Builder = d.string()
	}
	return list
}

// A record's kind and edits share a byte.
const (
	editsShift = 4
	kindMask   = 1<<editsShift - 1
)

// maskReasoning is the bit of a demonstration's loss policy that says so.
const maskReasoning = 1 << 7

// policy returns the loss policy of a demonstration in a byte.
func policy(d *builders.Demonstration) byte {
	if d.MaskReasoning {
		return byte(d.Train) | maskReasoning
	}
	return byte(d.Train)
}

func (e *encoder) record(r builders.Record, s sides) {
	h := r.Header()
	e.byte(byte(r.Kind()) | byte(h.Edits)<<editsShift)
	e.uint(uint64(h.Example))
	e.stringOrSame(h.Turn, &e.turn)
	e.raw(h.Metadata)
	switch r := r.(type) {
	case *builders.Preference:
		e.uint(uint64(s.prompt))
		e.uint(uint64(s.chosen))
		e.uint(uint64(s.rejected))
		e.float(r.Reward)
		e.stringOrSame(r.ScoreName, &e.score)
		e.float(r.ChosenScore)
		e.float(r.RejectedScore)
		e.int(r.ChosenIndex)
		e.int(r.RejectedIndex)
		e.string(r.ChosenPolicy)
		e.string(r.RejectedPolicy)
	case *builders.Demonstration:
		e.uint(uint64(s.messages))
		e.byte(policy(r))
		list[bool](e, len(r.Trained))
		for _, t := range r.Trained {
			e.bool(t)
		}
		e.float(r.Weight)
		e.floatPtr(r.Score)
	case *builders.Rollout:
		e.uint(uint64(s.messages))
		e.floatPtr(r.Reward)
		e.string(r.Task)
	case *builders.Distillation:
		e.uint(uint64(s.messages))
		list[builders.Site](e, len(r.Sites))
		for i := range r.Sites {
			e.site(&r.Sites[i])
		}
	}
}

func (e *encoder) site(s *builders.Site) {
	e.int(int64(s.Call))
	e.int(int64(s.CallSeq))
	e.int(int64(s.Result))
	e.byte(byte(s.Target))
	e.string(s.Tool)
	e.string(s.Error)
	e.string(s.Hint)
	e.string(s.HintSource)
	e.byte(byte(s.HintKind))
}

// decode reads a payload back. The group's texts, records and strings share the payload's memory.
func (g *Group) decode(payload []byte, most Large) error { return g.read(newDecoder(payload, most)) }

func (g *Group) read(d *decoder) error {
	g.Key = d.string()
	g.origins = d.origins(g.origins)
	nTexts := count[text](d)
	g.texts = slices.Grow(g.texts[:0], nTexts)[:nTexts]
	for i := range g.texts {
		raw := d.bytes(d.uint())
		td, before := decoder{buf: raw, room: d.room}, *d.room
		g.texts[i] = text{passage: td.passage(), raw: raw}
		g.texts[i].lists = before - *d.room
		if td.err != nil {
			return td.err
		}
	}
	n := count[preferenceRecord](d)
	g.Records = slices.Grow(g.Records[:0], n)[:n]
	g.contexts.begin()
	g.sides = slices.Grow(g.sides[:0], n)[:n]
	g.prefs = slices.Grow(g.prefs[:0], n)
	for i := range n {
		o := d.uint()
		if o >= uint64(len(g.origins)) {
			return fmt.Errorf("record %d names origin %d of %d", i, o, len(g.origins))
		}
		r, s, err := d.record(&g.prefs, len(g.texts))
		if err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
		g.sides[i] = s
		g.Records[i].Record, g.Records[i].Origin, g.Records[i].Changes = r, &g.origins[o], nil
		g.texts.fill(&g.Records[i], s)
	}
	err := g.books(d)
	if err == nil {
		err = g.changes(d)
	}
	if err != nil {
		return err
	}
	if d.err == nil && d.left() > 0 {
		return fmt.Errorf("%d bytes are left over", d.left())
	}
	return d.err
}

// books reads what is counted in the group.
func (g *Group) books(d *decoder) error {
	g.Drops = nil
	if n := count[ledger.Drop](d); n > 0 {
		g.Drops = make([]ledger.Drop, n)
		for i := range g.Drops {
			if line := d.raw(); d.err == nil {
				if err := json.Unmarshal(line, &g.Drops[i]); err != nil {
					return fmt.Errorf("drop %d: %w", i, err)
				}
				if x := &g.Drops[i]; x.Run < 0 || x.Run >= maxRuns || x.Count < 0 || x.Count > maxCounted {
					return fmt.Errorf("drop %d is of %d things of input %d", i, x.Count, x.Run)
				}
			}
		}
	}
	n := count[ledger.Account](d)
	g.Accounts = slices.Grow(g.Accounts[:0], n)[:n]
	for i := range g.Accounts {
		a := &g.Accounts[i]
		keep((*string)(&a.Stage), d.string())
		keep(&a.Unit, d.string())
		if a.In, a.Out = d.int(), d.int(); a.In < 0 || a.Out < 0 || a.In > maxCounted || a.Out > maxCounted {
			return fmt.Errorf("an account has %d in and %d out", a.In, a.Out)
		}
	}
	n = count[Count](d)
	g.Counts = slices.Grow(g.Counts[:0], n)[:n]
	for i := range g.Counts {
		c := &g.Counts[i]
		keep(&c.Builder, d.string())
		keep(&c.Name, d.string())
		c.N = d.int()
	}
	return nil
}

// keep sets a name that outlives its group, because books are kept under it: mostly it is that of the group before.
func keep(name *string, now string) {
	if *name != now {
		*name = strings.Clone(now)
	}
}

// preferenceRecord is what a record of the most common kind takes.
type preferenceRecord struct {
	_ builders.Preference
	_ builders.Resolved
	_ sides
}

// record reads one record. Preferences, by far the most common kind, come out of one allocation per group.
func (d *decoder) record(prefs *[]builders.Preference, nTexts int) (builders.Record, sides, error) {
	s := sides{-1, -1, -1, -1}
	side := func() int32 {
		i := d.uint()
		if i >= uint64(nTexts) {
			d.fail()
			return 0
		}
		return int32(i)
	}
	what := d.byte()
	kind := builders.Kind(what & kindMask)
	head := builders.Head{
		Example: int(d.uint()), Turn: d.stringOrSame(&d.turn), Metadata: d.raw(),
		Edits: builders.Edits(what >> editsShift),
	}
	var r builders.Record
	switch kind {
	case builders.KindPreference:
		s.prompt, s.chosen, s.rejected = side(), side(), side()
		*prefs = append(*prefs, builders.Preference{})
		p := &(*prefs)[len(*prefs)-1]
		p.Head, p.Reward, p.ScoreName = head, d.float(), d.stringOrSame(&d.score)
		p.ChosenScore, p.RejectedScore, p.ChosenIndex, p.RejectedIndex = d.float(), d.float(), d.int(), d.int()
		p.ChosenPolicy, p.RejectedPolicy = d.string(), d.string()
		r = p
	case builders.KindDemonstration:
		s.messages = side()
		trains := d.byte()
		x := &builders.Demonstration{
			Head: head, Train: builders.Train(trains &^ maskReasoning), MaskReasoning: trains&maskReasoning != 0,
		}
		if n := count[bool](d); n > 0 {
			x.Trained = make([]bool, n)
			for i := range x.Trained {
				x.Trained[i] = d.bool()
			}
		}
		x.Weight, x.Score = d.float(), d.floatPtr()
		r = x
	case builders.KindRollout:
		s.messages = side()
		r = &builders.Rollout{Head: head, Reward: d.floatPtr(), Task: d.string()}
	case builders.KindDistillation:
		s.messages = side()
		x := &builders.Distillation{Head: head, Sites: make([]builders.Site, count[builders.Site](d))}
		for i := range x.Sites {
			x.Sites[i] = builders.Site{
				Call: int(d.int()), CallSeq: int(d.int()), Result: int(d.int()),
				Target: builders.Target(d.byte()), Tool: d.string(), Error: d.string(), Hint: d.string(),
				HintSource: d.string(), HintKind: builders.HintKind(d.byte()),
			}
		}
		r = x
	default:
		return nil, s, fmt.Errorf("unknown kind %d", kind)
	}
	return r, s, d.err
}
