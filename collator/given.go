package collator

import (
	"errors"

	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// PromptTokens returns the number of tokens in the prompt for a reply to the messages. There is one number for each way
// in which the template renders the prompt, with thinking switched on or off.
func (c *Collator) PromptTokens(messages []chat.Message, tools []chat.Tool) ([]int, error) {
	w := &worker{Collator: c}
	m := material{nodes: ttc.Chain(messages, ttc.No).Nodes, tools: tools}
	if why := w.prepare(&m); why != nil {
		return nil, errors.New(why.Detail)
	}
	m.conv.Open = true
	var out []int
	for _, r := range []*turns.Renderer{c.render, c.render.Silent()} {
		if r == nil {
			continue
		}
		res, err := r.Render(m.conv)
		if err != nil {
			return nil, err
		}
		ids, why := w.encodePart(&res, 0, len(res.Text))
		if why != nil {
			return nil, errors.New(why.Detail)
		}
		out = append(out, len(ids))
	}
	return out, nil
}
