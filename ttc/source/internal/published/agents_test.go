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
		"the AI SDK, with members beside the content": {
			"ai_sdk", `{"messages":[{"role":"assistant","weight":0,"token_ids":[1],"id":null,"content":[
				{"type":"text","text":"a"},
				{"type":"tool-call","toolCallId":"c","toolName":"f","input":{}},
				{"type":"tool-result","toolCallId":"c","output":"r"},{"type":"text","text":"b"}]},
				{"role":"assistant","token_ids":[2],"id":"m","providerOptions":{"p":{}},"content":[{"type":"text","text":"d"}]},
				{"role":"tool","tool_call_id":"e","is_error":true,"content":[{"type":"tool-result","toolCallId":"e","output":"s"}]},
				{"role":"tool","tool_call_id":"x","content":[{"type":"tool-result","toolCallId":"f","output":"t"}]}]}`,
			`{"messages":[{"role":"assistant","content":"a","tool_calls":[` +
				`{"id":"c","type":"function","function":{"name":"f","arguments":{}}}],"weight":0},` +
				`{"role":"tool","tool_call_id":"c","content":"r"},{"role":"assistant","content":"b","weight":0},` +
				`{"role":"assistant","content":"d","token_ids":[2]},` +
				`{"role":"tool","tool_call_id":"e","content":"s","is_error":true},` +
				`{"role":"tool","tool_call_id":"f","content":"t"}]}`,
			[]string{"assistant: token_ids", "tool: tool_call_id"},
		},
		"R2E-Gym": {
			"r2e", `{"trajectory_steps":[{"thought":"t","action":"<a>","observation":"o"},
				{"thought":"","action":"<b>","observation":"p"}],"problem_statement":"fix {x}","reward":1,"max_steps":1,
				"ds":{"instance_id":"i"},"agent_args":{"system_prompt":"s","instance_prompt":"Do: {problem_statement}","llm_name":"m"}}`,
			`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"Do: fix {x}\nSteps Remaining: 1"},` +
				`{"role":"assistant","content":"t\n\n<a>"},{"role":"user","content":"o\nYou have reached the maximum number of ` +
				`steps. Please submit your answer NOW."},{"role":"assistant","content":"\n\n<b>"}],"task_id":"i","model":"m",` +
				`"reward":1,"ds":{"instance_id":"i"}}`,
			nil,
		},
		"R2E-Gym, without what it began with": {
			"r2e", `{"trajectory_steps":[{"thought":"t","action":"<a>"}],"problem_statement":"p","docker_image":"d","max_steps":"1"}`,
			`{"messages":[{"role":"user","content":"p"},{"role":"assistant","content":"t\n\n<a>"}],"task_id":"d","docker_image":"d"}`,
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
	for _, entry := range []string{
		`{"trajectory_steps":{},"problem_statement":"p"}`, `{"trajectory_steps":[1],"problem_statement":"p"}`,
		`{"trajectory_steps":[{"thought":"t","action":["a"]}],"problem_statement":"p"}`, `{"trajectory_steps":[]}`,
	} {
		if _, _, err := ConversationsNamed("r2e").Rewrite(json.Raw(entry)); err == nil {
			t.Errorf("%s was read", entry)
		}
	}
	_, _, err := ConversationsNamed("opencode").Rewrite(json.Raw(
		`{"messages":[{"info":{"role":"system"},"parts":[{"type":"text","text":"s"}]}]}`))
	if err == nil {
		t.Error("a system message of opencode passed for the model's")
	}
}
