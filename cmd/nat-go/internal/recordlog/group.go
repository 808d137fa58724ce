package recordlog

import (
	"fmt"
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/coder"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Group is a frame of the log, with the output of all builders for one group. Everything in it is valid until the group
// is passed to Reader.Reuse or Builder.Begin is called.
type Group struct {
	Key      string
	First    uint64 // ordinal of the group's first record in the log
	Offset   int64  // offset of the group's frame in the log from which the group was read
	Records  []builders.Resolved
	Drops    []ledger.Drop
	Accounts []ledger.Account // the group's additions to the run's accounts, without Dropped, which follows from Drops
	Counts   []Count          // builders' own counters

	texts    texts
	sides    []sides
	hashes   []Hashes
	contents []Hash
	contexts contexts

	// Memory that a reader reuses.
	frame   []byte
	prefs   []builders.Preference
	origins []builders.Origin
}

// Count is a builder's counter for a group.
type Count struct {
	Builder, Name string
	N             int64
}

// text is a distinct passage of the group, with the encoding from which its hash is computed.
type text struct {
	passage builders.Passage
	raw     []byte
	lists   int64 // memory that the passage's lists take when they are read back
	hash    Hash  // set by Contents
}

// sides holds the indices of a record's passages in the group's text table, or -1 for passages that the record doesn't
// have.
type sides struct{ prompt, chosen, rejected, messages int32 }

// Builder collects a group's records for the log, one group after another. It stores each distinct text once.
type Builder struct {
	group   Group
	source  *ttc.Group
	names   []string // builder names, in YAML order
	origins map[originKey]*builders.Origin
	byText  map[string]int32
	prompts [][]int32 // 1 + index of the prompt's text, by example and candidate; 0 means not seen yet
	outputs [][]int32
	scratch coder.Coder // its Buf contains the encoded entries of the text table, concatenated
	tracer  tracer
}

type originKey struct{ example, builder int }

// NewBuilder returns a builder of groups. names are the builders' names in YAML order.
func NewBuilder(names []string) *Builder {
	return &Builder{names: names, origins: map[originKey]*builders.Origin{}, byText: map[string]int32{}}
}

// Begin starts a group's frame. It invalidates the group that Group last returned, whose memory is reused.
func (b *Builder) Begin(g *ttc.Group) {
	b.source = g
	old := &b.group
	b.group = Group{
		Key: g.Key, Records: old.Records[:0], Drops: old.Drops[:0], Accounts: old.Accounts[:0], Counts: old.Counts[:0],
		texts: old.texts[:0], sides: old.sides[:0], hashes: old.hashes, contexts: old.contexts,
	}
	b.group.contexts.begin()
	b.tracer.begin(g)
	clear(b.origins)
	clear(b.byText)
	b.scratch.Buf = b.scratch.Buf[:0]
	b.prompts, b.outputs = places(b.prompts, g), places(b.outputs, g)
}

// places returns a zeroed table, indexed by example and candidate. It reuses the memory of an old table.
func places(old [][]int32, g *ttc.Group) [][]int32 {
	table := slices.Grow(old[:0], len(g.Examples))[:len(g.Examples)]
	for i, ex := range g.Examples {
		n := len(ex.Candidates)
		table[i] = slices.Grow(table[i][:0], n)[:n]
		clear(table[i])
	}
	return table
}

// Record adds a record made by the builder with the given index. If the record's kind is unknown or it refers to
// something that the group doesn't have, Record returns an error and doesn't add the record.
func (b *Builder) Record(builder int, r builders.Record) error {
	h := r.Header()
	if h.Example < 0 || h.Example >= len(b.source.Examples) {
		return fmt.Errorf("unknown example %d: the group has %d examples", h.Example, len(b.source.Examples))
	}
	s := sides{-1, -1, -1, -1}
	asRecorded := b.isOfCandidates(r)
	into := []*int32{&s.messages}
	if r.Kind() == builders.KindPreference {
		into = []*int32{&s.prompt, &s.chosen, &s.rejected}
	}
	contents := builders.Contents(r)
	if contents == nil {
		return fmt.Errorf("unknown kind %T", r)
	}
	for i, c := range contents {
		text, err := b.intern(c)
		if err != nil {
			return err
		}
		*into[i], *c = text, builders.Content{}
	}
	b.group.Records = append(b.group.Records, builders.Resolved{})
	res := &b.group.Records[len(b.group.Records)-1]
	res.Record, res.Origin = r, b.originOf(h.Example, builder)
	b.group.texts.fill(res, s)
	b.group.sides = append(b.group.sides, s)
	if !asRecorded {
		res.Changes = b.trace()
	}
	return nil
}

// Drop adds a drop.
func (b *Builder) Drop(d ledger.Drop) { b.group.Drops = append(b.group.Drops, d) }

// Account adds an account to the group. in and out are the numbers of items, counted in unit, that a stage received and
// passed on.
func (b *Builder) Account(s ledger.Stage, unit string, in, out int64) {
	b.group.Accounts = append(b.group.Accounts, ledger.Account{Stage: s, Unit: unit, In: in, Out: out})
}

// Count adds n to a counter of the builder with the given index.
func (b *Builder) Count(builder int, name string, n int64) {
	b.group.Counts = append(b.group.Counts, Count{b.names[builder], name, n})
}

// Group returns the group that was begun most recently.
func (b *Builder) Group() *Group { return &b.group }

// textChunk limits the size of a buffer of encoded texts. Once a buffer exceeds textChunk, the next text starts a new
// buffer. If a single buffer kept growing, references to its outgrown copies would keep the copies alive. For a large
// group, the copies would take five times the memory that the texts need.
const textChunk = 4 << 20

// intern returns the index of c's text. Candidates are looked up by position, without touching their text, because a
// turn with eight candidates forms up to 28 pairs from the same eight outputs.
func (b *Builder) intern(c *builders.Content) (int32, error) {
	var seen *int32
	r := &c.Ref
	if (r.Part == builders.CandidatePrompt || r.Part == builders.CandidateOutput) && b.candidate(r) != nil {
		table := b.outputs
		if r.Part == builders.CandidatePrompt {
			table = b.prompts
		}
		if seen = &table[r.Example][r.Candidate]; *seen > 0 {
			return *seen - 1, nil
		}
	}
	p, err := builders.Resolve(b.source, *c)
	if err != nil {
		return 0, err
	}
	if len(b.scratch.Buf) > textChunk {
		b.scratch.Buf = make([]byte, 0, textChunk)
	}
	start := len(b.scratch.Buf)
	b.scratch.Lists = 0
	passage(&b.scratch, &p)
	raw := b.scratch.Buf[start:len(b.scratch.Buf):len(b.scratch.Buf)]
	i, ok := b.byText[coder.ViewString(raw)]
	if ok {
		b.scratch.Buf = b.scratch.Buf[:start]
	} else {
		i = int32(len(b.group.texts))
		b.group.texts = append(b.group.texts, text{passage: p, raw: raw, lists: b.scratch.Lists})
		b.byText[coder.ViewString(raw)] = i
	}
	if seen != nil {
		*seen = i + 1
	}
	return i, nil
}

func (b *Builder) originOf(example, builder int) *builders.Origin {
	k := originKey{example, builder}
	if o := b.origins[k]; o != nil {
		return o
	}
	ex := b.source.Examples[example]
	o := &builders.Origin{
		Run: ex.Run, Row: ex.Row, Example: ex.ID, Task: ex.Task, Trial: ex.Trial, File: ex.File, Offset: ex.Offset,
		Policy: ex.Policy, Fidelity: ex.Fidelity, Gaps: ex.Gaps, Proofs: ex.Proofs, Sampling: ex.Sampling,
		TeacherTopK: ex.TeacherTopK, Truth: ex.Truth, Tools: ex.Tools, Builder: b.names[builder],
	}
	b.origins[k] = o
	return o
}

type texts []text

func (ts texts) fill(r *builders.Resolved, s sides) {
	ts.set(&r.Prompt, s.prompt)
	ts.set(&r.Chosen, s.chosen)
	ts.set(&r.Rejected, s.rejected)
	ts.set(&r.Messages, s.messages)
}

// set sets p to the passage of the text with index i, or to the zero Passage if i is negative.
func (ts texts) set(p *builders.Passage, i int32) {
	if i < 0 {
		*p = builders.Passage{}
		return
	}
	*p = ts[i].passage
}
