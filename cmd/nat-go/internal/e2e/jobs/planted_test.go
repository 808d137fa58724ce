package jobs

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"github.com/nat-go/nat-go/internal/redact/redacttest"
)

// plantedLog returns a request log with secrets, one in each call, in awkward places: in a question, in a diff that is
// a tool's result, in arguments with every third character as an escape, in an answer's text and in a data URL.
func plantedLog(n int) (log string, secrets []string) {
	p := redacttest.New(5)
	kinds := slices.Sorted(maps.Keys(redacttest.Kinds))
	var b strings.Builder
	for i := range n {
		before, secret, after := p.Plant(redacttest.Kinds[kinds[i%len(kinds)]])
		secrets = append(secrets, secret)
		text := [5]string{}
		for k := range text {
			text[k] = fmt.Sprintf("ordinary words of call %d", i)
		}
		place := i / len(kinds) % len(text)
		text[place] = before + secret + after
		arguments := `{"command":"` + escaped(text[2]) + `"}`
		url := "data:text/plain;base64," + base64.StdEncoding.EncodeToString([]byte("file:\n"+text[4]+"\n"))
		line, _ := json.Marshal(map[string]any{
			"request": map[string]any{"model": "m", "messages": []any{
				said("user", "look at this: "+text[0]),
				map[string]any{"role": "assistant", "content": "I look.", "tool_calls": []any{map[string]any{
					"id": "c1", "type": "function", "function": map[string]any{"name": "sh", "arguments": arguments},
				}}},
				map[string]any{
					"role":         "tool",
					"tool_call_id": "c1",
					"content":      "@@ -1 +1 @@\n-old\n+" + text[1] + "\n",
				},
				said("user", "and at "+url+" here"),
			}},
			"response": map[string]any{"id": fmt.Sprint("r", i), "choices": []any{
				map[string]any{"message": said("assistant", "It says "+text[3]+".")},
			}},
		})
		b.Write(append(line, '\n'))
	}
	return b.String(), secrets
}

func said(role, text string) map[string]any { return map[string]any{"role": role, "content": text} }

// escaped returns a text as the inside of a JSON string, with every third character as an escape.
func escaped(text string) string {
	var b strings.Builder
	for i, r := range text {
		if i%3 == 0 {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		q, _ := json.Marshal(string(r))
		b.Write(q[1 : len(q)-1])
	}
	return b.String()
}

// TestPlantedSecretsAreInNoFile runs sessions with 500 secrets of 40 kinds to rows, a page and a screen, and looks for
// them in every file and on the screen: at least 99 % were found, so that no more than five may appear.
func TestPlantedSecretsAreInNoFile(t *testing.T) {
	const n = 500
	log, secrets := plantedLog(n)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "log.jsonl"), []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := len(appearing(log, secrets)); got != n {
		t.Fatalf("%d secrets were planted, not %d", got, n)
	}
	var all strings.Builder // whatever nat-go wrote
	for _, args := range [][]string{
		{"run", "log.jsonl", "--builder", "sft", "--format", "trl", "--run-id", "r", "-v"},
		{"dataset", "show", "out/r", "--json", "--limit", "0"},
		{"dataset", "verify", "out/r"},
		{"inspect", "log.jsonl", "--json"},
		{"view", "out/r", "--export", "out/page.html"},
	} {
		cmd := exec.Command(e2e.Program(t), args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		all.Write(out)
	}
	if !strings.Contains(all.String(), "REDACTED") {
		t.Fatal("nothing was redacted")
	}
	files := 0
	err := filepath.WalkDir(filepath.Join(dir, "out"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		b, err := os.ReadFile(path)
		all.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	missed := appearing(all.String(), secrets)
	t.Logf("%d of %d secrets are in %d files", len(missed), n, files)
	if len(missed)*100 > n || files < 8 {
		t.Errorf("%d of %d secrets are in %d files: %q", len(missed), n, files, missed)
	}
}

// escapes are the escapes of JSON, and of JSON within JSON.
var escapes = regexp.MustCompile(`\\+(u[0-9a-fA-F]{4}|n|")`)

// appearing returns which secrets a text holds: as they are, with escapes, or in base64.
func appearing(text string, secrets []string) (out []string) {
	text = escapes.ReplaceAllStringFunc(text, func(escape string) string {
		switch escape = strings.TrimLeft(escape, `\`); escape[0] {
		case 'u':
			r, _ := strconv.ParseUint(escape[1:], 16, 16)
			return string(rune(r))
		case 'n':
			return "\n"
		}
		return escape
	})
	var decoded strings.Builder
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune("\"\\ ,\n", r) }) {
		if b, err := base64.StdEncoding.DecodeString(word); err == nil && len(b) > 5 {
			decoded.Write(b)
		}
	}
	for _, s := range secrets {
		if strings.Contains(text, s) || strings.Contains(decoded.String(), s) {
			out = append(out, s)
		}
	}
	return out
}
