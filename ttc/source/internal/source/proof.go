package source

import (
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// Claim is what a trace says about one call of a model.
type Claim struct {
	Model        string
	Given        []chat.Message
	Tools        []chat.Tool
	PromptTokens int64 // of what was given, as recorded by the provider; 0: unknown
	Answer       *chat.Message
	IDs          []int32 // of the answer; nil: unknown
}

// Prove checks a claim against the model's tokenizer and template. What it can't check it neither proves nor refutes.
type Prove func(*Claim) (proven ttc.Proofs, refuted ttc.Gaps)
