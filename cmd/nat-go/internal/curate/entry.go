package curate

import (
	"github.com/nat-go/nat-go/builders"
)

// Entry holds the data about a record that curation uses. Hashes are of canonical content and equal only for equal
// content; hashes of different fields may coincide.
type Entry struct {
	Ordinal uint64 // position in the record log: entries come in this order, from 0, without gaps
	Kind    builders.Kind
	Drop    Decision // Train (0), or Dropped(reason) if the gate has already decided

	Content  [16]byte // kind, prompt and all sides: equal content is a duplicate
	Prompt   [16]byte // the prompt alone; zero means none
	Chosen   [16]byte // sides of a Preference
	Rejected [16]byte
	Score    [8]byte  // name of a Preference's score: only pairs with the same score contradict each other
	Task     [16]byte // task key; zero means the example is its own task
	Example  [16]byte // example id, the same in every collection run
}

// Rules configure the decisions that the gate has not made.
type Rules struct {
	Dedupe         bool   // keep the first of equal contents
	Contradictions bool   // drop A>B and B>A for one prompt and score, with all duplicates
	MaxPairs       int64  // keep at most this many preferences; 0 means all
	Seed           uint64 // of the sample
	Split          Split
	// Hold keeps the validation side passed to Index.Hold instead of making a split: only its records validate, and any
	// other record in one of their components is dropped.
	Hold bool

	Memory int64                       // memory for sorting in bytes; 0 means defaultMemory
	Name   func(ordinal uint64) string // names a record in errors, as "example 7, turn 2"; if nil, the ordinal is used
}

// defaultMemory is the memory in which Decide sorts before it uses the disk: room for 250,000 records.
const defaultMemory = 32 << 20

// Split configures how records are divided between training and validation.
type Split struct {
	By         By
	Validation float64 // share of the kept records, 0 <= v < 1; 0 means no validation set
	Seed       uint64
	Required   bool // the user asked for a validation set: if it can't be provided, that is an error, not a warning
}

// By is the unit that a split never divides. Except with ByPosition, records with equal prompts also stay together.
type By string

// The ways to split.
const (
	ByTask    By = "task"    // tasks, including their examples and prompts
	ByExample By = "example" // examples
	// NAT's: the first max(1, int((1-v)n)) records train, the rest validate, and a single one does both.
	ByPosition By = "position"
)
