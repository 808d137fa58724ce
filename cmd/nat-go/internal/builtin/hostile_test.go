package builtin

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// storedCalls returns, for formats of stored calls, a file with one call: the question q and the answer a.
func storedCalls() map[string]string {
	const (
		said  = `[{"role":"user","content":"q"}]`
		whole = `{"id":"1","choices":[{"message":{"role":"assistant","content":"a"}}]}`
		items = `[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}]`
	)
	return map[string]string{
		"chat":      `{"request":{"messages":` + said + `},"response":` + whole + `}` + "\n",
		"responses": `{"request":{"model":"m","input":"q"},"response":{"id":"r","output":` + items + `}}` + "\n",
		"nemo_gym": `{"responses_create_params":{"input":"q"},"response":{"output":` + items + `},"reward":1,"id":1}` +
			"\n",
		"langsmith": `{"id":"1","run_type":"llm","inputs":{"messages":` + said + `},"outputs":` + whole + `}` + "\n",
		"langfuse":  `{"id":"1","traceId":"1","type":"GENERATION","input":` + said + `,"output":"a"}` + "\n",
		"agent_traces": `{"harness":"pi","session_id":"s","messages":[{"role":"user","content":"q"},` +
			`{"role":"assistant","content":"a"}],"tools":[]}` + "\n",
		"claude_code": `{"type":"user","uuid":"u","parentUuid":null,"sessionId":"s","version":"2.1.0",` +
			`"message":{"role":"user","content":"q"}}` + "\n" + `{"type":"assistant","uuid":"v","parentUuid":"u",` +
			`"sessionId":"s","version":"2.1.0","message":{"id":"m1","role":"assistant","model":"m",` +
			`"content":[{"type":"text","text":"a"}]}}` + "\n",
		"otlp": `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"` + strings.Repeat("0a", 16) +
			`","spanId":"00000000000000aa","startTimeUnixNano":"1795216992199495199","attributes":[` +
			`{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},` +
			`{"key":"gen_ai.input.messages","value":{"stringValue":` + sessiontest.Quote(
			`[{"role":"user","parts":[{"type":"text","content":"q"}]}]`) + `}},` +
			`{"key":"gen_ai.output.messages","value":{"stringValue":` + sessiontest.Quote(
			`[{"role":"assistant","parts":[{"type":"text","content":"a"}]}]`) + `}}]}]}]}]}` + "\n",
	}
}

var oneUnread = map[string]map[ledger.Reason]int64{"line": {"unread_line": 1}}

// TestHostileFiles damages a file of each format: the sound part is read, and the rest is counted.
func TestHostileFiles(t *testing.T) {
	for typ, good := range storedCalls() {
		factory, _ := Source(typ)
		for name, c := range map[string]struct {
			text string
			want map[string]map[ledger.Reason]int64
		}{
			"sound":     {good, nil},
			"torn":      {good + good[:len(good)/3], oneUnread},
			"not UTF-8": {good + "{\"x\":\"\xff\"}\n", oneUnread},
			"no object": {good + "[1]\n", oneUnread},
		} {
			t.Run(typ+"/"+name, func(t *testing.T) {
				r := sessiontest.ReadText(t, factory, "in.jsonl", c.text)
				if len(r.Examples) != 1 {
					t.Fatalf("%d examples: %+v", len(r.Examples), r.Drops)
				}
				if d := cmp.Diff("q / a*", sessiontest.Walks(r.Examples[0])); d != "" {
					t.Error(d)
				}
				if d := cmp.Diff(c.want, r.Stats.Dropped); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

// TestLongLines reads a line beyond the limit of 32 MiB, which is a few kilobytes as zstd, ahead of a sound call: the
// line is counted, the call is read, and a line four times as long takes no more memory.
func TestLongLines(t *testing.T) {
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for typ, good := range storedCalls() {
		t.Run(typ, func(t *testing.T) {
			factory, _ := Source(typ)
			var allocated [2]uint64
			for i, size := range []int{64 << 20, 256 << 20} {
				bomb := enc.EncodeAll([]byte(`{"x":"`+strings.Repeat("x", size)+"\"}\n"+good), nil)
				path := sessiontest.Write(t, t.TempDir(), "in.jsonl.zst", string(bomb))
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				r := sessiontest.Read(t, factory, path)
				runtime.ReadMemStats(&after)
				allocated[i] = after.TotalAlloc - before.TotalAlloc
				if len(r.Examples) != 1 || sessiontest.Walks(r.Examples[0]) != "q / a*" {
					t.Fatalf("%d examples: %+v", len(r.Examples), r.Drops)
				}
				if d := cmp.Diff(oneUnread, r.Stats.Dropped); d != "" {
					t.Error(d)
				}
			}
			if allocated[1] > allocated[0]+(32<<20) {
				t.Errorf("64 MiB: %d MiB are allocated, 256 MiB: %d", allocated[0]>>20, allocated[1]>>20)
			}
		})
	}
}

// TestMixedFolder puts files of all formats into one folder: each source reads its own, and says that the others are of
// other formats.
func TestMixedFolder(t *testing.T) {
	dir := t.TempDir()
	for typ, text := range storedCalls() {
		sessiontest.Write(t, dir, typ+".jsonl", text)
	}
	for typ := range storedCalls() {
		t.Run(typ, func(t *testing.T) {
			factory, _ := Source(typ)
			r := sessiontest.Read(t, factory, dir)
			if len(r.Examples) != 1 || sessiontest.Walks(r.Examples[0]) != "q / a*" {
				t.Fatalf("%d examples: %+v", len(r.Examples), r.Drops)
			}
			for _, d := range r.Drops {
				if d.File == filepath.Join(dir, typ+".jsonl") {
					t.Errorf("its own file: %+v", d)
				}
			}
			if len(r.Drops) == 0 {
				t.Error("the other files are not counted")
			}
		})
	}
}
