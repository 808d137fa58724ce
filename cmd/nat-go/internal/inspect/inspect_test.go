package inspect_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// writeAll writes files, and returns their folder.
func writeAll(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// logged returns n lines of a request log, each a session of its own with a question of at least that many characters.
func logged(from, n, length int) string {
	var b strings.Builder
	for i := from; i < from+n; i++ {
		fmt.Fprintf(&b, `{"request":{"model":"m","messages":[{"role":"user","content":"q%d%s"}]},"response":{"id":"r%d",`+
			`"usage":{"prompt_tokens":7,"completion_tokens":2},"choices":[{"message":{"role":"assistant","content":"a"}}]}}`+
			"\n", i, strings.Repeat("x", length), i)
	}
	return b.String()
}

const session = `{"type":"user","uuid":"u","parentUuid":null,"sessionId":"s","version":"2.9.0",` +
	`"message":{"role":"user","content":"q"}}
{"type":"new-in-2.9","sessionId":"s"}
{"type":"assistant","uuid":"v","parentUuid":"u","sessionId":"s","version":"2.9.0",` +
	`"message":{"id":"m1","role":"assistant","model":"m","content":[{"type":"text","text":"a"}]}}
`

// TestPipeInAFolder: a pipe that lies in a folder is passed over, and named; reading it would wait for a writer.
func TestPipeInAFolder(t *testing.T) {
	dir := writeAll(t, map[string]string{"b.jsonl": logged(0, 3, 0)})
	if err := syscall.Mkfifo(filepath.Join(dir, "x.jsonl"), 0o600); err != nil {
		t.Skipf("SKIPPED: no named pipes here: %v", err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	r, err := inspect.Look(ctx, inspect.Options{Paths: []string{dir}})
	if err != nil || len(r.Passed) != 1 || filepath.Base(r.Passed[0].Path) != "x.jsonl" ||
		!strings.Contains(r.Passed[0].Why, "a pipe") {
		t.Errorf("%+v, %v", r, err)
	}
	all, err := inspect.Inspect(ctx, inspect.Options{Paths: []string{dir}})
	if err != nil || len(all.Reports) != 1 || len(all.Reports[0].Passed) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	if err := os.Remove(filepath.Join(dir, "b.jsonl")); err != nil {
		t.Fatal(err)
	}
	if _, err := inspect.Look(ctx, inspect.Options{Paths: []string{dir}}); err == nil || !strings.Contains(err.Error(),
		"a pipe") {
		t.Errorf("alone: %v", err)
	}
}

// TestInspectFolder: a folder with files of several formats, and some of none, is reported format by format.
func TestInspectFolder(t *testing.T) {
	dir := writeAll(t, map[string]string{
		"a/one.jsonl":     session,
		"b.jsonl":         logged(0, 3, 0),
		"c.jsonl":         logged(3, 2, 0),
		"notes.json":      `{"a": {}}`,
		"empty.jsonl":     "",
		"talk.jsonl":      `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}`,
		".hidden/x.jsonl": "{",
	})
	found, err := inspect.Inspect(context.Background(), inspect.Options{Paths: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	var screen bytes.Buffer
	for _, r := range found.Reports {
		got = append(got, fmt.Sprintf("%s: %d files, %d examples", r.Source, r.Files, r.Examples))
		for _, s := range r.Passed {
			got = append(got, filepath.Base(s.Path)+" "+s.Why)
		}
		if err := r.Screen(&screen); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"claude_code: 1 files, 1 examples", "chat: 2 files, 5 examples", "traces: 1 files, 1 examples",
		"empty.jsonl it is empty", "notes.json its keys are: a",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, line := range []string{
		"sessions  1, with 1 model call and 1 branch of their histories",
		"versions  Claude Code 2.9.0 (newer than 2.1.332, the newest that was tried)",
		"unread    lines of type new-in-2.9, 1 time",
		"usage     35 prompt tokens, 10 output tokens, as recorded for the trained calls",
		"better    if you record the tool definitions, the system prompt and the requests themselves, 1 more call", "fidelity  1 call partial", "models    m",
	} {
		if !strings.Contains(screen.String(), line) {
			t.Errorf("not on the screen: %q\n%s", line, &screen)
		}
	}
}

func TestInspectNothingKnown(t *testing.T) {
	dir := writeAll(t, map[string]string{"a.json": `{"a": {}}`, "b.json": `{"b": {}}`})
	_, err := inspect.Inspect(context.Background(), inspect.Options{Paths: []string{dir}})
	if err == nil || !strings.Contains(err.Error(), "can't tell what "+filepath.Join(dir, "a.json")+" is") {
		t.Errorf("%v", err)
	}
}

// TestInspectReadsSessions: sessions are read to their end, unless a sample is asked for, whose size is reported; of
// conversations only the beginning is read.
func TestInspectReadsSessions(t *testing.T) {
	const many = 2_000
	talks := strings.Repeat(`{"messages":[{"role":"user","content":"`+strings.Repeat("x", 3000)+`"},{"role":"assistant","content":"a"}]}`+"\n", many)
	for name, c := range map[string]struct {
		text       string
		quick      bool
		most       int // examples
		whole      bool
		tried, cut int
		line       string
	}{
		"sessions": {logged(0, many, 0), false, many, true, 1000, 0, "builders  were tried on the first 1000 examples"},
		"a sample of sessions": {
			logged(0, many, 3000), true, many - 1, false, 1000, 1,
			"sample    at most 4096 KiB of each file; 1 file is longer",
		},
		"few sessions": {
			logged(0, 5, 0), true, 5, true, 0, 0, "sample    at most 4096 KiB of each file; 0 files are longer",
		},
		"conversations": {talks, false, 1000, false, 0, 0, "examples  1000 (only the beginning was read)"},
		"a sample of conversations": {
			talks, true, many - 1, false, 1000, 1,
			"sample    at most 4096 KiB of each file; 1 file is longer",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeAll(t, map[string]string{"in.jsonl": c.text})
			found, err := inspect.Inspect(context.Background(), inspect.Options{Paths: []string{dir}, Quick: c.quick})
			if err != nil {
				t.Fatal(err)
			}
			r := found.Reports[0]
			if r.Examples > c.most || !c.quick && r.Examples != c.most || r.Examples == 0 || r.Whole != c.whole ||
				r.Tried != c.tried || r.Cut != int64(c.cut) {
				t.Errorf("%d examples, whole %v, tried on %d, %d files are longer", r.Examples, r.Whole, r.Tried, r.Cut)
			}
			var screen bytes.Buffer
			if err := r.Screen(&screen); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(screen.String(), c.line) {
				t.Errorf("not on the screen: %q\n%s", c.line, &screen)
			}
		})
	}
}

// TestMapNames: whatever people are told that --map takes, it takes.
func TestMapNames(t *testing.T) {
	known := inspect.MapNames()
	for _, name := range strings.Split(readers.MapTakes, ", ") {
		if !slices.Contains(known, name) {
			t.Errorf("--map doesn't take %s", name)
		}
	}
}
