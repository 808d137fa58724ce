package otlp

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
)

// TestAISDK reads spans as version 5 or 6 of the AI SDK writes them, and version 7. A span that encloses the steps
// isn't another call; the metadata joins traces of one session; a call keeps the spelling of its arguments if the span
// has it.
func TestAISDK(t *testing.T) {
	for name, c := range map[string]struct {
		walks, arguments, reasoning string
		failed                      int64
		gaps                        ttc.Gaps
	}{
		"aisdk5": {
			"You plan trips. / To Rome? / I look.[c1][c2]* / c1={\"sun\":1.5} / c2=full! / Sunny, but full.* / " +
				"To Oslo? / [c3]* / c3=snow / Snow.*",
			`{"city":  "Rome"} {"city": "Rome"} {"city":"Oslo"}`, "Rain? Snow?", 1,
			ttc.ParsedArguments | ttc.HiddenReasoning,
		},
		"aisdk7": {
			"You plan trips. / To Rome? / I look.[c1]* / c1=Error: down! / Unknown.*",
			`{"city":"Rome"}`, "Rain?", 0, ttc.ParsedArguments,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := sessiontest.Read(t, Factory(), filepath.Join("testdata", name+".jsonl"))
			if len(r.Examples) != 1 || r.Stats.Dropped["call"][session.FailedCall] != c.failed {
				t.Fatalf("%d examples, %+v", len(r.Examples), r.Stats)
			}
			ex := r.Examples[0]
			var arguments, reasoning, finish []string
			for _, n := range ex.Graph.Nodes {
				for _, call := range n.Message.ToolCalls {
					arguments = append(arguments, call.Arguments)
				}
				if n.Message.Reasoning != "" {
					reasoning = append(reasoning, n.Message.Reasoning)
				}
				if n.FinishReason != "" {
					finish = append(finish, n.FinishReason)
				}
			}
			if got := sessiontest.Walks(ex); got != c.walks {
				t.Errorf("got  %s\nwant %s", got, c.walks)
			}
			if got := strings.Join(arguments, " "); got != c.arguments {
				t.Errorf("arguments %s, want %s", got, c.arguments)
			}
			if got := strings.Join(reasoning, " "); got != c.reasoning {
				t.Errorf("reasoning %s, want %s", got, c.reasoning)
			}
			if !slices.Contains(finish, "tool_calls") || !slices.Contains(finish, "stop") {
				t.Errorf("finish reasons %q", finish)
			}
			if len(ex.Tools) != 2 || ex.Gaps != c.gaps || ex.Policy != "m-1" {
				t.Errorf("%d tools, gaps %v, policy %s", len(ex.Tools), ex.Gaps.Names(), ex.Policy)
			}
		})
	}
}

// TestAISDKParts: an image remains a part, an answer in JSON is a text, a tool that the provider ran has its result
// after the turn, and what can't be read is counted.
func TestAISDKParts(t *testing.T) {
	ask := func(messages string, more attrs) sessiontest.Reading {
		a := attrs{"ai.operationId": "ai.generateObject.doGenerate", "ai.prompt.messages": messages}
		for k, v := range more {
			a[k] = v
		}
		return sessiontest.ReadText(t, Factory(), "e.jsonl", lines(t, spansOf(made("one", "", 1, a))))
	}
	const question = `{"role":"user","content":[{"type":"text","text":"q"}]}`
	r := ask(`[{"role":"user","content":[{"type":"text","text":"q"},
		{"type":"file","mediaType":"image/png","data":"AA=="}]}]`, attrs{"ai.response.object": `{"a":1}`})
	if nodes := r.Examples[0].Graph.Nodes; nodes[0].Message.Parts[1].Type != "file" ||
		nodes[1].Message.Text != `{"a":1}` || r.Examples[0].Gaps != ttc.ParsedArguments {
		t.Errorf("%+v", nodes)
	}
	r = ask(list(question, `{"role":"assistant","content":[{"type":"text","text":"see"},
		{"type":"tool-call","toolCallId":"c1","toolName":"search","input":{},"providerExecuted":true},
		{"type":"tool-result","toolCallId":"c1","toolName":"search","output":{"type":"error-json","value":[1]}},
		{"type":"text","text":"so"}]}`, question),
		attrs{"ai.response.text": "a", "ai.response.finishReason": "content-filter"})
	nodes := r.Examples[0].Graph.Nodes
	if got := sessiontest.Walks(r.Examples[0]); got != "q / see[c1] / c1=[1]! / so / q / a*" ||
		nodes[len(nodes)-1].FinishReason != "content_filter" {
		t.Error(got, nodes)
	}
	if got := resultText(json.Raw(`{"response":{"type":"content","value":["a"]}}`)); got != `["a"]` {
		t.Error(got)
	}
	r = ask(list(question, `{"role":"assistant","content":[{"type":"tool-call","toolCallId":"c1","toolName":"f",
		"args":{"a":1}}]}`, `{"role":"tool","content":[{"type":"tool-result","toolCallId":"c1","result":"r"}]}`),
		attrs{"ai.response.text": "a"}) // as version 4 has it
	if got := sessiontest.Walks(r.Examples[0]); got != `q / [c1] / c1="r" / a*` ||
		r.Examples[0].Graph.Nodes[1].Message.ToolCalls[0].Arguments != `{"a":1}` {
		t.Error(got)
	}
	step := func(id, parent string, n int, operation string) *tracepb.Span {
		return made(id, parent, n, attrs{
			"ai.operationId": operation, "ai.prompt.messages": list(question), "ai.response.text": id,
		})
	}
	r = sessiontest.ReadText(t, Factory(), "e.jsonl", lines(t, spansOf(
		step("main", "", 0, "ai.generateText"),
		step("one", "main", 1, "ai.generateText.doGenerate"), step("tool", "one", 2, "ai.toolCall"),
		step("agent", "tool", 3, "ai.generateText"), step("two", "agent", 4, "ai.generateText.doGenerate"),
	)))
	if len(r.Drops) != 0 || r.Stats.Calls != 2 {
		t.Errorf("a tool's call to a model is another call: %+v", r.Drops)
	}
	for name, c := range map[string]struct {
		more   attrs
		reason string
	}{
		"no answer":  {nil, string(noContent)},
		"broken off": {attrs{"ai.response.finishReason": "error", "ai.response.text": ""}, string(session.FailedCall)},
		"a tool of the provider": {attrs{
			"ai.response.text": "a", "ai.response.finishReason": "stop",
			"ai.response.toolCalls": `[{"toolCallId":"c1","toolName":"search","input":"{}"}]`,
		}, string(session.MissingHistory)},
		"cut calls":    {attrs{"ai.response.toolCalls": `[{"toolCa`}, string(session.MissingHistory)},
		"cut tools":    {attrs{"ai.response.text": "a", "ai.prompt.tools": `[{"ty`}, string(session.MissingHistory)},
		"a cut tool":   {attrs{"ai.response.text": "a", "ai.prompt.tools": `["{\"ty"]`}, string(session.MissingHistory)},
		"cut messages": {attrs{"ai.prompt.messages": `[{"role":"us`}, string(session.MissingHistory)},
	} {
		r := ask(list(question), c.more)
		if len(r.Drops) != 1 || string(r.Drops[0].Reason) != c.reason {
			t.Errorf("%s: %+v", name, r.Drops)
		}
	}
}
