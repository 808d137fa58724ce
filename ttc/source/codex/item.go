package codex

import (
	"strings"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/calls"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/session"
)

// item takes in an item of the history.
func (t *thread) item(payload json.Raw, l session.Line) {
	meta, _ := l.JSON.Get("metadata")
	if meta == nil {
		meta, _ = payload.Get("metadata")
	}
	sequence, through := number(meta, "history_sequence", 0), number(meta, "sampled_through_sequence", -1)
	switch typ := session.Text(payload, "type"); typ {
	case "message":
		if session.Text(payload, "role") != "assistant" {
			t.close()
			content, _ := payload.Get("content")
			t.append(
				entry{
					sequence: sequence,
					message:  calls.Message{Message: message(role(session.Text(payload, "role")), content)},
				},
			)
			return
		}
		content, _ := payload.Get("content")
		t.answer(payload, sequence, through, l).addText(message("assistant", content))
	case "reasoning":
		content, _ := payload.Get("content")
		t.answer(payload, sequence, through, l).addReasoning(content)
	case "function_call", "custom_tool_call", "local_shell_call", "tool_search_call":
		call := toolCall(typ, payload)
		t.size += int64(len(call.Arguments))
		a := t.answer(payload, sequence, through, l)
		if call.AsObject {
			a.call.Gaps |= ttc.ParsedArguments
		}
		a.call.Output.ToolCalls = append(a.call.Output.ToolCalls, call)
	case "function_call_output", "custom_tool_call_output", "local_shell_call_output", "tool_search_output":
		t.close()
		t.append(entry{sequence: sequence, message: result(payload)})
	default:
		t.unread("items of type " + session.Name(typ))
	}
}

// answer is the answer that an item of the model belongs to: the one that is being read, or a new one.
func (t *thread) answer(payload json.Raw, sequence, through int64, l session.Line) *turn {
	if t.open != nil && t.open.through == through {
		return t.open
	}
	a := &turn{through: through, inherited: t.inherited, missing: t.missing, rebuilt: t.rebuilt}
	for _, e := range t.history {
		if through < 0 || e.sequence <= through {
			a.input = append(a.input, e)
		}
	}
	a.call = calls.Call{
		ID: firstOf(
			session.Text(payload, "call_id"),
			session.Text(payload, "id"),
		), Model: t.model, Time: session.Nanoseconds(session.Text(l.JSON, "timestamp")),
		Output: chat.Message{Role: "assistant", Form: chat.Null}, Tools: t.tools, File: t.path, Offset: l.Offset,
	}
	if t.tools == nil {
		a.call.Gaps |= ttc.NoTools
	}
	if len(a.input) == 0 || a.input[0].message.Role != "system" {
		a.call.Gaps |= ttc.NoSystem
	}
	if t.rebuilt {
		a.call.Gaps |= ttc.RebuiltHistory
	}
	t.open, t.last = a, a
	t.answers = append(t.answers, a)
	t.history = append(t.history, entry{sequence: sequence, turn: a})
	return a
}

func (a *turn) addText(m chat.Message) {
	out := &a.call.Output
	if out.Form == chat.Text && m.Form == chat.Text {
		out.Text += "\n" + m.Text
		return
	}
	out.Form, out.Text, out.Parts = m.Form, m.Text, m.Parts
}

// addReasoning takes in reasoning, whose text is there only for models that show it. A summary is not what the model
// wrote.
func (a *turn) addReasoning(content json.Raw) {
	var texts []string
	for e := range content.Elements() {
		if s := session.Text(e, "text"); s != "" {
			texts = append(texts, s)
		}
	}
	if texts == nil {
		a.call.Gaps |= ttc.HiddenReasoning
		return
	}
	out := &a.call.Output
	out.ReasoningKey = "reasoning_content"
	if out.Reasoning != "" {
		out.Reasoning += "\n"
	}
	out.Reasoning += strings.Join(texts, "\n")
}

