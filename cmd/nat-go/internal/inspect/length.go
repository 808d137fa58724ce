package inspect

import (
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// bytesPerToken is a low estimate of the mean token size in prose, code and JSON with today's tokenizers. Token counts
// estimated with it tend to be high, so that a max_length based on them fits every row.
const bytesPerToken = 3

// usualLength is the default of collator.max_length.
const usualLength = 4096

// estimate returns the approximate number of tokens in the longest branch of an example, including its tools.
func estimate(ex *ttc.Example) int {
	tools := 0
	for _, t := range ex.Tools {
		tools += len(t.Raw)
	}
	longest, bytes := 0, make([]int, len(ex.Graph.Nodes))
	for i := range ex.Graph.Nodes {
		n := &ex.Graph.Nodes[i]
		if bytes[i] = textBytes(&n.Message); n.Parent >= 0 {
			bytes[i] += bytes[n.Parent]
		}
		longest = max(longest, bytes[i])
	}
	return (longest + tools) / bytesPerToken
}

// textBytes returns the size of a message's text.
func textBytes(m *chat.Message) int {
	n := len(m.Role) + len(m.Text) + len(m.Reasoning)
	for _, p := range m.Parts {
		n += len(p.Text)
	}
	for i := range m.ToolCalls {
		n += len(m.ToolCalls[i].Name) + len(m.ToolCalls[i].Arguments)
	}
	return n
}

// carrying returns a max_length that fits every conversation. It returns 0 if the default max_length is long enough or
// if no conversations were read.
func (r *Report) carrying() int {
	if r.Sizes == nil || r.Sizes.Max <= usualLength {
		return 0
	}
	return (r.Sizes.Max + 1023) / 1024 * 1024
}
