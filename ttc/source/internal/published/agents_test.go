package published

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/ttc/json"
)

// TestAgents: nothing that an agent stored is lost, and no result is made up.
func TestAgents(t *testing.T) {
	for name, c := range map[string]struct {
		shape, entry, want string
		unread             []string
	}{
		"opencode": {
			"opencode", `{"info":{"id":"s"},"messages":[{"info":{"role":"user"},"parts":[{"type":"text","text":"q"},
				{"type":"file","mime":"text/plain"},{"type":"file","mime":"image/png"}]},
				{"info":{"role":"assistant"},"parts":[{"type":"tool","callID":"c","tool":"sh",
				"state":{"status":"running","input":{"n":1}}}]}]}`,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"q"},` +
				`{"type":"file","file":{"type":"file","mime":"image/png"}}]},` +
				`{"role":"assistant","content":"","tool_calls":[` +
				`{"id":"c","type":"function","function":{"name":"sh","arguments":{"n":1}}}]}],"id":"s"}`,
			nil,
		},
		"the AI SDK": {
			"ai_sdk", `{"messages":[{"role":"assistant","content":[{"type":"text","text":"a"},
				{"type":"tool-call","toolCallId":"c","toolName":"f","input":{}},
				{"type":"tool-result","toolCallId":"c","output":{"type":"text","value":"r"}},{"type":"text","text":"b"}]},
				{"role":"tool","content":[{"type":"tool-approval-response"}]},
				{"role":"tool","content":"said","tool_call_id":"d"},{"role":"assistant","content":null,"tool_calls":[]}]}`,
			`{"messages":[{"role":"assistant","content":"a","tool_calls":[` +
				`{"id":"c","type":"function","function":{"name":"f","arguments":{}}}]},` +
				`{"role":"tool","tool_call_id":"c","content":"r"},{"role":"assistant","content":"b"},` +
				`{"role":"tool","content":"said","tool_call_id":"d"},{"role":"assistant","content":null,"tool_calls":[]}]}`,
			nil,
		},
		"a score of several values": {
			"inspect_ai", `{"messages":[],"scores":{"m":{"value":{"x":1,"y":0}}}}`, `{"messages":[]}`,
			[]string{"scores: an object of values, of which none is the score"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, unread, err := ConversationsNamed(c.shape).Rewrite(json.Raw(c.entry))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.unread, unread); diff != "" {
				t.Error(diff)
			}
		})
	}
	_, _, err := ConversationsNamed("opencode").Rewrite(json.Raw(
		`{"messages":[{"info":{"role":"system"},"parts":[{"type":"text","text":"s"}]}]}`))
	if err == nil {
		t.Error("a system message of opencode passed for the model's")
	}
}
