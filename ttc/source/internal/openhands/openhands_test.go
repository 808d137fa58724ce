package openhands_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/source/internal/detect"
	"github.com/nat-go/nat-go/ttc/source/internal/openhands"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

func event(id, kind, rest string) string {
	return fmt.Sprintf(`{"kind":"%s","id":"%s","timestamp":"2026-07-03T10:00:00.5","source":"agent",%s}`, kind, id, rest)
}

func parts(text string) string { return `[{"type":"text","text":"` + text + `"}]` }

func user(id, text string) string {
	return strings.Replace(event(id, "MessageEvent", `"llm_message":{"role":"user","content":`+parts(text)+`}`), `"agent"`, `"user"`, 1)
}

func answer(id, text string) string {
	return event(id, "MessageEvent", `"llm_message":{"role":"assistant","content":`+parts(text)+`}`)
}

func action(id, response, thought string) string {
	return event(id, "ActionEvent", `"thought":`+thought+`,"tool_name":"ls","tool_call_id":"c`+id+`","llm_response_id":"`+response+
		`","tool_call":{"id":"c`+id+`","name":"ls","arguments":"{\"a\":  1}","origin":"completion"}`)
}

func observation(id, call, text, rest string) string {
	return event(id, "ObservationEvent", `"tool_call_id":"c`+call+`","observation":{"content":`+parts(text)+rest+`}`)
}

// old is an event of versions 0.
func old(id int, source, what string) string {
	return fmt.Sprintf(`{"id":%d,"timestamp":"2025-07-03T10:00:00.5","source":"%s",%s}`, id, source, what)
}

// response is a model's response to versions 0, with two calls, as an action has it.
func response(call string) string {
	return `"tool_call_metadata":{"function_name":"ls","tool_call_id":"` + call + `","model_response":{"id":"m1","model":"m","choices":[` +
		`{"message":{"role":"assistant","content":"t","tool_calls":[{"id":"c","type":"function","function":{"name":"ls","arguments":"{}"}},` +
		`{"id":"d","type":"function","function":{"name":"ls","arguments":"{}"}}]}}]}}`
}

func lines(events ...string) string { return strings.Join(events, "\n") }

var prompt = event("0", "SystemPromptEvent", `"system_prompt":{"type":"text","text":"sys"},"tools":[{"kind":"T"}]`)

const extras = `,"metadata":{"prefix":"<","suffix":">","working_dir":"/w","py_interpreter_path":"/p","exit_code":0}`

// TestEvents: each response is a call in the context of the events before it, as the program rendered them.
func TestEvents(t *testing.T) {
	for name, c := range map[string]struct {
		events []string
		want   string
	}{
		"calls of one response": {
			[]string{
				prompt, user("1", "q"), action("2", "r", parts("t")), action("3", "r", "[]"), observation("4", "2", "x", ""),
				observation("5", "3", "y", extras), answer("6", "a"),
			},
			"sys / q / t[c2][c3]* / c2=x / c3=<y>\n[Current working directory: /w]\n[Python interpreter: /p]\n" +
				"[Command finished with exit code 0] / a*",
		},
		"calls that failed": {
			[]string{
				user("1", "q"), action("2", "r", "[]"), event("3", "AgentErrorEvent", `"error":"no","tool_call_id":"c2"`),
				action("4", "s", "[]"), event("5", "UserRejectObservation", `"rejection_reason":"why","tool_call_id":"c4"`),
				action("6", "u", "[]"), observation("7", "6", "x", `,"is_error":true`), answer("8", "a"),
			},
			"q / [c2]* / c2=no! / [c4]* / c4=Action rejected: why! / [c6]* / c6=[An error occurred during execution.]\n\nx! / a*",
		},
		"questions in a row": {[]string{user("1", "q"), user("2", "r"), answer("3", "a")}, "q\nr / a*"},
		"a branch": {
			[]string{
				user("1", "q"), answer("2", "a"), user("3", "r"), answer("4", "b"),
				strings.Replace(user("5", "s"), "{", `{"parent_id":"2",`, 1), answer("6", "c"),
				strings.Replace(user("7", "t"), "{", `{"parent_id":"__root__",`, 1), answer("8", "d"),
			},
			"q / a* / r / b* || q / a* / s / c* || t / d*",
		},
		"a condensation": {
			[]string{
				prompt, user("1", "q"), answer("2", "a"), user("3", "r"),
				event("4", "Condensation", `"forgotten_event_ids":["1","2"],"summary":"sum","summary_offset":1`), answer("5", "b"),
			},
			"sys / q / a* || sys / sum / r / b*",
		},
		"versions 0": {
			[]string{
				old(0, "agent", `"action":"system","args":{"content":"sys","tools":[]}`), old(1, "user", `"action":"message","args":{"content":"q"}`),
				old(2, "agent", `"action":"run","args":{},`+response("c")), old(3, "agent", `"observation":"run","content":"x","extras":{"metadata":{"exit_code":1}},`+response("c")),
				old(4, "agent", `"action":"read","args":{},`+response("d")), old(5, "agent", `"observation":"error","content":"y","extras":{},`+response("d")),
				old(6, "environment", `"observation":"agent_state_changed","content":"","extras":{}`), old(7, "user", `"action":"run","args":{"command":"pwd"}`),
				old(8, "user", `"observation":"run","content":"/w","extras":{}`), old(9, "agent", `"action":"message","args":{"content":"a"}`),
			},
			"sys / q / t[c][d]* / c=x\n[Command finished with exit code 1] / d=y\n[Error occurred in processing last action]! / " +
				"User executed the command:\npwd / \n\n\nObserved result of command executed by user:\n/w / a*",
		},
		"a condensation of versions 0": {
			[]string{
				old(0, "user", `"action":"message","args":{"content":"q"}`), old(1, "agent", `"action":"message","args":{"content":"a"}`),
				old(2, "user", `"action":"message","args":{"content":"r"}`),
				old(3, "agent", `"action":"condensation","args":{"forgotten_events_start_id":1,"forgotten_events_end_id":1}`),
				old(4, "agent", `"action":"finish","args":{"thought":"b"}`),
			},
			"q / a* || q / r / b*",
		},
		"a finish of versions 0": {
			[]string{
				old(0, "user", `"action":"message","args":{"content":"q"}`), old(1, "agent", `"action":"finish","args":{},`+response("c")),
				old(2, "user", `"action":"message","args":{"content":"r"}`), old(3, "agent", `"action":"message","args":{"content":"a"}`),
			},
			"q / t[c][d]* || q / t / r / a*",
		},
	} {
		t.Run(name, func(t *testing.T) {
			text, list := lines(c.events...), `{"items":[null,{},`+strings.Join(c.events, ",")+`]}`
			for file, text := range map[string]string{"in.jsonl": text, "in.json": list, "list.json": "[" + strings.Join(c.events, ",\n") + "]"} {
				r := sessiontest.One(t, openhands.Factory(), file, text, c.want)
				sessiontest.Balanced(t, r)
				path := sessiontest.Write(t, t.TempDir(), file, text)
				found, err := detect.Recognize(t.Context(), []source.Factory{openhands.Factory()}, "", path, nil)
				if err != nil || found.Source.Type != "openhands" {
					t.Error(found, err)
				}
			}
		})
	}
}

