package pi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc/source/internal/detect"
	"github.com/nat-go/nat-go/ttc/source/internal/pi"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

func entry(id, parent, rest string) string {
	if parent == "" {
		parent = "null"
	} else {
		parent = `"` + parent + `"`
	}
	return `{"id":"` + id + `","parentId":` + parent + `,"timestamp":"2026-07-24T06:21:0` + id + `Z",` + rest + "}\n"
}

func message(id, parent, rest string) string {
	return entry(id, parent, `"type":"message","message":{`+rest+`}`)
}

func answer(id, parent, content string) string {
	return message(id, parent, `"role":"assistant","provider":"p","model":"m","stopReason":"stop","content":[`+content+`]`)
}

func said(text string) string { return `{"type":"text","text":"` + text + `"}` }

const header = `{"type":"session","version":3,"id":"s","timestamp":"2026-07-24T06:21:03.508Z","cwd":"/w"}` + "\n"

var lines = header +
	entry("1", "", `"type":"model_change","modelId":"m"`) +
	message("2", "1", `"role":"user","content":"q"`) +
	answer("3", "2", `{"type":"thinking","thinking":"hm"},{"type":"toolCall","id":"c","name":"ls","arguments":{"a":1}}`) +
	message("4", "3", `"role":"toolResult","toolCallId":"c","isError":true,"content":[{"type":"text","text":"no"}]`) +
	answer("5", "4", said("a")) +
	entry("6", "5", `"type":"compaction","summary":"sum","firstKeptEntryId":"4"`) +
	message("7", "6", `"role":"user","content":[{"type":"text","text":"r"}]`) +
	answer("8", "7", said("b")) +
	message("9", "2", `"role":"assistant","stopReason":"error","content":[]`) +
	answer("0", "2", said("other"))

// TestSession: each answer is a call in the context that its parents make, as a compaction changes it.
func TestSession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.jsonl")
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := detect.Recognize(t.Context(), []source.Factory{pi.Factory()}, "", path, nil)
	if err != nil || found.Source.Type != "pi" {
		t.Fatal(found, err)
	}
	for text, want := range map[string]string{
		lines:                             "s: q / other || q / [c]* / c=no! / a* || sum / c=no! / a / r / b*",
		strings.TrimPrefix(lines, header): "in: q / other || q / [c]* / c=no! / a* || sum / c=no! / a / r / b*",
	} {
		r := sessiontest.ReadText(t, pi.Factory(), "in.jsonl", text)
		sessiontest.Balanced(t, r)
		if len(r.Examples) != 1 {
			t.Fatalf("%d examples", len(r.Examples))
		}
		ex := r.Examples[0]
		if diff := cmp.Diff(want, ex.ID+": "+sessiontest.Walks(ex)); diff != "" {
			t.Error(diff)
		}
	}
}

// TestCompaction: a compaction keeps the messages from an entry on, whether or not the model was given that entry.
func TestCompaction(t *testing.T) {
	user := func(id, parent, text string) string {
		return message(id, parent, `"role":"user","content":"`+text+`"`)
	}
	keep := func(id, parent, first string) string {
		return entry(id, parent, `"type":"compaction","summary":"sum `+id+`","firstKeptEntryId":"`+first+`"`)
	}
	failed := message("4", "3", `"role":"assistant","stopReason":"error","content":[]`)
	changed := entry("4", "3", `"type":"model_change","modelId":"m"`)
	for name, c := range map[string]struct {
		fourth, rest, want string
		unknown            int64
	}{
		"an entry without a message": {changed, keep("7", "6", "4"), "q / a* / r / b* || sum 7 / r / b / s / c*", 0},
		"a failed answer":            {failed, keep("7", "6", "4"), "q / a* / r / b* || sum 7 / r / b / s / c*", 0},
		"a message":                  {changed, keep("7", "6", "6"), "q / a* / r / b* || sum 7 / b / s / c*", 0},
		"an entry that an earlier compaction dropped": {
			changed, keep("x", "6", "6") + keep("7", "x", "4"), "q / a* / r / b* || sum 7 / r / b / s / c*", 0,
		},
		"an earlier compaction": {
			changed, keep("x", "6", "6") + keep("7", "x", "x"), "q / a* / r / b* || sum 7 / s / c*", 0,
		},
		"an unknown entry": {changed, keep("7", "6", "z"), "q / a* / r / b* || sum 7 / s / c*", 1},
		"no entry":         {changed, keep("7", "6", ""), "q / a* / r / b* || sum 7 / s / c*", 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := sessiontest.One(t, pi.Factory(), "in.jsonl", header+user("2", "", "q")+answer("3", "2", said("a"))+c.fourth+
				user("5", "4", "r")+answer("6", "5", said("b"))+c.rest+user("8", "7", "s")+answer("9", "8", said("c")), c.want)
			if n := r.Stats.Unread["compactions that keep the messages from an unknown entry on"]; n != c.unknown {
				t.Errorf("%d unknown entries, want %d", n, c.unknown)
			}
		})
	}
}

// TestUnknownCompactions checks that compactions that keep no messages don't count towards the limit on the messages
// that a session's model is given.
func TestUnknownCompactions(t *testing.T) {
	var b strings.Builder
	b.WriteString(header)
	const n = 6000 // the square of it exceeds the limit
	for i := range n {
		entryOf := fmt.Sprintf(`{"id":"%d","parentId":"%d",`, i, i-1)
		if i == 0 {
			entryOf = `{"id":"0","parentId":null,`
		}
		b.WriteString(entryOf + `"type":"compaction","summary":"s","firstKeptEntryId":"none"}` + "\n")
	}
	b.WriteString(answer("x", fmt.Sprint(n-1), said("a")))
	r := sessiontest.ReadText(t, pi.Factory(), "in.jsonl", b.String())
	if len(r.Examples) != 1 || r.Stats.Unread["compactions that keep the messages from an unknown entry on"] != n {
		t.Errorf("%d examples, %+v", len(r.Examples), r.Stats)
	}
}

// TestLongSession: a session's memory grows with its length, not with the square of it.
func TestLongSession(t *testing.T) {
	var b strings.Builder
	b.WriteString(header)
	const n = 50_000
	for i := range n {
		parent := "null"
		if i > 0 {
			parent = fmt.Sprintf(`"%d"`, i-1)
		}
		fmt.Fprintf(&b, `{"id":"%d","parentId":%s,"type":"message","message":{"role":"user","content":"q"}}`+"\n", i, parent)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	sessiontest.Balanced(t, sessiontest.ReadText(t, pi.Factory(), "in.jsonl", b.String()))
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 10_000*n {
		t.Errorf("%d entries allocate %d bytes", n, used)
	}
}

// FuzzRead: whatever a file contains, reading it ends, and the books balance.
func FuzzRead(f *testing.F) {
	f.Add(lines)
	f.Add(header + message("1", "", `"role":"assistant","provider":"p","stopReason":"error","content":[]`))
	f.Add(header + entry("1", "1", `"type":"compaction","firstKeptEntryId":"1"`))
	f.Fuzz(func(t *testing.T, text string) {
		sessiontest.Balanced(t, sessiontest.ReadText(t, pi.Factory(), "in.jsonl", text+"\n"))
	})
}
