package requestlog

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// chatLine returns a line of a log of chat completions: what was said, in turns, and the answer.
func chatLine(id, more string, turns ...string) string {
	var messages []string
	for i, text := range turns[:len(turns)-1] {
		messages = append(messages, fmt.Sprintf(`{"role":%q,"content":%q}`, []string{"user", "assistant"}[i%2], text))
	}
	return fmt.Sprintf(`{"request":{"model":"m","messages":[%s]},"response":{"id":%q,"model":"m","created":%d,`+
		`"choices":[{"message":{"role":"assistant","content":%q,"refusal":null},"finish_reason":"stop"}]}%s}`+"\n",
		strings.Join(messages, ","), id, 100+len(turns), turns[len(turns)-1], more)
}

// responsesLine returns a line of a log of responses.
func responsesLine(id, previous, instructions, says, answer string) string {
	return fmt.Sprintf(`{"request":{"model":"m","previous_response_id":%q,"instructions":%q,"input":%q},`+
		`"response":{"id":%q,"created_at":%d,"output":[{"type":"message","role":"assistant","content":`+
		`[{"type":"output_text","text":%q}]}]}}`+"\n", previous, instructions, says, id, 100+int(id[0]), answer)
}

// itemsLine returns a line of a log of responses whose input is a list of items.
func itemsLine(id, previous, items, answer string) string {
	return strings.Replace(responsesLine(id, previous, "", "", answer), `"input":""`, `"input":[`+items+`]`, 1)
}

func said(role, text string) string { return fmt.Sprintf(`{"role":%q,"content":%q}`, role, text) }

func TestEachCallIsWhatItWasGiven(t *testing.T) {
	for name, c := range map[string]struct {
		source      source.Factory
		text, walks string
	}{
		"a conversation": {
			Chat(), chatLine("1", "", "q", "a") + chatLine("2", "", "q", "a", "r", "b"), "q / a* / r / b*",
		},
		"in any order": {
			Chat(), chatLine("2", "", "q", "a", "r", "b") + chatLine("1", "", "q", "a"), "q / a* / r / b*",
		},
		"an edited history": {
			Chat(), chatLine("1", "", "q", "a") + chatLine("2", "", "q", "A", "r", "b"), "q / a* || q / A / r / b*",
		},
		"steps of smolagents": {
			Chat(), `{"task":"q"}` + "\n" + `{"step_number":1,"model_input_messages":[{"role":"user","content":[{"type":"text",` +
				`"text":"q"}]}],"model_output_message":{"role":"assistant","content":"a","raw":{"x":1}},"observations":"r"}` + "\n" +
				`{"step_number":2,"model_input_messages":[{"role":"user","content":[{"type":"text","text":"q"}]},` +
				`{"role":"assistant","content":[{"type":"text","text":"a"}]},{"role":"tool-response","content":[{"type":"text",` +
				`"text":"r"}]}],"model_output_message":{"role":"assistant","content":"b"}}` + "\n", "q / a* / r / b*",
		},
		"recorded twice": {Chat(), chatLine("1", "", "q", "a") + chatLine("1", `,"n":1`, "q", "a"), "q / a*"},
		"Anthropic": {
			Chat(), `{"request":{"model":"m","system":"s","tools":[{"name":"f","input_schema":{}}],"messages":[` +
				`{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"text","text":"a"},` +
				`{"type":"tool_use","id":"c","name":"f","input":{"x":1}}]},{"role":"user","content":[` +
				`{"type":"tool_result","tool_use_id":"c","is_error":true,"content":"no"},` +
				`{"type":"text","text":"r"}]}]},` +
				`"response":{"id":"1","type":"message","role":"assistant","model":"m","stop_reason":"end_turn",` +
				`"content":[{"type":"text","text":"b"}]}}`, "s / q / a[c] / c=no! / r / b*",
		},
		"bodies as texts": {
			Chat(), `{"request":{"method":"POST","body":` +
				sessiontest.Quote(`{"messages":[{"role":"user","content":"q"}]}`) +
				`},"response":{"body":` + sessiontest.Quote(`{"id":"1","choices":[{"message":{"role":"assistant",`+
				`"content":"a"}}]}`) + `}}`, "q / a*",
		},
		"a chain of responses": {
			Responses(), responsesLine("2", "1", "t", "r", "b") + responsesLine("1", "", "s", "q", "a"),
			"s / q / a* || t / q / a / r / b*",
		},
		"a system message in the input": {
			Responses(), itemsLine("1", "", said("developer", "s")+","+said("user", "q"), "a") +
				itemsLine("2", "1", said("user", "r"), "b"), "s / q / a* / r / b*",
		},
		"a system message in a later input": {
			Responses(), itemsLine("1", "", said("user", "q"), "a") +
				itemsLine("2", "1", said("developer", "s")+","+said("user", "r"), "b"), "q / a* / s / r / b*",
		},
		"instructions and a system message": {
			Responses(), strings.Replace(itemsLine("1", "", said("developer", "s")+","+said("user", "q"), "a"),
				`"instructions":""`, `"instructions":"i"`, 1) + responsesLine("2", "1", "j", "r", "b"),
			"i / s / q / a* || j / s / q / a / r / b*",
		},
		"a longer chain": {
			Responses(), responsesLine("3", "2", "", "u", "c") + responsesLine("1", "", "", "q", "a") +
				responsesLine("2", "1", "", "r", "b"), "q / a* / r / b* / u / c*",
		},
	} {
		t.Run(name, func(t *testing.T) { sessiontest.One(t, c.source, "log.jsonl", c.text, c.walks) })
	}
}

