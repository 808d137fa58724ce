package recordlog

import (
	"errors"
	"math"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/coder"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// The encoded forms of a passage.
const (
	formText  = 0
	formNodes = 1
)

// passage codes a passage. It must be the last value in buf, because a text takes all the remaining bytes.
func passage(c *coder.Coder, p *builders.Passage) {
	form := byte(formNodes)
	if p.IsText() {
		form = formText
	}
	coder.Octet(c, &form)
	switch {
	case form != formText:
		nodes := coder.NotNil(c, &p.Nodes)
		for i := range nodes {
			node(c, &nodes[i])
			if c.Reading {
				nodes[i].Parent = i - 1
			}
		}
	case c.Reading:
		p.Text = coder.ViewString(c.Take(uint64(c.Left())))
	default:
		c.Buf = append(c.Buf, p.Text...)
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

func node(c *coder.Coder, n *ttc.Node) {
	bits := fieldsOf(n)
	coder.Octet(c, &bits)
	coder.Octet(c, &n.Sampled)
	if bits&hasPolicy != 0 {
		c.String(&n.Policy)
	}
	if bits&hasIDs != 0 {
		ids := coder.NotNil(c, &n.TokenIDs)
		for i := range ids {
			coder.Integer(c, &ids[i])
		}
	}
	if bits&hasLogProbs != 0 {
		probs := coder.NotNil(c, &n.LogProbs)
		for i := range probs {
			p := math.Float32bits(probs[i])
			if coder.Natural(c, &p); c.Reading {
				probs[i] = math.Float32frombits(p)
			}
		}
	}
	if bits&hasFinish != 0 {
		c.String(&n.FinishReason)
	}
	if c.Reading && bits&hasError != 0 {
		n.Error = new(bits&errorSet != 0)
	}
	message(c, &n.Message)
}

func message(c *coder.Coder, m *chat.Message) {
	c.String(&m.Role)
	coder.Octet(c, &m.Form)
	switch m.Form {
	case chat.Text:
		c.String(&m.Text)
	case chat.Parts:
		parts := coder.NotNil(c, &m.Parts)
		for i := range parts {
			p := &parts[i]
			c.String(&p.Type)
			c.String(&p.Text)
			value(c, &p.Raw)
		}
	}
	c.String(&m.Name)
	c.String(&m.ToolCallID)
	c.String(&m.ReasoningKey)
	if m.ReasoningKey != "" {
		c.String(&m.Reasoning)
	}
	calls := coder.List(c, &m.ToolCalls)
	for i := range calls {
		x := &calls[i]
		c.String(&x.ID)
		c.String(&x.Type)
		c.String(&x.Name)
		c.String(&x.Arguments)
		value(c, &x.Parsed)
		c.Bool(&x.AsObject)
		members(c, &x.Extra)
	}
	members(c, &m.Extra)
}

func members(c *coder.Coder, all *[]chat.Member) {
	ms := coder.List(c, all)
	for i := range ms {
		c.String(&ms[i].Key)
		value(c, &ms[i].Value)
	}
}

// value codes a JSON value. Values that are read are checked, because later stages read and write them unchecked.
func value(c *coder.Coder, v *json.Raw) {
	if coder.Raw(c, v); c.Reading && c.Err == nil && len(*v) > 0 && !json.Valid(*v) {
		c.Err = errors.New("invalid JSON value")
	}
}
