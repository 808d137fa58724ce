package exchange

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// TestLogProbs: a choice keeps its log-probs if there is one for each id and none is positive. Those that are NaN are
// refused later, with a reason.
func TestLogProbs(t *testing.T) {
	for probs, want := range map[string]int{"-1 -0.5": 2, "-1 NaN": 2, "-1 0.5": 0, "-1": 0, `-1 "x"`: 0} {
		t.Run(probs, func(t *testing.T) {
			list := `{"logprob":` + strings.ReplaceAll(probs, " ", `},{"logprob":`) + `}`
			answers := Choices(json.Raw(`{"choices":[{"message":{"role":"assistant","content":"a"},"token_ids":[5,6],` +
				`"logprobs":{"content":[` + list + `]}}]}`))
			if len(answers) != 1 || len(answers[0].LogProbs) != want || len(answers[0].TokenIDs) != 2 {
				t.Errorf("%+v", answers)
			}
		})
	}
}

// told returns a summary of what an exchange says.
func told(e *Exchange) string {
	var out []string
	for _, m := range e.Input {
		text, _ := calls.Plain(&m.Message)
		out = append(out, m.Role+" "+text+m.ToolCallID)
	}
	for i := range e.Answers {
		a := &e.Answers[i]
		text := "> " + a.Text
		for _, c := range a.ToolCalls {
			text += "[" + c.ID + " " + c.Name + " " + c.Arguments + "]"
		}
		if a.Reasoning != "" {
			text += " because " + a.Reasoning
		}
		out = append(out, text+" ("+a.Finish+")")
	}
	return strings.Join(out, "; ")
}

const (
	chatRequest = `{"model":"m","messages":[{"role":"developer","content":"s"},{"role":"user","content":"q"}],` +
		`"tools":[{"type":"function","function":{"name":"f"}}]}`
	chatResponse = `{"id":"1","model":"m-1","created":5,"choices":[{"index":0,"finish_reason":"tool_calls","message":` +
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","index":0,"function":{"name":"f",` +
		`"arguments":"{ \"x\": 1.0}"}}]}}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`
	messagesRequest = `{"model":"m","system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":"q"},` +
		`{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"no","is_error":true}]}]}`
	messagesResponse = `{"type":"message","role":"assistant","id":"2","model":"m-2","stop_reason":"end_turn",` +
		`"usage":{"input_tokens":4,"cache_read_input_tokens":5,"output_tokens":6},` +
		`"content":[{"type":"thinking","thinking":"hm","signature":"x"},{"type":"text","text":"a"}]}`
	responsesRequest  = `{"model":"m","instructions":"s","input":"q","previous_response_id":"2"}`
	responsesResponse = `{"id":"3","model":"m-3","created_at":6,"status":"incomplete","incomplete_details":{"reason":` +
		`"max_output_tokens"},"output":[{"type":"message","role":"assistant","content":[{"type":"output_text",` +
		`"text":"a"}]}],"usage":{"input_tokens":8,"output_tokens":9}}`
)

func TestOf(t *testing.T) {
	for name, c := range map[string]struct {
		request, response, want string
		usage                   calls.Usage
		gaps                    ttc.Gaps
	}{
		"chat completions": {
			chatRequest, chatResponse, `system s; user q; > [c f { "x": 1.0}] (tool_calls)`, calls.Usage{Input: 7, Output: 3}, 0,
		},
		"Anthropic": {
			messagesRequest, messagesResponse, "system s; user q; assistant ; tool noc; > a because hm (stop)",
			calls.Usage{Input: 9, Output: 6},
			0,
		},
		"responses": {
			responsesRequest, responsesResponse, "system s; user q; > a (length)", calls.Usage{Input: 8, Output: 9}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := Of(json.Raw(c.request), json.Raw(c.response))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, told(&e)); d != "" {
				t.Error(d)
			}
			if e.Usage != c.usage || e.Gaps != c.gaps {
				t.Errorf("%+v, %v", e.Usage, e.Gaps.Names())
			}
		})
	}
	if _, err := Of(json.Raw(chatRequest), json.Raw(`{"a":1}`)); err == nil {
		t.Error("a response of no API is read")
	}
}

// TestServerHolds: messages that the server holds are a gap, unless the history was assembled.
func TestServerHolds(t *testing.T) {
	e, err := Of(json.Raw(responsesRequest), json.Raw(responsesResponse))
	if err != nil {
		t.Fatal(err)
	}
	for assembled, want := range map[bool]ttc.Gaps{false: ttc.RebuiltHistory, true: 0} {
		s := calls.NewSession("s")
		var c calls.Call
		if assembled {
			c.Input = []calls.Ref{s.Message(e.Input[0])}
		}
		e.AddTo(s, c)
		if got := s.Examples(nil)[0].Gaps; got != want {
			t.Errorf("got %v, want %v", got.Names(), want.Names())
		}
	}
}

