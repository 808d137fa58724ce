package history_test

import (
	"testing"

	"github.com/nat-go/nat-go/internal/history"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// of returns the hash of a conversation given as JSON.
func of(t *testing.T, h *history.Hasher, tools, messages string) ttc.History {
	t.Helper()
	all, err := chat.ParseMessages(json.Raw(messages))
	if err != nil {
		t.Fatal(err)
	}
	var defined []chat.Tool
	for tool := range json.Raw(tools).Elements() {
		defined = append(defined, chat.Tool{Raw: tool})
	}
	at := h.Tools(defined)
	for i := range all {
		at = h.Add(at, &all[i])
	}
	return at
}

// TestSpelling: only what a model is given makes a difference, not how it is written down.
func TestSpelling(t *testing.T) {
	const tools = `[{"name":"tide","limit":1.0}]`
	const asked = `{"role":"user","content":"Åbo?"}`
	const made = `{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"tide","arguments":"{\"port\":\"Åbo\"}"}}]}`
	const given = `{"role":"tool","tool_call_id":"1","content":"noon"}`
	whole := "[" + asked + "," + made + "," + given + "]"
	var h history.Hasher
	want := of(t, &h, tools, whole)
	for name, c := range map[string]struct {
		tools, messages string
		same            bool
	}{
		"as it was": {tools, whole, true},
		"escapes, space and objects": {
			`[ {"name": "\u0074ide", "limit": 1.0} ]`,
			`[{"content":[{"type":"text","text":"\u00c5bo?"}],"role":"user"},{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"tide","arguments":{"port": "\u00c5bo"}}}]},` + given + "]",
			true,
		},
		"no tools":          {"[]", whole, false},
		"another tool":      {`[{"name":"tide","limit":1}]`, whole, false},
		"a message missing": {tools, "[" + asked + "," + given + "]", false},
		"another order":     {tools, "[" + made + "," + asked + "," + given + "]", false},
		"another result":    {tools, "[" + asked + "," + made + `,{"role":"tool","tool_call_id":"1","content":"dusk"}]`, false},
		"another id":        {tools, "[" + asked + "," + made + `,{"role":"tool","tool_call_id":"2","content":"noon"}]`, false},
		"a name":            {tools, "[" + asked + "," + made + `,{"role":"tool","tool_call_id":"1","name":"x","content":"noon"}]`, false},
		"text for nothing":  {tools, `[{"role":"user","content":""},` + made + "," + given + "]", false},
		"reasoning": {
			tools, "[" + asked + `,{"role":"assistant","content":null,"reasoning":"","tool_calls":[{"id":"1","function":{"name":"tide","arguments":{"port":"Åbo"}}}]},` + given + "]", false,
		},
	} {
		if got := of(t, &h, c.tools, c.messages); (got == want) != c.same {
			t.Errorf("%s: same is %v, want %v", name, got == want, c.same)
		}
	}
	h.NoIDs = true
	want = of(t, &h, tools, whole)
	if of(t, &h, tools, "["+asked+","+made+`,{"role":"tool","tool_call_id":"2","content":"noon"}]`) != want {
		t.Error("an id makes a difference where none should")
	}
}

// TestGraph: branches share the hash of what they share.
func TestGraph(t *testing.T) {
	message := func(text string) chat.Message { return chat.Message{Role: "user", Form: chat.Text, Text: text} }
	g := &ttc.Graph{Nodes: []ttc.Node{
		{Parent: -1, Message: message("a")},
		{Parent: 0, Message: message("b")},
		{Parent: 0, Message: message("c")},
		{Parent: -1, Message: message("b")},
	}}
	var h history.Hasher
	got := h.Graph(7, g)
	a := h.Add(7, &g.Nodes[0].Message)
	if got[0] != a || got[1] != h.Add(a, &g.Nodes[1].Message) || got[2] != history.Then(a, h.Text("user", "c")) {
		t.Errorf("%v", got)
	}
	if got[1] == got[3] {
		t.Error("the same message after different ones has the same hash")
	}
}
