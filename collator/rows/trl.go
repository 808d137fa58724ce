package rows

import (
	"bytes"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// trl is the format of TRL's DPOTrainer and SFTTrainer: the conversational preference format with an explicit prompt,
// and the conversational prompt-completion format (https://huggingface.co/docs/trl/dataset_formats), one row for each
// trained turn. A side of a pair may have several messages, all of which TRL treats as the completion: tool results
// between turns are trained on too.
var trl = Format{
	Name:     "trl",
	Consumer: "TRL (DPOTrainer, SFTTrainer)",
	Shape:    `{"prompt": [messages], "chosen": [message], "rejected": [message]}; sft.jsonl: {"prompt": [messages], "completion": [message]}`,
	Carries:  []builders.Kind{builders.KindPreference, builders.KindDemonstration},
	Files:    func(k builders.Kind, s Split) string { return fileName(k, s) + ".jsonl" },
	holds:    "preferences and demonstrations",
	encode:   (*Encoder).trlRow,
	several:  true,
	read:     (*rowReader).trl,
	columns: func(k builders.Kind, c columns) parquet.Group {
		if k == builders.KindDemonstration {
			return c.withTools(parquet.Group{"prompt": c.messages(), "completion": c.messages()})
		}
		return c.withTools(parquet.Group{"prompt": c.passage(), "chosen": c.passage(), "rejected": c.passage()})
	},
}

// fileName returns the split's name or, for demonstrations, sft or sft_validation.
func fileName(k builders.Kind, s Split) string {
	switch {
	case k != builders.KindDemonstration:
		return s.String()
	case s == Validation:
		return "sft_validation"
	}
	return "sft"
}

func (r *rowReader) trl() *Row {
	row := &Row{Kind: builders.KindPreference, Prompt: r.passage("prompt", fullMessage)}
	if r.has("completion") {
		row.Kind = builders.KindDemonstration
		row.Completion = r.turns("completion")
		r.oneForm("prompt", row.Prompt, row.Completion)
	} else {
		row.Chosen, row.Rejected = r.turns("chosen"), r.turns("rejected")
		r.oneForm("prompt", row.Prompt, row.Chosen, row.Rejected)
	}
	r.tools()
	return row
}

func (e *Encoder) trlRow(dst []byte, r *builders.Resolved) []byte {
	if r.Record.Kind() == builders.KindDemonstration {
		return e.trlDemonstration(dst, r)
	}
	e.plainTexts(r)
	dst = e.trlPassage(dst, `{"prompt": `, "prompt", &r.Prompt)
	dst = e.trlPassage(dst, `, "chosen": `, "chosen", &r.Chosen)
	dst = e.trlPassage(dst, `, "rejected": `, "rejected", &r.Rejected)
	return append(e.appendTools(dst, r.Origin.Tools), '}')
}

// plainTexts rejects a pair with anything but plain strings if the file holds only those: the trainer applies no chat
// template to such rows, so tools would be lost.
func (e *Encoder) plainTexts(r *builders.Resolved) {
	switch {
	case e.opts.TextPrompt != PlainText:
	case !r.Prompt.IsText() || !r.Chosen.IsText() || !r.Rejected.IsText():
		e.refuse("a file with prompt_as: text holds only plain text, but this record has messages")
	case len(r.Origin.Tools) > 0:
		e.refuse("a file with prompt_as: text holds only plain text, but this record has tools")
	}
}

// trlPassage appends a key and a prompt or a continuation, as text if the file holds only plain strings.
func (e *Encoder) trlPassage(dst []byte, key, name string, p *builders.Passage) []byte {
	dst = append(dst, key...)
	if e.opts.TextPrompt == PlainText {
		return e.text(dst, p.Text)
	}
	return e.trlSide(dst, name, p)
}

// trlSide appends a prompt or a continuation as messages. Text becomes one message. A continuation begins and ends
// with an assistant turn. Passages are passed by pointer here and in curation, because reading a copy right after
// writing it, with loads wider than the stores, stalls the processor.
func (e *Encoder) trlSide(dst []byte, name string, p *builders.Passage) []byte {
	n := len(p.Nodes)
	switch {
	case p.IsText() && name == "prompt":
		return append(e.member(dst, `[{"role": "user", "content": `, p.Text), "}]"...)
	case p.IsText():
		return append(e.member(dst, `[{"role": "assistant", "content": `, p.Text), "}]"...)
	case name == "prompt":
	case n == 0 || p.Nodes[0].Message.Role != "assistant" || p.Nodes[n-1].Message.Role != "assistant":
		e.refuse("the %s side doesn't begin and end with an assistant turn", name)
	case n > 1 && !e.several:
		e.refuse("the %s side is more than one assistant turn", name)
	}
	return e.fullMessages(dst, p.Nodes)
}

// trlDemonstration writes a row for each trained turn. The prompt is everything before the turn, because TRL trains on
// the whole completion. With Options.Stretch the completion extends to the last turn before a context-only one, and the
// trainer has to mask all messages in it except the assistant's.
func (e *Encoder) trlDemonstration(dst []byte, r *builders.Resolved) []byte {
	nodes, trained := e.demonstrated(r)
	return e.eachTurn(dst, nodes, trained, e.opts.Stretch, func(dst []byte, from, to int) []byte {
		dst = e.fullMessages(append(dst, `{"prompt": `...), nodes[:from])
		dst = e.fullMessages(append(dst, `, "completion": `...), nodes[from:to])
		return append(e.appendTools(dst, r.Origin.Tools), '}')
	})
}

// toolList is a list of tools in rows. Most rows have the same tools as the previous one, so the list is encoded once.
type toolList struct {
	raw  []json.Raw
	json []byte
	text []byte // json as a JSON string; nil until a row needs it
	lone bool   // contains half a surrogate pair
}

// listOf returns the list of a row's tools.
func (e *Encoder) listOf(tools []chat.Tool) *toolList {
	l := &e.tools
	if !slices.EqualFunc(tools, l.raw, func(t chat.Tool, raw json.Raw) bool { return bytes.Equal(t.Raw, raw) }) {
		*l = toolList{json: []byte{'['}}
		for _, t := range tools {
			start := len(l.json)
			l.json = json.AppendCompact(item(l.json), t.Raw)
			l.lone = l.lone || loneSurrogate(l.json[start:])
			l.raw = append(l.raw, slices.Clone(t.Raw)) // the record's memory is reused
		}
		l.json = append(l.json, ']')
	}
	e.lone = e.lone || l.lone
	return l
}

// appendTools appends the tools member, if there are tools. They are a separate column, which is passed to chat
// templates.
func (e *Encoder) appendTools(dst []byte, tools []chat.Tool) []byte {
	if len(tools) == 0 {
		return dst
	}
	return append(append(dst, `, "tools": `...), e.listOf(tools).json...)
}

// appendToolsText appends the tools member as a JSON string, which loaders leave unchanged.
func (e *Encoder) appendToolsText(dst []byte, tools []chat.Tool) []byte {
	if len(tools) == 0 {
		return dst
	}
	l := e.listOf(tools)
	if l.text == nil {
		l.text = json.AppendASCII(nil, string(l.json))
	}
	return append(append(dst, `, "tools": `...), l.text...)
}