// TestFolder: the events of a conversation are files of their own, next to its state, which names the model.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	sessiontest.Write(t, dir, "7/base_state.json", `{"id":"7","agent":{"kind":"Agent","llm":{"model":"m"}}}`)
	for i, e := range []string{prompt, user("1", "q"), answer("2", "a")} {
		sessiontest.Write(t, dir, fmt.Sprintf("7/events/event-%05d-%d.json", i, i), e)
		sessiontest.Write(t, dir, fmt.Sprintf("8/events/event-%05d-%d.json", i, i), strings.Replace(e, `"a"`, `"b"`, 1))
	}
	r := sessiontest.Read(t, openhands.Factory(), dir)
	sessiontest.Balanced(t, r)
	if len(r.Examples) != 2 || len(r.Drops) > 0 {
		t.Fatalf("%d examples, %+v", len(r.Examples), r.Drops)
	}
	got := fmt.Sprint(r.Examples[0].ID, " ", r.Examples[0].Policy, " ", sessiontest.Walks(r.Examples[0]), "; ", r.Examples[1].ID)
	if diff := cmp.Diff("7 m sys / q / a*; 8", got); diff != "" || r.Examples[0].Fidelity != ttc.Partial {
		t.Error(diff, r.Examples[0].Fidelity)
	}
}

// TestArguments: the arguments of versions 1 are in the program's spelling, and the responses of versions 0 as they came.
func TestArguments(t *testing.T) {
	for text, want := range map[string]int64{
		lines(user("1", "q"), action("2", "r", "[]"), answer("3", "a")):                                                                1,
		lines(old(0, "user", `"action":"message","args":{"content":"q"}`), old(1, "agent", `"action":"run","args":{},`+response("c"))): 0,
	} {
		r := sessiontest.ReadText(t, openhands.Factory(), "in.jsonl", text)
		if got := r.Stats.Gaps[ttc.ParsedArguments.Names()[0]]; got != want || r.Stats.Calls == 0 {
			t.Errorf("%d of %d calls have parsed arguments, want %d", got, r.Stats.Calls, want)
		}
	}
}

// TestUnread: events that may change what the model is told are counted if they aren't understood.
func TestUnread(t *testing.T) {
	r := sessiontest.ReadText(t, openhands.Factory(), "in.jsonl", strings.Join([]string{
		user("1", "q"), event("2", "NovelEvent", `"x":1`), event("3", "PauseEvent", `"x":1`), answer("4", "a"),
		old(5, "user", `"observation":"recall","content":"","extras":{}`), old(6, "agent", `"action":"novel","args":{}`),
		old(7, "agent", `"action":"run","args":{},"tool_call_metadata":{"model_response":{"id":"x"}}`),
	}, "\n"))
	sessiontest.Balanced(t, r)
	want := map[string]int64{
		"events of kind NovelEvent": 1, "events of kind recall": 1, "events of kind novel": 1, "responses without choices": 1,
	}
	if diff := cmp.Diff(want, r.Stats.Unread); diff != "" {
		t.Error(diff)
	}
}

// FuzzRead: reading any file ends, and the books balance.
func FuzzRead(f *testing.F) {
	f.Add(lines(prompt, user("1", "q"), action("2", "r", parts("t")), observation("3", "2", "x", extras), answer("4", "a")))
	f.Add(lines(strings.Replace(user("1", "q"), "{", `{"parent_id":"2",`, 1), strings.Replace(answer("2", "a"), "{", `{"parent_id":"1",`, 1)))
	f.Add(lines(`{"items":[{"items":[1]},`+user("1", "q")+`,3,null]}`, event("2", "Condensation", `"summary_offset":99999999999999,"summary":"s"`)))
	f.Add(lines(event("2", "Condensation", `"forgotten_event_ids":7,"summary_offset":-1`), answer("2", "a"), action("2", "r", "1")[:60]))
	f.Add(lines(old(1, "agent", `"action":"run","args":3,`+response("c")), old(2, "agent", `"observation":"run","content":{},"extras":[]`)))
	f.Fuzz(func(t *testing.T, text string) {
		sessiontest.Balanced(t, sessiontest.ReadText(t, openhands.Factory(), "in.jsonl", text+"\n"))
	})
}