func toolCall(typ string, payload json.Raw) chat.ToolCall {
	call := chat.ToolCall{ID: session.Text(payload, "call_id"), Type: "function", Name: session.Text(payload, "name")}
	switch typ {
	case "function_call", "tool_search_call":
		arguments, _ := payload.Get("arguments")
		if text, ok := arguments.Text(); ok {
			call.Arguments = text
		} else {
			call.Arguments, call.AsObject = string(arguments), arguments.Kind() == json.Object
		}
	case "custom_tool_call":
		// A text in a grammar of its own. It is written as those clients do that offer such a tool as a function.
		call.Arguments = string(json.AppendString([]byte(`{"input":`), session.Text(payload, "input"))) + "}"
		call.AsObject = true
	case "local_shell_call":
		action, _ := payload.Get("action")
		call.Name, call.Arguments, call.AsObject = "local_shell", string(action), true
	}
	if namespace := session.Text(payload, "namespace"); namespace != "" {
		call.Name = namespace + "." + call.Name
	}
	if parsed, err := json.Parse([]byte(call.Arguments), json.Limits{}); err == nil {
		call.Parsed = append(json.Raw(nil), parsed...)
	}
	return call
}

// result is the output of a call: a text, an object with one under content, or a list of parts.
func result(payload json.Raw) calls.Message {
	output, _ := payload.Get("output")
	if output == nil {
		output, _ = payload.Get("tools")
	}
	var failed *bool
	if output.Kind() == json.Object {
		if v, ok := output.Get("success"); ok {
			if success, ok := v.Bool(); ok {
				no := !success
				failed = &no
			}
		}
		if content, ok := output.Get("content"); ok {
			output = content
		}
	}
	m := message("tool", output)
	m.ToolCallID = session.Text(payload, "call_id")
	return calls.Message{Message: m, Error: failed}
}

// message makes a message of a content: a text, or parts; parts that are texts alone are one text.
func message(role string, content json.Raw) chat.Message {
	m := chat.Message{Role: role, Form: chat.Text}
	if text, ok := content.Text(); ok {
		m.Text = text
		return m
	}
	var texts []string
	for e := range content.Elements() {
		switch typ := session.Text(e, "type"); typ {
		case "input_text", "output_text", "text":
			texts = append(texts, session.Text(e, "text"))
			raw := json.AppendString([]byte(`{"type":"text","text":`), session.Text(e, "text"))
			m.Parts = append(m.Parts, chat.Part{Type: "text", Text: session.Text(e, "text"), Raw: append(raw, '}')})
		default:
			m.Form = chat.Parts
			m.Parts = append(m.Parts, chat.Part{Type: typ, Raw: append(json.Raw(nil), e...)})
		}
	}
	if m.Form == chat.Text {
		m.Text, m.Parts = strings.Join(texts, "\n"), nil
	}
	return m
}

func userText(text string) calls.Message {
	return calls.Message{Message: chat.Message{Role: "user", Form: chat.Text, Text: text}}
}

// role is a role in the words of chat templates, which know no developer.
func role(r string) string {
	if r == "developer" {
		return "system"
	}
	return r
}

// dynamicTools reads definitions that a client brought: {name, description, inputSchema}.
func dynamicTools(list json.Raw) []chat.Tool {
	out := []chat.Tool{}
	for e := range list.Elements() {
		name, _ := e.Get("name")
		if name.Kind() != json.String {
			continue
		}
		b := append([]byte(`{"type":"function","function":{"name":`), name...)
		if d, ok := e.Get("description"); ok {
			b = append(append(b, `,"description":`...), d...)
		}
		for _, key := range []string{"inputSchema", "input_schema", "parameters"} {
			if p, ok := e.Get(key); ok {
				b = append(append(b, `,"parameters":`...), p...)
				break
			}
		}
		text, _ := name.Text()
		out = append(out, chat.Tool{Name: text, Raw: append(b, "}}"...)})
	}
	return out
}

func number(raw json.Raw, key string, otherwise int64) int64 {
	v, _ := raw.Get(key)
	if n, ok := v.Int64(); ok {
		return n
	}
	return otherwise
}

func firstOf(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}
