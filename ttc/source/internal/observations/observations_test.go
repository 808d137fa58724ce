package observations

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// generation returns a Langfuse row.
func generation(id, more, input, output string) string {
	return fmt.Sprintf(`{"id":%q,"trace_id":"t1","type":"GENERATION","start_time":"2026-01-01 00:00:0%d.5",`+
		`"provided_model_name":"m"%s,"input":%s,"output":%s}`+"\n", id, len(id), more, input, output)
}

func langfuseScore(name, value, form string) string {
	return fmt.Sprintf(`{"id":"s","trace_id":"t1","name":%q,"value":%s,"data_type":%q}`+"\n", name, value, form)
}

const (
	question = `{"role":"user","content":"q"}`
	asks     = `{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f",` +
		`"arguments":"{ }"}}]}`
	toolSays = `{"role":"tool","tool_call_id":"c","content":"no"}`
	answers  = `{"role":"assistant","content":"a"}`
)

// run returns a LangSmith run.
func run(id, typ, more, inputs, outputs string) string {
	return fmt.Sprintf(`{"id":%q,"trace_id":"t1","run_type":%q,"start_time":"2026-01-01T00:00:0%d.5"%s,"inputs":%s,`+
		`"outputs":%s}`+"\n", id, typ, len(id), more, inputs, outputs)
}

// span returns a span of the OpenAI Agents SDK.
func span(id, data string) string {
	return fmt.Sprintf(`{"object":"trace.span","id":%q,"trace_id":"t1","parent_id":null,"started_at":"2026-01-01T00:00:0%d.5",`+
		`"span_data":%s,"error":null}`+"\n", id, len(id), data)
}

// lc returns a LangChain message.
func lc(typ, content, more string) string {
	return `{"lc":1,"type":"constructor","id":["langchain","schema","messages"],"kwargs":{"type":"` + typ +
		`","content":"` + content + `"` + more + `}}`
}

// nested returns lines as elements of a list.
func nested(lines ...string) string {
	return strings.ReplaceAll(strings.TrimSpace(strings.Join(lines, "")), "\n", ",")
}

func generations(message string) string {
	return `{"generations":[[{"text":"","message":` + message + `}]]}`
}

func TestCalls(t *testing.T) {
	for name, c := range map[string]struct {
		source      source.Factory
		text, walks string
	}{
		"Langfuse": {
			Langfuse(), generation("a", "", `{"messages":[`+question+`],"tools":[]}`, asks) +
				generation("bb", "", `[`+question+`,`+asks+`,`+toolSays+`]`, answers), "q / [c]* / c=no / a*",
		},
		"texts": {
			Langfuse(), generation("a", "", sessiontest.Quote(`[`+question+`]`), sessiontest.Quote(answers)), "q / a*",
		},
		"plain texts": {Langfuse(), generation("a", "", `"q"`, `"a"`), "q / a*"},
		"a completion": {
			Langfuse(), generation("a", "", `[`+question+`]`, `{"choices":[{"message":`+answers+`}]}`), "q / a*",
		},
		"the API's keys": {
			Langfuse(), strings.NewReplacer("trace_id", "traceId", "start_time", "startTime").Replace(
				generation("a", "", `[`+question+`]`, answers)), "q / a*",
		},
		"a tool that failed": {
			Langfuse(), generation("bb", "", `[`+question+`,`+asks+`,`+toolSays+`]`, answers) +
				`{"id":"x","trace_id":"t1","type":"TOOL","level":"ERROR","input":{"tool_call_id":"c"}}`,
			"q / [c] / c=no! / a*",
		},
		"OpenAI's agents": {
			OpenAIAgents(), span("a", `{"type":"agent","name":"n"}`) +
				span("bb", `{"type":"generation","model":"m","input":[`+question+`],"output":[`+asks+`]}`) +
				span("ccc", `{"type":"function","name":"f","input":"{ }","output":"no"}`) +
				span("dddd", `{"type":"generation","model":"m","input":[`+question+`,`+asks+`,`+toolSays+`],"output":[`+answers+`]}`),
			"q / [c]* / c=no / a*",
		},
		"LangSmith's wrapper": {
			LangSmith(), run("a", "llm", "", `{"messages":[`+question+`]}`, `{"choices":[{"message":`+answers+`}]}`),
			"q / a*",
		},
		"LangChain": {
			LangSmith(), run("bb", "llm", "", `{"messages":[[`+lc("system", "s", "")+`,`+lc("human", "q", "")+`,`+
				lc("ai", "", `,"tool_calls":[{"name":"f","args":{"x":1},"id":"c"}]`)+`,`+
				lc("tool", "no", `,"tool_call_id":"c","status":"error"`)+`]]}`, generations(lc("ai", "a", ""))),
			"s / q / [c] / c=no! / a*",
		},
		"Langfuse's traces": {
			Langfuse(), `{"id":"t1","name":"n","sessionId":"s9","observations":[` + nested(
				generation("a", "", `[`+question+`]`, asks), generation("bb", "", `[`+question+`,`+asks+`,`+toolSays+`]`, answers)) +
				`],"scores":[` + nested(langfuseScore("good", "1", "NUMERIC")) + `]}`, "q / [c]* / c=no / a*",
		},
		"a page of the API": {
			Langfuse(),
			"{\n\"data\": [" + strings.NewReplacer("trace_id", "traceId", "start_time", "startTime").Replace(
				nested(generation("a", "", `[`+question+`]`, answers))) + "],\n\"meta\": {\"page\": 1}}\n", "q / a*",
		},
		"LangSmith's runs": {
			LangSmith(), `{"runs":[` + nested(run("a", "llm", "", `{"messages":[`+question+`]}`,
				`{"choices":[{"message":`+answers+`}]}`)) + `]}`, "q / a*",
		},
		"runs within runs": {
			LangSmith(), run("a", "chain", `,"child_runs":[`+nested(run("bb", "chain", `,"child_runs":[`+
				nested(run("c", "llm", "", `{"messages":[`+question+`]}`,
					`{"choices":[{"message":`+answers+`}]}`))+`]`, `{}`, `{}`))+`]`, `{}`, `{}`), "q / a*",
		},
		"objects as texts": {
			LangSmith(), run("a", "llm", "", sessiontest.Quote(`{"messages":[[`+lc("human", "q", "")+`]]}`),
				sessiontest.Quote(generations(lc("AIMessageChunk", "a", "")))), "q / a*",
		},
	} {
		t.Run(name, func(t *testing.T) { sessiontest.One(t, c.source, "export.jsonl", c.text, c.walks) })
	}
}

