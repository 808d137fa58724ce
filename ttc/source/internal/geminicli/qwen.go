package geminicli

import (
	"slices"
	"strings"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Qwen returns the factory for Qwen Code sessions, which a configuration selects by its type.
func Qwen() source.Factory {
	return session.Format{
		Type: "qwen_code", Doc: "sessions of Qwen Code (~/.qwen)", Extensions: []string{".jsonl"},
		Recognize: session.Marked(isLine, "sessionId"),
		Entries:   session.Stateless("lines without a message", keyOf, sessions),
	}.Factory()
}

// isLine reports whether an object is a session line that holds a message.
func isLine(line json.Raw) bool {
	parts := session.Value(session.Value(line, "message"), "parts")
	return session.Text(line, "sessionId") != "" && session.Text(line, "type") != "" && parts.Kind() == json.Array
}

type reader struct{ tally *source.Tally }

func keyOf(line json.Raw) (string, bool) { return session.Text(line, "sessionId"), isLine(line) }

// sessions builds a session from lines that share an id.
func sessions(g session.Group) []*calls.Session {
	r := &reader{g.Tally}
	g.Sort()
	s := g.Limits.New(session.Text(json.Raw(g.Parts[0].JSON), "sessionId"))
	contexts := map[string]*session.Given{} // context after each line, by uuid
	var last *session.Given
	for _, part := range g.Parts {
		line := json.Raw(part.JSON)
		id := session.Text(line, "uuid")
		if context, ok := contexts[session.Text(line, "parentUuid")]; ok { // the parent may be an earlier line
			last = context
		}
		for _, m := range r.messages(line) {
			if m.Role == "assistant" {
				s.Add(calls.Call{
					ID: id, Model: session.Text(line, "model"), Output: m.Message, Input: last.Input(),
					Time: session.Nanoseconds(session.Text(line, "timestamp")), File: part.Path, Offset: part.Offset,
					Gaps: ttc.RebuiltHistory | ttc.NoSystem | ttc.NoTools |
						exchange.Gap(&m.Message),
				})
			}
			last = last.Then(id, s.Message(m))
		}
		if contexts[id] = last; s.TooLarge() {
			break
		}
	}
	return []*calls.Session{s}
}

// messages returns a line's messages: one, or one for each tool result.
func (r *reader) messages(line json.Raw) (out []calls.Message) {
	said := session.Value(line, "message")
	role := exchange.Role(session.Text(said, "role"))
	if session.Text(line, "type") == "assistant" {
		role = "assistant"
	}
	return r.parts(role, session.Value(said, "parts"))
}

// parts converts a line's parts to messages.
func (r *reader) parts(role string, parts json.Raw) (out []calls.Message) {
	m := chat.Message{Role: role, Form: chat.Text}
	var texts, thoughts []string
	for p := range parts.Elements() {
		text, isText := p.Text()
		if !isText {
			text, isText = session.Value(p, "text").Text()
		}
		thought, _ := session.Value(p, "thought").Bool()
		call, result := session.Value(p, "functionCall"), session.Value(p, "functionResponse")
		switch {
		case isText && thought:
			thoughts = append(thoughts, text)
		case isText:
			texts = append(texts, text)
			m.Parts = append(m.Parts, exchange.TextPart(text))
		case call != nil:
			m.ToolCalls = append(m.ToolCalls, callOf(call))
		case result != nil:
			out = append(out, resultOf(result))
		case session.Value(p, "inlineData", "fileData") != nil:
			m.Form = chat.Parts
			m.Parts = append(m.Parts, chat.Part{Type: "file", Raw: slices.Clone(p)})
		default:
			r.tally.CountUnread("parts of messages that are neither texts nor files nor calls nor results", 1)
		}
	}
	if thoughts != nil {
		m.Reasoning, m.ReasoningKey = strings.Join(thoughts, ""), "reasoning_content"
	}
	if m.Form == chat.Text {
		m.Text, m.Parts = strings.Join(texts, ""), nil
	}
	if texts != nil || m.Parts != nil || m.ToolCalls != nil || thoughts != nil {
		exchange.NullIfEmpty(&m)
		out = append(out, calls.Message{Message: m})
	}
	return out
}

func callOf(call json.Raw) chat.ToolCall {
	made := chat.ToolCall{ID: session.Text(call, "id"), Type: "function", Name: session.Text(call, "name")}
	arguments := session.Value(call, "args")
	if arguments == nil {
		arguments = json.Raw("{}")
	}
	exchange.Arguments(&made, arguments)
	return made
}

// resultOf reads a tool's result: its output or its error as text, or otherwise the object itself.
func resultOf(result json.Raw) calls.Message {
	response := session.Value(result, "response")
	m := exchange.TextMessage("tool", string(response))
	m.ToolCallID = session.Text(result, "id")
	if output, ok := session.Value(response, "output").Text(); ok {
		m.Text = output
	} else if failure, failed := session.Value(response, "error").Text(); failed {
		m.Text, m.Error = failure, &failed
	}
	return m
}
