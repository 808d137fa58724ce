package teacher

import "github.com/nat-go/nat-go/collator/teacher/internal/scorer"

// Scorer runs a user's program that computes a model's logits. Package scorer documents the protocol.
type Scorer = scorer.Scorer

// ScorerOptions configures a Scorer and its program.
type ScorerOptions = scorer.Options

// Probe is a text and its ids, without special tokens added, for checking a tokenizer.
type Probe = scorer.Probe

// ScorerSequence is a sequence for a Scorer to score.
type ScorerSequence = scorer.Sequence

// NewScorer checks the options. It doesn't start the program; the first request does.
func NewScorer(o ScorerOptions) (*Scorer, error) { return scorer.New(o) }
