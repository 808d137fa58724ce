package history

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// Message is the hash of a message without its context. It is not comparable with a ttc.History.
type Message uint64

// Hasher hashes tools and messages. The zero value is ready to use. It is not safe for concurrent use.
type Hasher struct {
	NoIDs bool // ignore call ids
	buf   []byte
	tools map[xxh3.Uint128]ttc.History // keyed by a hash of the definitions, because examples contain copies of them
}

// maxTools is the maximum number of lists of definitions that are cached.
const maxTools = 1000

// Tools returns the hash of a conversation before its first message.
func (h *Hasher) Tools(tools []chat.Tool) ttc.History {
	h.buf = h.buf[:0]
	for _, t := range tools {
		h.buf = append(append(h.buf, t.Raw...), 0)
	}
	raw := xxh3.Hash128(h.buf)
	if known, ok := h.tools[raw]; ok {
		return known
	}
	h.buf = h.buf[:0]
	for _, t := range tools {
		c := t.Raw.Cursor()
		h.buf = appendValue(h.buf, &c)
	}
	if h.tools == nil || len(h.tools) >= maxTools {
		h.tools = map[xxh3.Uint128]ttc.History{}
	}
	h.tools[raw] = ttc.History(xxh3.Hash(h.buf))
	return h.tools[raw]
}

// Add returns the hash of a conversation with another message.
func (h *Hasher) Add(before ttc.History, m *chat.Message) ttc.History {
	return Then(before, h.Message(m))
}

// Graph returns the hash of the conversation up to and including each message of a graph. root is the hash of the
// tools.
func (h *Hasher) Graph(root ttc.History, g *ttc.Graph) []ttc.History {
	out := make([]ttc.History, len(g.Nodes))
	for i := range g.Nodes {
		before := root
		if p := g.Nodes[i].Parent; p >= 0 {
			before = out[p]
		}
		out[i] = h.Add(before, &g.Nodes[i].Message)
	}
	return out
}

// Then is like Add, for a message whose hash is known.
func Then(before ttc.History, m Message) ttc.History {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], uint64(before))
	binary.LittleEndian.PutUint64(b[8:], uint64(m))
	return ttc.History(xxh3.Hash(b[:]))
}

// Text returns the hash of a message with only a role and text.
func (h *Hasher) Text(role, text string) Message {
	return h.Message(&chat.Message{Role: role, Form: chat.Text, Text: text})
}

// The kinds of a message's content.
const (
	noContent = iota
	textContent
	partsContent
)

// Message returns the hash of a message without its context.
func (h *Hasher) Message(m *chat.Message) Message {
	b := appendText(h.buf[:0], m.Role)
	b = appendContent(b, m)
	if m.ReasoningKey != "" {
		b = appendText(append(b, 'r'), m.Reasoning)
	}
	if m.Name != "" {
		b = appendText(append(b, 'n'), m.Name)
	}
	if m.ToolCallID != "" && !h.NoIDs {
		b = appendText(append(b, 'i'), m.ToolCallID)
	}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		b = append(b, 'c')
		if !h.NoIDs {
			b = appendText(b, c.ID)
		}
		b = appendArguments(appendText(b, c.Name), c)
	}
	h.buf = b
	return Message(xxh3.Hash(b))
}

// appendContent appends the content; a list of text parts counts as the string that row formats make from it.
func appendContent(b []byte, m *chat.Message) []byte {
	switch m.Form {
	case chat.Text:
		return appendText(append(b, textContent), m.Text)
	case chat.Parts:
		flat := *m
		if flat.FlattenText(); flat.Form == chat.Text {
			return appendText(append(b, textContent), flat.Text)
		}
		b = binary.AppendUvarint(append(b, partsContent), uint64(len(m.Parts)))
		for _, p := range m.Parts {
			b = appendText(b, p.Type)
			if c := p.Raw.Cursor(); p.Type != "text" && len(p.Raw) > 0 {
				b = appendValue(b, &c)
			} else {
				b = appendText(b, p.Text)
			}
		}
		return b
	}
	return append(b, noContent)
}

// appendArguments appends the arguments of a call: an object by its value, anything else as it was sampled.
func appendArguments(b []byte, call *chat.ToolCall) []byte {
	if call.Parsed.Kind() != json.Object {
		return appendText(append(b, 's'), call.Arguments)
	}
	return appendValue(b, new(call.Parsed.Cursor()))
}

// appendValue appends a JSON value without white space and without the escapes of its strings. Keys keep their order.
func appendValue(b []byte, c *json.Cursor) []byte {
	switch kind := c.Kind(); kind {
	case json.Object:
		b = append(b, '{')
		c.Enter(kind)
		for key, ok := c.Member(); ok; key, ok = c.Member() {
			b = appendRaw(b, key)
			b = appendValue(b, c)
		}
		return append(b, '}')
	case json.Array:
		b = append(b, '[')
		c.Enter(kind)
		for c.Element() {
			b = appendValue(b, c)
		}
		return append(b, ']')
	case json.String:
		return appendRaw(b, c.Value())
	default:
		v := c.Value()
		return append(binary.AppendUvarint(append(b, '#'), uint64(len(v))), v...)
	}
}

// appendRaw appends the text of a JSON string.
func appendRaw(b []byte, s json.Raw) []byte {
	text := s.Bytes()
	return append(binary.AppendUvarint(append(b, '"'), uint64(len(text))), text...)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
