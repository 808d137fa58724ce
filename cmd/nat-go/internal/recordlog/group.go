package recordlog

import (
	"fmt"
	"unsafe"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Group is a frame of the log: what all builders made of one group. A group read from a log shares the reader's memory and
// is valid until the next one is read.
type Group struct {
	Key      string
	First    uint64 // ordinal of its first record in the log
	Records  []builders.Resolved
	Drops    []ledger.Drop
	Accounts []ledger.Account // changes to the books: In and Out only, the drops speak for themselves
	Counts   []Count          // builders' own counters

	texts texts
	sides []sides
}

// Count is what a builder counted on a group.
type Count struct {
	Builder, Name string
	N             int64
}

// text is a distinct passage of the group with its encoding, which is what is hashed.
type text struct {
	passage builders.Passage
	raw     []byte
}

// sides are a record's passages as indices of texts, -1 where the kind has none.
type sides struct{ prompt, chosen, rejected, messages int32 }

// Builder collects the records of one group for the log. It keeps each distinct text once.
type Builder struct {
	group   Group
	source  *ttc.Group
	names   []string // builders, in YAML order
	origins map[originKey]*builders.Origin
	byText  map[string]int32
	prompts [][]int32 // by example, candidate: text index + 1, 0 not yet seen
	outputs [][]int32
	scratch encoder
}

type originKey struct{ example, builder int }

// NewBuilder starts the frame of a group. names are the builders' names in YAML order.
func NewBuilder(g *ttc.Group, names []string) *Builder {
	return &Builder{
		group:   Group{Key: g.Key},
		source:  g,
		names:   names,
		origins: map[originKey]*builders.Origin{},
		byText:  map[string]int32{},
		prompts: make([][]int32, len(g.Examples)),
		outputs: make([][]int32, len(g.Examples)),
	}
}

// Record adds a record of the builder with the given index. An error means that the record refers to something the group
// doesn't have; nothing was added.
func (b *Builder) Record(builder int, r builders.Record) error {
	h := r.Header()
	if h.Example < 0 || h.Example >= len(b.source.Examples) {
		return fmt.Errorf("names example %d of a group of %d", h.Example, len(b.source.Examples))
	}
	s := sides{-1, -1, -1, -1}
	var err error
	add := func(side *int32, c *builders.Content) {
		if err == nil {
			*side, err = b.intern(*c)
		}
		*c = builders.Content{}
	}
	switch r := r.(type) {
	case *builders.Preference:
		add(&s.prompt, &r.Prompt)
		add(&s.chosen, &r.Chosen)
		add(&s.rejected, &r.Rejected)
	case *builders.Demonstration:
		add(&s.messages, &r.Messages)
	case *builders.Rollout:
		add(&s.messages, &r.Messages)
	case *builders.Distillation:
		add(&s.messages, &r.Messages)
	default:
		return fmt.Errorf("is of unknown kind %T", r)
	}
	if err != nil {
		return err
	}
	res := builders.Resolved{Record: r, Origin: b.origin(h.Example, builder)}
	b.group.texts.fill(&res, s)
	b.group.Records = append(b.group.Records, res)
	b.group.sides = append(b.group.sides, s)
	return nil
}

// Drop adds a drop.
func (b *Builder) Drop(d ledger.Drop) { b.group.Drops = append(b.group.Drops, d) }

// Account adds to the books: n things of a unit entered a stage, or went on.
func (b *Builder) Account(s ledger.Stage, unit string, in, out int64) {
	b.group.Accounts = append(b.group.Accounts, ledger.Account{Stage: s, Unit: unit, In: in, Out: out})
}

// Count adds to a builder's counter.
func (b *Builder) Count(builder int, name string, n int64) {
	b.group.Counts = append(b.group.Counts, Count{b.names[builder], name, n})
}

// Group returns the finished frame.
func (b *Builder) Group() *Group { return &b.group }

// intern returns the index of the text that c stands for. Candidates' texts are looked up by their place, without touching
// the text: a turn of eight candidates makes up to 28 pairs of the same eight texts.
func (b *Builder) intern(c builders.Content) (int32, error) {
	var seen *int32
	if r := c.Ref; (r.Part == builders.CandidatePrompt || r.Part == builders.CandidateOutput) &&
		r.Example >= 0 && r.Example < len(b.source.Examples) {
		table := b.outputs
		if r.Part == builders.CandidatePrompt {
			table = b.prompts
		}
		n := len(b.source.Examples[r.Example].Candidates)
		if r.Candidate >= 0 && r.Candidate < n {
			if table[r.Example] == nil {
				table[r.Example] = make([]int32, n)
			}
			seen = &table[r.Example][r.Candidate]
			if *seen > 0 {
				return *seen - 1, nil
			}
		}
	}
	p, err := builders.Resolve(b.source, c)
	if err != nil {
		return 0, err
	}
	b.scratch.buf = b.scratch.buf[:0]
	b.scratch.passage(p)
	i, ok := b.byText[viewString(b.scratch.buf)]
	if !ok {
		raw := append([]byte(nil), b.scratch.buf...)
		i = int32(len(b.group.texts))
		b.group.texts = append(b.group.texts, text{passage: p, raw: raw})
		b.byText[viewString(raw)] = i
	}
	if seen != nil {
		*seen = i + 1
	}
	return i, nil
}

func (b *Builder) origin(example, builder int) *builders.Origin {
	k := originKey{example, builder}
	if o := b.origins[k]; o != nil {
		return o
	}
	ex := b.source.Examples[example]
	o := &builders.Origin{
		Run: ex.Run, Row: ex.Row, Example: ex.ID, Task: ex.Task, Trial: ex.Trial, File: ex.File, Offset: ex.Offset,
		Policy: ex.Policy, Fidelity: ex.Fidelity, Sampling: ex.Sampling, Tools: ex.Tools, Builder: b.names[builder],
	}
	b.origins[k] = o
	return o
}

type texts []text

func (ts texts) fill(r *builders.Resolved, s sides) {
	at := func(i int32) builders.Passage {
		if i < 0 {
			return builders.Passage{}
		}
		return ts[i].passage
	}
	r.Prompt, r.Chosen, r.Rejected, r.Messages = at(s.prompt), at(s.chosen), at(s.rejected), at(s.messages)
}

func viewString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
