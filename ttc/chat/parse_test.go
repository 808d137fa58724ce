package chat

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/ttc/json"
)

func parse(t *testing.T, s string) json.Raw {
	t.Helper()
	raw, err := json.Parse([]byte(s), json.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestParseMessages(t *testing.T) {
	raw := parse(t, `[
		{"role":"system","content":"a\ud83db","name":"n"},
		{"role":"user","content":[{"type":"text","text":"t"},{"type":"image_url","image_url":{"url":"x"}},"bare"]},
		{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[
			{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"b\":1, \"a\":2}","strict":true},"index":0},
			{"id":"c2","function":{"name":"g","arguments":{"z":[1] , "y":null}}},
			{"name":"flat","arguments":"not json"}]},
		{"tool_call_id":"c1","role":"tool","content":"","refusal":null},
		{"role":"assistant","tool_calls":null}]`)
	got, err := ParseMessages(raw)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw { // nothing may alias the parsed input
		raw[i] = 'X'
	}
	want := []Message{
		{Role: "system", Form: Text, Text: "a\xed\xa0\xbdb", Name: "n"},
		{Role: "user", Form: Parts, Parts: []Part{
			{Type: "text", Text: "t", Raw: json.Raw(`{"type":"text","text":"t"}`)},
			{Type: "image_url", Raw: json.Raw(`{"type":"image_url","image_url":{"url":"x"}}`)},
			{Type: "text", Text: "bare", Raw: json.Raw(`"bare"`)},
		}},
		{Role: "assistant", Form: Null, Reasoning: "hm", ReasoningKey: "reasoning_content", ToolCalls: []ToolCall{
			{
				ID: "c1", Type: "function", Name: "f", Arguments: `{"b":1, "a":2}`, Parsed: json.Raw(`{"b":1, "a":2}`),
				Extra: []Member{{"strict", json.Raw("true")}, {"index", json.Raw("0")}},
			},
			{ID: "c2", Name: "g", Arguments: `{"z":[1] , "y":null}`, Parsed: json.Raw(`{"z":[1] , "y":null}`), AsObject: true},
			{Name: "flat", Arguments: "not json"},
		}},
		{Role: "tool", Form: Text, ToolCallID: "c1", Extra: []Member{{"refusal", json.Raw("null")}}},
		{Role: "assistant", Form: Absent, Extra: []Member{{"tool_calls", json.Raw("null")}}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestParseMessagesNamesWhatIsWrong(t *testing.T) {
	for in, want := range map[string]string{
		`{}`:                            "expected an array of messages, got an object",
		`[{"role":"user"},1]`:           "messages[1]: expected a message object, got a number",
		`[{"content":"x"}]`:             "messages[0]: missing role",
		`[{"role":1,"content":"x"}]`:    "messages[0]: role: a number, not text",
		`[{"role":"user","content":1}]`: "messages[0]: content: expected text, null or parts, got a number",
		`[{"role":"user","content":[{"type":"text"}]}]`:                    "messages[0]: content: part 0: text: nothing, not text",
		`[{"role":"assistant","tool_calls":[{"id":"x","function":{}}]}]`:   "tool_calls: call 0: missing function name",
		`[{"role":"assistant","tool_calls":{}}]`:                           "tool_calls: expected an array, got an object",
		`[{"role":"user","content":[7]}]`:                                  "part 0: expected an object, got a number",
		`[{"role":"assistant","tool_calls":[{"function":{"name":null}}]}]`: "function: null, not text",
	} {
		t.Run(in, func(t *testing.T) {
			if _, err := ParseMessages(parse(t, in)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", in, err, want)
			}
		})
	}
}

func TestParseTool(t *testing.T) {
	for _, in := range []string{`{"type":"function","function":{"name":"f","parameters":{}}}`, `{"name":"f","input_schema":{}}`} {
		tool, err := ParseTool(parse(t, in))
		if err != nil || tool.Name != "f" || string(tool.Raw) != in {
			t.Errorf("%s: %+v %v", in, tool, err)
		}
	}
	if _, err := ParseTool(parse(t, `{"type":"function"}`)); err == nil {
		t.Error("a tool without a name")
	}
}
