package geminicli_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc/source/internal/geminicli"
)

const (
	geminiHead = `{"sessionId":"s","projectHash":"h","kind":"main"}` + "\n"
	asked      = `{"id":"1","type":"user","content":[{"text":"q"}]}`
	begun      = `{"id":"2","type":"gemini","content":"","thoughts":[]}`
	called     = `{"id":"2","type":"gemini","content":"","toolCalls":[` +
		`{"id":"c","name":"ls","args":{"a":1},"result":[{"functionResponse":{"id":"c","response":{"error":"no"}}}]}]}`
	told     = `{"id":"3","type":"user","content":[{"functionResponse":{"id":"c","response":{"error":"no"}}}]}`
	other    = `{"id":"5","type":"gemini","content":"b"}`
	answered = `{"id":"4","type":"gemini","content":"a"}`
)

// TestGemini: a record that is written again counts as it was written last, in the place where it was first.
func TestGemini(t *testing.T) {
	talk := asked + "\n" + begun + "\n" + called + "\n" + told + "\n" + answered + "\n"
	for name, c := range map[string]struct{ text, want string }{
		"rewritten": {geminiHead + talk, "s: q / [c]* / c=no! / a*"},
		"results beside their calls only": {
			geminiHead + asked + "\n" + called + "\n" + answered + "\n", "s: q / [c]* / c=no! / a*",
		},
		"the older form": {
			`{"sessionId":"s","projectHash":"h","messages":[` + asked + "," + called + "," + answered + "]}",
			"s: q / [c]* / c=no! / a*",
		},
		"messages replaced": {
			geminiHead + talk + `{"$set":{"messages":[` + asked + `]}}` + "\n" + other,
			"s: q / [c]* / c=no! / a* || q / b",
		},
		"a rewind": {
			geminiHead + talk + `{"$rewindTo":"4"}` + "\n" + other,
			"s: q / [c]* / c=no! / a || q / [c]* / c=no! / b",
		},
		"calls as parts, too": {
			geminiHead + asked + "\n" + `{"id":"2","type":"gemini","content":` +
				`[{"text":"t"},{"functionCall":{"id":"c","name":"ls"}}],"toolCalls":[{"id":"c","name":"ls"}]}`, "s: q / t[c]*",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := sessiontest.ReadText(t, geminicli.Gemini(), "in.jsonl", c.text)
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

// TestGeminiParts: files are kept, and what isn't known is counted.
func TestGeminiParts(t *testing.T) {
	r := sessiontest.ReadText(t, geminicli.Gemini(), "in.jsonl", geminiHead+
		`{"id":"1","type":"user","content":["see",{"inlineData":{"data":"AA"}},{"novel":1}]}`+"\n"+
		`{"id":"2","type":"spoken","content":"x"}`+"\n"+`{"id":"3","type":"info","content":"x"}`+"\n"+answered)
	sessiontest.Balanced(t, r)
	want := map[string]int64{
		"parts of messages that are neither texts nor files nor calls nor results": 1, "records of type spoken": 1,
	}
	if diff := cmp.Diff(want, r.Stats.Unread); diff != "" {
		t.Error(diff)
	}
	m := r.Examples[0].Graph.Nodes[0].Message
	if len(m.Parts) != 2 || m.Parts[0].Text != "see" || m.Parts[1].Type != "file" {
		t.Errorf("parts %+v", m.Parts)
	}
}

// FuzzGemini: whatever a file contains, reading it ends, and the books balance.
func FuzzGemini(f *testing.F) {
	f.Add(geminiHead + asked + "\n" + begun + "\n" + called + "\n" + told + "\n" + answered)
	f.Add(geminiHead + `{"$set":{"messages":[` + asked + "," + called + `]}}` + "\n" + `{"$rewindTo":"1"}`)
	f.Fuzz(func(t *testing.T, text string) {
		sessiontest.Balanced(t, sessiontest.ReadText(t, geminicli.Gemini(), "in.jsonl", text+"\n"))
	})
}
