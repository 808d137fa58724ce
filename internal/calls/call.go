package calls

import (
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// Call is a request to a model with the model's answer.
type Call struct {
	ID    string // id of the answer; empty if unknown
	Agent string // the agent of the session that made the call; empty for the main agent
	Model string
	Time  int64 // time of the call in Unix nanoseconds; 0 if unknown

	After Walk  // the beginning of the call's context, which is already in the session
	Input []Ref // the rest of the context
	Tools []chat.Tool

	Output       chat.Message
	Tokens       uint64 // identifies the output's tokens; see Message.Tokens
	FinishReason string
	TokenIDs     []int32   // token ids of the output
	LogProbs     []float32 // log-probs of the output's tokens

	Usage Usage
	Gaps  ttc.Gaps // parts of this call that are missing from the trace

	File   string // path of the recording, as named by the user
	Offset int64
}

// Ref refers to a message in a session.
type Ref int32

// Message is a message in a call.
type Message struct {
	chat.Message
	Error *bool // for a tool result, the source's explicit error flag

	// Tokens distinguishes messages with the same text but different tokens, if the source knows the tokens; otherwise,
	// it is 0.
	Tokens uint64
}

// Usage holds the provider's token counts, which are 0 if unknown.
type Usage struct{ Input, Output int64 }

// fidelity returns the fidelity of a call's data.
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
