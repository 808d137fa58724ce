package divergence

import (
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// TestSetupHash checks that setups that differ in anything but the ids of calls have different hashes.
func TestSetupHash(t *testing.T) {
	seen := map[xxh3.Uint128]string{}
	for name, m := range map[string]chat.Message{
		"empty":         {},
		"role":          {Role: "a"},
		"text":          {Text: "a"},
		"name":          {Name: "a"},
		"reasoning":     {Reasoning: "a"},
		"reasoning key": {ReasoningKey: "a"},
		"part":          {Parts: []chat.Part{{Type: "a"}}},
		"part's text":   {Parts: []chat.Part{{Text: "a"}}},
		"part's JSON":   {Parts: []chat.Part{{Raw: []byte("a")}}},
		"two parts":     {Parts: make([]chat.Part, 2)},
		"call":          {ToolCalls: []chat.ToolCall{{Name: "a"}}},
		"arguments":     {ToolCalls: []chat.ToolCall{{Arguments: "a"}}},
		"type":          {ToolCalls: []chat.ToolCall{{Type: "a"}}},
		"call's extra":  {ToolCalls: []chat.ToolCall{{Extra: []chat.Member{{Key: "a"}}}}},
		"extra":         {Extra: []chat.Member{{Key: "a"}}},
		"extra's value": {Extra: []chat.Member{{Value: []byte("a")}}},
	} {
		hash := func(tools ...chat.Tool) xxh3.Uint128 {
			nodes := []*ttc.Node{{Message: m}, {Message: chat.Message{Role: "assistant"}, Sampled: ttc.Yes}}
			return (&rollout{ex: &ttc.Example{Tools: tools}, nodes: nodes}).setup()
		}
		for what, h := range map[string]xxh3.Uint128{
			name:            hash(),
			name + ", tool": hash(chat.Tool{Name: "a"}),
			name + ", JSON": hash(chat.Tool{Raw: []byte("a")}),
		} {
			if other, taken := seen[h]; taken {
				t.Errorf("%s has the same hash as %s", what, other)
			}
			seen[h] = what
		}
		before := hash()
		m.ToolCallID = "b"
		for i := range m.ToolCalls {
			m.ToolCalls[i].ID = "b"
		}
		if hash() != before {
			t.Errorf("%s: the ids of calls change the hash", name)
		}
	}
}
