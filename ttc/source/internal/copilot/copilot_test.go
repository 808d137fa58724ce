package copilot_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc/source/internal/copilot"
	"github.com/nat-go/nat-go/ttc/source/internal/detect"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

func event(id, typ, data string) string {
	return `{"type":"` + typ + `","data":{` + data + `},"id":"` + id +
		`","timestamp":"2026-07-24T06:21:0` + id + `Z"}` + "\n"
}

func answer(id, text, requests string) string {
	return event(id, "assistant.message", `"messageId":"m`+id+`","content":"`+text+`","toolRequests":[`+requests+`]`)
}

func request(id string) string {
	return `{"toolCallId":"` + id + `","name":"ls","arguments":{"a":1}}`
}

func hook(id, prompt string) string {
	return event(id, "hook.start", `"hookType":"userPromptSubmitted","input":{"prompt":"`+prompt+`"}`)
}

func done(id, call, rest string) string {
	return event(id, "tool.execution_complete", `"toolCallId":"`+call+`",`+rest)
}

var (
	start = event("0", "session.start", `"sessionId":"s","copilotVersion":"1.0.102"`)
	asked = event("1", "user.message", `"content":"q","transformedContent":"Q"`) +
		event("2", "system.message", `"role":"system","content":"sys"`)
	// The second call ends before the first.
	worked = answer("3", "", request("c")+","+request("d")) + done("4", "d", `"success":true,"result":{"content":"two"}`) +
		done("5", "c", `"success":false,"error":{"message":"no"}`) + answer("6", "a", "")
)

// TestSession: each answer is a call in the context that the events before it make.
func TestSession(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"results in the order of their calls": {start + asked + worked, "s: sys / Q / [c][d]* / c=no! / d=two / a*"},
		"without the first event":             {asked + worked, "in: sys / Q / [c][d]* / c=no! / d=two / a*"},
		"a prompt that only a hook was told": {
			start + hook("1", "q") + answer("2", "a", "") + hook("3", "r") + answer("4", "b", ""), "s: q / a* / r / b*",
		},
		"a prompt that a hook was told, too": {
			start + asked + hook("3", "q") + answer("4", "a", "") + hook("5", "q") +
				event("6", "user.message", `"content":"r"`) + answer("7", "b", ""),
			"s: sys / Q / a* / r / b*",
		},
		"a rewind": {
			start + asked + worked + event("7", "session.snapshot_rewind", `"upToEventId":"3"`) + answer("8", "b", ""),
			"s: sys / Q / [c][d]* / c=no! / d=two / a* || sys / Q / b",
		},
		"a compaction": {
			start + asked + answer("3", "a", "") + event("4", "session.compaction_complete", `"summaryContent":"sum"`) +
				answer("5", "b", ""), "s: sys / Q / a* || sys / sum / b*",
		},
		"a compaction that failed": {
			start + asked + answer("3", "a", "") + event("4", "session.compaction_complete", `"success":false`) +
				answer("5", "b", ""), "s: sys / Q / a* / b*",
		},
		"an answer in two events": {
			start + asked + event("3", "assistant.message", `"content":"a","toolRequests":[],"chunkIndex":0,"chunkCount":2`) +
				event("4", "assistant.message", `"content":"b","toolRequests":[],"chunkIndex":1,"chunkCount":2`),
			"s: sys / Q / ab*",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := sessiontest.ReadText(t, copilot.Factory(), "in.jsonl", c.text)
			sessiontest.Balanced(t, r)
			if len(r.Examples) != 1 {
				t.Fatalf("%d examples", len(r.Examples))
			}
			if diff := cmp.Diff(c.want, r.Examples[0].ID+": "+sessiontest.Walks(r.Examples[0])); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSubAgent: what a sub-agent was told isn't told to the agent that started it.
func TestSubAgent(t *testing.T) {
	inner := strings.ReplaceAll(asked+answer("3", "x", ""), `"id":"`, `"agentId":"7","id":"`)
	r := sessiontest.ReadText(t, copilot.Factory(), "in.jsonl", start+asked+inner+answer("4", "a", ""))
	sessiontest.Balanced(t, r)
	var got []string
	for _, ex := range r.Examples {
		got = append(got, sessiontest.Walks(ex))
	}
	if diff := cmp.Diff([]string{"sys / Q / x*", "sys / Q / a*"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestUnread checks that events that change the context in an unknown way, kinds that no version had, and parts of an
// answer that doesn't end are counted.
func TestUnread(t *testing.T) {
	r := sessiontest.ReadText(t, copilot.Factory(), "in.jsonl", start+asked+answer("3", "a", "")+
		event("4", "session.truncation", "")+event("5", "novel.kind", "")+event("6", "session.idle", "")+
		event("7", "assistant.message", `"content":"b","chunkIndex":0,"chunkCount":2`))
	sessiontest.Balanced(t, r)
	want := map[string]int64{
		"events of type novel.kind": 1, "events of type session.truncation": 1, "answers without their last event": 1,
	}
	if diff := cmp.Diff(want, r.Stats.Unread); diff != "" {
		t.Error(diff)
	}
}

// TestRecognized: a file of events is known by its first one, or by an answer.
func TestRecognized(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	if err := os.WriteFile(path, []byte(start+asked+worked), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := detect.Recognize(t.Context(), []source.Factory{copilot.Factory()}, "", path, nil)
	if err != nil || found.Source.Type != "copilot" {
		t.Fatal(found, err)
	}
}

// FuzzRead: whatever a file contains, reading it ends, and the books balance.
func FuzzRead(f *testing.F) {
	f.Add(start + asked + worked)
	f.Add(start + event("1", "session.snapshot_rewind", `"upToEventId":"1"`) + answer("2", "a", request("c")))
	f.Fuzz(func(t *testing.T, text string) {
		sessiontest.Balanced(t, sessiontest.ReadText(t, copilot.Factory(), "in.jsonl", text+"\n"))
	})
}