// TestSampledArguments: LangChain keeps the arguments as the model wrote them alongside the parsed ones.
func TestSampledArguments(t *testing.T) {
	for _, c := range []struct{ more, arguments, gaps string }{
		{"", `{"x":1}`, "no_tools parsed_arguments"},
		{
			`,"additional_kwargs":{"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{ \"x\":1}"}}]}`,
			`{ "x":1}`, "no_tools",
		},
	} {
		t.Run(c.more, func(t *testing.T) {
			answer := lc("ai", "", `,"tool_calls":[{"name":"f","args":{"x":1},"id":"c"}]`+c.more)
			r := sessiontest.One(t, LangSmith(), "runs.jsonl",
				run("a", "llm", "", `{"messages":[[`+lc("human", "q", "")+`]]}`, generations(answer)), "q / [c]*")
			ex := r.Examples[0]
			if got := ex.Graph.Nodes[1].Message.ToolCalls[0].Arguments; got != c.arguments ||
				strings.Join(ex.Gaps.Names(), " ") != c.gaps {
				t.Errorf("%s, %v", got, ex.Gaps.Names())
			}
		})
	}
}

// TestTools: tool definitions are in the request, or beside it.
func TestTools(t *testing.T) {
	definition := `[{"type":"function","function":{"name":"f"}}]`
	for _, c := range []struct {
		source source.Factory
		text   string
	}{
		{Langfuse(), generation("a", "", `{"messages":[`+question+`],"tools":`+definition+`}`, answers)},
		{Langfuse(), generation("a", `,"tool_definitions":`+definition, `[`+question+`]`, answers)},
		{LangSmith(), run("a", "llm", `,"extra":{"invocation_params":{"tools":`+definition+`}}`,
			`{"messages":[`+question+`]}`, `{"choices":[{"message":`+answers+`}]}`)},
	} {
		t.Run(c.text, func(t *testing.T) {
			r := sessiontest.One(t, c.source, "export.jsonl", c.text, "q / a*")
			if ex := r.Examples[0]; len(ex.Tools) != 1 || ex.Fidelity != ttc.TextOnly {
				t.Errorf("%s: %d tools, %s", c.text, len(ex.Tools), ex.Fidelity)
			}
		})
	}
}

// TestScores: one name gives a reward, several give none.
func TestScores(t *testing.T) {
	row := generation("a", `,"session_id":"s1"`, `"q"`, `"a"`)
	llm := func(more string) string {
		return run("t1", "llm", more, `{"messages":[`+question+`]}`, `{"choices":[{"message":`+answers+`}]}`)
	}
	for name, c := range map[string]struct {
		source       source.Factory
		text, reward string
		unread       map[string]int64
	}{
		"none": {Langfuse(), row, "none", nil},
		"one":  {Langfuse(), row + langfuseScore("good", "0.5", "NUMERIC"), "0.5", nil},
		"of one": {
			Langfuse(), row + langfuseScore("good", "1", "BOOLEAN") + langfuseScore("good", "0", "NUMERIC"),
			"0.5", nil,
		},
		"a label": {
			Langfuse(), row + langfuseScore("good", "3", "CATEGORICAL"), "none",
			map[string]int64{"scores that are not numbers": 1},
		},
		"feedback": {LangSmith(), llm(`,"feedback_stats":{"good":{"n":2,"avg":0.25}}`), "0.25", nil},
		"several": {
			Langfuse(), row + langfuseScore("good", "1", "NUMERIC") + langfuseScore("fast", "0", "NUMERIC"),
			"none",
			map[string]int64{"scores of sessions that have scores with different names": 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := sessiontest.ReadText(t, c.source, "export.jsonl", c.text)
			got := "none"
			if reward := r.Examples[0].Reward; reward != nil {
				got = fmt.Sprint(*reward)
			}
			if diff := cmp.Diff(c.unread, r.Stats.Unread, cmpopts.EquateEmpty()); got != c.reward || diff != "" {
				t.Errorf("reward %s, want %s; unread: %s", got, c.reward, diff)
			}
		})
	}
	if r := sessiontest.ReadText(t, Langfuse(), "export.jsonl", row); r.Examples[0].ID != "s1" {
		t.Error(r.Examples[0].ID)
	}
}