// TestSessions: what the log names as a session is one; otherwise calls that begin alike are.
func TestSessions(t *testing.T) {
	for name, c := range map[string]struct {
		source source.Factory
		text   string
		want   []string
	}{
		"named": {
			Chat(), chatLine("1", `,"session_id":"s"`, "q", "a") +
				chatLine("2", `,"metadata":{"session_id":"t"}`, "q", "b"),
			[]string{"s: q / a*", "t: q / b*"},
		},
		"named by numbers": {Chat(), chatLine("1", `,"thread_id":7`, "q", "a"), []string{"7: q / a*"}},
		"by their openings": {
			Chat(), chatLine("1", "", "q", "a") + chatLine("2", "", "r", "b"),
			[]string{"log-2bf693113d5ffb52: q / a*", "log-35872f6c16c38985: r / b*"},
		},
		"Claude Code's": {
			Chat(), `{"request":{"metadata":{"user_id":"user_1_account__session_abc"},"messages":[{"role":"user",` +
				`"content":"q"}]},"response":{"role":"assistant","content":[{"type":"text","text":"a"}]}}`,
			[]string{"abc: q / a*"},
		},
		"a long name": {
			Responses(), strings.Replace(responsesLine("1", "", "", "q", "a"), `{"request"`, `{"session_id":"`+
				strings.Repeat("x", 60)+`","request"`, 1) + responsesLine("2", "1", "", "r", "b"),
			[]string{strings.Repeat("x", 60) + ": q / a* / r / b*"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := sessiontest.ReadText(t, c.source, "log.jsonl", c.text)
			var got []string
			for _, ex := range r.Examples {
				got = append(got, ex.ID+": "+sessiontest.Walks(ex))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: got %q, want %q; %+v", name, got, c.want, r.Drops)
			}
		})
	}
}

// TestWhatIsNotACall: everything that isn't trained is counted by reason.
func TestWhatIsNotACall(t *testing.T) {
	good := chatLine("1", "", "q", "a")
	for name, c := range map[string]struct {
		source     source.Factory
		text, want string
	}{
		"an error": {
			Chat(), `{"request":{"messages":[]},"response":{"error":{"message":"no"}}}`, "map[call:map[failed_call:1]]",
		},
		"no response": {Chat(), `{"request":{"messages":[]},"response":null}`, "map[call:map[failed_call:1]]"},
		"no answer": {
			Chat(), `{"request":{"messages":[]},"response":{"choices":[]}}`, "map[call:map[failed_call:1]]",
		},
		"a stream": {
			Chat(), `{"request":{"messages":[]},"response":"data: {}"}`, "map[call:map[unknown_shape:1]]",
		},
		"odd messages": {
			Chat(), `{"request":{"messages":[1]},"response":{"choices":[]}}`, "map[call:map[unknown_shape:1]]",
		},
		"a missing link": {Responses(), responsesLine("2", "1", "", "r", "b"), "map[call:map[missing_history:1]]"},
		"a circle": {
			Responses(), responsesLine("1", "2", "", "r", "b") + responsesLine("2", "1", "", "r", "b"),
			"map[call:map[missing_history:2]]",
		},
		"torn":           {Chat(), good + good[:30], "map[line:map[unread_line:1]]"},
		"something else": {Chat(), `{"a":1}`, "map[file:map[other_format:1]]"},
		"twice":          {Chat(), good + good, "map[session:map[identical_row:1]]"},
		"the other kind": {Chat(), responsesLine("1", "", "", "q", "a"), "map[file:map[other_format:1]]"},
	} {
		t.Run(name, func(t *testing.T) {
			r := sessiontest.ReadText(t, c.source, "log.jsonl", c.text)
			if got := fmt.Sprint(r.Stats.Dropped); got != c.want {
				t.Errorf("%s: got %s, want %s; %+v", name, got, c.want, r.Drops)
			}
		})
	}
	r := sessiontest.ReadText(t, Chat(), "log.jsonl", good+`{"a":1}`+"\n"+responsesLine("1", "", "", "q", "a"))
	unread := map[string]int64{"entries that are calls of a kind that the source doesn't read": 2}
	if diff := cmp.Diff(unread, r.Stats.Unread); diff != "" {
		t.Error(diff)
	}
}

