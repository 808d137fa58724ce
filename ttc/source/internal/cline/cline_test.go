package cline_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/source/internal/cline"
	"github.com/nat-go/nat-go/ttc/source/internal/detect"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

func said(role, blocks string) string { return `{"role":"` + role + `","content":[` + blocks + `]}` }

func text(text string) string { return `{"type":"text","text":"` + text + `"}` }

func result(id, content string) string {
	return said("user", `{"type":"tool_result","tool_use_id":"`+id+`","content":`+content+`}`)
}

func stored(messages ...string) string {
	return `{"version":1,"agent":"lead","sessionId":"s","system_prompt":"sys","messages":[` + strings.Join(messages, ",") + `]}`
}

const call = `{"type":"tool_use","id":"c","name":"ls","input":{"a": 1}}`

var asked = said("user", text(`<user_input mode=\"act\">q</user_input>`))

// TestSession: each answer is a call in the context of the messages before it, as they were sent.
func TestSession(t *testing.T) {
	task := said("user", text(`<task>\nq\n</task>`)+","+text(`<environment_details>\ne\n</environment_details>`))
	for name, c := range map[string]struct{ file, text, want string }{
		"a result that is a value": {
			"s.messages.json",
			stored(asked, said("assistant", text("t")+","+call), result("c", `[{"query": "x", "result": "y"}]`), said("assistant", text("a"))),
			`s: sys / q / t[c]* / c=[{"query":"x","result":"y"}] / a*`,
		},
		"results that are a text, blocks and an object": {
			"s.messages.json",
			stored(asked, said("assistant", call), result("c", `"r"`), said("assistant", call), result("c", `[`+text("r")+`]`),
				said("assistant", call), result("c", `{"r": [1, 2]}`), said("assistant", text("a"))),
			`s: sys / q / [c]* / c=r / [c]* / c=r / [c]* / c={"r":[1,2]} / a*`,
		},
		"a result beside a text": {
			"s.messages.json",
			stored(asked, said("assistant", call),
				said("user", text("more")+`,{"type":"tool_result","tool_use_id":"c","content":{}}`), said("assistant", text("a"))),
			"s: sys / q / [c]* / c={} / more / a*",
		},
		"a task, whose calls are XML": {
			"tasks/7/api_conversation_history.json", "[" + task + "," + said("assistant", text("<ls>x</ls>")) + "," +
				said("user", text("[ls] Result:")) + "," + said("assistant", text("a")) + "]",
			"7: <task>\nq\n</task>\n<environment_details>\ne\n</environment_details> / <ls>x</ls>* / [ls] Result: / a*",
		},
		"a tag that isn't closed": {
			"s.messages.json", stored(said("user", text(`<user_input mode=\"act\"</user_input>`)), said("assistant", text("a"))),
			`s: sys / <user_input mode="act"</user_input> / a*`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := sessiontest.ReadText(t, cline.Factory(), c.file, c.text)
			sessiontest.Balanced(t, r)
			if len(r.Examples) != 1 {
				t.Fatalf("%d examples, %+v", len(r.Examples), r.Drops)
			}
			if diff := cmp.Diff(c.want, r.Examples[0].ID+": "+sessiontest.Walks(r.Examples[0])); diff != "" {
				t.Error(diff)
			}
			if r.Examples[0].Fidelity != ttc.Partial {
				t.Error(r.Examples[0].Fidelity)
			}
			path := sessiontest.Write(t, t.TempDir(), c.file, c.text)
			found, err := detect.Recognize(t.Context(), []source.Factory{cline.Factory()}, "", path, nil)
			if err != nil || found.Source.Type != "cline" {
				t.Error(found, err)
			}
		})
	}
}

// TestFolder: of a task's folder, only the conversation is read.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	sessiontest.Write(t, dir, "1/api_conversation_history.json", "["+asked+","+said("assistant", text("a"))+"]")
	sessiontest.Write(t, dir, "1/ui_messages.json", `[{"ts":1,"type":"say","text":"x"}]`)
	sessiontest.Write(t, dir, "1/task_metadata.json", `{"files_in_context":[]}`)
	r := sessiontest.Read(t, cline.Factory(), dir)
	if len(r.Examples) != 1 || sessiontest.Walks(r.Examples[0]) != "q / a*" || r.Examples[0].ID != "1" {
		t.Errorf("%+v", r)
	}
}

// TestEqualMessages: a message that a task repeats is in the history each time, even if a copy of the file is read too.
func TestEqualMessages(t *testing.T) {
	failed, why := said("assistant", text("Failure")), said("user", text("[ERROR]"))
	first := "[" + said("user", text(`<task>\nq`)) + "," + failed + "," + why
	dir, want := t.TempDir(), "<task>\nq / Failure* / [ERROR] / Failure* / [ERROR] / a*"
	whole := first + "," + failed + "," + why + "," + said("assistant", text("a")) + "]"
	for i, c := range []struct {
		file, text string
		dropped    int64
	}{
		{"b/7/api_conversation_history.json", whole, 0},
		{"c/7/api_conversation_history.json", whole, 6},
		{"a/7/api_conversation_history.json", first + "]", 9},
	} {
		sessiontest.Write(t, dir, c.file, c.text)
		r := sessiontest.Read(t, cline.Factory(), dir)
		sessiontest.Balanced(t, r)
		if len(r.Examples) != 1 || r.Stats.Calls != 3 || r.Stats.Dropped["session"][source.IdenticalRow] != c.dropped {
			t.Fatalf("%d files: %d calls, %+v", i+1, r.Stats.Calls, r.Drops)
		}
		if diff := cmp.Diff(want, sessiontest.Walks(r.Examples[0])); diff != "" {
			t.Error(diff)
		}
	}
}

// FuzzRead: reading any file ends, and the books balance.
func FuzzRead(f *testing.F) {
	f.Add(stored(asked, said("assistant", call), result("c", `{"r":"x"}`), said("assistant", text("a"))))
	f.Add("[" + asked + "," + said("assistant", text("a")) + "," + said("system", "") + ",1]")
	f.Add(stored(`1`, `{"role":1}`, `{"role":"assistant","content":{}}`, result("", `[1,[2],{"type":3}]`), said("assistant", "1")))
	f.Add(stored(asked)[:100])
	f.Fuzz(func(t *testing.T, text string) {
		sessiontest.Balanced(t, sessiontest.ReadText(t, cline.Factory(), "in.json", text+"\n"))
	})
}