// TestEnvelopes: what a trace says about itself applies to what it holds, and entries that are too deep are counted.
func TestEnvelopes(t *testing.T) {
	observation := strings.Replace(generation("a", "", `"q"`, `"a"`), `"trace_id":"t1",`, "", 1)
	r := sessiontest.ReadText(t, Langfuse(), "traces.jsonl", `{"id":"t7","sessionId":"s9","observations":[`+
		nested(observation)+`],"scores":[{"id":"s","name":"good","value":0.5,"dataType":"NUMERIC"}]}`)
	if len(r.Examples) != 1 || r.Examples[0].ID != "s9" || r.Examples[0].Reward == nil || *r.Examples[0].Reward != 0.5 {
		t.Errorf("%+v, %v", r.Examples, r.Stats.Unread)
	}
	deep := run("a", "llm", "", `{"messages":[`+question+`]}`, `{"choices":[{"message":`+answers+`}]}`)
	for i := range 40 {
		deep = run(fmt.Sprint("x", i), "chain", `,"child_runs":[`+nested(deep)+`]`, `{}`, `{}`)
	}
	r = sessiontest.ReadText(t, LangSmith(), "runs.jsonl", deep)
	if got := fmt.Sprint(r.Stats.Unread); got != "map[entries nested too deeply:1 runs of type chain:31 traces without a model call:1]" {
		t.Error(got)
	}
}

func TestWhatIsNotACall(t *testing.T) {
	good := generation("a", "", `"q"`, `"a"`)
	for name, c := range map[string]struct {
		source                source.Factory
		text, dropped, unread string
	}{
		"failed": {
			Langfuse(), generation("a", `,"level":"ERROR"`, `"q"`, `"a"`), "map[call:map[failed_call:1]]", "map[]",
		},
		"another item": {
			Langfuse(), generation("a", "", `{"input":"q"}`, `{"output":[{"type":"web_search_call"},`+
				`{"type":"message","role":"assistant","content":"a"}]}`), "map[]", "map[items of type web_search_call:1]",
		},
		"no output": {Langfuse(), generation("a", "", `"q"`, `null`), "map[call:map[failed_call:1]]", "map[]"},
		"no input":  {Langfuse(), generation("a", "", `null`, `"a"`), "map[call:map[missing_history:1]]", "map[]"},
		"odd": {
			Langfuse(), generation("a", "", `[{"role":3}]`, `"a"`), "map[call:map[unknown_shape:1]]", "map[]",
		},
		"an error": {
			LangSmith(), run("a", "llm", `,"error":"no"`, `{}`, `{}`), "map[call:map[failed_call:1]]", "map[]",
		},
		"a span": {
			Langfuse(), good + strings.Replace(good, "GENERATION", "SPAN", 1),
			"map[]", "map[observations of type SPAN:1]",
		},
		"a chain": {
			LangSmith(), run("a", "chain", "", `{}`, `{}`) + run("b", "llm", "", `{"messages":[`+question+`]}`,
				generations(lc("ai", "a", ""))), "map[]", "map[runs of type chain:1]",
		},
		"another line":   {Langfuse(), good + `{"a":1}`, "map[]", "map[entries that are not observations:1]"},
		"something else": {LangSmith(), good, "map[file:map[other_format:1]]", "map[]"},
	} {
		t.Run(name, func(t *testing.T) {
			r := sessiontest.ReadText(t, c.source, "export.jsonl", c.text)
			if got := fmt.Sprint(r.Stats.Dropped); got != c.dropped {
				t.Errorf("%s: got %s, want %s", name, got, c.dropped)
			}
			if got := fmt.Sprint(r.Stats.Unread); got != c.unread {
				t.Errorf("%s: got %s, want %s", name, got, c.unread)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add(generation("a", "", `[`+question+`]`, answers) + langfuseScore("good", "1", "NUMERIC"))
	f.Add(run("a", "llm", "", `{"messages":[[`+lc("human", "q", "")+`]]}`, generations(lc("ai", "a", ""))))
	f.Fuzz(func(t *testing.T, text string) {
		for _, source := range []source.Factory{Langfuse(), LangSmith()} {
			sessiontest.Balanced(t, sessiontest.ReadText(t, source, "export.jsonl", text+"\n"))
		}
	})
}