// TestFidelity: arguments that were logged as values and reasoning that wasn't logged are gaps; ids are used.
func TestFidelity(t *testing.T) {
	answer := `{"request":{"messages":[{"role":"user","content":"q"}]},"response":{"id":"1","choices":[{"message":` +
		`{"role":"assistant","content":"a"%s},"token_ids":[5,6],` +
		`"logprobs":{"content":[{"logprob":-1},{"logprob":-0.5}]}}]%s}}`
	for _, c := range []struct {
		message, response string
		fidelity          ttc.Fidelity
		gaps              string
	}{
		{"", "", ttc.IDsLogProbs, ""},
		{
			`,"tool_calls":[{"id":"c","function":{"name":"f","arguments":{"x":1}}}]`, "",
			ttc.IDsLogProbs, "parsed_arguments",
		},
		{"", `,"usage":{"completion_tokens_details":{"reasoning_tokens":9}}`, ttc.Partial, "hidden_reasoning"},
	} {
		t.Run(c.message, func(t *testing.T) {
			r := sessiontest.ReadText(t, Chat(), "log.jsonl", fmt.Sprintf(answer, c.message, c.response))
			if ex := r.Examples[0]; ex.Fidelity != c.fidelity || strings.Join(ex.Gaps.Names(), " ") != c.gaps {
				t.Errorf("%+v: %s, %v", c, ex.Fidelity, ex.Gaps.Names())
			}
		})
	}
}

// TestWhatTheLogLacks: messages that the server holds and items that aren't understood are a gap, for their call and
// for the calls that continue it, and such items are counted.
func TestWhatTheLogLacks(t *testing.T) {
	next := responsesLine("2", "1", "", "r", "b") + responsesLine("3", "2", "", "u", "c")
	const search = `"output":[{"type":"web_search_call"},`
	for name, c := range map[string]struct{ text, gaps, unread string }{
		"nothing": {responsesLine("1", "", "", "q", "a"), "", "map[]"},
		"no conversation": {
			strings.Replace(responsesLine("1", "", "", "q", "a"), `"model"`, `"conversation":null,"model"`, 1), "", "map[]",
		},
		"a conversation": {
			strings.Replace(responsesLine("1", "", "", "q", "a"), `"model"`, `"conversation":"v","model"`, 1),
			"rebuilt_history", "map[]",
		},
		"a stored prompt": {
			strings.Replace(responsesLine("1", "", "", "q", "a"), `"model"`, `"prompt":{"id":"p"},"model"`, 1),
			"rebuilt_history", "map[]",
		},
		"an item of the input": {
			itemsLine("1", "", `{"type":"item_reference","id":"x"},`+said("user", "q"), "a"),
			"rebuilt_history", "map[items of type item_reference:1]",
		},
		"an item of the output": {
			strings.Replace(responsesLine("1", "", "", "q", "a"), `"output":[`, search, 1),
			"rebuilt_history", "map[items of type web_search_call:1]",
		},
		"items of both": {
			strings.Replace(itemsLine("1", "", `{"type":"web_search_call"},`+said("user", "q"), "a"), `"output":[`, search, 1),
			"rebuilt_history", "map[items of type web_search_call:2]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			// Calls with other tools form an example of their own.
			first := strings.Replace(c.text, `"model"`, `"tools":[{"type":"function","name":"f"}],"model"`, 1)
			r := sessiontest.ReadText(t, Responses(), "log.jsonl", first+next)
			if got := fmt.Sprint(r.Stats.Unread); got != c.unread {
				t.Errorf("got %s, want %s", got, c.unread)
			}
			var walks []string
			for _, ex := range r.Examples {
				walks = append(walks, sessiontest.Walks(ex))
				if got := strings.Join(ex.Gaps.Names(), " "); got != c.gaps {
					t.Errorf("%s: got %q, want %q", sessiontest.Walks(ex), got, c.gaps)
				}
			}
			if want := []string{"q / a*", "q / a / r / b* / u / c*"}; !slices.Equal(walks, want) {
				t.Errorf("got %q, want %q; %+v", walks, want, r.Drops)
			}
		})
	}
}

