package curate

import (
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/ttc/source"
)

// Entry holds the data about a record that Decide uses. Its byte arrays are hashes. Equal hashes in the same field
// mean equal content; hashes in different fields may coincide.
type Entry struct {
	Ordinal uint64 // position in the record log; entries arrive in this order, from 0, without gaps
	Kind    builders.Kind
	Drop    Decision // Train (0), or Dropped(reason) if the gate has already decided

	Content  [16]byte // records with the same content are duplicates; see recordlog.Hashes
	Prompt   [16]byte // only the prompt; zero means that there is none
	Chosen   [16]byte // sides of a Preference
	Rejected [16]byte
	Score    [8]byte  // name of a Preference's score; only pairs with the same score name contradict each other
	Task     [16]byte // name of the task; for a record without a task, the same as Example, or zero
	Example  [16]byte // name of the example; see NameOf
}

// Rules configures the decisions that the gate doesn't make.
type Rules struct {
	Dedupe         bool   // keep the first of several records with equal content
	Contradictions bool   // drop A>B and B>A for the same prompt and score name, with their duplicates
	MaxPairs       int64  // keep at most this many preferences; 0 means all
	Seed           uint64 // seed for the sample
	Split          Split
	// Hold replaces the split. Only records with the same content as one passed to Index.Hold are used for validation,
	// and any other record in their components is dropped.
	Hold bool

	Memory int64                       // bytes for sorting; 0 means defaultMemory
	Name   func(ordinal uint64) string // returns a record's name for errors and warnings; nil means its ordinal
}

// defaultMemory is the number of bytes that Decide sorts in memory before it uses the disk.
const defaultMemory = 32 << 20

// Split configures how records are divided between training and validation.
type Split struct {
	By         By
	Validation float64 // share of the kept records, 0 <= v < 1; 0 means no validation set
	Seed       uint64
	Required   bool // the user asked for a validation set, so it is an error, not a warning, if there is none
}

// By is the unit that a split never divides. Except with ByPosition, records with equal prompts are also kept together.
type By string

// The ways to split.
const (
	ByTask    By = "task"    // keeps the records of a task or an example together
	ByExample By = "example" // keeps the records of an example, and the rollouts of a task, together
	// ByPosition is NAT's split. The first max(1, int((1-v)n)) records are for training, and the rest for validation. A
	// single record is used for both.
	ByPosition By = "position"
)

// AddGroup adds a group's records and appends their entries to dst.
func (d *Index) AddGroup(dst []Entry, g *recordlog.Group, gates Gates) ([]Entry, error) {
	from := len(dst)
	dst = EntriesOf(dst, g, gates)
	for i := range dst[from:] {
		if err := d.Add(dst[from+i]); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// EntriesOf appends the entries for a group's records to dst. An entry's Drop is set if the gates refuse its record.
func EntriesOf(dst []Entry, g *recordlog.Group, gates Gates) []Entry {
	var shared neighbours
	hashes := g.Hashes()
	for i := range hashes {
		rec := &g.Records[i]
		dst = append(dst, Entry{})
		e := &dst[len(dst)-1] // fill in place to avoid a copy
		shared.fill(e, rec, &hashes[i])
		e.Ordinal = g.First + uint64(i)
		if reason, _ := gates.Refuse(rec); reason != "" {
			e.Drop = Dropped(reason)
		}
	}
	return dst
}

// neighbours holds the hashes of the last record's names, because the next record in the group probably has the same
// names.
type neighbours struct {
	origin        *builders.Origin
	task, example [16]byte
}

// NameOf returns the name that identifies an example across all collection runs. It is the id, which is the same in
// every run. If the id was made from a row number, the name consists of the run's number and the id.
func NameOf(run int, id string) string {
	if source.IsRowName(id) {
		return fmt.Sprintf("%d\x00%s", run, id)
	}
	return id
}

// fill sets the fields of an entry except for its ordinal and drop.
func (n *neighbours) fill(e *Entry, rec *builders.Resolved, h *recordlog.Hashes) {
	if rec.Origin != n.origin {
		n.origin = rec.Origin
		n.example = xxh3.HashString128(NameOf(n.origin.Run, n.origin.Example)).Bytes()
		n.task = n.example
		if n.origin.Task != "" {
			n.task = xxh3.HashString128("task\x00" + n.origin.Task).Bytes()
		}
	}
	e.Kind, e.Task, e.Example = rec.Record.Kind(), n.task, n.example
	e.Content, e.Prompt, e.Chosen, e.Rejected = h.Content, h.Prompt, h.Chosen, h.Rejected
	if p, ok := rec.Record.(*builders.Preference); ok {
		sum := xxh3.HashString128(p.ScoreName).Bytes()
		e.Score = [8]byte(sum[:])
	}
}
