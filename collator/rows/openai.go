package rows

import (
	"github.com/parquet-go/parquet-go"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// openAI is the preference format of OpenAI's fine-tuning API
// (https://platform.openai.com/docs/guides/direct-preference-optimization): both outputs are lists of assistant
// messages (FineTunePreferenceRequestInput of API 2.3), though the guide documents only a single message. They can hold
// neither a tool result nor a multi-turn answer.
var openAI = Format{
	Name:     "openai",
	Service:  true,
	Consumer: "OpenAI fine-tuning (method dpo)",
	Shape:    `{"input": {"messages": [messages], "tools"?}, "preferred_output": [message], "non_preferred_output": [message]}`,
	Carries:  []builders.Kind{builders.KindPreference},
	Files:    splitFiles,
	holds:    "preferences",
	encode:   (*Encoder).openAIRow,
	read:     (*rowReader).openAI,
	columns: func(_ builders.Kind, c columns) parquet.Group {
		return parquet.Group{
			"input":            c.withTools(parquet.Group{"messages": c.messages()}),
			"preferred_output": c.messages(), "non_preferred_output": c.messages(),
		}
	},

	textArguments: true,
}

func (e *Encoder) openAIRow(dst []byte, r *builders.Resolved) []byte {
	dst = e.trlSide(append(dst, `{"input": {"messages": `...), "prompt", &r.Prompt)
	dst = append(e.appendTools(dst, r.Origin.Tools), '}')
	dst = e.trlSide(append(dst, `, "preferred_output": `...), "chosen", &r.Chosen)
	dst = e.trlSide(append(dst, `, "non_preferred_output": `...), "rejected", &r.Rejected)
	return append(dst, '}')
}

func (r *rowReader) openAI() *Row {
	input := r.object("input", r.take("input", json.Object))
	row := &Row{Kind: builders.KindPreference, Prompt: input.passage("messages", openAIMessage)}
	input.tools()
	r.adopt("input", input)
	r.listed = input.listed
	row.Chosen = r.answer("preferred_output", openAIMessage)
	row.Rejected = r.answer("non_preferred_output", openAIMessage)
	return row
}

// openAIMessage accepts messages that the API allows. Call arguments must be strings, and reasoning absent.
func openAIMessage(m *chat.Message) string {
	for i := range m.ToolCalls {
		if m.ToolCalls[i].AsObject {
			return "has a tool call whose arguments are not a string"
		}
	}
	if m.ReasoningKey != "" {
		return "has reasoning, which the API doesn't accept"
	}
	plain := *m
	plain.ToolCalls = nil
	return fullMessage(&plain)
}
