package calls

import (
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// Call is a request to a model and its answer.
type Call struct {
	ID    string // of the answer; empty: unknown
	Agent string // which agent of the session asked; empty: the main one
	Model string
	Time  int64 // when, in nanoseconds since 1970; 0: unknown

	After Walk  // messages of the session, in order
	Input []Ref // those that follow them
	Tools []chat.Tool

	Output       chat.Message
	Tokens       uint64 // of the output, as those of a Message
	FinishReason string
	TokenIDs     []int32   // of the output
	LogProbs     []float32 // of the output

	Usage Usage
	Gaps  ttc.Gaps // what the trace doesn't say of this call

	File   string // where the call was recorded, as the user named it
	Offset int64
}

// Ref stands for a message of a session.
type Ref int32

// Message is a message that a call was given.
type Message struct {
	chat.Message
	Error *bool // on a tool result: an explicit flag of the source

	// Tokens tells apart messages that are the same text in other tokens, where the source knows the tokens; else 0.
	Tokens uint64
}

// Usage is what the provider counted; 0: unknown.
type Usage struct{ Input, Output int64 }

// fidelity is what can honestly be claimed of a call.
func (c *Call) fidelity() ttc.Fidelity {
	switch {
	case c.Gaps.Lowering() != 0:
		return ttc.Partial
	case c.TokenIDs != nil && len(c.LogProbs) == len(c.TokenIDs):
		return ttc.IDsLogProbs
	case c.TokenIDs != nil:
		return ttc.IDs
	}
	return ttc.TextOnly
}
