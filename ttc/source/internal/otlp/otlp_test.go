package otlp

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/source/internal/detect"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// legacy returns a call and its messages in the conventions before 1.37, and the call that follows.
func legacy() []proto.Message {
	toolCalls := []any{
		attrs{"id": "c1", "type": "function", "function": attrs{"name": "f", "arguments": `{ "a" : 49.90 }`}},
	}
	a := attrs{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
	return []proto.Message{
		spansOf(made("one", "", 1, a), made("two", "", 2, a)),
		logsOf(
			record("one", 1, "gen_ai.user.message", attrs{"content": "q"}, attrs{"gen_ai.system": "openai"}),
			record("one", 2, "gen_ai.choice", attrs{
				"index": 0, "finish_reason": "tool_calls", "message": attrs{"content": "see", "tool_calls": toolCalls},
			}, attrs{"gen_ai.system": "openai"}),
			record("two", 3, "gen_ai.user.message", attrs{"content": "q"}, attrs{"gen_ai.system": "openai"}),
			record(
				"two",
				4,
				"gen_ai.assistant.message",
				attrs{"tool_calls": toolCalls},
				attrs{"gen_ai.system": "openai"},
			),
			record(
				"two",
				5,
				"gen_ai.tool.message",
				attrs{"content": "r", "id": "c1"},
				attrs{"gen_ai.system": "openai"},
			),
			record(
				"two",
				6,
				"gen_ai.choice",
				attrs{"index": 0, "message": attrs{"content": "done"}},
				attrs{"gen_ai.system": "openai"},
			),
		),
	}
}

// TestDifference1MessagesAreLogRecords: the messages of the legacy conventions are log records, joined by trace and
// span; an answer's text may be missing from the history, and is then taken from where it was written. Without the log
// records nothing is known, and this is counted.
func TestDifference1MessagesAreLogRecords(t *testing.T) {
	one(t, "q / see[c1]* / c1=r / done*", legacy()...)
	alone := sessiontest.ReadText(t, Factory(), "traces.jsonl", lines(t, legacy()[0]))
	if len(alone.Examples) != 0 || alone.Stats.Calls != 2 || alone.Stats.Dropped["call"][noContent] != 2 {
		t.Errorf("%+v", alone.Stats)
	}
	// Events within the span, as in older versions.
	span := made("one", "", 1, attrs{"gen_ai.operation.name": "chat"})
	for _, name := range []string{"gen_ai.user.message", "gen_ai.choice"} {
		content := `{"content":"q","message":{"content":"a"}}`
		event := &tracepb.Span_Event{Name: name, Attributes: attrs{"gen_ai.event.content": content}.list()}
		span.Events = append(span.Events, event)
	}
	one(t, "q / a*", spansOf(span))
}

// TestDifference2ContentOfSpanOrRecord: the latest conventions put the messages on the span as JSON texts, in a log
// record as structured data, or in both: then they count once.
func TestDifference2ContentOfSpanOrRecord(t *testing.T) {
	span := chatSpan("one", "", 1, list(text("user", "q")), list(text("assistant", "a")))
	event := record("one", 1, details, nil, attrs{
		"gen_ai.input.messages": []any{
			attrs{"role": "user", "parts": []any{attrs{"type": "text", "content": "q"}}},
		},
		"gen_ai.output.messages": []any{
			attrs{
				"role":          "assistant",
				"parts":         []any{attrs{"type": "text", "content": "a"}},
				"finish_reason": "stop",
			},
		},
		"gen_ai.response.id": "r-one", "gen_ai.response.model": "m",
	})
	bare := made("one", "", 1, attrs{"gen_ai.operation.name": "chat"})
	for name, requests := range map[string][]proto.Message{
		"span":         {spansOf(span)},
		"record":       {spansOf(bare), logsOf(event)},
		"both":         {spansOf(span), logsOf(event)},
		"record alone": {logsOf(event)},
	} {
		t.Run(name, func(t *testing.T) {
			r := one(t, "q / a*", requests...)
			if r.Stats.Calls != 1 || r.Examples[0].Policy != "m" {
				t.Errorf("%s: %+v", name, r.Stats)
			}
		})
	}
}

// TestDifference3SystemPromptToolsAndOrderOfParts: the system prompt is among the messages or separate; without tool
// definitions the grade is partial. An answer whose calls are recorded before its text is the same as one with the text
// first.
func TestDifference3SystemPromptToolsAndOrderOfParts(t *testing.T) {
	reordered := `{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"f","arguments":{}},` +
		`{"type":"text","content":"see"}]}`
	among := list(text("system", "sys"), text("user", "q"))
	first := chatSpan("one", "", 1, among, list(reordered))
	second := chatSpan(
		"two",
		"",
		2,
		list(text("system", "sys"), text("user", "q"), calling("see", "c1", "{}"), result("c1", "r")),
		list(text("assistant", "done")),
	)
	if r := one(t, "sys / q / see[c1]* / c1=r / done*", spansOf(first, second)); r.Examples[0].Fidelity != ttc.Partial {
		t.Error(r.Examples[0].Fidelity)
	}
	apart := chatSpan("one", "", 1, list(text("user", "q")), list(text("assistant", "a")))
	apart.Attributes = append(apart.Attributes, attrs{
		"gen_ai.system_instructions": `[{"type":"text","content":"sys"}]`,
		"gen_ai.tool.definitions":    `[{"type":"function","name":"f","description":"d","parameters":{}}]`,
	}.list()...)
	r := one(t, "sys / q / a*", spansOf(apart))
	const tool = `{"type":"function","function":{"name":"f","description":"d","parameters":{}}}`
	if ex := r.Examples[0]; ex.Fidelity != ttc.TextOnly || string(ex.Tools[0].Raw) != tool {
		t.Errorf("%s %s", ex.Fidelity, ex.Tools[0].Raw)
	}
	with := func(key, value string) sessiontest.Reading {
		span := chatSpan("one", "", 1, list(text("user", "q")), list(text("assistant", "a")))
		span.Attributes = append(span.Attributes, attrs{key: value}.list()...)
		return sessiontest.ReadText(t, Factory(), "e.jsonl", lines(t, spansOf(span)))
	}
	if r := with("gen_ai.system_instructions", "sys"); sessiontest.Walks(r.Examples[0]) != "sys / q / a*" {
		t.Errorf("instructions that are a text: %+v", r.Examples)
	}
	for _, key := range []string{"gen_ai.system_instructions", "gen_ai.tool.definitions"} { // cut by the exporter
		if r := with(key, `[{"type":"te`); len(r.Drops) != 1 || r.Drops[0].Reason != session.MissingHistory {
			t.Errorf("%s that was cut: %+v", key, r.Drops)
		}
	}
}

// TestDifference4FinishReasons: each finish reason has a single name.
func TestDifference4FinishReasons(t *testing.T) {
	r := one(
		t,
		"q / x[c1]*",
		spansOf(chatSpan("one", "", 1, list(text("user", "q")), list(calling("x", "c1", "{}")))),
	)
	if got := r.Examples[0].Graph.Nodes[1].FinishReason; got != "tool_calls" {
		t.Error(got)
	}
}

// TestDifference5ArgumentsAsSampled: arguments that were parsed and printed again are treated as the same call as those
// that the model wrote; if the model's own text is recorded, it is kept.
func TestDifference5ArgumentsAsSampled(t *testing.T) {
	r := one(t, "q / see[c1]* / c1=r / done*", legacy()...)
	if got := r.Examples[0].Graph.Nodes[1].Message.ToolCalls[0]; got.Arguments != `{ "a" : 49.90 }` ||
		got.AsObject {
		t.Errorf("%+v", got)
	}
	first := chatSpan("one", "", 1, list(text("user", "q")), list(calling("x", "c1", `{"a":49.9}`)))
	second := chatSpan("two", "", 2, list(text("user", "q"), calling("x", "c1", `{"a": 49.90}`), result("c1", "r")),
		list(text("assistant", "b")))
	r = one(t, "q / x[c1]* / c1=r / b*", spansOf(first, second))
	if got := r.Examples[0].Graph.Nodes[1].Message.ToolCalls[0]; got.Arguments != `{"a":49.9}` {
		t.Errorf("%+v", got)
	}
}

// TestDifference6FailedTools: a failed tool has no result on its span; the text comes from the next call's history, and
// the span says that it failed. The session's id is only on the agent.
func TestDifference6FailedTools(t *testing.T) {
	agent := made("agent", "", 0, attrs{"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "conv"})
	tool := failing(made("tool", "agent", 2, attrs{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": "c1",
	}), "no")
	first := chatSpan("one", "agent", 1, list(text("user", "q")), list(calling("x", "c1", "{}")))
	second := chatSpan("two", "agent", 3, list(text("user", "q"), calling("x", "c1", "{}"), result("c1", "no")),
		list(text("assistant", "b")))
	r := one(t, "q / x[c1]* / c1=no! / b*", spansOf(second, tool, first, agent))
	if r.Examples[0].ID != "conv" {
		t.Error(r.Examples[0].ID)
	}
}

// TestDifference7IDsOfItemsAndSplitAnswers: in Responses, calls carry item ids and results carry call ids; the text and
// the call of an answer come back as two messages. OpenInference records parallel calls as several output messages.
func TestDifference7IDsOfItemsAndSplitAnswers(t *testing.T) {
	call := `{"role":"assistant","parts":[{"type":"tool_call","id":"fc_1","name":"f","arguments":{}}]}`
	first := chatSpan("one", "", 1, list(text("user", "q")), list(calling("x", "fc_1", "{}")))
	second := chatSpan("two", "", 2, list(text("user", "q"), text("assistant", "x"), call, result("call_1", "r")),
		list(text("assistant", "b")))
	one(t, "q / x[fc_1]* / fc_1=r / b*", spansOf(first, second))

	// OpenLLMetry has the reasoning of an answer of the Responses API in the next call's history alone.
	thought := `{"role":"assistant","parts":[{"type":"reasoning","content":"hm"}]}`
	third := chatSpan("two", "", 2, list(text("user", "q"), thought, text("assistant", "x"), call, result("call_1", "r")),
		list(text("assistant", "b")))
	r := one(t, "q / x[fc_1]* / fc_1=r / b*", spansOf(first, third))
	if got := r.Examples[0].Graph.Nodes[1].Message.Reasoning; got != "hm" {
		t.Errorf("got the reasoning %q, want hm", got)
	}

	a := attrs{
		"openinference.span.kind": "LLM", "llm.model_name": "m",
		"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "q",
	}
	for i := range 2 {
		prefix := fmt.Sprintf("llm.output_messages.%d.message.", i)
		a[prefix+"role"] = "assistant"
		a[prefix+"tool_calls.0.tool_call.id"] = fmt.Sprintf("c%d", i)
		a[prefix+"tool_calls.0.tool_call.function.name"] = "f"
		a[prefix+"tool_calls.0.tool_call.function.arguments"] = "{ }"
	}
	one(t, "q / [c0][c1]*", spansOf(made("one", "", 1, a)))
}

// TestDifference8OpenInference: in OpenInference, tool definitions come one by one, reasoning only in the recorded
// response, parts in order, and numbered attributes are sorted numerically.
func TestDifference8OpenInference(t *testing.T) {
	const out = "llm.output_messages.0.message."
	a := attrs{
		"openinference.span.kind": "LLM", "llm.model_name": "m", "llm.finish_reason": "stop",
		"llm.tools.0.tool.json_schema":                    `{"type":"function","function":{"name":"f"}}`,
		"llm.tools.1.tool.json_schema":                    `{"type":"function","name":"g","parameters":{}}`,
		out + "role":                                      "assistant",
		out + "contents.0.message_content.type":           "reasoning",
		out + "contents.0.message_content.text":           "hm",
		out + "contents.1.message_content.type":           "text",
		out + "contents.1.message_content.text":           "a",
		out + "contents.2.message_content.type":           "tool_use",
		out + "tool_calls.0.tool_call.id":                 "c1",
		out + "tool_calls.0.tool_call.function.name":      "f",
		out + "tool_calls.0.tool_call.function.arguments": "{ }",
	}
	var walk []string
	for i := range 12 {
		a[fmt.Sprintf("llm.input_messages.%d.message.role", i)] = "user"
		a[fmt.Sprintf("llm.input_messages.%d.message.content", i)] = fmt.Sprint(i)
		walk = append(walk, fmt.Sprint(i))
	}
	span := made("one", "", 1, a)
	span.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_OK}
	r := one(t, strings.Join(walk, " / ")+" / a[c1]*", spansOf(span))
	ex := r.Examples[0]
	if out := ex.Graph.Nodes[12]; len(ex.Tools) != 2 || out.Message.Reasoning != "hm" ||
		out.FinishReason != "stop" ||
		ex.Fidelity != ttc.TextOnly {
		t.Errorf("%+v %+v", ex.Tools, out)
	}
	whole := made("one", "", 1, attrs{
		"openinference.span.kind": "LLM", "input.mime_type": "application/json",
		"input.value": `{"model":"m","messages":[{"role":"user","content":"q"}]}`,
		"output.value": `{"id":"r1","choices":[{"message":` +
			`{"role":"assistant","content":"a","reasoning_content":"hm","refusal":null}}]}`,
	})
	r = one(t, "q / a*", spansOf(whole))
	if out := r.Examples[0].Graph.Nodes[1]; out.Message.Reasoning != "hm" || len(out.Message.Extra) != 0 {
		t.Errorf("%+v", out)
	}
	whole = made("one", "", 1, attrs{"openinference.span.kind": "LLM", "llm.input_messages.0.message.role": "user"})
	whole.DroppedAttributesCount = 3
	r = sessiontest.ReadText(t, Factory(), "e.jsonl", lines(t, spansOf(whole)))
	if r.Stats.Dropped["call"][session.MissingHistory] != 1 {
		t.Errorf("%+v", r.Stats)
	}
}

// TestOpenInferenceResponses checks that context that only the server holds, and tools that it ran, are a gap in a
// response from the Responses API, and that the parts of the response follow each other.
func TestOpenInferenceResponses(t *testing.T) {
	const says = `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}`
	const more = `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"b"}]}`
	const search = `{"type":"tool_search_call","call_id":"c","arguments":"{}"},` +
		`{"type":"tool_search_output","call_id":"c","tools":[]},`
	for name, c := range map[string]struct{ request, output, want string }{
		"a whole call":     {``, says, "q / a*: "},
		"a continued call": {`,"previous_response_id":"r0"`, says, "q / a*: rebuilt_history"},
		"a conversation":   {`,"conversation":"c"`, says, "q / a*: rebuilt_history"},
		"a search":         {``, `{"type":"web_search_call"},` + says, "q / a*: rebuilt_history"},
		"a search within":  {``, says + `,{"type":"web_search_call"},` + more, "q / a\nb*: rebuilt_history"},
		"reasoning":        {``, `{"type":"reasoning","summary":[]},` + says, "q / a*: hidden_reasoning"},
		"a tool's result":  {``, search + says, "q / [c]* / c=[] / a*: "},
		"a result between": {``, says + "," + search + more, "q / a[c]* / c=[] / b*: "},
	} {
		t.Run(name, func(t *testing.T) {
			a := attrs{
				"openinference.span.kind": "LLM", "llm.model_name": "m",
				"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "q",
				"input.value":  `{"model":"m","input":"q"` + c.request + `}`,
				"output.value": `{"id":"r1","object":"response","output":[` + c.output + `]}`,
			}
			for i := range strings.Count(c.output, "output_text") {
				prefix := fmt.Sprintf("llm.output_messages.%d.message.", i)
				a[prefix+"role"], a[prefix+"content"] = "assistant", []string{"a", "b"}[i]
			}
			r := sessiontest.ReadText(t, Factory(), "e.jsonl", lines(t, spansOf(made("one", "", 1, a))))
			got := ""
			for _, ex := range r.Examples {
				got += sessiontest.Walks(ex) + ": " + strings.Join(ex.Gaps.Names(), " ")
			}
			if got != c.want {
				t.Errorf("got %q, want %q; %+v", got, c.want, r.Drops)
			}
		})
	}
}

// TestDifference9NumberedPrompts: OpenLLMetry up to 0.45 spreads the messages over numbered attributes.
func TestDifference9NumberedPrompts(t *testing.T) {
	r := one(t, "sys / q / x[c1] / c1=r / done*", spansOf(made("one", "", 1, attrs{
		"llm.request.type": "chat", "gen_ai.request.model": "m", "traceloop.association.properties.session_id": "s1",
		"gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": "sys",
		"gen_ai.prompt.1.role": "user", "gen_ai.prompt.1.content": "q",
		"gen_ai.prompt.2.role": "assistant", "gen_ai.prompt.2.content": "x",
		"gen_ai.prompt.2.tool_calls.0.id": "c1", "gen_ai.prompt.2.tool_calls.0.name": "f",
		"gen_ai.prompt.2.tool_calls.0.arguments": "{ }",
		"gen_ai.prompt.3.role":                   "tool",
		"gen_ai.prompt.3.content":                "r", "gen_ai.prompt.3.tool_call_id": "c1",
		"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "done",
		"gen_ai.completion.0.finish_reason": "stop",
		"llm.request.functions.0.name":      "f", "llm.request.functions.0.parameters": `{"type": "object"}`,
	})))
	const tool = `{"type":"function","function":{"name":"f","parameters":{"type": "object"}}}`
	if ex := r.Examples[0]; ex.ID != "s1" || string(ex.Tools[0].Raw) != tool || ex.Fidelity != ttc.TextOnly {
		t.Errorf("%+v", ex)
	}
}

// TestCutSpans checks that a call that lost attributes or events isn't taken for a whole one. It is dropped if its
// messages may be missing, and other missing parts count as unknown.
func TestCutSpans(t *testing.T) {
	genAI := attrs{
		"gen_ai.operation.name": "chat", "gen_ai.input.messages": list(text("user", "q")),
		"gen_ai.output.messages": list(text("assistant", "a")), "gen_ai.client.operation.duration": 1.0,
		"gen_ai.system_instructions": `[{"type":"text","content":"s"}]`,
		"gen_ai.tool.definitions":    `[{"type":"function","name":"f"}]`,
	}
	sdk := attrs{
		"ai.operationId": "ai.generateText.doGenerate", "ai.response.text": "a",
		"ai.prompt.messages": `[{"role":"user","content":"q"}]`,
	}
	said := func(name string) *tracepb.Span_Event {
		return &tracepb.Span_Event{Name: name, Attributes: attrs{
			"gen_ai.event.content": `{"content":"q","message":{"content":"a"}}`,
		}.list()}
	}
	old := []*tracepb.Span_Event{said("gen_ai.user.message"), said("gen_ai.choice")}
	const lost = "dropped: missing_history"
	for name, c := range map[string]struct {
		attributes attrs
		without    []string
		events     []*tracepb.Span_Event
		cut        func(*tracepb.Span)
		want       string
	}{
		"other attributes": {genAI, nil, nil, nil, "s / q / a*: "},
		"tools":            {genAI, []string{"gen_ai.tool.definitions"}, nil, nil, "s / q / a*: no_tools"},
		"instructions":     {genAI, []string{"gen_ai.system_instructions"}, nil, nil, "q / a*: no_system_prompt"},
		"the input":        {genAI, []string{"gen_ai.input.messages"}, nil, nil, lost},
		"the answer":       {genAI, []string{"gen_ai.output.messages"}, nil, nil, lost},
		"AI SDK":           {sdk, nil, nil, nil, lost},
		"a failed call": {
			genAI, []string{"gen_ai.output.messages"}, nil, func(s *tracepb.Span) {
				s.DroppedAttributesCount, s.Status = 1, &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
			}, "dropped: failed_call",
		},
		"events": {
			attrs{"gen_ai.operation.name": "chat"}, nil, old, func(s *tracepb.Span) { s.DroppedEventsCount = 1 }, lost,
		},
		"an event's attributes": {
			attrs{"gen_ai.operation.name": "chat"},
			nil, old,
			func(s *tracepb.Span) { s.Events[0].DroppedAttributesCount = 1 }, lost,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := attrs{}
			for k, v := range c.attributes {
				if !slices.Contains(c.without, k) {
					a[k] = v
				}
			}
			span := made("one", "", 1, a)
			if span.Events = c.events; c.cut != nil {
				c.cut(span)
			} else {
				span.DroppedAttributesCount = 1
			}
			for file, export := range map[string]string{
				"e.jsonl": lines(t, spansOf(span)), "e.binpb": string(binaryOf(t, spansOf(span))),
			} {
				r := sessiontest.ReadText(t, Factory(), file, export)
				got := ""
				for _, ex := range r.Examples {
					got += sessiontest.Walks(ex) + ": " + strings.Join(ex.Gaps.Names(), " ")
				}
				for _, d := range r.Drops {
					got += "dropped: " + string(d.Reason)
				}
				if got != c.want {
					t.Errorf("%s: got %q, want %q", file, got, c.want)
				}
			}
		})
	}
}

// TestCutNumberedPrompts: a call that lost attributes is dropped, whether the exporter counted them or not. It isn't
// read as a shorter history.
func TestCutNumberedPrompts(t *testing.T) {
	for name, c := range map[string]struct {
		counted uint32 // attributes that the span says are missing
		lost    []string
	}{
		"whole":           {0, nil},
		"counted":         {3, []string{"prompt.0.role", "prompt.0.content", "prompt.1.role"}},
		"counted, inside": {1, []string{"prompt.2.content"}},
		"the answer":      {2, []string{"completion.0.role", "completion.0.content"}},
		"first message":   {0, []string{"prompt.0.role", "prompt.0.content"}},
		"inner message":   {0, []string{"prompt.2.role", "prompt.2.content"}},
		"a role":          {0, []string{"prompt.0.role"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := attrs{
				"llm.request.type": "chat", "gen_ai.request.model": "m",
				"gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": "sys",
				"gen_ai.prompt.1.role": "user", "gen_ai.prompt.1.content": "q1",
				"gen_ai.prompt.2.role": "assistant", "gen_ai.prompt.2.content": "a1",
				"gen_ai.prompt.3.role": "user", "gen_ai.prompt.3.content": "q2",
				"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "done",
			}
			for _, key := range c.lost {
				delete(a, "gen_ai."+key)
			}
			span := made("one", "", 1, a)
			span.DroppedAttributesCount = c.counted
			if c.lost == nil {
				one(t, "sys / q1 / a1 / q2 / done*", spansOf(span))
				return
			}
			r := sessiontest.ReadText(t, Factory(), "e.jsonl", lines(t, spansOf(span)))
			if d := r.Stats.Dropped["call"][session.MissingHistory]; d != 1 || len(r.Examples) != 0 {
				t.Errorf("%+v, %d examples", r.Stats, len(r.Examples))
			}
		})
	}
}

// TestPydanticAI: Pydantic AI, which Logfire shows, has results under result in a message of the user, reasoning as
// thinking, and the arguments as its model's provider gave them.
func TestPydanticAI(t *testing.T) {
	call := func(id, parent string, n int, input, output string) *tracepb.Span {
		return made(id, parent, n, attrs{
			"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "talk", "gen_ai.response.model": "m",
			"gen_ai.tool.definitions": `[{"type":"function","name":"f","parameters":{"type":"object"}}]`,
			"gen_ai.input.messages":   input, "gen_ai.output.messages": output,
		})
	}
	asked := list(text("system", "sys"), text("user", "q"))
	answer := `{"role":"assistant","parts":[{"type":"thinking","content":"hm"},{"type":"text","content":"x"},` +
		`{"type":"tool_call","id":"c1","name":"f","arguments":"{\"q\":  1}"}]}`
	result := `{"role":"user","parts":[{"type":"tool_call_response","id":"c1","name":"f","result":{"a":1}}]}`
	r := one(t, `sys / q / x[c1]* / c1={"a":1}! / b*`, spansOf(
		made("agent", "", 0, attrs{"gen_ai.operation.name": "invoke_agent", "pydantic_ai.all_messages": asked}),
		call("one", "agent", 1, asked, list(answer)),
		failing(made("tool", "agent", 2, attrs{
			"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": "c1",
		}), ""),
		call("two", "agent", 3, list(text("system", "sys"), text("user", "q"), answer, result),
			list(text("assistant", "b"))),
	))
	ex := r.Examples[0]
	got := ex.Graph.Nodes[2].Message
	if ex.ID != "talk" || got.Reasoning != "hm" || got.ToolCalls[0].Arguments != `{"q":  1}` || ex.Gaps != 0 {
		t.Errorf("%s %v %+v", ex.ID, ex.Gaps.Names(), got)
	}
}

// TestDifference10EmptyTexts: a stream has an empty text before its calls, which is missing from the next history.
func TestDifference10EmptyTexts(t *testing.T) {
	bare := `{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"f","arguments":{}}]}`
	first := chatSpan("one", "", 1, list(text("user", "q")), list(calling("", "c1", "{}")))
	second := chatSpan("two", "", 2, list(text("user", "q"), bare, result("c1", "r")), list(text("assistant", "b")))
	one(t, "q / [c1]* / c1=r / b*", spansOf(first, second))
}

// TestDifference11OrderAndIDs: requests with one span each, children first, in any order and any file, with ids in
// hexadecimal or base64, give the same examples.
func TestDifference11OrderAndIDs(t *testing.T) {
	agent := made("agent", "", 0, attrs{"gen_ai.operation.name": "invoke_agent"})
	first := chatSpan("one", "agent", 1, list(text("user", "q")), list(text("assistant", "a")))
	second := chatSpan(
		"two",
		"agent",
		2,
		list(text("user", "q"), text("assistant", "a"), text("user", "r")),
		list(text("assistant", "b")),
	)
	want := one(t, "q / a* / r / b*", spansOf(first), spansOf(second), spansOf(agent))
	dir := t.TempDir()
	sessiontest.Write(t, dir, "1.jsonl", lines(t, spansOf(agent), spansOf(second)))
	hex := strings.NewReplacer(`"AXRyYWNlLS0tLS0tLS0tLQ=="`, `"0174726163652d2d2d2d2d2d2d2d2d2d"`)
	other := hex.Replace(lines(t, spansOf(first)))
	if !strings.Contains(other, "0174") {
		t.Fatal(other)
	}
	sessiontest.Write(t, dir, "2.jsonl", other)
	got := sessiontest.Read(t, Factory(), dir)
	if len(got.Examples) != 1 || sessiontest.Walks(got.Examples[0]) != sessiontest.Walks(want.Examples[0]) ||
		got.Examples[0].ID != want.Examples[0].ID {
		t.Errorf("%+v", got)
	}
}

// TestAgentsWrappersAndRetries: a sub-agent's calls are an example of their own; a span that wraps another call doesn't
// count as an additional one; retries and several choices are siblings.
func TestAgentsWrappersAndRetries(t *testing.T) {
	agent := func(id, parent string, n int) *tracepb.Span {
		return made(id, parent, n, attrs{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"})
	}
	q, task := list(text("user", "q")), list(text("user", "task"))
	r := sessiontest.ReadText(t, Factory(), "e.jsonl", lines(t, spansOf(
		agent("main", "", 0),
		agent("sub", "main", 2),
		chatSpan("m1", "main", 1, q, list(text("assistant", "lost"))),
		chatSpan("m2", "main", 3, q, list(text("assistant", "kept"))),
		chatSpan(
			"m3",
			"main",
			4,
			list(text("user", "q"), text("assistant", "kept"), text("user", "r")),
			list(text("assistant", "b")),
		),
		chatSpan("s1", "sub", 2, task, list(text("assistant", "x"))),
		chatSpan("outer", "main", 4, q, list(text("assistant", "kept"))),
		chatSpan(
			"inner",
			"outer",
			5,
			list(text("user", "q"), text("user", "z")),
			list(text("assistant", "c"), text("assistant", "d")),
		),
	)))
	var got []string
	for _, ex := range r.Examples {
		got = append(got, strings.TrimPrefix(ex.ID, "0174726163652d2d2d2d2d2d2d2d2d2d")+": "+sessiontest.Walks(ex))
	}
	want := []string{": q / lost || q / kept* / r / b* || q / z / c || q / z / d", "/helper: task / x*"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if d := r.Stats.Dropped["call"]; r.Stats.Calls != 7 || d[session.RepeatedCall] != 1 ||
		d[session.AbandonedRetry] != 1 ||
		d[session.AmbiguousRetry] != 2 {
		t.Errorf("%+v", r.Stats)
	}
}

// TestEncodings: an export reads the same as JSON lines, as one document, as protobuf with length prefixes (compressed
// or not) and without, and in a compressed file; and each is recognised by its content.
func TestEncodings(t *testing.T) {
	requests := append(legacy(), spansOf(made("other", "one", 3, attrs{
		"llm.x": []any{1, 2.5, true, []byte{1}, nil, attrs{"k": "v"}}, "http": "GET",
	})))
	want := "q / see[c1]* / c1=r / done*"
	var framed, squeezed, plain []byte
	z, _ := zstd.NewWriter(nil)
	for _, m := range requests {
		b := binaryOf(t, m)
		framed = append(framed, withLength(b)...)
		squeezed = append(squeezed, withLength(z.EncodeAll(b, nil))...)
		plain = append(plain, b...) // concatenated requests form one request
	}
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	_, _ = w.Write([]byte(lines(t, requests...)))
	_ = w.Close()
	first := strings.TrimSpace(lines(t, requests[0]))
	document := "{\n" + strings.TrimPrefix(first, "{") + "\n" + lines(t, requests[1:]...)
	for name, content := range map[string][]byte{
		"lines.jsonl": []byte(lines(t, requests...)), "document.json": []byte(document),
		"framed.binpb": framed, "squeezed.binpb": squeezed, "plain.pb": plain,
		"lines.jsonl.gz": gz.Bytes(), "framed.binpb.zst": z.EncodeAll(framed, nil),
	} {
		t.Run(name, func(t *testing.T) {
			r := sessiontest.One(t, Factory(), name, string(content), want)
			if r.Stats.Calls != 2 || len(r.Stats.Dropped) != 0 {
				t.Errorf("%+v", r.Stats)
			}
			path := sessiontest.Write(t, t.TempDir(), name, string(content))
			head, err := detect.ReadHead(context.Background(), path)
			if err != nil {
				t.Fatal(err)
			}
			if found, err := detect.Choose([]source.Factory{Factory()}, "", head); err != nil ||
				found.Fit != source.Certain {
				t.Errorf("not recognised: %v", err)
			}
		})
	}
}

// TestSecretsAreTakenOut: redaction is on by default.
func TestSecretsAreTakenOut(t *testing.T) {
	secret := "AKIA" + "IOSFODNN7QZTKW3P"
	r := sessiontest.ReadText(t, Factory(), "e.jsonl", lines(t, spansOf(
		chatSpan(
			"one",
			"",
			1,
			list(text("user", "key "+secret)),
			list(text("assistant", "mail jane.doe@acme.org")),
		),
	)))
	if got := sessiontest.Walks(r.Examples[0]); strings.Contains(got, secret) || strings.Contains(got, "jane") {
		t.Error(got)
	}
}

// TestHostileExports: none of this ends the reading, takes memory out of proportion, or is lost without being counted.
func TestHostileExports(t *testing.T) {
	good := binaryOf(t, spansOf(chatSpan("one", "", 1, list(text("user", "q")), list(text("assistant", "a")))))
	loop := lines(t, spansOf(
		made(
			"a",
			"b",
			5,
			attrs{"gen_ai.operation.name": "invoke_agent"},
		),
		made("b", "a", 4, attrs{"gen_ai.operation.name": "invoke_agent"}),
		chatSpan("self", "self", 1, list(text("user", "q")), list(text("assistant", "x"))),
		chatSpan(
			"one",
			"a",
			0,
			list(text("user", "q"), text("assistant", "x"), text("user", "r")),
			list(text("assistant", "a")),
		),
	))
	deep := bytes.Repeat([]byte{0x2a, 0x02, 0x0a, 0x00}, 0)
	for range 5000 { // a list in a list in a list
		inner := append([]byte{0x0a}, binary.AppendUvarint(nil, uint64(len(deep)))...)
		inner = append(inner, deep...)
		deep = append(append([]byte{0x2a}, binary.AppendUvarint(nil, uint64(len(inner)))...), inner...)
	}
	nested := &tracepb.Span{TraceId: []byte(trace), SpanId: spanID("n"), Name: "llm.n"}
	nestedBytes := binaryOf(t, nested)
	attribute := append([]byte("\x0a\x05llm.x\x12"), binary.AppendUvarint(nil, uint64(len(deep)))...)
	attribute = append(attribute, deep...)
	nestedBytes = append(
		append(append(nestedBytes, 0x4a), binary.AppendUvarint(nil, uint64(len(attribute)))...),
		attribute...)
	wrap := func(b []byte, tag byte) []byte {
		return append(append([]byte{tag}, binary.AppendUvarint(nil, uint64(len(b)))...), b...)
	}
	z, _ := zstd.NewWriter(nil)
	bomb := z.EncodeAll(make([]byte, 80<<20), nil)
	empty := bytes.Repeat([]byte{0x12, 0x00}, 1<<20)
	frame := string(withLength(good))
	tooDeep := string(withLength(wrap(wrap(wrap(nestedBytes, 0x12), 0x12), 0x0a)))
	cut := lines(t, spansOf(chatSpan("one", "", 1, `[{"role":"us`, list(text("assistant", "a")))))
	const oneLine = "map[line:map[unread_line:1]]"
	for name, c := range map[string]struct {
		content string
		walks   string // of the first example; empty if there is none
		drops   string
	}{
		"loop of parents": {loop, "q / x / r / a*", "map[]"},
		"length lie":      {frame + "\x7f\xff\xff\xff\x0a\x01", "q / a*", oneLine},
		"torn":            {frame + string(withLength(good)[:40]), "q / a*", oneLine},
		"inner lie":       {string(withLength([]byte{0x0a, 0x7f, 0x12})) + frame, "q / a*", oneLine},
		"bomb":            {string(withLength(bomb)) + frame, "q / a*", oneLine},
		"empty elements":  {string(withLength(wrap(wrap(empty, 0x12), 0x0a))) + frame, "q / a*", "map[]"},
		"deep value":      {tooDeep + frame, "q / a*", "map[]"},
		"not UTF-8":       {"{\"resourceSpans\":[\"\xff\"]}\n" + loop, "q / x / r / a*", oneLine},
		"torn line":       {loop + loop[:len(loop)/2], "q / x / r / a*", oneLine},
		"twice":           {loop + loop, "q / x / r / a*", "map[session:map[identical_row:4]]"},
		"long line":       {`{"x":"` + strings.Repeat("x", 70<<20) + "\n" + loop, "q / x / r / a*", oneLine},
		"odd types": {`{"resourceSpans":[1,{"scopeSpans":[2,{"spans":[3,{"traceId":4,"attributes":5}]}]}],` +
			`"resourceLogs":{}}` + "\n" + loop, "q / x / r / a*", "map[]"},
		"cut messages":   {cut, "", "map[call:map[missing_history:1]]"},
		"another format": {"Dear Sir or Madam", "", "map[file:map[other_format:1]]"},
	} {
		t.Run(name, func(t *testing.T) {
			r := sessiontest.ReadText(t, Factory(), "e.jsonl", c.content)
			walks := ""
			if len(r.Examples) > 0 {
				walks = sessiontest.Walks(r.Examples[0])
			}
			if got := fmt.Sprint(r.Stats.Dropped); walks != c.walks || got != c.drops {
				t.Errorf("%s, drops %s %+v", walks, got, r.Drops)
			}
		})
	}
}

// TestClocksBackwards: the order comes from the history, not from a clock.
func TestClocksBackwards(t *testing.T) {
	r := one(t, "q / a* / r / b* / s / c*", spansOf(
		chatSpan("one", "", 9, list(text("user", "q")), list(text("assistant", "a"))),
		chatSpan("two", "", 5, list(text("user", "q"), text("assistant", "a"), text("user", "r")),
			list(text("assistant", "b"))),
		chatSpan("three", "", 1, list(text("user", "q"), text("assistant", "a"), text("user", "r"),
			text("assistant", "b"), text("user", "s")), list(text("assistant", "c"))),
	))
	if r.Stats.Calls != 3 || len(r.Stats.Dropped) != 0 {
		t.Errorf("%+v", r.Stats)
	}
}

// TestAlteredBytes: whichever byte of a message is altered, everything that is read is accounted for, and nothing but
// this message is lost.
func TestAlteredBytes(t *testing.T) {
	message := func(id, question, answer string) []byte {
		span := chatSpan(id, "", 1, list(text("user", question)), list(text("assistant", answer)))
		return withLength(binaryOf(t, spansOf(span)))
	}
	good, other := message("one", "q", "a"), message("two", "r", "b")
	const head = 4 // the length of the whole message, which shows where the next one begins
	for i := head; i < len(good); i++ {
		for _, lie := range []byte{0x7f, 0xff} {
			bad := slices.Clone(good)
			bad[i] = lie
			r := sessiontest.ReadText(t, Factory(), "e.binpb", string(other)+string(bad)+string(other))
			sessiontest.Balanced(t, r)
			if !slices.ContainsFunc(r.Examples, func(ex *ttc.Example) bool {
				return strings.Contains(sessiontest.Walks(ex), "r / b")
			}) {
				t.Fatalf("byte %d as %#x: %+v", i, lie, r.Stats)
			}
		}
	}
}

// TestSiblings: many answers to one question, below one agent, are distinguished and set aside, and what is allocated
// grows in proportion to their number.
func TestSiblings(t *testing.T) {
	allocated := func(n int) uint64 {
		spans := []*tracepb.Span{made("agent", "", 1, attrs{"gen_ai.operation.name": "invoke_agent"})}
		for i := range n {
			spans = append(spans, chatSpan(fmt.Sprint(i), "agent", 2, list(text("user", "q")),
				list(text("assistant", fmt.Sprint("a", i)))))
		}
		path := sessiontest.Write(t, t.TempDir(), "e.jsonl", lines(t, spansOf(spans...)))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := sessiontest.Read(t, Factory(), path)
		runtime.ReadMemStats(&after)
		if got := r.Stats.Dropped["call"][session.AmbiguousRetry]; got != int64(n) {
			t.Fatalf("%d of %d are set aside: %+v", got, n, r.Stats)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	if few, many := allocated(500), allocated(4000); many > 12*few {
		t.Errorf("500 siblings allocate %d bytes, 4,000 allocate %d", few, many)
	}
}

// TestLimits checks that a session beyond its limit is dropped and counted.
func TestLimits(t *testing.T) {
	path := sessiontest.Write(t, t.TempDir(), "e.jsonl", lines(t, spansOf(
		chatSpan("one", "", 1, list(text("user", strings.Repeat("q", 5000))), list(text("assistant", "a"))),
	)))
	cfg := schema.New[session.Config]()
	cfg.MaxSession = 2000
	s, err := Factory().OpenAll(context.Background(), &cfg, []string{path}, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, _, err := s.Next(context.Background()); err == nil ||
		s.Stats().Dropped["session"][session.SessionTooLong] != 1 {
		t.Errorf("%v %+v", err, s.Stats())
	}
}

// FuzzExport: whatever a file contains, reading it ends, and the books balance.
func FuzzExport(f *testing.F) {
	for _, m := range legacy() {
		b, _ := proto.Marshal(m)
		f.Add(withLength(b))
		f.Add(b)
	}
	f.Add(
		[]byte(
			`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"0174726163652d2d2d2d2d2d2d2d2d2d",` +
				`"spanId":"0000000000000001",` +
				`"attributes":[{"key":"openinference.span.kind","value":{"stringValue":"LLM"}},` +
				`{"key":"llm.input_messages.0.message.content","value":{"stringValue":"q"}},` +
				`{"key":"llm.output_messages.0.message.content","value":{"stringValue":"q"}}]}]}]}]}`,
		),
	)
	f.Add([]byte("\n{\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "e.jsonl")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := sessiontest.ReadAfter(Factory(), nil, nil, path)
		if err != nil {
			return // an invalid gzip, say
		}
		sessiontest.Balanced(t, r)
	})
}

// BenchmarkRead reads sessions of 20 calls with growing histories. It counts the bytes of the export.
func BenchmarkRead(b *testing.B) {
	var out strings.Builder
	for s := range 200 {
		history := text("user", strings.Repeat(fmt.Sprintf("What is in the file %d? ", s), 20))
		for n := range 20 {
			span := chatSpan(
				fmt.Sprint(n),
				"",
				n,
				list(history),
				list(calling("", fmt.Sprintf("c%d", n), `{"a":1}`)),
			)
			copy(span.TraceId[4:], fmt.Sprintf("%06d", s))
			span.TraceId = slices.Clone(span.TraceId)
			out.WriteString(lines(b, spansOf(span)))
			history += "," + calling(
				"",
				fmt.Sprintf("c%d", n),
				`{"a":1}`,
			) + "," + result(
				fmt.Sprintf("c%d", n),
				strings.Repeat("Some lines of a file. ", 60),
			)
		}
	}
	sessiontest.Bench(b, Factory(), sessiontest.Write(b, b.TempDir(), "e.jsonl", out.String()), 4000)
}

// TestInterrupted: a file that wasn't read to its end isn't dropped as one in another format.
func TestInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "export.jsonl")
	if err := os.WriteFile(path, []byte("{}\n{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tally := &source.Tally{}
	limits := session.Limits{MaxLine: 1 << 20, MaxSession: 1 << 20, MaxObjects: 1000, MaxNames: 1 << 20}
	if _, err := read(ctx, []string{path}, limits, tally); err == nil || tally.S.Dropped != nil {
		t.Errorf("%v, dropped %v", err, tally.S.Dropped)
	}
}

// TestInstrumentation: fields of later versions don't hide the instrumentation's name and version.
func TestInstrumentation(t *testing.T) {
	scope := []byte{
		0x48, 1, // field 9 of the list of spans: a number
		0x0a, 7, 0x48, 1, 0x0a, 1, 'n', 0x12, 0, // the scope, with such a field before its name
	}
	if got, want := instrumentation(scope), scopeOf("n", ""); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
