package source

import (
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// Claim is a trace's statement about a single model call.
type Claim struct {
	Model        string
	Given        []chat.Message
	Tools        []chat.Tool
	PromptTokens int64 // tokens of the input, as recorded by the provider; 0 if unknown
	Answer       *chat.Message
	IDs          []int32 // ids of the answer; nil if unknown
}

// Prove checks a claim against the model's tokenizer and template. Parts that can't be checked are neither proved nor
// refuted.
type Prove func(*Claim) (proven ttc.Proofs, refuted ttc.Gaps)
