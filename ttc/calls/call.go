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

	Input []Ref // messages of the session, in order
	Tools []chat.Tool

	Output       chat.Message
	Tokens       uint64 // of the output, as those of a Message
	FinishReason string
	TokenIDs     []int32   // of the output
	LogProbs     []float32 // of the output

	Usage Usage
	Gaps  Gaps // what the trace doesn't say of this call

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

// Gaps is a set of things that a trace doesn't say.
type Gaps uint16

// What a trace may leave out, or show otherwise than the model saw it.
const (
	NoTools         Gaps = 1 << iota // the definitions of the tools
	NoSystem                         // the system prompt
	HiddenReasoning                  // the text of the reasoning
	ParsedArguments                  // the arguments of calls as the model spelled them
	AlteredResults                   // tool results as the model saw them
	RebuiltHistory                   // the messages of the request: they are put together from what was logged
)

// gapNames are the names of the gaps, in the order of their bits.
var gapNames = [...]string{
	"no_tools", "no_system_prompt", "hidden_reasoning", "parsed_arguments", "altered_results", "rebuilt_history",
}

// Names lists the gaps, in a fixed order.
func (g Gaps) Names() []string {
	var out []string
	for i, name := range gapNames {
		if g&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// Fidelity is what can honestly be claimed of a call with these gaps.
func (c *Call) fidelity() ttc.Fidelity {
	switch {
	case c.Gaps&^ParsedArguments != 0:
		return ttc.Partial
	case c.TokenIDs != nil && len(c.LogProbs) == len(c.TokenIDs):
		return ttc.IDsLogProbs
	case c.TokenIDs != nil:
		return ttc.IDs
	}
	return ttc.TextOnly
}