// TestToolsOfTheServer checks that each answer of a response within which the server ran a tool is a call whose context
// ends just before it. The call that continues the response has all of it as context.
func TestToolsOfTheServer(t *testing.T) {
	output := `"output":[{"type":"reasoning","content":[{"type":"reasoning_text","text":"hm"}]},` +
		`{"type":"tool_search_call","call_id":"c","arguments":{"q":"x"}},` +
		`{"type":"tool_search_output","call_id":"c","tools":[{"name":"f"}]},`
	first := strings.Replace(responsesLine("1", "", "s", "q", "a"), `"output":[`, output, 1)
	r := sessiontest.One(t, Responses(), "log.jsonl", first+responsesLine("2", "1", "s", "r", "b"),
		`s / q / [c]* / c=[{"name":"f"}] / a* / r / b*`)
	sessiontest.Balanced(t, r)
	if ex := r.Examples[0]; r.Stats.Calls != 3 || ex.Graph.Nodes[2].FinishReason != "tool_calls" ||
		ex.Graph.Nodes[4].FinishReason != "stop" {
		t.Errorf("%+v: %+v", r.Stats, ex.Graph.Nodes)
	}
}

// TestStoredPrompt checks that without tools in the request, the tools of a prompt that the server stores are unknown.
// The prompt may name the model, too.
func TestStoredPrompt(t *testing.T) {
	for more, want := range map[string]string{
		`"model":"m"`: "no_tools rebuilt_history", `"tools":[]`: "no_tools rebuilt_history",
		`"tools":[{"type":"function","name":"f"}]`: "rebuilt_history",
	} {
		line := responsesLine("1", "", "", "q", "a")
		line = strings.Replace(line, `"model":"m"`, more+`,"prompt":{"id":"p"}`, 1)
		r := sessiontest.One(t, Responses(), "log.jsonl", line, "q / a*")
		if got := strings.Join(r.Examples[0].Gaps.Names(), " "); got != want {
			t.Errorf("%s: got %q, want %q", more, got, want)
		}
	}
}

// TestRecordedCalls compares the calls in recorded logs, as a multiset, with what was sent over the wire. The OpenAI
// logs contain the same session several times: every answer is trained once.
func TestRecordedCalls(t *testing.T) {
	dir := sessiontest.Recorded(t)
	for _, c := range []struct {
		source  source.Factory
		path    string
		calls   int64
		dropped map[ledger.Reason]int64
	}{
		{Chat(), "request_logs/openai_chat.jsonl", 12, map[ledger.Reason]int64{session.RepeatedCall: 8}},
		{Responses(), "request_logs/openai_responses.jsonl", 7, map[ledger.Reason]int64{session.RepeatedCall: 3}},
		{Chat(), "litellm", 5, map[ledger.Reason]int64{session.FailedCall: 1}},
	} {
		t.Run(c.path, func(t *testing.T) {
			r := sessiontest.Read(t, c.source, filepath.Join(dir, c.path))
			want := sessiontest.Wire(t, true)
			if got := sessiontest.Trained(r, true); !slices.Equal(got, want) {
				t.Errorf("%s: got\n%s\nwant\n%s", c.path, strings.Join(got, "--\n"), strings.Join(want, "--\n"))
			}
			dropped := map[string]map[ledger.Reason]int64{"call": c.dropped}
			if r.Stats.Calls != c.calls || !cmp.Equal(r.Stats.Dropped, dropped) || len(r.Examples) != 1 {
				t.Fatalf("%s: %d examples, %+v", c.path, len(r.Examples), r.Stats)
			}
			if ex := r.Examples[0]; len(ex.Tools) != 3 || ex.Fidelity != ttc.TextOnly {
				t.Errorf("%s: %d tools, %s", c.path, len(ex.Tools), ex.Fidelity)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add(chatLine("1", "", "q", "a", "r", "b"))
	f.Add(responsesLine("1", "", "s", "q", "a") + responsesLine("2", "1", "", "q", "a"))
	f.Fuzz(func(t *testing.T, text string) {
		for _, source := range []source.Factory{Chat(), Responses()} {
			r := sessiontest.ReadText(t, source, "log.jsonl", text+"\n")
			sessiontest.Balanced(t, r)
		}
	})
}
