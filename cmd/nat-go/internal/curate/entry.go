package curate

import (
	"github.com/nat-go/nat-go/builders"
)

// Entry is what curation knows of a record. Hashes are of canonical content and equal only for what is to count as
// equal; those of different fields may coincide.
type Entry struct {
	Ordinal uint64 // place in the record log: entries come in this order, from 0, without a gap
	Kind    builders.Kind
	Drop    Decision // Train (0), or Dropped(reason) where the gate has decided already

	Content  [16]byte // kind, prompt and all sides: equal content is a copy
	Prompt   [16]byte // the prompt alone; zero: none
	Chosen   [16]byte // sides of a Preference
	Rejected [16]byte
	Score    [8]byte  // name of a Preference's score: contradictions are within one score
	Task     [16]byte // task key; zero: the example is its own task
	Example  [16]byte // example id, the same in every collection run
}

// Rules say what Decide does beyond what the gate has done.
type Rules struct {
	Dedupe         bool   // keep the first of equal contents
	Contradictions bool   // drop A>B and B>A of one prompt and score, with all copies
	MaxPairs       int64  // keep so many preferences; 0: all
	Seed           uint64 // of the sample
	Split          Split
	// Hold keeps the validation side that Index.Hold is told of, in the place of a split: its records validate, nothing
	// else does, and what shares anything with them that a split never divides is dropped.
	Hold bool

	Memory int64                       // bytes for sorting; 0: DefaultMemory
	Name   func(ordinal uint64) string // names a record in errors, as "example 7, turn 2"; nil: by ordinal
}

// DefaultMemory is what Decide sorts in before it uses the disk: room for 250,000 records.
const DefaultMemory = 32 << 20

// Split says how records are divided between training and validation.
type Split struct {
	By         By
	Validation float64 // share of the kept records, 0 <= v < 1; 0: no validation set
	Seed       uint64
	Required   bool // the user asked for a validation set: not being able to give one is an error, not a warning
}

// By is what a split never divides. Records of equal prompts stay together whichever it is, but for ByPosition.
type By string

// The ways to split.
const (
	ByTask    By = "task"    // tasks, and examples and prompts with them
	ByExample By = "example" // examples
	// NAT's: the first max(1, int((1-v)n)) records train, the rest validate, a single one does both.
	ByPosition By = "position"
)
