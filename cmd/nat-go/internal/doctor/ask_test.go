package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake returns a Python that is really a shell script: $2 is the script that it is given, and it is in the scratch
// folder.
func fake(t *testing.T, script string) *Trainer {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return &Trainer{
		Python:    path,
		Timeout:   time.Minute,
		Tokenizer: "/models/m",
		Settings:  map[string]any{"max_length": 7},
	}
}

func input(t *testing.T, lines ...string) *Input {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := file(path, MaxRows)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

const (
	tokenRow = `{"input_ids": [5, 6, 7], "labels": [-100, 6, -100]}`
	versions = `echo '{"kind": "versions", "versions": {"trl": "1.0", "python": "3"}}'; `
	rowZero  = `echo '{"kind": "row", "row": 0, "sides": {"row": {"ids": [5, 6, 7], "trained": [1, 1, 0]}}}'; `
	done     = `echo '{"kind": "done"}'`
)

// TestAsk checks what is asked and what becomes of an answer.
func TestAsk(t *testing.T) {
	t.Setenv("HF_TOKEN", "canary-token")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "canary-aws")
	scratch := t.TempDir()
	tr := fake(t, `env > env.txt; cat > question.json; `+versions+`echo '{"kind": "note", "text": "careful"}'; `+rowZero+done+`; sleep 1000`)
	a, err := tr.ask(t.Context(), input(t, tokenRow, tokenRow), scratch)
	if err != nil {
		t.Fatal(err)
	}
	// Nothing predicts the first token.
	if s := a.sides[0][0]; len(s.IDs) != 3 || s.Trained[0] || !s.Trained[1] || s.Trained[2] {
		t.Errorf("%+v", s)
	}
	if a.sides[1] != nil || a.versions["trl"] != "1.0" || len(a.notes) != 1 || a.notes[0] != "careful" {
		t.Errorf("%+v", a)
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(scratch, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, want := range []string{`"method":"sft"`, `"max_length":7`, `"tokenizer":"/models/m"`} {
		if !strings.Contains(read("question.json"), want) {
			t.Errorf("the question lacks %s: %s", want, read("question.json"))
		}
	}
	if env := read("env.txt"); strings.Contains(env, "canary") || !strings.Contains(env, "HF_HUB_OFFLINE=1") {
		t.Errorf("environment: %s", env)
	}
	if rows := strings.Split(read("rows.jsonl"), "\n"); rows[1] != `{"nat_go_row": 1, "input_ids": [5, 6, 7], "labels": [-100, 6, -100]}` {
		t.Errorf("rows: %q", rows)
	}
}

// TestAskedBadly checks that a Python that isn't there, lacks packages, refuses, dies, lies, floods or hangs is
// reported as such, and that nothing is left behind.
func TestAskedBadly(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		code   int
		want   string
	}{
		"no trl":         {`echo '{"kind": "error", "code": "missing", "text": "trl: No module named trl"}'`, exit.Environment, "-m pip install trl"},
		"refuses":        {versions + `echo '{"kind": "error", "code": "refused", "text": "TypeError: unexpected max_len"}'`, exit.Failed, "TRL 1.0 rejects these rows or settings: TypeError"},
		"dies":           {`echo "Traceback: out of luck" >&2; exit 7`, exit.Environment, "exit status 7); its last output: \"Traceback: out of luck\""},
		"no JSON":        {`echo hello; sleep 1000`, exit.Environment, `answered "hello"`},
		"unknown row":    {`echo '{"kind": "row", "row": 7, "sides": {}}'`, exit.Environment, "repeated row 7"},
		"twice":          {rowZero + rowZero, exit.Environment, "repeated row 0"},
		"wrong side":     {`echo '{"kind": "row", "row": 0, "sides": {"chosen": {"ids": [], "trained": []}}}'`, exit.Environment, "row side"},
		"mask too short": {`echo '{"kind": "row", "row": 0, "sides": {"row": {"ids": [1, 2], "trained": [1]}}}'`, exit.Environment, "2 ids and 1 mask values"},
		"floods":         {`head -c 70000000 /dev/zero | tr '\0' x; sleep 1000`, exit.Environment, "longer than 64 MiB"},
		"not done":       {versions + rowZero, exit.Environment, "exited before answering"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fake(t, c.script).ask(t.Context(), input(t, tokenRow), t.TempDir())
			if exit.Code(err) != c.code || !strings.Contains(err.Error(), c.want) {
				t.Errorf("exit %d, want %d: %v", exit.Code(err), c.code, err)
			}
		})
	}
	tr := fake(t, "sleep 1000 & sleep 1000")
	tr.Timeout = 50 * time.Millisecond
	if _, err := tr.ask(t.Context(), input(t, tokenRow), t.TempDir()); exit.Code(err) != exit.Environment ||
		!strings.Contains(err.Error(), "within 50ms") {
		t.Errorf("hangs: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fake(t, "sleep 1000").ask(ctx, input(t, tokenRow), t.TempDir()); err == nil {
		t.Error("asked although the context was cancelled")
	}
	tr.Python = filepath.Join(t.TempDir(), "nowhere")
	if _, err := tr.ask(t.Context(), input(t, tokenRow), t.TempDir()); exit.Code(err) != exit.Environment ||
		!strings.Contains(err.Error(), "--python") {
		t.Errorf("a missing Python: %v", err)
	}
}

func TestBadRows(t *testing.T) {
	for line, want := range map[string]string{
		"[]":                             "expected an object, got an array",
		"{":                              "rows.jsonl:1",
		`{"text": "a"}`:                  "no turns to compare",
		`{"input_ids": [1, 2]}`:          "labels 0",
		`{"chosen": [], "rejected": []}`: "missing prompt",
		`{"messages": {}}`:               "messages",
		`{"completion": []}`:             "missing prompt",
		"":                               "no rows",
		tokenRow + "\n" + `{"prompt": "a", "chosen": "b", "rejected": "c"}`: "rows.jsonl:2: row is for dpo",
	} {
		t.Run(line, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rows.jsonl")
			if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := file(path, MaxRows); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", line, err, want)
			}
		})
	}
}
