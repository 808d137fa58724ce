package published

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Sessions that agents store as one object a file, and what evaluations log of their samples.
var agents = []Conversations{
	{
		"gemini_cli", "the entries are sessions of Gemini CLI",
		func(h *source.Head) bool { return hasAll(h, "sessionId", "projectHash", "messages") }, geminiCLI,
	},
	{
		"opencode", "the entries are sessions of opencode (opencode export)",
		func(h *source.Head) bool {
			return hasAll(h, "info", "messages") && !slices.ContainsFunc(h.Entries, func(e json.Raw) bool {
				for m := range value(e, "messages").Elements() {
					return value(value(m, "info"), "role") == nil || value(m, "parts") == nil
				}
				return true
			})
		}, opencode,
	},
	{
		"inspect_ai", "the entries are samples of inspect-ai: the value of the first score counts, C as 1, I and N as 0, P as 0.5",
		func(h *source.Head) bool { return hasAll(h, "epoch", "messages", "scores") }, inspectAI,
	},
	{
		"ai_sdk", "the entries have messages of the AI SDK, whose calls and results are parts",
		func(h *source.Head) bool { return slices.ContainsFunc(h.Entries, callsInParts) }, aiSDK,
	},
}

// callsInParts reports whether an entry has a message of the AI SDK with a call.
func callsInParts(e json.Raw) bool {
	for m := range value(e, "messages").Elements() {
		for part := range value(m, "content").Elements() {
			if value(part, "type").Is("tool-call") && value(part, "toolName") != nil {
				return true
			}
		}
	}
	return false
}

// aiSDK reads ModelMessages of the AI SDK.
func aiSDK(e json.Raw) (c conversed, err error) {
	said, err := list(value(e, "messages"))
	if err != nil {
		return c, fmt.Errorf("messages: %w", err)
	}
	var m messages
	for x := range said.Elements() {
		role, _ := value(x, "role").Text()
		content := value(x, "content")
		switch {
		case role == "tool":
			for part := range content.Elements() {
				m = m.raw(object(nil).text("role", "tool").set("tool_call_id", value(part, "toolCallId")).
					text("content", outputText(value(part, "output", "result"))).end())
			}
		case role != "assistant":
			m = m.raw(x)
		default:
			t := turn{text: partsText(content)}
			for part := range content.Elements() {
				switch kind, _ := value(part, "type").Text(); kind {
				case "reasoning":
					text, _ := value(part, "text").Text()
					t.thoughts = append(t.thoughts, text)
				case "tool-call":
					t.call(value(part, "toolCallId"), value(part, "toolName"), value(part, "input", "args"), "")
				}
			}
			t.results = nil // they are messages of their own
			m = t.add(m)
		}
	}
	return conversed{messages: m.end(), keys: []string{"messages"}}, nil
}

// outputText returns the result of a call: a text, or the value of {type, value}.
func outputText(v json.Raw) string {
	if inner := value(v, "value"); inner != nil {
		v = inner
	}
	if text, ok := v.Text(); ok {
		return text
	}
	return string(v)
}

// geminiCLI reads a session of Gemini CLI (~/.gemini/tmp/*/chats): what was said, and calls beside their results.
func geminiCLI(e json.Raw) (c conversed, err error) {
	said, err := list(value(e, "messages"))
	if err != nil {
		return c, fmt.Errorf("messages: %w", err)
	}
	var m messages
	for x := range said.Elements() {
		switch kind, _ := value(x, "type").Text(); kind {
		case "user":
			m = m.add("user", partsText(value(x, "content")))
		case "gemini":
			var thoughts []string
			for t := range value(x, "thoughts").Elements() {
				text, _ := value(t, "description").Text()
				thoughts = append(thoughts, text)
			}
			t := turn{text: partsText(value(x, "content")), thoughts: thoughts}
			for call := range value(x, "toolCalls").Elements() {
				t.call(value(call, "id"), value(call, "name"), value(call, "args"), geminiResult(call))
			}
			m = t.add(m)
		default: // info and error: what the program told its user
		}
	}
	id, _ := value(e, "sessionId").Text()
	return conversed{messages: m.end(), id: id, keys: []string{"messages", "sessionId"}}, nil
}

