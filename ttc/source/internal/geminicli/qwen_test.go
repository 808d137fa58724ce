package geminicli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/source/internal/claudecode"
	"github.com/nat-go/nat-go/ttc/source/internal/detect"
	"github.com/nat-go/nat-go/ttc/source/internal/geminicli"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

const lines = `{"uuid":"1","parentUuid":null,"sessionId":"s","type":"user","version":"0.15.10","message":{"role":"user","parts":[{"text":"List it."}]}}
{"uuid":"2","parentUuid":"1","sessionId":"s","type":"assistant","model":"m","message":{"role":"model","parts":[{"text":"hm","thought":true},{"text":"Yes."},{"functionCall":{"id":"c","name":"ls","args":{"p":"."}}}]}}
{"uuid":"3","parentUuid":"2","sessionId":"s","type":"tool_result","message":{"role":"user","parts":[{"functionResponse":{"id":"c","name":"ls","response":{"error":"no such folder"}}}]}}
{"uuid":"4","parentUuid":"3","sessionId":"s","type":"system","subtype":"ui_telemetry"}
{"uuid":"5","parentUuid":"3","sessionId":"s","type":"assistant","model":"m","message":{"role":"model","parts":[{"text":"It isn't there."}]}}
{"uuid":"6","parentUuid":"2","sessionId":"s","type":"tool_result","message":{"role":"user","parts":[{"functionResponse":{"id":"c","name":"ls","response":{"output":"a.txt"}}}]}}
{"uuid":"7","parentUuid":"6","sessionId":"s","type":"assistant","model":"m","message":{"role":"model","parts":[{"text":"a.txt"}]}}
`

// TestLongSession: a session's memory grows with its length, not with the square of it.
func TestLongSession(t *testing.T) {
	var b strings.Builder
	const n = 20_000
	for i := range n {
		fmt.Fprintf(&b, `{"uuid":"%d","parentUuid":"%d","sessionId":"s","type":"user","message":{"role":"user","parts":[{"text":"q"}]}}`+"\n",
			i, i-1)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	sessiontest.Balanced(t, sessiontest.ReadText(t, geminicli.Qwen(), "in.jsonl", b.String()))
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 10_000*n {
		t.Errorf("%d lines allocate %d bytes", n, used)
	}
}

// TestSession: each line of the model is a call in the context that its parents make, and nothing is taken for a
// session of Claude Code.
func TestSession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.jsonl")
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	all := []source.Factory{claudecode.Factory(), geminicli.Qwen()}
	found, err := detect.Recognize(t.Context(), all, "", path, nil)
	if err != nil || found.Source.Type != "qwen_code" {
		t.Fatal(found, err)
	}
	r := sessiontest.Read(t, geminicli.Qwen(), path)
	if len(r.Examples) != 1 || r.Stats.Calls != 3 {
		t.Fatalf("%d examples, %+v", len(r.Examples), r.Stats)
	}
	var got []string
	g := &r.Examples[0].Graph
	for _, leaf := range g.Leaves() {
		var path []string
		for n := leaf; n >= 0; n = g.Nodes[n].Parent {
			path = append([]string{describe(&g.Nodes[n])}, path...)
		}
		got = append(got, strings.Join(path, " | "))
	}
	want := []string{
		"user List it. | assistant Yes. (hm) ls({\"p\":\".\"}) | tool no such folder failed | assistant It isn't there.",
		"user List it. | assistant Yes. (hm) ls({\"p\":\".\"}) | tool a.txt | assistant a.txt",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if r.Examples[0].Fidelity != ttc.Partial {
		t.Errorf("fidelity %s", r.Examples[0].Fidelity)
	}
}

func describe(n *ttc.Node) string {
	s := n.Message.Role + " " + n.Message.Text
	if n.Message.Reasoning != "" {
		s += " (" + n.Message.Reasoning + ")"
	}
	for _, c := range n.Message.ToolCalls {
		s += fmt.Sprintf(" %s(%s)", c.Name, c.Arguments)
	}
	if n.Error != nil && *n.Error {
		s += " failed"
	}
	return s
}
