package rows

import (
	"github.com/parquet-go/parquet-go"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc/chat"
)

// customizer is the format that NeMo Customizer v1 reads, as NAT 1.9.0 writes it (nemo_customizer_trainer_adapter).
var customizer = Format{
	Name:     "customizer",
	Consumer: "NeMo Customizer v1",
	Shape:    `{"prompt": text or [{role, content}], "chosen_response": text, "rejected_response": text}; sft_*: {"messages": [messages]}`,
	Carries:  []builders.Kind{builders.KindPreference, builders.KindDemonstration},
	Files: func(k builders.Kind, s Split) string {
		name := "training_file.jsonl"
		if s == Validation {
			name = "validation_file.jsonl"
		}
		if k == builders.KindDemonstration {
			return "sft_" + name
		}
		return name
	},
	holds:  "preferences and demonstrations",
	encode: (*Encoder).customizerRow,
	parts:  []builders.Kind{builders.KindPreference},
	partly: func(o Options, r *builders.Resolved) bool {
		return r.Record.Kind() == builders.KindPreference &&
			(len(r.Origin.Tools) > 0 || len(r.Prompt.Nodes) > 1 && !o.FullHistory || has(r, moreThanText))
	},
	read: func(r *rowReader) *Row {
		if r.has("messages") {
			return r.chat()
		}
		return &Row{
			Kind:     builders.KindPreference,
			Prompt:   r.passage("prompt", plainMessage),
			Chosen:   r.text("chosen_response"),
			Rejected: r.text("rejected_response"),
		}
	},
	columns: func(k builders.Kind, c columns) parquet.Group {
		if k == builders.KindDemonstration {
			return c.withTools(parquet.Group{"messages": c.messages()})
		}
		prompt := parquet.String()
		if c.FullHistory {
			prompt = plainMessages
		}
		response := parquet.String()
		return parquet.Group{"prompt": prompt, "chosen_response": response, "rejected_response": response}
	},
}

func (e *Encoder) customizerRow(dst []byte, r *builders.Resolved) []byte {
	if r.Record.Kind() == builders.KindDemonstration { // the service trains on all assistant turns
		return e.chatRow(dst, r)
	}
	chosen, rejected := e.sideText("chosen", r.Chosen), e.sideText("rejected", r.Rejected)
	dst = e.customizerPrompt(append(dst, `{"prompt": `...), r.Prompt)
	dst = e.member(dst, `, "chosen_response": `, chosen)
	dst = e.member(dst, `, "rejected_response": `, rejected)
	return append(dst, '}')
}

// customizerPrompt appends a prompt as NAT's _format_prompt does. If use_full_message_history is set, the prompt is a
// list of messages, and text becomes one user message. Otherwise, it is the text, or the text of the last message.
func (e *Encoder) customizerPrompt(dst []byte, p builders.Passage) []byte {
	switch {
	case p.IsText() && e.opts.FullHistory:
		return append(e.member(dst, `[{"role": "user", "content": `, p.Text), "}]"...)
	case p.IsText():
		return e.text(dst, p.Text)
	case e.opts.FullHistory:
		return e.plainMessages(dst, p.Nodes, e.textOnly)
	case len(p.Nodes) == 0:
		return append(dst, `""`...)
	}
	last := e.content(&p.Nodes[len(p.Nodes)-1].Message)
	e.textOnly(last)
	return e.text(dst, last.Text)
}

// textOnly rejects messages with tool calls or non-text content, unless Options.NAT is set.
func (e *Encoder) textOnly(m *chat.Message) {
	switch {
	case e.opts.NAT:
	case len(m.ToolCalls) > 0:
		e.refuse("the %s message has tool calls", m.Role)
	case m.Form != chat.Text:
		e.refuse("the content of the %s message is not text", m.Role)
	}
}

// sideText returns the text of a chosen or rejected side, which must be a string or a single assistant message without
// tool calls.
func (e *Encoder) sideText(side string, p builders.Passage) string {
	switch {
	case p.IsText():
		return p.Text
	case len(p.Nodes) != 1 || p.Nodes[0].Message.Role != "assistant":
		e.refuse("the %s side is more than one assistant turn", side)
		return ""
	}
	m := e.content(&p.Nodes[0].Message)
	e.textOnly(m)
	return m.Text
}
