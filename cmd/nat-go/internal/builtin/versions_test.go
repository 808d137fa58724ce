package builtin

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc/source"
)

// TestVersions: what wrote a file is counted and, if it is newer than what was tried, reported once, however many
// lines and sessions say so.
func TestVersions(t *testing.T) {
	stored := storedCalls()
	claude := strings.ReplaceAll(stored["claude_code"], "2.1.0", "2.9.0")
	codex := `{"timestamp":"2026-11-20T23:23:11.797Z","type":"session_meta","payload":{"id":"s","cli_version":"1.0.0"}}
{"timestamp":"2026-11-20T23:23:12.797Z","type":"response_item","payload":{"type":"message","role":"user","content":[]}}
`
	otlp := strings.ReplaceAll(stored["otlp"], `{"spans":`,
		`{"scope":{"name":"openinference.instrumentation.openai","version":"0.1.67"},"spans":`)
	const atif = `{"schema_version":"ATIF-v1.9","session_id":"s","agent":{"name":"a"},"steps":[]}` + "\n"
	const atof = `{"atof_version":"0.2","kind":"mark","uuid":"a","timestamp":"2026-01-01T00:00:00Z"}` + "\n"
	const trace = `{"version":2,"id":"t","agent":{},"nodes":[{"parent":null,"message":{"role":"user","content":"q"}}]}` + "\n"
	for name, c := range map[string]struct {
		typ, text string
		newer     map[string]string
	}{
		"Claude Code": {
			"claude_code", claude + strings.NewReplacer(`"s"`, `"r"`, `"m1"`, `"m2"`).Replace(claude),
			map[string]string{"Claude Code 2.9.0": "2.1.332"},
		},
		"a tried one":     {"claude_code", stored["claude_code"], nil},
		"Codex":           {"codex", codex, map[string]string{"Codex 1.0.0": "0.171.0"}},
		"instrumentation": {"otlp", otlp, map[string]string{"openinference.instrumentation.openai 0.1.67": "0.1.66"}},
		"another instrumentation": {
			"otlp", strings.ReplaceAll(otlp, "openinference.inst", "other.inst"), nil,
		},
		"ATIF":      {"atif", atif, map[string]string{"ATIF 1.9": "1.8"}},
		"ATOF":      {"atof", atof + strings.Replace(atof, `"a"`, `"b"`, 1), map[string]string{"ATOF 0.2": "0.1"}},
		"verifiers": {"verifiers", trace, map[string]string{"verifiers trace 2": "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			factory, _ := Source(c.typ)
			r := sessiontest.ReadText(t, factory, "in.jsonl", c.text)
			if d := cmp.Diff(c.newer, r.Stats.Newer); d != "" || len(r.Stats.Versions) != 1 {
				t.Errorf("%v %s", r.Stats.Versions, d)
			}
			said := 0
			for _, w := range r.Stats.Warnings() {
				said += strings.Count(w, "which is newer than")
			}
			if said != len(c.newer) {
				t.Errorf("reported %d times: %q", said, r.Stats.Warnings())
			}
		})
	}
}

// sampled returns a source that reads the given number of bytes of each file, up to the end of the current entry.
func sampled(f source.Factory, bytes int64) source.Factory {
	open := f.OpenAll
	f.OpenAll = func(ctx context.Context, config any, paths []string, opt source.Options) (source.Source, error) {
		opt.Sample = bytes
		return open(ctx, config, paths, opt)
	}
	return f
}

// TestSample reads a sample of each file: what is in it is read, nothing is reported as damaged, and the files that are
// longer are counted.
func TestSample(t *testing.T) {
	for typ, good := range storedCalls() {
		t.Run(typ, func(t *testing.T) {
			factory, _ := Source(typ)
			factory = sampled(factory, int64(len(good)))
			dir := t.TempDir()
			sessiontest.Write(t, dir, "long.jsonl", good+strings.Repeat("{\"x\":\"\xff\"}\n", 1000))
			r := sessiontest.Read(t, factory, dir)
			if len(r.Examples) != 1 || r.Stats.Cut != 1 || len(r.Stats.Dropped) != 0 {
				t.Errorf("%d examples, %d files are longer, %v", len(r.Examples), r.Stats.Cut, r.Stats.Dropped)
			}
			sessiontest.Write(t, dir, "long.jsonl", good)
			if r := sessiontest.Read(t, factory, dir); len(r.Examples) != 1 || r.Stats.Cut != 0 {
				t.Errorf("%d examples, %d files are longer", len(r.Examples), r.Stats.Cut)
			}
		})
	}
}
