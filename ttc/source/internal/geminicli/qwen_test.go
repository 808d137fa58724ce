package geminicli_test

import (
	"fmt"
	"os"
	"path/filepath"
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
