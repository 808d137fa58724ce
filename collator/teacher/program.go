package teacher

import "github.com/nat-go/nat-go/collator/teacher/internal/scorer"

// Scorer runs a user's program that computes a model's logits. The comment of package scorer has the protocol.
type Scorer = scorer.Scorer

// What a Scorer is made of and what it is asked.
type (
	ScorerOptions  = scorer.Options
	ScorerProbe    = scorer.Probe
	ScorerSequence = scorer.Sequence
)

// NewScorer checks the options. It starts nothing: the first request starts the program.
func NewScorer(o ScorerOptions) (*Scorer, error) { return scorer.New(o) }
