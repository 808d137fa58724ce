package rows

import (
	"cmp"
	"errors"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/json"
)

// trlPrompts is the format that TRL's GRPOTrainer and OnlineDPOTrainer sample from. They take tools from the trainer,
// not from a row, so a prompt is the messages and tools rendered with the model's own template, up to and including the
// generation prompt. TRL neither applies a template to a string nor adds special tokens to it.
var trlPrompts = Format{
	Name:     "trl_prompts",
	Consumer: "TRL (GRPOTrainer, OnlineDPOTrainer)",
	Shape:    `{"prompt": text, "task": text, "state": JSON text}`,
	Carries:  []builders.Kind{builders.KindState},
	Files:    splitFiles,
	parts:    []builders.Kind{builders.KindState},
	holds:    onlyStates,
	encode:   (*Encoder).trlPrompt,
	read: func(r *rowReader) *Row {
		row := &Row{Kind: builders.KindState, Prompt: r.text("prompt")}
		r.state()
		return row
	},
	columns: func(_ builders.Kind, c columns) parquet.Group {
		return parquet.Group{
			"prompt": parquet.String(), "task": parquet.String(), "state": parquet.String(),
			"ground_truth": parquet.Optional(parquet.String()),
		}
	},
}

// nemoGym is NeMo Gym's data set format: a Responses API request, from which the agent named by agent_ref continues.
// Additional keys reach the agent's verifier.
var nemoGym = Format{
	Name:     "nemo_gym",
	Consumer: "NeMo Gym",
	Shape:    `{"responses_create_params": {"input": [items], "tools": [definitions]}, "agent_ref": {"type", "name"}, "task": text, "state": JSON text}`,
	Carries:  []builders.Kind{builders.KindState},
	Service:  true,
	Files:    splitFiles,
	parts:    []builders.Kind{builders.KindState},
	partly:   func(_ Options, r *builders.Resolved) bool { return has(r, named) },
	holds:    onlyStates,
	encode:   (*Encoder).nemoGymRow,
	read:     (*rowReader).nemoGym,
	columns: func(_ builders.Kind, c columns) parquet.Group {
		return parquet.Group{
			"responses_create_params": c.value(), "agent_ref": parquet.Optional(c.value()), "task": parquet.String(),
			"state": parquet.String(), "ground_truth": parquet.Optional(parquet.String()),
		}
	},

	textArguments: true,
}

const onlyStates = "states: prompts made of messages, without an answer"

// prompted returns a record's state. It rejects plain-text prompts.
func (e *Encoder) prompted(r *builders.Resolved) *builders.State {
	if r.Messages.IsText() {
		e.refuse("the format holds only %s", onlyStates)
	}
	return r.Record.(*builders.State)
}

// endState appends a state's task and metadata, and the value that its checker compares answers with. The metadata is a
// string, because its shape differs between rows.
func (e *Encoder) endState(dst []byte, r *builders.Resolved, s *builders.State) []byte {
	dst = e.member(dst, `, "task": `, s.Task)
	dst = e.member(dst, `, "state": `, cmp.Or(string(e.compact(nil, s.Metadata)), "{}"))
	if truth, ok := truthOf(r); ok {
		dst = e.member(dst, `, "ground_truth": `, truth)
	}
	return append(dst, '}')
}

func (r *rowReader) state() {
	if r.has("ground_truth") {
		r.take("ground_truth", json.String)
	}
	r.take("task", json.String)
	r.take("state", json.String)
}

func (e *Encoder) trlPrompt(dst []byte, r *builders.Resolved) []byte {
	s := e.prompted(r)
	if e.opts.Render == nil {
		return e.refused(dst, "the format's prompts are rendered with the model's template: specify the model's folder (collator.tokenizer)")
	}
	text, err := rendered(e.opts.Render, r)
	if err != nil {
		return e.refused(dst, "the model's template rejects the prompt: %v", err)
	}
	return e.endState(e.member(dst, `{"prompt": `, text), r, s)
}

// rendered renders a prompt with the model's template.
func rendered(t *turns.Renderer, r *builders.Resolved) (string, error) {
	messages := lists.Map(r.Messages.Nodes, func(n ttc.Node) chat.Message { return n.Message })
	values, err := template.Conversation(messages)
	tools, failed := template.ToolList(r.Origin.Tools)
	if err = errors.Join(err, failed); err != nil {
		return "", err
	}
	res, err := t.Render(&turns.Conversation{Messages: values, Tools: tools, Open: true})
	return res.Text, err
}

