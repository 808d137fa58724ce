package rows

import (
	"cmp"
	"errors"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/turns"
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
	open:     func(e *Encoder) { e.encode = each((*Encoder).trlPrompt) },
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
	open:     func(e *Encoder) { e.encode, e.textArguments = each((*Encoder).nemoGymRow), true },
	read:     (*rowReader).nemoGym,
	columns: func(_ builders.Kind, c columns) parquet.Group {
		return parquet.Group{
			"responses_create_params": c.value(), "agent_ref": parquet.Optional(c.value()), "task": parquet.String(),
			"state": parquet.String(), "ground_truth": parquet.Optional(parquet.String()),
		}
	},
}

// prompted returns a record's state. It refuses records of other kinds, and plain-text prompts.
func (e *Encoder) prompted(r *builders.Resolved) (*builders.State, error) {
	s, ok := r.Record.(*builders.State)
	if !ok || r.Messages.IsText() {
		return nil, e.refuse("the format holds only states: prompts made of messages, without an answer")
	}
	return s, nil
}

// endState appends a state's task and metadata, and the value that its checker compares answers with. The metadata is a
// string, because its shape differs between rows.
func (e *Encoder) endState(dst []byte, r *builders.Resolved, s *builders.State) ([]byte, error) {
	dst, err := e.text(append(dst, `, "task": `...), s.Task)
	if err == nil {
		dst, err = e.text(append(dst, `, "state": `...), cmp.Or(string(e.compact(nil, s.Metadata)), "{}"))
	}
	if truth, ok := truthOf(r); ok && err == nil {
		dst, err = e.text(append(dst, `, "ground_truth": `...), truth)
	}
	return append(dst, '}'), err
}

func (r *rowReader) state() {
	if r.has("ground_truth") {
		r.take("ground_truth", json.String)
	}
	r.take("task", json.String)
	r.take("state", json.String)
}

func (e *Encoder) trlPrompt(dst []byte, r *builders.Resolved) ([]byte, error) {
	s, err := e.prompted(r)
	if err != nil {
		return dst, err
	}
	if e.opts.Render == nil {
		return dst, e.refuse("the format's prompts are rendered with the model's template: specify the model's folder (collator.tokenizer)")
	}
	text, err := rendered(e.opts.Render, r)
	if err != nil {
		return dst, e.refuse("the model's template refuses the prompt: %v", err)
	}
	if dst, err = e.text(append(dst, `{"prompt": `...), text); err != nil {
		return dst, err
	}
	return e.endState(dst, r, s)
}

// rendered renders a prompt with the model's template.
func rendered(t *turns.Renderer, r *builders.Resolved) (string, error) {
	messages := make([]chat.Message, len(r.Messages.Nodes))
	for i := range messages {
		messages[i] = r.Messages.Nodes[i].Message
	}
	values, err := template.Conversation(messages)
	tools, failed := template.ToolList(r.Origin.Tools)
	if err = errors.Join(err, failed); err != nil {
		return "", err
	}
	res, err := t.Render(&turns.Conversation{Messages: values, Tools: tools, Open: true})
	return res.Text, err
}

func (e *Encoder) nemoGymRow(dst []byte, r *builders.Resolved) ([]byte, error) {
	s, err := e.prompted(r)
	if err != nil {
		return dst, err
	}
	if err = e.hasRole(r.Messages.Nodes, "system", "developer", "user", "assistant", "tool"); err != nil {
		return dst, err
	}
	dst = append(dst, `{"responses_create_params": {"input": [`...)
	for i := range r.Messages.Nodes {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		if dst, err = e.items(dst, i, e.shown(&r.Messages.Nodes[i].Message)); err != nil {
			return dst, err
		}
	}
	dst = append(dst, ']')
	for i, t := range r.Origin.Tools {
		definition := t.Raw
		f, ok := definition.Get("function")
		if !ok || f.Kind() != json.Object {
			return dst, e.refuse("the tool %q is not defined as a function", t.Name)
		}
		dst = append(dst, [...]string{`, "tools": [`, `, `}[min(i, 1)]...)
		dst = append(dst, `{"type": "function"`...)
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
func (e *Encoder) items(dst []byte, n int, m *chat.Message) ([]byte, error) {
	if m.Form == chat.Parts {
		return dst, e.refuse("the content of the %s message is not text", m.Role)
	}
	var err error
	member := func(key, text string) {
		if err == nil {
			dst, err = e.text(append(dst, key...), text)
		}
	}
	if unnamed := func(c chat.ToolCall) bool { return c.ID == "" }; m.Role == "tool" && m.ToolCallID == "" ||
		slices.ContainsFunc(m.ToolCalls, unnamed) {
		return dst, e.refuse("the %s message lacks its call's id", m.Role)
	}
	if m.Role == "tool" {
		member(`{"type": "function_call_output", "call_id": `, m.ToolCallID)
		member(`, "output": `, m.Text)
		return append(dst, '}'), err
	}
	between := func() {
		if dst[len(dst)-1] == '}' {
			dst = append(dst, ", "...)
		}
	}
	if m.ReasoningKey != "" {
		dst = strconv.AppendInt(append(dst, `{"type": "reasoning", "id": "rs_`...), int64(n), 10)
		member(`", "summary": [{"type": "summary_text", "text": `, m.Reasoning)
		dst = append(dst, "}]}"...)
	}
	if m.Text != "" || len(m.ToolCalls) == 0 {
		between()
		member(`{"role": `, m.Role)
		member(`, "content": `, m.Text)
		dst = append(dst, '}')
	}
	for i := range m.ToolCalls {
		between()
		member(`{"type": "function_call", "call_id": `, m.ToolCalls[i].ID)
		member(`, "name": `, m.ToolCalls[i].Name)
		member(`, "arguments": `, m.ToolCalls[i].Arguments)
		dst = append(dst, '}')
	}
	return dst, err
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
