package rows

import (
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// msSwift is ms-swift's own conversation format (4.6, docs: Custom dataset): each tool call is a message, reasoning is
// part of the text, tools are a JSON string, and loss says whether the assistant's text or a call is trained on.
// Consecutive assistant messages become one, each part with its own loss (_swift_prepare_inputs in
// swift/template/base.py). This allows reasoning to be context for a trained answer. The format can't hold ids, so
// results belong to the calls before them, in order, and the record is read back without ids. It can be verified only
// by encoding it again.
var msSwift = Format{
	Name:     "ms_swift",
	Consumer: "ms-swift (swift sft)",
	Shape:    `{"messages": [{role, content, "loss"?: true or false}; calls as role tool_call, results as tool_response], "tools"?: JSON text}`,
	Carries:  []builders.Kind{builders.KindDemonstration},
	Files:    splitFiles,
	holds:    "demonstrations",
	encode:   (*Encoder).msSwiftRow,
	read:     (*rowReader).msSwift,
	parts:    []builders.Kind{builders.KindDemonstration},
	partly:   func(_ Options, r *builders.Resolved) bool { return has(r, named) },

	TakesNull:  true, // ms-swift treats a null messages[].loss as missing
	cannotMask: func(*chat.Message) string { return "" },
	columns: func(_ builders.Kind, c columns) parquet.Group {
		return c.withToolsText(parquet.Group{"messages": parquet.List(parquet.Group{
			"role": parquet.String(), "content": parquet.String(),
			"loss": parquet.Optional(parquet.Leaf(parquet.BooleanType)),
		})})
	},
}

// ms-swift's roles for calls and results.
const (
	swiftCall   = "tool_call"
	swiftResult = "tool_response"
)

// How ms-swift writes reasoning before the text of a turn.
const (
	thinkStart = chat.ThoughtStart + "\n"
	thinkEnd   = "\n" + chat.ThoughtEnd + "\n\n"
)

func (e *Encoder) msSwiftRow(dst []byte, r *builders.Resolved) []byte {
	nodes, trained := e.demonstrated(r)
	e.hasRole(nodes, "system", "user", "assistant", "tool")
	e.inOrder(nodes)
	start := len(dst)
	dst = append(dst, `{"messages": [`...)
	for i := range nodes {
		dst = e.msSwiftMessage(dst, e.unnamed(&nodes[i].Message), trained[i])
		if trained[i] {
			e.carry(1)
		}
	}
	dst = e.appendToolsText(append(dst, ']'), r.Origin.Tools)
	e.lone = loneSurrogate(dst[start:])
	return append(dst, '}')
}

// msSwiftMessage appends the message in ms-swift's form, as one message or several.
func (e *Encoder) msSwiftMessage(dst []byte, m *chat.Message, trained bool) []byte {
	message := func(dst []byte, role, content string) []byte {
		dst = json.AppendASCII(append(item(dst), `{"role": `...), role)
		dst = json.AppendASCII(append(dst, `, "content": `...), content)
		if m.Role == "assistant" {
			dst = strconv.AppendBool(append(dst, `, "loss": `...), trained)
		}
		return append(dst, '}')
	}
	if m.Form == chat.Parts {
		return e.refused(dst, "the content of the %s message is not text", m.Role)
	}
	switch m.Role {
	case "system", "user":
		return message(dst, m.Role, m.Text)
	case "tool":
		return message(dst, swiftResult, m.Text)
	}
	text, end := m.Text, m.Thought()
	if m.ReasoningKey != "" {
		text, end = thinkStart+m.Reasoning+thinkEnd+text, len(thinkStart)+len(m.Reasoning)+1
	}
	if trained && e.masked && end > 0 {
		end += len(chat.ThoughtEnd)
		end += len(text[end:]) - len(strings.TrimLeft(text[end:], "\n"))
		trained = false
		dst = message(dst, m.Role, text[:end])
		text, trained = text[end:], true
	}
	if text != "" || len(m.ToolCalls) == 0 {
		dst = message(dst, m.Role, text)
	}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		if c.Parsed.Kind() != json.Object || !json.Valid(c.Parsed) {
			return e.refused(dst, "the arguments of a call to %q are not a JSON object", c.Name)
		}
		call := json.AppendASCII([]byte(`{"name": `), c.Name)
		call = append(json.AppendCompact(append(call, `, "arguments": `...), c.Parsed), '}')
		dst = message(dst, swiftCall, string(call))
	}
	return dst
}

// inOrder rejects tool results that aren't in the same order as the preceding calls.
func (e *Encoder) inOrder(nodes []ttc.Node) {
	var calls []chat.ToolCall
	for i := range nodes {
		m := &nodes[i].Message
		switch {
		case m.Role != "tool":
			calls = m.ToolCalls
		case len(calls) == 0:
			e.refuse("message %d is a result without a preceding call", i)
		case m.ToolCallID != "" && calls[0].ID != m.ToolCallID:
			e.refuse("message %d is not the result of the next call, and the format cannot hold ids", i)
		default:
			calls = calls[1:]
		}
	}
}

// msSwift reads a conversation back, reattaching calls to the turns that made them.
func (r *rowReader) msSwift() *Row {
	var flags []bool
	p := r.passage("messages", flagReader("loss", &flags, plainMessage))
	row := &Row{Kind: builders.KindDemonstration, WholePrompt: true}
	var messages []chat.Message
	for i := range p.Nodes {
		m := p.Nodes[i].Message
		n := len(messages)
		open := n > 0 && messages[n-1].Role == "assistant"
		ours := m.Role == "assistant" || m.Role == swiftCall
		if open && ours && flags[i] && onlyThought(&messages[n-1]) && !row.Trained[n-1] {
			row.Trained[n-1], row.MaskReasoning = true, true // the previous message is the reasoning of this turn
			if m.Role == "assistant" {
				messages[n-1].Text = m.Text
				continue
			}
		}
		switch m.Role {
		case "system", "user":
		case swiftResult:
			m.Role = "tool"
		case "assistant":
			if rest, ok := strings.CutPrefix(m.Text, thinkStart); ok {
				if reasoning, text, ok := strings.Cut(rest, thinkEnd); ok {
					m.Reasoning, m.ReasoningKey, m.Text = reasoning, "reasoning_content", text
				}
			}
		case swiftCall:
			call, err := chat.ParseMessages(json.Raw(`[{"role":"assistant","tool_calls":[{"function":` + m.Text + `}]}]`))
			if err != nil || len(call) != 1 || len(call[0].ToolCalls) != 1 {
				r.fail("messages", "has a tool_call message %d that is not a call", i)
				return row
			}
			if open && row.Trained[n-1] == flags[i] {
				messages[n-1].ToolCalls = append(messages[n-1].ToolCalls, call[0].ToolCalls[0])
				continue
			}
			m = call[0]
		default:
			r.fail("messages", "has a message %d with the unknown role %q", i, m.Role)
			return row
		}
		messages, row.Trained = append(messages, m), append(row.Trained, flags[i])
	}
	nodes := ttc.Chain(messages, ttc.No).Nodes
	if n := len(nodes); n == 0 || !row.Trained[n-1] {
		r.fail("messages", "does not end with a message that is trained on")
	} else {
		row.Prompt.Nodes, row.Completion.Nodes = nodes[:n-1], nodes[n-1:]
	}
	r.toolsText()
	return row
}

// onlyThought reports whether a message has reasoning and nothing else.
func onlyThought(m *chat.Message) bool {
	return m.ReasoningKey != "" && m.Text == "" && len(m.ToolCalls) == 0
}
