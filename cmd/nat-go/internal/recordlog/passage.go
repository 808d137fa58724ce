package recordlog

import (
	"math"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// The encoded forms of a passage.
const (
	formText  = 0
	formNodes = 1
)

// passage codes a passage. It must be the last value in buf, because a text takes all the remaining bytes.
func (c *codec) passage(p *builders.Passage) {
	form := byte(formNodes)
	if p.IsText() {
		form = formText
	}
	octet(c, &form)
	switch {
	case form != formText:
		nodes := notNil(c, &p.Nodes)
		for i := range nodes {
			c.node(&nodes[i])
			if c.reading {
				nodes[i].Parent = i - 1
			}
		}
	case c.reading:
		p.Text = viewString(c.take(uint64(c.left())))
	default:
		c.buf = append(c.buf, p.Text...)
	}
}

// Bits for the optional fields of a node. If hasError is set, errorSet is the value of Error.
const (
	hasPolicy = 1 << iota
	hasIDs
	hasLogProbs
	hasFinish
	hasError
	errorSet
)

// fieldsOf returns the bits for the optional fields that a node has.
func fieldsOf(n *ttc.Node) (bits byte) {
	for i, on := range [...]bool{
		n.Policy != "", n.TokenIDs != nil, n.LogProbs != nil, n.FinishReason != "", n.Error != nil,
		n.Error != nil && *n.Error,
	} {
		if on {
			bits |= 1 << i
		}
	}
	return bits
}

func (c *codec) node(n *ttc.Node) {
	bits := fieldsOf(n)
	octet(c, &bits)
	octet(c, &n.Sampled)
	if bits&hasPolicy != 0 {
		c.string(&n.Policy)
	}
	if bits&hasIDs != 0 {
		ids := notNil(c, &n.TokenIDs)
		for i := range ids {
			integer(c, &ids[i])
		}
	}
	if bits&hasLogProbs != 0 {
		probs := notNil(c, &n.LogProbs)
		for i := range probs {
			p := math.Float32bits(probs[i])
			if natural(c, &p); c.reading {
				probs[i] = math.Float32frombits(p)
			}
		}
	}
	if bits&hasFinish != 0 {
		c.string(&n.FinishReason)
	}
	if c.reading && bits&hasError != 0 {
		set := bits&errorSet != 0
		n.Error = &set
	}
	c.message(&n.Message)
}

func (c *codec) message(m *chat.Message) {
	c.string(&m.Role)
	octet(c, &m.Form)
	switch m.Form {
	case chat.Text:
		c.string(&m.Text)
	case chat.Parts:
		parts := notNil(c, &m.Parts)
		for i := range parts {
			p := &parts[i]
			c.string(&p.Type)
			c.string(&p.Text)
			raw(c, &p.Raw)
		}
	}
	c.string(&m.Name)
	c.string(&m.ToolCallID)
	c.string(&m.ReasoningKey)
	if m.ReasoningKey != "" {
		c.string(&m.Reasoning)
	}
	calls := list(c, &m.ToolCalls)
	for i := range calls {
		x := &calls[i]
		c.string(&x.ID)
		c.string(&x.Type)
		c.string(&x.Name)
		c.string(&x.Arguments)
		raw(c, &x.Parsed)
		c.bool(&x.AsObject)
		c.members(&x.Extra)
	}
	c.members(&m.Extra)
}

func (c *codec) members(all *[]chat.Member) {
	ms := list(c, all)
	for i := range ms {
		c.string(&ms[i].Key)
		raw(c, &ms[i].Value)
	}
}