// events are the pieces of the responses above, as streamed.
var events = map[string]struct{ request, whole, stream string }{
	"chat completions": {chatRequest, chatResponse, `
data: {"id":"1","object":"chat.completion.chunk","created":5,"model":"m-1","choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{ \"x\""}}]}}]}
: a comment
data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":": 1.0}"}}]}}]}
data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}
data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}
data: [DONE]
`},
	"Anthropic": {messagesRequest, messagesResponse, `event: message_start
data: {"type":"message_start","message":{"type":"message","role":"assistant","id":"2","model":"m-2","content":[],"usage":{"input_tokens":4,"cache_read_input_tokens":5,"output_tokens":1}}}
event: ping
data: {"type":"ping"}
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"h"}}
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"m"}}
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"x"}}
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a"}}
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":6}}
data: {"type":"message_stop"}
`},
	"responses": {responsesRequest, responsesResponse, `event: response.created
data: {"type":"response.created","response":{"id":"3","output":[]}}
data: {"type":"response.output_text.delta","delta":"a"}
data: {"type":"response.incomplete","response":` + responsesResponse + `}
`},
}

// TestJoined: a response that was streamed equals the one that was not, both as a text of events and as a list of them.
func TestJoined(t *testing.T) {
	for name, c := range events {
		t.Run(name, func(t *testing.T) {
			want, err := Of(json.Raw(c.request), json.Raw(c.whole))
			if err != nil {
				t.Fatal(err)
			}
			list := "["
			for line := range strings.Lines(c.stream) {
				if data, ok := strings.CutPrefix(line, "data: {"); ok {
					list += "{" + strings.TrimSpace(data) + ","
				}
			}
			for _, stream := range []json.Raw{
				json.AppendString(nil, c.stream), json.Raw(strings.TrimSuffix(list, ",") + "]"),
			} {
				joined := Joined(stream)
				if !json.Valid(joined) {
					t.Fatalf("not JSON: %s", joined)
				}
				got, err := Of(json.Raw(c.request), joined)
				if err != nil {
					t.Fatalf("%v: %s", err, joined)
				}
				if d := cmp.Diff(told(&want), told(&got)); d != "" || got.ID != want.ID || got.Usage != want.Usage ||
					got.Model != want.Model {
					t.Errorf("%s%+v, want %+v", d, got, want)
				}
			}
		})
	}
}

// TestJoinedParts: parallel calls whose pieces arrive interleaved, and streams that were cut off.
func TestJoinedParts(t *testing.T) {
	for name, c := range map[string]struct{ stream, want string }{
		"mixed calls": {
			`[{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b","function":` +
				`{"name":"g","arguments":"{"}},{"index":0,"id":"a","function":{"name":"f","arguments":"["}}]}}]},` +
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"]"}},` +
				`{"index":1,"function":{"arguments":"}"}}]}}]}]`, "> [a f []][b g {}] ()",
		},
		"cut off": {
			`[{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"be"}}]},{"choices":[{"index":0,` +
				`"delta":{"content":"gan"}}]}]`, "> began ()",
		},
		"a block cut off": {
			`[{"type":"message_start","message":{"role":"assistant"}},{"type":"content_block_start","index":0,` +
				`"content_block":{"type":"tool_use","id":"c","name":"f","input":{}}},{"type":"content_block_delta","index":0,` +
				`"delta":{"type":"input_json_delta","partial_json":"{\"x\":"}}]`, `> [c f "{\"x\":"] ()`,
		},
		"a list of anything": {`[1,2]`, ""},
		"a text":             {`"data: no JSON"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := Of(json.Raw(`{"messages":[]}`), Joined(json.Raw(c.stream)))
			if got := told(&e); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func FuzzJoined(f *testing.F) {
	for _, c := range events {
		f.Add(c.stream)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if joined := Joined(json.AppendString(nil, text)); !json.Valid(joined) {
			t.Errorf("not JSON: %s", joined)
		}
	})
}

// TestToolSearch: a search for tools is a call, although its item has no name, and what it found is its result.
func TestToolSearch(t *testing.T) {
	item := json.Raw(`{"type":"tool_search_call","call_id":"c","arguments":{"query":"files"}}`)
	if call := ItemCall("tool_search_call", item); call.Name != "tool_search" || call.Arguments != `{"query":"files"}` {
		t.Errorf("%+v", call)
	}
	found := ItemResult(json.Raw(`{"type":"tool_search_output","call_id":"c","tools":[{"name":"f"}]}`))
	if m := found.Message; m.Form != chat.Text || m.Text != `[{"name":"f"}]` || m.ToolCallID != "c" {
		t.Errorf("%+v", m)
	}
}

// TestSpellingIsLost checks that in every form of a call, arguments that are a value rather than a text are a gap, be
// the value an object or not.
func TestSpellingIsLost(t *testing.T) {
	for arguments, want := range map[string]ttc.Gaps{
		`{"a":1}`: ttc.ParsedArguments, `[1]`: ttc.ParsedArguments, `7`: ttc.ParsedArguments, `"[1]"`: 0,
	} {
		chatCall, err := chat.ParseToolCall(json.Raw(`{"function":{"name":"f","arguments":` + arguments + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		for form, call := range map[string]chat.ToolCall{
			"chat":      chatCall,
			"named":     CallOf(json.Raw(`{"args":`+arguments+`}`), "id", "name", "args"),
			"responses": ItemCall("function_call", json.Raw(`{"arguments":`+arguments+`}`)),
			"anthropic": toolUse(json.Raw(`{"input":` + arguments + `}`)),
		} {
			if got := Gap(&chat.Message{ToolCalls: []chat.ToolCall{call}}); got != want {
				t.Errorf("%s, %s: got %v, want %v", form, arguments, got, want)
			}
		}
	}
}