func (e *Encoder) nemoGymRow(dst []byte, r *builders.Resolved) []byte {
	s := e.prompted(r)
	e.hasRole(r.Messages.Nodes, "system", "developer", "user", "assistant", "tool")
	dst = append(dst, `{"responses_create_params": {"input": [`...)
	for i := range r.Messages.Nodes {
		dst = e.items(dst, i, e.unnamed(&r.Messages.Nodes[i].Message))
	}
	dst = append(dst, ']')
	if len(r.Origin.Tools) > 0 {
		dst = append(dst, `, "tools": [`...)
	}
	for _, t := range r.Origin.Tools {
		f, ok := t.Raw.Get("function")
		if !ok || f.Kind() != json.Object {
			return e.refused(dst, "the tool %q is not defined as a function", t.Name)
		}
		dst = append(item(dst), `{"type": "function"`...)
		for key, value := range f.Members() {
			dst = append(append(append(append(dst, ", "...), key...), ": "...), e.compact(nil, value)...)
		}
		for _, key := range []string{"parameters", "strict"} { // the API requires these keys; null selects the default
			if _, ok := f.Get(key); !ok {
				dst = append(append(append(dst, `, "`...), key...), `": null`...)
			}
		}
		dst = append(dst, '}')
	}
	if len(r.Origin.Tools) > 0 {
		dst = append(dst, ']')
	}
	dst = append(dst, '}')
	if agent, ok := s.Metadata.Get("agent_ref"); ok {
		dst = e.compact(append(dst, `, "agent_ref": `...), agent)
	}
	return e.endState(dst, r, s)
}

// items appends a message as Responses API items. n numbers its reasoning item, which needs an id.
func (e *Encoder) items(dst []byte, n int, m *chat.Message) []byte {
	if m.Form == chat.Parts {
		return e.refused(dst, "the content of the %s message is not text", m.Role)
	}
	if unnamed := func(c chat.ToolCall) bool { return c.ID == "" }; m.Role == "tool" && m.ToolCallID == "" ||
		slices.ContainsFunc(m.ToolCalls, unnamed) {
		return e.refused(dst, "the %s message lacks its call's id", m.Role)
	}
	if m.Role == "tool" {
		dst = e.member(item(dst), `{"type": "function_call_output", "call_id": `, m.ToolCallID)
		return append(e.member(dst, `, "output": `, m.Text), '}')
	}
	if m.ReasoningKey != "" {
		dst = strconv.AppendInt(append(item(dst), `{"type": "reasoning", "id": "rs_`...), int64(n), 10)
		dst = append(e.member(dst, `", "summary": [{"type": "summary_text", "text": `, m.Reasoning), "}]}"...)
	}
	if m.Text != "" || len(m.ToolCalls) == 0 {
		dst = e.member(item(dst), `{"role": `, m.Role)
		dst = append(e.member(dst, `, "content": `, m.Text), '}')
	}
	for _, c := range m.ToolCalls {
		dst = e.member(item(dst), `{"type": "function_call", "call_id": `, c.ID)
		dst = e.member(dst, `, "name": `, c.Name)
		dst = append(e.member(dst, `, "arguments": `, c.Arguments), '}')
	}
	return dst
}

func (r *rowReader) nemoGym() *Row {
	row := &Row{Kind: builders.KindState}
	for _, key := range []string{"responses_create_params", "agent_ref"} {
		if v := r.fields[key]; r.parsed && v.Kind() == json.String {
			text, _ := v.Text()
			r.fields[key] = json.Raw(text)
		}
	}
	params := r.object("responses_create_params", r.take("responses_create_params", json.Object))
	input := params.take("input", json.Array)
	for item := range input.Elements() {
		m := chat.Message{Role: "tool", Form: chat.Text}
		text := func(key string) (s string) { v, _ := item.Get(key); s, _ = v.Text(); return s }
		switch text("type") {
		case "function_call_output":
			m.ToolCallID, m.Text = text("call_id"), text("output")
		case "function_call":
			m.Role, m.Form = "assistant", chat.Null
			m.ToolCalls = []chat.ToolCall{{ID: text("call_id"), Name: text("name"), Arguments: text("arguments")}}
		case "reasoning":
			m.Role, m.Form, m.ReasoningKey = "assistant", chat.Null, "reasoning_content"
			summary, _ := item.Get("summary")
			for part := range summary.Elements() {
				v, _ := part.Get("text")
				of, _ := v.Text()
				m.Reasoning += of
			}
		default:
			if m.Role, m.Text = text("role"), text("content"); m.Role == "" {
				params.fail("input", "has an item without a role")
			}
		}
		row.Prompt.Nodes = append(row.Prompt.Nodes, ttc.Node{Parent: len(row.Prompt.Nodes) - 1, Message: m})
	}
	params.tools()
	r.listed = params.listed
	r.adopt("responses_create_params", params)
	delete(r.fields, "agent_ref")
	r.state()
	return row
}