// geminiResult returns what a call returned.
func geminiResult(call json.Raw) string {
	for part := range value(call, "result").Elements() {
		response := value(value(part, "functionResponse"), "response")
		if text, ok := value(response, "output", "error").Text(); ok {
			return text
		}
		if response != nil {
			return string(response)
		}
	}
	text, _ := value(call, "resultDisplay").Text()
	return text
}

// partsText returns a text, or the texts of parts.
func partsText(v json.Raw) string {
	if text, ok := v.Text(); ok {
		return text
	}
	var texts []string
	for part := range v.Elements() {
		if text, ok := value(part, "text").Text(); ok && !value(part, "type").Is("reasoning") {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}

// opencode reads an exported session of opencode: each message has its role in info, and parts.
func opencode(e json.Raw) (c conversed, err error) {
	said, err := list(value(e, "messages"))
	if err != nil {
		return c, fmt.Errorf("messages: %w", err)
	}
	var m messages
	for x := range said.Elements() {
		role, _ := value(value(x, "info"), "role").Text()
		if role == "user" {
			m = m.add("user", partsText(value(x, "parts")))
			continue
		}
		var t turn
		var texts []string
		for part := range value(x, "parts").Elements() {
			text, _ := value(part, "text").Text()
			switch kind, _ := value(part, "type").Text(); kind {
			case "text":
				texts = append(texts, text)
			case "reasoning":
				t.thoughts = append(t.thoughts, text)
			case "tool":
				state := value(part, "state")
				result, _ := value(state, "output", "error").Text()
				t.call(value(part, "callID"), value(part, "tool"), value(state, "input"), result)
			}
		}
		t.text = strings.Join(texts, "\n")
		m = t.add(m)
	}
	id, _ := value(value(e, "info"), "id").Text()
	return conversed{messages: m.end(), id: id, keys: []string{"messages", "info"}}, nil
}

// inspectAI reads a sample of `inspect log dump`.
func inspectAI(e json.Raw) (c conversed, err error) {
	c = conversed{messages: value(e, "messages"), keys: []string{"scores", "input", "target", "epoch"}}
	if id, epoch := value(e, "id"), value(e, "epoch"); id != nil { // epochs are rollouts of a task
		text, isText := id.Text()
		if !isText {
			text = string(id)
		}
		c.id, c.task, c.keys = text+"/"+string(epoch), text, append(c.keys, "id")
	}
	for _, score := range value(e, "scores").Members() {
		v := value(score, "value")
		letters := map[string]string{"C": "1", "P": "0.5", "I": "0", "N": "0"}
		if text, ok := v.Text(); ok {
			if letters[text] == "" {
				c.unread = []string{fmt.Sprintf("scores: %.40q, which is none of C, I, P and N", text)}
			}
			v = json.Raw(letters[text])
		}
		c.reward = v
		break
	}
	return c, nil
}

// turn is a turn of a model, whose calls stand beside their results.
type turn struct {
	text           string
	thoughts       []string
	calls, results messages
}

func (t *turn) call(id, name, args json.Raw, result string) {
	if args == nil {
		args = json.Raw("{}")
	}
	function := object(nil).set("name", name).set("arguments", args).end()
	t.calls = t.calls.raw(object(nil).set("id", id).text("type", "function").set("function", function).end())
	t.results = t.results.raw(object(nil).text("role", "tool").set("tool_call_id", id).text("content", result).end())
}

// add appends the turn and the results of its calls.
func (t *turn) add(m messages) messages {
	o := object(nil).text("role", "assistant").text("content", t.text)
	o = o.name("reasoning_content", strings.Join(t.thoughts, "\n"))
	if t.calls == nil {
		return m.raw(o.end())
	}
	m = m.raw(o.set("tool_calls", t.calls.end()).end())
	for result := range t.results.end().Elements() {
		m = m.raw(result)
	}
	return m
}
