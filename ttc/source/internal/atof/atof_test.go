package atof

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
)

// event is a line of a scope.
func event(id, parent, category, where, name, data, more string) string {
	return fmt.Sprintf(`{"atof_version":"0.1","kind":"scope","uuid":%q,"parent_uuid":%q,`+
		`"propagation_root_uuid":"root","category":%q,"scope_category":%q,"name":%q,"timestamp":"2026-01-01T00:00:0%dZ","data":%s%s}`+"\n",
		id, parent, category, where, name, len(id)%10, data, more)
}

// call returns the two lines of a model call, whose id shows when it happened.
func call(id, parent, question, answer string) string {
	return event(id, parent, "llm", "start", "openai", `{"content":{"messages":[{"role":"user","content":"`+question+
		`"}]}}`, "") + event(id, parent, "llm", "end", "openai", `{"id":"`+id+`","choices":[{"message":{"role":`+
		`"assistant","content":"`+answer+`"}}]}`, "")
}

// TestRelay reads what the nemo-relay package wrote (testdata/relay.py): parallel calls with the arguments as they were
// sampled, a tool that failed, a call that failed and was retried, a sub-agent, a stream.
func TestRelay(t *testing.T) {
	r := sessiontest.Read(t, Factory(), "testdata/relay.jsonl")
	var got []string
	for _, ex := range r.Examples {
		id := ex.ID
		if len(id) == 36 { // a session without a name has the id of its outermost scope
			id = "a"
		}
		got = append(got, id+": "+sessiontest.Walks(ex))
	}
	slices.Sort(got)
	want := []string{
		"a: Bye. / Goodbye.*",
		"trip-1/hotels: Find a hotel in Ulm. / The Lion.*",
		"trip-1: You plan trips. / A trip to Ulm, please. / I look.[c1]* / c1=no train is called ulm! / [c2][c3]* / " +
			"c2=It leaves at 9:10. / c3=Rain. / Take the RE 5 at 9:10, with a coat; sleep at the Lion.*",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	i := slices.IndexFunc(r.Examples, func(ex *ttc.Example) bool { return ex.ID == "trip-1" })
	ex := r.Examples[i]
	if ex.Fidelity != ttc.TextOnly || ex.Gaps != 0 || len(ex.Tools) != 2 || ex.Policy != "model-1" {
		t.Errorf("%s, %v, %d tools, %s", ex.Fidelity, ex.Gaps.Names(), len(ex.Tools), ex.Policy)
	}
	arguments := ex.Graph.Nodes[4].Message.ToolCalls
	if arguments[0].Arguments != `{ "id":"RE 5" }` || arguments[1].Arguments != `{"id": "Ulm\u0020West"}` {
		t.Errorf("%+v", arguments)
	}
	dropped := map[string]map[ledger.Reason]int64{"call": {session.FailedCall: 1}}
	if r.Stats.Calls != 6 || !cmp.Equal(r.Stats.Dropped, dropped) ||
		!cmp.Equal(r.Stats.Unread, map[string]int64{"mark events": 3}) {
		t.Errorf("%+v", r.Stats)
	}
}

// TestRelayInAnyOrder: the same lines in another order give the same examples.
func TestRelayInAnyOrder(t *testing.T) {
	b, err := os.ReadFile("testdata/relay.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSpace(string(b))+"\n", "\n")
	starts, ends := []string{}, []string{} // a stream's end names another root, and is found by its start
	for _, l := range lines {
		if strings.Contains(l, `"scope_category":"end"`) {
			ends = append(ends, l)
		} else {
			starts = append(starts, l)
		}
	}
	slices.Reverse(starts)
	slices.Reverse(ends)
	want := sessiontest.Read(t, Factory(), "testdata/relay.jsonl")
	got := sessiontest.ReadText(t, Factory(), "events.jsonl", strings.Join(append(starts, ends...), ""))
	for i, ex := range got.Examples {
		if sessiontest.Walks(ex) != sessiontest.Walks(want.Examples[i]) || ex.ID != want.Examples[i].ID {
			t.Errorf("%s: %s", ex.ID, sessiontest.Walks(ex))
		}
	}
}

func TestWhatIsNotACall(t *testing.T) {
	good := call("a", "root", "q", "a")
	circle := event("x", "y", "agent", "start", "x", "null", "") + event("y", "x", "agent", "start", "y", "null", "")
	for name, c := range map[string]struct{ text, dropped, unread string }{
		"no end":   {strings.SplitAfter(good, "\n")[0], "map[call:map[failed_call:1]]", "map[]"},
		"no start": {strings.SplitAfter(good, "\n")[1], "map[call:map[missing_history:1]]", "map[]"},
		"another response": {
			strings.Replace(good, `"choices"`, `"candidates"`, 1), "map[call:map[unknown_shape:1]]", "map[]",
		},
		"a circle": {call("a", "x", "q", "a") + circle, "map[]", "map[]"},
		"twice": {
			good + strings.Replace(good, `"name"`, `"x":1,"name"`, 2), "map[]",
			"map[scope events that are recorded twice:2]",
		},
		"another scope": {
			good + event("b", "", "function", "start", "f", "null", ""), "map[]", "map[scopes of category function:1]",
		},
		"another item": {
			event("a", "root", "llm", "start", "x", `{"input":"q"}`, "") + event("a", "root", "llm", "end", "x",
				`{"output":[{"type":"web_search_call"},{"type":"message","role":"assistant","content":"a"}]}`, ""),
			"map[]", "map[items of type web_search_call:1]",
		},
		"another line": {good + `{"a":1}`, "map[]", "map[lines that are not events:1]"},
		"a newer version": {
			strings.Replace(good, `"0.1"`, `"0.2"`, 1), "map[]", "map[]",
		},
		"torn":           {good + good[:30], "map[line:map[unread_line:1]]", "map[]"},
		"something else": {`{"a":1}`, "map[file:map[other_format:1]]", "map[]"},
	} {
		t.Run(name, func(t *testing.T) {
			r := sessiontest.ReadText(t, Factory(), "events.jsonl", c.text)
			if got := fmt.Sprint(r.Stats.Dropped); got != c.dropped {
				t.Errorf("%s: got %s, want %s", name, got, c.dropped)
			}
			if got := fmt.Sprint(r.Stats.Unread); got != c.unread {
				t.Errorf("%s: got %s, want %s", name, got, c.unread)
			}
		})
	}
}

// TestAnnotatedResponse: if the response has no known shape, Relay's annotation provides what the model wrote.
func TestAnnotatedResponse(t *testing.T) {
	text := event("a", "root", "llm", "start", "x", `{"content":{"messages":[{"role":"user","content":"q"}]}}`, "") +
		event("a", "root", "llm", "end", "x", `{"candidates":[]}`, `,"category_profile":{"annotated_response":{`+
			`"id":"1","message":"a","finish_reason":"tool_use","tool_calls":[{"id":"c","name":"f","arguments":{"x":1}}]}}`)
	r := sessiontest.One(t, Factory(), "events.jsonl", text, "q / a[c]*")
	ex := r.Examples[0]
	if n := ex.Graph.Nodes[1]; n.FinishReason != "tool_calls" || ex.Gaps != ttc.ParsedArguments {
		t.Errorf("%+v, %v", n, ex.Gaps.Names())
	}
}

func FuzzRead(f *testing.F) {
	f.Add(call("a", "root", "q", "a") + call("bb", "x", "q", "b") +
		event("x", "root", "agent", "start", "x", "null", ""))
	f.Fuzz(func(t *testing.T, text string) {
		sessiontest.Balanced(t, sessiontest.ReadText(t, Factory(), "events.jsonl", text+"\n"))
	})
}
