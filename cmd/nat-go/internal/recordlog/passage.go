package recordlog

import (
	"math"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// The two forms of a passage.
const (
	formText  = 0
	formNodes = 1
)

func (e *encoder) passage(p builders.Passage) {
	if p.IsText() {
		e.byte(formText)
		e.buf = append(e.buf, p.Text...)
		return
	}
	e.byte(formNodes)
	list[ttc.Node](e, len(p.Nodes))
	for i := range p.Nodes {
		e.node(&p.Nodes[i])
	}
}

func (d *decoder) passage() builders.Passage {
	if d.byte() == formText {
		return builders.Passage{Text: viewString(d.bytes(uint64(d.left())))}
	}
	nodes := make([]ttc.Node, count[ttc.Node](d))
	for i := range nodes {
		nodes[i] = d.node()
		nodes[i].Parent = i - 1
	}
	return builders.Passage{Nodes: nodes}
}

// Optional fields of a node and of a message, as bits.
const (
	hasPolicy = 1 << iota
	hasIDs
	hasLogProbs
	hasFinish
	hasError
	errorSet
)

func (e *encoder) node(n *ttc.Node) {
	var bits byte
	set := func(on bool, bit byte) {
		if on {
			bits |= bit
		}
	}
	set(n.Policy != "", hasPolicy)
	set(n.TokenIDs != nil, hasIDs)
	set(n.LogProbs != nil, hasLogProbs)
	set(n.FinishReason != "", hasFinish)
	set(n.Error != nil, hasError)
	set(n.Error != nil && *n.Error, errorSet)
	e.byte(bits)
	e.byte(byte(n.Sampled))
	if n.Policy != "" {
		e.string(n.Policy)
	}
	if n.TokenIDs != nil {
		list[int32](e, len(n.TokenIDs))
		for _, id := range n.TokenIDs {
			e.int(int64(id))
		}
	}
	if n.LogProbs != nil {
		list[float32](e, len(n.LogProbs))
		for _, p := range n.LogProbs {
			e.uint(uint64(math.Float32bits(p)))
		}
	}
	if n.FinishReason != "" {
		e.string(n.FinishReason)
	}
	e.message(&n.Message)
}

func (d *decoder) node() (n ttc.Node) {
	bits := d.byte()
	n.Sampled = ttc.Sampled(d.byte())
	if bits&hasPolicy != 0 {
		n.Policy = d.string()
	}
	if bits&hasIDs != 0 {
		n.TokenIDs = make([]int32, count[int32](d))
		for i := range n.TokenIDs {
			n.TokenIDs[i] = int32(d.int())
		}
	}
	if bits&hasLogProbs != 0 {
		n.LogProbs = make([]float32, count[float32](d))
		for i := range n.LogProbs {
			n.LogProbs[i] = math.Float32frombits(uint32(d.uint()))
		}
	}
	if bits&hasFinish != 0 {
		n.FinishReason = d.string()
	}
	if bits&hasError != 0 {
		set := bits&errorSet != 0
		n.Error = &set
	}
	n.Message = d.message()
	return n
}

func (e *encoder) message(m *chat.Message) {
	e.string(m.Role)
	e.byte(byte(m.Form))
	switch m.Form {
	case chat.Text:
		e.string(m.Text)
	case chat.Parts:
		list[chat.Part](e, len(m.Parts))
		for _, p := range m.Parts {
			e.string(p.Type)
			e.string(p.Text)
			e.raw(p.Raw)
		}
	}
	e.string(m.Name)
	e.string(m.ToolCallID)
	e.string(m.ReasoningKey)
	if m.ReasoningKey != "" {
		e.string(m.Reasoning)
	}
	list[chat.ToolCall](e, len(m.ToolCalls))
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		e.string(c.ID)
		e.string(c.Type)
		e.string(c.Name)
		e.string(c.Arguments)
		e.raw(c.Parsed)
		e.bool(c.AsObject)
		e.members(c.Extra)
	}
	e.members(m.Extra)
}

func (d *decoder) message() (m chat.Message) {
	m.Role = d.string()
	m.Form = chat.Form(d.byte())
	switch m.Form {
	case chat.Text:
		m.Text = d.string()
	case chat.Parts:
		m.Parts = make([]chat.Part, count[chat.Part](d))
		for i := range m.Parts {
			m.Parts[i] = chat.Part{Type: d.string(), Text: d.string(), Raw: d.raw()}
		}
	}
	m.Name = d.string()
	m.ToolCallID = d.string()
	if m.ReasoningKey = d.string(); m.ReasoningKey != "" {
		m.Reasoning = d.string()
	}
	if n := count[chat.ToolCall](d); n > 0 {
		m.ToolCalls = make([]chat.ToolCall, n)
		for i := range m.ToolCalls {
			c := &m.ToolCalls[i]
			c.ID, c.Type, c.Name, c.Arguments = d.string(), d.string(), d.string(), d.string()
			c.Parsed, c.AsObject, c.Extra = d.raw(), d.bool(), d.members()
		}
	}
	m.Extra = d.members()
	return m
}

func (e *encoder) members(ms []chat.Member) {
	list[chat.Member](e, len(ms))
	for _, m := range ms {
		e.string(m.Key)
		e.raw(m.Value)
	}
}

func (d *decoder) members() []chat.Member {
	n := count[chat.Member](d)
	if n == 0 {
		return nil
	}
	ms := make([]chat.Member, n)
	for i := range ms {
		ms[i] = chat.Member{Key: d.string(), Value: d.raw()}
	}
	return ms
}
