package builtin

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/nat-go/nat-go/ttc/source/detect"
)

// TestStoredFormatsAreRecognised: of all sources there are, one reads each format of stored calls, and no other claims
// it.
func TestStoredFormatsAreRecognised(t *testing.T) {
	const (
		said   = `[{"role":"user","content":"q"}]`
		answer = `{"id":"1","choices":[{"message":{"role":"assistant","content":"a"}}]}`
	)
	for want, text := range map[string]string{
		"chat":         `{"request":{"messages":` + said + `},"response":` + answer + `}`,
		"responses":    `{"request":{"model":"m","input":"q"},"response":{"output":[]}}`,
		"nemo_gym":     `{"responses_create_params":{"input":"q"},"response":{"output":[]},"reward":1,"id":1}`,
		"atof":         `{"atof_version":"0.1","kind":"mark","uuid":"1","data":{"messages":` + said + `}}`,
		"langsmith":    `{"id":"1","run_type":"llm","inputs":{"messages":` + said + `},"outputs":` + answer + `}`,
		"langfuse":     `{"id":"1","trace_id":"1","type":"GENERATION","input":` + said + `,"output":"a"}`,
		"agent_traces": `{"harness":"pi","session_id":"s","prompt":"q","messages":` + said + `,"tools":[],"trace":[]}`,
		"traces":       `{"messages":` + said + `,"harness":null}`,
	} {
		t.Run(want, func(t *testing.T) {
			for name, text := range map[string]string{"in.jsonl": text + "\n" + text, "in.json": "[\n" + text + "]"} {
				path := filepath.Join(t.TempDir(), name)
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				h, err := detect.ReadHead(context.Background(), path)
				if err != nil {
					t.Fatal(err)
				}
				found, err := detect.Choose(Sources(), "", h)
				if err != nil || found.Source.Type != want {
					t.Errorf("%s: %v, %v", want, found, err)
				}
			}
		})
	}
}
