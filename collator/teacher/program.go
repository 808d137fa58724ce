package teacher

import "github.com/nat-go/nat-go/collator/teacher/internal/scorer"

// Scorer runs a user's program that computes a model's logits. Package scorer documents the protocol.
type Scorer = scorer.Scorer

// ScorerOptions configures a Scorer and its program.
type ScorerOptions = scorer.Options

// ScorerProbe is a text and its ids, which the program's tokenizer is compared with.
type ScorerProbe = scorer.Probe

// ScorerSequence is the sequence that a Scorer scores.
type ScorerSequence = scorer.Sequence

// NewScorer checks the options. It starts nothing: the first request starts the program.
func NewScorer(o ScorerOptions) (*Scorer, error) { return scorer.New(o) }
