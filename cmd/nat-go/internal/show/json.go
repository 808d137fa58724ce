package show

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// AppendJSON appends the view as one JSON object with the title, the facts, and the text or messages. It preserves lone
// surrogates in strings, which the standard library would replace.
func AppendJSON(b []byte, v View) []byte {
	b = json.AppendASCII(append(b, `{"title":`...), v.Title)
	b = append(b, `,"facts":[`...)
	for i, f := range v.Facts {
		b = json.AppendASCII(comma(b, i), f)
	}
	b = append(b, ']')
	if v.Pair {
		b = appendPassage(append(b, `,"prompt":`...), v.Prompt)
		b = appendPassage(append(b, `,"chosen":`...), v.Chosen)
		b = appendPassage(append(b, `,"rejected":`...), v.Rejected)
	} else {
		b = appendPassage(append(b, `,"messages":`...), v.Messages)
	}
	return append(b, '}')
}

func comma(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ',')
	}
	return b
}

func appendPassage(b []byte, p builders.Passage) []byte {
	if p.IsText() {
		return json.AppendASCII(b, p.Text)
	}
	b = append(b, '[')
	for i := range p.Nodes {
		b = appendMessage(comma(b, i), &p.Nodes[i].Message)
	}
	return append(b, ']')
}

func appendMessage(b []byte, m *chat.Message) []byte {
	b = json.AppendASCII(append(b, `{"role":`...), m.Role)
	switch m.Form {
	case chat.Text:
		b = json.AppendASCII(append(b, `,"content":`...), m.Text)
	case chat.Null:
		b = append(b, `,"content":null`...)
	case chat.Parts:
		b = append(b, `,"content":[`...)
		for i, p := range m.Parts {
			b = json.AppendCompact(comma(b, i), p.Raw)
		}
		b = append(b, ']')
	}
	if m.Reasoning != "" {
		b = json.AppendASCII(append(b, `,"reasoning":`...), m.Reasoning)
	}
	if len(m.ToolCalls) > 0 {
		b = append(b, `,"tool_calls":[`...)
		for i := range m.ToolCalls {
			c := &m.ToolCalls[i]
			b = json.AppendASCII(append(comma(b, i), `{"id":`...), c.ID)
			b = json.AppendASCII(append(b, `,"name":`...), c.Name)
			b = append(json.AppendASCII(append(b, `,"arguments":`...), c.Arguments), '}')
		}
		b = append(b, ']')
	}
	if m.ToolCallID != "" {
		b = json.AppendASCII(append(b, `,"tool_call_id":`...), m.ToolCallID)
	}
	return append(b, '}')
}

// Cut returns a copy of the view in which long texts are truncated to maxBytes, followed by the number of omitted
// bytes.
func (v View) Cut(maxBytes int) View {
	for _, p := range []*builders.Passage{&v.Prompt, &v.Chosen, &v.Rejected, &v.Messages} {
		p.Text = cut(p.Text, maxBytes)
		p.Nodes = slices.Clone(p.Nodes)
		for i := range p.Nodes {
			m := &p.Nodes[i].Message
			m.Text, m.Reasoning = cut(m.Text, maxBytes), cut(m.Reasoning, maxBytes)
			m.Parts = slices.Clone(m.Parts)
			for c, part := range m.Parts {
				if len(part.Raw) > maxBytes { // a truncated value isn't valid JSON, but a string containing it is
					m.Parts[c].Raw = json.AppendASCII(nil, cut(string(part.Raw), maxBytes))
				}
			}
			m.ToolCalls = slices.Clone(m.ToolCalls)
			for c := range m.ToolCalls {
				m.ToolCalls[c].Arguments = cut(m.ToolCalls[c].Arguments, maxBytes)
			}
		}
	}
	return v
}

func cut(s string, maxBytes int) string {
	if len(s) <= maxBytes {
		return s
	}
	for maxBytes > 0 && !utf8.RuneStart(s[maxBytes]) {
		maxBytes--
	}
	return fmt.Sprintf("%s\n... %d more bytes", s[:maxBytes], len(s)-maxBytes)
}
