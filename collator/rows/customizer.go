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
	open:  func(e *Encoder) { e.encode = each((*Encoder).customizerRow) },
	parts: []builders.Kind{builders.KindPreference},
	partly: func(o Options, r *builders.Resolved) bool {
		return r.Record.Kind() == builders.KindPreference &&
			(len(r.Origin.Tools) > 0 || len(r.Prompt.Nodes) > 1 && !o.FullHistory || has(r, moreThanText))
	},
	read: func(r *rowReader) *Row {
		if r.has("messages") {
			row := r.conversation(fullMessage)
			r.tools()
			return row
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

func (e *Encoder) customizerRow(dst []byte, r *builders.Resolved) ([]byte, error) {
	switch r.Record.(type) {
	case *builders.Preference:
	case *builders.Demonstration: // the service trains on all assistant turns
		return e.chatRow(dst, r)
	default:
		return dst, e.refuse("the format holds only preferences and demonstrations")
	}
	chosen, err := e.sideText("chosen", r.Chosen)
	if err != nil {
		return dst, err
	}
	rejected, err := e.sideText("rejected", r.Rejected)
	if err != nil {
		return dst, err
	}
	dst = append(dst, `{"prompt": `...)
	if dst, err = e.customizerPrompt(dst, r.Prompt); err != nil {
		return dst, err
	}
	dst = append(dst, `, "chosen_response": `...)
	if dst, err = e.text(dst, chosen); err != nil {
		return dst, err
	}
	dst = append(dst, `, "rejected_response": `...)
	if dst, err = e.text(dst, rejected); err != nil {
		return dst, err
	}
	return append(dst, '}'), nil
}

// customizerPrompt follows NAT's _format_prompt: messages if use_full_message_history is set (text becomes one user
// message), otherwise the text, or the last message's text.
func (e *Encoder) customizerPrompt(dst []byte, p builders.Passage) ([]byte, error) {
	var err error
	switch {
	case p.IsText() && e.opts.FullHistory:
		dst = append(dst, `[{"role": "user", "content": `...)
		dst, err = e.text(dst, p.Text)
		return append(dst, "}]"...), err
	case p.IsText():
		return e.text(dst, p.Text)
	case e.opts.FullHistory:
		return e.plainMessages(dst, p.Nodes, e.textOnly)
	case len(p.Nodes) == 0:
		return append(dst, `""`...), nil
	}
	last := e.content(&p.Nodes[len(p.Nodes)-1].Message)
	if err := e.textOnly(last); err != nil {
		return dst, err
	}
	return e.text(dst, last.Text)
}

// textOnly refuses messages with tool calls or non-text content, unless Options.NAT is set.
func (e *Encoder) textOnly(m *chat.Message) error {
	switch {
	case e.opts.NAT:
		return nil
	case len(m.ToolCalls) > 0:
		return e.refuse("the %s message has tool calls", m.Role)
	case m.Form != chat.Text:
		return e.refuse("the content of the %s message is not text", m.Role)
	}
	return nil
}

// sideText returns the text of a chosen or rejected side, which must be a string or a single assistant message without
// tool calls.
func (e *Encoder) sideText(side string, p builders.Passage) (string, error) {
	switch {
	case p.IsText():
		return p.Text, nil
	case len(p.Nodes) != 1 || p.Nodes[0].Message.Role != "assistant":
		return "", e.refuse("the %s side is more than one assistant turn", side)
	}
	m := e.content(&p.Nodes[0].Message)
	return m.Text, e.textOnly(m)
}
