package rows

import (
	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc/chat"
)

// customizer is what NeMo Customizer v1 reads, as NAT 1.9.0 writes it (nemo_customizer_trainer_adapter).
var customizer = Format{
	Name:     "customizer",
	Consumer: "NeMo Customizer v1",
	Shape:    `{"prompt": text or [{role, content}], "chosen_response": text, "rejected_response": text}`,
	Carries:  []builders.Kind{builders.KindPreference},
	Files: func(_ builders.Kind, s Split) string {
		if s == Validation {
			return "validation_file.jsonl"
		}
		return "training_file.jsonl"
	},
	open: func(e *Encoder) { e.encode = (*Encoder).customizerRow },
	read: func(r *rowReader) *Row {
		return &Row{
			Kind:     builders.KindPreference,
			Prompt:   r.passage("prompt", plainMessage),
			Chosen:   r.text("chosen_response"),
			Rejected: r.text("rejected_response"),
		}
	},
}

func (e *Encoder) customizerRow(dst []byte, r *builders.Resolved) ([]byte, error) {
	if r.Record.Kind() != builders.KindPreference {
		return dst, e.refuse("it holds preferences only")
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

// customizerPrompt follows NAT's _format_prompt: messages with use_full_message_history (a text becomes one user message),
// else the text, or the last message's text.
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
	last := &p.Nodes[len(p.Nodes)-1].Message
	if err := e.textOnly(last); err != nil {
		return dst, err
	}
	return e.text(dst, last.Text)
}

// textOnly refuses messages of which {role, content} would lose something.
func (e *Encoder) textOnly(m *chat.Message) error {
	switch {
	case e.opts.NAT:
		return nil
	case len(m.ToolCalls) > 0:
		return e.refuse("the %s message has tool calls", m.Role)
	case m.Form != chat.Text:
		return e.refuse("the content of the %s message is no text", m.Role)
	}
	return nil
}

// sideText is the text of a chosen or rejected side: a text, or a single assistant message without tool calls.
func (e *Encoder) sideText(side string, p builders.Passage) (string, error) {
	switch {
	case p.IsText():
		return p.Text, nil
	case len(p.Nodes) != 1 || p.Nodes[0].Message.Role != "assistant":
		return "", e.refuse("the %s side is more than one assistant turn", side)
	}
	m := &p.Nodes[0].Message
	return m.Text, e.textOnly(m)
}
