package builtin

import (
	"bytes"
	"compress/gzip"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// TestStoredFormatsAreRecognised checks that exactly one of all the sources reads each format of stored calls, and that
// no other claims it.
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
				h, err := readers.ReadHead(context.Background(), path)
				if err != nil {
					t.Fatal(err)
				}
				found, err := readers.Choose(Sources(), "", h)
				if err != nil || found.Source.Type != want {
					t.Errorf("%s: %v, %v", want, found, err)
				}
			}
		})
	}
}

// TestStoredFormatsCompressed checks that each format gives the same result with gzip and with zstd, and is recognised.
func TestStoredFormatsCompressed(t *testing.T) {
	const (
		said   = `[{"role":"user","content":"q"}]`
		whole  = `{"id":"1","choices":[{"message":{"role":"assistant","content":"a"}}]}`
		items  = `[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}]`
		single = "q / a*"
	)
	for typ, text := range map[string]string{
		"chat":         `{"request":{"messages":` + said + `},"response":` + whole + `}`,
		"responses":    `{"request":{"model":"m","input":"q"},"response":{"id":"r","output":` + items + `}}`,
		"nemo_gym":     `{"responses_create_params":{"input":"q"},"response":{"output":` + items + `},"reward":1,"id":1}`,
		"langsmith":    `{"runs":[{"id":"1","run_type":"llm","inputs":{"messages":` + said + `},"outputs":` + whole + `}]}`,
		"langfuse":     `{"data":[{"id":"1","traceId":"1","type":"GENERATION","input":` + said + `,"output":"a"}]}`,
		"agent_traces": `{"harness":"pi","session_id":"s","messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}],"tools":[]}`,
	} {
		t.Run(typ, func(t *testing.T) {
			for name, data := range compressed(t, "in.jsonl", text+"\n") {
				path := sessiontest.Write(t, t.TempDir(), name, string(data))
				h, err := readers.ReadHead(context.Background(), path)
				if err != nil {
					t.Fatal(err)
				}
				found, err := readers.Choose(Sources(), "", h)
				if err != nil || found.Source.Type != typ {
					t.Fatalf("%s: %v, %v", name, found, err)
				}
				factory, _ := Source(typ)
				r := sessiontest.Read(t, factory, path)
				if len(r.Examples) != 1 {
					t.Fatalf("%s: %d examples, %+v", name, len(r.Examples), r.Drops)
				}
				if d := cmp.Diff(single, sessiontest.Walks(r.Examples[0])); d != "" {
					t.Errorf("%s: %s", name, d)
				}
			}
		})
	}
	t.Run("atof", func(t *testing.T) { compressedATOF(t) })
}

// compressedATOF reads what NeMo Relay wrote.
func compressedATOF(t *testing.T) {
	plain, err := filepath.Glob("../../../../ttc/source/internal/atof/testdata/*.jsonl")
	if err != nil || len(plain) == 0 {
		t.Fatal(plain, err)
	}
	factory, _ := Source("atof")
	for _, path := range plain {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, ex := range sessiontest.Read(t, factory, path).Examples {
			want = append(want, sessiontest.Walks(ex))
		}
		for name, data := range compressed(t, filepath.Base(path), string(text)) {
			var got []string
			r := sessiontest.Read(t, factory, sessiontest.Write(t, t.TempDir(), name, string(data)))
			for _, ex := range r.Examples {
				got = append(got, sessiontest.Walks(ex))
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s: %s", name, d)
			}
		}
	}
}

// compressed returns a file in each of its forms, by name.
func compressed(t *testing.T, name, text string) map[string][]byte {
	t.Helper()
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		name: []byte(text), name + ".gz": gz.Bytes(), name + ".zst": enc.EncodeAll([]byte(text), nil),
	}
}
